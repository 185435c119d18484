"""The non-negative coupled CPD of a scene whose maps are known, and whether it is the better image.

**Of the maps.** The decomposition is fitted to the image that the maps and spectra are, without noise. With the QR
decomposition S = Q T,

    ½ ‖Z S' − [[A, B, C]]‖² + ½ μ ‖x‖² = ½ ‖Z T' − [[A, B, Q'C]]‖² + ½ ‖[[A, B, (I − Q Q')C]]‖² + ½ μ ‖x‖²:

a term in the basis Q (`solver/misfit.py`), whose passes are over the maps alone, while C is whole and non-negative. The
second part matters: what C has outside of the spectra would be seen by nothing else. On squares the ridge is
½μ(ΣA + ΣB + ΣC), an L1 prior that prunes what is not needed on the way; the last fit is without it. μ must be small on
the way: with 1e-3 no rank came nearer to Salinas than 5e-5 of its energy, and how far the last fit went was chance.
Terms are added along a path of ranks (`rank_path.py`) until what is left of the maps is 1/20 of their own estimated
error: the risk of the factors is that of the maps plus their distance, and more terms would not lower it.

**Of the images.** Where the scene is of low rank, the decomposition of the two given images, weighted by their noise
and, at a given rank, begun where that of the maps ended, has a lower estimated risk than the maps: χ² − N + 2 (I + J +
K − 2) R. That is the error in the two images. What neither of them shows of the scene may be worse all the same, as it
is where maps and factors are smooth: the expected error of the image (`image_risk.py`) must be the lower one too. A fit
that falls too slowly to get there is given up. Where the maps do not explain the images at all, it begins anew.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from ..blas import one_blas_thread
from ..kernels import residual_norm2
from ..model.checks import as_count, as_number
from ..model.degradation import Degradation
from ..model.problem import Factors, Maps, Problem
from ..model.result import Status
from ..model.types import Callback
from ..solver.coupled_cpd import CoupledCPD
from ..solver.regularisers import Ridge
from ..solver.starts import given_start, own_scale, random_start
from ..solver.terms import Term, terms_of
from ..solver.trust_region import Options
from ..threads import by_rows
from .chain import Chain
from .fitting import Choice, Decomposition, Fitting
from .image_risk import image_risk
from .map_data import Blur
from .map_fit import MapFit
from .rank_path import RANKS, RankPath, fit_rank_path
from .risk_bounds import UNEXPLAINED, degrees_of_freedom, may_be_chosen, risk_bound, risk_bounds
from .subspace import Subspace
from .watch import Stopped, Watch

# A decomposition with so small a part of the misfit of noise shows that the noise was overestimated.
_OVERESTIMATED = 0.5

# Factors that are nearer to the maps than this part of the maps' own error are near enough.
_NEAR_ENOUGH = 0.05

# μ where it is to be found: at a rank that is given, and on a path of ranks.
_RIDGE, _RIDGE_OF_PATH = 1e-3, 1e-5

#: The ranks of a path to the maps, in which there is no noise to fit.
RANKS_OF_MAPS = (*RANKS, 212)

__all__ = [
    "Choice",
    "Decomposition",
    "Fitting",
    "MapDecomposer",
    "decompose_maps",
    "decompose_scene",
    "may_be_chosen",
    "risk_bound",
]


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
    callback, time_limit
        As of `fit_maps`.

    Returns
    -------
    Decomposition
        Of "maps".
    """
    run = _Run(fitting or Fitting(), callback, time_limit)
    return run.decomposition(_of_maps(run, maps, degradation, rng), "maps")


