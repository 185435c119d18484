"""Which bands are used: those with data that are not constant, not marked as bad, and, of the MSI, seen by the HSI too.

A band that holds no data at any pixel would make every pixel one without data; a constant one is a filling, or a
detector that is dead. Both are found by one pass over the pixels that are taken. An MSI band is covered if at least
half of its passband lies where the HSI has bands: within a band's width, or the distance of two neighbours, of one.
"""

import re
from dataclasses import dataclass

import numpy as np

from ..formats import Header, Raster
from ..formats.raster import gone
from ..model.types import Array, Mask
from .images import Image, file_part

_BLOCK_BYTES = 1 << 25

# The passband of an MSI band is sampled at so many wavelengths.
_SAMPLES = 21
_LEAST_COVERED = 0.5


@dataclass(frozen=True)
class Extremes:
    """The least and largest stored value of each band, over the pixels with data; NaN for a band that has none.

    `counts` says at how many pixels a band has data.
    """

    least: Array
    largest: Array
    counts: Array

    @property
    def empty(self) -> Mask:
        """The bands without data."""
        return np.isnan(self.least)

    @property
    def sparse(self) -> Mask:
        """The bands with data at less than half of the pixels at which the fullest has them."""
        return ~self.empty & (2 * self.counts < self.counts.max())

    @property
    def constant(self) -> Mask:
        """The bands of one value; none where there is nothing but such bands, for then that is the picture."""
        flat = self.least == self.largest
        return flat & ~(flat | self.empty).all()


def extremes(image: Image) -> Extremes:
    """The extremes of the stored values of an image, a block of rows at a time.

    Parameters
    ----------
    image : Image
        An image in a file, of which blocks are read.

    Returns
    -------
    Extremes
        Of each band.
    """
    rows, cols = file_part(image)
    bands, nodata = image.header.shape[2], image.header.nodata
    least, largest, counts = np.full(bands, np.inf), np.full(bands, -np.inf), np.zeros(bands, np.int64)
    step = max(1, _BLOCK_BYTES // (8 * bands * max(1, cols.stop - cols.start)))
    for start in range(rows.start, rows.stop, step):
        values = image.stored(slice(start, min(start + step, rows.stop)), cols)
        absent = gone(values, nodata)
        counts += np.count_nonzero(~absent, axis=(0, 1))
        low, high = (np.where(absent, end, values) if absent.any() else values for end in (np.inf, -np.inf))
        least, largest = np.minimum(least, low.min(axis=(0, 1))), np.maximum(largest, high.max(axis=(0, 1)))
    empty = ~(least <= largest)
    least[empty] = largest[empty] = np.nan
    return Extremes(least, largest, counts)


def kept(spec: str | None, bands: int) -> Mask:
    """The HSI bands that --keep-bands names: "all", or numbers and ranges counted from 1.

    Parameters
    ----------
    spec : str or None
    bands : int
        How many there are.
    """
    chosen = np.zeros(bands, bool)
    if spec is None:
        return chosen
    if spec == "all":
        return ~chosen
    for word in spec.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= bands:
            raise ValueError(
                f"--keep-bands: got {word!r} in {spec!r}; all, or bands of 1 to {bands} as 7,12-15, are needed"
            )
        chosen[first - 1 : last] = True
    return chosen


def uncovered(msi: Header | Raster, hsi: Header | Raster, good: Mask) -> Mask:
    """The MSI bands whose passband the good bands of the HSI do not cover; none where wavelengths are not known.

    Parameters
    ----------
    msi, hsi : Header or Raster
    good : (bands,) bool array
        The HSI bands that are used.

    Returns
    -------
    (MSI bands,) bool array
    """
    if msi.wavelengths is None or hsi.wavelengths is None:
        return np.zeros(msi.shape[2], bool)
    half = np.zeros(msi.shape[2]) if msi.fwhm is None else msi.fwhm / 2
    points = msi.wavelengths[:, None] + half[:, None] * np.linspace(-1.0, 1.0, _SAMPLES)
    return reached(points, hsi, good).mean(axis=1) < _LEAST_COVERED


def reached(wavelengths: Array, hsi: Header | Raster, good: Mask) -> Mask:
    """Which wavelengths, in nm, the good bands of an HSI see.

    Parameters
    ----------
    wavelengths : array
    hsi : Header or Raster
        With wavelengths.
    good : (bands,) bool array

    Returns
    -------
    bool array of the same shape
    """
    known = np.asarray(hsi.wavelengths)
    centres, apart = known[good], np.diff(np.sort(known))
    apart = float(np.median(apart[apart > 0.0])) if (apart > 0.0).any() else 0.0
    reach = np.maximum(apart, 0.0 if hsi.fwhm is None else hsi.fwhm[good])
    return np.asarray((np.abs(np.asarray(wavelengths)[..., None] - centres) <= reach).any(axis=-1))


def listed(bands: Mask, wavelengths: Array | None = None, names: tuple[str, ...] | None = None) -> str:
    """Bands by number, with their wavelengths or names: "130-135 (1358 to 1406 nm), 200 (2301 nm)".

    Parameters
    ----------
    bands : bool array
    wavelengths : array, optional
    names : tuple of str, optional
    """
    numbers = np.flatnonzero(bands)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1) if len(numbers) else []
    return ", ".join(_run(run, wavelengths, names) for run in runs)


def _run(run, wavelengths, names):
    first, last = int(run[0]), int(run[-1])
    text = str(first + 1) if first == last else f"{first + 1}-{last + 1}"
    known = [names[first]] if names is not None and first == last else []
    if wavelengths is not None:
        ends = f"{wavelengths[first]:.0f}" if first == last else f"{wavelengths[first]:.0f} to {wavelengths[last]:.0f}"
        known.append(f"{ends} nm")
    return f"{text} ({', '.join(known)})" if known else text
