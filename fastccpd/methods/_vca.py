"""Vertex component analysis (Nascimento, Bioucas-Dias 2005): the extreme spectra of an image.

Pixels are mixtures of a few spectra, so they lie in a simplex that these span. A vertex is the pixel that reaches
furthest along a random direction orthogonal to the vertices found before. What lies outside the subspace of the
simplex is mostly noise, so the pixels are first reduced to `count` coordinates, in one of two ways:

    affine       their count − 1 principal components, and one more, constant coordinate
    projective   their product with the count leading singular vectors, divided by its product with the mean

The projective form does not mind how brightly a pixel is lit, but dark pixels are thrown far by noise. So it is only
taken where the signal-to-noise ratio is above a threshold. With P_y the mean power of a pixel and P_x that of what its
count principal components and the mean have of it, of K bands,

    SNR = 10 log10 (P_x − count/K P_y) / (P_y − P_x).

A vertex is returned as it is in the subspace, without what the reduction took away.

Directions are uniform random numbers, as published: so they lie in one orthant of the coordinates, and what is found
depends on the signs of the axes, which are those that LAPACK gives the singular vectors of the second moments. Where
the best of several runs is asked for, directions are normal, and the signs do not matter.
"""

import math

import numpy as np

from ._spectral import leading_vectors

# In dB, for a number of vertices: Nascimento's, and that of a toolbox of fusion methods, which takes the SNR without
# its sign.
THRESHOLDS = {
    "nascimento": lambda count: 15.0 + 10.0 * math.log10(count),
    "toolbox": lambda count: 15.0 + 10.0 * math.log(count) + 8.0,
}


# What is a smaller part of the power than this is rounding, and so is a difference of two logarithms of volumes.
_ROUNDING = 1e-12
_SAME_VOLUME = 1e-6


def vertices(pixels, count, *, threshold=None, runs=20, rng=None):
    """`count` extreme pixels of a (pixels, bands) matrix, projected on their subspace, as the columns of a matrix.

    Parameters
    ----------
    pixels : (N, K) array
    count : int
        At most N and K.
    threshold : {None, "nascimento", "toolbox"}
        Above which SNR the projective form is taken. None: the affine form in any case.
    runs : int
        How often vertices are looked for: once, as published, or, in normal directions, more often. The first that span
        the largest volume are kept. Runs often find the same ones in another order: rounding, and with it the unit of
        the data, is not to choose among those.
    rng : Generator, optional
        Where the directions come from; by default a generator of its own, the same each time.

    Returns
    -------
    (K, count) array
    """
    rng = np.random.default_rng(0) if rng is None else rng
    axes_of, draw = (_axes_of_moments, rng.random) if runs == 1 else (_principal_axes, rng.standard_normal)
    form = _projective if threshold is not None and _is_clean(pixels, count, threshold) else _affine
    projected, candidates = form(pixels, count, axes_of)
    best, largest = np.zeros((pixels.shape[1], 0)), -np.inf
    for _ in range(runs):
        found, taken = [], np.eye(count)[:, -1:]
        while len(found) < count:
            direction = draw(count)
            direction -= taken @ (taken.T @ direction)
            found.append(int(np.abs(projected @ direction).argmax()))
            taken, _ = np.linalg.qr(projected[found].T)
        E = candidates(found)
        volume = np.linalg.slogdet(E.T @ E)[1]
        if not best.size or volume > largest + _SAME_VOLUME:
            best, largest = E, volume
    return best


def _is_clean(pixels, count, threshold):
    """Whether the SNR of the pixels is above a threshold; with as many vertices as bands there is none to tell."""
    N, K = pixels.shape
    mean = pixels.mean(axis=0)
    _, strengths = leading_vectors((pixels - mean).T, count)
    whole = np.vdot(pixels, pixels) / N
    inside = np.vdot(strengths, strengths) / N + mean @ mean
    signal, noise = inside - count / K * whole, whole - inside
    if min(signal, noise) <= _ROUNDING * whole:
        return signal > _ROUNDING * whole
    snr = 10.0 * math.log10(signal / noise)
    return (abs(snr) if threshold == "toolbox" else snr) > THRESHOLDS[threshold](count)


def _affine(pixels, count, axes_of):
    """The pixels in `count` coordinates, and a function from places in them to spectra."""
    mean = pixels.mean(axis=0)
    centred = pixels - mean
    axes = axes_of(centred, count - 1)
    reduced = centred @ axes
    lifted = np.column_stack([reduced, np.full(len(pixels), np.linalg.norm(reduced, axis=1).max())])
    return lifted, lambda found: mean[:, None] + axes @ reduced[found].T


def _projective(pixels, count, axes_of):
    """As `_affine`; a pixel that is orthogonal to the mean, as a dark one, is no candidate."""
    axes = axes_of(pixels, count)
    reduced = pixels @ axes
    brightness = (reduced @ reduced.mean(axis=0))[:, None]
    divided = np.divide(reduced, brightness, out=np.zeros_like(reduced), where=brightness > 0.0)
    return divided, lambda found: axes @ reduced[found].T


def _principal_axes(pixels, count):
    """The leading right singular vectors, with signs of their own."""
    if count == 0:
        return np.zeros((pixels.shape[1], 0))
    axes, _ = leading_vectors(pixels.T, count)
    # LAPACK leaves the signs open, and with them the random directions' meaning.
    return axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(count)] < 0.0, -1.0, 1.0)


def _axes_of_moments(pixels, count):
    """The leading singular vectors of the second moments, with the signs that LAPACK gives them."""
    return np.linalg.svd(pixels.T @ pixels / len(pixels))[0][:, :count]
