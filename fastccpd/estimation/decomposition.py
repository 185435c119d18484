"""The non-negative coupled CPD of a scene whose maps are known, and whether it is the better image.

**Of the maps.** The decomposition is fitted to what the two images would be without noise: the maps themselves in place
of the MSI, seen by the orthonormal basis Q of the spectra S = Q T in place of PM, and the blurred maps in place of the
HSI,

    ½ ‖P Z S' − [[P1 A, P2 B, C]]‖² + ½ ‖Z T' − [[A, B, Q'C]]‖² + ½ μ ‖x‖²,

so the solver is the one of "nn-ccpd-nls". On squares the ridge is ½μ(ΣA + ΣB + ΣC), an L1 prior that prunes what is not
needed; μ is small, because the noise is already gone.

**Of the images.** Where the scene is of low rank, the decomposition of the two given images, weighted by their noise
and begun where that of the maps ended, has a lower estimated risk than the maps: χ² − N + 2 (I + J + K − 2) R. Where
the maps do not explain the images at all, it begins anew.

**Whether it can be.** A model of rank R has unfoldings of rank R at most, so by Eckart and Young its χ² is at least
what the singular values of the images' unfoldings beyond the R-th leave. Where that bound alone is above the risk of
the maps, the decomposition of the images cannot be the better one, and is not made.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from ..blas import one_blas_thread
from ..kernels import residual_norm2
from ..model.checks import as_count, as_number
from ..model.degradation import Degradation
from ..model.problem import Factors, Maps, Problem
from ..model.result import Progress, Status, Trace
from ..model.types import Callback
from ..solver.coupled_cpd import CoupledCPD
from ..solver.regularisers import Ridge
from ..solver.starts import given_start, own_scale, random_start
from ..solver.trust_region import Options, minimize
from .map_data import Blur
from .subspace import Subspace
from .tv_maps import MapFit

# Maps whose misfit is so many times that of noise are the wrong model.
_UNEXPLAINED = 10.0

# A decomposition with so small a part of the misfit of noise shows that the noise was overestimated.
_OVERESTIMATED = 0.5

# A term whose size is below this part of the largest one is pruned.
_PRUNED = 1e-3


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Factors of a scene: the fourth stage of the default method.

    Attributes
    ----------
    factors : Factors
    of : "maps" or "images"
        What they were fitted to.
    chi2, dof, risk : float or None
        χ² of the images over their noise, degrees of freedom, estimated risk; None where only the maps were looked at.
    status : Status
    trace : Trace
        Over all fits, in the caller's units.
    seconds : float
    """

    factors: Factors
    of: str
    chi2: float | None
    dof: float
    risk: float | None
    status: Status
    trace: Trace
    seconds: float

    @property
    def n_iter(self) -> int:
        return max(0, len(self.trace) - 1)

    @property
    def effective_rank(self) -> int:
        """The number of terms that are not pruned."""
        sizes = np.prod([np.linalg.norm(factor, axis=0) for factor in self.factors], axis=0)
        return int((sizes > _PRUNED * sizes.max()).sum()) if sizes.max() > 0.0 else 0


@dataclass(frozen=True)
class Choice:
    """Which of maps and factors is the image: the last stage of the default method.

    Attributes
    ----------
    shown : "maps" or "factors"
    reason : str
        One sentence.
    risks : dict
        The estimated risk of "maps" and of "factors"; None for what was not made.
    bound : float
        No decomposition of this rank has a lower risk.
    """

    shown: str
    reason: str
    risks: dict[str, float | None]
    bound: float


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How factors are fitted; what the methods "nn-ccpd-auto" and "auto" let a user choose of it.

    Attributes
    ----------
    rank : int
    ridge : float
        μ, for data divided by the scene's scale.
    max_iter, ftol
        As of `solver.Rules`.
    """

    rank: int = 30
    ridge: float = 1e-3
    max_iter: int = 400
    ftol: float = 1e-2


def decompose_maps(
    maps: Maps,
    degradation: Degradation,
    fitting: Fitting | None = None,
    *,
    rng: np.random.Generator,
    callback: Callback | None = None,
    time_limit: float | None = None,
) -> Decomposition:
    """The `Decomposition` of maps.

    Parameters
    ----------
    maps : Maps
    degradation : Degradation
        Its P1 and P2 are used.
    fitting : Fitting, optional
    rng : numpy.random.Generator
        Draws the start.
    callback : callable(Progress) -> bool, optional
    time_limit : float, optional
        Seconds.
    """
    run = _Run(fitting or Fitting(), callback, time_limit)
    factors = _of_maps(run, clean_problem(maps, degradation), rng)
    return run.decomposition(factors, "maps")


@dataclass(frozen=True, eq=False)
class MapDecomposer:
    """Makes the factors of maps when they are asked for, the same ones each time; it can be pickled and saved.

    Attributes
    ----------
    maps : Maps
    degradation : Degradation
    options : dict
        Of its `Fitting`.
    start : dict
        The state of the bit generator that draws the start.
    """

    maps: Maps
    degradation: Degradation
    options: dict[str, Any]
    start: dict[str, Any]

    def __post_init__(self):
        self._generator()
        checks = {"rank": as_count, "max_iter": partial(as_count, least=0), "ridge": as_number, "ftol": as_number}
        for name, value in self.options.items():
            if name not in checks:
                raise TypeError(f"options: got {name}; {', '.join(checks)} are needed")
            checks[name](value, name)

    def __call__(self, *, callback: Callback | None = None, time_limit: float | None = None) -> Decomposition:
        how = {"rng": self._generator(), "callback": callback, "time_limit": time_limit}
        with one_blas_thread():
            return decompose_maps(self.maps, self.degradation, Fitting(**self.options), **how)

    def _generator(self):
        """The generator of the start; of NumPy's module its name may mean nothing but a bit generator."""
        name = self.start["bit_generator"]
        kinds = {kind.__name__: kind for kind in np.random.BitGenerator.__subclasses__()}
        if name not in kinds:
            raise ValueError(f"start: got the bit generator {name!r}; one of {', '.join(sorted(kinds))} is needed")
        bits = kinds[name]()
        bits.state = self.start
        return np.random.Generator(bits)

    def settings(self) -> dict[str, Any]:
        """What is no array."""
        return {"options": self.options, "start": self.start}


