"""Products with the sparse operators that blur, decimate and average: P X and its sum into an output.

P is given as CSR arrays (indptr, indices, data): nine entries a row for a Gaussian blur, a run of bands for a spectral
response, all of them for a dense matrix. P' X is the same product with the CSR arrays of P'.
"""

import numpy as np

from ._arrays import aligned, deliver, pad, readonly
from ._jit import device, kernel


@device
def _add_rows(indptr, indices, data, X, out):
    for row in range(out.shape[0]):
        for entry in range(indptr[row], indptr[row + 1]):
            weight = data[entry]
            source = indices[entry]
            for r in range(X.shape[1]):
                out[row, r] += weight * X[source, r]


@kernel
def spmm(indptr, indices, data, X, out):
    """Sparse matrix times a tall matrix.

    (m+1),(z),(z),(n,R)->(m,R)
    out = P X.
    """
    out[:] = 0
    _add_rows(indptr, indices, data, X, out)


@kernel
def spmm_add(indptr, indices, data, X, out):
    """Add a sparse matrix times a tall matrix.

    (m+1),(z),(z),(n,R)->(m,R)
    out += P X.
    """
    _add_rows(indptr, indices, data, X, out)


def csr_arrays(matrix, dtype=np.float64):
    """Read-only (indptr, indices, data) of a matrix (dense or scipy.sparse) as `spmm` wants them: 64-bit indices."""
    if hasattr(matrix, "tocsr"):
        csr = matrix.tocsr()
        indptr, indices, entries = csr.indptr, csr.indices, csr.data
    else:
        dense = np.asarray(matrix)
        rows, indices = np.nonzero(dense)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=dense.shape[0]))])
        entries = dense[rows, indices]
    parts = ((indptr, np.int64), (indices, np.int64), (entries, dtype))
    return tuple(readonly(np.ascontiguousarray(part, dtype=kind)) for part, kind in parts)


def operator_apply(matrix, X, transpose=False, out=None):
    """P X, or P' X with `transpose`; P dense or scipy.sparse (banded ones cost only their band)."""
    X = np.asarray(X)
    rows, columns = matrix.shape[::-1] if transpose else matrix.shape
    if X.ndim != 2 or X.shape[0] != columns:
        raise ValueError(f"X: got shape {X.shape}; {columns} rows are needed")
    dtype = np.result_type(X, np.float32)
    result = aligned((rows, pad(X[:1], dtype).shape[1]), dtype)
    spmm(*csr_arrays(matrix.T if transpose else matrix, dtype), pad(X, dtype), result)
    return deliver(np.ascontiguousarray(result[:, : X.shape[1]]), out)
