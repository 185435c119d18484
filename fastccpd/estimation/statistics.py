"""What the noise of two images is found from: moments, differences, what they disagree about; all of it additive.

Gathered part by part and added, it says of a scene that does not fit into memory what it says of one that does.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..model.problem import Problem
from ..model.types import Array
from ..threads import thread_map
from .agreement import Agreement, agreement_of
from .few_bands import SecondDifferences, second_differences
from .moments import FEWEST, Moments, difference_moments, moments_of
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
    # What takes longest goes first; what the images agree about is found by kernels, which have threads of their own.
    agreement = agreement_of(problem)
    asked = [
        partial(second_differences, *msi),
        partial(difference_moments, *hsi, fewest),
        partial(difference_moments, *msi, fewest),
        partial(moments_of, *hsi, fewest),
        partial(moments_of, *msi, fewest),
        partial(power_of, problem.hsi),
        partial(power_of, problem.msi),
    ]
    with thread_map() as map_pieces:
        answers = map_pieces(lambda ask: ask(), asked)
        steps, differences, msi_differences, moments, msi_moments, hsi_power, msi_power = answers
    return Statistics(moments, differences, agreement, steps, msi_moments, msi_differences, hsi_power, msi_power)


def power_of(image: Array) -> tuple[float, int]:
    """The sum of an image's squares, and how many there are."""
    return float(np.sum(np.square(image, dtype=np.float64))), image.size
