"""MTTKRP: a tensor times the Khatri-Rao product of the factors of its other modes, which is never formed.

With Y of size (I, J, K) and factors A, B, C,

    M0[i] = sum_jk Y[i,j,k] B[j] * C[k]
    M1[j] = sum_ik Y[i,j,k] A[i] * C[k]
    M2[k] = sum_ij Y[i,j,k] A[i] * B[j]

All three need only two small matrix products for each row i of the image, one read of Y, 4 I J K R flops:

    T = Y[i] C     M1 += T * A[i]     M0[i] = sum_j T[j] * B[j], or
    Z = Y[i]' B    M2 += Z * A[i]     M0[i] = sum_k Z[k] * C[k]

and neither T nor Z leaves the registers: the sums on the right are the epilogues of the tiles (`simd.py`). M0 is taken
from the product with fewer rows. Of the other nothing but the sum over i is needed, so that it is a product of several
rows of the image at once, with A[i] * C[k] or A[i] * B[j] in place of C or B, and its epilogue comes once for all:

    M1 += sum_ik Y[i,:,k] (A[i] * C[k])      M2 += sum_ij Y[i,j,:] (A[i] * B[j])

Columns j are taken in blocks, outermost, so that B's and M1's rows stay in the first-level cache while the rows i pass
by. Factors are padded to whole vectors, and results cut, within the launch: on small tensors NumPy would take as long
for that as the sums take.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import aligned, check_factors, check_out, check_tensor, check_three_outs, deliver, readonly
from .jit import LEAST_PARALLEL_WORK, device, kernel
from .operators import clear
from .scratch import borrow, give_back
from .sharing import finish, take, wait
from .simd import ADD, DOT, SCALE, padded, panel
from .team import in_rear
from .views import block_of, flat, matrix_at, rows_of

COLUMN_BLOCK = 256
MODE0, MODE1, MODE2 = 1, 2, 4
ALL_MODES = MODE0 | MODE1 | MODE2

# Products with A[i] that are made at a time, if one row of the image has fewer.
_DEEP = 64

# Less work than this is not worth a partial sum of its own, nor less than this for each number of it, which travels
# from one core to another.
_BLOCK_FLOPS, _FLOPS_PER_SUM = 2_400_000, 700

# One launch is kept to about a quarter of a second, so that Ctrl-C is answered.
SLAB_FLOPS = 8e9

# A workspace larger than this is given back after the call.
_KEPT_BYTES = 4_000_000


@kernel(uses_tiles=True)
def mttkrp_add(team, Y, A, B, C, modes, begins, M0, M1, M2, part0, part1, part2):
    """The MTTKRPs of the chosen `modes`; those of M1 and M2 are added to what is there, unless it `begins`.

    (I,J,K),(I,R),(J,R),(K,R),(),()->(I,R),(J,R),(K,R); scratch (1,I,R'),(blocks,J,R'),(blocks,K,R'), R' is R padded
    M0[i] = sum_jk Y B*C, M1[j] += sum_ik Y A*C, M2[k] += sum_ij Y A*B.
    """
    I, J, K = Y.shape
    blocks, width = part1.shape[0], part1.shape[2]
    factors, M, parts = (A, B, C), (M0, M1, M2), (part0, part1, part2)
    stages, from_back = team[2], in_rear(team)
    block = take(stages[0], blocks, from_back)
    if block >= 0:
        # Each thread has its own copy of the factors, in its own cache.
        depth, together = _products(J, K)
        deep = depth * together
        rows = I + J + K
        room, mode, at = borrow((rows + deep) * width, Y), 0, 0
        # A loop of constant length would be unrolled, and its parts compiled three times.
        while at < rows:
            _pad(factors[mode], matrix_at(room, at * width, Y.shape[mode], width))
            at += Y.shape[mode]
            mode += 1
        own, lifted = matrix_at(room, 0, rows, width), matrix_at(room, rows * width, deep, width)
        while block >= 0:
            _add_block(Y, own, modes, I * block // blocks, I * (block + 1) // blocks, together, lifted,
                       part0[0], part1[block], part2[block])  # fmt: skip
            finish(stages[0])
            block = take(stages[0], blocks, from_back)
        give_back(room)
    wait(stages[0], blocks)
    piece = take(stages[1], blocks, from_back)
    while piece >= 0:
        mode = 0
        while modes >> mode:
            if modes & (1 << mode):
                rows = Y.shape[mode]
                first, stop = rows * piece // blocks, rows * (piece + 1) // blocks
                _sum_rows(begins or mode == 0, parts[mode], first, stop, M[mode])
            mode += 1
        finish(stages[1])
        piece = take(stages[1], blocks, from_back)


def products(J, K):
    """How many products with A[i] one row of the image has, and how many rows are taken together."""
    depth = K if K <= J else COLUMN_BLOCK if J > COLUMN_BLOCK else J
    return depth, _DEEP // depth if depth < _DEEP else 1


_products = device(products)


@device
def _add_block(Y, factors, modes, begin, last, several, lifted, by_rows, by_columns, by_bands):
    """What the image's rows from `begin` to `last` give: those of M0, and sums by columns and by bands."""
    I, J, K = Y.shape
    A, C = rows_of(factors, 0, I), rows_of(factors, I + J, I + J + K)
    short = K <= J
    apart = modes & (MODE1 if short else MODE2)
    beside = (SCALE if modes & (MODE2 if short else MODE1) else 0) + (DOT if modes & MODE0 else 0)
    clear(rows_of(by_rows, begin, last))
    clear(by_columns)
    clear(by_bands)
    for j in range(0, J, COLUMN_BLOCK):
        stop = J if J - j < COLUMN_BLOCK else j + COLUMN_BLOCK
        columns, B = rows_of(by_columns, j, stop), rows_of(factors, I + j, I + stop)
        other = C if short else B
        for first in range(begin, last, several):
            end = last if last - first < several else first + several
            if apart:
                left = rows_of(lifted, 0, (end - first) * other.shape[0])
                _lift(rows_of(A, first, end), other, left)
                out = columns if short else by_bands
                panel(block_of(Y, first, end, j, stop), not short, left, ADD, left[0], out, left, left[0])
            if beside:
                for i in range(first, end):
                    seen = block_of(Y, i, i + 1, j, stop)
                    c, out, d = (B, by_bands, C) if short else (C, columns, B)
                    panel(seen, short, c, beside, A[i], out, d, by_rows[i])


@device
def _pad(matrix, out):
    """out = matrix, and zeros beside it."""
    clear(out)
    for i in range(matrix.shape[0]):
        for r in range(matrix.shape[1]):
            out[i, r] = matrix[i, r]


@device
def _lift(A, other, out):
    """The products of each row of A and each of the other, one after the other."""
    for i in range(A.shape[0]):
        for n in range(other.shape[0]):
            for r in range(A.shape[1]):
                out[i * other.shape[0] + n, r] = A[i, r] * other[n, r]


@device
def _sum_rows(begins, parts, first, stop, out):
    """out (+)= the sum of all parts, in their order, for some rows; the first part becomes that sum."""
    width, total = parts.shape[2], flat(parts[0])
    for block in range(1, parts.shape[0]):
        more = flat(parts[block])
        for n in range(first * width, stop * width):
            total[n] += more[n]
    if begins:
        clear(rows_of(out, first, stop))
    for n in range(first, stop):
        for r in range(out.shape[1]):
            out[n, r] += total[n * width + r]


def blocks_for(shape: Sequence[int], width: int) -> int:
    """How many partial sums: as many as divide well, but each with work enough to be worth adding up."""
    rows, cols, bands = shape
    work, blocks = 4 * rows * cols * bands * width, 1
    least = max(_BLOCK_FLOPS, _FLOPS_PER_SUM * (cols + bands) * width)
    # Twice as many each time: so they are shared evenly by two, four or eight threads.
    while 2 * blocks <= min(16, rows) and 2 * blocks * least <= work:
        blocks *= 2
    return blocks


def scratch_numbers(shape: Sequence[int], width: int) -> int:
    """How many numbers a launch keeps beside its arguments, at most: partial sums, and the factors of each thread."""
    rows, cols, bands = shape
    depth, together = products(cols, bands)
    blocks = blocks_for(shape, width)
    threads = min(blocks, numba.get_num_threads())
    return (rows + blocks * (cols + bands) + threads * (sum(shape) + depth * together + 1)) * width


class Scratch:
    """Partial sums for `mttkrp_add`: their number depends on the shape alone, so results do not depend on threads."""

    def __init__(self, shape: Sequence[int], width: int, dtype: DTypeLike):
        rows, cols, bands = shape
        self.row_flops = 4.0 * cols * bands * width
        slab = max(1, int(SLAB_FLOPS // max(1, self.row_flops)))
        self.slabs = [slice(i, min(rows, i + slab)) for i in range(0, rows, slab)]
        counts = (1, min(slab, rows)), *((blocks_for(shape, width), n) for n in (cols, bands))
        self.parts = tuple(aligned((*count, width), dtype) for count in counts)


def mttkrp_into(
    Y: NDArray[Any],
    factors: Sequence[NDArray[Any]],
    M: Sequence[NDArray[Any]],
    scratch: Scratch,
    modes: int = ALL_MODES,
    least: float = LEAST_PARALLEL_WORK,
) -> None:
    """Overwrite the three arrays M with the MTTKRPs of the chosen modes: the objective's entrance.

    Y and the factors are read-only, of one dtype; `scratch` is made once for their shape. Work is shared from `least`.
    """
    (A, B, C), (M0, M1, M2) = factors, M
    for rows in scratch.slabs:
        some = Y[rows], A[rows], B, C, modes, rows.start == 0, M0[rows], M1, M2
        mttkrp_add(*some, *scratch.parts, work=scratch.row_flops * (rows.stop - rows.start), least=least)


class _Workspace(threading.local):
    """The scratch of the last call in this thread: on small tensors, to allocate it costs more than the sums."""

    key: Any = None
    scratch: Any

    def scratch_for(self, shape, rank, dtype):
        if self.key != (shape, rank, dtype):
            self.scratch = Scratch(shape, padded(rank, dtype), dtype)
            self.key = (shape, rank, dtype)
        found = self.scratch
        if sum(part.nbytes for part in found.parts) > _KEPT_BYTES:
            self.key = self.scratch = None
        return found


_workspace = _Workspace()


def _checked(tensor, factors):
    """The tensor, the factors, and the shapes of the three MTTKRPs."""
    Y = check_tensor(tensor)
    matrices = check_factors(factors, shape=Y.shape)
    return Y, matrices, [matrix.shape for matrix in matrices]


def _mttkrp(Y, matrices, modes):
    inputs = [readonly(np.ascontiguousarray(matrix, Y.dtype)) for matrix in matrices]
    results = [np.empty(matrix.shape, Y.dtype) for matrix in matrices]
    mttkrp_into(Y, inputs, results, _workspace.scratch_for(Y.shape, inputs[0].shape[1], Y.dtype), modes)
    return results


def mttkrp(
    tensor: NDArray[Any], factors: Sequence[ArrayLike], mode: int, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Matricised tensor times Khatri-Rao product along one mode.

    Parameters
    ----------
    tensor : (I, J, K) array, float32 or float64, C order
    factors : three matrices (I, R), (J, R), (K, R); the one of `mode` is not used
    mode : 0, 1 or 2
    out : array of the result's shape, optional

    Returns
    -------
    (I, R), (J, R) or (K, R) array of the tensor's dtype
    """
    if not isinstance(mode, int | np.integer) or mode not in (0, 1, 2):
        raise ValueError(f"mode: got {mode!r}; 0, 1 or 2 is needed")
    Y, matrices, shapes = _checked(tensor, factors)
    check_out(out, shapes[mode])
    return deliver(_mttkrp(Y, matrices, 1 << int(mode))[mode], out)


def mttkrp_all(
    tensor: NDArray[Any], factors: Sequence[ArrayLike], out: Sequence[NDArray[Any]] | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The MTTKRPs along all three modes in one pass over the tensor.

    Parameters
    ----------
    tensor, factors
        As of `mttkrp`.
    out : three arrays, optional

    Returns
    -------
    (I, R), (J, R) and (K, R) arrays
    """
    Y, matrices, shapes = _checked(tensor, factors)
    outs = check_three_outs(out, shapes)
    M0, M1, M2 = map(deliver, _mttkrp(Y, matrices, ALL_MODES), outs)
    return M0, M1, M2
