"""Whether a decomposition of the images could be the better image: bounds on its risk, before it is made.

A model of rank R has unfoldings of rank R at most, so by Eckart and Young its χ² is at least what the singular values
of the images' unfoldings beyond the R-th leave. Where that bound alone is above the risk of the maps, the decomposition
of the images cannot be the better one, and is not made. Where the rank is to be found, small ranks have few parameters
to pay for and noise hides what they leave; so the maps, which are clean, are asked as well.
"""

from collections.abc import Callable

import numpy as np

from ..model.problem import Problem
from .map_data import Blur
from .rank_path import ranks_for
from .subspace import Subspace
from .tv_maps import MapFit

# Maps whose misfit is so many times that of noise are the wrong model.
UNEXPLAINED = 10.0


def may_be_chosen(problem: Problem, fit: MapFit, bound: float) -> bool:
    """Whether a decomposition whose risk is at least `bound` could have a lower one than the maps."""
    return bool(fit.chi2 > UNEXPLAINED * sum(problem.sizes) or bound < fit.risk)


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

    By the singular values of the images' unfoldings; among many ranks also by those of the maps, if they are given: an
    image that is nearer to the scene than the maps is nearer to the maps than twice their own error. `pulse` is called
    several times a second in a large scene, and may raise.
    """
    ranks = ranks_for(problem.hsi.shape, problem.msi.shape) if isinstance(rank, str) else (rank,)
    if problem.hsi_valid is not None or problem.msi_valid is not None:
        return {rank: 2.0 * degrees_of_freedom(problem, rank) - sum(problem.sizes) for rank in ranks}
    variances = [float(np.mean(np.square(sigma))) for sigma in (subspace.hsi, subspace.msi)]
    given = [_unfolding_values(image, pulse) for image in (problem.hsi, problem.msi)]
    clean = []
    if isinstance(rank, str) and fit is not None:
        clean = [_unfolding_values(image, pulse) for image in _seen_in_bases(fit.maps, problem.degradation)]

    def least(images, rank):
        return sum(_least_misfit(values, rank) / variance for values, variance in zip(images, variances, strict=True))

    def of_rank(rank):
        freedom = 2.0 * degrees_of_freedom(problem, rank)
        # A model that is perfect in the mean leaves its degrees of freedom as risk: the bound is no lower than that.
        bound = max(least(given, rank) - sum(problem.sizes) + freedom, 0.5 * freedom)
        if fit is None or not clean:
            return bound
        own = np.sqrt(max(fit.risk, 0.0))
        return max(bound, 0.5 * freedom + max(np.sqrt(least(clean, rank)) - own, 0.0) ** 2)

    return {rank: of_rank(rank) for rank in ranks}


def _seen_in_bases(maps, degradation):
    """What the two images have of the maps, the HSI in an orthonormal basis of the spectra: of the same unfoldings."""
    coarse = Blur(degradation).coarse(np.ascontiguousarray(maps.Z, dtype=np.float64))
    return coarse @ np.linalg.qr(maps.S)[1].T, maps.Z @ (degradation.PM @ maps.S).T


def _unfolding_values(image, pulse):
    """The squared singular values of an image's three unfoldings, smallest first."""
    found = []
    for axis in range(3):
        pulse()
        X = np.moveaxis(image, axis, 0).reshape(image.shape[axis], -1).astype(np.float64, copy=False)
        gramian = X @ X.T
        pulse()
        found.append(np.linalg.eigvalsh(gramian))
    return found


def _least_misfit(values, rank):
    """‖image − best model of this rank‖² is at least this."""
    left = (np.maximum(part[: len(part) - rank], 0.0).sum() for part in values if len(part) > rank)
    return max((float(part) for part in left), default=0.0)


def degrees_of_freedom(problem: Problem, rank: int) -> int:
    """Of a CPD: the factors' entries, less the two scales that each term can pass between them."""
    return (sum(problem.sri_shape) - 2) * rank
