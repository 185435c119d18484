"""NN-C-CPD that tunes itself to the noise: no weight or filter to choose.

The images are freed of noise first (noise → subspace → tv-maps, `fastccpd.estimation`); the non-negative coupled CPD is
fitted to what is left, or to the images themselves where that has a lower estimated risk
(`estimation/decomposition.py`).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..estimation.decomposition import decompose_scene, misfits
from ..model.checks import as_count, as_number, set_fields
from ._ccpd_nls import CoupledNLS
from ._staged import maps_memory, prepare
from .method import Method, Solution, register
from .nn_ccpd_nls import NNCCPDNLS


@register("nn-ccpd-auto")
@dataclass(frozen=True, kw_only=True)
class NNCCPDAuto(Method):
    """Non-negative coupled CPD of a scene freed of noise by edge-preserving maps: factors only.

    The decomposition is that of [1]_. That it is fitted to the maps of "tv-maps", and with a ridge, is ours.

    Parameters
    ----------
    rank : int
        The most rank-one terms; superfluous ones are pruned.
    ridge : float
        Weight of the L1 prior on the factors, for data divided by the scene's scale.
    max_iter : int
        Iterations of each stage: steps down the path of the maps' weight, and iterations of the decomposition.
    ftol : float
        The decomposition ends when five iterations in a row gain less than ftol of the cost each.

    References
    ----------
    .. [1] Xi-Yuan Liu, Xiao-Feng Gong, Lei Wang, Wei Feng, Qiu-Hua Lin: A Parametric Non-negative Coupled Canonical
       Polyadic Decomposition Algorithm for Hyperspectral Super-Resolution.
    """

    rank: int = 30
    ridge: float = 1e-3
    max_iter: int = 400
    ftol: float = 1e-2

    nonnegative: ClassVar[bool] = True
    has_starts: ClassVar[bool] = True
    takes_gaps: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True
    memory_is_for: ClassVar[str] = "maps in float64"

    def __post_init__(self):
        set_fields(
            self,
            rank=as_count(self.rank, "rank"),
            ridge=as_number(self.ridge, "ridge"),
            max_iter=as_count(self.max_iter, "max_iter", least=0),
            ftol=as_number(self.ftol, "ftol"),
        )

    def prepare(self, problem, *, callback=None, time_limit=None):
        return prepare(problem, max_iter=self.max_iter, callback=callback, time_limit=time_limit)

    def solve(self, problem, *, rng, callback=None, time_limit=None):
        prepared = self.prepare(problem, callback=callback, time_limit=time_limit)
        if prepared.fit is None:
            return self._of_what_is_not_finite(prepared, rng)
        return self._factors_solution(prepared, self._decomposed(prepared, rng, callback, time_limit))

    def decomposition_options(self):
        """What `estimation.decompose_maps` takes of the options."""
        return {"rank": self.rank, "ridge": self.ridge, "max_iter": self.max_iter, "ftol": self.ftol}

    def _decomposed(self, prepared, rng, callback, time_limit, bound=None):
        options = self.decomposition_options() | {"bound": bound}
        if not prepared.fit.status.goes_on_to_next_start:  # somebody, or the clock, has called a halt
            options["max_iter"], callback = 0, None
        problem, noise, fit = prepared.problem, prepared.noise, prepared.fit
        return decompose_scene(problem, noise, fit, **options, rng=rng, callback=callback, time_limit=time_limit)

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

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        (I, J, bands), K = msi_shape, hsi_shape[2]
        most = I, J, max(min(bands, K), bands)
        return maps_memory(hsi_shape, msi_shape) + CoupledNLS(rank=self.rank).memory_needed(hsi_shape, most, dtype)
