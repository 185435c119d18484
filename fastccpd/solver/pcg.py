"""Truncated preconditioned conjugate gradients for a trust-region model.

Minimise m(p) = g'p + ½ p'H p for a positive semidefinite H, by CG preconditioned with M, stopping at the residual's
forcing term, at the step limit, or where the path leaves the region ‖p‖_M ≤ radius (Steihaug-Toint). CG's iterates grow
in the M-norm, so the first crossing is the last. M itself is never applied: with d the direction, r the residual and
y = M⁻¹ r, conjugacy gives

    ‖d‖² ← <r,y> + β² ‖d‖²,   <p,d> ← β (<p,d> + α ‖d‖²),   ‖p‖² ← ‖p‖² + 2α <p,d> + α² ‖d‖²      (M-norms)

which is good to twelve digits after thirty steps and to five after eighty. Each step α lowers the model by
α <r,y> − ½ α² <d,Hd>, whose sum is the predicted decrease.

Vectors may have any shape; their sums (`kernels/vectors.py`) have the same bits for any number of threads. What is done
to them stands in a `Walk` (`walk.py`), of which an objective may bring its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..kernels.vectors import dot, stride, turned_norms
from .objective import Product, Vector
from .walk import PlainWalk, Walk


@dataclass(frozen=True)
class Step:
    """A step p, the model's gradient r = g + H p there, p's length in the region's norm, the decrease that the model
    predicts, and the H products it took."""

    p: np.ndarray
    r: np.ndarray
    length: float
    predicted: float
    products: int


def predicted_decrease(g: Vector, p: Vector, Hp: Vector) -> float:
    """−m(p)."""
    return -(dot(g, p) + 0.5 * dot(p, Hp))


def shortened(step: Step, g: Vector, radius: float) -> Step:
    """The part of a step that is as long as `radius`, if that is shorter: it takes no product with H."""
    share = min(1.0, radius / step.length) if step.length > 0.0 else 1.0
    p, Hp = share * step.p, share * (step.r - g)
    return Step(p, g + Hp, share * step.length, predicted_decrease(g, p, Hp), 0)


def steihaug(
    g: Vector,
    hessp: Product,
    precondition: Product,
    *,
    radius: float,
    max_iter: int,
    rtol: float,
    walk: Walk | None = None,
    pulse: Callable[[], None] | None = None,
) -> Step:
    """Minimise the model within ‖p‖_M ≤ radius; with an infinite radius, plain truncated PCG.

    `walk` stands for H and M in their place, if there is one; `pulse` is called before each product with H.
    """
    walk = PlainWalk(hessp, precondition) if walk is None else walk
    whole = getattr(walk, "whole", None)
    if whole is not None:
        if pulse is not None:
            pulse()
        step = whole(g, radius, max_iter, rtol)
        if step is not None:
            return Step(*step)
    ry = walk.begin(g)
    pp = pd = predicted = 0.0
    dd = ry
    target = rtol * rtol * ry
    products, ends = 0, False
    while products < max_iter and ry > target and not ends:
        if pulse is not None:
            pulse()
        curvature = walk.curvature()
        products += 1
        alpha, ends, pp, predicted = stride(ry, curvature, pp, pd, dd, predicted, radius)
        if ends or products == max_iter:
            if alpha != 0.0:
                walk.advance(alpha)
        else:
            ry, previous = walk.turn(alpha, ry), ry
            pd, dd = turned_norms(ry, previous, alpha, pd, dd)
    return Step(*walk.step(), float(np.sqrt(pp)), float(predicted), products)


def boundary(pp: float, pd: float, dd: float, radius: float) -> float:
    """The positive tau with ‖p + tau d‖ = radius, from <p,p>, <p,d>, <d,d>."""
    return stride(1.0, 0.0, pp, pd, dd, 0.0, radius)[0]
