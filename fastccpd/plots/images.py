"""Images as pictures need them: a cube or a `FusionResult`, of which only the blocks that are asked for are rendered.

Numpy only: nothing is drawn here. Blocks are float64, with NaN for what is missing.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..imaging import metrics
from ..model.checks import as_count, as_cube
from ..model.result import FusionResult

#: What a picture may be of: a cube (rows, columns, bands), or a result.
Image: TypeAlias = ArrayLike | FusionResult

#: One array of wavelengths for all images, or one by the name of each.
Wavelengths: TypeAlias = ArrayLike | Mapping[str, ArrayLike | None]

_MOST_SIDE = 1500

# Values of an image rendered together.
_BLOCK = 1 << 22


def shape_of(image: np.ndarray | FusionResult) -> tuple[int, ...]:
    """(rows, columns, bands) of an image; a result is not rendered for it.

    Parameters
    ----------
    image : array or FusionResult

    Returns
    -------
    tuple of int
    """
    return image.shape


def display_step(shape: Sequence[int]) -> int:
    """Every how many pixels an image is shown: every one up to 1500 on a side.

    Parameters
    ----------
    shape : (rows, columns, …)

    Returns
    -------
    int
    """
    return max(1, -(-max(shape[:2]) // _MOST_SIDE))


def band_name(band: int, wavelengths: ArrayLike | None = None, count: int | None = None) -> str:
    """What a label calls a band: its number from 1, and its wavelength where known.

    Parameters
    ----------
    band : int
        Its index, from 0.
    wavelengths : (bands,) array, optional
        In nm.
    count : int, optional
        How many bands the image has; None: as many as there are wavelengths.

    Returns
    -------
    str
    """
    if wavelengths is None:
        return f"band {band + 1}"
    centres = as_centres(wavelengths, np.size(wavelengths) if count is None else count)
    return f"band {band + 1} ({centres[band]:.0f} nm)"


def as_image(value, name):
    """`value` if it is a result, else as a cube."""
    return value if isinstance(value, FusionResult) else as_cube(value, name)


def as_images(images, name):
    """Images by name, of which there must be one."""
    if not isinstance(images, Mapping) or not images:
        raise TypeError(f"{name}: got {type(images).__name__}; a dict of at least one name to an image is needed")
    return {str(key): as_image(image, f"{name}[{key!r}]") for key, image in images.items()}


def as_bands(bands, available, count=None):
    """Indices of bands as a tuple, exactly `count` of them where that is given."""
    bands = tuple(as_count(band, "band", least=0, most=available - 1) for band in bands)
    if len(bands) != (count or len(bands)) or not bands:
        raise ValueError(f"bands: got {len(bands)}; {count or 'at least one'} is needed")
    return bands


def as_pixels(pixels, shape):
    """Pairs (row, column) inside an image of this shape, of which there must be one."""
    pixels = [tuple(pixel) for pixel in pixels]
    if not pixels or any(len(pixel) != 2 for pixel in pixels):
        raise ValueError(f"pixels: got {pixels!r}; at least one pair (row, column) is needed")
    return [tuple(as_count(n, "pixels", least=0, most=size - 1) for n, size in zip(pixel, shape)) for pixel in pixels]


def as_centres(wavelengths, count):
    """Wavelengths in nm as an array with one for each of so many bands; some may be NaN."""
    try:
        centres = np.asarray(wavelengths, dtype=np.float64)
    except (TypeError, ValueError):
        centres = np.empty(0)
    if centres.shape != (count,):
        raise ValueError(f"wavelengths: got shape {centres.shape}, but the image has {count} bands; they must agree")
    if not np.isfinite(centres).any():
        raise ValueError("wavelengths: none is finite; band centres in nm are needed, or None")
    return centres


def centres_by_name(wavelengths, images):
    """The wavelengths of each image, None where unknown."""
    counts = {name: shape_of(image)[2] for name, image in images.items()}
    if wavelengths is None:
        return dict.fromkeys(images)
    if isinstance(wavelengths, Mapping):
        known = {name: wavelengths.get(name) for name in images}
        return {name: None if w is None else as_centres(w, counts[name]) for name, w in known.items()}
    if len(wavelengths) not in counts.values():
        as_centres(wavelengths, next(iter(counts.values())))
    return {name: as_centres(wavelengths, n) if n == len(wavelengths) else None for name, n in counts.items()}


def common_bands(images):
    """How many bands all of these images have."""
    counts = {shape_of(image)[2] for image in images.values()}
    if len(counts) > 1:
        raise ValueError(f"images: got {' and '.join(map(str, sorted(counts)))} bands; they must agree")
    return counts.pop()


def block_of(image, rows, columns, bands):
    """A block as float64: slices or indices, None for a whole axis."""
    if isinstance(image, FusionResult):
        return image.render(rows, columns, bands).astype(np.float64, copy=False)
    for axis, part in enumerate((rows, columns, bands)):
        if part is not None:
            image = image[(slice(None),) * axis + (part,)]
    return image.astype(np.float64)


def shown(image, bands, step, missing=None):
    """Some bands at every `step`-th pixel, (rows, columns, len(bands)), NaN where missing."""
    every = slice(None, None, step)
    block = block_of(image, every, every, list(bands))
    block[~np.isfinite(block)] = np.nan
    if missing is not None:
        block[mask_on(missing, shape_of(image)[:2])[every, every]] = np.nan
    return block


def angles_between(estimate, reference, missing):
    """The map of spectral angles in degrees at the pixels shown."""
    return _measured(metrics.sam_map, estimate, reference, missing)


def errors_between(estimate, reference, missing):
    """The map of errors, root mean square over bands, at the pixels shown."""

    def error(ours, theirs):
        return np.sqrt(np.square(ours - theirs).mean(axis=2))

    return _measured(error, estimate, reference, missing)


def _measured(measure, estimate, reference, missing):
    """The map of what `measure` gives for two images at the pixels shown, a block of rows at a time."""
    rows, columns, count = shape_of(reference)
    step = display_step((rows, columns))
    every = slice(None, None, step)
    found = np.empty((len(range(0, rows, step)), len(range(0, columns, step))))
    lines = max(1, _BLOCK // (found.shape[1] * count))
    for first in range(0, len(found), lines):
        block = slice(first * step, min(rows, (first + lines) * step), step)
        found[first : first + lines] = measure(*(block_of(im, block, every, None) for im in (estimate, reference)))
    if missing is not None:
        found[mask_on(missing, (rows, columns))[every, every]] = np.nan
    return found


def mask_on(missing, shape):
    """The mask on a grid of this shape: what covers the middle of each pixel."""
    missing = np.asarray(missing)
    if missing.ndim != 2 or missing.dtype != bool:
        raise ValueError(f"missing: got {missing.dtype} of shape {missing.shape}; bool (rows, columns) is needed")
    rows, columns = (middles(size, cells) for size, cells in zip(missing.shape, shape, strict=True))
    return missing[np.ix_(rows, columns)]


def middles(size, cells):
    """The pixel in the middle of each of so many equal parts of `size` pixels."""
    return (2 * np.arange(cells) + 1) * size // (2 * cells)


def percentiles(values, which):
    """Percentiles of the finite values, (0, 1) where there are none."""
    values = values[np.isfinite(values)]
    return np.percentile(values, which) if values.size else np.array([0.0, 1.0])[: len(which)]
