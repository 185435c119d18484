"""Several tensors that see one set of factors, each through operators of its own: Y_t ≈ [[P_t0 A, P_t1 B, P_t2 C]].

u stacks the three factors (n, R), and the factors U_t that the tensors see are stacked in turn. An operator may be the
identity: then nothing is copied where that can be helped. Each kernel is one launch, its tensors side by side:

    see        u = φ(x), U_t = P_t u, with its Gramians S_t and their products Q_t
    gradient   Σ w_t P_t' (U_t Q_t − M_t / scale), for M_t the MTTKRPs of Y_t, by u and by x, and what `hessian` needs
    hessian    slope * Σ w_t P_t' J_t'J_t P_t (slope * z) + diagonal * z, where u = φ(x) has slopes φ'(x)

φ is the square in the rows that `squared` (n) names, and the identity in others.

The modes of all tensors, three each, are taken as they come (`sharing.py`): with X_n = T_n' U_n of every mode, the
L_n = T_n Q_n + U_n (X_m * S_l + X_l * S_m) of `hessian` need not wait for each other.

`rows` (3 T + 1, 3): where mode n of tensor t, entry 3 t + n, starts in u and in the stack of all U; and, in the last
column, the modes in the order in which threads take them, from both ends (`turns_of`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import readonly
from .gram import gramian, hadamard
from .jit import device, kernel
from .jtj import one_mode
from .operators import add_blocks, blocks_of, clear
from .sharing import claim, done, finish, take, wait
from .simd import ADD, STORE, panel
from .team import in_rear
from .vectors import dot_rows
from .views import rows_of

# Rows whose products with z are summed into one partial sum: fixed, so that the total does not depend on threads.
ROWS_PER_SUM = 32


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


def turns_of(works: NDArray[np.float64]) -> list[int]:
    """Pieces of such works in an order in which two threads, one from each end, have about the same to do.

    The largest first, each to the thread that has less: the one goes from the front, the other from the back.
    """
    front, back, ahead = [], [], 0.0
    for n in sorted(range(len(works)), key=lambda n: -works[n]):
        if ahead <= 0.0:
            front.append(n)
            ahead += works[n]
        else:
            back.append(n)
            ahead -= works[n]
    return front + back[::-1]


@device
def _is_identity(bounds, n):
    return bounds[n, 1] == bounds[n + 1, 1]


@device
def _apply(values, places, bounds, n, X, out):
    """out = P_n X for an operator that is not the identity."""
    clear(out)
    add_blocks(values, bounds[n, 0], rows_of(places, bounds[n, 1], bounds[n + 1, 1]), X, out)


@kernel(uses_tiles=True)
def see(team, values, places, bounds, rows, squared, x, u, U, S, Q, sizes):
    """What each tensor sees of the factors, and its Gramians.

    operators,(3T+1,3),(n),(n,R')->(n,R),(m,R),(T,3,R,R),(T,3,R,R),(T)
    u = φ(x), U_t = P_t u, S_t[n] = U_tn' U_tn, Q_t[n] = product of the two other S_t, sizes_t = ‖[[U_t]]‖², the sum of
    S_t[0] * Q_t[0]. R is the rank R' padded.
    """
    pieces, groups = 3 * S.shape[0], (x.shape[0] + ROWS_PER_SUM - 1) // ROWS_PER_SUM
    stages = team[2]
    group = claim(stages[0])
    while group < groups:
        for i in range(group * ROWS_PER_SUM, min(x.shape[0], (group + 1) * ROWS_PER_SUM)):
            if squared[i]:
                for r in range(x.shape[1]):
                    u[i, r] = x[i, r] * x[i, r]
            else:
                for r in range(x.shape[1]):
                    u[i, r] = x[i, r]
        group = done(stages[0])
    wait(stages[0], groups)
    n = claim(stages[1])
    while n < pieces:
        source = rows_of(u, rows[n, 0], u.shape[0])
        target = rows_of(U, rows[n, 1], rows[n + 1, 1])
        if _is_identity(bounds, n):
            for i in range(target.shape[0]):
                for r in range(target.shape[1]):
                    target[i, r] = source[i, r]
        else:
            _apply(values, places, bounds, n, source, target)
        gramian(target, S[n // 3, n % 3])
        n = done(stages[1])
    wait(stages[1], pieces)
    n = claim(stages[2])
    while n < pieces:
        first, second = _other_modes(n % 3)
        hadamard(S[n // 3, first], S[n // 3, second], Q[n // 3, n % 3])
        if n % 3 == 0:
            sizes[n // 3] = dot_rows(S[n // 3, 0], Q[n // 3, 0], 0, S.shape[2])
        n = done(stages[2])


@kernel(uses_tiles=True)
def gradient(team, values, places, bounds, rows, weights, U, Q, M, scale, latent, G, parts, by_u, slope, diagonal, out):
    """Gradient of Σ ½ w_t ‖Y_t/scale − [[P_t u]]‖², u = φ(x), by u and by x; the operators are P_t'.

    operators,(3T+1,3),(T),(m,R),(T,3,R,R),(m,R),(),((n),(n,R'),(n or 0,R'),())->(n,R),(n,R'),(n,R'),(n,R')
    by_u = Σ w_t P_t' (U_t Q_t − M_t / scale) + more, slope = φ'(x), diagonal = bend max(φ''(x) by_u, 0),
    out = slope * by_u; latent are squared, x, more (which may have no rows) and bend; scratch (m,R),(T,n,R).
    """
    (squared, x, more, bend), share = latent, -1.0 / scale
    pieces, groups = 3 * Q.shape[0], (x.shape[0] + ROWS_PER_SUM - 1) // ROWS_PER_SUM
    stages, from_back = team[2], in_rear(team)
    n = take(stages[0], pieces, from_back)
    while n >= 0:
        n = rows[n, 2]
        tensor, mode = n // 3, n % 3
        first, stop = rows[n, 1], rows[n + 1, 1]
        part = rows_of(parts[tensor], rows[n, 0], _end_in_u(rows, mode, x))
        lifted = part if _is_identity(bounds, n) else rows_of(G, first, stop)
        for i in range(stop - first):
            for r in range(M.shape[1]):
                lifted[i, r] = share * M[first + i, r]
        panel(rows_of(U, first, stop), False, Q[tensor, mode], ADD, Q[0, 0, 0], lifted, U, G[0])
        if not _is_identity(bounds, n):
            _apply(values, places, bounds, n, lifted, part)
        finish(stages[0])
        n = take(stages[0], pieces, from_back)
    wait(stages[0], pieces)
    group = take(stages[1], groups, from_back)
    while group >= 0:
        for i in range(group * ROWS_PER_SUM, min(x.shape[0], (group + 1) * ROWS_PER_SUM)):
            _sum_parts(weights, parts, i)
            _by_latent(squared[i], x[i], more, bend, i, parts[0, i], by_u[i], slope[i], diagonal[i], out[i])
        finish(stages[1])
        group = take(stages[1], groups, from_back)


@device
def _by_latent(squared, x, more, bend, i, total, by_u, slope, diagonal, out):
    """The last lines of `gradient` for one row; short loops, which become vector instructions."""
    for r in range(x.shape[0]):
        by_u[r] = total[r]
    if more.shape[0] > 0:
        for r in range(x.shape[0]):
            by_u[r] += more[i, r]
    if squared:
        for r in range(x.shape[0]):
            slope[r] = 2.0 * x[r]
        for r in range(x.shape[0]):
            diagonal[r] = bend * max(2.0 * by_u[r], 0.0)
    else:
        for r in range(x.shape[0]):
            slope[r], diagonal[r] = 1.0, 0.0
    for r in range(x.shape[0]):
        out[r] = slope[r] * by_u[r]


@device
def _other_modes(mode):
    """The two modes beside this one."""
    return 0 if mode > 0 else 1, 1 if mode == 2 else 2


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
def hessian(team, inputs, z, t, T, X, L, parts, out, sums):
    """Gauss-Newton Hessian plus a diagonal, times z, and what z'Hz is the sum of.

    (operators, those back, (3T+1,3),(T),(m,R),(T,3,R,R),(T,3,R,R),(n,R'),(n,R')),(n,R')->(n,R'),(ceil(n/ROWS_PER_SUM))
    inputs are P, P', rows, weights, U, S, Q, slope, diagonal; scratch (T,n,R),(m,R),(T,6,R,R),(m,R),(T,n,R). R is the
    rank R' padded. out = slope * Σ w_t P_t' J_t'J_t P_t (slope * z) + diagonal * z; sums = z * out, summed for each
    group of rows.
    """
    hessian_pieces(team[2], in_rear(team), inputs, z, t, T, X, L, parts, out, sums)


@device
def hessian_pieces(stages, from_back, inputs, z, t, T, X, L, parts, out, sums):
    """What one thread does of `hessian`, in three stages."""
    values, places, bounds, back_values, back_places, back_bounds, rows, weights, U, S, Q, slope, diagonal = inputs
    pieces = 3 * S.shape[0]
    n = take(stages[0], pieces, from_back)
    while n >= 0:
        n = rows[n, 2]
        tensor, mode = n // 3, n % 3
        start, stop, own = rows[mode, 0], _end_in_u(rows, mode, z), t[tensor]
        for i in range(start, stop):
            for r in range(z.shape[1]):
                own[i, r] = slope[i, r] * z[i, r]
        here, tangent = rows_of(U, rows[n, 1], rows[n + 1, 1]), rows_of(own, start, stop)
        if not _is_identity(bounds, n):
            seen = rows_of(T, rows[n, 1], rows[n + 1, 1])
            _apply(values, places, bounds, n, tangent, seen)
            tangent = seen
        product = X[tensor, mode]
        panel(tangent, True, here, STORE, here[0], product, here, product[0])
        finish(stages[0])
        n = take(stages[0], pieces, from_back)
    wait(stages[0], pieces)
    n = take(stages[1], pieces, from_back)
    while n >= 0:
        n = rows[n, 2]
        tensor, mode = n // 3, n % 3
        first, second = _other_modes(mode)
        start, stop = rows[mode, 0], _end_in_u(rows, mode, z)
        part = rows_of(parts[tensor], start, stop)
        tangent, product = rows_of(t[tensor], start, stop), part
        if not _is_identity(bounds, n):
            tangent, product = rows_of(T, rows[n, 1], rows[n + 1, 1]), rows_of(L, rows[n, 1], rows[n + 1, 1])
        one_mode(rows_of(U, rows[n, 1], rows[n + 1, 1]), tangent, Q[tensor, mode], X[tensor, first], S[tensor, second],
                 X[tensor, second], S[tensor, first], X[tensor, 3 + mode], product)  # fmt: skip
        if not _is_identity(bounds, n):
            _apply(back_values, back_places, back_bounds, n, product, part)
        finish(stages[1])
        n = take(stages[1], pieces, from_back)
    wait(stages[1], pieces)
    group = take(stages[2], sums.shape[0], from_back)
    while group >= 0:
        start, stop = group * ROWS_PER_SUM, min(z.shape[0], (group + 1) * ROWS_PER_SUM)
        for i in range(start, stop):
            _sum_parts(weights, parts, i)
            for r in range(z.shape[1]):
                out[i, r] = slope[i, r] * parts[0, i, r] + diagonal[i, r] * z[i, r]
        sums[group] = dot_rows(z, out, start, stop)
        finish(stages[2])
        group = take(stages[2], sums.shape[0], from_back)
