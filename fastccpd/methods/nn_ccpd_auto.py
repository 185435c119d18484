"""NN-C-CPD that tunes itself to the noise: no weight, rank or filter to choose.

1. The noise of every band is estimated from the images (`solver/noise.py`), and each band counts by its own.
2. The scene is fitted as a few maps times a few spectra under total variation, the strength chosen by an unbiased
   estimate of the risk (`solver/maps.py`): a convex problem, with edges where the data show them.
3. The non-negative coupled CPD is fitted to what the two images would be without noise: the maps themselves in place of
   the MSI, seen by the orthonormal basis Q of the spectra in place of PM, and the blurred maps in place of the HSI,

       ½ ‖P Z S' − [[P1 A, P2 B, C]]‖² + ½ ‖Z S'Q − [[A, B, Q'C]]‖² + ½ μ ‖x‖²,

   so the solver is the one of "nn-ccpd-nls". On squares the ridge is ½μ(ΣA + ΣB + ΣC), an L1 prior that prunes what is
   not needed; μ is small, because the noise is already gone.
4. The scene is [[A, B, C]] plus a remainder, which the maps hold: they are the image. Where the CPD by itself explains
   the two given images down to their noise at a lower estimated risk (a scene of low rank with little noise), it is
   the image, and there is no remainder. Where the maps explain the images by no means (more materials than the MSI has
   bands, hardly any noise), the CPD of the given images comes first, as in "nn-ccpd-nls".
"""

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..model.checks import as_count, as_number
from ..model.degradation import Degradation
from ..model.problem import Maps, Problem
from ..model.result import Trace
from ..solver import maps, noise
from ..solver.coupled_cpd import CoupledCPD
from ..solver.regularisers import Ridge
from ..solver.trust_region import Options, minimize
from ._ccpd_nls import CoupledNLS, given_start, own_scale, random_start
from .method import Method, Progress, Solution, register

# Noise below this part of the signal, 50 dB, is not told from none: scenes have that much detail of their own.
_QUIETEST = 10.0**-2.5

# Maps whose misfit is so many times that of noise are the wrong model.
_UNEXPLAINED = 10.0

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

        sigmas = (noise.of_many_bands(problem.hsi, problem.hsi_valid),
                  noise.of_few_bands(problem.msi, problem.msi_valid))  # fmt: skip
        # The probe of the risk is the same for every start, and so are the maps.
        audible = tuple(map(_audible, sigmas, (problem.hsi, problem.msi)))
        fitted = maps.fit(problem, *audible, np.random.default_rng(0), out_of_time=lambda: time_left() == 0.0)
        run = _Run(self, callback, time_left)
        factors, alone = self._decomposed(problem, audible, fitted, rng, run)
        shown = Maps(fitted.Z, fitted.spectra) if self.remainder and not alone else None
        return Solution(
            status=run.status, cost=_misfit(problem, factors), n_iter=run.n_iter, trace=run.trace, factors=factors,
            maps=shown, uncertainty=fitted.deviation, noise=sigmas, effective_rank=effective_rank(factors),
        )  # fmt: skip

    def _decomposed(self, problem, sigmas, fitted, rng, run):
        """The factors, and whether they are the image by themselves: to the noise, at a lower risk than the maps."""
        degrees = (sum(problem.sri_shape) - 2) * self.rank
        by_noise = heard = [1.0 / float(np.mean(np.square(sigma))) for sigma in sigmas]

        def explained_by(factors):
            excess = 2.0 * _misfit(problem, factors, heard) - problem.n_data
            return excess <= 0.0 and excess + 2.0 * degrees < fitted.risk

        if fitted.misfit > _UNEXPLAINED * problem.n_data:
            factors = run.fit(problem, random_start(problem, self.rank, "square", rng), ftol=Options.ftol)
            alone = explained_by(factors)
            if alone or not run.status.goes_on_to_next_start:
                return factors, alone
        clean = _clean(problem, fitted)
        x0 = random_start(clean, self.rank, "square", rng)
        factors = run.fit(clean, x0, self.ftol, [Ridge(self.ridge)] if self.ridge else ())
        if not run.status.converged or degrees >= fitted.risk:
            return factors, False
        better = factors
        for ftol in (self.ftol, min(self.ftol, Options.ftol)):
            weights = tuple(weight / max(by_noise) for weight in by_noise)
            x0 = given_start(better, problem, self.rank, "square", own_scale(problem))
            better = run.fit(problem, x0, ftol, weights=weights)
            if not explained_by(better):
                return factors, False
            by_noise = _by_residuals(problem, better)  # once more: it knows the noise better than the maps did
        return better, True

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        (I, J, bands), K = msi_shape, hsi_shape[2]
        P = min(bands, K)
        maps_needed = 24 * I * J * P + 4 * I * J * bands + 6 * math.prod(hsi_shape) + 12 * K * K
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
        objective = CoupledCPD(problem, self.method.rank, "square", "positive", regularisers, weights, scale)
        options = Options(max_iter=self.method.max_iter - self.n_iter, ftol=ftol,
                          max_seconds=self.time_left())  # fmt: skip
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
    """½ w_H ‖hsi − …‖² + ½ w_M ‖msi − …‖²: with weights 1 the cost of "nn-ccpd-nls", in the caller's units."""
    objective = CoupledCPD(problem, factors.rank, "identity", weights=weights)
    return objective.cost(np.vstack(list(factors)))


def _by_residuals(problem, factors):
    """The weights of the two images by what the factors leave of them; a residual below 120 dB counts as that."""
    left = [2.0 * _misfit(problem, factors, weights) / image.size
            for image, weights in ((problem.hsi, (1.0, 0.0)), (problem.msi, (0.0, 1.0)))]  # fmt: skip
    return [1.0 / max(square, noise.LEAST**2 * own_scale(problem) ** 2) for square in left]


def effective_rank(factors):
    """The number of terms that are not pruned."""
    sizes = np.prod([np.linalg.norm(factor, axis=0) for factor in factors], axis=0)
    return int((sizes > _PRUNED * sizes.max()).sum()) if sizes.max() > 0.0 else 0
