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
Of several y, (n, rows, depth) or (n, depth, rows), with c (n depth, R), the products are summed, in registers too.
What an epilogue ignores may be any array. All are of one dtype and C-ordered, but that of several y the strides of the
first two axes are free; R is a whole number of vectors (see ``padded``). With the JIT off a NumPy twin of the same
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


def _emit_tile(module, name, rows, vectors, element):
    """Define the internal LLVM function that runs one tile down `groups` groups of rows, once per module.

    y[f, m, k] lies at f fold + m step + k stride, so that the same code serves a panel, a transposed one, and several.
    """
    if name in module.globals:
        return module.globals[name]
    i64 = ir.IntType(64)
    size = 8 if isinstance(element, ir.DoubleType) else 4
    width = VECTOR_BYTES // size
    vector, pointer = ir.VectorType(element, width), element.as_pointer()
    strides = [i64] * 5
    arguments = [i64, pointer, *strides, pointer, i64, i64, pointer, pointer, i64, pointer, i64, pointer]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    groups, first_y, folds, fold, step, stride, depth, c, ldc, epilogue, a, first_out, ldo, first_d, ldd, total = (
        function.args
    )

    names = ("entry", "group", "fold", "k", "folded", "done", "end")
    entry, group, fold_loop, loop, folded, done, end = (function.append_basic_block(n) for n in names)
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
        place = b.bitcast(b.gep(pointer, [offset]), vector.as_pointer())
        b.store(value(lambda: b.load(place, align=size)), place, align=size)

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
    out, d = b.gep(first_out, [b.mul(row, ldo)]), b.gep(first_d, [b.mul(row, ldd)])
    b.cbranch(b.icmp_signed(">", depth, const(0)), fold_loop, done)

    b.position_at_end(fold_loop)
    f, first_c = b.phi(i64), b.phi(pointer)
    before = {cell: b.phi(vector) for cell in cells}
    y_fold = b.gep(y, [b.mul(f, fold)])
    y_rows = [b.gep(y_fold, [b.mul(const(m), step)]) for m in range(rows)]
    b.branch(loop)

    b.position_at_end(loop)
    k = b.phi(i64)
    acc = {cell: b.phi(vector) for cell in cells}
    along, c_k = b.mul(k, stride), b.gep(first_c, [b.mul(k, ldc)])
    c_row = [load(c_k, const(v * width)) for v in range(vectors)]
    updated = {}
    for m in range(rows):
        lane_0 = b.insert_element(undefined, b.load(b.gep(y_rows[m], [along])), ir.Constant(ir.IntType(32), 0))
        splat = b.shuffle_vector(lane_0, undefined, every_lane_0)
        for v in range(vectors):
            updated[m, v] = b.call(fma, [splat, c_row[v], acc[m, v]])
    following = b.add(k, const(1))
    b.cbranch(b.icmp_signed("<", following, depth), loop, folded)
    k.add_incoming(const(0), fold_loop)
    k.add_incoming(following, loop)

    b.position_at_end(folded)
    next_fold, next_c = b.add(f, const(1)), b.gep(first_c, [b.mul(depth, ldc)])
    b.cbranch(b.icmp_signed("<", next_fold, folds), fold_loop, done)
    for phi, start, following in ((f, const(0), next_fold), (first_c, c, next_c)):
        phi.add_incoming(start, group)
        phi.add_incoming(following, folded)

    b.position_at_end(done)
    final = {cell: b.phi(vector) for cell in cells}
    for cell in cells:
        acc[cell].add_incoming(before[cell], fold_loop)
        acc[cell].add_incoming(updated[cell], loop)
        for phi in (before[cell], final[cell]):
            phi.add_incoming(zero, group)
            phi.add_incoming(updated[cell], folded)
    with b.if_then(chosen(STORE)):
        for m, v in cells:
            update(out, cell_offset(m, v, ldo), lambda there, x=final[m, v]: x)
    with b.if_then(chosen(ADD)):
        for m, v in cells:
            update(out, cell_offset(m, v, ldo), lambda there, x=final[m, v]: b.fadd(there(), x))
    with b.if_then(chosen(SCALE)):
        for v in range(vectors):
            scale = load(a, const(v * width))
            for m in range(rows):
                scaled = lambda there, x=final[m, v], scale=scale: b.call(fma, [scale, x, there()])  # noqa: E731
                update(out, cell_offset(m, v, ldo), scaled)
    with b.if_then(chosen(DOT)):
        for v in range(vectors):
            summed = zero
            for m in range(rows):
                summed = b.call(fma, [final[m, v], load(d, cell_offset(m, v, ldd)), summed])
            update(total, const(v * width), lambda there, x=summed: b.fadd(there(), x))
    next_group = b.add(n, const(1))
    n.add_incoming(next_group, b.block)
    b.cbranch(b.icmp_signed("<", next_group, groups), group, end)
    b.position_at_end(end)
    b.ret_void()
    return function


