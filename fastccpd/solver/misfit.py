"""‖Y/s − [[U]]‖² of one term, and the MTTKRPs on the way.

The misfit costs nothing beside the MTTKRPs: ‖Y − [[U]]‖² = ‖Y‖² − 2 Σ M_0*U_0 + 1'(S_0*S_1*S_2)1. That expansion
cancels when the fit is close, so below a threshold (always, for float32) the residual is streamed instead.

**In a basis.** Noise has all spectral dimensions, a scene has a few. With an orthonormal basis E (K×p) of the latter,
pixels as rows, Y = Y E E' + N with N E = 0, and the model W U_2' for W = the Khatri-Rao product of U_0 and U_1,

    ‖Y − W U_2'‖² = ‖Y E − W (E'U_2)'‖² + ‖N − W U_2'(I − E E')‖².

Leaving N out as data, the second part is ‖W U_2'(I − E E')‖² = 1'(S_0 * S_1 * V'V)1, V = (I − E E')U_2, and ‖N‖²: the
misfit is that of Y E E', plus a constant. Written as above, ‖Y E E'‖² − 2 ⟨Y E E', [[U]]⟩ + 1'(S_0*S_1*S_2)1, all that
the data take part in is

    M_0, M_1 = the MTTKRPs of Y E with E'U_2 in place of U_2,        M_2 = E (the MTTKRP of Y E along its bands),

p/K of the work and memory traffic, while Gramians, and with them J'J, are those of the whole U_2: they need no
approximation, and U_2 may stay non-negative. With p = K nothing is left out.
"""

import copy
import math
from typing import Any

import numpy as np

from ..blas import one_blas_thread
from ..kernels import gram
from ..kernels.arrays import aligned, readonly
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.mttkrp import Scratch, mttkrp_into
from ..kernels.operators import blocks_of, operator_product
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
    """One term, and, once it is `placed`, its rows in the stack of what the terms see."""

    rows: slice
    scratch: Scratch
    bands: Array
    #: Of float32 tensors: room for what they see of the factors, and for their MTTKRPs.
    single: tuple[Array, Array] | None

    def __init__(self, term: Term, scale: float):
        self.gaps = None if term.valid is None else Gaps(term.tensor, term.valid)
        tensor: Array = term.tensor if self.gaps is None else self.gaps.filled
        self.weight, self.scale = term.weight, scale
        self.basis, self.left_out = None, 0.0
        if term.basis is not None:
            tensor, left_out = (term.tensor, 0.0) if term.in_basis else _in_basis(term.tensor, term.basis)
            self.left_out = left_out / scale**2
            self.basis = _Basis(term.basis)
        self.tensor = readonly(tensor)
        self.norm2, self.epsilon = _norm2(tensor) / scale**2, float(np.finfo(tensor.dtype).eps)

    def placed(self, rows: slice, width: int) -> "Misfit":
        """The same with room of its own for factors of this width, which stand in these rows of the stack."""
        other, shape, dtype = copy.copy(self), self.tensor.shape, self.tensor.dtype
        other.rows, other.scratch = rows, Scratch(shape, width, dtype)
        other.bands = aligned((width, padded(shape[2], dtype)), dtype)
        other.single = None
        if dtype != np.float64:
            other.single = aligned((sum(shape), width), dtype), aligned((sum(shape), width), dtype)
        if self.basis is not None:
            other.basis = self.basis.with_room(sum(shape), width)
        return other

    def at(self, point: Any, n: int) -> float:
        """‖Y/s − [[U]]‖² for this, the n-th term, leaving its MTTKRPs in `point`."""
        whole, (I, J, _) = point.M[self.rows], self.tensor.shape
        U, M = point.U_in[self.rows], whole
        if self.basis is not None:
            U, M = self.basis.seen(U, I + J), self.basis.M
        if self.single is None:
            seen, sums = U, M
        else:
            single, sums = self.single
            single[...] = U
            seen = readonly(single)
        A, B, C = seen[:I], seen[I : I + J], seen[I + J :]
        norm2 = self.norm2
        if self.gaps is not None:
            norm2 += self.gaps.fill(A, B, C * self.scale) / self.scale**2
        mttkrp_into(self.tensor, (A, B, C), (sums[:I], sums[I : I + J], sums[I + J :]), self.scratch, least=LEAST)
        if sums is not M:
            M[...] = sums
        if self.basis is not None:
            self.basis.lift(I + J, whole)
        overlap, model2 = dot(M[:I], U[:I]) / self.scale, float(point.sizes[n])
        expanded = norm2 - 2.0 * overlap + model2
        if not math.isfinite(expanded):
            return math.inf
        if expanded * _COST_DIGITS > self.epsilon * max(norm2, model2):
            return expanded + self.left_out
        scaled = transposed(C * self.tensor.dtype.type(self.scale), self.tensor.dtype, out=self.bands)
        streamed = residual_norm2_of(self.tensor, A, B, scaled) / self.scale**2
        if self.basis is not None:
            streamed += dot(point.Q[n, 2], self.basis.gram_outside(point.U_in[self.rows][I + J :]))
        return streamed + self.left_out


class _Basis:
    """E, for one term: its factors in the basis, and its MTTKRPs back from it."""

    M: Array
    _U: Array
    _U_in: Array
    _M_in: Array
    _outside: Array

    def __init__(self, basis: Array):
        self._ahead, self._back = blocks_of(basis.T), blocks_of(basis)

    def with_room(self, rows: int, width: int) -> "_Basis":
        """The same for factors of so many rows and this width."""
        other = copy.copy(self)
        other._U, other.M = (aligned((rows, width), np.float64) for _ in range(2))
        other._outside = aligned((self._back.shape[0], width), np.float64)
        other._U_in, other._M_in = readonly(other._U), readonly(other.M)
        return other

    def seen(self, U: Array, first: int) -> Array:
        """U_0, U_1 and E'U_2, stacked; U_2 begins at the row `first`."""
        self._U[:first] = U[:first]
        operator_product(self._ahead.values, self._ahead.places, U[first:], self._U[first:])
        return self._U_in

    def lift(self, first: int, out: Array) -> None:
        """M_0, M_1 and E M_2 into `out`."""
        out[:first] = self.M[:first]
        operator_product(self._back.values, self._back.places, self._M_in[first:], out[first:])

    def gram_outside(self, C: Array) -> Array:
        """V'V of V = (I − E E')C; `seen` has made E'C before."""
        operator_product(self._back.values, self._back.places, self._U_in[-self._ahead.shape[0] :], self._outside)
        np.subtract(C, self._outside, out=self._outside)
        return gram(self._outside)


def _in_basis(tensor, basis):
    """(Y E, ‖Y − Y E E'‖²), a slab of rows at a time."""
    projected = np.empty((*tensor.shape[:2], basis.shape[1]), tensor.dtype)
    slab, left_out = max(1, SLAB // max(1, tensor[0].size)), []
    with one_blas_thread():
        for i in range(0, len(tensor), slab):
            rows = tensor[i : i + slab].astype(np.float64, copy=False)
            inside = rows @ basis
            projected[i : i + slab] = inside
            left_out.append(np.square(rows - inside @ basis.T).sum())
    return projected, float(np.sum(left_out))


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
