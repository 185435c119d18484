"""NN-C-CPD that tunes itself to the noise: no weight or filter to choose.

The images are freed of noise first (noise → subspace → tv-maps, `fastccpd.estimation`); the non-negative coupled CPD is
fitted to what is left, or to the images themselves where that has a lower estimated risk
(`estimation/decomposition.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike

from ..estimation import Shared
from ..estimation.decomposition import RANKS_OF_MAPS, Fitting, closeness, decompose_scene, misfits
from ..model.checks import as_number, set_fields
from ..model.types import Callback
from ._ccpd_nls import CoupledNLS, count_or_auto
from ._staged import Staged
from .method import Solution, register
from .nn_ccpd_nls import NNCCPDNLS


@register("nn-ccpd-auto")
@dataclass(frozen=True, kw_only=True)
class NNCCPDAuto(Staged):
    """Non-negative coupled CPD of a scene freed of noise by edge-preserving maps: factors only.

    The decomposition is that of [1]_. That it is fitted to the maps of "tv-maps", and with a ridge, is ours.

    Parameters
    ----------
    rank : int or "auto"
        The most rank-one terms; superfluous ones are pruned. "auto" adds terms until what they leave is small beside
        the estimated error of the maps, 212 at most.
    ridge : float or "auto"
        Weight of the L1 prior on the factors, for data divided by the scene's scale. "auto": a small one; where the
        rank is found a smaller one on the way, and none at the end.
    ftol : float
        The decomposition ends when five iterations in a row gain less than ftol of the cost each.

    References
    ----------
    .. [1] Xi-Yuan Liu, Xiao-Feng Gong, Lei Wang, Wei Feng, Qiu-Hua Lin: A Parametric Non-negative Coupled Canonical
       Polyadic Decomposition Algorithm for Hyperspectral Super-Resolution.
    """

    rank: int | str = "auto"
    ridge: float | str = "auto"
    ftol: float = 1e-2

    has_starts: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        if not (isinstance(self.ridge, str) and self.ridge == "auto"):
            set_fields(self, ridge=as_number(self.ridge, "ridge"))
        set_fields(self, rank=count_or_auto(self.rank, "rank"), ftol=as_number(self.ftol, "ftol"))

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        prepared = self.prepare(problem, callback=callback, time_limit=time_limit)
        if prepared.fit is None:
            return self._of_what_is_not_finite(prepared, rng)
        return self._factors_solution(prepared, self._decomposed(prepared, rng, callback, time_limit))

    def fitting(self, prepared: Any = None) -> Fitting:
        """What `estimation.decompose_maps` takes of the options, and of the stages before it."""
        fitting = Fitting(rank=self.rank, ridge=self.ridge, max_iter=self.max_iter, ftol=self.ftol)
        if prepared is None:
            return fitting
        return replace(fitting, closeness=closeness(prepared.problem, prepared.subspace, prepared.fit))

    def _decomposed(self, prepared, rng, callback, time_limit, bounds=None, of_maps=True):
        fitting = self.fitting()
        if not prepared.fit.status.goes_on_to_next_start:  # somebody, or the clock, has called a halt
            fitting, callback = replace(fitting, max_iter=0), None
        stages = prepared.problem, prepared.subspace, prepared.fit
        how = {"rng": rng, "bounds": bounds, "callback": callback, "time_limit": time_limit, "of_maps": of_maps}
        return decompose_scene(*stages, fitting, **how)

    def _factors_solution(self, prepared, found, **stages):
        """The `Solution` that shows the factors."""
        halted = not prepared.fit.status.goes_on_to_next_start
        return Solution(
            status=prepared.fit.status if halted else found.status,
            cost=0.5 * sum(misfits(prepared.problem, found.factors)),
            n_iter=found.n_iter,
            trace=found.trace,
            factors=found.factors,
            effective_rank=found.effective_rank,
            noise=(prepared.noise.hsi, prepared.noise.msi),
            shown="factors",
            stages=prepared.stages | {"decomposition": found} | stages,
        )

    def _of_what_is_not_finite(self, prepared, rng):
        """Nothing can be made of it; the solver sees that at its start, and says so."""
        rank = 1 if isinstance(self.rank, str) else self.rank
        solution = NNCCPDNLS(rank=rank, max_iter=self.max_iter).solve(prepared.problem, rng=rng)
        return Solution(
            status=solution.status,
            cost=np.nan,
            n_iter=solution.n_iter,
            trace=solution.trace,
            factors=solution.factors,
            shown="factors",
        )

    @property
    def _most_terms(self):
        """Of a rank that is found."""
        return RANKS_OF_MAPS[-1]

    def memory_needed(
        self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike, shared: Shared | None = None
    ) -> int:
        of_maps = super().memory_needed(hsi_shape, msi_shape, dtype, shared)
        rank = self._most_terms if isinstance(self.rank, str) else self.rank
        # Less than a fifth of what the maps are fitted with is kept while factors are.
        return max(of_maps, of_maps // 5 + CoupledNLS(rank=rank).memory_needed(hsi_shape, msi_shape, dtype))
