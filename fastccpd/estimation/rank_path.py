"""How many terms a coupled CPD should have: a path of ranks, each begun where the one before ended.

Along the path terms are added, and terms that have become nothing are pruned; each fit is loose, and its error as an
image is estimated (`image_risk.py`). The path ends where that has risen, or is foreseen to, and the rank of least risk
wins. Where the risk falls steeply every other rank is passed over, and tried in the end if it may be the best.

**New terms.** Their rows and columns are random, as large as what is left of the MSI, but their spectra are those of
pixels of the HSI, or mixtures of those that the terms before have found. It matters: what a term of fine detail has in
its spectrum is hardly seen by the HSI, and what the MSI does not see of it stays where it began
(`unseen_spectra.py` mends that in the end). Without noise, Salinas with 60 terms has 22.0 dB along a path with random
spectra and 29.1 dB along one of mixtures (from one random start: 25.9 dB).

**The largest rank** leaves three data for each parameter, and is at most 150.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ..model.problem import Factors, Problem
from ..model.result import Status, Trace
from ..model.types import Array
from ..solver.coupled_cpd import CoupledCPD
from ..solver.objective import Vector
from ..solver.parametrisation import per_mode
from ..solver.starts import random_start
from ..solver.trust_region import Options
from .chain import Chain
from .moments import complete, pixels_of
from .noise import Noise


@dataclass(frozen=True, eq=False)
class RankPath:
    """The ranks that were tried, and what came of them: the stage "rank" of the NLS methods with rank="auto".

    Attributes
    ----------
    rank : int
        The one of least risk.
    ranks, risks : tuples
        All that were tried, and their estimated errors as images, in parts of the scene's energy.
    at_end : bool
        Whether the risk still fell at the largest rank: no noise is fitted yet, and what is left is the model's error.
    status : Status
        Of the last fit of the path.
    trace : Trace
        Over all of its fits, in the caller's units.
    seconds : float
    """

    rank: int
    ranks: tuple[int, ...]
    risks: tuple[float, ...]
    at_end: bool
    status: Status
    trace: Trace
    seconds: float

    @property
    def risk(self) -> float:
        return min(self.risks, default=float("inf"))


#: The ranks of a path, each about the root of two times the one before.
RANKS = (3, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 150)

# So many data are needed for a parameter.
_DATA_PER_PARAMETER = 3

# A path ends at, or before, a rank whose risk is, or is foreseen to be, so many times the least, and at the second in a
# row that is no better.
_RISEN = 1.08

# Where a step to the next rank leaves less than this part of the risk, the step after it is twice as wide.
_STEEP = 0.8

# On the path a fit ends when five iterations in a row gain less than this of the cost each.
_LOOSE = 3e-3

# A term whose size is below this part of the largest one is pruned.
_PRUNED = 1e-3

# Mixtures of spectra mostly have a few parts (Dirichlet's parameter); no band of one is below this part of its mean.
_FEW_PARTS, _LEAST_BAND = 0.3, 1e-2

# So many pixels are enough to draw spectra from.
_ENOUGH_PIXELS = 4096

# New terms are at least so large, as a part of the scene: squares cannot grow from zero.
_LEAST_NEW = 1e-3


def ranks_for(hsi_shape: Sequence[int], msi_shape: Sequence[int]) -> tuple[int, ...]:
    """The ranks that a path of two images of these shapes may have.

    Parameters
    ----------
    hsi_shape, msi_shape : (rows, columns, bands)

    Returns
    -------
    tuple of int
        At least one.

    Examples
    --------
    >>> from fastccpd.estimation import ranks_for
    >>> ranks_for((20, 21, 204), (80, 84, 6))[-1]
    112
    """
    I, J, K = *msi_shape[:2], hsi_shape[2]
    data = float(np.prod(hsi_shape, dtype=float) + np.prod(msi_shape, dtype=float))
    most = max(1, min(int(data / (_DATA_PER_PARAMETER * (I + J + K))), I * J, I * K, J * K))
    return tuple(rank for rank in RANKS if rank <= most) or (most,)


def fit_rank_path(
    problem: Problem,
    objective_of: Callable[[int], CoupledCPD],
    risk_of: Callable[[CoupledCPD, Vector], float],
    *,
    rng: np.random.Generator,
    options: Options | None = None,
    start: Vector | None = None,
    ranks: Sequence[int] | None = None,
    enough: float = 0.0,
    needed: Callable[[int], float] | None = None,
    chain: Chain | None = None,
    spectra: Array | None = None,
    foreseen: Callable[[int], float] | None = None,
    ends_at_rise: bool = True,
    hasty: float = np.inf,
) -> tuple[RankPath, Vector]:
    """The path, and the x of its best rank.

    Parameters
    ----------
    problem : Problem
    objective_of : callable(rank) -> CoupledCPD
        The objective of this problem at one rank.
    risk_of : callable(objective, x) -> float
        The estimated error of a fit, above zero, as `image_risk(objective, x, sigmas).total`.
    rng : numpy.random.Generator
        Draws the first start and the new terms.
    options : Options, optional
        Of each fit; `ftol` is at least 3e-3 here.
    start : array, optional
        An x to begin at, whose rank is the first.
    ranks : sequence of int, optional
        Rising; None: `ranks_for` the problem's images.
    enough : float
        A risk at which the path may end.
    needed : callable(rank) -> float, optional
        The cost above which a fit is of no use: one that cannot be hoped to fall below it is not brought to its end.
    chain : Chain, optional
        Watches the fits; where its callback or its clock calls a halt, the best so far is what was found.
    spectra : (n, bands) array, optional
        What the spectra of new terms are drawn from, as of `likely_spectra`; None: mixtures of those that are known.
    foreseen : callable(rank) -> float, optional
        The risk that a rank is likely to have, by those before it: one that is likely to be much worse is not tried.
    ends_at_rise : bool
        Whether a risk that has risen ends the path. False where there is no noise to fit: more terms are never worse
        there, and a rise is that of a fit which was not brought to its end.
    hasty : float
        Above this rank fits end the sooner the more terms they have: `ftol` is as many times larger as the rank is.

    Returns
    -------
    (RankPath, array)
        What was tried, and the x of the best rank.
    """
    options = options or Options()
    chain = chain or Chain("rank")
    ranks = ranks_for(problem.hsi.shape, problem.msi.shape) if ranks is None else ranks
    if start is not None:
        ranks = (start.shape[1], *(rank for rank in ranks if rank > start.shape[1]))
    if options.max_iter == 0:
        ranks = ranks[:1]
    tried, risks, x, best, left = [], [], start, None, 1.0
    rank = ranks[0]
    while rank is not None:
        objective = objective_of(rank)
        kinds = [phi.name for phi in objective.parametrisation]
        if x is None:
            x = random_start(problem, rank, kinds, rng)
        elif x.shape[1] < rank or tried:
            x = _grown(x, objective, problem, left, rng, spectra)
        loose = replace(options, ftol=max(options.ftol, _LOOSE * max(1.0, rank / hasty)))
        state = chain.fit(objective, x, loose, objective.scale, None if needed is None else needed(rank))
        x, goes_on = state.x, state.status is not None and state.status.goes_on_to_next_start
        if state.status is Status.NOT_FINITE:
            best = (x, left) if best is None else best
            break
        risk = risk_of(objective, x) if goes_on else np.inf
        left = np.sqrt(objective.misfits()[-1] / problem.msi.size)
        tried.append(rank)
        risks.append(float(risk) if np.isfinite(risk) else np.inf)
        if best is None or risks[-1] < min(risks[:-1]):
            best = x, left
        if not goes_on or risks[-1] <= enough:
            break
        rank = _next_rank(ranks, tried, risks, foreseen or (lambda rank: 0.0), ends_at_rise)
        if rank is not None and rank < tried[-1]:
            x, left = best
    # There is at least one rank, and its fit has ended.
    best, status = cast(tuple[Vector, Any], best)[0], cast(Status, state.status)
    at_end = bool(tried) and tried[-1] == ranks[-1] == best.shape[1]
    found = RankPath(best.shape[1], tuple(tried), tuple(risks), at_end, status, chain.trace, chain.seconds)
    return found, best


def _next_rank(ranks, tried, risks, foreseen, ends_at_rise):
    """The rank to try after those that were; None where the path ends.

    Where the risk falls steeply one rank is passed over. It is tried in the end if the one after it is no better.
    """
    places, least = [ranks.index(rank) for rank in tried], min(risks)
    here, passed = places[-1], places[-1] - places[-2] - 1 if len(places) > 1 else 0
    if passed < 0:
        return None  # it was tried in the end
    if ends_at_rise and risks[-1] > least and passed:
        return ranks[here - 1]
    if ends_at_rise and (risks[-1] > _RISEN * least or (len(risks) > 2 and min(risks[-2:]) > least)):
        return None
    steep = len(risks) > 1 and risks[-1] < _STEEP ** (1 + passed) * risks[-2]
    ahead = ranks[here + 2 : here + 3] if steep else ()
    candidates = (*ahead, *ranks[here + 1 : here + 2])
    return next((rank for rank in candidates if not foreseen(rank) > _RISEN * least), None)


def _term_sizes(u: Sequence[Array]) -> Array:
    """The norm of each rank-one term of three factors."""
    return np.prod([np.linalg.norm(factor, axis=0) for factor in u], axis=0)


def effective_rank(factors: Factors) -> int:
    """The number of terms that are not pruned."""
    sizes = _term_sizes(tuple(factors))
    return int((sizes > _PRUNED * sizes.max()).sum()) if sizes.max() > 0.0 else 0


def likely_spectra(problem: Problem, noise: Noise) -> Array:
    """(n, bands) spectra of the HSI's pixels, or of some of them, freed of what is not signal; none of dark pixels.

    Parameters
    ----------
    problem : Problem
    noise : Noise
        Of `noise_of(problem)`.
    """
    pixels = pixels_of(problem.hsi, *complete(problem.hsi, problem.hsi_valid), dtype=None)
    pixels = pixels[:: -(-len(pixels) // _ENOUGH_PIXELS) or 1] / noise.hsi_floored
    signals = noise.spectrum.vectors[:, : max(1, noise.spectrum.signals)]
    spectra = pixels @ signals @ signals.T * noise.hsi_floored
    brightness = spectra.mean(axis=1)
    bright = brightness > _LEAST_BAND * brightness.mean()
    return spectra[bright] if bright.any() else spectra


def _grown(x, objective, problem, size, rng, spectra=None):
    """x without the terms that are nothing, and with new ones of the given size up to the objective's rank."""
    parts = list(zip(objective.parametrisation, objective.modes, strict=True))
    sizes = _term_sizes([phi.value(x[rows]) for phi, rows in parts])
    x = x[:, sizes > _PRUNED * sizes.max()] if sizes.max() > 0.0 else x
    count = objective.rank - x.shape[1]
    if count == 0:
        return np.ascontiguousarray(x)
    kinds = [phi.name for phi in objective.parametrisation]
    new = random_start(problem, count, kinds, rng)
    phi, rows = parts[2]
    drawn = phi.value(new[rows])
    if spectra is None:
        mixed = _mixtures(phi.value(x[rows]), count, rng)
    else:
        mixed = spectra[rng.integers(len(spectra), size=count)].T
    if phi.nonnegative:
        mixed = np.maximum(mixed, _LEAST_BAND * np.maximum(mixed.mean(axis=0), 0.0))
    norms = np.linalg.norm(mixed, axis=0)
    mixed = np.where(norms > 0.0, mixed * (np.linalg.norm(drawn, axis=0) / np.where(norms > 0.0, norms, 1.0)), drawn)
    factors = [phi.value(new[rows]) for phi, rows in parts[:2]] + [mixed]
    grow = max(float(size), _LEAST_NEW) ** (1.0 / 3.0)
    lifted = [phi.inverse(grow * factor) for phi, factor in zip(per_mode(kinds), factors, strict=True)]
    return np.hstack([x, np.vstack(lifted)])


def _mixtures(spectra, count, rng):
    """So many mixtures of (bands, n) spectra."""
    known = spectra / np.maximum(np.linalg.norm(spectra, axis=0), np.finfo(float).tiny)
    return known @ rng.dirichlet(np.full(known.shape[1], _FEW_PARTS), count).T
