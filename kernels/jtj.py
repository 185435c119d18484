"""J'J t of one CP-decomposed tensor: nine blocks from Gramians, J never formed.

For factors U_n and tangents T_n, with S and Q as in `gram.py` and X_n = T_n' U_n (R x R),

    L_n = T_n Q_n + U_n (X_m * S_l + X_l * S_m),    {n, m, l} = {0, 1, 2}.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import aligned, check_factors, check_three_outs, deliver, pad, readonly
from .gram import grams
from .jit import device, kernel
from .simd import ADD, STORE, panel


@device
def one_mode(U, T, Q, Xm, Sl, Xl, Sm, W, L):
    """L = T Q + U (Xm*Sl + Xl*Sm)."""
    R = Q.shape[0]
    for r in range(R):
        for s in range(R):
            W[r, s] = Xm[r, s] * Sl[r, s] + Xl[r, s] * Sm[r, s]
    panel(T, False, Q, STORE, W[0], L, Q, W[0])
    panel(U, False, W, ADD, W[0], L, Q, W[0])


@device
def nine_blocks(U0, U1, U2, T0, T1, T2, S, Q, X, L0, L1, L2):
    """(L0, L1, L2) = J'J (T0, T1, T2); X is scratch (4, R, R)."""
    panel(T0, True, U0, STORE, X[3, 0], X[0], U0, X[3, 0])
    panel(T1, True, U1, STORE, X[3, 0], X[1], U1, X[3, 0])
    panel(T2, True, U2, STORE, X[3, 0], X[2], U2, X[3, 0])
    one_mode(U0, T0, Q[0], X[1], S[2], X[2], S[1], X[3], L0)
    one_mode(U1, T1, Q[1], X[0], S[2], X[2], S[0], X[3], L1)
    one_mode(U2, T2, Q[2], X[0], S[1], X[1], S[0], X[3], L2)


@kernel(uses_tiles=True)
def jtj(I, J, U, T, S, Q, X, L):
    """All nine blocks of J'J applied to tangents, all stacked by mode.

    (),(),(I+J+K,R),(I+J+K,R),(3,R,R),(3,R,R)->(I+J+K,R); scratch (4,R,R)
    L_n = T_n Q_n + U_n (X_m * S_l + X_l * S_m), X_n = T_n' U_n.
    """
    m0, m1, m2 = slice(0, I), slice(I, I + J), slice(I + J, U.shape[0])
    nine_blocks(U[m0], U[m1], U[m2], T[m0], T[m1], T[m2], S, Q, X, L[m0], L[m1], L[m2])


def jtj_apply(
    factors: Sequence[ArrayLike], tangents: Sequence[ArrayLike], out: Sequence[NDArray[Any]] | None = None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """J'J t for the CP decomposition with these factors, without J.

    Parameters
    ----------
    factors, tangents : three matrices each, (I, R), (J, R), (K, R)
    out : three arrays to write to, optional

    Returns
    -------
    (L0, L1, L2), shaped like the factors
    """
    factors, tangents = check_factors(factors), check_factors(tangents, "tangents")
    if [f.shape for f in factors] != [t.shape for t in tangents]:
        shapes = [t.shape for t in tangents], [f.shape for f in factors]
        raise ValueError(f"tangents: shapes {shapes[0]}, but the factors are {shapes[1]}; they must agree")
    outs = check_three_outs(out, [f.shape for f in factors])
    dtype = np.result_type(*factors, *tangents, np.float32)
    rank = factors[0].shape[1]
    U, T = pad(np.concatenate(factors), dtype), pad(np.concatenate(tangents), dtype)
    width = U.shape[1]
    I, J = len(factors[0]), len(factors[1])
    S, Q = aligned((3, width, width), dtype), aligned((3, width, width), dtype)
    grams(I, J, U, S, Q)
    L = aligned(U.shape, dtype)
    jtj(I, J, U, T, readonly(S), readonly(Q), aligned((4, width, width), dtype), L)
    results = (np.ascontiguousarray(part[:, :rank]) for part in (L[:I], L[I : I + J], L[I + J :]))
    L0, L1, L2 = map(deliver, results, outs)
    return L0, L1, L2
