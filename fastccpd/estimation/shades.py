"""Spectra that the maps have no map for, by brightness: what is dark mostly has a spectrum of its own.

With much noise a scene has one to three maps, and all pixels the spectra of the brightest. Water and shadow differ from
these by less than the noise of any pixel; but there are many of them, and the maps tell which. So pixels are sorted
into shades, overlapping hats g_c of the logarithm of their brightness, each about twice as bright as the one before,
and each shade gets a spectrum d_c beside those of the maps:

    scene = Z S' + G D',     D in what the spectra S do not span.                                               (1)

In such directions Z has no part in the HSI, nor in what the MSI sees beyond the span of R, so that all of the images
there is G D' and white noise. D is the mean of its normal distribution with the prior that d_c over the scene's own
spectrum is smooth along the bands: its cosine of f half waves has the variance (τ b_c)²/(1 + (f/2)²) over their sum,
with b_c the shade's brightness over that of the scene. τ is the one of largest evidence, and where no τ explains the
images better than no shades at all do, there are none. What D adds to the rest of the MSI is taken back in the maps.

In a part of a scene there are none: its neighbours would have others.
"""

import numpy as np

from ..model.types import Array
from ..threads import by_rows
from .map_data import MapData, second_moments
from .moments import eigh_signed

# By how much the next shade is brighter; the most shades; the brightness of the darkest and the brightest, as parts of
# the pixels that are darker.
_STEP, _MOST, _DARKEST, _BRIGHTEST = 2.0, 8, 0.01, 0.9

# Nothing is darker than this part of the brightest shade.
_BLACK = 1e-3

# Cosines along the bands, the half waves from which on they are unlikely, and τ² that are tried.
_COSINES, _SMOOTH, _STRENGTHS = 24, 2.0, np.geomspace(1e-5, 1.0, 11)

# By how much the logarithm of the evidence must be larger than without shades.
_CLEAR = 2.0


def shades_of(Z: Array, data: MapData) -> tuple[Array, Array] | None:
    """Maps and spectra of shades beside those of a fit.

    Parameters
    ----------
    Z : (I, J, P) array
        The fitted maps.
    data : MapData
        What they were fitted to.

    Returns
    -------
    ((I, J, C) float32 array, (bands, C) array) or None
        G and D in units of the HSI's noise; None where the images do not show any, or have gaps.
    """
    hsi, msi = data.hsi, data.msi
    if len(hsi.bands) > 1 or len(msi.bands) > 1 or not hsi.white:
        return None
    place, knots, brightness = _sorted(Z, data.F)
    if len(knots) < 2:
        return None
    B = _likely(Z, data.F)
    BM = _beyond(data.R, data.response @ B) if len(data.R) > data.R.shape[1] else np.zeros((len(data.R), B.shape[1]))
    coarse = np.stack([data.blur.coarse(_hat(place, c)[:, :, None])[:, :, 0] for c in range(len(knots))], axis=2)
    fine = [_hats(place, len(knots)), coarse.reshape(-1, len(knots))]
    sums = [_sums(G, image, spectra) for G, image, spectra in zip(fine, (msi, hsi), (BM, B), strict=True)]
    precision = sum(np.kron(gram, spectra.T @ spectra) for (gram, _), spectra in zip(sums, (BM, B), strict=True))
    seen = np.sum([cross for _, cross in sums], axis=0).ravel()
    W = _most_likely(precision, seen, knots / brightness, B.shape[1])
    if W is None:
        return None
    D = B @ W.T
    share = coarse[:, :, 0].size / place.size
    back = np.linalg.solve(data.R.T @ data.R + share * data.F.T @ data.F, data.R.T @ (data.response @ D))
    return fine[0].reshape(*place.shape, -1), D - data.F @ back


def _sorted(Z, F):
    """Where each pixel's brightness is among those of the shades, by its logarithm; theirs; and that of the scene."""
    gram = F.T @ F / len(F)
    squares = np.concatenate(by_rows(lambda part: ((Z[part] @ gram) * Z[part]).sum(axis=2), len(Z), Z[0].size))
    b = np.sqrt(np.maximum(squares, 0.0, dtype=np.float64))
    low, high = np.quantile(b, (_DARKEST, _BRIGHTEST))
    if not high > 0.0:
        return b, np.empty(0), 0.0
    low = max(low, _BLACK * high)
    count = int(min(max(2.0, np.ceil(np.log(high / low) / np.log(_STEP)) + 1.0), _MOST))
    knots = np.geomspace(low, high, count) if high > low else np.empty(0)
    place = np.interp(np.log(np.maximum(b, _BLACK * low)), np.log(knots), np.arange(count)) if len(knots) else b
    return place, knots, float(np.sqrt(np.square(b).mean()))


def _hat(place, number):
    """How much each pixel is of one shade."""
    return np.maximum(1.0 - np.abs(place - number), 0.0)


def _hats(place, count):
    """(pixels, count): how much each is of all shades."""
    return np.stack([_hat(place, c).ravel() for c in range(count)], axis=1).astype(np.float32)


def _likely(Z, F):
    """Cosines times the spectrum of the scene, root mean square, without what the spectra F span."""
    seconds = second_moments(np.moveaxis(Z, 2, 1))
    level = np.sqrt(np.maximum(np.einsum("kp,pq,kq->k", F, seconds, F) / (len(Z) * Z.shape[1]), 0.0))
    waves = np.multiply.outer(np.arange(len(F)) + 0.5, np.arange(min(_COSINES, len(F))))
    cosines = np.cos(np.pi / len(F) * waves)
    cosines[:, 1:] *= np.sqrt(2.0)  # all of the same size
    return _beyond(F, level[:, None] * cosines)


def _beyond(spanned, spectra):
    """What some spectra have beyond the span of others."""
    Q = np.linalg.qr(spanned)[0]
    return spectra - Q @ (Q.T @ spectra)


def _sums(G, image, spectra):
    """G'G, and G'Y times spectra, Y the pixels of an image divided by its noise."""
    pixels, weights = image.image.reshape(len(G), -1), spectra / image.sigma[:, None]

    def of(part):
        own = G[part].astype(np.float64, copy=False)
        return own.T @ own, own.T @ (pixels[part] @ weights)

    found = by_rows(of, *pixels.shape)
    return sum(gram for gram, _ in found), sum(cross for _, cross in found)


def _most_likely(precision, seen, brightness, cosines):
    """(shades, cosines): their mean with the τ of largest evidence; None where they are not seen."""
    falls = 1.0 / (1.0 + np.square(np.arange(cosines) / _SMOOTH))
    scale = np.kron(brightness, np.sqrt(falls / falls.sum()))
    values, turn = eigh_signed(scale[:, None] * precision * scale)
    values, along = np.maximum(values, 0.0), turn.T @ (scale * seen)
    parts = [strength / (1.0 + strength * values) for strength in _STRENGTHS]
    evidence = [
        0.5 * float(np.sum(part * np.square(along)) - np.log1p(strength * values).sum())
        for strength, part in zip(_STRENGTHS, parts, strict=True)
    ]
    best = int(np.argmax(evidence))
    if not evidence[best] > _CLEAR:
        return None
    return (scale * (turn @ (parts[best] * along))).reshape(-1, cosines)
