"""What "tv-maps", "nn-ccpd-auto" and "auto" share: the stages that do not depend on a random start."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimation import MapFit, Noise, Subspace, fit_maps, noise_of, subspace_of
from ..model.checks import is_finite
from ..model.problem import Problem

# Stacks of P maps on the fine grid that the maps stage holds at its peak, in float64.
_STACKS = 20


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem and what was found from its images once, whatever the number of starts.

    `fit` is None where the images are not finite: nothing can be made of them.
    """

    problem: Problem
    noise: Noise | None = None
    subspace: Subspace | None = None
    fit: MapFit | None = None

    @property
    def stages(self) -> dict[str, Any]:
        """The stages by name, in their order."""
        return {"noise": self.noise, "subspace": self.subspace, "tv-maps": self.fit}


def prepare(problem, *, max_iter=None, callback=None, time_limit=None):
    """noise → subspace → tv-maps."""
    if isinstance(problem, Prepared):
        return problem
    if not (is_finite(problem.hsi) and is_finite(problem.msi)):
        return Prepared(problem)
    noise = noise_of(problem)
    subspace = subspace_of(noise, most=problem.msi.shape[2])
    fit = fit_maps(problem, noise, subspace, max_iter=max_iter, callback=callback, time_limit=time_limit)
    return Prepared(problem, noise, subspace, fit)


def maps_memory(hsi_shape, msi_shape):
    """Bytes of the stages above."""
    (I, J, bands), K = msi_shape, hsi_shape[2]
    return 8 * (_STACKS * I * J * min(bands, K) + 4 * int(np.prod(hsi_shape)) + 12 * K * K)
