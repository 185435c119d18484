"""J'J t of one CP-decomposed tensor: nine blocks from Gramians, J never formed.

For factors U_n and tangents T_n, with S and Q as in `gram.py` and X_n = T_n' U_n (R x R),

    L_n = T_n Q_n + U_n (X_m * S_l + X_l * S_m),    {n, m, l} = {0, 1, 2}.

The gradient of the same least-squares cost, U_n Q_n - M_n, is the other small product with Q.
"""

import numpy as np

from ._arrays import aligned, check_factors, pad
from ._jit import device, kernel
from ._simd import ADD, STORE, panel
from .gram import grams


@device
def _one_mode(U, T, Q, Xm, Sl, Xl, Sm, W, L):
    """L = T Q + U (Xm*Sl + Xl*Sm)."""
    R = Q.shape[0]
    for r in range(R):
        for s in range(R):
            W[r, s] = Xm[r, s] * Sl[r, s] + Xl[r, s] * Sm[r, s]
    panel(T, False, Q, STORE, W[0], L, Q, W[0])
    panel(U, False, W, ADD, W[0], L, Q, W[0])


@kernel
def jtj(U0, U1, U2, T0, T1, T2, S, Q, X, L0, L1, L2):
    """All nine blocks of J'J applied to tangents.

    (I,R),(J,R),(K,R),(I,R),(J,R),(K,R),(3,R,R),(3,R,R)->(I,R),(J,R),(K,R); scratch (4,R,R)
    L_n = T_n Q_n + U_n (X_m * S_l + X_l * S_m), X_n = T_n' U_n.
    """
    panel(T0, True, U0, STORE, X[3, 0], X[0], U0, X[3, 0])
    panel(T1, True, U1, STORE, X[3, 0], X[1], U1, X[3, 0])
    panel(T2, True, U2, STORE, X[3, 0], X[2], U2, X[3, 0])
    _one_mode(U0, T0, Q[0], X[1], S[2], X[2], S[1], X[3], L0)
    _one_mode(U1, T1, Q[1], X[0], S[2], X[2], S[0], X[3], L1)
    _one_mode(U2, T2, Q[2], X[0], S[1], X[1], S[0], X[3], L2)


@kernel
def cp_gradient(U0, U1, U2, Q, M, scale, G):
    """Gradient of ½‖Y/scale - [[U]]‖² from the Gramians and Y's stacked MTTKRPs.

    (I,R),(J,R),(K,R),(3,R,R),(I+J+K,R),()->(I+J+K,R)
    G_n = U_n Q_n - M_n / scale.
    """
    I, J = U0.shape[0], U1.shape[0]
    for n in range(M.shape[0]):
        for r in range(M.shape[1]):
            G[n, r] = -M[n, r] / scale
    panel(U0, False, Q[0], ADD, Q[0, 0], G[:I], Q[0], G[0])
    panel(U1, False, Q[1], ADD, Q[0, 0], G[I : I + J], Q[0], G[0])
    panel(U2, False, Q[2], ADD, Q[0, 0], G[I + J :], Q[0], G[0])


def jtj_apply(factors, tangents, out=None):
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
    dtype = np.result_type(*factors, *tangents, np.float32)
    rank = factors[0].shape[1]
    U, T = [pad(f, dtype) for f in factors], [pad(t, dtype) for t in tangents]
    width = U[0].shape[1]
    S, Q = aligned((3, width, width), dtype), aligned((3, width, width), dtype)
    grams(*U, S, Q)
    L = [aligned(u.shape, dtype) for u in U]
    jtj(*U, *T, S, Q, aligned((4, width, width), dtype), *L)
    results = tuple(np.ascontiguousarray(part[:, :rank]) for part in L)
    if out is None:
        return results
    for target, result in zip(out, results, strict=True):
        target[...] = result
    return tuple(out)
