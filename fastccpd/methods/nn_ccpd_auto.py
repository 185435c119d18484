"""NN-C-CPD that tunes itself to the noise: no weight, rank or filter to choose.

1. The noise of every band is estimated from the images (`estimation/noise.py`), and each band counts by its own.
2. The scene is fitted as a few maps times a few spectra under total variation, the strength chosen by an unbiased
   estimate of the risk (`estimation/tv_maps.py`): a convex problem, with edges where the data show them.
3. The non-negative coupled CPD is fitted to what the two images would be without noise: the maps themselves in place of
   the MSI, seen by the orthonormal basis Q of the spectra in place of PM, and the blurred maps in place of the HSI,

       ½ ‖P Z S' − [[P1 A, P2 B, C]]‖² + ½ ‖Z S'Q − [[A, B, Q'C]]‖² + ½ μ ‖x‖²,

   so the solver is the one of "nn-ccpd-nls". On squares the ridge is ½μ(ΣA + ΣB + ΣC), an L1 prior that prunes what is
   not needed; μ is small, because the noise is already gone.
4. The scene is [[A, B, C]] plus a remainder, which the maps hold: they are the image. Where the decomposition of the
   two given images has a lower estimated risk than the maps (a scene of low rank), it is the image, without remainder.
   It begins where the maps' decomposition ended, or anew where the maps do not explain the images at all.
"""

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..estimation import noise
from ..estimation import tv_maps as maps
from ..model.checks import as_count, as_number
from ..model.degradation import Degradation
from ..model.problem import Maps, Problem
from ..model.result import Trace
from ..solver.coupled_cpd import CoupledCPD
from ..solver.regularisers import Ridge
from ..solver.trust_region import Options, minimize
from ._ccpd_nls import CoupledNLS, given_start, own_scale, random_start
from .method import Method, Progress, Solution, register

# Noise below this part of the signal, 50 dB, is not told from none: scenes have that much detail of their own.
_QUIETEST = 10.0**-2.5

# Maps whose misfit is so many times that of noise are the wrong model.
_UNEXPLAINED = 10.0

# A decomposition with so small a part of the misfit of noise shows that the noise was overestimated.
_OVERESTIMATED = 0.5

# A term whose size is below this part of the largest one is pruned.
_PRUNED = 1e-3


@register("nn-ccpd-auto")
@dataclass(frozen=True, kw_only=True)
class NNCCPDAuto(Method):
    """Non-negative coupled CPD with edge-preserving maps, every weight chosen from the data.

    The decomposition is that of Xi-Yuan Liu, Xiao-Feng Gong, Lei Wang, Wei Feng, Qiu-Hua Lin: A Parametric Non-negative
    Coupled Canonical Polyadic Decomposition Algorithm for Hyperspectral Super-Resolution. Its regularisation is ours:
    total variation with the weight of least risk by Stein's estimate, noise from the data.

    rank : the most rank-one terms; superfluous ones are pruned.
    remainder : whether the image is whole; False shows the decomposition alone.
    ridge : weight of the L1 prior on the factors, for data divided by the scene's scale.
    max_iter : iterations of the decomposition.
    ftol : it ends when five of them in a row gain less than ftol of the cost each.
    """

    rank: int = 30
    remainder: bool = True
    ridge: float = 1e-3
    max_iter: int = 400
    ftol: float = 1e-2

    nonnegative: ClassVar[bool] = True
    has_starts: ClassVar[bool] = True
    takes_gaps: ClassVar[bool] = True
    tells_uncertainty: ClassVar[bool] = True

    def __post_init__(self):
        checked = {
            "rank": as_count(self.rank, "rank"), "max_iter": as_count(self.max_iter, "max_iter", least=0),
            "ridge": as_number(self.ridge, "ridge"), "ftol": as_number(self.ftol, "ftol"),
        }  # fmt: skip
        if not isinstance(self.remainder, bool | np.bool_):
            raise TypeError(f"remainder: got {self.remainder!r}; True or False is needed")
        for name, value in {**checked, "remainder": bool(self.remainder)}.items():
            object.__setattr__(self, name, value)

    def solve(self, problem, *, rng, callback=None, time_limit=None):
        began = time.perf_counter()

        def time_left():
            return math.inf if time_limit is None else max(0.0, time_limit - (time.perf_counter() - began))

        if not (_finite(problem.hsi) and _finite(problem.msi)):
            # Nothing can be made of it; the solver sees that at its start, and says so.
            run = _Run(self, callback, time_left)
            factors = run.fit(problem, random_start(problem, self.rank, "square", rng), self.ftol)
            return Solution(status=run.status, cost=np.nan, n_iter=run.n_iter, trace=run.trace, factors=factors)
        sigmas = (noise.of_many_bands(problem.hsi, problem.hsi_valid),
                  noise.of_few_bands(problem.msi, problem.msi_valid))  # fmt: skip
        audible = [_audible(sigma, image) for sigma, image in zip(sigmas, (problem.hsi, problem.msi), strict=True)]
        # The probe of the risk is the same for every start, and so are the maps.
        fitted = maps.fit(problem, *audible, np.random.default_rng(0), out_of_time=lambda: time_left() == 0.0)
        run = _Run(self, callback, time_left)
        factors, alone = self._decomposed(problem, audible, fitted, rng, run)
        shown = Maps(fitted.Z, fitted.spectra) if self.remainder and not alone else None
        return Solution(
            status=run.status, cost=_misfit(problem, factors), n_iter=run.n_iter, trace=run.trace, factors=factors,
            maps=shown, uncertainty=None if shown is None else fitted.deviation, noise=sigmas,
            effective_rank=effective_rank(factors),
        )  # fmt: skip

    def _decomposed(self, problem, sigmas, fitted, rng, run):
        """The factors, and whether they have a lower estimated risk than the maps, and so are the image."""
        by_noise = [1.0 / float(np.mean(np.square(sigma))) for sigma in sigmas]
        degrees = (sum(problem.sri_shape) - 2) * self.rank

        def beat_the_maps(factors):
            return 2.0 * _misfit(problem, factors, by_noise) - sum(problem.sizes) + 2.0 * degrees < fitted.risk

        if fitted.misfit > _UNEXPLAINED * sum(problem.sizes):
            # The maps are the wrong model: nothing of them is of use, and there is no noise to weigh or stop early for.
            start = random_start(problem, self.rank, "square", rng)
            factors = run.fit(problem, start, min(self.ftol, Options.ftol))
            better = beat_the_maps(factors)
            if better or not run.status.goes_on_to_next_start:
                return factors, better
        clean = _clean(problem, fitted)
        start = random_start(clean, self.rank, "square", rng)
        factors = run.fit(clean, start, self.ftol, [Ridge(self.ridge)] if self.ridge else ())
        # A perfect model leaves just its degrees of freedom as risk.
        if run.status.converged and degrees < fitted.risk:
            status = run.status
            start = given_start(factors, problem, self.rank, "square", own_scale(problem))
            weights = tuple(weight / max(by_noise) for weight in by_noise)
            alone = run.fit(problem, start, self.ftol, weights=weights)
            if beat_the_maps(alone):
                return self._to_the_noise(problem, alone, by_noise, run), True
            if run.status.goes_on_to_next_start:
                run.status = status  # of the factors that count; unless somebody, or the clock, has called a halt
        return factors, False

    def _to_the_noise(self, problem, factors, by_noise, run):
        """The factors of the images; once more, and to the end, where they show that there is far less noise."""
        if 2.0 * _misfit(problem, factors, by_noise) >= _OVERESTIMATED * sum(problem.sizes):
            return factors
        images = zip(problem.sizes, ((1.0, 0.0), (0.0, 1.0)), strict=True)
        residuals = [2.0 * _misfit(problem, factors, only) / size for size, only in images]
        weights = tuple(min(residuals) / residual if residual > 0.0 else 1.0 for residual in residuals)
        start = given_start(factors, problem, self.rank, "square", own_scale(problem))
        return run.fit(problem, start, min(self.ftol, Options.ftol), weights=weights)

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        (I, J, bands), K = msi_shape, hsi_shape[2]
        P = min(bands, K)
        maps_needed = 20 * I * J * P + 4 * math.prod(hsi_shape) + 12 * K * K
        return 8 * maps_needed + CoupledNLS(rank=self.rank).memory_needed(hsi_shape, (I, J, max(P, bands)), dtype)


