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

from ..estimation.decomposition import Fitting, decompose_scene, misfits
from ..model.checks import as_count, as_number, set_fields
from ..model.types import Callback
from ._ccpd_nls import CoupledNLS
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
    rank : int
        The most rank-one terms; superfluous ones are pruned.
    ridge : float
        Weight of the L1 prior on the factors, for data divided by the scene's scale.
    ftol : float
        The decomposition ends when five iterations in a row gain less than ftol of the cost each.

    References
    ----------
    .. [1] Xi-Yuan Liu, Xiao-Feng Gong, Lei Wang, Wei Feng, Qiu-Hua Lin: A Parametric Non-negative Coupled Canonical
       Polyadic Decomposition Algorithm for Hyperspectral Super-Resolution.
    """

    rank: int = 30
    ridge: float = 1e-3
    ftol: float = 1e-2

    has_starts: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        rank, ridge, ftol = as_count(self.rank, "rank"), as_number(self.ridge, "ridge"), as_number(self.ftol, "ftol")
        set_fields(self, rank=rank, ridge=ridge, ftol=ftol)

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        prepared = self.prepare(problem, callback=callback, time_limit=time_limit)
        if prepared.fit is None:
            return self._of_what_is_not_finite(prepared, rng)
        return self._factors_solution(prepared, self._decomposed(prepared, rng, callback, time_limit))

    def fitting(self) -> Fitting:
        """What `estimation.decompose_maps` takes of the options."""
        return Fitting(rank=self.rank, ridge=self.ridge, max_iter=self.max_iter, ftol=self.ftol)

    def _decomposed(self, prepared, rng, callback, time_limit, bound=None):
        fitting = self.fitting()
        if not prepared.fit.status.goes_on_to_next_start:  # somebody, or the clock, has called a halt
            fitting, callback = replace(fitting, max_iter=0), None
        stages = prepared.problem, prepared.subspace, prepared.fit
        return decompose_scene(*stages, fitting, rng=rng, bound=bound, callback=callback, time_limit=time_limit)

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
        solution = NNCCPDNLS(rank=self.rank, max_iter=self.max_iter).solve(prepared.problem, rng=rng)
        return Solution(
            status=solution.status,
            cost=np.nan,
            n_iter=solution.n_iter,
            trace=solution.trace,
            factors=solution.factors,
            shown="factors",
        )

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        of_maps = super().memory_needed(hsi_shape, msi_shape, dtype)
        return of_maps + CoupledNLS(rank=self.rank).memory_needed(hsi_shape, msi_shape, dtype)