@intrinsic
def _tile(
    context, rows, vectors, groups, y, folds, fold, step, stride, depth, c, ldc, epilogue, a, out, ldo, d, ldd, total
):
    """Jump to the internal function for (rows, vectors)."""

    def codegen(context, b, signature, args):
        rows, vectors, *operands = args
        element = context.get_data_type(signature.args[3].dtype)
        i64 = ir.IntType(64)
        # Every (rows, vectors) has a number of its own: vectors <= 4, so the digits do not overlap.
        end = b.append_basic_block("tile.end")
        jump = b.switch(b.add(b.mul(rows, ir.Constant(i64, 10)), vectors), end)
        for n_rows, most_vectors in TILES.items():
            for n_vectors in range(1, most_vectors + 1):
                name = f"tile.{element}.{n_rows}x{n_vectors}"
                block = b.append_basic_block(name)
                jump.add_case(ir.Constant(i64, 10 * n_rows + n_vectors), block)
                b.position_at_end(block)
                b.call(_emit_tile(b.module, name, n_rows, n_vectors, element), operands)
                b.branch(end)
        b.position_at_end(end)
        return context.get_dummy_value()

    n = types.intp
    return types.void(n, n, n, y, n, n, n, n, n, c, n, n, a, out, n, d, n, total), codegen


@intrinsic
def _at(context, pointer, offset):
    """pointer + offset, in elements."""
    return pointer(pointer, types.intp), lambda context, b, signature, args: b.gep(args[0], [args[1]])


def _cover(lanes, transposed, rows, width, y, folds, fold, ldy, depth, c, ldc, epilogue, a, out, ldo, d, ldd, total):
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
            _tile(height, vectors, groups, y_m, folds, fold, step, stride, depth, _at(c, r), ldc, epilogue, _at(a, r),
                  _at(out_m, r), ldo, _at(d_m, r), ldd, _at(total, r))  # fmt: skip
            r += vectors * lanes
            left -= vectors
        m += groups * height


def _publish(name, element):
    """Compile the tiles for one dtype and publish them under the name that `panel` calls.

    Compiled into every kernel they would cost it two to ten seconds; as an external function they cost nothing.
    """
    n, x = types.intp, types.CPointer(element)
    signature = types.void(n, types.boolean, n, n, x, n, n, n, n, x, n, n, x, x, n, x, n, x)
    llvm.add_symbol(f"fastccpd_panel_{name}", callback(_cover, name, signature).address)


@intrinsic
def _compiled_panel(context, y, transposed, c, epilogue, a, out, d, total):
    def codegen(context, b, signature, args):
        y_type, _, c_type, _, a_type, out_type, d_type, total_type = signature.args

        def locate(kind, value):
            view = context.make_array(kind)(context, b, value)
            return view.data, cgutils.unpack_tuple(b, view.shape), cgutils.unpack_tuple(b, view.strides)

        def matrix(kind, value):
            data, shape, _ = locate(kind, value)
            return data, shape[0], shape[-1]

        y, (*several, y_rows, y_columns), bytes_between = locate(y_type, args[0])
        size = ir.Constant(y_rows.type, y_type.dtype.bitwidth // 8)
        ldy = b.sdiv(bytes_between[-2], size)
        folds, fold = ir.Constant(y_rows.type, 1), ir.Constant(y_rows.type, 0)
        if several:
            folds, fold = several[0], b.sdiv(bytes_between[0], size)
        (c, _, width), (a, _, _) = matrix(c_type, args[2]), matrix(a_type, args[4])
        out, _, ldo = matrix(out_type, args[5])
        (d, _, ldd), (total, _, _) = matrix(d_type, args[6]), matrix(total_type, args[7])
        rows, depth = (b.select(args[1], *pair) for pair in ((y_columns, y_rows), (y_rows, y_columns)))
        # A C boolean travels as a byte.
        transposed = b.zext(args[1], ir.IntType(8))
        lanes = ir.Constant(rows.type, VECTOR_BYTES * 8 // y_type.dtype.bitwidth)
        left = [lanes, transposed, rows, width, y, folds, fold, ldy, depth, c, width]
        operands = [*left, args[3], a, out, ldo, d, ldd, total]
        kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        element = context.get_data_type(y_type.dtype)
        function = cgutils.get_or_insert_function(b.module, kind, f"fastccpd_panel_{element}")
        b.call(function, operands)
        return context.get_dummy_value()

    return types.void(y, types.boolean, c, types.intp, a, out, d, total), codegen


def _plain_panel(y, transposed, c, epilogue, a, out, d, total):
    several = y if y.ndim == 3 else y[None]
    parts = zip(several, np.split(c, len(several)), strict=True)
    acc = sum((one.T if transposed else one) @ part for one, part in parts)
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
    before_first_use(types.float64, lambda: _publish("double", types.float64))
    before_first_use(types.float32, lambda: _publish("float", types.float32))
