"""Truncated preconditioned conjugate gradients for a trust-region model.

Minimise m(p) = g'p + ½ p'H p for a positive semidefinite H, by CG preconditioned with M, stopping at the residual's
forcing term, at the step limit, or where the path leaves the region ‖p‖_M ≤ radius (Steihaug-Toint). CG's iterates grow
in the M-norm, so the first crossing is the last. M p is carried along beside p: norms by their recurrence lose five
digits in eighty steps.

Vectors may have any shape. Sums are taken by einsum, not BLAS, whose bits change with its thread count.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Step:
    """A step p, H p, its length in the region's norm, and the decrease its model predicts."""

    p: np.ndarray
    Hp: np.ndarray
    length: float
    predicted: float
    iterations: int
    products: int


def dot(a, b):
    """<a, b> in float64, with the same bits for any number of threads."""
    return float(np.einsum("i,i->", a.reshape(-1), b.reshape(-1)))


def predicted_decrease(g, p, Hp):
    """−m(p)."""
    return -(dot(g, p) + 0.5 * dot(p, Hp))


def steihaug(g, hessp, precondition, *, radius, max_iter, rtol):
    """Minimise the model within ‖p‖_M ≤ radius; with an infinite radius, plain truncated PCG."""
    p, Hp, Mp = np.zeros_like(g), np.zeros_like(g), np.zeros_like(g)
    r = g.copy()  # the model's gradient, g + H p
    y = precondition(r)
    ry = dot(r, y)
    d, Md = -y, -r
    target = rtol**2 * ry
    products = 0
    for _ in range(max_iter):
        if not ry > max(target, 0.0):
            break
        Hd = hessp(d)
        products += 1
        curvature = dot(d, Hd)
        # Along a direction without curvature the model only falls: go to the boundary, if there is one.
        alpha = ry / curvature if curvature > 0.0 else np.inf
        pMp, pMd, dMd = dot(p, Mp), dot(p, Md), dot(d, Md)
        if pMp + 2.0 * alpha * pMd + alpha**2 * dMd >= radius**2 if np.isfinite(alpha) else True:
            if not np.isfinite(radius):
                break
            alpha = boundary(pMp, pMd, dMd, radius)
            p, Hp, Mp = p + alpha * d, Hp + alpha * Hd, Mp + alpha * Md
            break
        p, Hp, Mp = p + alpha * d, Hp + alpha * Hd, Mp + alpha * Md
        r = r + alpha * Hd
        y = precondition(r)
        ry, previous = dot(r, y), ry
        beta = ry / previous
        d, Md = -y + beta * d, -r + beta * Md
    length = np.sqrt(max(0.0, dot(p, Mp)))
    return Step(p, Hp, float(length), predicted_decrease(g, p, Hp), products, products)


def boundary(pp, pd, dd, radius):
    """The positive tau with ‖p + tau d‖ = radius, from <p,p>, <p,d>, <d,d>."""
    missing = max(0.0, radius**2 - pp)
    root = np.sqrt(pd * pd + dd * missing)
    # Of the two forms of the root, the one that does not subtract like numbers.
    return missing / (pd + root) if pd > 0.0 else (root - pd) / dd
