"""What the noise of two images is found from: moments, differences, what they disagree about; all of it additive.

Gathered part by part and added, it says of a scene that does not fit into memory what it says of one that does.
"""

from dataclasses import dataclass

import numpy as np

from ..model.problem import Problem
from ..model.types import Array
from ..threads import by_rows
from .agreement import Agreement, agreement_of
from .few_bands import SecondDifferences, second_differences
from .moments import FEWEST, Moments, difference_moments, moments_of
from .once import once
from .sums import Sums


@dataclass(frozen=True, eq=False)
class Statistics(Sums):
    """What the noise of two images is found from.

    Attributes
    ----------
    moments, differences : Moments
        Of the HSI's pixels, and of the differences between neighbours.
    agreement : Agreement or None
    steps : SecondDifferences
        Of the MSI.
    msi_moments, msi_differences : Moments
        Of the MSI's pixels, and of the differences between neighbours.
    hsi_power, msi_power : (sum of squares, number of values)
        Of the images.
    """

    moments: Moments
    differences: Moments
    agreement: Agreement | None
    steps: SecondDifferences
    msi_moments: Moments
    msi_differences: Moments
    hsi_power: tuple[float, int]
    msi_power: tuple[float, int]


def statistics_of(problem: Problem, *, fewest: float = FEWEST) -> Statistics:
    """The `Statistics` of a problem's two images.

    Parameters
    ----------
    problem : Problem
        A whole scene, or a part of one.
    fewest : float
        The least part of complete pixels for which the others are left out, instead of filled; 0 for a part of a scene.

    Returns
    -------
    Statistics
        Those of all parts, added, are for `noise_from`.
    """
    hsi, msi = (problem.hsi, problem.hsi_valid), (problem.msi, problem.msi_valid)
    moments, differences = moments_of_hsi(problem) if fewest == FEWEST else _both_moments(*hsi, fewest)
    of_msi = _both_moments(*msi, fewest)
    return Statistics(
        moments=moments,
        differences=differences,
        agreement=agreement_of(problem),
        steps=steps_of_msi(problem),
        msi_moments=of_msi[0],
        msi_differences=of_msi[1],
        hsi_power=power_of(problem.hsi),
        msi_power=power_of(problem.msi),
    )


def _both_moments(image, valid, fewest):
    """Of an image's pixels, and of the differences between neighbours."""
    return moments_of(image, valid, fewest), difference_moments(image, valid, fewest)


@once
def moments_of_hsi(problem: Problem) -> tuple[Moments, Moments]:
    """The moments of the HSI's pixels, and of the differences between neighbours."""
    return _both_moments(problem.hsi, problem.hsi_valid, FEWEST)


@once
def steps_of_msi(problem: Problem) -> SecondDifferences:
    """The second differences of the MSI."""
    return second_differences(problem.msi, problem.msi_valid)


def power_of(image: Array) -> tuple[float, int]:
    """The sum of an image's squares, and how many there are."""
    squares = by_rows(lambda part: np.sum(np.square(image[part], dtype=np.float64)), len(image), image[0].size)
    return float(sum(squares)), image.size
