"""Register tiles: the few instructions that carry all the speed.

A tile multiplies a short panel of ``y`` (up to 8 rows) by a few SIMD vectors' width of ``c``,

    acc[m, :] = sum_k y[m, k] c[k, :]          (or y[k, m]: the transposed panel)

with every accumulator in a register for the whole k loop, and ends with an epilogue, a sum of these flags:

    STORE   out[m] = acc[m]
    ADD     out[m] += acc[m]
    SCALE   out[m] += a * acc[m]
    DOT     total  += sum_m acc[m] * d[m]      (alone, or beside SCALE)

Numba cannot build this from plain loops (its SLP vectoriser is off), so the tile's LLVM code is emitted by an
``@intrinsic``: one small internal function for each (rows, vectors), chosen by a jump at run time.

``panel(y, transposed, c, epilogue, a, out, d, total)`` covers a whole product with tiles and is the one entrance for
the kernels: y is (rows, depth), or (depth, rows) with `transposed`; c (depth, R); out, d (rows, R); a and total (R,).
What an epilogue ignores may be any array. All are C-ordered; R is a whole number of vectors (see ``padded``), and out
and total have y's dtype or, for sums that must not lose digits, float64. With the JIT off a NumPy twin of the same
signature runs. Nothing checks bounds here: that twin, and the canaries in the tests, do.
"""

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import DTypeLike

from .jit import before_first_use, callback, intrinsic


def _cpu_has(feature):
    chosen = numba.config.CPU_FEATURES
    if numba.config.CPU_NAME is not None or chosen is not None:
        return f"+{feature}" in (chosen or "").split(",")
    return llvm.get_host_cpu_features().get(feature, False)


# Tiles that fit the register file, rows -> most vectors: 32 registers hold 24 accumulators, 16 hold 12.
VECTOR_BYTES, TILES = (64, {8: 3, 6: 4, 4: 4, 2: 4, 1: 4}) if _cpu_has("avx512f") else (32, {4: 3, 2: 4, 1: 4})
TILE_SHAPES = tuple(TILES.items())

STORE, ADD, SCALE, DOT = 1, 2, 4, 8


def lanes(dtype: DTypeLike) -> int:
    """Numbers in one SIMD vector."""
    return VECTOR_BYTES // np.dtype(dtype).itemsize


