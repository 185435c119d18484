"""Stacks of a few maps, (I, J, P): total variation by reweighted squares, and banded products along one axis.

The total variation of a stack Z is the sum over pixels of |D Z|, D Z holding the differences to the next row and to the
next column of all P maps at once (none beyond the border), so that the maps share their edges. Where Z is known
roughly, |D Z| is bounded by a square: |D Z|² w / 2 + constant with w = 1 / sqrt(|D Z|² + rounding²).
"""

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from .arrays import readonly
from .jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from .jit import kernel


@kernel
def edge_weights(Z, weight, rounding, out):
    """The weights of the squares that bound `weight` times the total variation.

    (I,J,P),(),()->(I,J)
    out[i,j] = weight / sqrt(|Z[i+1,j] - Z[i,j]|² + |Z[i,j+1] - Z[i,j]|² + rounding²).
    """
    I, J, P = Z.shape
    for i in prange(I):
        for j in range(J):
            total = rounding * rounding
            for p in range(P):
                if i + 1 < I:
                    total += (Z[i + 1, j, p] - Z[i, j, p]) ** 2
                if j + 1 < J:
                    total += (Z[i, j + 1, p] - Z[i, j, p]) ** 2
            out[i, j] = weight / np.sqrt(total)


@kernel
def curvature(Z, kinds, grams, weights, out):
    """The Hessian of a pixelwise quadratic plus weighted squared differences, times Z.

    (I,J,P),(I,J),(n,P,P),(I,J)->(I,J,P)
    out[i,j] = grams[kinds[i,j]] Z[i,j] + D' (weights * D Z) at (i, j).
    """
    I, J, P = Z.shape
    for i in prange(I):
        for j in range(J):
            gram, here = grams[kinds[i, j]], weights[i, j]
            above = weights[i - 1, j] if i > 0 else 0.0
            left = weights[i, j - 1] if j > 0 else 0.0
            below = here if i + 1 < I else 0.0
            right = here if j + 1 < J else 0.0
            for p in range(P):
                total = 0.0
                for q in range(P):
                    total += gram[p, q] * Z[i, j, q]
                value = Z[i, j, p]
                if i > 0:
                    total += above * (value - Z[i - 1, j, p])
                if j > 0:
                    total += left * (value - Z[i, j - 1, p])
                if i + 1 < I:
                    total += below * (value - Z[i + 1, j, p])
                if j + 1 < J:
                    total += right * (value - Z[i, j + 1, p])
                out[i, j, p] = total


@kernel
def diagonal_curvature(Z, diagonal, weights, out):
    """`curvature` where one diagonal Gramian serves all pixels.

    (I,J,P),(P),(I,J)->(I,J,P)
    out[i,j] = diagonal * Z[i,j] + D' (weights * D Z) at (i, j).
    """
    I, J, P = Z.shape
    for i in prange(I):
        above_i, below_i = max(i - 1, 0), min(i + 1, I - 1)
        for j in range(J):
            above = weights[above_i, j] if i > 0 else 0.0
            left = weights[i, j - 1] if j > 0 else 0.0
            below = weights[i, j] if i + 1 < I else 0.0
            right = weights[i, j] if j + 1 < J else 0.0
            total = above + left + below + right
            # Beyond the border the neighbour is the pixel itself, with a weight of zero: no branch in the inner loop.
            z, result = Z[i, j], out[i, j]
            z_above, z_below = Z[above_i, j], Z[below_i, j]
            z_left, z_right = Z[i, max(j - 1, 0)], Z[i, min(j + 1, J - 1)]
            for p in range(P):
                around = above * z_above[p] + left * z_left[p] + below * z_below[p] + right * z_right[p]
                result[p] = (diagonal[p] + total) * z[p] - around


@kernel
def sparse_products(starts, columns, values, X, out):
    """A matrix in compressed rows times every slice of a stack.

    (m+1),(z),(z),(B,n,Q)->(B,m,Q)
    out[b,a] = sum over the entries (a, c) of values * X[b,c].
    """
    B, m, Q = out.shape
    for place in prange(B * m):
        b, a = place // m, place % m
        result = out[b, a]  # one-dimensional views let the compiler vectorise the sums
        for q in range(Q):
            result[q] = 0.0
        for entry in range(starts[a], starts[a + 1]):
            value, x = values[entry], X[b, columns[entry]]
            for q in range(Q):
                result[q] += value * x[q]


def along(matrix: Any, X: NDArray[Any], axis: int) -> NDArray[np.float64]:
    """A scipy.sparse CSR matrix applied along the first or the second axis of a stack of maps."""
    I, J, P = X.shape
    stack = readonly(X.reshape(1, I, J * P) if axis == 0 else X)
    out = np.empty((stack.shape[0], matrix.shape[0], stack.shape[2]))
    work = 2.0 * matrix.nnz * stack.shape[0] * stack.shape[2]
    entries = map(readonly, (matrix.indptr, matrix.indices, matrix.data))
    sparse_products(*entries, stack, out, work=work, least=LEAST)
    return out.reshape(matrix.shape[0], J, P) if axis == 0 else out