class _Run:
    """The solver's run over one objective after the other: iterations, trace and callback go on."""

    def __init__(self, method, callback, time_left):
        self.method, self.callback, self.time_left = method, callback, time_left
        self.began = time.perf_counter()
        self.trace, self.status = Trace(), None

    @property
    def n_iter(self):
        return max(0, len(self.trace) - 1)

    def fit(self, problem, x0, ftol, regularisers=(), weights=(1.0, 1.0)):
        """The factors of a problem from x0, in iterations that are left over."""
        scale = own_scale(problem)
        objective = CoupledCPD.of_problem(problem, self.method.rank, "square", "positive", regularisers, weights, scale)
        options = Options(max_iter=self.method.max_iter - self.n_iter, ftol=ftol, max_seconds=self.time_left())
        state = minimize(objective, x0, options, lambda state: self._goes_on(state, scale**2))
        self.status = state.status
        return objective.factors(state.x)

    def _goes_on(self, state, unit):
        if state.n_iter == 0 and len(self.trace):
            return False  # where one objective begins, the one before has ended: that is no iteration
        entry = {column: entries[-1] for column, entries in vars(state.trace).items()}
        entry |= {"cost": state.cost * unit, "seconds": time.perf_counter() - self.began}
        self.trace.append(**entry)
        progress = Progress(self.n_iter, entry["cost"], entry["seconds"], self.trace)
        return self.callback is not None and self.callback(progress)


def _finite(image):
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(image.sum(dtype=np.float64)))


def _audible(sigma, image):
    """σ, but no less than what is told from none."""
    return np.maximum(sigma, _QUIETEST * float(np.sqrt(np.mean(np.square(image, dtype=np.float64)))) or 1.0)


def _clean(problem, fitted):
    """What the two images would be without noise, the MSI in an orthonormal basis of the spectra."""
    Q, T = np.linalg.qr(fitted.spectra)
    P1, P2 = problem.degradation.P1, problem.degradation.P2
    coarse = maps.along(maps.rows_of(P1), maps.along(maps.rows_of(P2), fitted.Z, axis=1), axis=0)
    return Problem(coarse @ fitted.spectra.T, fitted.Z @ T.T, Degradation(P1, P2, Q.T))


def _misfit(problem, factors, weights=(1.0, 1.0)):
    """½ w_H ‖hsi − …‖² + ½ w_M ‖msi − …‖²; with weights of 1 the cost of "nn-ccpd-nls", in the caller's units."""
    objective = CoupledCPD.of_problem(problem, factors.rank, "identity", weights=weights)
    return objective.cost(np.vstack(list(factors)))


def effective_rank(factors):
    """The number of terms that are not pruned."""
    sizes = np.prod([np.linalg.norm(factor, axis=0) for factor in factors], axis=0)
    return int((sizes > _PRUNED * sizes.max()).sum()) if sizes.max() > 0.0 else 0
