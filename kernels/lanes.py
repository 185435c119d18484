"""A vector of eight float64 that Numba keeps in a register: ``load``, ``store`` and the few operations on them.

For algorithms that run the same scalar steps on eight problems at once. Numba would unroll a loop over eight lanes into
scalar code; here each operation is one LLVM vector instruction. Arrays are one-dimensional; offsets count elements. A
float32 array is widened as it is loaded and rounded as it is stored. `load_as`, `load_twice` and `fill_as` give vectors
of the dtype of another array instead: of eight float32 where that is float32. `total_of_lanes` adds them up, from the
first to the last. `if_less` chooses, lane by lane. `inverse` and `inverse_root` are 1/a and 1/√a of positive numbers,
to a few roundings, without a division. `store_transposed` takes eight vectors and stores the first `count` of their
columns, `apart` numbers apart. With the JIT off the same names work on NumPy slices.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from .jit import intrinsic

LANES = 8

# Of `inverse` and `inverse_root`: these less the bits of a number, or half of them, are nearly what is sought, to
# a part in ten, and so many steps, each of which squares that, leave rounding.
_INVERSE_OF_EXPONENT, _ROOT_OF_EXPONENT, _NEWTON_STEPS = 0x7FDE623822FC16E6, 0x5FE6EB50C7B537A9, 4

_VECTOR, _FLOATS = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.FloatType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)


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
        value = args[2]
        if value.type != stored:
            value = (b.fpext if stored == _VECTOR else b.fptrunc)(value, stored)
        b.store(value, place, align=size)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


class FloatLanesType(types.Type):
    def __init__(self):
        super().__init__(name="FloatLanes")


float_lanes_type = FloatLanesType()


@register_model(FloatLanesType)
class _FloatLanesModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _FLOATS)


def _kind_like(like):
    """The type of vectors of an array's own dtype."""
    return float_lanes_type if like.dtype == types.float32 else lanes_type


def _converted(b, value, kind):
    """A vector of floats as one of `kind`."""
    to = _FLOATS if kind is float_lanes_type else ir.VectorType(ir.DoubleType(), value.type.count)
    to = ir.VectorType(to.element, value.type.count)
    if value.type == to:
        return value
    return b.fptrunc(value, to) if kind is float_lanes_type else b.fpext(value, to)


@intrinsic
def _load_as(context, array, offset, like):
    result = _kind_like(like)

    def codegen(context, b, signature, args):
        place, _, size = _pointer(context, b, signature.args[0], *args[:2])
        return _converted(b, b.load(place, align=size), result)

    return result(array, types.intp, like), codegen


@intrinsic
def _fill_as(context, number, like):
    result = _kind_like(like)

    def codegen(context, b, signature, args):
        vector = _FLOATS if result is float_lanes_type else _VECTOR
        value = args[0] if vector is _VECTOR else b.fptrunc(args[0], ir.FloatType())
        undefined = ir.Constant(vector, ir.Undefined)
        first = b.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    return result(types.float64, like), codegen


@intrinsic
def _widen(context, a):
    return lanes_type(a), lambda context, b, signature, args: _converted(b, args[0], lanes_type)