def padded(rank: int, dtype: DTypeLike) -> int:
    """`rank` rounded up to whole vectors: the width of every matrix a tile touches."""
    width = lanes(dtype)
    return -(-rank // width) * width


def _emit_tile(module, name, rows, vectors, element, out_element):
    """Define the internal LLVM function that runs one tile down `groups` groups of rows, once per module.

    y[m, k] lies at m step + k stride, so that the same code serves a panel and a transposed one.
    """
    if name in module.globals:
        return module.globals[name]
    i64 = ir.IntType(64)
    size, out_size = (8 if isinstance(e, ir.DoubleType) else 4 for e in (element, out_element))
    width = VECTOR_BYTES // size
    vector, out_vector = ir.VectorType(element, width), ir.VectorType(out_element, width)
    source, target = element.as_pointer(), out_element.as_pointer()
    arguments = [i64, source, i64, i64, source, i64, i64, i64, source, target, i64, source, i64, target]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    groups, first_y, step, stride, c, ldc, depth, epilogue, a, first_out, ldo, first_d, ldd, total = function.args

    entry, group, loop, done, end = (function.append_basic_block(n) for n in ("entry", "group", "k", "done", "end"))
    b = ir.IRBuilder(entry)
    fma_type = ir.FunctionType(vector, [vector] * 3)
    fma = cgutils.get_or_insert_function(module, fma_type, f"llvm.fma.v{width}f{8 * size}")
    cells = [(m, v) for m in range(rows) for v in range(vectors)]
    zero, undefined = ir.Constant(vector, [0.0] * width), ir.Constant(vector, ir.Undefined)
    every_lane_0 = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)

    def const(n):
        return ir.Constant(i64, n)

    def load(pointer, offset):
        return b.load(b.bitcast(b.gep(pointer, [offset]), vector.as_pointer()), align=size)

    def update(pointer, offset, value):
        """pointer[offset:] = value(what stands there)."""
        place = b.bitcast(b.gep(pointer, [offset]), out_vector.as_pointer())
        b.store(value(lambda: b.load(place, align=out_size)), place, align=out_size)

    def widen(value):
        return value if element == out_element else b.fpext(value, out_vector)

    def cell_offset(m, v, leading):
        return b.add(b.mul(const(m), leading), const(v * width))

    def chosen(flag):
        return b.icmp_signed("!=", b.and_(epilogue, const(flag)), const(0))

    b.branch(group)

    b.position_at_end(group)
    n = b.phi(i64)
    n.add_incoming(const(0), entry)
    row = b.mul(n, const(rows))
    y = b.gep(first_y, [b.mul(row, step)])
    y_rows = [b.gep(y, [b.mul(const(m), step)]) for m in range(rows)]
    out, d = b.gep(first_out, [b.mul(row, ldo)]), b.gep(first_d, [b.mul(row, ldd)])
    b.cbranch(b.icmp_signed(">", depth, const(0)), loop, done)

    b.position_at_end(loop)
    k = b.phi(i64)
    acc = {cell: b.phi(vector) for cell in cells}
    along = b.mul(k, stride)
    c_row = [load(c, b.add(b.mul(k, ldc), const(v * width))) for v in range(vectors)]
    updated = {}
    for m in range(rows):
        lane_0 = b.insert_element(undefined, b.load(b.gep(y_rows[m], [along])), ir.Constant(ir.IntType(32), 0))
        splat = b.shuffle_vector(lane_0, undefined, every_lane_0)
        for v in range(vectors):
            updated[m, v] = b.call(fma, [splat, c_row[v], acc[m, v]])
    following = b.add(k, const(1))
    b.cbranch(b.icmp_signed("<", following, depth), loop, done)
    k.add_incoming(const(0), group)
    k.add_incoming(following, loop)

    b.position_at_end(done)
    final = {cell: b.phi(vector) for cell in cells}
    for cell in cells:
        for phi in (acc[cell], final[cell]):
            phi.add_incoming(zero, group)
            phi.add_incoming(updated[cell], loop)
    with b.if_then(chosen(STORE)):
        for m, v in cells:
            update(out, cell_offset(m, v, ldo), lambda there, x=final[m, v]: widen(x))
    with b.if_then(chosen(ADD)):
        for m, v in cells:
            update(out, cell_offset(m, v, ldo), lambda there, x=final[m, v]: b.fadd(there(), widen(x)))
    with b.if_then(chosen(SCALE)):
        for v in range(vectors):
            scale = load(a, const(v * width))
            for m in range(rows):
                scaled = widen(b.fmul(scale, final[m, v]))
                update(out, cell_offset(m, v, ldo), lambda there, x=scaled: b.fadd(there(), x))
    with b.if_then(chosen(DOT)):
        for v in range(vectors):
            summed = zero
            for m in range(rows):
                summed = b.call(fma, [final[m, v], load(d, cell_offset(m, v, ldd)), summed])
            update(total, const(v * width), lambda there, x=summed: b.fadd(there(), widen(x)))
    next_group = b.add(n, const(1))
    n.add_incoming(next_group, b.block)
    b.cbranch(b.icmp_signed("<", next_group, groups), group, end)
    b.position_at_end(end)
    b.ret_void()
    return function


@intrinsic
def _tile(context, rows, vectors, groups, y, step, stride, c, ldc, depth, epilogue, a, out, ldo, d, ldd, total):
    """Jump to the internal function for (rows, vectors)."""

    def codegen(context, b, signature, args):
        rows, vectors, *operands = args
        element, out_element = (context.get_data_type(signature.args[n].dtype) for n in (3, 11))
        i64 = ir.IntType(64)
        # Every (rows, vectors) has a number of its own: vectors <= 4, so the digits do not overlap.
        end = b.append_basic_block("tile.end")
        jump = b.switch(b.add(b.mul(rows, ir.Constant(i64, 10)), vectors), end)
        for n_rows, most_vectors in TILES.items():
            for n_vectors in range(1, most_vectors + 1):
                name = f"tile.{element}.{out_element}.{n_rows}x{n_vectors}"
                block = b.append_basic_block(name)
                jump.add_case(ir.Constant(i64, 10 * n_rows + n_vectors), block)
                b.position_at_end(block)
                b.call(_emit_tile(b.module, name, n_rows, n_vectors, element, out_element), operands)
                b.branch(end)
        b.position_at_end(end)
        return context.get_dummy_value()

    n = types.intp
    return types.void(n, n, n, y, n, n, c, n, n, n, a, out, n, d, n, total), codegen


