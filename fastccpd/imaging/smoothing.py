"""The Lee filter (J.-S. Lee, 1980), band by band.

With m and v the mean and variance over the window around a pixel x, and n the variance of the noise,

    out = m + max(v−n, 0) / max(v, n) · (x − m)  =  x − n / max(v, n) · (x − m).

The second form is the one computed: it leaves a constant image, and any image under a window of one pixel, as it is to
the last bit. The moments are taken of the band less its mid-range, so that v does not cancel on a large offset.
"""

import numpy as np

from ..model.checks import as_choice, as_count, as_cube, working_dtype

# Values smoothed together.
_BLOCK = 1 << 20

_TINY = np.finfo(np.float64).tiny

# numpy.pad's names: the mirror image repeats the pixel at the edge.
_PADDING = {"reflect": "symmetric", "zero": "constant"}


def lee(cube, window=3, noise=None, boundary="reflect"):
    """Smooth each band where it varies no more than the noise, and leave it where it varies more.

    Parameters
    ----------
    cube : (rows, columns, bands) array
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
    # Imported here: it takes longer to import than everything else of this package.
    from scipy.ndimage import uniform_filter

    cube = as_cube(cube, "cube")
    window = as_count(window, "window")
    if window % 2 == 0:
        raise ValueError(f"window: got {window}; an odd number of pixels is needed, so that one of them is the centre")
    as_choice(boundary, "boundary", tuple(_PADDING))
    rows, columns, bands = cube.shape
    given = _variances(noise, bands)
    half = window // 2
    inside = slice(half, half + rows), slice(half, half + columns)
    smooth = np.empty(cube.shape, working_dtype(cube))
    step = max(8, _BLOCK // (rows * columns))
    for start in range(0, bands, step):
        some = slice(start, start + step)
        block = cube[:, :, some].astype(np.float64)
        middle = 0.5 * block.min(axis=(0, 1)) + 0.5 * block.max(axis=(0, 1))
        padded = np.pad(block, ((half, half), (half, half), (0, 0)), mode=_PADDING[boundary])
        padded -= middle
        mean, power = (uniform_filter(p, (window, window, 1))[inside] for p in (padded, padded * padded))
        variance = np.maximum(power - mean * mean, 0.0)
        n = variance.mean(axis=(0, 1)) if given is None else given[some]
        # Without noise nothing is taken away, whatever the variance: the floor only keeps 0/0 out.
        block -= n / np.maximum(variance, np.maximum(n, _TINY)) * (padded[inside] - mean)
        smooth[:, :, some] = block
    return smooth


def _variances(noise, bands):
    if noise is None:
        return None
    try:
        variances = np.broadcast_to(np.asarray(noise, dtype=np.float64), (bands,))
    except (TypeError, ValueError):
        raise ValueError(f"noise: got {noise!r}; a variance, or one for each of the {bands} bands, is needed") from None
    if not ((variances >= 0.0) & np.isfinite(variances)).all():
        raise ValueError(f"noise: got {noise!r}; finite variances of at least 0 are needed")
    return variances
