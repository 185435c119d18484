"""How much fine detail the maps lack, of which neither image tells where it is.

What the MSI does not see of a scene is known at the HSI's pixels alone, and between them only as far as its edges are
those of the MSI. The fit is flat elsewhere, and its prior, which takes flat maps for granted, expects too little error.
But how much detail there is can be told. The MSI shows how much of it, d = mean (x − U x)² with the smoothing U of P'P,
goes with the differences between coarse pixels, c = mean (difference of P x)²; the HSI has those differences in all
spectral directions; and the ratio d/c is about the same in all of them: on ten scenes the detail that it gives was 0.9
to 1.1 of that of the truth. Detail that a direction should have and its map has not is missing.

In directions of which the MSI sees nothing the ratio is smaller, so that errors were about a third of what is missing
by this count, root mean square, and on one scene of ten a seventh. Of maps that were led (`unseen_maps.py`) it is known
which part of their variance the regressions leave: detail is missing by that part.

**Unmapped.** With much noise there are fewer maps than the MSI has bands, and it shows what no map can: what it has
beyond the span of R, as far as neighbouring pixels share it, for noise they do not share. The HSI's bands lack as much,
in proportion to their brightness. The count is a rough one, and three quarters of it are believed.
"""

import numpy as np

from ..model.types import Array
from ..threads import by_rows
from .map_data import MapData, second_moments
from .moments import Moments, eigh_signed

# How much of what is missing by this count is an error.
_PART = 0.33

# So many standard errors above the noise, detail is detail.
_RARE = 4.0

# How much of what the MSI shows beyond the maps is believed.
_BELIEVED = 0.75


def missing_detail(Z: Array, coarse: Array, data: MapData, differences: Moments) -> Array:
    """The variance of each band of the image that missing detail is worth, in the caller's units.

    Parameters
    ----------
    Z : (I, J, P) array
        The maps.
    coarse : (rows, columns, P) array
        The same at the HSI's pixels.
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
    found = nothing
    for Q, part in _directions(data):
        variances, turn = eigh_signed(Q.T @ (differences.second / differences.count) @ Q)
        Q, turn = Q @ turn, data.F.T @ (Q @ turn)
        has = _detail(lambda rows, turn=turn: Z[rows] @ turn, coarse @ turn, data.blur)
        lacks = np.maximum(ratio * np.maximum(variances - 2.0, 0.0) - has, 0.0)
        found = found + part * _PART**2 * data.hsi.sigma**2 * (np.square(Q) @ lacks)
    return found


def unmapped(Z: Array, data: MapData) -> Array:
    """The variance of each band that the MSI shows beyond what any maps of these spectra can, in the caller's units.

    Parameters
    ----------
    Z : (I, J, P) array
        The maps.
    data : MapData

    Returns
    -------
    (bands,) array
        Zeros where the MSI has gaps, or no more bands than there are maps.
    """
    bands, maps = data.R.shape
    if maps >= bands or len(data.msi.bands) > 1:
        return np.zeros(len(data.F))
    Q, image = np.linalg.qr(data.R)[0], data.msi.image
    # The response adds bands up: what they have in common is seen as often as their weights say.
    gains = np.abs(data.response) @ (1.0 / data.hsi.sigma)
    beyond = (np.eye(bands) - Q @ Q.T) / np.maximum(gains, 1e-300)

    def shared(part):
        rows = (image[part] / data.msi.sigma) @ beyond
        below, right = rows[1:] * rows[:-1], rows[:, 1:] * rows[:, :-1]
        return float(below.sum() + right.sum()), (below.size + right.size) // bands

    sums, counts = np.sum(by_rows(shared, len(image), image[0].size), axis=0)
    per_band = max(float(sums / max(counts, 1)), 0.0) / (bands - maps)
    seconds = second_moments(np.moveaxis(Z, 2, 1))
    brightness2 = np.square(data.hsi.sigma) * np.einsum("kp,pq,kq->k", data.F, seconds, data.F)
    relative = np.maximum(brightness2, 0.0) / max(float(brightness2.mean()), 1e-300)
    return _BELIEVED * per_band * relative


def _directions(data):
    """Orthonormal bases of what spectra span beyond those of led maps, and of these; and how much counts there."""
    if not len(data.led_maps):
        return [(np.linalg.qr(data.F)[0], 1.0)]
    of_led = np.linalg.qr(data.F[:, data.led_maps])[0]
    others = np.delete(data.F, data.led_maps, axis=1)
    return [(np.linalg.qr(others - of_led @ (of_led.T @ others))[0], 1.0), (of_led, data.left)]


def _detail(rows_of, coarse, blur):
    """The mean square of what some maps have beyond P'P of them over P'P of ones, a few rows at a time."""
    ones = [np.ones(P.shape[1]) for P in blur.operators]
    down, across = (P.T @ (P @ one) for P, one in zip(blur.operators, ones, strict=True))
    half = blur.half_of_fine(coarse)

    def squares(part):
        sums = np.multiply.outer(down[part], across)[:, :, None] * blur.size**2
        maps = blur.fine_rows(half, part)
        maps /= np.where(sums > 0.0, sums, 1.0)
        maps -= rows_of(part)
        return np.square(maps, out=maps).sum(axis=(0, 1))

    found = by_rows(squares, len(down), half[0].size)
    return np.sum(found, axis=0) / (down.size * across.size)


def _ratio(data):
    """Detail over the differences of coarse pixels, of all bands of the MSI; 0 where noise hides it."""
    image, noise2 = np.ascontiguousarray(data.msi.image), np.square(data.msi.sigma)
    coarse = data.blur.coarse(image)
    detail = _detail(lambda part: image[part], coarse, data.blur)
    detail -= noise2 * (1.0 + _RARE * np.sqrt(2.0 / max(image[:, :, 0].size, 1)))
    steps = [np.square(np.diff(coarse, axis=axis)).reshape(-1, image.shape[2]) for axis in (0, 1)]
    pairs = np.concatenate(steps)
    if not len(pairs):
        return 0.0
    share = np.prod([np.mean(np.asarray(P.multiply(P).sum(axis=1))) for P in data.blur.operators]) * data.blur.size**2
    apart = pairs.mean(axis=0) - 2.0 * share * noise2
    return float(np.maximum(detail, 0.0).sum() / apart.sum()) if apart.sum() > 0.0 else 0.0
