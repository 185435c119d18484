"""Moments of an image's pixels and of its differences: what noise and subspace are found from.

They are gathered part by part of an image, added (`sums.py`), and looked at in the end.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ..model.types import Array, Mask
from ..threads import by_rows
from .sums import Sums, added


@dataclass(frozen=True, eq=False)
class Moments(Sums):
    """Count, sum and second moments of pixels.

    Attributes
    ----------
    count : int
    total : (bands,) array
        The sum of the pixels x.
    second : (bands, bands) array
        The sum of x x'.
    """

    count: int
    total: np.ndarray
    second: np.ndarray

    def divided(self, sigma: Array) -> "Moments":
        """Those of the pixels divided by σ."""
        return Moments(self.count, self.total / sigma, self.second / np.outer(sigma, sigma))

    def covariance(self) -> Array:
        """Of the pixels about their mean."""
        mean = self.total / max(self.count, 1)
        return self.second / max(self.count, 1) - np.outer(mean, mean)


@dataclass(frozen=True, eq=False)
class SceneBands:
    """What all of a scene says of its bands, for a part of it.

    Attributes
    ----------
    moments : Moments
        Of the MSI as the HSI sees it and of the HSI, one beside the other, at the HSI's pixels.
    signals : int
        How many spectra of the HSI can be told from noise.
    """

    moments: Moments
    signals: int

    def leading(self, bands: int, rank: int) -> Array:
        """(bands, rank): the leading directions of the HSI's spectra, the strongest first."""
        return eigh_signed(self.moments.second[-bands:, -bands:])[1][:, : -rank - 1 : -1]


def eigh_signed(matrix: Array) -> tuple[Array, Array]:
    """`numpy.linalg.eigh` with signs of its own, which are LAPACK's whim otherwise.

    Of each vector the last entry that is not small beside the largest one is positive.
    """
    values, vectors = np.linalg.eigh(matrix)
    if not vectors.size:
        return values, vectors
    sizes = np.abs(vectors)
    marked = sizes >= 0.1 * sizes.max(axis=-2, keepdims=True)
    last = vectors.shape[-2] - 1 - marked[..., ::-1, :].argmax(axis=-2)
    deciding = np.take_along_axis(vectors, last[..., None, :], axis=-2)
    return values, vectors * np.where(deciding < 0.0, -1.0, 1.0)


# The least part of an image's pixels that must be complete for the others to be left out.
FEWEST = 0.2


def moments_of(image: Array, valid: Mask | None = None, fewest: float = FEWEST) -> Moments:
    """The `Moments` of the pixels that `complete` chooses."""
    return moments_of_pixels(pixels_of(image, *complete(image, valid, fewest), dtype=None))


def moments_of_pixels(pixels: Array) -> Moments:
    """The `Moments` of (n, bands) pixels."""
    return added(by_rows(lambda part: _moments(pixels[part]), *pixels.shape), _nothing(pixels.shape[1]))


def _moments(X):
    X = np.asarray(X, dtype=np.float64)
    return Moments(len(X), X.sum(axis=0), X.T @ X)


def _nothing(bands):
    return Moments(0, np.zeros(bands), np.zeros((bands, bands)))


def difference_moments(image: Array, valid: Mask | None = None, fewest: float = FEWEST) -> Moments:
    """The `Moments` of the differences between neighbouring pixels, along columns and along rows."""
    chosen, fill = complete(image, valid, fewest)
    rows, columns, bands = image.shape

    def of_rows(these):
        part, count = slice(these.start, these.stop + 1), these.stop - these.start  # and the row below
        X = np.asarray(image[part] if fill is None else image[part] + fill[part], dtype=np.float64)
        moments = _nothing(bands)
        for ahead, behind in ((np.s_[1:], np.s_[:-1]), (np.s_[:count, 1:], np.s_[:count, :-1])):
            D = X[ahead] - X[behind]
            D = D.reshape(-1, bands) if chosen is None else D[chosen[part][ahead] & chosen[part][behind]]
            moments += _moments(D)
        return moments

    return added(by_rows(of_rows, rows, columns * bands), _nothing(bands))


def complete(image: Array, valid: Mask | None, fewest: float = FEWEST) -> tuple[Mask | None, Array | None]:
    """(pixels, fill): the pixels that have all bands, (rows, columns), and None; or None and what fills the gaps.

    Bands that no pixel has do not count. Where fewer than a part `fewest` of the pixels are complete, all of them are
    used, each gap filled with the mean of its band. Of a part of a scene that is not done: it would count as data.
    """
    if valid is None:
        return None, None
    pixels = np.asarray(valid[:, :, valid.any(axis=(0, 1))].all(axis=2))
    if pixels.mean() >= fewest:
        return pixels, None
    means = image.sum(axis=(0, 1)) / np.maximum(valid.sum(axis=(0, 1)), 1)  # an image is zero where it has no data
    return None, np.where(valid, 0.0, means)


def pixels_of(
    image: Array, pixels: Mask | None = None, fill: Array | None = None, dtype: DTypeLike | None = np.float64
) -> Array:
    """The chosen pixels, (n, bands) in float64 or of another dtype, None that of the image; with what fills them."""
    X = image if fill is None else image + fill
    X = X.reshape(-1, X.shape[2])
    return np.asarray(X if pixels is None else X[pixels.reshape(-1)], dtype=dtype)
