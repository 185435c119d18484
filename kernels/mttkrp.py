"""MTTKRP: a tensor times the Khatri-Rao product of the factors of its other modes, which is never formed.

With Y of size (I, J, K) and factors A, B, C,

    M0[i] = sum_jk Y[i,j,k] B[j] * C[k]
    M1[j] = sum_ik Y[i,j,k] A[i] * C[k]
    M2[k] = sum_ij Y[i,j,k] A[i] * B[j]

All three need only two small matrix products for each row i of the image, one read of Y, 4 I J K R flops:

    T = Y[i] C     M1 += T * A[i]     M0[i] = sum_j T[j] * B[j], or
    Z = Y[i]' B    M2 += Z * A[i]     M0[i] = sum_k Z[k] * C[k]

and neither T nor Z leaves the registers: the sums on the right are the epilogues of the tiles (`simd.py`). Columns j
are taken in blocks, outermost, so that B's and M1's rows stay in the first-level cache while the rows i pass by.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import aligned, check_factors, check_out, check_tensor, check_three_outs, deliver, readonly
from .jit import LEAST_PARALLEL_WORK, kernel
from .operators import clear
from .sharing import claim, done, wait
from .simd import DOT, SCALE, padded, panel
from .views import rows_of

COLUMN_BLOCK = 256
MODE0, MODE1, MODE2 = 1, 2, 4
ALL_MODES = MODE0 | MODE1 | MODE2

# Less work than this is not worth a partial sum of its own.
_BLOCK_FLOPS = 2_400_000

# One launch is kept to about a quarter of a second, so that Ctrl-C is answered.
SLAB_FLOPS = 8e9

# A workspace larger than this is given back after the call.
_KEPT_BYTES = 4_000_000


@kernel(uses_tiles=True)
def mttkrp_add(team, Y, A, B, C, modes, M0, M1, M2, part1, part2):
    """Add the MTTKRPs of the chosen `modes`.

    (I,J,K),(I,R),(J,R),(K,R),()->(I,R),(J,R),(K,R); scratch (blocks,J+1,R),(blocks,K,R)
    M0[i] += sum_jk Y B*C, M1[j] += sum_ik Y A*C, M2[k] += sum_ij Y A*B. R is padded; M0, M1, M2, part2 are float64.
    """
    I, J, K = Y.shape
    blocks = part1.shape[0]
    # M0 is a by-product of either panel: of the one with fewer rows, whose epilogue is the shorter.
    by_columns = (SCALE if modes & MODE1 else 0) + (DOT if modes & MODE0 and K > J else 0)
    by_bands = (SCALE if modes & MODE2 else 0) + (DOT if modes & MODE0 and K <= J else 0)
    stages = team[2]
    block = claim(stages[0])
    while block < blocks:
        clear(part1[block])
        clear(part2[block])
        row_sum = part1[block, J]
        for j in range(0, J, COLUMN_BLOCK):
            stop = min(J, j + COLUMN_BLOCK)
            for i in range(I * block // blocks, I * (block + 1) // blocks):
                seen, own = rows_of(Y[i], j, stop), rows_of(B, j, stop)
                if by_columns:
                    panel(seen, False, C, by_columns, A[i], rows_of(part1[block], j, stop), own, row_sum)
                    if by_columns & DOT:
                        for r in range(M0.shape[1]):
                            M0[i, r] += row_sum[r]
                            row_sum[r] = 0
                if by_bands:
                    panel(seen, True, own, by_bands, A[i], part2[block], C, M0[i])
        block = done(stages[0])
    wait(stages[0], blocks)
    piece = claim(stages[1])
    while piece < blocks:
        for block in range(blocks):
            for j in range(J * piece // blocks, J * (piece + 1) // blocks):
                for r in range(M1.shape[1]):
                    M1[j, r] += part1[block, j, r]
            for k in range(K * piece // blocks, K * (piece + 1) // blocks):
                for r in range(M2.shape[1]):
                    M2[k, r] += part2[block, k, r]
        piece = done(stages[1])


def blocks_for(shape: Sequence[int], width: int) -> int:
    """How many partial sums: as many as divide well, but each with work enough to be worth adding up."""
    rows, cols, bands = shape
    return int(max(1, min(16, rows, 4 * rows * cols * bands * width // _BLOCK_FLOPS)))


class Scratch:
    """Partial sums for `mttkrp_add`: their number depends on the shape alone, so results do not depend on threads."""

    def __init__(self, shape: Sequence[int], width: int, dtype: DTypeLike):
        _, cols, bands = shape
        self.row_flops = 4.0 * cols * bands * width
        self.slab = max(1, int(SLAB_FLOPS // max(1, self.row_flops)))
        blocks = blocks_for(shape, width)
        self.part1 = aligned((blocks, cols + 1, width), dtype)
        self.part2 = aligned((blocks, bands, width), np.float64)


def mttkrp_into(
    Y: NDArray[Any],
    A: NDArray[Any],
    B: NDArray[Any],
    C: NDArray[Any],
    M: NDArray[np.float64],
    scratch: Scratch,
    modes: int = ALL_MODES,
    least: float = LEAST_PARALLEL_WORK,
) -> None:
    """Overwrite the stacked (I+J+K, R) float64 array M with the MTTKRPs: the objective's entrance.

    Y, A, B, C are read-only, of one dtype, padded; `scratch` is made once for their shape. Work is shared from `least`.
    """
    I, J, _ = Y.shape
    M[...] = 0
    M0, M1, M2 = M[:I], M[I : I + J], M[I + J :]
    for i in range(0, I, scratch.slab):
        rows = slice(i, min(I, i + scratch.slab))
        work = scratch.row_flops * (rows.stop - rows.start)
        mttkrp_add(
            Y[rows], A[rows], B, C, modes, M0[rows], M1, M2, scratch.part1, scratch.part2, work=work, least=least
        )


class _Workspace(threading.local):
    """The padded arrays of the last call in this thread: on small tensors, allocating them costs more than the sums."""

    key: Any = None
    factors: Any
    inputs: Any
    M: Any
    scratch: Any

    def prepare(self, shape, rank, dtype):
        if self.key != (shape, rank, dtype):
            width = padded(rank, dtype)
            self.factors = aligned((sum(shape), width), dtype)
            self.inputs = [readonly(part) for part in self.split(self.factors, shape)]
            self.M = aligned((sum(shape), width), np.float64)
            self.scratch = Scratch(shape, width, dtype)
            self.key = (shape, rank, dtype)

    @staticmethod
    def split(stack, shape):
        return stack[: shape[0]], stack[shape[0] : shape[0] + shape[1]], stack[shape[0] + shape[1] :]


_workspace = _Workspace()


def _checked(tensor, factors):
    """The tensor, the factors, and the shapes of the three MTTKRPs."""
    Y = check_tensor(tensor)
    matrices = check_factors(factors, shape=Y.shape)
    return Y, matrices, [matrix.shape for matrix in matrices]


def _mttkrp(Y, matrices, modes):
    rank = matrices[0].shape[1]
    _workspace.prepare(Y.shape, rank, Y.dtype)
    np.concatenate(matrices, out=_workspace.factors[:, :rank], casting="same_kind")
    A, B, C = _workspace.inputs
    mttkrp_into(Y, A, B, C, _workspace.M, _workspace.scratch, modes)
    results = [part[:, :rank].astype(Y.dtype) for part in _workspace.split(_workspace.M, Y.shape)]
    if _workspace.M.nbytes + _workspace.scratch.part1.nbytes > _KEPT_BYTES:
        _workspace.key = _workspace.factors = _workspace.inputs = _workspace.M = _workspace.scratch = None
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
