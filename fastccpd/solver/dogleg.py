"""The dogleg step, as in the paper: from the Cauchy point towards the truncated PCG-Newton point."""

from collections.abc import Callable

import numpy as np

from ..kernels.vectors import dot
from .objective import Product, Vector
from .pcg import Step, boundary, predicted_decrease, steihaug
from .walk import Walk


def dogleg(
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
    """The paper's step: from the Cauchy point towards the PCG-Newton point, ‖p‖ ≤ radius."""
    newton = steihaug(g, hessp, precondition, radius=np.inf, max_iter=max_iter, rtol=rtol, walk=walk, pulse=pulse)
    Hg, newton_product = hessp(g), newton.r - g
    products = newton.products + 1

    def at(p, Hp):
        length = float(np.sqrt(dot(p, p)))
        return Step(p, g + Hp, length, predicted_decrease(g, p, Hp), products)

    gg, gHg = dot(g, g), dot(g, Hg)
    to_boundary = radius / np.sqrt(gg) if gg > 0.0 else 0.0
    along = min(gg / gHg, to_boundary) if gHg > 0.0 else to_boundary
    cauchy_product = -along * Hg
    cauchy = at(-along * g, cauchy_product)
    if dot(newton.p, newton.p) <= radius**2:
        best = at(newton.p, newton_product)
    elif cauchy.length >= radius * (1.0 - 1e-12):
        best = cauchy
    else:
        d, Hd = newton.p - cauchy.p, newton_product - cauchy_product
        tau = boundary(dot(cauchy.p, cauchy.p), dot(cauchy.p, d), dot(d, d), radius)
        best = at(cauchy.p + tau * d, cauchy_product + tau * Hd)
    # A truncated Newton point need not be better than the Cauchy point.
    return best if best.predicted >= cauchy.predicted else cauchy
