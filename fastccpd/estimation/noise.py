"""How noisy two images are, band by band, from the images alone.

**Many bands.** The scene has a few spectral dimensions, white noise has all of them. Of an N×K image the singular
values of the noise follow the Marchenko-Pastur law, whose median gives σ, and values above the threshold of Gavish and
Donoho (2014) are worth keeping as signal. What is left of a band after the kept ones is its noise, divided by the share
(1 − leverage) of the noise that was not kept. Bands are divided by their σ and the same is done again. It begins with
what all other bands leave of each, by regression: without that the noisiest bands would be taken for signals.

**Few bands.** Second differences v = (x₀₀ − x₁₀ − x₀₁ + x₁₁)/2 of an image have the variance of the noise plus what
edges and texture leave, and that is alike in all bands: factor analysis, Cov(v) = L L' + diag(σ²) with a thin L, takes
it out. The median of |v| bounds σ from above; with fewer than four bands it is all there is.

Where the bands differ by no more than such estimates do, all of them get one σ. No σ is ever zero: the least is 1e-6 of
the image's root mean square, which is below what any sensor sees.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from ..model.checks import as_choice, as_cube, as_valid, check_values, working_dtype

# The least σ, as a part of the image's root mean square.
LEAST = 1e-6

# An image with more bands than this is hyperspectral.
_FEW_BANDS = 30

# Estimates that differ by less than this, in the median, are estimates of one number.
_ALIKE = 0.12

_NORMAL_MEDIAN = 0.6744897501960817  # of |x| for a standard normal x


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The spectral statistics of an image divided by σ: eigenvalues of X'X, largest first, and their vectors."""

    values: np.ndarray
    vectors: np.ndarray
    signals: int


def estimate_noise(image, kind="auto", valid=None):
    """The standard deviation of the noise of each band, from the image alone.

    Of many bands the noise is what spreads evenly over all spectral dimensions, while a scene keeps to a few. Of few it
    is what the second differences of a band do not share with those of the others: fine texture in one band alone looks
    like noise, so a clean image may seem to have some.

    Parameters
    ----------
    image : (rows, columns, bands) array
    kind : "auto", "many" or "few"
        Which of the two ways; "auto" takes an image of more than 30 bands to have many.
    valid : bool array, optional
        True where there are data: (rows, columns), (bands,) or the image's whole shape. What stands elsewhere is not
        looked at.

    Returns
    -------
    (bands,) float64 array
        In units of the image. Never zero: the least is a millionth of the image's root mean square.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.estimation import estimate_noise
    >>> from fastccpd.imaging import add_noise
    >>> ramp = np.linspace(0.0, 1.0, 60)[:, None, None] * np.linspace(1.0, 2.0, 50)
    >>> noisy = add_noise(np.tile(ramp, (1, 40, 1)), 20.0, rng=0)
    >>> estimate_noise(noisy)[:3].round(3)
    array([0.088, 0.088, 0.088])
    """
    image = as_cube(image, "image")
    kind = as_choice(kind, "kind", ("auto", "many", "few"))
    valid = as_valid(valid, "valid", image.shape)
    if valid is not None:
        image = np.where(valid, image, image.dtype.type(0))
    check_values(image, "image")
    if kind == "auto":
        kind = "many" if image.shape[2] > _FEW_BANDS else "few"
    estimate = of_many_bands if kind == "many" else of_few_bands
    return estimate(image.astype(working_dtype(image), copy=False), valid)


def of_many_bands(image, valid=None):
    """σ of each band of an image with many bands; `valid`, of its shape, is False where there are no data."""
    X = pixels_of(image, *complete(image, valid))
    least = _least(X)
    second = X.T @ X
    sigma = np.maximum(_unexplained(second, len(X)), least)
    for _ in range(3):
        spectrum = spectrum_of(second, len(X), sigma)
        E = spectrum.vectors[:, : spectrum.signals]
        left = np.diag(second) / sigma**2 - (E**2 * spectrum.values[: spectrum.signals]).sum(axis=1)
        free = max(len(X) - spectrum.signals, 1) * np.maximum(1.0 - (E**2).sum(axis=1), 0.1)
        sigma = sigma * np.sqrt(np.maximum(left / free, 0.0))
        sigma = np.maximum(sigma, max(least, 0.1 * float(np.median(sigma))))
    return _pooled(sigma, float(np.median(sigma)))


def _unexplained(second, pixels):
    """The deviation of each band from its regression on all others; all alike where that takes too many pixels."""
    bands = len(second)
    if pixels < 2 * bands:
        return np.ones(bands)
    sizes = np.sqrt(np.diag(second) / pixels)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    # A little of the identity, 100 dB below the band: without noise the matrix is singular.
    inverse = np.linalg.inv(second / np.outer(sizes, sizes) / pixels + 1e-10 * np.eye(bands))
    return sizes * np.sqrt(pixels / (pixels - bands + 1) / np.diag(inverse))