def decompose_scene(
    problem: Problem,
    subspace: Subspace,
    fit: MapFit,
    fitting: Fitting | None = None,
    *,
    rng: np.random.Generator,
    bound: float | None = None,
    callback: Callback | None = None,
    time_limit: float | None = None,
) -> Decomposition:
    """The `Decomposition` of maps, or of the images themselves where that has a lower risk than the maps.

    Parameters
    ----------
    problem : Problem
    subspace : Subspace
    fit : MapFit
        Its maps.
    fitting, rng, callback, time_limit
        As of `decompose_maps`.
    bound : float, optional
        The `risk_bound` of the problem, if it is known.
    """
    run = _Run(fitting or Fitting(), callback, time_limit)
    rank, ftol = run.fitting.rank, run.fitting.ftol
    by_noise = [1.0 / float(np.mean(np.square(sigma))) for sigma in (subspace.hsi, subspace.msi)]
    dof = degrees_of_freedom(problem, rank)

    def judged(factors):
        chi2 = float(np.dot(by_noise, misfits(problem, factors)))
        return chi2, chi2 - sum(problem.sizes) + 2.0 * dof

    if fit.chi2 > _UNEXPLAINED * sum(problem.sizes):
        # The maps are the wrong model: nothing of them is of use, and there is no noise to weigh or stop early for.
        factors = run.fit(problem, random_start(problem, rank, "square", rng), min(ftol, Options.ftol))
        chi2, risk = judged(factors)
        if risk < fit.risk or not run.status.goes_on_to_next_start:
            return run.decomposition(factors, "images", chi2, risk)
    factors = _of_maps(run, clean_problem(fit.maps, problem.degradation), rng)
    bound = risk_bound(problem, subspace, rank) if bound is None else bound
    if run.status.converged and bound < fit.risk:
        status = run.status
        weights = tuple(weight / max(by_noise) for weight in by_noise)
        alone = run.fit(problem, _from(factors, problem), ftol, weights=weights)
        chi2, risk = judged(alone)
        if risk < fit.risk:
            if chi2 < _OVERESTIMATED * sum(problem.sizes):
                alone = _refit_to_convergence(run, problem, alone)
                chi2, risk = judged(alone)
            return run.decomposition(alone, "images", chi2, risk)
        if run.status.goes_on_to_next_start:
            run.status = status  # of the factors that count; unless somebody, or the clock, has called a halt
    return run.decomposition(factors, "maps")


def may_be_chosen(problem: Problem, fit: MapFit, bound: float) -> bool:
    """Whether a decomposition whose risk is at least `bound` could have a lower one than the maps."""
    return bool(fit.chi2 > _UNEXPLAINED * sum(problem.sizes) or bound < fit.risk)


def risk_bound(problem: Problem, subspace: Subspace, rank: int) -> float:
    """No decomposition of this rank has a lower estimated risk: by the singular values of the images' unfoldings."""
    freedom = 2.0 * degrees_of_freedom(problem, rank)
    if problem.hsi_valid is not None or problem.msi_valid is not None:
        return freedom - sum(problem.sizes)
    sigmas = subspace.hsi, subspace.msi
    chi2 = sum(
        _least_misfit(image, rank) / float(np.mean(np.square(sigma)))
        for image, sigma in zip((problem.hsi, problem.msi), sigmas, strict=True)
    )
    # A model that is perfect in the mean leaves its degrees of freedom as risk: the bound is no lower than that.
    return max(chi2 - sum(problem.sizes) + freedom, 0.5 * freedom)


