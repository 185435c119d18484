"""Several tensors that see one set of factors, each through operators of its own: Y_t ≈ [[P_t0 A, P_t1 B, P_t2 C]].

u stacks the three factors (n, R), and the factors U_t that the tensors see are stacked in turn. An operator may be the
identity: then nothing is copied where that can be helped. Each kernel is one launch, its tensors side by side:

    see        U_t = P_t u, with its Gramians S_t and their products Q_t
    gradient   Σ w_t P_t' (U_t Q_t − M_t / scale), for M_t the MTTKRPs of Y_t
    hessian    slope * Σ w_t P_t' J_t'J_t P_t (slope * z) + diagonal * z, where u = φ(x) has slopes φ'(x)

`rows` (3 T + 1, 2): where mode n of tensor t, entry 3 t + n, starts in u and in the stack of all U.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange

from .arrays import readonly
from .gram import gramians
from .jit import device, kernel
from .jtj import nine_blocks
from .operators import add_blocks, blocks_of
from .simd import ADD, panel


@dataclass(frozen=True, eq=False)
class Operators:
    """The blocks of several operators, one after the other: `bounds[n]` = first (value, place) of operator n.

    An operator without blocks is the identity.
    """

    values: np.ndarray
    places: np.ndarray
    bounds: np.ndarray

    @classmethod
    def of(cls, matrices: Iterable[Any]) -> "Operators":
        """From matrices, None for the identity."""
        blocks = [blocks_of(np.zeros((0, 0)) if matrix is None else matrix) for matrix in matrices]
        ends = np.cumsum([(len(b.values), len(b.places)) for b in blocks], axis=0)
        parts = (
            np.concatenate([b.values for b in blocks]),
            np.concatenate([b.places for b in blocks]),
            np.vstack([np.zeros((1, 2), np.int64), ends]),
        )
        return cls(*(readonly(np.ascontiguousarray(part)) for part in parts))

    def __iter__(self):
        return iter((self.values, self.places, self.bounds))


@device
def _is_identity(bounds, n):
    return bounds[n, 1] == bounds[n + 1, 1]


@device
def _apply(values, places, bounds, n, X, out):
    """out = P_n X for an operator that is not the identity."""
    out[:] = 0
    add_blocks(values[bounds[n, 0] : bounds[n + 1, 0]], places[bounds[n, 1] : bounds[n + 1, 1]], X, out)


@kernel(uses_tiles=True)
def see(values, places, bounds, rows, u, U, S, Q):
    """What each tensor sees of the factors, and its Gramians.

    operators,(3T+1,2),(n,R)->(m,R),(T,3,R,R),(T,3,R,R)
    U_t = P_t u, S_t[n] = U_tn' U_tn, Q_t[n] = product of the two other S_t.
    """
    for tensor in prange(S.shape[0]):
        for n in range(3 * tensor, 3 * tensor + 3):
            source = u[rows[n, 0] :]
            target = U[rows[n, 1] : rows[n + 1, 1]]
            if _is_identity(bounds, n):
                target[:] = source[: target.shape[0]]
            else:
                _apply(values, places, bounds, n, source, target)
        m0, m1, m2, end = rows[3 * tensor, 1], rows[3 * tensor + 1, 1], rows[3 * tensor + 2, 1], rows[3 * tensor + 3, 1]
        gramians(m1 - m0, m2 - m1, U[m0:end], S[tensor], Q[tensor])


@kernel(uses_tiles=True)
def gradient(values, places, bounds, rows, weights, U, Q, M, scale, G, parts, out):
    """Gradient by u of Σ ½ w_t ‖Y_t/scale − [[P_t u]]‖²; the operators are P_t'.

    operators,(3T+1,2),(T),(m,R),(T,3,R,R),(m,R),()->(n,R); scratch (m,R),(T,n,R)
    out = Σ w_t P_t' (U_t Q_t − M_t / scale).
    """
    for tensor in prange(Q.shape[0]):
        for mode in range(3):
            n = 3 * tensor + mode
            first, stop = rows[n, 1], rows[n + 1, 1]
            part = parts[tensor, rows[n, 0] : _end_in_u(rows, mode, out)]
            lifted = part if _is_identity(bounds, n) else G[first:stop]
            for i in range(stop - first):
                for r in range(M.shape[1]):
                    lifted[i, r] = -M[first + i, r] / scale
            panel(U[first:stop], False, Q[tensor, mode], ADD, Q[0, 0, 0], lifted, U, G[0])
            if not _is_identity(bounds, n):
                _apply(values, places, bounds, n, lifted, part)
    for i in range(out.shape[0]):
        _sum_parts(weights, parts, i)
        for r in range(out.shape[1]):
            out[i, r] = parts[0, i, r]


@device
def _sum_parts(weights, parts, i):
    """parts[0, i] = Σ w_t parts[t, i]; tensor by tensor, so that the inner loop runs along a row."""
    for r in range(parts.shape[2]):
        parts[0, i, r] *= weights[0]
    for tensor in range(1, parts.shape[0]):
        for r in range(parts.shape[2]):
            parts[0, i, r] += weights[tensor] * parts[tensor, i, r]


@device
def _end_in_u(rows, mode, u):
    """One past the last row of a mode in u."""
    return rows[mode + 1, 0] if mode < 2 else u.shape[0]


@kernel(uses_tiles=True)
def hessian(values, places, bounds, back_values, back_places, back_bounds, rows, weights, U, S, Q, slope, diagonal, z,
            t, T, X, L, parts, out):  # fmt: skip
    """Gauss-Newton Hessian plus a diagonal, times z.

    operators,operators,(3T+1,2),(T),(m,R),(T,3,R,R),(T,3,R,R),(n,R'),(n,R'),(n,R')->(n,R')
    scratch (n,R),(m,R),(T,4,R,R),(m,R),(T,n,R). R is the rank R' padded.
    out = slope * Σ w_t P_t' J_t'J_t P_t (slope * z) + diagonal * z.
    """
    rank = z.shape[1]
    for i in range(z.shape[0]):
        for r in range(rank):
            t[i, r] = slope[i, r] * z[i, r]
    for tensor in prange(S.shape[0]):
        n = 3 * tensor
        T0, L0 = _tangent(values, places, bounds, rows, n, 0, t, T, parts[tensor], L)
        T1, L1 = _tangent(values, places, bounds, rows, n + 1, 1, t, T, parts[tensor], L)
        T2, L2 = _tangent(values, places, bounds, rows, n + 2, 2, t, T, parts[tensor], L)
        m0, m1, m2, end = rows[n, 1], rows[n + 1, 1], rows[n + 2, 1], rows[n + 3, 1]
        nine_blocks(U[m0:m1], U[m1:m2], U[m2:end], T0, T1, T2, S[tensor], Q[tensor], X[tensor], L0, L1, L2)
        for mode in range(3):
            if not _is_identity(bounds, n + mode):
                part = parts[tensor, rows[mode, 0] : _end_in_u(rows, mode, t)]
                lifted = L[rows[n + mode, 1] : rows[n + mode + 1, 1]]
                _apply(back_values, back_places, back_bounds, n + mode, lifted, part)
    for i in range(z.shape[0]):
        _sum_parts(weights, parts, i)
        for r in range(rank):
            out[i, r] = slope[i, r] * parts[0, i, r] + diagonal[i, r] * z[i, r]


@device
def _tangent(values, places, bounds, rows, n, mode, t, T, part, L):
    """Where one mode's tangent stands after its operator, and where its product is to go: in place for an identity."""
    first, stop = rows[mode, 0], _end_in_u(rows, mode, t)
    if _is_identity(bounds, n):
        return t[first:stop], part[first:stop]
    seen = slice(rows[n, 1], rows[n + 1, 1])
    _apply(values, places, bounds, n, t[first:stop], T[seen])
    return T[seen], L[seen]
