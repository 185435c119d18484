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
   the image, and there is no remainder.
"""

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..kernels import reconstruct
from ..model.checks import as_count, as_number
from ..model.degradation import Degradation
from ..model.problem import Maps, Problem
from ..model.result import Status, Trace
from ..solver import maps, noise
from ..solver.coupled_cpd import CoupledCPD
from ..solver.regularisers import Ridge
from ..solver.trust_region import Options, State, minimize
from ._ccpd_nls import CoupledNLS, given_start, own_scale, random_start
from .method import Method, Solution, register

# Noise below this part of the signal, 50 dB, is not told from none: scenes have that much detail of their own.
_QUIETEST = 10.0**-2.5

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

        def left():
            return math.inf if time_limit is None else max(0.0, time_limit - (time.perf_counter() - began))

        sigmas = _noise(problem)
        # The probe of the risk is the same for every start: so are the maps.
        fitted = maps.fit(problem, *map(_audible, sigmas, (problem.hsi, problem.msi)), np.random.default_rng(0),
                          out_of_time=lambda: left() == 0.0)  # fmt: skip
        run = _Run(callback, self, left)
        clean = _clean(problem, fitted)
        x0 = random_start(clean, self.rank, "square", rng)
        factors = run.fit(clean, x0, [Ridge(self.ridge)] if self.ridge else ())
        alone = self._alone(problem, sigmas, fitted, factors, run)
        shown = None if alone is not None or not self.remainder else Maps(fitted.Z, fitted.spectra)
        factors = alone or factors
        return Solution(
            status=run.state.status, cost=_misfit(problem, factors), n_iter=run.state.n_iter, trace=run.trace(),
            factors=factors, maps=shown, uncertainty=fitted.deviation, noise=sigmas,
            effective_rank=effective_rank(factors),
        )  # fmt: skip

    def _alone(self, problem, sigmas, fitted, factors, run):
        """The decomposition of the given images, where it explains them to their noise at a lower risk; else None."""
        degrees = (sum(problem.sri_shape) - 2) * self.rank
        if not run.state.status.converged or degrees >= fitted.risk:
            return None
        weights = [1.0 / float(np.mean(sigma**2)) for sigma in sigmas]
        scale = own_scale(problem)
        relative = tuple(w / max(weights) for w in weights)
        x0 = given_start(factors, problem, self.rank, "square", scale)
        better = run.fit(problem, x0, (), relative)
        misfit = 2.0 * run.state.cost * scale**2 * max(weights)
        size = sum(image.size if valid is None else int(valid.sum())
                   for image, valid in ((problem.hsi, problem.hsi_valid), (problem.msi, problem.msi_valid)))  # fmt: skip
        return better if misfit <= size and misfit - size + 2.0 * degrees < fitted.risk else None

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        (I, J, bands), K = msi_shape, hsi_shape[2]
        P = min(bands, K)
        maps_needed = 24 * I * J * P + 4 * I * J * bands + 6 * math.prod(hsi_shape) + 12 * K * K
        return 8 * maps_needed + CoupledNLS(rank=self.rank).memory_needed(hsi_shape, (I, J, max(P, bands)), dtype)


class _Run:
    """The solver's run over one objective after the other: iterations, trace and callback go on."""

    def __init__(self, callback, method, left):
        self.method, self.left = method, left
        self.state, self.costs = State(np.empty(0)), []
        self._callback, self._shown = callback, -1

    def fit(self, problem, x0, regularisers, weights=(1.0, 1.0)):
        scale = own_scale(problem)
        objective = CoupledCPD(problem, self.method.rank, "square", "positive", regularisers, weights, scale)
        before = self.state
        # A new objective has a cost, a gradient and a radius of its own.
        self.state = State(x0, n_iter=before.n_iter, seconds=before.seconds)
        options = Options(max_iter=max(0, self.method.max_iter - before.n_iter), ftol=self.method.ftol,
                          max_seconds=None if math.isinf(self.left()) else before.seconds + self.left())  # fmt: skip
        self._scale = scale
        minimize(objective, self.state, options, self._show)
        self.costs += [cost * scale**2 for cost in self.state.trace.cost[1 if self.costs else 0 :]]
        merged = Trace(**vars(before.trace))
        for column, entries in vars(self.state.trace).items():
            getattr(merged, column).extend(entries[1 if len(before.trace) else 0 :])
        self.state.trace = merged
        return objective.factors(self.state.x)

    def _show(self, state):
        if self._callback is None or state.n_iter <= self._shown:
            return False
        self._shown = state.n_iter
        return self._callback(state)

    def trace(self):
        trace = Trace(**vars(self.state.trace))
        trace.cost = self.costs
        return trace


def _noise(problem):
    """The noise of both images, band by band."""
    whole = [None if valid is None else valid.all(axis=2) for valid in (problem.hsi_valid, problem.msi_valid)]
    return noise.of_many_bands(problem.hsi, whole[0]), noise.of_few_bands(problem.msi, whole[1])


def _audible(sigma, image):
    """σ, but no less than what is told from none."""
    return np.maximum(sigma, _QUIETEST * float(np.sqrt(np.mean(np.square(image, dtype=np.float64)))) or 1.0)


def _clean(problem, fitted):
    """What the two images would be without noise, the MSI in an orthonormal basis of the spectra."""
    Q, T = np.linalg.qr(fitted.spectra)
    P1, P2 = problem.degradation.P1, problem.degradation.P2
    coarse = maps.along(maps.rows_of(P1), maps.along(maps.rows_of(P2), fitted.Z, axis=1), axis=0)
    return Problem(coarse @ fitted.spectra.T, fitted.Z @ T.T, Degradation(P1, P2, Q.T))


def _misfit(problem, factors):
    """½ ‖hsi − …‖² + ½ ‖msi − …‖²: the cost of "nn-ccpd-nls", in the caller's units."""
    objective = CoupledCPD(problem, factors.rank, "identity")
    return objective.cost(np.vstack(list(factors)))


def effective_rank(factors):
    """The number of terms that are not pruned."""
    sizes = np.prod([np.linalg.norm(factor, axis=0) for factor in factors], axis=0)
    return int((sizes > _PRUNED * sizes.max()).sum()) if sizes.max() > 0.0 else 0
