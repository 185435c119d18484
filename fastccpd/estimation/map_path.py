"""Maps that follow the weight λ of their total variation (`tv_maps.py`): reweighted squares, by conjugate gradients."""

from collections.abc import Sequence

import numpy as np

from ..model.types import Array
from .map_system import MapSystem, inner

# Reweighted squares for each λ, and conjugate gradient steps for each of them.
REWEIGHTINGS, CG_STEPS, CG_RTOL = 3, 40, 0.2

# Differences below this part of the noise of the best map count as none. With a weak λ nothing is flat to that degree,
# and more rounding makes the squares easier to solve: it grows as λ⁻², up to a limit.
ROUNDING, MOST_ROUNDING = 0.025, 0.5

# Steps well above so many times the noise of the best map are edges, whose price is the root of their height.
KNEE = 5.0


class MapPath:
    """Maps that follow λ: each fit begins where the last one ended.

    Parameters
    ----------
    system : MapSystem
        Shared by paths that take turns.
    Z : array
        A stack of the system's layout, which the path owns.
    target : array, optional
        What the images give the maps; that of the data otherwise.

    Attributes
    ----------
    loosest : float
        Further squares of a λ are solved as far as the first one was, and at least to this part of their residual.
    """

    def __init__(self, system: MapSystem, Z: Array, target: Array | None = None):
        self.system, self.data, self.Z, self._target = system, system.data, Z, target
        self.loosest, self._first = CG_RTOL, (np.inf, 0.0)

    @property
    def target(self) -> Array:
        """What the images give the maps."""
        return self.data.target if self._target is None else self._target

    def smooth(self, strength: float) -> None:
        """Quadratic smoothing, to begin with."""
        self.system.weigh_all(strength * self.data.unit**2)
        self._solve()

    def descend(self, strength: float, reweightings: int = REWEIGHTINGS) -> float:
        """Fit with λ = strength; the part of the objective that the last reweighting gained."""
        before = predicted = 0.0
        for _ in range(reweightings):
            self.reweight(strength)
            before, predicted = self._solve(strength)
        # The square bounds the price of edges from above: the objective falls by no less than the square does.
        return predicted / max(before, 1e-300)

    def reweight(self, strength: float) -> None:
        """Take the weights of the squares around Z, with λ = strength."""
        unit, rounding = self.data.unit, min(ROUNDING * max(1.0, strength**-2.0), MOST_ROUNDING)
        self.system.weigh(self.Z, strength * unit, rounding / unit, KNEE / unit)

    def _solve(self, strength=np.inf):
        """Minimise the square around Z; ½ χ² + λ TV before, and the decrease that the square promises."""
        system, energy = self.system, self.data.hsi.energy + self.data.msi.energy + self.data.led
        square, ry = system.residual(self.Z, self.target)
        before = 0.5 * (energy + square) - inner(self.Z, self.target) + float(system.rest.sum())
        return before, system.solve(self.Z, ry, CG_STEPS, self._rtol(strength, ry))

    def _rtol(self, strength, ry):
        """The part of its residual that a square is solved to."""
        if self._first[0] != strength:
            self._first = strength, ry
        if not ry > 0.0:
            return CG_RTOL
        return float(np.clip(CG_RTOL * np.sqrt(self._first[1] / ry), CG_RTOL, self.loosest))


def weight_of_least_risk(weights: Sequence[float] | Array, risks: Sequence[float] | Array) -> float:
    """λ where the risk along a path is least: by a parabola over log λ through its least value and those beside it.

    Parameters
    ----------
    weights : sequence of float
        λ of the path, each the same part of the one before.
    risks : sequence of float
        NaN where the risk was not asked for.

    Returns
    -------
    float
        The λ of least risk itself, where that is at an end, or next to one that was not asked for.
    """
    k = int(np.nanargmin(risks))
    beside = np.array(risks[max(k - 1, 0) : k + 2], dtype=np.float64)
    if len(beside) < 3 or not np.isfinite(beside).all():
        return float(weights[k])
    curvature = beside[0] - 2.0 * beside[1] + beside[2]
    step = 0.5 * (beside[0] - beside[2]) / curvature if curvature > 0.0 else 0.0
    return float(weights[k] * (weights[k + 1] / weights[k]) ** step)
