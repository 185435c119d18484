"""Banded products along one axis of a stack of a few maps, (I, J, P)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import readonly
from .jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from .jit import kernel
from .team import part_of


@kernel
def sparse_products(team, starts, columns, values, X, out):
    """A matrix in compressed rows times every slice of a stack.

    (m+1),(z),(z),(B,n,Q)->(B,m,Q)
    out[b,a] = sum over the entries (a, c) of values * X[b,c].
    """
    B, m, Q = out.shape
    for place in part_of(team, B * m):
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
