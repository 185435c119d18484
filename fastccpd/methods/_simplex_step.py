"""A multiplicative step for spectra whose columns sum to one, with a penalty on the volume that they span.

α log det(C'C + δI) lies below its tangent, α tr(Y C'C) + constant with Y = (C'C + δI)⁻¹, and that below a sum of one
square for each entry, with |Y| in place of Y. Added to the function above the divergence, with q and p the pull-backs
of w⁻ and w⁺, that is separable: each entry is multiplied by its own t > 0, the root of

    2α (C|Y|) t + p t^e − q t^d − 4α (C max(−Y, 0)) + μ = 0,      (e, d) = (0, β−2) below β = 1, (β−1, β−2) up to 2,
                                                                          (β−1, 0) above,

where μ, one for each column, makes its entries sum to one. The left side grows with t, so t falls as μ grows, and the
sum with it. Both roots are found by Newton's steps: that of t cannot miss, for the left side is concave up to β = 2 and
convex above; that of μ is kept between the μ at which one entry alone would be one and that at which all would be at
most 1/K.
"""

import numpy as np

from ._beta_divergence import power

# No entry of a factor falls below it.
FLOOR = np.finfo(float).eps

_MOST_STEPS = 100
_SUM_TOLERANCE = 1e-10

# Steps converge quadratically: after one of this relative size the next would be below rounding.
_LAST_STEP = 1e-7


def simplex_step(C, q, p, beta, alpha=0.0, delta=0.0):
    """C after one step."""
    e, d = (0.0, beta - 2.0) if beta < 1.0 else (beta - 1.0, beta - 2.0) if beta <= 2.0 else (beta - 1.0, 0.0)
    a, b = np.zeros_like(C), np.zeros_like(C)
    if alpha > 0.0:
        Y = np.linalg.inv(C.T @ C + delta * np.eye(C.shape[1]))
        a, b = 2.0 * alpha * (C @ np.abs(Y)), 4.0 * alpha * (C @ np.maximum(-Y, 0.0))
    least = FLOOR / C

    def left_side(t):
        """Without μ, and its slope."""
        grows, falls = p * power(t, e), q * power(t, d)
        return a * t + grows - falls - b, a + (e * grows - d * falls) / t

    low, high = ((-left_side(1.0 / (parts * C))[0]).max(axis=0) for parts in (1, len(C)))
    mu, t = np.clip(0.0, low, high), np.ones_like(C)
    for _ in range(_MOST_STEPS):
        t, slope = _root(left_side, mu, t, least)
        excess = np.sum(C * t, axis=0) - 1.0
        if np.abs(excess).max() <= _SUM_TOLERANCE:
            break
        low, high = np.where(excess > 0.0, mu, low), np.where(excess > 0.0, high, mu)
        falls = np.sum(np.divide(C, slope, out=np.zeros_like(C), where=t > least), axis=0)
        newton = mu + np.divide(excess, falls, out=np.full_like(mu, np.inf), where=falls > 0.0)
        mu = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
    return C * t


def _root(left_side, mu, t, least):
    """The t at which the left side and μ cancel, at least `least`, from the one given; the slope there."""
    for _ in range(_MOST_STEPS):
        value, slope = left_side(t)
        slope = np.maximum(slope, np.finfo(float).tiny)
        before, t = t, np.maximum(t - (value + mu) / slope, np.maximum(0.1 * t, least))
        if np.all(np.abs(t - before) <= _LAST_STEP * t):
            break
    return t, slope
