"""tv-maps: a few maps times a few spectra under total variation, every weight from the data."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from ..estimation import shown_cost
from ..model.problem import Maps
from ..model.result import Status, Trace
from ..model.types import Callback
from ._staged import Prepared, Staged
from .method import Solution, register


@register("tv-maps")
@dataclass(frozen=True, kw_only=True)
class TVMaps(Staged):
    """Edge-preserving maps on a spectral subspace; noise, spectra, their number and the weight come from the data.

    The model, a subspace and vector total variation, is that of HySure [1]_. What is new: the noise of every band, the
    spectra, their number and scale are estimated, the weight is the one of least risk by Stein's unbiased estimate,
    high edges cost the root of their height, what the MSI does not see is predicted from what it sees where noise lets
    it, and the blur may be any separable one. There is no random start.

    Parameters
    ----------
    max_iter : int
        Steps down the path of the weight, at most; the path has twelve.

    References
    ----------
    .. [1] Miguel Simões, José Bioucas-Dias, Luis B. Almeida, Jocelyn Chanussot: A Convex Formulation for Hyperspectral
       Image Superresolution via Subspace-Based Regularization. IEEE Trans. Geoscience and Remote Sensing, 2015.
    """

    tells_uncertainty: ClassVar[bool] = True

    @property
    def _mends(self):
        return True

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        return maps_solution(self.prepare(problem, callback=callback, time_limit=time_limit))


def maps_solution(prepared: Prepared, **further) -> Solution:
    """The `Solution` that shows the maps."""
    fit, noise, problem = prepared.fit, prepared.noise, prepared.problem
    if fit is None or noise is None:
        I, J, K = problem.sri_shape
        nothing, trace = Maps(np.zeros((I, J, 1)), np.zeros((K, 1))), Trace()
        trace.append_cost(np.nan, 0, 0.0)
        return Solution(status=Status.NOT_FINITE, cost=np.nan, n_iter=0, trace=trace, maps=nothing, shown="maps")
    if fit.status.goes_on_to_next_start:
        # Of the image, which is never negative, as the maps without spectra cannot know; after a halt, which is to be
        # answered at once, that of the maps is near enough.
        fit.trace.cost[-1] = shown_cost(problem, fit.maps)
    cost = fit.trace.cost[-1]
    given = {
        "status": fit.status,
        "cost": cost,
        "n_iter": len(fit.trace) - 1,
        "trace": fit.trace,
        "maps": fit.maps,
        "uncertainty": fit.expected_error,
        "noise": (noise.hsi, noise.msi),
        "shown": "maps",
        "stages": prepared.stages,
    }
    return Solution(**(given | further))
