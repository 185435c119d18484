"""How much fine detail the maps lack, of which neither image tells where it is.

What the MSI does not see of a scene is known at the HSI's pixels alone, and between them only as far as its edges are
those of the MSI. The fit is flat elsewhere, and its prior, which takes flat maps for granted, expects too little error.
But how much detail there is can be told. The MSI shows how much of it, d = mean (x − U x)² with the smoothing U of P'P,
goes with the differences between coarse pixels, c = mean (difference of P x)²; the HSI has those differences in all
spectral directions; and the ratio d/c is about the same in all of them: on ten scenes the detail that it gives was 0.9
to 1.1 of that of the truth. Detail that a direction should have and its map has not is missing.

In directions of which the MSI sees nothing the ratio is smaller, so that errors were about a third of what is missing
by this count, root mean square, and on one scene of ten a seventh.
"""

import numpy as np

from ..model.types import Array
from .map_data import Blur, MapData
from .moments import Moments, eigh_signed

# How much of what is missing by this count is an error.
_PART = 0.33

# Maps that are looked at at once.
_AT_ONCE = 4

# So many standard errors above the noise, detail is detail.
_RARE = 4.0


def missing_detail(Z: Array, data: MapData, differences: Moments) -> Array:
    """The variance of each band of the image that missing detail is worth, in the caller's units.

    Parameters
    ----------
    Z : (I, J, P) array
        The maps.
    data : MapData
    differences : Moments
        Of the differences between the HSI's neighbours, divided by its noise.

    Returns
    -------
    (bands,) array
        Zeros where the MSI has gaps, or no detail above its noise.
    """
    nothing = np.zeros(len(data.F))
    ratio = _ratio(data) if len(data.msi.bands) == 1 else 0.0
    if not (ratio > 0.0 and differences.count):
        return nothing
    Q, triangle = np.linalg.qr(data.F)
    variances, turn = eigh_signed(Q.T @ (differences.second / differences.count) @ Q)
    Q, turn = Q @ turn, triangle.T @ turn
    # A few maps at a time, for in float64 all of them would take far more room than they do.
    has = np.concatenate([_detail(Z, turn[:, p : p + _AT_ONCE], data.blur) for p in range(0, turn.shape[1], _AT_ONCE)])
    lacks = np.maximum(ratio * np.maximum(variances - 2.0, 0.0) - has, 0.0)
    return _PART**2 * data.hsi.sigma**2 * (np.square(Q) @ lacks)


def _detail(Z, turn, blur):
    """The mean square of the detail of some turned maps."""
    maps = np.stack([row @ turn for row in Z])  # in float64
    maps -= _smoothed(blur, maps)
    return np.mean(np.square(maps, out=maps), axis=(0, 1))


def _ratio(data):
    """Detail over the differences of coarse pixels, of all bands of the MSI; 0 where noise hides it."""
    image, noise2 = np.ascontiguousarray(data.msi.image, np.float64), np.square(data.msi.sigma)
    coarse = data.blur.coarse(image)
    detail = np.mean(np.square(image - _smoothed(data.blur, image)), axis=(0, 1))
    detail -= noise2 * (1.0 + _RARE * np.sqrt(2.0 / max(image[:, :, 0].size, 1)))
    steps = [np.square(np.diff(coarse, axis=axis)).reshape(-1, image.shape[2]) for axis in (0, 1)]
    pairs = np.concatenate(steps)
    if not len(pairs):
        return 0.0
    share = np.prod([np.mean(np.asarray(P.multiply(P).sum(axis=1))) for P in data.blur.operators]) * data.blur.size**2
    apart = pairs.mean(axis=0) - 2.0 * share * noise2
    return float(np.maximum(detail, 0.0).sum() / apart.sum()) if apart.sum() > 0.0 else 0.0


def _smoothed(blur: Blur, image: Array) -> Array:
    """P'P of an image over P'P of ones."""
    sums = np.multiply.outer(*(P.T @ (P @ np.ones(P.shape[1])) for P in blur.operators))[:, :, None] * blur.size**2
    smooth = blur.fine(blur.coarse(image))
    smooth /= np.where(sums > 0.0, sums, 1.0)
    return smooth
