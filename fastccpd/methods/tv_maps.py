"""tv-maps: a few maps times a few spectra under total variation, every weight from the data."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..estimation import shown_cost
from ..model.checks import as_count, set_fields
from ..model.problem import Maps
from ..model.result import Status, Trace
from ._staged import Prepared, maps_memory, prepare
from .method import Method, Solution, register


@register("tv-maps")
@dataclass(frozen=True, kw_only=True)
class TVMaps(Method):
    """Edge-preserving maps on a spectral subspace; noise, spectra, their number and the weight come from the data.

    The model, a subspace and vector total variation, is that of HySure [1]_. What is new: the noise of every band, the
    spectra and their number are estimated, the weight is the one of least risk by Stein's unbiased estimate, and the
    blur may be any separable one. There is no random start.

    Parameters
    ----------
    max_iter : int
        Steps down the path of the weight, at most; the path has eleven.

    References
    ----------
    .. [1] Miguel Simões, José Bioucas-Dias, Luis B. Almeida, Jocelyn Chanussot: A Convex Formulation for Hyperspectral
       Image Superresolution via Subspace-Based Regularization. IEEE Trans. Geoscience and Remote Sensing, 2015.
    """

    max_iter: int = 400

    nonnegative: ClassVar[bool] = True
    takes_gaps: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True
    memory_is_for: ClassVar[str] = "maps in float64"
    tells_uncertainty: ClassVar[bool] = True

    def __post_init__(self):
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))

    def prepare(self, problem, *, callback=None, time_limit=None):
        return prepare(problem, max_iter=self.max_iter, callback=callback, time_limit=time_limit)

    def solve(self, problem, *, rng, callback=None, time_limit=None):
        return maps_solution(self.prepare(problem, callback=callback, time_limit=time_limit))

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        return maps_memory(hsi_shape, msi_shape)


def maps_solution(prepared: Prepared, **further) -> Solution:
    """The `Solution` that shows the maps."""
    fit, problem = prepared.fit, prepared.problem
    if fit is None:
        I, J, K = problem.sri_shape
        nothing, trace = Maps(np.zeros((I, J, 1)), np.zeros((K, 1))), Trace()
        trace.append_cost(np.nan, 0, 0.0)
        return Solution(status=Status.NOT_FINITE, cost=np.nan, n_iter=0, trace=trace, maps=nothing, shown="maps")
    cost = shown_cost(problem, fit.maps)
    fit.trace.cost[-1] = cost  # of the image, which is never negative, as the maps without spectra cannot know
    given = {
        "status": fit.status,
        "cost": cost,
        "n_iter": len(fit.trace) - 1,
        "trace": fit.trace,
        "maps": fit.maps,
        "uncertainty": fit.expected_error,
        "noise": (prepared.noise.hsi, prepared.noise.msi),
        "shown": "maps",
        "stages": prepared.stages,
    }
    return Solution(**(given | further))