@dataclass(frozen=True, eq=False)
class MapDecomposer:
    """Makes the factors of maps when they are asked for, the same ones each time; it can be pickled and saved.

    Attributes
    ----------
    maps : Maps
        What is decomposed.
    degradation : Degradation
        Its P1 and P2 are used.
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
        checks = {"rank": as_count, "max_iter": partial(as_count, least=0)}
        checks |= dict.fromkeys(("ridge", "ftol", "closeness"), as_number)
        for name, value in self.options.items():
            if name not in checks:
                raise TypeError(f"options: got {name}; {', '.join(checks)} are needed")
            if not (name in ("rank", "ridge") and value == "auto"):
                checks[name](value, name)

    def __call__(self, *, callback: Callback | None = None, time_limit: float | None = None) -> Decomposition:
        how = {"rng": self._generator(), "callback": callback, "time_limit": time_limit}
        with one_blas_thread():
            return decompose_maps(self.maps, self.degradation, Fitting(**self.options), **how)

    def _generator(self):
        """The generator of the start. Only names of NumPy's bit generators are looked up: the file may be anybody's."""
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
    of_maps: bool = True,
    bounds: dict[int, float] | None = None,
    callback: Callback | None = None,
    time_limit: float | None = None,
) -> Decomposition | None:
    """The `Decomposition` of maps, or of the images themselves where that has a lower risk than the maps.

    Parameters
    ----------
    problem : Problem
    subspace : Subspace
    fit : MapFit
        Its maps.
    fitting, rng, callback, time_limit
        As of `decompose_maps`.
    of_maps : bool
        Where the rank is to be found and the maps are the better image: whether to decompose them, or give None.
    bounds : dict of int to float, optional
        The `risk_bounds` of the problem, if they are known.

    Returns
    -------
    Decomposition or None
        None where `of_maps` says so.
    """
    fitting = replace(fitting or Fitting(), closeness=closeness(problem, subspace, fit))
    run, images = _Run(fitting, callback, time_limit), _Images(problem, subspace)
    if fit.chi2 > UNEXPLAINED * sum(problem.sizes):
        # The maps are the wrong model: nothing of them is of use, and there is no noise to weigh or stop early for.
        x = run.start(problem, images.objective_of((1.0, 1.0)), images.path_risk, rng)
        factors = images.fitted(run, x, (1.0, 1.0), min(fitting.ftol, Options.ftol))
        chi2, risk = images.judged(factors)
        if risk < fit.risk or not run.status.goes_on_to_next_start:
            return run.decomposition(factors, "images", chi2, risk)
    elif fitting.rank == "auto":
        try:
            bounds = bounds or risk_bounds(problem, subspace, "auto", fit, Watch("rank", callback, time_limit).pulse)
        except Stopped as stopped:
            run = _Run(replace(fitting, max_iter=0), None, None)
            factors = _of_maps(run, fit.maps, problem.degradation, rng)
            return replace(run.decomposition(factors, "maps"), status=stopped.status)
        ranks = tuple(rank for rank, least in bounds.items() if least < fit.risk)
        if ranks:
            # With random numbers of its own: factors of maps are the same whether or not the images were tried.
            how = images.objective_of(images.weights), images.path_risk, deepcopy(rng)
            alone = images.factors_of(run.start(problem, *how, ranks=ranks, needed=images.needed(fit.risk)))
            if run.halted:
                return run.decomposition(images.fitted(run, images.x_of(alone), images.weights, fitting.ftol), "images")
            if images.show_more_than(fit, alone):
                return _brought_to_the_end(run, images, alone)
    if fitting.rank == "auto" and not of_maps:
        return None
    factors = _of_maps(run, fit.maps, problem.degradation, rng)
    if fitting.rank == "auto" or not run.status.converged:
        return run.decomposition(factors, "maps")
    bounds = bounds or risk_bounds(problem, subspace, fitting.rank)
    if min(bounds.values()) < fit.risk:
        status = run.status
        alone = images.fitted(run, images.x_of(factors), images.weights, fitting.ftol)
        if images.show_more_than(fit, alone):
            return _brought_to_the_end(run, images, alone)
        if run.status.goes_on_to_next_start:
            run.status = status  # of the factors that count; unless somebody, or the clock, has called a halt
    return run.decomposition(factors, "maps")


def _brought_to_the_end(run, images, factors):
    """The decomposition of the images, which is what is shown, with the tolerance of "nn-ccpd-nls"."""
    chi2, _ = images.judged(factors)
    overestimated = chi2 < _OVERESTIMATED * sum(images.problem.sizes)
    weights = images.weights_by_residuals(factors) if overestimated else images.weights
    factors = images.fitted(run, images.x_of(factors), weights, min(run.fitting.ftol, Options.ftol))
    return run.decomposition(factors, "images", *images.judged(factors))


def closeness(problem: Problem, subspace: Subspace, fit: MapFit) -> float:
    """What may be left of the maps, as a part of their energy: a twentieth of their own estimated error."""

    def squares(image, part):
        return np.einsum("ijk,ijk->k", image[part], image[part], dtype=np.float64)

    pairs = (problem.hsi, subspace.hsi), (problem.msi, subspace.msi)
    sums = (sum(by_rows(partial(squares, image), len(image), image[0].size)) @ sigma**-2.0 for image, sigma in pairs)
    energy = float(sum(sums))
    return min(1e-2, max(1e-6, _NEAR_ENOUGH * fit.risk / max(energy - sum(problem.sizes), 1.0)))


def clean_problem(maps: Maps, degradation: Degradation) -> Problem:
    """What the two images would be without noise, the MSI in an orthonormal basis of the spectra."""
    Q, T = np.linalg.qr(maps.S)
    coarse = Blur(degradation).coarse(np.ascontiguousarray(maps.Z))
    # Coordinates may be larger than any value of the images, which were checked.
    operators = Degradation(degradation.P1, degradation.P2, Q.T)
    return Problem(coarse @ maps.S.T, maps.Z @ T.T, operators, check_finite=False)


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


def _of_maps(run, maps, degradation, rng):
    """The factors nearest to the maps."""
    clean, fitting = clean_problem(maps, degradation), run.fitting
    Q, _ = np.linalg.qr(maps.S)
    term, scale = Term(clean.msi, basis=Q, in_basis=True), own_scale(clean)
    energy = max(float(np.square(clean.msi).sum()) / scale**2, np.finfo(float).tiny)
    found = fitting.rank == "auto" and fitting.ridge == "auto"
    ridge = _RIDGE if fitting.ridge == "auto" else fitting.ridge

    def objective_with(ridge):
        return CoupledCPD([term], 1, "square", "positive", [Ridge(ridge)] if ridge else (), scale).at_rank

    def distance(objective, x):
        objective.cost_and_gradient(x)
        return min(objective.misfits()[0], energy) / energy

    on_path = objective_with(_RIDGE_OF_PATH if found else ridge)
    path = {"ranks": RANKS_OF_MAPS, "enough": fitting.closeness, "ends_at_rise": False}
    x = run.start(clean, on_path, distance, rng, **path)
    objective = objective_with(0.0 if found else ridge)(x.shape[1])
    return objective.factors(run.fit(objective, x, fitting.ftol))


class _Images:
    """The two images as what a decomposition is fitted to, weighted by their noise, and judged by."""

    def __init__(self, problem, subspace):
        self.problem, self._scale = problem, own_scale(problem)
        self._sigmas = subspace.hsi, subspace.msi
        self._precisions = [1.0 / float(np.mean(np.square(sigma))) for sigma in self._sigmas]
        self.weights = tuple(precision / max(self._precisions) for precision in self._precisions)

    def objective_of(self, weights):
        """The objective by rank."""
        return CoupledCPD(terms_of(self.problem, weights), 1, scale=self._scale).at_rank

    def factors_of(self, x):
        return self.objective_of(self.weights)(x.shape[1]).factors(x)

    def x_of(self, factors):
        return given_start(factors, self.problem, factors.rank, "square", self._scale)

    def fitted(self, run, x, weights, ftol):
        """The factors of a fit from x."""
        objective = self.objective_of(weights)(x.shape[1])
        return objective.factors(run.fit(objective, x, ftol))

    def judged(self, factors):
        """(χ², estimated risk)."""
        chi2 = float(np.dot(self._precisions, misfits(self.problem, factors)))
        return chi2, chi2 - sum(self.problem.sizes) + 2.0 * degrees_of_freedom(self.problem, factors.rank)

    def show_more_than(self, fit, factors):
        """Whether factors have a lower estimated risk than the maps, and a lower expected error of the image."""
        if not self.judged(factors)[1] < fit.risk:
            return False
        if fit.expected_error is None:
            return True
        energy = float(np.prod([factor.T @ factor for factor in factors], axis=0).sum())
        of_maps = len(factors.C) * float(np.square(fit.expected_error).sum())
        objective = self.objective_of(self.weights)(factors.rank)
        return image_risk(objective, self.x_of(factors), self._sigmas).error * energy < of_maps

    def needed(self, risk):
        """By rank, the cost of factors whose estimated risk is `risk`."""
        unit = 2.0 * self._scale**2 * max(self._precisions)
        return lambda rank: (risk + sum(self.problem.sizes) - 2.0 * degrees_of_freedom(self.problem, rank)) / unit

    def path_risk(self, objective, x):
        """The same in parts of what noise alone would leave, and so above zero."""
        return 1.0 + self.judged(objective.factors(x))[1] / sum(self.problem.sizes)

    def weights_by_residuals(self, factors):
        """Weights by what is left of the images, where that is far less than the estimated noise."""
        pairs = zip(misfits(self.problem, factors), self.problem.sizes, strict=True)
        residuals = [misfit / size for misfit, size in pairs]
        return tuple(min(residuals) / residual if residual > 0.0 else 1.0 for residual in residuals)


class _Run:
    """One fit after the other, at a rank that is given or found."""

    status: Status  # of the last fit

    def __init__(self, fitting, callback, time_limit):
        self.fitting = fitting
        self.path: RankPath | None = None
        self._ranks = Chain("rank", callback, time_limit)
        self._chain = Chain("decomposition", callback, time_limit)

    @property
    def halted(self):
        """Whether somebody, or the clock, has called a halt on the path of ranks."""
        return self.path is not None and not self.path.status.goes_on_to_next_start

    def decomposition(self, factors, of, chi2=None, risk=None):
        dof = float((sum(factors.shape) - 2) * factors.rank)
        chain = self._chain
        return Decomposition(factors, of, chi2, dof, risk, self.status, chain.trace, chain.seconds, self.path)

    def start(self, problem, objective_of, risk_of, rng, **path):
        """An x to begin at: random at a given rank, the best of a path of ranks where it is to be found."""
        if self.fitting.rank != "auto":
            return random_start(problem, self.fitting.rank, "square", rng)
        options = Options(max_iter=self.fitting.max_iter, ftol=self.fitting.ftol)
        self.path, x = fit_rank_path(
            problem, objective_of, risk_of, rng=rng, options=options, chain=self._ranks, **path
        )
        return x

    def fit(self, objective, x0, ftol):
        """The x at the end of a fit, in the iterations that are left."""
        options = Options(max_iter=self.fitting.max_iter - self._chain.n_iter, ftol=ftol)
        if self.halted:
            options, self._chain = replace(options, max_iter=0), Chain("decomposition")
        state = self._chain.fit(objective, x0, options, objective.scale)
        ended = self.path if self.path is not None and self.halted else state
        self.status = cast(Status, ended.status)  # a run that ended says why
        return state.x
