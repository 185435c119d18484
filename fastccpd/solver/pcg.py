"""Truncated preconditioned conjugate gradients for a trust-region model.

Minimise m(p) = g'p + ½ p'H p for a positive semidefinite H, by CG preconditioned with M, stopping at the residual's
forcing term, at the step limit, or where the path leaves the region ‖p‖_M ≤ radius (Steihaug-Toint). CG's iterates grow
in the M-norm, so the first crossing is the last. M itself is never applied: with d the direction, r the residual and
y = M⁻¹ r, conjugacy gives

    ‖d‖² ← <r,y> + β² ‖d‖²,   <p,d> ← β (<p,d> + α ‖d‖²),   ‖p‖² ← ‖p‖² + 2α <p,d> + α² ‖d‖²      (M-norms)

which is good to twelve digits after thirty steps and to five after eighty. Each step α lowers the model by
α <r,y> − ½ α² <d,Hd>, whose sum is the predicted decrease.

Vectors may have any shape; their sums (`kernels/vectors.py`) have the same bits for any number of threads.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..kernels.vectors import advance, dot, turn
from .objective import Vector

# A vector times H, or times M⁻¹.
Product = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Step:
    """A step p, H p, its length in the region's norm, the decrease its model predicts, and the H products it took."""

    p: np.ndarray
    Hp: np.ndarray
    length: float
    predicted: float
    products: int


def predicted_decrease(g: Vector, p: Vector, Hp: Vector) -> float:
    """−m(p)."""
    return -(dot(g, p) + 0.5 * dot(p, Hp))


def steihaug(g: Vector, hessp: Product, precondition: Product, *, radius: float, max_iter: int, rtol: float) -> Step:
    """Minimise the model within ‖p‖_M ≤ radius; with an infinite radius, plain truncated PCG."""
    p, r, d = np.zeros(g.shape), np.array(g, np.float64, order="C"), np.zeros(g.shape)
    y = precondition(r)  # r is the model's gradient, g + H p
    ry = turn(r, y, 1.0, d)
    pp = pd = predicted = 0.0
    dd = ry
    target = rtol**2 * ry
    products = 0
    while products < max_iter and ry > target:
        Hd = hessp(d)
        products += 1
        curvature = dot(d, Hd)
        # Along a direction without curvature the model only falls: the way leads to the boundary, if there is one.
        alpha = ry / curvature if curvature > 0.0 else np.inf
        crosses = not alpha < np.inf or pp + alpha * (2.0 * pd + alpha * dd) >= radius**2
        if crosses:
            if radius == np.inf:
                break
            alpha = boundary(pp, pd, dd, radius)
        advance(alpha, d, Hd, p, r)
        pp += alpha * (2.0 * pd + alpha * dd)
        predicted += alpha * (ry - 0.5 * alpha * curvature)
        if crosses:
            break
        y = precondition(r)
        ry, previous = turn(r, y, ry, d), ry
        beta = ry / previous
        pd, dd = beta * (pd + alpha * dd), ry + beta**2 * dd
    return Step(p, r - g, float(np.sqrt(pp)), float(predicted), products)


def boundary(pp: float, pd: float, dd: float, radius: float) -> float:
    """The positive tau with ‖p + tau d‖ = radius, from <p,p>, <p,d>, <d,d>."""
    missing = max(0.0, radius**2 - pp)
    root = np.sqrt(pd * pd + dd * missing)
    # Of the two forms of the root, the one that does not subtract like numbers.
    return missing / (pd + root) if pd > 0.0 else (root - pd) / dd
