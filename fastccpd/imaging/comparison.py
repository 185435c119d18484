"""An estimate and its reference, as metrics look at them: in blocks of float64, so that no image is copied whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.checks import as_cube, as_number

# Values of an image looked at together.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Sums:
    """What several metrics need of two images: one number for each band, and the number of pixels.

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

    def rows(self) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.float64]]]:
        """Blocks of rows as (rows, x, y), x and y (pixels, bands) in float64; views where the image allows it."""
        step = max(1, _BLOCK // self.reference[0].size)
        for start in range(0, len(self.reference), step):
            rows = slice(start, start + step)
            x, y = (np.ascontiguousarray(image[rows], dtype=np.float64) for image in (self.estimate, self.reference))
            yield rows, x.reshape(-1, self.shape[2]), y.reshape(-1, self.shape[2])

    def bands(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Pairs of bands as contiguous float64 pictures, gathered at least eight at a time: a cache line's worth."""
        rows, columns, bands = self.shape
        step = max(8, _BLOCK // (rows * columns))
        for start in range(0, bands, step):
            some = slice(start, start + step)
            parts = (np.moveaxis(image[:, :, some], 2, 0) for image in (self.estimate, self.reference))
            yield from zip(*(np.ascontiguousarray(part, dtype=np.float64) for part in parts), strict=True)

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
