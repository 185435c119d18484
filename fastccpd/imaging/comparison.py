"""An estimate and its reference, as metrics look at them: in blocks of float64, so that no image is copied whole."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.checks import as_cube, as_number

# Values of an image looked at together.
_BLOCK = 1 << 18

# Within 2^±300 the squares of an image's values, and ratios of them, are numbers.
_SAFE_EXPONENT = 300


@dataclass(frozen=True)
class Sums:
    """What several metrics need of two images, in the comparison's unit: one number for each band, and the pixels.

    Attributes
    ----------
    squared : (bands,) array
        The squared error, summed over the pixels.
    energy : (bands,) array
        The square of the reference, summed over the pixels.
    means : (bands,) array
        The mean of the reference.
    pixels : int
    """

    squared: NDArray[np.float64]
    energy: NDArray[np.float64]
    means: NDArray[np.float64]
    pixels: int


class Comparison:
    """An estimate and its reference, checked: what the function of a metric is given.

    Parameters
    ----------
    estimate, reference : (rows, columns, bands) arrays
        Any real dtype and layout; never modified.
    ratio : float, optional
        MSI pixels per HSI pixel in each direction, for the metrics that depend on it.
    """

    def __init__(self, estimate: ArrayLike, reference: ArrayLike, ratio: float | None = None):
        self.estimate, self.reference = as_cube(estimate, "estimate"), as_cube(reference, "reference")
        self.ratio = None if ratio is None else as_number(ratio, "ratio", above=True)
        got, needed = self.estimate.shape, self.reference.shape
        if got != needed:
            raise ValueError(f"estimate: got shape {got}, but reference has {needed}; they must agree")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, bands) of both."""
        return self.reference.shape

    @cached_property
    def exponent(self) -> int:
        """The images are looked at divided by 2 to this: zero, but for images whose squares leave a float's range."""
        largest = max(largest_magnitude(image) for image in (self.estimate, self.reference))
        return own_exponent(largest)

    def _in_unit(self, image):
        """`image`, contiguous, in float64 and divided by the unit."""
        image = np.ascontiguousarray(image, dtype=np.float64)
        return np.ldexp(image, -self.exponent) if self.exponent else image

    def rows(self) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.float64]]]:
        """Blocks of rows as (rows, x, y), x and y (pixels, bands) in float64; views where the image allows it."""
        step = max(1, _BLOCK // self.reference[0].size)
        for start in range(0, len(self.reference), step):
            rows = slice(start, start + step)
            x, y = (self._in_unit(image[rows]) for image in (self.estimate, self.reference))
            yield rows, x.reshape(-1, self.shape[2]), y.reshape(-1, self.shape[2])

    def bands(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Pairs of bands as contiguous float64 pictures, gathered at least eight at a time: a cache line's worth."""
        rows, columns, bands = self.shape
        step = max(8, _BLOCK // (rows * columns))
        for start in range(0, bands, step):
            some = slice(start, start + step)
            parts = (np.moveaxis(image[:, :, some], 2, 0) for image in (self.estimate, self.reference))
            yield from zip(*(self._in_unit(part) for part in parts), strict=True)

    @cached_property
    def sums(self) -> Sums:
        """Errors, energies and means of the bands, summed once however many metrics ask."""
        squared, energy, total = np.zeros((3, self.shape[2]))
        for _, x, y in self.rows():
            difference = x - y
            squared += np.einsum("pk,pk->k", difference, difference)
            energy += np.einsum("pk,pk->k", y, y)
            total += y.sum(axis=0)
        pixels = self.shape[0] * self.shape[1]
        return Sums(squared, energy, total / pixels, pixels)


class ComparisonOfParts(Comparison):
    """Two images that are read part by part, once for each look at them: for metrics that need no neighbours.

    Parameters
    ----------
    parts : callable() -> iterator of (estimate, reference)
        Gives all pixels, some at a time, each part (pixels, bands).
    ratio : float, optional
        As of `Comparison`.
    """

    def __init__(self, parts: Callable[[], Iterable[tuple[NDArray, NDArray]]], ratio: float | None = None):
        self._parts, self.ratio = parts, None if ratio is None else as_number(ratio, "ratio", above=True)
        sizes = [reference.shape for _, reference in parts()]
        self._shape = sum(pixels for pixels, _ in sizes), 1, sizes[0][1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(pixels, 1, bands)."""
        return self._shape

    @cached_property
    def exponent(self) -> int:
        """Zero: the parts are looked at as they are."""
        return 0

    def rows(self) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.float64]]]:
        """The parts as (pixels, x, y), x and y (pixels, bands) in float64."""
        first = 0
        for part in self._parts():
            x, y = (np.ascontiguousarray(image, dtype=np.float64) for image in part)
            yield slice(first, first + len(x)), x, y
            first += len(x)


def largest_magnitude(image: NDArray) -> float:
    """The largest absolute value."""
    return max(float(image.max()), -float(image.min()))


def own_exponent(magnitude: float) -> int:
    """The power of two next to a magnitude whose squares are no floats any more; zero for all others."""
    exponent = math.frexp(magnitude)[1] if math.isfinite(magnitude) else 0
    return exponent if abs(exponent) > _SAFE_EXPONENT else 0