def _least_misfit(image, rank):
    """‖image − best model of this rank‖² is at least this."""
    least = 0.0
    for axis in range(3):
        if image.shape[axis] > rank:
            unfolding = np.moveaxis(image, axis, 0).reshape(image.shape[axis], -1).astype(np.float64, copy=False)
            values = np.linalg.eigvalsh(unfolding @ unfolding.T)
            least = max(least, float(np.maximum(values[: image.shape[axis] - rank], 0.0).sum()))
    return least


def degrees_of_freedom(problem: Problem, rank: int) -> int:
    """Of a CPD: the factors' entries, less the two scales that each term can pass between them."""
    return (sum(problem.sri_shape) - 2) * rank


def clean_problem(maps: Maps, degradation: Degradation) -> Problem:
    """What the two images would be without noise, the MSI in an orthonormal basis of the spectra."""
    Q, T = np.linalg.qr(maps.S)
    coarse = Blur(degradation).coarse(np.ascontiguousarray(maps.Z, dtype=np.float64))
    return Problem(coarse @ maps.S.T, maps.Z @ T.T, Degradation(degradation.P1, degradation.P2, Q.T))


def misfits(problem: Problem, factors: Factors) -> tuple[float, float]:
    """(‖hsi − …‖², ‖msi − …‖²) of factors, in the caller's units, over the data there are."""
    A, B, C = factors
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
    images = (problem.hsi, problem.hsi_valid, (P1 @ A, P2 @ B, C)), (problem.msi, problem.msi_valid, (A, B, PM @ C))
    hsi, msi = (_misfit(image, valid, seen) for image, valid, seen in images)
    return hsi, msi


def _misfit(image, valid, factors):
    if valid is None:
        return float(residual_norm2(image, [factor.astype(image.dtype) for factor in factors]))
    A, B, C = factors
    rows = (np.where(valid[i], image[i] - (A[i] * B) @ C.T, 0.0) for i in range(len(image)))
    return float(sum(np.einsum("jk,jk->", row, row) for row in rows))


def _of_maps(run, clean, rng):
    start = random_start(clean, run.fitting.rank, "square", rng)
    return run.fit(clean, start, run.fitting.ftol, [Ridge(run.fitting.ridge)] if run.fitting.ridge else ())


def _refit_to_convergence(run, problem, factors):
    """The factors of the images, which show far less noise than estimated, refitted with weights by what is left."""
    residuals = [misfit / size for misfit, size in zip(misfits(problem, factors), problem.sizes, strict=True)]
    weights = tuple(min(residuals) / residual if residual > 0.0 else 1.0 for residual in residuals)
    return run.fit(problem, _from(factors, problem), min(run.fitting.ftol, Options.ftol), weights=weights)


def _from(factors, problem):
    return given_start(factors, problem, factors.rank, "square", own_scale(problem))


class _Run:
    """The solver's run over one objective after the other: iterations, trace and callback go on."""

    status: Status  # of the last fit

    def __init__(self, fitting, callback, time_limit):
        self.fitting = fitting
        self._callback, self._limit = callback, time_limit
        self._began = time.perf_counter()
        self.trace = Trace()

    @property
    def seconds(self):
        return time.perf_counter() - self._began

    @property
    def n_iter(self):
        return max(0, len(self.trace) - 1)

    def decomposition(self, factors, of, chi2=None, risk=None):
        dof = float((sum(factors.shape) - 2) * self.fitting.rank)
        return Decomposition(factors, of, chi2, dof, risk, self.status, self.trace, self.seconds)

    def fit(self, problem, x0, ftol, regularisers=(), weights=(1.0, 1.0)):
        """The factors of a problem from x0, in the iterations that are left."""
        scale = own_scale(problem)
        objective = CoupledCPD.of_problem(
            problem, self.fitting.rank, "square", "positive", regularisers, weights, scale
        )
        left = None if self._limit is None else max(0.0, self._limit - self.seconds)
        options = Options(max_iter=self.fitting.max_iter - self.n_iter, ftol=ftol, max_seconds=left)
        state = minimize(objective, x0, options, lambda state: self._goes_on(state, scale**2))
        self.status = cast(Status, state.status)  # a run that has ended says why
        return objective.factors(state.x)

    def _goes_on(self, state, unit):
        if state.n_iter == 0 and len(self.trace):
            return False  # where one objective begins, the one before has ended: that is no iteration
        entry = {column: entries[-1] for column, entries in vars(state.trace).items()}
        entry |= {"cost": state.cost * unit, "seconds": self.seconds}
        self.trace.append(**entry)
        if self._callback is None:
            return False
        return self._callback(Progress(self.n_iter, entry["cost"], entry["seconds"], self.trace, "decomposition"))
