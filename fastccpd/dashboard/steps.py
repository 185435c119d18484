"""Steps in a history of times: where a commit made something faster or slower for good.

Logarithms of the times are taken for a line of constant pieces with noise. Of all ways to cut it, the one of least

    sum of squares about the pieces' means  +  σ² (8 + 2 log n) · (number of pieces)

is found by dynamic programming. A median of three neighbours comes first: one value that nobody before or after it
confirms is an accident of the machine, not a step, and a median keeps steps as they are. σ is the largest of what the
repeats of a run say (their quartiles), of what neighbouring commits differ by in the median, and of 2.4 %: what is less
than a tenth is never called a step between two single commits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# log(1.1) / 4: with it, two commits are a step apart from 10 % on.
_LEAST_NOISE = 0.024
# Quartiles of a normal distribution lie this far apart, in deviations.
_QUARTILES = 1.35
# Fewer commits than this cannot tell noise from steps by how much neighbours differ.
_ENOUGH = 6


class Step(NamedTuple):
    """A step.

    Attributes
    ----------
    place : int
        The number of the first value after it.
    before, after : float
        The medians of the pieces that it parts.
    """

    place: int
    before: float
    after: float


def steps(values: Sequence[float], quartiles: Sequence[tuple[float, float]] = ()) -> list[Step]:
    """The steps of a history.

    Parameters
    ----------
    values : sequence of float
        Positive, in the order of the commits.
    quartiles : sequence of (float, float)
        Of the repeats of each value, where they are known.

    Returns
    -------
    list of Step
    """
    if len(values) < 2:
        return []
    y = np.log(np.asarray(values, float))
    cuts = _cuts(_median_of_three(y), _noise(y, quartiles) ** 2 * (8.0 + 2.0 * np.log(len(y))))
    pieces = [np.exp(np.median(y[start:end])) for start, end in zip([0, *cuts], [*cuts, len(y)])]
    return [Step(cut, float(pieces[n]), float(pieces[n + 1])) for n, cut in enumerate(cuts)]


def _noise(y, quartiles):
    spreads = [np.log(high / low) / _QUARTILES for low, high in quartiles if 0.0 < low <= high]
    between = 1.4826 * np.median(np.abs(np.diff(y))) / np.sqrt(2.0) if len(y) >= _ENOUGH else 0.0
    return max(_LEAST_NOISE, between, np.median(spreads) if spreads else 0.0)


def _median_of_three(y):
    inner = np.median([y[:-2], y[1:-1], y[2:]], axis=0) if len(y) > 2 else y[1:-1]
    return np.concatenate([y[:1], inner, y[-1:]])


def _cuts(y, penalty):
    """The starts of all pieces but the first, of the cheapest way to cut."""
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (y - y.mean(), (y - y.mean()) ** 2))
    best, start_of = np.zeros(len(y) + 1), np.zeros(len(y) + 1, int)
    for end in range(1, len(y) + 1):
        starts = np.arange(end)
        pieces = squares[end] - squares[:end] - (sums[end] - sums[:end]) ** 2 / (end - starts)
        costs = best[:end] + pieces + penalty
        start_of[end] = np.argmin(costs)
        best[end] = costs[start_of[end]]
    cuts, end = [], len(y)
    while (end := int(start_of[end])) > 0:
        cuts.append(end)
    return cuts[::-1]
