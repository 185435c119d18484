"""Stacks of a few maps, (I, J, P): a price of edges by reweighted squares, and banded products along one axis.

D Z holds the differences of a pixel to the next row and to the next column of all P maps at once (none beyond the
border), so that the maps share their edges. A step of length y = sqrt(|D Z|² + rounding²) costs

    p(y) = 2 knee (sqrt(1 + y/knee) − 1):

total variation, p = y, for steps well below the knee, and only the root of a step well above it, for an edge is an
edge however high. Where Z is known roughly, p is bounded by a square, w |D Z|²/2 + constant with w = p'(y)/y =
1 / (y sqrt(1 + y/knee)): p is concave in y².
"""

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from .arrays import readonly
from .jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from .jit import kernel


@kernel
def edge_weights(Z, weight, rounding, knee, out, rest):
    """The weights of the squares that bound `weight` times the price of edges, and what the squares leave of it.

    (I,J,P),(),(),()->(I,J),(I)
    out[i,j] = weight / (y sqrt(1 + y/knee)), y² = |Z[i+1,j] - Z[i,j]|² + |Z[i,j+1] - Z[i,j]|² + rounding²;
    rest[i] = sum over j of weight p(y) - out[i,j] (y² - rounding²) / 2.
    """
    I, J, P = Z.shape
    for i in prange(I):
        rest[i] = 0.0
        for j in range(J):
            total = 0.0
            for p in range(P):
                if i + 1 < I:
                    total += (Z[i + 1, j, p] - Z[i, j, p]) ** 2
                if j + 1 < J:
                    total += (Z[i, j + 1, p] - Z[i, j, p]) ** 2
            step = np.sqrt(total + rounding * rounding)
            root = np.sqrt(1.0 + step / knee)
            out[i, j] = weight / (step * root)
            rest[i] += 2.0 * weight * knee * (root - 1.0) - 0.5 * out[i, j] * total


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
