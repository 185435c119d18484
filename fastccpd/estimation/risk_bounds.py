"""Whether a decomposition of the images could be the better image: bounds on its risk, before it is made.

A model of rank R has unfoldings of rank R at most, so by Eckart and Young its χ² is at least what the singular values
of the images' unfoldings beyond the R-th leave. Where that bound alone is above the risk of the maps, the decomposition
of the images cannot be the better one, and is not made. Where the rank is to be found, small ranks have few parameters
to pay for and noise hides what they leave; so the maps, which are clean, are asked as well, and first: they rule out
most decompositions of real scenes. With the distance d of an image to the maps and the maps' own error e,

    (error of the image)² ≥ d² − e²,

unless the two errors are opposed to each other, and those of two fits to the same noise are not. The best fit of rank R
to the maps has a bias of at least that, and beside it a variance, which counts as in the choice of ranks
(`image_risk.py`): two and a half times the number of its parameters. On 94 synthetic scenes whose decomposition is
shown the least bound was 0.75 of the maps' risk at most.

Maps that leave far more than noise are the wrong model, and then the images themselves are decomposed, whatever that
takes. But where the two images disagree, every image leaves much: with r = P Y_M − Y_H PM' and any X between them,

    r = P (Y_M − X PM') − (Y_H − P X) PM',    so    χ² ≥ r' (λ Σ_M + PM Σ_H PM')⁻¹ r,    λ the norm of P P',

for each HSI pixel, and no decomposition mends that.
"""

import math
from collections.abc import Callable

import numpy as np

from ..model.problem import Problem
from ..threads import thread_map
from .map_data import Blur
from .map_fit import MapFit
from .noise import Noise
from .rank_path import ranks_for
from .subspace import Subspace

# Maps whose misfit is so many times that of noise are the wrong model.
UNEXPLAINED = 10.0

# Degrees of freedom count so many times: terms follow noise more closely than to first order (`image_risk.py`).
_CAUTIOUS = 2.5


def may_be_chosen(problem: Problem, fit: MapFit, bound: float, disagreement: float = 0.0) -> bool:
    """Whether a decomposition whose risk is at least `bound` could have a lower one than the maps.

    Parameters
    ----------
    problem : Problem
    fit : MapFit
    bound : float
        The least of `risk_bounds`.
    disagreement : float
        The `least_chi2` of every image: maps that leave little more are not the wrong model, and what they leave says
        nothing of a decomposition.
    """
    if fit.chi2 > UNEXPLAINED * sum(problem.sizes):
        return bool(fit.chi2 > UNEXPLAINED * disagreement)
    return bool(bound < fit.risk)


def least_chi2(problem: Problem, noise: Noise, subspace: Subspace) -> float:
    """What every image between the two leaves, because they disagree by more than their noise and a misplaced blur."""
    unit = float(subspace.msi.max())  # squares in the caller's units may leave the range of a float
    beyond = np.square(noise.disagreement / unit).sum() - np.square(noise.misplacement / unit).sum()
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM.toarray()
    norm = math.prod(float(abs(P @ P.T).sum(axis=1).max()) for P in (P1, P2))
    response = PM * (subspace.hsi / unit)
    covariance = norm * np.diag(np.square(subspace.msi / unit)) + response @ response.T
    pixels = math.prod(problem.hsi.shape[:2])
    return pixels * max(float(beyond), 0.0) / float(np.linalg.eigvalsh(covariance)[-1])


def risk_bound(problem: Problem, subspace: Subspace, rank: int | str, fit: MapFit | None = None) -> float:
    """No decomposition of this rank, or of any that "auto" tries, has a lower estimated risk."""
    return min(risk_bounds(problem, subspace, rank, fit).values())


def risk_bounds(
    problem: Problem,
    subspace: Subspace,
    rank: int | str,
    fit: MapFit | None = None,
    pulse: Callable[[], None] = lambda: None,
) -> dict[int, float]:
    """{rank: the least risk that it can have}.

    By the singular values of the images' unfoldings; among many ranks first by those of the maps, if they are given,
    and by those of the images only where a rank is left. `pulse` is called several times a second in a large scene, and
    may raise.
    """
    ranks = ranks_for(problem.hsi.shape, problem.msi.shape) if isinstance(rank, str) else (rank,)
    # Of an image with gaps the part that is there, as if they were anywhere.
    shares = [1.0 if valid is None else float(valid.mean()) for valid in (problem.hsi_valid, problem.msi_valid)]
    variances = [float(np.mean(np.square(sigma))) for sigma in (subspace.hsi, subspace.msi)]

    def least(images):
        found = zip(_unfolding_values(images, pulse), shares, variances, strict=True)
        parts = [(values, share / variance) for values, share, variance in found]
        return {rank: sum(_least_misfit(values, rank) * precision for values, precision in parts) for rank in ranks}

    # A model that is perfect in the mean leaves its degrees of freedom as risk: the bound is no lower than that.
    bounds = freedom = {rank: float(degrees_of_freedom(problem, rank)) for rank in ranks}
    if isinstance(rank, str) and fit is not None:
        clean = least(_seen_in_bases(fit.maps, problem.degradation))
        bounds = {rank: _CAUTIOUS * freedom[rank] + max(clean[rank] - fit.risk, 0.0) for rank in ranks}
        if min(bounds.values()) >= fit.risk:
            return bounds
    if min(shares) < 1.0:
        return bounds
    given = least((problem.hsi, problem.msi))
    return {rank: max(bounds[rank], given[rank] - sum(problem.sizes) + 2.0 * freedom[rank]) for rank in ranks}


def _seen_in_bases(maps, degradation):
    """What the two images have of the maps, the HSI in an orthonormal basis of the spectra: of the same unfoldings."""
    coarse = Blur(degradation).coarse(np.ascontiguousarray(maps.Z))
    return coarse @ np.linalg.qr(maps.S)[1].T, maps.Z @ (degradation.PM @ maps.S).T


def _unfolding_values(images, pulse):
    """The squared singular values of the three unfoldings of each image, smallest first."""

    def values(image, axis):
        X = np.moveaxis(image, axis, 0).reshape(image.shape[axis], -1).astype(np.float64, copy=False)
        return np.linalg.eigvalsh(X @ X.T)

    found = []
    with thread_map() as map_pieces:
        for part in map_pieces(values, *zip(*((image, axis) for image in images for axis in range(3)), strict=True)):
            pulse()
            found.append(part)
    return found[:3], found[3:]


def _least_misfit(values, rank):
    """‖image − best model of this rank‖² is at least this."""
    left = (np.maximum(part[: len(part) - rank], 0.0).sum() for part in values if len(part) > rank)
    return max((float(part) for part in left), default=0.0)


def degrees_of_freedom(problem: Problem, rank: int) -> int:
    """Of a CPD: the factors' entries, less the two scales that each term can pass between them."""
    return (sum(problem.sri_shape) - 2) * rank
