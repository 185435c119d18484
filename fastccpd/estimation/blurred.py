"""The MSI as a Gaussian of given width and place would show it at the HSI's pixels, and how that changes with both.

A separable Gaussian of widths σ_r, σ_c about phase + a·d has along each axis the taps g and the derivatives

    h₁ = ∂g/∂phase = g x/σ²,    h₂ = ∂g/∂log σ = g (x²/σ² − 1),    h₄ = g (x⁴/σ⁴ − 6x²/σ² + 3)/24

(the last, of fourth order, is what flatter or heavier tails add). So B = (g_r ⊗ g_c) MSI, its derivatives by the four
numbers, and those in directions that a separable Gaussian has not (h₁ ⊗ h₁: one that is turned; h₄: tails) are
products of a few banded matrices a side. Inner products of the kernels say how much of the MSI's white noise is in each
of them, and in which two it is the same noise.

Only pixels whose Gaussian lies inside the picture to 2.5σ count, and whose data are complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..imaging.psf import REACH, reflected
from ..kernels.maps import along
from ..model.types import Array, Mask, Operator
from .map_data import compressed_rows

# So many standard deviations of a Gaussian must lie inside the picture, and be there.
_INSIDE = 2.5

# The weight that a Gaussian may have where there are no data: more than a few thousandths would pass for other tails.
_ABSENT = 0.004

#: The kernels (rows, columns) of what is seen, of its derivatives by log σ_r, log σ_c, phase_r, phase_c, and of what a
#: separable Gaussian has not: a turned one, tails along rows and along columns.
SEEN = ((0, 0),)
DERIVATIVES = ((2, 0), (0, 2), (1, 0), (0, 1))
OTHER_SHAPES = ((1, 1), (3, 0), (0, 3))


@dataclass(frozen=True)
class Gaussian:
    """Widths and first centres, in fine pixels, along rows and columns."""

    sigma: tuple[float, float]
    phase: tuple[float, float]

    @property
    def parameters(self) -> Array:
        """(log σ_r, log σ_c, phase_r, phase_c)."""
        return np.array([*np.log(self.sigma), *self.phase])

    @classmethod
    def of(cls, parameters: Array) -> "Gaussian":
        """The one with these `parameters`."""
        rows, columns, down, right = (float(number) for number in parameters)
        return cls((float(np.exp(rows)), float(np.exp(columns))), (down, right))


class _Rows(NamedTuple):
    """A matrix in compressed rows, as `along` takes it: made hundreds of times, and so without any check."""

    indptr: Array
    indices: Array
    data: Array
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        return len(self.data)

    @property
    def spread(self) -> Operator:
        """P P' of this P."""
        P = sparse.csr_array((self.data, self.indices, self.indptr), self.shape)
        return compressed_rows(P @ P.T)


class Axis:
    """The kernels of one direction: their taps, and the matrices that weigh the rows of an image by them.

    Parameters
    ----------
    size, ratio : int
        Of the fine image; fine pixels per coarse one.
    places : (n,) array of int
        Numbers of the coarse pixels that are looked at.
    sigma, phase : float
    """

    def __init__(self, size: int, ratio: int, places: Array, sigma: float, phase: float):
        first = int(np.ceil(phase - REACH * sigma))
        x = (np.arange(first, int(np.floor(phase + REACH * sigma)) + 1) - phase) / sigma
        g = np.exp(-0.5 * x**2)
        g /= g.sum()
        # Taps sum to one whatever σ and phase are: the derivatives of such taps sum to zero.
        shapes = x, x**2, (x**4 - 6.0 * x**2) / 24.0
        h1, h2, h4 = (g * (shape - g @ shape) for shape in shapes)
        self.taps = np.array([g, h1 / sigma, h2, h4])
        self._sampled = size, ratio, places, first

    @cached_property
    def matrices(self) -> list["_Rows"]:
        """The operator of each kernel, in compressed rows, which all have their entries at the same places."""
        size, ratio, places, first = self._sampled
        count, length = len(places), self.taps.shape[1]
        columns = reflected(first + ratio * places[:, None] + np.arange(length), size).ravel().astype(np.int64)
        ends = length * np.arange(count + 1, dtype=np.int64)
        return [_Rows(ends, columns, np.tile(taps, count), (count, size)) for taps in self.taps]


class Blurred:
    """What a Gaussian shows of an MSI at chosen pixels of the HSI.

    Parameters
    ----------
    shape : (rows, columns) of the MSI
    ratio : int
    places : (rows, columns)
        Numbers of the HSI's rows and of its columns that are looked at.
    gaussian : Gaussian
    """

    def __init__(self, shape: Sequence[int], ratio: int, places: Sequence[Array], gaussian: Gaussian):
        self.axes = [Axis(shape[n], ratio, places[n], gaussian.sigma[n], gaussian.phase[n]) for n in (0, 1)]

    def images(self, msi: Array, kernels: Sequence[tuple[int, int]]) -> Array:
        """(kernels, rows, columns, bands): the MSI under each of the kernels."""
        rows, columns = (axis.matrices for axis in self.axes)
        along_rows = {n: along(rows[n], msi, axis=0) for n in sorted({down for down, _ in kernels})}
        return np.array([along(columns[right], along_rows[down], axis=1) for down, right in kernels])

    def shares(self, kernels: Sequence[tuple[int, int]]) -> Array:
        """(kernels, kernels): the covariances of unit white noise of the MSI under them, at one pixel."""
        rows, columns = (axis.taps @ axis.taps.T for axis in self.axes)
        down, right = (np.array(part) for part in zip(*kernels))
        return rows[np.ix_(down, down)] * columns[np.ix_(right, right)]

    def correlated(self, image: Array) -> Array:
        """P P' times an image of these pixels: the covariance that blurred white noise has between pixels."""
        for n, axis in enumerate(self.axes):
            image = along(axis.matrices[0].spread, image, axis=n)
        return image


def inside(size: int, ratio: int, count: int, sigma: float, phase: float) -> Array:
    """The numbers of the coarse pixels whose Gaussian lies inside a picture of `size` pixels.

    Of a picture too small for that, those in its middle half.
    """
    centres = phase + ratio * np.arange(count)
    reach = _INSIDE * sigma - 0.5
    places = np.flatnonzero((centres >= reach) & (centres <= size - 1 - reach))
    if 2 * len(places) >= count:
        return places
    edge = count // 4
    return np.arange(edge, count - edge)


def complete_pixels(
    hsi_valid: Mask | None, msi_valid: Mask | None, ratio: int, places: Sequence[Array], gaussian: Gaussian
) -> Mask:
    """The chosen pixels that have data in the HSI and, as far as the Gaussian weighs them, in the MSI.

    Bands without any data do not count.
    """
    chosen = np.ones(tuple(map(len, places)), bool)
    if hsi_valid is not None:
        chosen &= np.all(hsi_valid[:, :, hsi_valid.any(axis=(0, 1))], axis=2)[np.ix_(*places)]
    if msi_valid is not None:
        missing = np.any(~msi_valid[:, :, msi_valid.any(axis=(0, 1))], axis=2)
        seen = Blurred(missing.shape, ratio, places, gaussian).images(missing[:, :, None].astype(np.float64), SEEN)
        chosen &= seen[0, :, :, 0] < _ABSENT
    return chosen
