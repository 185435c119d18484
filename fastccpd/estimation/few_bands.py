"""The noise of an image with few bands, by its second differences.

v = (x₀₀ − x₁₀ − x₀₁ + x₁₁)/2 has the variance of the noise plus what edges and texture leave, and that is alike in all
bands: factor analysis, Cov(v) = L L' + diag(σ²) with a thin L, takes it out. The median of |v| bounds σ from above;
with fewer than four bands it is all there is. Where a band has texture of its own, this takes it for noise.

Covariance and median come from sums and counts, which are additive: |v| is counted in classes 1/64 of an octave wide,
and the median lies within its class as if values were spread evenly there.
"""

from dataclasses import dataclass

import numpy as np

from ..model.types import Array, Mask
from ..threads import by_rows
from .sums import Sums, added

# So many second differences tell as much as one that shares no pixel: 1 + the squares of their correlations, four
# times 1/2 and four times 1/4.
_SHARED = 2.25

_NORMAL_MEDIAN = 0.6744897501960817  # of |x| for a standard normal x

_CLASSES = 64  # an octave


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """How many values there are of each magnitude; the counts of two parts add up to those of both.

    Attributes
    ----------
    first : int
        The lowest class; that of x is the floor of 64 log2(x).
    counts : int array
        Of the classes from `first` on.
    zeros : int
        How many values were zero.
    """

    first: int
    counts: np.ndarray
    zeros: int

    def __add__(self, other: "Magnitudes") -> "Magnitudes":
        first = min(self.first, other.first)
        counts = np.zeros(max(part.first + len(part.counts) for part in (self, other)) - first, np.int64)
        for part in (self, other):
            counts[part.first - first :][: len(part.counts)] += part.counts
        return Magnitudes(first, counts, self.zeros + other.zeros)

    def median(self) -> float:
        """The median of the values; 0 where there are none."""
        half = 0.5 * (self.zeros + int(self.counts.sum()))
        below = self.zeros + np.concatenate([[0], np.cumsum(self.counts)])
        if half <= self.zeros:
            return 0.0
        place = int(np.searchsorted(below, half)) - 1
        within = (half - below[place]) / self.counts[place]
        low, high = np.exp2((self.first + np.array([place, place + 1])) / _CLASSES)
        return float(low + within * (high - low))


def magnitudes_of(values: Array) -> Magnitudes:
    """The `Magnitudes` of an array."""
    sizes = np.abs(values[values != 0.0])
    if not sizes.size:
        return Magnitudes(0, np.zeros(0, np.int64), values.size)
    classes = np.floor(_CLASSES * np.log2(sizes)).astype(np.int64)
    first = int(classes.min())
    return Magnitudes(first, np.bincount(classes - first), values.size - sizes.size)


@dataclass(frozen=True, eq=False)
class SecondDifferences(Sums):
    """What the second differences of an image add up to.

    Attributes
    ----------
    second : (bands, bands) array
        The sum of v v' over the places that have all bands.
    count : int
        The number of these places.
    magnitudes : tuple of Magnitudes
        Of |v| of each band, wherever it has data.
    """

    second: np.ndarray
    count: int
    magnitudes: tuple[Magnitudes, ...]

    def bound(self) -> Array:
        """What bounds σ of each band from above."""
        return np.array([counted.median() for counted in self.magnitudes]) / _NORMAL_MEDIAN

    def deviations(self, least: float) -> tuple[Array, float | None]:
        """σ of each band, no less than `least`, and the σ that all would have were they alike.

        The second is None where bands or pixels are too few for more than the bound.
        """
        above, bands = np.maximum(self.bound(), least), len(self.second)
        factors = _thin(bands)
        if factors == 0 or self.count < 10 * bands:
            return above, None
        second = self.second / self.count
        variance = np.maximum(np.minimum(np.diag(second), above**2), least**2)
        for _ in range(200):
            sigma = np.sqrt(variance)
            values, vectors = np.linalg.eigh(second / np.outer(sigma, sigma))
            shared = (vectors[:, -factors:] ** 2 * np.maximum(values[-factors:] - 1.0, 0.0)).sum(axis=1) * variance
            update = np.clip(np.diag(second) - shared, 0.1 * variance, above**2)
            settled = np.abs(update - variance).max() <= 1e-3 * variance.max()
            variance = np.maximum(update, least**2)
            if settled:
                break
        # Were all bands alike, the least eigenvalue of Cov(v) would be noise alone, in which no edge has a part: the
        # least of as many as there are bands, and so too small, by what Marchenko and Pastur say of so many pixels.
        too_small = 1.0 - np.sqrt((bands - 1) * _SHARED / self.count)
        common = float(np.sqrt(max(np.linalg.eigvalsh(second)[0], 0.0))) / max(too_small, 0.5)
        return np.sqrt(variance), max(common, least)


def second_differences(image: Array, valid: Mask | None = None) -> SecondDifferences:
    """The `SecondDifferences` of an image; `valid`, of its shape, is False where there are no data."""
    rows, columns, bands = image.shape

    def of_rows(part):
        both = part, slice(part.start + 1, part.stop + 1)
        return _steps_between(*((image[rows], None if valid is None else valid[rows]) for rows in both))

    nothing = SecondDifferences(np.zeros((bands, bands)), 0, (magnitudes_of(np.zeros(0)),) * bands)
    return added(by_rows(of_rows, rows - 1, columns * bands), nothing)


def _steps_between(above, below):
    """Of some rows and those below them, (image, valid) each."""
    (image, valid), (image_below, valid_below) = above, below
    v = image[:, :-1].astype(np.float64)  # squares of float32 leave its range
    v -= image_below[:, :-1]
    v -= image[:, 1:]
    v += image_below[:, 1:]
    v *= 0.5
    v = v.reshape(-1, image.shape[2])
    has = np.ones(v.shape, bool)
    if valid is not None:
        has = (valid[:, :-1] & valid_below[:, :-1] & valid[:, 1:] & valid_below[:, 1:]).reshape(v.shape)
    magnitudes = tuple(magnitudes_of(column[known]) for column, known in zip(v.T, has.T))
    v = v[has.all(axis=1)]
    return SecondDifferences(v.T @ v, len(v), magnitudes)


def _thin(bands):
    """The most factors that as many bands determine with something left over (Ledermann's bound)."""
    return max(r for r in range(bands) if r == 0 or (bands - r) ** 2 > bands + r)
