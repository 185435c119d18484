"""The default: edge-preserving maps, or a decomposition where its estimated risk is lower; nothing to set.

noise → subspace → tv-maps → decomposition → choice. The first three are made once, whatever the number of starts
(`methods/_staged.py`). The decomposition is made only where it may be chosen; for the factors of an image that is shown
as maps, it is made when they are first asked for.
"""

import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from numpy.random import Generator

from ..estimation.decomposition import Choice, MapDecomposer
from ..estimation.rank_path import RANKS
from ..estimation.risk_bounds import least_chi2, may_be_chosen, risk_bounds
from ..estimation.watch import Stopped, Watch
from ..model.checks import as_choice, set_fields
from ..model.types import Callback
from .method import Solution, register
from .nn_ccpd_auto import NNCCPDAuto
from .tv_maps import maps_solution


@register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(NNCCPDAuto):
    """The default: chooses between "tv-maps" and "nn-ccpd-auto" by estimated risk, and says which one is shown.

    The maps are those of [2]_ with every weight found from the data, the decomposition is that of [1]_. On every real
    scene measured so far the image is the maps. `result.shown` says "maps" or "factors", and status, cost
    and trace are those of what is shown. The CPD of the paper is "nn-ccpd-nls".

    Parameters
    ----------
    show : "best", "maps" or "factors"
        What is shown: by estimated risk, or always the image of "tv-maps", or always that of "nn-ccpd-auto".

    References
    ----------
    .. [1] Xi-Yuan Liu, Xiao-Feng Gong, Lei Wang, Wei Feng, Qiu-Hua Lin: A Parametric Non-negative Coupled Canonical
       Polyadic Decomposition Algorithm for Hyperspectral Super-Resolution.
    .. [2] Miguel Simões, José Bioucas-Dias, Luis B. Almeida, Jocelyn Chanussot: A Convex Formulation for Hyperspectral
       Image Superresolution via Subspace-Based Regularization. IEEE Trans. Geoscience and Remote Sensing, 2015.
    """

    show: str = "best"

    tells_uncertainty: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        set_fields(self, show=as_choice(self.show, "show", ("best", "maps", "factors")))

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        prepared = self.prepare(problem, callback=callback, time_limit=time_limit)
        start = rng.bit_generator.state
        noise, subspace = prepared.noise, prepared.subspace
        if self.show == "factors" or prepared.fit is None or noise is None or subspace is None:
            return super().solve(prepared, rng=rng, callback=callback, time_limit=time_limit)
        if self.show == "maps" or prepared.part:  # parts of one scene must show the same
            return self._maps_solution(prepared, start)
        if prepared.mend is not None:
            reason = "the images disagree, and maps were fitted by operators that make them agree"
            choice = Choice("maps", reason, {"maps": prepared.fit.risk, "factors": None}, math.nan, 0.0)
            return self._maps_solution(prepared, start, choice=choice)
        fit, began = prepared.fit, time.perf_counter()
        halted, bounds = not fit.status.goes_on_to_next_start, {}
        try:
            if not halted:
                watch = Watch("choice", callback, time_limit)
                bounds = risk_bounds(prepared.problem, subspace, self.rank, fit, watch.pulse)
        except Stopped as stopped:
            halted, prepared = True, replace(prepared, fit=replace(fit, status=stopped.status))
        bound = min(bounds.values(), default=math.nan)
        disagreement = least_chi2(prepared.problem, noise, subspace)
        possible = not halted and may_be_chosen(prepared.problem, fit, bound, disagreement)
        seconds = time.perf_counter() - began
        if not possible:
            reason = "the fit was ended early" if halted else "no decomposition of this rank can have a lower risk"
            if not halted and bound < fit.risk:
                reason = "the images disagree by far more than their noise, which no decomposition mends"
            choice = Choice("maps", reason, {"maps": fit.risk, "factors": None}, bound, seconds)
            return self._maps_solution(prepared, start, choice=choice)
        found = self._decomposed(prepared, rng, callback, time_limit, bounds, of_maps=False)
        risk = None if found is None else found.risk
        lower = risk is not None and risk < fit.risk
        shown, verb = ("factors", "has") if lower else ("maps", "does not have")
        reason = f"the decomposition {verb} a lower estimated risk"
        choice = Choice(shown, reason, {"maps": fit.risk, "factors": risk}, bound, seconds)
        if lower:
            return self._factors_solution(prepared, found, choice=choice)
        return self._maps_solution(prepared, start, found, choice)

    @property
    def _mends(self):
        return self.show != "factors"

    @property
    def _most_terms(self):
        # Factors of the images are tried on the way; those of the maps are made when they are asked for.
        return super()._most_terms if self.show == "factors" else RANKS[-1]

    def _maps_solution(self, prepared, start, found=None, choice=None):
        """The maps, with the factors that were made on the way, or else with what makes them."""
        stages = dict(prepared.stages)
        if choice is not None:
            stages["choice"] = choice
        if found is not None and found.of == "maps" and found.status.goes_on_to_next_start:
            further = {"factors": found.factors, "effective_rank": found.effective_rank}
            return maps_solution(prepared, stages=stages | {"decomposition": found}, **further)
        decomposer = None
        if prepared.fit is not None:
            maps, degradation = prepared.fit.maps, prepared.problem.degradation
            decomposer = MapDecomposer(maps, degradation, asdict(self.fitting(prepared)), start)
        return maps_solution(prepared, stages=stages, decomposer=decomposer)
