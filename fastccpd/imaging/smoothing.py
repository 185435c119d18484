"""The Lee filter (J.-S. Lee, 1980), band by band.

With m and v the mean and variance over the window around a pixel x, and n the variance of the noise,

    out = m + max(v−n, 0) / max(v, n) · (x − m)  =  x − n / max(v, n) · (x − m).

The second form is the one computed: it leaves a constant image, and any image under a window of one pixel, as it is to
the last bit. The moments are taken of the band less its mid-range, so that v does not cancel on a large offset.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.checks import as_choice, as_count, as_cube, working_dtype

# Bands are gathered until they hold this many values, and at least so many that whole cache lines are used.
_BLOCK = 1 << 18
_LEAST_BANDS = 8

_TINY = np.finfo(np.float64).tiny

# numpy.pad's names: the mirror image repeats the pixel at the edge.
_PADDING = {"reflect": "symmetric", "zero": "constant"}


def lee(
    cube: ArrayLike, window: int = 3, noise: ArrayLike | None = None, boundary: str = "reflect"
) -> NDArray[np.floating]:
    """Smooth each band where it varies no more than the noise, and leave it where it varies more.

    Parameters
    ----------
    cube : (rows, columns, bands) array
        The image, which is left as it is.
    window : int
        Side of the square window in pixels, odd.
    noise : float or (bands,) array, optional
        Variance of the noise. None: the mean over each band of its local variance.
    boundary : "reflect" or "zero"
        What lies outside the image: its mirror image, or zeros (which darkens the border).

    Returns
    -------
    array
        float32 if the image is float32 or float16, else float64.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import lee
    >>> noisy = 1.0 + 0.1 * np.random.default_rng(0).standard_normal((40, 30, 2))
    >>> bool(lee(noisy).std() < 0.6 * noisy.std())
    True
    """
    cube = as_cube(cube, "cube")
    window = as_count(window, "window")
    if window % 2 == 0:
        raise ValueError(f"window: got {window}; an odd number of pixels is needed, so that one of them is the centre")
    as_choice(boundary, "boundary", tuple(_PADDING))
    rows, columns, bands = cube.shape
    variances = _variances(noise, bands)
    smooth = np.empty(cube.shape, working_dtype(cube))
    step = max(_LEAST_BANDS, _BLOCK // (rows * columns))
    for start in range(0, bands, step):
        some = slice(start, start + step)
        block = np.array(np.moveaxis(cube[:, :, some], 2, 0), dtype=np.float64, order="C")
        for band, variance in zip(block, variances[some], strict=True):
            _smooth_band(band, window, variance, _PADDING[boundary])
        smooth[:, :, some] = np.moveaxis(block, 0, 2)
    return smooth


def _smooth_band(band, window, noise, padding):
    """The filter on one band, in place; `noise` None is the mean local variance."""
    # Imported here: it takes longer to import than everything else of this package.
    from scipy.ndimage import uniform_filter

    half = window // 2
    inside = tuple(slice(half, half + size) for size in band.shape)
    padded = np.pad(band, half, mode=padding)
    padded -= 0.5 * band.min() + 0.5 * band.max()
    mean = uniform_filter(padded, window)[inside]
    variance = uniform_filter(padded * padded, window)[inside]
    variance -= mean * mean
    np.maximum(variance, 0.0, out=variance)
    n = variance.mean() if noise is None else noise
    # Without noise nothing is taken away, whatever the variance: the floor only keeps 0/0 out.
    np.maximum(variance, max(n, _TINY), out=variance)
    np.divide(n, variance, out=variance)
    variance *= padded[inside] - mean
    band -= variance


def _variances(noise, bands):
    if noise is None:
        return [None] * bands
    try:
        variances = np.broadcast_to(np.asarray(noise, dtype=np.float64), (bands,))
    except (TypeError, ValueError):
        raise ValueError(f"noise: got {noise!r}; a variance, or one for each of the {bands} bands, is needed") from None
    if not ((variances >= 0.0) & np.isfinite(variances)).all():
        raise ValueError(f"noise: got {noise!r}; finite variances of at least 0 are needed")
    return variances