@intrinsic
def _load_twice(context, array, offset, like):
    result = _kind_like(like)

    def codegen(context, b, signature, args):
        data = context.make_array(signature.args[0])(context, b, args[0]).data
        kind = context.get_data_type(signature.args[0].dtype)
        half = ir.VectorType(kind, LANES // 2)
        place = b.bitcast(b.gep(data, [args[1]]), half.as_pointer())
        value = b.load(place, align=signature.args[0].dtype.bitwidth // 8)
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [n // 2 for n in range(LANES)])
        return _converted(b, b.shuffle_vector(value, ir.Constant(half, ir.Undefined), order), result)

    return result(array, types.intp, like), codegen


@intrinsic
def _store_pairs(context, array, offset, value):
    def codegen(context, b, signature, args):
        data = context.make_array(signature.args[0])(context, b, args[0]).data
        kind = context.get_data_type(signature.args[0].dtype)
        half = ir.VectorType(kind, LANES // 2)
        undefined, thirty_two = ir.Constant(args[2].type, ir.Undefined), ir.IntType(32)
        orders = ([2 * n + k for n in range(LANES // 2)] for k in range(2))
        places = (ir.Constant(ir.VectorType(thirty_two, LANES // 2), order) for order in orders)
        total = b.fadd(*(b.shuffle_vector(args[2], undefined, place) for place in places))
        total = total if total.type == half else (b.fptrunc if kind == ir.FloatType() else b.fpext)(total, half)
        address = b.bitcast(b.gep(data, [args[1]]), half.as_pointer())
        b.store(total, address, align=signature.args[0].dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


def _transposed(b, rows):
    """The columns of eight vectors: pairs of lanes, pairs of these, and halves change places, as registers have it."""
    undefined = ir.Constant(rows[0].type, ir.Undefined)
    places = (0, 8, 1, 9, 4, 12, 5, 13), (0, 1, 8, 9, 4, 5, 12, 13), (0, 1, 2, 3, 8, 9, 10, 11)
    for apart, first, step in zip((1, 2, 4), places, (2, 2, 4)):
        orders = [ir.Constant(ir.VectorType(ir.IntType(32), LANES), [n + k for n in first]) for k in (0, step)]
        turned = [undefined] * LANES
        for n in range(LANES):
            if not n & apart:
                turned[n], turned[n + apart] = (b.shuffle_vector(rows[n], rows[n + apart], order) for order in orders)
        rows = turned
    return [rows[n] for n in (0, 2, 1, 3, 4, 6, 5, 7)]


@intrinsic
def _store_transposed(context, array, offset, apart, count, v0, v1, v2, v3, v4, v5, v6, v7):
    def codegen(context, b, signature, args):
        array, offset, apart, count, *rows = args
        for n, value in enumerate(_transposed(b, rows)):
            with b.if_then(b.icmp_signed("<", ir.Constant(count.type, n), count), likely=True):
                place, _, size = _pointer(context, b, signature.args[0], array, offset)
                b.store(_converted(b, value, _kind_like(signature.args[0])), place, align=size)
            offset = b.add(offset, apart)
        return context.get_dummy_value()

    return types.void(array, *[types.intp] * 3, *[v0] * LANES), codegen


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
        vector = args[0].type
        kind, bits = ir.FunctionType(vector, [vector] * 3), 64 if vector == _VECTOR else 32
        return b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.fma.v{LANES}f{bits}"), args)

    return a(a, a, a), codegen


@intrinsic
def _multiply(context, a, b):
    return a(a, a), lambda context, b, signature, args: b.fmul(*args)


@intrinsic
def _add(context, a, b):
    return a(a, a), lambda context, b, signature, args: b.fadd(*args)


@intrinsic
def _subtract(context, a, b):
    return a(a, a), lambda context, b, signature, args: b.fsub(*args)


@intrinsic
def _negate(context, a):
    return a(a), lambda context, b, signature, args: b.fsub(ir.Constant(args[0].type, [-0.0] * LANES), args[0])


@intrinsic
def _reciprocal_root(context, a):
    def codegen(context, b, signature, args):
        vector = args[0].type
        kind, bits = ir.FunctionType(vector, [vector]), 64 if vector == _VECTOR else 32
        root = b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.sqrt.v{LANES}f{bits}"), args)
        return _over_positive(b, args[0], root)

    return a(a), codegen


@intrinsic
def _reciprocal(context, a):
    return a(a), lambda context, b, signature, args: _over_positive(b, args[0], args[0])


@intrinsic
def _inverse(context, a):
    """A constant less the bits of a, and Newton's steps from there: a third of the time of a division."""

    def codegen(context, b, signature, args):
        bits = b.bitcast(args[0], _BITS)
        minus, one = b.fmul(args[0], _all_lanes(-1.0)), _all_lanes(1.0)
        return _by_newton(b, _INVERSE_OF_EXPONENT, bits, lambda found, fma: b.call(fma, [minus, found, one]))

    return lanes_type(lanes_type), codegen


@intrinsic
def _inverse_root(context, a):
    """The same with half the bits: a third of the time of a root and a division."""

    def codegen(context, b, signature, args):
        bits = b.lshr(b.bitcast(args[0], _BITS), ir.Constant(_BITS, [1] * LANES))
        minus, half = b.fmul(args[0], _all_lanes(-0.5)), _all_lanes(0.5)
        missing = lambda found, fma: b.call(fma, [minus, b.fmul(found, found), half])  # noqa: E731
        return _by_newton(b, _ROOT_OF_EXPONENT, bits, missing)

    return lanes_type(lanes_type), codegen


def _by_newton(b, start, bits, missing):
    """What begins as `start` less some bits, and grows in each step by the part that `missing` says."""
    fma = cgutils.get_or_insert_function(b.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fma.v{LANES}f64")
    found = b.bitcast(b.sub(ir.Constant(_BITS, [start] * LANES), bits), _VECTOR)
    for _ in range(_NEWTON_STEPS):
        found = b.call(fma, [found, missing(found, fma), found])
    return found


def _all_lanes(number):
    return ir.Constant(_VECTOR, [number] * LANES)


def _over_positive(b, value, divisor):
    """1 / divisor where `value` is positive, else 0."""
    zero, one = (ir.Constant(value.type, [number] * LANES) for number in (0.0, 1.0))
    return b.select(b.fcmp_ordered(">", value, zero), b.fdiv(one, divisor), zero)


@intrinsic
def _if_less(context, a, b, yes, no):
    def codegen(context, b, signature, args):
        return b.select(b.fcmp_ordered("<", *args[:2]), *args[2:])

    return yes(a, a, yes, yes), codegen


@intrinsic
def _total(context, a):
    def codegen(context, b, signature, args):
        total = ir.Constant(ir.DoubleType(), 0.0)
        for n in range(LANES):
            total = b.fadd(total, b.extract_element(args[0], ir.Constant(ir.IntType(32), n)))
        return total

    return types.float64(lanes_type), codegen


def _plain_total(a):
    total = 0.0
    for value in a:
        total += value
    return total


def _plain_store(array, offset, value):
    array[offset : offset + LANES] = value


def _plain_store_pairs(array, offset, value):
    array[offset : offset + LANES // 2] = value[::2] + value[1::2]


def _plain_store_transposed(array, offset, apart, count, *rows):
    for n in range(min(count, LANES)):
        array[offset + n * apart : offset + n * apart + LANES] = [row[n] for row in rows]


def _plain_reciprocal(a):
    positive = a > 0.0
    return np.where(positive, 1 / np.where(positive, a, 1), 0).astype(a.dtype)


def _plain_reciprocal_root(a):
    return _plain_reciprocal(np.sqrt(np.maximum(a, 0)))


def _plain_inverse(a):
    return 1.0 / a


def _plain_inverse_root(a):
    return 1.0 / np.sqrt(a)


if numba.config.DISABLE_JIT:

    def load(array, offset):
        return array[offset : offset + LANES].astype(np.float64)

    def load_as(array, offset, like):
        return array[offset : offset + LANES].astype(like.dtype)

    def load_twice(array, offset, like):
        return np.repeat(array[offset : offset + LANES // 2].astype(like.dtype), 2)

    def fill_as(number, like):
        return np.full(LANES, number, like.dtype)

    def widen(a):
        return a.astype(np.float64)

    def fill(number):
        return np.full(LANES, number)

    def multiply_add(a, b, c):
        return a * b + c

    store, store_pairs, store_transposed = _plain_store, _plain_store_pairs, _plain_store_transposed
    total_of_lanes = _plain_total
    reciprocal, reciprocal_root = _plain_reciprocal, _plain_reciprocal_root
    inverse, inverse_root = _plain_inverse, _plain_inverse_root
    add, subtract, multiply, negate = np.add, np.subtract, np.multiply, np.negative

    def if_less(a, b, yes, no):
        return np.where(a < b, yes, no)
else:
    load, load_as, load_twice, widen = _load, _load_as, _load_twice, _widen
    store, store_pairs, store_transposed = _store, _store_pairs, _store_transposed
    fill, fill_as, if_less = _fill, _fill_as, _if_less
    add, subtract, multiply, multiply_add = _add, _subtract, _multiply, _multiply_add
    negate, reciprocal, reciprocal_root, total_of_lanes = _negate, _reciprocal, _reciprocal_root, _total
    inverse, inverse_root = _inverse, _inverse_root
