"""Windows of a large scene, by which the weight of its maps is chosen.

Stein's estimate (`tv_maps.py`) takes a second fit beside the first, all along the path of λ, only to find where a sum
over pixels is least. The sum over some of the pixels is least at the same λ, or next to it: nine windows spread over
the scene are asked, and the whole of it is fitted with what they say, once and undisturbed.
"""

from functools import partial

import numpy as np

from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.types import Array
from .map_data import MapData
from .map_path import REWEIGHTINGS, MapPath
from .map_system import inner

# Fine pixels from which on a scene is large; windows along each side of it, and the fine pixels along a side of one.
LARGE, ALONG, SIDE = 400_000, 3, 112

# How much the data are disturbed, in units of their noise.
DISTURBANCE = 0.1


class Probed:
    """Maps that follow λ, and beside them those of data with a known disturbance, which the risk is estimated with.

    Parameters
    ----------
    path : MapPath
    """

    def __init__(self, path: MapPath):
        self.path, self._before, self._weight = path, path.Z, np.inf
        self._disturbed: tuple[MapPath, Array] | None = None

    @property
    def data(self) -> MapData:
        """The quadratic that is fitted."""
        return self.path.data

    def descend(self, weight: float, reweightings: int = REWEIGHTINGS) -> tuple[float, float, float]:
        """Fit with λ; χ², the cost of `misfit_and_cost`, and what the last reweighting gained."""
        if self._disturbed is None and weight != self._weight:
            self._before, self._weight = self.path.Z.copy(), weight
        change = self.path.descend(weight, reweightings)
        return *self.data.misfit_and_cost(self.path.Z), change

    def degrees_of_freedom(self, weight: float, reweightings: int = REWEIGHTINGS) -> float:
        """Of the maps that `descend` has just fitted with λ, by the fit to disturbed data, which goes the same way."""
        disturbed, probe = self._disturbed = self._disturbed or self._begin()
        disturbed.descend(weight, reweightings)
        return (inner(disturbed.Z, probe) - inner(self.path.Z, probe)) / DISTURBANCE

    def _begin(self):
        """Disturb the data, and begin where the maps were before the last λ."""
        data = self.data
        probe, rng = data.layout.zeros(), np.random.default_rng(0)
        data.disturb(lambda shape: partial(np.asarray, _noise(rng, shape)), probe)
        target = DISTURBANCE * probe
        target += data.target
        before, self._before = self._before, self.path.Z
        disturbed = MapPath(self.path.system, before, target)
        disturbed.loosest = self.path.loosest
        return disturbed, probe


def _noise(rng, shape):
    """White noise; where a picture is drawn in one piece, a transposed one has it transposed, and so the same λ."""
    rows, columns, maps = shape
    if rows <= columns:
        return rng.standard_normal(shape)
    return rng.standard_normal((columns, rows, maps)).swapaxes(0, 1)


def windows_of(problem: Problem) -> list[tuple[slice, slice, Problem]]:
    """Rows, columns and problem of each window of a large scene; none of a small one, or where most lack data.

    Parameters
    ----------
    problem : Problem
    """
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
    if P1.shape[1] * P2.shape[1] < LARGE:
        return []
    found, rows, columns = [], _spans(P1), _spans(P2)
    for (coarse_i, i), (coarse_j, j) in ((down, across) for down in rows for across in columns):
        degradation = Degradation(P1[coarse_i][:, i], P2[coarse_j][:, j], PM)
        cuts = (problem.hsi, problem.hsi_valid, coarse_i, coarse_j), (problem.msi, problem.msi_valid, i, j)
        (hsi, hsi_valid), (msi, msi_valid) = (
            (image[a, b], valid if valid is None else valid[a, b]) for image, valid, a, b in cuts
        )
        if all(valid is None or valid.mean() > 0.5 for valid in (hsi_valid, msi_valid)):
            found.append((i, j, Problem(hsi, msi, degradation, False, hsi_valid, msi_valid)))
    return found if 2 * len(found) > len(rows) * len(columns) else []


def _spans(P):
    """(coarse, fine) slices spread along one side: some rows of P, and all that they see."""
    coarse, fine = P.shape
    length = min(coarse, -(-SIDE * coarse // fine))
    count, found = max(1, min(ALONG, coarse // length)), []
    for n in range(count):
        start = ((2 * n + 1) * coarse // count - length) // 2
        seen = P[start : start + length].indices
        found.append((slice(start, start + length), slice(int(seen.min()), int(seen.max()) + 1)))
    return found
