"""Parts of arrays as kernels take them: the few instructions that are needed, where Numba's slices have a hundred.

Numba's own slices may begin anywhere and go backwards, and what it reshapes may have gaps: code for all that would be
translated and optimised wherever a kernel takes some rows. Arrays are in C order, and nothing checks bounds here.
"""

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from .parts import intrinsic


def _view(context, b, kind, data, shape):
    """The LLVM value of an array in C order at `data`."""
    array = make_array(kind)(context, b)
    size = ir.Constant(ir.IntType(64), kind.dtype.bitwidth // 8)
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, b.mul(length, strides[0]))
    populate_array(array, data, shape, strides, size, None)
    return array._getvalue()


@intrinsic
def _rows_of(context, array, first, stop):
    def codegen(context, b, signature, args):
        whole = context.make_array(array)(context, b, args[0])
        _, *further = cgutils.unpack_tuple(b, whole.shape)
        at = args[1]
        for length in further:
            at = b.mul(at, length)
        return _view(context, b, array, b.gep(whole.data, [at]), [b.sub(args[2], args[1]), *further])

    return array(array, types.intp, types.intp), codegen


@intrinsic
def _matrix_at(context, array, first, rows, columns):
    kind = array.copy(ndim=2)

    def codegen(context, b, signature, args):
        whole = context.make_array(array)(context, b, args[0])
        return _view(context, b, kind, b.gep(whole.data, [args[1]]), [args[2], args[3]])

    return kind(array, types.intp, types.intp, types.intp), codegen


@intrinsic
def _block_of(context, array, first, stop, row, end):
    kind = array.copy(layout="A")

    def codegen(context, b, signature, args):
        whole = context.make_array(array)(context, b, args[0])
        strides = cgutils.unpack_tuple(b, whole.strides)
        size = ir.Constant(ir.IntType(64), array.dtype.bitwidth // 8)
        at = b.sdiv(b.add(b.mul(args[1], strides[0]), b.mul(args[3], strides[1])), size)
        shape = [b.sub(args[2], args[1]), b.sub(args[4], args[3]), cgutils.unpack_tuple(b, whole.shape)[2]]
        result = make_array(kind)(context, b)
        populate_array(result, b.gep(whole.data, [at]), shape, strides, size, None)
        return result._getvalue()

    return kind(array, *[types.intp] * 4), codegen


@intrinsic
def _flat(context, array):
    kind = array.copy(ndim=1)

    def codegen(context, b, signature, args):
        whole = context.make_array(array)(context, b, args[0])
        count = ir.Constant(ir.IntType(64), 1)
        for length in cgutils.unpack_tuple(b, whole.shape):
            count = b.mul(count, length)
        return _view(context, b, kind, whole.data, [count])

    return kind(array), codegen


def _plain_rows_of(array, first, stop):
    return array[first:stop]


def _plain_matrix_at(array, first, rows, columns):
    return array[first : first + rows * columns].reshape(rows, columns)


def _plain_block_of(array, first, stop, row, end):
    return array[first:stop, row:end]


def _plain_flat(array):
    return array.reshape(-1)


# rows_of(A, first, stop) is A[first:stop]; flat(A) is A.reshape(-1); matrix_at(a, first, rows, columns) is the matrix
# whose entries stand in a vector from `first` on; block_of(Y, first, stop, row, end) is Y[first:stop, row:end].
if numba.config.DISABLE_JIT:
    rows_of, matrix_at, flat, block_of = _plain_rows_of, _plain_matrix_at, _plain_flat, _plain_block_of
else:
    rows_of, matrix_at, flat, block_of = _rows_of, _matrix_at, _flat, _block_of
