"""Scratch memory inside kernels: borrowed, and given back by the one who borrowed it.

Kernels are compiled without Numba's reference counts (`parts.py`), so NumPy's allocating functions do not work in them.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from .parts import intrinsic

# The widest vector registers there are: arrays that start on such a boundary are read a third faster.
ALIGNMENT = 64

_INT, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_POINTER_BYTES = 8


def _number(n):
    return ir.Constant(_INT, n)


@intrinsic
def _borrow(context, count, like):
    """The address that was allocated stands before the first aligned one behind it."""
    result = types.Array(like.dtype, 1, "C")

    def codegen(context, b, signature, args):
        array = make_array(result)(context, b)
        size = _number(like.dtype.bitwidth // 8)
        kind = ir.FunctionType(_BYTES, [_INT])
        allocate = cgutils.get_or_insert_function(b.module, kind, "NRT_Allocate")
        room = b.ptrtoint(b.call(allocate, [b.add(b.mul(args[0], size), _number(ALIGNMENT + _POINTER_BYTES))]), _INT)
        start = b.and_(b.add(room, _number(ALIGNMENT + _POINTER_BYTES - 1)), _number(-ALIGNMENT))
        b.store(room, b.inttoptr(b.sub(start, _number(_POINTER_BYTES)), _INT.as_pointer()))
        populate_array(array, b.inttoptr(start, array.data.type), [args[0]], [size], size, None)
        return array._getvalue()

    return result(types.int64, like), codegen


@intrinsic
def _give_back(context, array):
    def codegen(context, b, signature, args):
        start = b.ptrtoint(context.make_array(array)(context, b, args[0]).data, _INT)
        room = b.load(b.inttoptr(b.sub(start, _number(_POINTER_BYTES)), _INT.as_pointer()))
        free = cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.VoidType(), [_BYTES]), "NRT_Free")
        b.call(free, [b.inttoptr(room, _BYTES)])
        return context.get_dummy_value()

    return types.void(array), codegen


def _plain_borrow(count, like):
    return np.empty(count, like.dtype)


def _plain_give_back(array):
    pass


# borrow(count, like): an uninitialised aligned vector of the dtype of `like`. give_back(what was borrowed).
if numba.config.DISABLE_JIT:
    borrow, give_back = _plain_borrow, _plain_give_back
else:
    borrow, give_back = _borrow, _give_back
