"""A vector of eight float64 that Numba keeps in a register: ``load``, ``store`` and the few operations on them.

For algorithms that run the same scalar steps on eight problems at once. Numba would unroll a loop over eight lanes into
scalar code; here each operation is one LLVM vector instruction. Arrays are one-dimensional; offsets count elements.
A float32 array is widened as it is loaded and rounded as it is stored. With the JIT off the same names work on NumPy
slices.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from .jit import intrinsic

LANES = 8

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class LanesType(types.Type):
    def __init__(self):
        super().__init__(name="Lanes")


lanes_type = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _VECTOR)


def _pointer(context, b, kind, array, offset):
    """The address, the vector type in memory, and the alignment of array[offset:]."""
    data = context.make_array(kind)(context, b, array).data
    stored = ir.VectorType(context.get_data_type(kind.dtype), LANES)
    return b.bitcast(b.gep(data, [offset]), stored.as_pointer()), stored, kind.dtype.bitwidth // 8


@intrinsic
def _load(context, array, offset):
    def codegen(context, b, signature, args):
        place, stored, size = _pointer(context, b, signature.args[0], *args)
        value = b.load(place, align=size)
        return value if stored == _VECTOR else b.fpext(value, _VECTOR)

    return lanes_type(array, types.intp), codegen


@intrinsic
def _store(context, array, offset, value):
    def codegen(context, b, signature, args):
        place, stored, size = _pointer(context, b, signature.args[0], *args[:2])
        b.store(args[2] if stored == _VECTOR else b.fptrunc(args[2], stored), place, align=size)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes_type), codegen


@intrinsic
def _fill(context, number):
    def codegen(context, b, signature, args):
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = b.insert_element(undefined, args[0], ir.Constant(ir.IntType(32), 0))
        return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    return lanes_type(types.float64), codegen


@intrinsic
def _multiply_add(context, a, b, c):
    def codegen(context, b, signature, args):
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.fma.v{LANES}f64"), args)

    return lanes_type(lanes_type, lanes_type, lanes_type), codegen


@intrinsic
def _multiply(context, a, b):
    return lanes_type(lanes_type, lanes_type), lambda context, b, signature, args: b.fmul(*args)


@intrinsic
def _negate(context, a):
    def codegen(context, b, signature, args):
        return b.fsub(ir.Constant(_VECTOR, [-0.0] * LANES), args[0])

    return lanes_type(lanes_type), codegen


@intrinsic
def _reciprocal_root(context, a):
    def codegen(context, b, signature, args):
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        root = b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.sqrt.v{LANES}f64"), args)
        zero, one = (ir.Constant(_VECTOR, [value] * LANES) for value in (0.0, 1.0))
        return b.select(b.fcmp_ordered(">", args[0], zero), b.fdiv(one, root), zero)

    return lanes_type(lanes_type), codegen


def _plain_store(array, offset, value):
    array[offset : offset + LANES] = value


def _plain_reciprocal_root(a):
    positive = a > 0.0
    return np.where(positive, 1.0 / np.sqrt(np.where(positive, a, 1.0)), 0.0)


if numba.config.DISABLE_JIT:

    def load(array, offset):
        return array[offset : offset + LANES].astype(np.float64)

    def fill(number):
        return np.full(LANES, number)

    def multiply_add(a, b, c):
        return a * b + c

    store, multiply, negate, reciprocal_root = _plain_store, np.multiply, np.negative, _plain_reciprocal_root
else:
    load, store, fill = _load, _store, _fill
    multiply_add, multiply, negate, reciprocal_root = _multiply_add, _multiply, _negate, _reciprocal_root
