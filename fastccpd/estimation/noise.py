"""How noisy two images are, band by band, from the images alone.

**Many bands.** The scene has a few spectral dimensions, white noise has all of them. Of an N×K image the singular
values of the noise follow the Marchenko-Pastur law, whose median gives σ, and values above the threshold of Gavish and
Donoho (2014) are worth keeping as signal. What is left of a band after the kept ones is its noise, divided by the share
(1 − leverage) of the noise that was not kept. Bands are divided by their σ and the same is done again. It begins with
the residual of regressing each band on the others: without that the noisiest bands would be taken for signals.

**Few bands.** Second differences v = (x₀₀ − x₁₀ − x₀₁ + x₁₁)/2 of an image have the variance of the noise plus what
edges and texture leave, and that is alike in all bands: factor analysis, Cov(v) = L L' + diag(σ²) with a thin L, takes
it out. The median of |v| bounds σ from above; with fewer than four bands it is all there is. Where a band has texture
of its own, this takes it for noise. So of two images of one scene the HSI, which knows the texture, has the last word
(`agreement.py`).

Where the bands differ by no more than such estimates do, all of them get one σ. No σ is ever zero: the least is 1e-6 of
the image's root mean square, which is below what any sensor sees.
"""

import time
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.checks import as_choice, as_cube, as_valid, check_values, working_dtype
from ..model.problem import Problem
from ..model.result import Status, Trace
from ..model.types import Array, Mask
from .agreement import agreement_of, variance_by_agreement
from .moments import Moments, difference_moments, eigh_signed, moments_of

# The least σ, as a part of the image's root mean square.
LEAST = 1e-6

# An image with more bands than this is hyperspectral.
_FEW_BANDS = 30

# Estimates that differ by less than this, in the median, are estimates of one number.
_ALIKE = 0.12

# Noise below this part of the signal, 55 dB, cannot be told from none: scenes have that much detail of their own.
FLOOR = 10.0**-2.75

# Estimates of a variance that are so many deviations apart contradict each other.
_CONTRADICTION = 2.5

# So many second differences tell as much as one that shares no pixel: 1 + the squares of their correlations, four
# times 1/2 and four times 1/4.
_SHARED = 2.25

_NORMAL_MEDIAN = 0.6744897501960817  # of |x| for a standard normal x


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of both images: the first stage of the default method.

    Attributes
    ----------
    hsi, msi : (bands,) float64 arrays
        Standard deviation of each band, in the caller's units, as estimated.
    hsi_floored, msi_floored : (bands,) float64 arrays
        The same, but no less than 55 dB below the image: what the later stages begin with.
    disagreement : (MSI bands,) float64 array
        How much the two images differ at the HSI's pixels beyond their noise, root mean square, in the caller's units:
        operators that are not those of the images. Zero where noise explains the difference.
    moments, differences : Moments
        Of the HSI's pixels, from which its noise was found, and of the differences between neighbours; the subspace is
        found from them too.
    spectrum : Spectrum
        Of the HSI divided by `hsi_floored`.
    status : Status
    trace : Trace
        Empty: nothing is iterated that could be watched.
    seconds : float
    """

    hsi: np.ndarray
    msi: np.ndarray
    hsi_floored: np.ndarray
    msi_floored: np.ndarray
    disagreement: np.ndarray
    moments: Moments
    differences: Moments
    spectrum: "Spectrum"
    status: Status = Status.FINISHED
    trace: Trace = field(default_factory=Trace)
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The spectral statistics of an image divided by σ: eigenvalues of X'X, largest first, and their vectors."""

    values: np.ndarray
    vectors: np.ndarray
    signals: int


def noise_of(problem: Problem, *, hsi: ArrayLike | None = None, msi: ArrayLike | None = None) -> Noise:
    """The `Noise` of a problem's two images.

    Parameters
    ----------
    problem : Problem
    hsi, msi : (bands,) array, optional
        Standard deviations that are known, which are then not estimated.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd import Problem
    >>> from fastccpd.estimation import noise_of
    >>> from fastccpd.imaging import add_noise, degrade, preset, scenes
    >>> scene = scenes.synthetic((64, 60, 40)).cube
    >>> degradation = preset("stereo", scene.shape)
    >>> images = [add_noise(image, 20.0, rng=0) for image in degrade(scene, degradation)]
    >>> noise = noise_of(Problem(*images, degradation))
    >>> noise.hsi.shape, noise.msi.shape
    ((40,), (6,))
    """
    began = time.perf_counter()
    moments = moments_of(problem.hsi, problem.hsi_valid)
    hsi = np.asarray(_of_moments(moments) if hsi is None else hsi, dtype=np.float64)
    hsi_floored = _floored(hsi, problem.hsi)
    spectrum = spectrum_of(moments.second, max(moments.count, 1), hsi_floored)
    alone, above = _of_few_bands(problem.msi, problem.msi_valid)
    by_both = variance_by_agreement(agreement_of(problem), hsi_floored, spectrum.vectors[:, : spectrum.signals])
    beyond = by_both.beyond(above)
    found = np.asarray(_settled(alone, above, by_both, beyond) if msi is None else msi, dtype=np.float64)
    return Noise(
        hsi=hsi,
        msi=found,
        hsi_floored=hsi_floored,
        msi_floored=_floored(found, problem.msi),
        disagreement=beyond,
        moments=moments,
        differences=difference_moments(problem.hsi, problem.hsi_valid),
        spectrum=spectrum,
        seconds=time.perf_counter() - began,
    )