def spectrum_of(second, pixels, sigma):
    """The `Spectrum` of an image with X'X = `second`, its bands divided by σ."""
    values, vectors = np.linalg.eigh(second / np.outer(sigma, sigma))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    few, many = sorted((pixels, len(values)))
    beta = few / many
    # σ² once more: 1 if σ is right, and what makes the first pass, where it is not, find the signals all the same.
    unit = float(np.median(values[:few])) / (many * _marchenko_pastur_median(beta))
    threshold = 2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + np.sqrt(beta**2 + 14.0 * beta + 1.0))
    signals = int((values[:few] > threshold * many * unit).sum())
    return Spectrum(values, vectors, min(signals, max(few - 1, 1)))


def of_few_bands(image, valid=None):
    """σ of each band of an image with few bands; `valid`, of its shape, is False where there are no data."""
    v = image[:-1, :-1].astype(np.float64)  # squares of float32 leave its range
    v -= image[1:, :-1]
    v -= image[:-1, 1:]
    v += image[1:, 1:]
    v *= 0.5
    v = v.reshape(-1, image.shape[2])
    has = np.ones(v.shape, bool)
    if valid is not None:
        has = (valid[:-1, :-1] & valid[1:, :-1] & valid[:-1, 1:] & valid[1:, 1:]).reshape(v.shape)
    least = _least(image.reshape(-1, image.shape[2]))
    medians = [np.median(np.abs(column[known])) if known.any() else 0.0 for column, known in zip(v.T, has.T)]
    above = np.maximum(np.array(medians) / _NORMAL_MEDIAN, least)
    v = v[has.all(axis=1)]
    factors = _thin(image.shape[2])
    if factors == 0 or len(v) < 10 * image.shape[2]:
        return above
    second = v.T @ v / len(v)
    variance = np.maximum(np.minimum(np.diag(second), above**2), least**2)
    for _ in range(200):
        sigma = np.sqrt(variance)
        values, vectors = np.linalg.eigh(second / np.outer(sigma, sigma))
        shared = (vectors[:, -factors:] ** 2 * np.maximum(values[-factors:] - 1.0, 0.0)).sum(axis=1) * variance
        update = np.clip(np.diag(second) - shared, 0.1 * variance, above**2)
        settled = np.abs(update - variance).max() <= 1e-3 * variance.max()
        variance = np.maximum(update, least**2)
        if settled:
            break
    # Were all bands alike, the least eigenvalue of Cov(v) would be noise alone, in which no edge has a part.
    common = max(float(np.sqrt(max(np.linalg.eigvalsh(second)[0], 0.0))), least)
    return _pooled(np.sqrt(variance), common)


def _pooled(sigma, common):
    """The common value for all bands, where those of the bands do not differ from it by more than estimates do."""
    return np.full_like(sigma, common) if np.median(np.abs(np.log(sigma / common))) < _ALIKE else sigma


def complete(image, valid):
    """(pixels, fill): the pixels that have all bands, (rows, columns), and None; or None and what fills the gaps.

    Bands that no pixel has do not count. Where fewer than a fifth of the pixels are complete, all of them are used,
    each gap filled with the mean of its band.
    """
    if valid is None:
        return None, None
    pixels = valid[:, :, valid.any(axis=(0, 1))].all(axis=2)
    if pixels.mean() >= 0.2:
        return pixels, None
    means = image.sum(axis=(0, 1)) / np.maximum(valid.sum(axis=(0, 1)), 1)  # an image is zero where it has no data
    return None, np.where(valid, 0.0, means)


def pixels_of(image, pixels=None, fill=None):
    """The chosen pixels, (n, bands) in float64, with what fills them added."""
    X = image if fill is None else image + fill
    X = X.reshape(-1, X.shape[2])
    return np.asarray(X if pixels is None else X[pixels.reshape(-1)], dtype=np.float64)


def _least(X):
    size = float(np.sqrt(np.mean(np.square(X, dtype=np.float64)))) if X.size else 0.0
    return LEAST * size if size > 0.0 else 1.0


def _thin(bands):
    """The most factors that as many bands determine with something left over (Ledermann's bound)."""
    return max(r for r in range(bands) if r == 0 or (bands - r) ** 2 > bands + r)


@cache
def _marchenko_pastur_median(beta):
    """The median of the Marchenko-Pastur law of aspect ratio beta."""
    # With x = 1 + beta − 2 sqrt(beta) cos t the density's square roots at both ends are gone.
    t = (np.arange(1 << 14) + 0.5) * (np.pi / (1 << 14))
    x = 1.0 + beta - 2.0 * np.sqrt(beta) * np.cos(t)
    share = np.cumsum(np.sin(t) ** 2 / x)
    return float(x[np.searchsorted(share, 0.5 * share[-1])])
