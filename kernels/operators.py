"""Products with the operators that blur, decimate and average, as a few small dense blocks.

The rows of P are taken sixteen at a time; the columns that those rows touch form one or a few runs, and each run is
kept as a small dense block. A Gaussian blur by nine taps, decimated by four, has 16 x 69 blocks; a spectral response
one block a run of bands; a dense matrix is its own block row; any sparse matrix works. A block costs one `panel`, which
at this size beats an entry-by-entry sparse product by far, and cost stays proportional to the band, not to the matrix.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import aligned, as_real, check_out, deliver, pad, readonly
from .jit import device, kernel
from .simd import ADD, panel
from .views import matrix_at, rows_of

ROWS = 16

# Runs of columns closer than this are one block: a gap costs less than another call.
_GAP = 8


@dataclass(frozen=True, eq=False)
class Blocks:
    """A matrix as dense blocks, one after the other in `values`; `places` holds their (row, column, height, width)."""

    shape: tuple
    values: np.ndarray
    places: np.ndarray


def blocks_of(matrix: Any, dtype: DTypeLike = np.float64) -> Blocks:
    """The `Blocks` of a matrix, dense or scipy.sparse."""
    if hasattr(matrix, "tocoo"):
        entries = matrix.tocoo()
        rows, columns, values = entries.row, entries.col, entries.data
    else:
        dense = np.asarray(matrix)
        rows, columns = np.nonzero(dense)
        values = dense[rows, columns]
    rows, columns, values = (np.asarray(part) for part in (rows, columns, values))
    pieces = []
    order = np.lexsort((columns, rows // ROWS))
    rows, columns, values = rows[order], columns[order], values[order]
    groups = rows // ROWS
    # A new block starts where the group of rows changes or the columns leave a gap.
    starts = np.flatnonzero(np.r_[True, (np.diff(groups) > 0) | (np.diff(columns) > _GAP)]) if len(rows) else []
    for start, stop in zip(starts, [*starts[1:], len(rows)]):
        first_row, first = groups[start] * ROWS, columns[start:stop].min()
        height = min(ROWS, matrix.shape[0] - first_row)
        block = np.zeros((height, columns[start:stop].max() - first + 1))
        np.add.at(block, (rows[start:stop] - first_row, columns[start:stop] - first), values[start:stop])
        pieces.append((block, (first_row, first, *block.shape)))
    flat = np.concatenate([block.ravel() for block, _ in pieces]) if pieces else np.zeros(0)
    places = np.array([place for _, place in pieces], np.int64).reshape(-1, 4)
    return Blocks(tuple(matrix.shape), readonly(flat.astype(dtype)), readonly(places))


@device
def clear(matrix):
    """matrix = 0; by loops, which compile in a fraction of the time of an assignment to a slice."""
    for i in range(matrix.shape[0]):
        for r in range(matrix.shape[1]):
            matrix[i, r] = 0


@device
def add_blocks(values, at, places, X, out):
    """out += P X, where the blocks stand in `values` from `at` on."""
    for n in range(places.shape[0]):
        row, column, height, width = places[n, 0], places[n, 1], places[n, 2], places[n, 3]
        block = matrix_at(values, at, height, width)
        seen, target = rows_of(X, column, column + width), rows_of(out, row, row + height)
        panel(block, False, seen, ADD, X[0], target, X, out[0])
        at += height * width


@kernel(uses_tiles=True)
def operator_product(values, places, X, out):
    """Operator times a tall matrix.

    (z),(blocks,4),(n,R)->(m,R)
    out = P X, R padded.
    """
    clear(out)
    add_blocks(values, 0, places, X, out)


def checked_sparse(matrix: Any, name: str) -> Any:
    """A scipy.sparse matrix, refused if its indices do not fit together: compiled code would follow them anywhere."""
    broken = None
    if hasattr(matrix, "check_format"):
        broken = _fault_of_compressed(matrix)
        if broken is None:
            matrix = copy.copy(matrix)  # shallow: the check cuts off what lies beyond the last entry
            try:
                matrix.check_format(full_check=True)
            except ValueError as error:
                broken = str(error)
    elif hasattr(matrix, "row"):
        for indices, size in zip((matrix.row, matrix.col), matrix.shape, strict=True):
            if len(indices) != len(matrix.data) or (len(indices) and not 0 <= indices.min() <= indices.max() < size):
                broken = "an index is out of range"
    elif hasattr(matrix, "rows"):
        lists = [[len(part) for part in parts] for parts in (matrix.rows, matrix.data)]
        broken = None if lists[0] == lists[1] and len(lists[0]) == matrix.shape[0] else "lists of unequal lengths"
    elif hasattr(matrix, "offsets"):
        fits = matrix.data.ndim == 2 and len(matrix.offsets) == len(matrix.data)
        broken = None if fits else "as many diagonals as offsets are needed"
    if broken is not None:
        raise ValueError(f"{name}: its indices do not fit together ({broken}); a valid sparse matrix is needed")
    return matrix


def _fault_of_compressed(matrix):
    """What scipy's own check passes over, or takes with a warning; None where nothing is wrong."""
    if any(np.asarray(part).dtype.kind not in "iu" for part in (matrix.indptr, matrix.indices)):
        return "an index is no whole number"
    # Of a matrix whose last pointer is 0 scipy looks at no other.
    return "indptr must be a non-decreasing sequence" if (np.diff(matrix.indptr) < 0).any() else None


def operator_apply(matrix: Any, X: ArrayLike, transpose: bool = False, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """P X, or P' X.

    Parameters
    ----------
    matrix : (m, n) array or scipy.sparse matrix
        P; a banded one costs only its band.
    X : (n, R) array, or (m, R) with `transpose`
    transpose : bool
        Whether P' is applied.
    out : array of the result's shape, optional

    Returns
    -------
    (m, R) array, or (n, R) with `transpose`
    """
    X = as_real(X, "X", "(n, R)")
    if hasattr(matrix, "tocoo"):
        as_real(np.broadcast_to(np.zeros(1, matrix.dtype), matrix.shape), "matrix", "(m, n)")
        matrix = checked_sparse(matrix, "matrix")
    else:
        matrix = as_real(matrix, "matrix", "(m, n)")
    rows, columns = reversed(matrix.shape) if transpose else matrix.shape
    if X.shape[0] != columns:
        raise ValueError(f"X: got shape {X.shape}; {columns} rows are needed")
    check_out(out, (rows, X.shape[1]))
    blocks = blocks_of(matrix.T if transpose else matrix, np.result_type(X, np.float32))
    padded_X = pad(X, blocks.values.dtype)
    result = aligned((blocks.shape[0], padded_X.shape[1]), padded_X.dtype)
    operator_product(blocks.values, blocks.places, padded_X, result)
    return deliver(np.ascontiguousarray(result[:, : X.shape[1]]), out)