def _settled(alone, above, by_both, beyond):
    """σ of the MSI: by its own differences where the HSI does not contradict, else by what the two images show.

    `above` bounds it in any case: what the images disagree about beyond that is no noise. Where there is any of it, the
    operators are not those of the images, all that they say of noise is void, and the bound is what is left.
    """
    variance, deviation = by_both.pooled()
    if variance is None or deviation is None:
        return alone
    if beyond.any():
        return above
    contradicted = np.abs(alone**2 - variance) > _CONTRADICTION * deviation
    # A σ that is too small would have noise taken for signal: the upper end of what is likely.
    likely = np.minimum(np.maximum(variance + deviation, 0.0), above**2)
    return np.maximum(np.sqrt(np.where(contradicted, likely, alone**2)), 1e-3 * alone)


def _floored(sigma, image):
    """σ, but no less than the noise floor."""
    return np.maximum(sigma, FLOOR * float(np.sqrt(np.mean(np.square(image, dtype=np.float64)))) or 1.0)


def estimate_noise(image: ArrayLike, kind: str = "auto", valid: ArrayLike | None = None) -> NDArray[np.float64]:
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


def of_many_bands(image: Array, valid: Mask | None = None) -> NDArray[np.float64]:
    """σ of each band of an image with many bands; `valid`, of its shape, is False where there are no data."""
    return _of_moments(moments_of(image, valid))


def _of_moments(moments):
    """σ of each band by the second moments of the pixels."""
    second, pixels = moments.second, moments.count
    least = _least(np.trace(second) / max(pixels * len(second), 1))
    sigma = np.maximum(_regression_residual(second, pixels), least)
    for _ in range(3):
        spectrum = spectrum_of(second, pixels, sigma)
        E = spectrum.vectors[:, : spectrum.signals]
        left = np.diag(second) / sigma**2 - (E**2 * spectrum.values[: spectrum.signals]).sum(axis=1)
        free = max(pixels - spectrum.signals, 1) * np.maximum(1.0 - (E**2).sum(axis=1), 0.1)
        sigma = sigma * np.sqrt(np.maximum(left / free, 0.0))
        sigma = np.maximum(sigma, max(least, 0.1 * float(np.median(sigma))))
    return _one_if_alike(sigma, float(np.median(sigma)))


def _regression_residual(second, pixels):
    """Residual deviation of regressing each band on the others; all ones where that takes too many pixels."""
    bands = len(second)
    if pixels < 2 * bands:
        return np.ones(bands)
    sizes = np.sqrt(np.diag(second) / pixels)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    # A little of the identity, 100 dB below the band: without noise the matrix is singular.
    inverse = np.linalg.inv(second / np.outer(sizes, sizes) / pixels + 1e-10 * np.eye(bands))
    return sizes * np.sqrt(pixels / (pixels - bands + 1) / np.diag(inverse))


def spectrum_of(second: Array, pixels: int, sigma: Array) -> Spectrum:
    """The `Spectrum` of an image with X'X = `second`, its bands divided by σ."""
    values, vectors = eigh_signed(second / np.outer(sigma, sigma))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    few, many = sorted((pixels, len(values)))
    beta = few / many
    # σ² once more: 1 if σ is right, and what makes the first pass, where it is not, find the signals all the same.
    unit = float(np.median(values[:few])) / (many * _marchenko_pastur_median(beta))
    threshold = 2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + np.sqrt(beta**2 + 14.0 * beta + 1.0))
    signals = int((values[:few] > threshold * many * unit).sum())
    return Spectrum(values, vectors, min(signals, max(few - 1, 1)))


def of_few_bands(image: Array, valid: Mask | None = None) -> NDArray[np.float64]:
    """σ of each band of an image with few bands; `valid`, of its shape, is False where there are no data."""
    return _of_few_bands(image, valid)[0]


def _of_few_bands(image, valid):
    """σ of each band, and what bounds it from above."""
    v = image[:-1, :-1].astype(np.float64)  # squares of float32 leave its range
    v -= image[1:, :-1]
    v -= image[:-1, 1:]
    v += image[1:, 1:]
    v *= 0.5
    v = v.reshape(-1, image.shape[2])
    has = np.ones(v.shape, bool)
    if valid is not None:
        has = (valid[:-1, :-1] & valid[1:, :-1] & valid[:-1, 1:] & valid[1:, 1:]).reshape(v.shape)
    least = _least(np.mean(np.square(image, dtype=np.float64)))
    medians = [np.median(np.abs(column[known])) if known.any() else 0.0 for column, known in zip(v.T, has.T)]
    above = np.maximum(np.array(medians) / _NORMAL_MEDIAN, least)
    v = v[has.all(axis=1)]
    factors = _thin(image.shape[2])
    if factors == 0 or len(v) < 10 * image.shape[2]:
        return above, above
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
    # Were all bands alike, the least eigenvalue of Cov(v) would be noise alone, in which no edge has a part: the least
    # of as many as there are bands, and so too small, by what Marchenko and Pastur say of so many pixels.
    too_small = 1.0 - np.sqrt((image.shape[2] - 1) * _SHARED / len(v))
    common = max(float(np.sqrt(max(np.linalg.eigvalsh(second)[0], 0.0))) / max(too_small, 0.5), least)
    return _one_if_alike(np.sqrt(variance), common), above


def _one_if_alike(sigma, common):
    """One σ for all bands where theirs do not differ from it by more than estimates do."""
    return np.full_like(sigma, common) if np.median(np.abs(np.log(sigma / common))) < _ALIKE else sigma


def _least(mean_square):
    """The least σ of an image with this mean square."""
    return LEAST * float(np.sqrt(mean_square)) if mean_square > 0.0 else 1.0


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
