"""‖Y/s − [[U]]‖² of one term, and the MTTKRPs on the way.

The misfit costs nothing beside the MTTKRPs: ‖Y − [[U]]‖² = ‖Y‖² − 2 Σ M_0*U_0 + 1'(S_0*S_1*S_2)1. That expansion
cancels when the fit is close, so below a threshold (always, for float32) the residual is streamed instead.
"""

from typing import Any

import numpy as np

from ..kernels.arrays import aligned, readonly
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.mttkrp import Scratch, mttkrp_into
from ..kernels.reconstruct import residual_norm2_of, transposed
from ..kernels.simd import padded
from ..kernels.vectors import dot
from ..model.types import Array, Mask
from .terms import Term

# The norm of a tensor is summed in slabs of about this many numbers.
SLAB = 1 << 18

# Pixels with missing data whose model is rendered together.
_GAPS_AT_ONCE = 4096

# The expansion of the cost is trusted while it keeps this many relative digits.
_COST_DIGITS = 1e-11


class Misfit:
    """One term and its place in the stack of what the terms see."""

    def __init__(self, term: Term, scale: float, rows: slice, width: int):
        self.gaps = None if term.valid is None else Gaps(term.tensor, term.valid)
        tensor = term.tensor if self.gaps is None else self.gaps.filled
        self.tensor = readonly(tensor)
        self.weight, self.scale, self.rows = term.weight, scale, rows
        self.norm2 = _norm2(tensor) / scale**2
        self.scratch = Scratch(tensor.shape, width, tensor.dtype)
        self.bands = aligned((width, padded(tensor.shape[2], tensor.dtype)), tensor.dtype)
        self.single = None if tensor.dtype == np.float64 else aligned((rows.stop - rows.start, width), tensor.dtype)

    def at(self, point: Any, n: int) -> float:
        """‖Y/s − [[U]]‖² for this, the n-th term, leaving its MTTKRPs in `point`."""
        U, M, (I, J, _) = point.U_in[self.rows], point.M[self.rows], self.tensor.shape
        if self.single is None:
            seen = U
        else:
            self.single[...] = U
            seen = readonly(self.single)
        A, B, C = seen[:I], seen[I : I + J], seen[I + J :]
        norm2 = self.norm2
        if self.gaps is not None:
            norm2 += self.gaps.fill(A, B, C * self.scale) / self.scale**2
        mttkrp_into(self.tensor, A, B, C, M, self.scratch, least=LEAST)
        overlap = dot(M[:I], U[:I]) / self.scale
        model2 = dot(point.S[n, 0], point.Q[n, 0])
        expanded = norm2 - 2.0 * overlap + model2
        if not np.isfinite(expanded):
            return np.inf
        if expanded * _COST_DIGITS > np.finfo(self.tensor.dtype).eps * max(norm2, model2):
            return expanded
        scaled = transposed(C * self.tensor.dtype.type(self.scale), self.tensor.dtype, out=self.bands)
        return residual_norm2_of(self.tensor, A, B, scaled) / self.scale**2


class Gaps:
    """Data that are missing, filled with the model at every x: there the residual, and so the gradient, is zero.

    The Gauss-Newton matrix stays that of complete data, Gramians and all. It is an upper bound of the true one, so that
    steps are cautious, and cost and gradient are exact.
    """

    def __init__(self, tensor: Array, valid: Mask):
        self.filled = np.where(valid, tensor, tensor.dtype.type(0))
        pixels = np.flatnonzero(~valid.all(axis=2))
        self._rows, self._columns = np.unravel_index(pixels, tensor.shape[:2])
        self._missing = ~valid.reshape(-1, tensor.shape[2])[pixels]

    def fill(self, A: Array, B: Array, C: Array) -> float:
        """Put the model where there are no data; the sum of its squares."""
        total = 0.0
        for n in range(0, len(self._rows), _GAPS_AT_ONCE):
            part = slice(n, n + _GAPS_AT_ONCE)
            rows, columns, missing = self._rows[part], self._columns[part], self._missing[part]
            model = np.where(missing, np.einsum("nr,kr->nk", A[rows] * B[columns], C), 0.0)
            self.filled[rows, columns] = np.where(missing, model, self.filled[rows, columns])
            total += float(np.square(model, dtype=np.float64).sum())
        return total


def _norm2(tensor):
    """‖tensor‖² in float64, a slab at a time."""
    slab = max(1, SLAB // max(1, tensor[0].size))
    sums = [np.square(tensor[i : i + slab], dtype=np.float64).sum() for i in range(0, len(tensor), slab)]
    return float(np.sum(sums))