@intrinsic
def _at(context, pointer, offset):
    """pointer + offset, in elements."""
    return pointer(pointer, types.intp), lambda context, b, signature, args: b.gep(args[0], [args[1]])


def _cover(lanes, transposed, rows, width, y, ldy, c, ldc, depth, epilogue, a, out, ldo, d, ldd, total):
    """Cover a (rows, width) product with tiles."""
    m, step, stride = 0, 1 if transposed else ldy, ldy if transposed else 1
    for height, most_vectors in TILE_SHAPES:
        groups = (rows - m) // height
        if groups == 0:
            continue
        y_m = _at(y, m * step)
        out_m, d_m = _at(out, m * ldo), _at(d, m * ldd)
        r = 0
        left = width // lanes
        while left > 0:
            # Even shares: four vectors at most three at a time are 2 + 2, not 3 + 1.
            shares = -(-left // most_vectors)
            vectors = -(-left // shares)
            _tile(height, vectors, groups, y_m, step, stride, _at(c, r), ldc, depth, epilogue, _at(a, r),
                  _at(out_m, r), ldo, _at(d_m, r), ldd, _at(total, r))  # fmt: skip
            r += vectors * lanes
            left -= vectors
        m += groups * height


def _publish(name, element, target):
    """Compile the tiles for one pair of dtypes and publish them under the name that `panel` calls.

    Compiled into every kernel they would cost it two to ten seconds; as an external function they cost nothing.
    """
    n, x, out = types.intp, types.CPointer(element), types.CPointer(target)
    signature = types.void(n, types.boolean, n, n, x, n, x, n, n, n, x, out, n, x, n, out)
    llvm.add_symbol(f"fastccpd_panel_{name}", callback(_cover, name, signature).address)


def _publish_double():
    _publish("double_double", types.float64, types.float64)


def _publish_single():
    _publish("float_float", types.float32, types.float32)
    _publish("float_double", types.float32, types.float64)


@intrinsic
def _compiled_panel(context, y, transposed, c, epilogue, a, out, d, total):
    def codegen(context, b, signature, args):
        y_type, _, c_type, _, a_type, out_type, d_type, total_type = signature.args

        def locate(kind, value):
            view = context.make_array(kind)(context, b, value)
            shape = cgutils.unpack_tuple(b, view.shape)
            return view.data, shape[0], shape[-1]

        (y, y_rows, y_columns), (c, depth, width) = locate(y_type, args[0]), locate(c_type, args[2])
        (a, _, _), (out, _, ldo) = locate(a_type, args[4]), locate(out_type, args[5])
        (d, _, ldd), (total, _, _) = locate(d_type, args[6]), locate(total_type, args[7])
        element, out_element = (context.get_data_type(t.dtype) for t in (y_type, out_type))
        rows = b.select(args[1], y_columns, y_rows)
        # A C boolean travels as a byte.
        transposed = b.zext(args[1], ir.IntType(8))
        lanes = ir.Constant(rows.type, VECTOR_BYTES * 8 // y_type.dtype.bitwidth)
        operands = [lanes, transposed, rows, width, y, y_columns, c, width, depth, args[3], a, out, ldo, d, ldd, total]
        kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        function = cgutils.get_or_insert_function(b.module, kind, f"fastccpd_panel_{element}_{out_element}")
        b.call(function, operands)
        return context.get_dummy_value()

    return types.void(y, types.boolean, c, types.intp, a, out, d, total), codegen


def _plain_panel(y, transposed, c, epilogue, a, out, d, total):
    acc = (y.T if transposed else y) @ c
    rows = len(acc)
    if epilogue & STORE:
        out[:rows] = acc
    if epilogue & ADD:
        out[:rows] += acc
    if epilogue & SCALE:
        out[:rows] += a * acc
    if epilogue & DOT:
        total += (acc * d[:rows]).sum(axis=0)


if numba.config.DISABLE_JIT:
    panel = _plain_panel
else:
    panel = _compiled_panel
    before_first_use(types.float64, _publish_double)
    before_first_use(types.float32, _publish_single)
