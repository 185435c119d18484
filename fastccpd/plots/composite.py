"""Colour from a cube: which bands are red, green and blue, and how they are stretched."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .images import Image, as_bands, as_centres, as_image, display_step, percentiles, shape_of, shown
from .page import GREY

RGB_NM = (650.0, 550.0, 450.0)

# Beyond this distance in nm the nearest band has another colour, and a composite is a false one.
_SAME_COLOUR = 75.0


def rgb_bands(cube: Image, wavelengths: ArrayLike | None = None) -> tuple[int, ...]:
    """The three bands of a composite, red first: those nearest to 650, 550 and 450 nm.

    A band that holds no picture (constant, or mostly NaN) or whose wavelength is NaN is passed over for the next
    nearest. Without wavelengths, or where one of the three colours is out of the sensor's range, the middle bands of
    the last, second and first third of the spectrum are taken.

    Parameters
    ----------
    cube : (rows, columns, bands) array or FusionResult
    wavelengths : (bands,) array, optional
        Band centres in nm, in any order.

    Returns
    -------
    tuple of three int
        Indices, from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd import plots
    >>> cube = np.random.default_rng(0).random((4, 5, 6))
    >>> plots.rgb_bands(cube, [860, 655, 645, 640, 555, 455]), plots.rgb_bands(cube)
    ((1, 4, 5), (5, 3, 1))
    """
    cube = as_image(cube, "cube")
    shape = shape_of(cube)
    step = display_step(shape)
    usable = {}

    def nearest(order):
        for band in order:
            if band not in usable:
                usable[band] = _holds_a_picture(shown(cube, [band], step))
            if usable[band]:
                return int(band)
        return int(order[0])

    if wavelengths is None:
        by_wavelength = np.arange(shape[2])
    else:
        centres = as_centres(wavelengths, shape[2])
        known = np.flatnonzero(np.isfinite(centres))
        chosen = tuple(nearest(known[np.argsort(np.abs(centres[known] - nm), kind="stable")]) for nm in RGB_NM)
        if np.abs(centres[list(chosen)] - RGB_NM).max() <= _SAME_COLOUR:
            return chosen
        by_wavelength = known[np.argsort(centres[known], kind="stable")]
    thirds = [part * len(by_wavelength) // 6 for part in (5, 3, 1)]
    places = np.arange(len(by_wavelength))
    return tuple(nearest(by_wavelength[np.argsort(np.abs(places - third), kind="stable")]) for third in thirds)


def rgb_limits(cube: Image, bands: Sequence[int], *, missing: ArrayLike | None = None) -> NDArray[np.float64]:
    """The 2nd and the 98th percentile of each of three bands: what `rgb` makes 0 and 1.

    Parameters
    ----------
    cube : (rows, columns, bands) array or FusionResult
    bands : three indices
        From 0.
    missing : (rows, columns) bool array, optional
        Pixels that do not count, as those with NaN do not.

    Returns
    -------
    (3, 2) array
    """
    cube = as_image(cube, "cube")
    step = display_step(shape_of(cube))
    channels = shown(cube, bands, step, missing)
    return np.array([percentiles(channels[:, :, n], (2.0, 98.0)) for n in range(3)])


def rgb(
    cube: Image,
    wavelengths: ArrayLike | None = None,
    *,
    bands: Sequence[int] | None = None,
    limits: ArrayLike | None = None,
    missing: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """A colour picture of a cube.

    Parameters
    ----------
    cube : (rows, columns, bands) array or FusionResult
    wavelengths : (bands,) array, optional
        Band centres in nm, in any order; see `rgb_bands`.
    bands : three indices, optional
        Red, green and blue, in place of those chosen by wavelength.
    limits : (3, 2) array, optional
        What becomes 0 and 1 in each channel; None: `rgb_limits` of this cube.
    missing : (rows, columns) bool array, optional
        Pixels to draw grey, as those with NaN are.

    Returns
    -------
    (rows, columns, 3) array
        In [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd import plots
    >>> ramp = np.arange(101.0).reshape(101, 1, 1) * np.ones(3)
    >>> picture = plots.rgb(ramp)
    >>> picture.shape, picture[[0, 2, 50, 98, 100], 0, 0].round(6).tolist()
    ((101, 1, 3), [0.0, 0.0, 0.5, 1.0, 1.0])
    """
    cube = as_image(cube, "cube")
    chosen = rgb_bands(cube, wavelengths) if bands is None else as_bands(bands, shape_of(cube)[2], count=3)
    ends = rgb_limits(cube, chosen, missing=missing) if limits is None else np.asarray(limits, dtype=np.float64)
    if ends.shape != (3, 2):
        raise ValueError(f"limits: got shape {ends.shape}; (3, 2), a low and a high value for each channel, is needed")
    return stretched(shown(cube, chosen, 1, missing), ends)


def channels_of(image, centres, missing):
    """The bands of a composite and the limits of their stretch."""
    chosen = rgb_bands(image, centres)
    return chosen, rgb_limits(image, chosen, missing=missing)


def stretched(channels, limits):
    """Channels brought to [0, 1], a flat one to its middle; grey where one of them is NaN."""
    low, high = limits.T
    flat = high <= low
    picture = (channels - low) / np.where(flat, 1.0, high - low)
    picture[:, :, flat] = np.where(np.isnan(picture[:, :, flat]), np.nan, 0.5)
    picture = np.clip(picture, 0.0, 1.0)
    picture[np.isnan(picture).any(axis=2)] = float(GREY)
    return picture


def channel_names(bands, centres):
    """What a label says of a composite: its bands by number, or by wavelength where that is known."""
    if centres is None:
        return "bands " + ", ".join(str(band + 1) for band in bands)
    nm = [centres[band] for band in bands]
    false = np.abs(np.subtract(nm, RGB_NM)).max() > _SAME_COLOUR
    return ("false colour: " if false else "") + ", ".join(f"{c} {n:.0f}" for c, n in zip("RGB", nm)) + " nm"


def _holds_a_picture(band):
    values = band[np.isfinite(band)]
    return 2 * values.size >= band.size and values.min() < values.max()
