"""The model tensor [[A, B, C]]: rendered block by block, or compared with data without ever being whole.

For one row i of the image, [[A, B, C]][i] = (B * A[i]) C', a product of depth R whose vectors run along the bands, so C
is passed transposed, (R, K), its bands padded to whole vectors. Columns are taken in blocks that stay in cache.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import aligned, check_factors, check_out, check_tensor, deliver, pad, readonly
from .jit import device, kernel
from .scratch import borrow, give_back
from .simd import STORE, padded, panel
from .team import part_of
from .views import matrix_at, rows_of

COLUMN_BLOCK = 64

# Rows whose squared residuals are summed into one partial sum: fixed, so that the total does not depend on threads.
ROWS_PER_SUM = 4


@device
def _model_block(a, B, Ct, scaled, model):
    """model = (B * a) Ct for one block of columns."""
    for j in range(B.shape[0]):
        for r in range(B.shape[1]):
            scaled[j, r] = B[j, r] * a[r]
    panel(scaled, False, Ct, STORE, Ct[0], model, Ct, model[0])


@kernel(uses_tiles=True)
def render(team, A, B, Ct, out):
    """The model tensor.

    (I,R),(J,R),(R,K)->(I,J,K)
    out[i,j,k] = sum_r A[i,r] B[j,r] Ct[r,k]. Ct's bands are padded, out's are not.
    """
    I, J, K = out.shape
    scaled, model = borrow(COLUMN_BLOCK * B.shape[1], B), borrow(COLUMN_BLOCK * Ct.shape[1], B)
    by_terms = matrix_at(scaled, 0, COLUMN_BLOCK, B.shape[1])
    by_bands = matrix_at(model, 0, COLUMN_BLOCK, Ct.shape[1])
    for i in part_of(team, I):
        for j in range(0, J, COLUMN_BLOCK):
            n = min(J - j, COLUMN_BLOCK)
            _model_block(A[i], rows_of(B, j, j + n), Ct, rows_of(by_terms, 0, n), rows_of(by_bands, 0, n))
            for m in range(n):
                for k in range(K):
                    out[i, j + m, k] = by_bands[m, k]
    give_back(scaled)
    give_back(model)


@kernel(uses_tiles=True)
def residual_sums(team, Y, A, B, Ct, sums):
    """Squared residuals of the model, summed for each group of rows.

    (I,J,K),(I,R),(J,R),(R,K)->(ceil(I / ROWS_PER_SUM))
    sums[n] = sum over the group's i, and j, k, of (Y - sum_r A B Ct)^2. Ct's bands are padded; sums is float64.
    """
    I, J, K = Y.shape
    scaled, model = borrow(COLUMN_BLOCK * B.shape[1], B), borrow(COLUMN_BLOCK * Ct.shape[1], B)
    by_terms = matrix_at(scaled, 0, COLUMN_BLOCK, B.shape[1])
    by_bands = matrix_at(model, 0, COLUMN_BLOCK, Ct.shape[1])
    # One sum a band: independent chains, which the compiler may run side by side.
    total = borrow(K, sums)
    for group in part_of(team, sums.shape[0]):
        for k in range(K):
            total[k] = 0.0
        for i in range(group * ROWS_PER_SUM, min(I, (group + 1) * ROWS_PER_SUM)):
            for j in range(0, J, COLUMN_BLOCK):
                n = min(J - j, COLUMN_BLOCK)
                _model_block(A[i], rows_of(B, j, j + n), Ct, rows_of(by_terms, 0, n), rows_of(by_bands, 0, n))
                for m in range(n):
                    for k in range(K):
                        difference = np.float64(Y[i, j + m, k] - by_bands[m, k])
                        total[k] += difference * difference
        sums[group] = total.sum()
    give_back(scaled)
    give_back(model)
    give_back(total)


def residual_norm2_of(Y: NDArray[Any], A: NDArray[Any], B: NDArray[Any], Ct: NDArray[Any]) -> float:
    """||Y - [[A, B, C]]||^2 for read-only arrays of one dtype, Ct = C' padded: the objective's entrance."""
    I, J, K = Y.shape
    sums = np.empty(-(-I // ROWS_PER_SUM))
    work = 2.0 * J * K * A.shape[1]
    slab = max(1, int(8e9 // (work * ROWS_PER_SUM))) * ROWS_PER_SUM
    for i in range(0, I, slab):
        rows, groups = slice(i, min(I, i + slab)), slice(i // ROWS_PER_SUM, -(-min(I, i + slab) // ROWS_PER_SUM))
        residual_sums(Y[rows], A[rows], B, Ct, sums[groups], work=work * (rows.stop - rows.start))
    return float(sums.sum())


def residual_norm2(tensor: NDArray[Any], factors: Sequence[ArrayLike]) -> float:
    """||tensor - [[A, B, C]]||^2, streamed: the model tensor is never formed.

    Parameters
    ----------
    tensor : (I, J, K) array, float32 or float64, C order
    factors : three matrices (I, R), (J, R), (K, R)

    Returns
    -------
    float
    """
    Y = check_tensor(tensor)
    A, B, C = check_factors(factors, shape=Y.shape)
    return residual_norm2_of(Y, pad(A, Y.dtype), pad(B, Y.dtype), transposed(C, Y.dtype))


def transposed(C: NDArray[Any], dtype: DTypeLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """C' with its bands padded to whole vectors and its rank rows to the padded rank, as `render` wants it."""
    bands, rank = C.shape
    if out is None:
        out = aligned((padded(rank, dtype), padded(bands, dtype)), dtype)
    out[:rank, :bands] = C.T
    return readonly(out)


def _chosen(factor, part, name):
    """The rows of a factor that a slice, an index or an index array chooses."""
    rows = np.atleast_2d(factor if part is None else factor[part])
    if rows.ndim != 2:
        raise ValueError(
            f"{name}: got indices of {rows.ndim - 1} axes; a slice, an index or one axis of them is needed"
        )
    return rows


def _float(dtype):
    try:
        chosen = np.dtype(dtype)
    except TypeError:
        chosen = None
    if chosen not in (np.float32, np.float64):
        raise TypeError(f"dtype: got {dtype!r}; float32 or float64 is needed")
    return chosen


def reconstruct(
    factors: Sequence[ArrayLike],
    rows: slice | ArrayLike | None = None,
    cols: slice | ArrayLike | None = None,
    bands: slice | ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """The tensor [[A, B, C]], whole or a block of it.

    Parameters
    ----------
    factors : three matrices (I, R), (J, R), (K, R)
    rows, cols, bands : slice or index array, optional
        The block; None takes the whole axis.
    dtype : float32 or float64, optional
        Default: that of the factors.
    out : array of the block's shape, C order, optional

    Returns
    -------
    (rows, cols, bands) array
    """
    factors = check_factors(factors)
    parts = zip(factors, (rows, cols, bands), ("rows", "cols", "bands"), strict=True)
    A, B, C = (_chosen(factor, part, name) for factor, part, name in parts)
    dtype = np.result_type(A, B, C, np.float32) if dtype is None else _float(dtype)
    shape = (len(A), len(B), len(C))
    check_out(out, shape)
    direct = out is not None and out.dtype == dtype and out.flags.c_contiguous
    block = out if direct and out is not None else np.empty(shape, dtype)
    work = 2.0 * np.prod(shape, dtype=float) * A.shape[1]
    render(pad(A, dtype), pad(B, dtype), transposed(C, dtype), block, work=work)
    return block if direct else deliver(block, out)
