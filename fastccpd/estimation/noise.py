"""How noisy two images are, band by band, from the images alone.

**Many bands.** The scene has a few spectral dimensions, white noise has all of them. Of an N×K image the singular
values of the noise follow the Marchenko-Pastur law, whose median gives σ, and values above the threshold of Gavish and
Donoho (2014) are worth keeping as signal. What is left of a band after the kept ones is its noise, divided by the share
(1 − leverage) of the noise that was not kept. Bands are divided by their σ and the same is done again. It begins with
the residual of regressing each band on the others: without that the noisiest bands would be taken for signals.

Signals too faint for that threshold are told by what neighbouring pixels share (`signals.py`); what they leave is the
noise, once more.

**Few bands.** Second differences, of which edges and texture are what the bands share (`few_bands.py`). Where a band
has texture of its own, this takes it for noise. So of two images of one scene the HSI, which knows the texture, has the
last word (`agreement.py`): the estimate is moved into what the two images agree about, give or take what is likely.

Where the bands differ by no more than such estimates do, all of them get one σ. No σ is ever zero: the least is 1e-6 of
the image's root mean square, which is below what any sensor sees.
"""

import time
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.checks import as_choice, as_cube, as_valid, check_values, working_dtype
from ..model.problem import Problem
from ..model.result import Status, Trace
from ..model.types import Array, Mask
from .agreement import variance_by_agreement
from .few_bands import second_differences
from .moments import Moments, difference_moments, eigh_signed, moments_of
from .once import kept_for, once
from .signals import by_neighbours, largest_of_noise
from .statistics import Statistics, moments_of_hsi, power_of, statistics_of, steps_of_msi

# The least σ, as a part of the image's root mean square.
LEAST = 1e-6

# An image with more bands than this is hyperspectral.
_FEW_BANDS = 30

# So many standard errors to each side of what the two images agree about are likely.
_LIKELY = 2.5

# Estimates that differ by less than this, in the median, are estimates of one number.
_ALIKE = 0.12

# Noise below this part of the signal, 55 dB, cannot be told from none: scenes have that much detail of their own.
FLOOR = 10.0**-2.75

# Noise below this part of the floor's variance (60 dB below the signal) hides no spectrum that is worth its time.
_FAINTEST = 0.3


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
    misplacement : (MSI bands,) float64 array
        How much of it a blur explains that is shifted, or of another width, than the one that is given; zero where that
        is not most of it.
    moments, differences : Moments
        Of the HSI's pixels, from which its noise was found, and of the differences between neighbours; the subspace is
        found from them too.
    spectrum : Spectrum
        Of the HSI divided by `hsi_floored`: its signals by what neighbours share, and no fewer than the MSI shows.
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
    misplacement: np.ndarray
    moments: Moments
    differences: Moments
    spectrum: "Spectrum"
    status: Status = Status.FINISHED
    trace: Trace = field(default_factory=Trace)
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The spectral statistics of an image divided by σ: eigenvalues of moments, largest first, and their vectors.

    `signals` of them are above the threshold; `unit` is what the others say of σ²: 1 where it is right.
    """

    values: np.ndarray
    vectors: np.ndarray
    signals: int
    unit: float


def noise_of(problem: Problem, *, hsi: ArrayLike | None = None, msi: ArrayLike | None = None) -> Noise:
    """The `Noise` of a problem's two images.

    Parameters
    ----------
    problem : Problem
    hsi, msi : (bands,) array, optional
        Standard deviations that are known, which are then not estimated.

    Returns
    -------
    Noise
        σ of each band of both images, and what it was found from.

    Examples
    --------
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
    with kept_for(problem):
        alone = _hsi_alone(problem) if hsi is None else hsi, _msi_alone(problem)
        found = _noise(statistics_of(problem), *alone, hsi is not None, msi)
    return replace(found, seconds=time.perf_counter() - began)


def noise_alone(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """σ of each band of the HSI and of the MSI, each of them by its own image."""
    return _hsi_alone(problem), _msi_alone(problem)[0]


@once
def _hsi_alone(problem):
    return _of_moments(*moments_of_hsi(problem))


@once
def _msi_alone(problem):
    return _of_steps(steps_of_msi(problem), power_of(problem.msi))


def noise_from(statistics: Statistics, *, hsi: ArrayLike | None = None, msi: ArrayLike | None = None) -> Noise:
    """The `Noise` of two images by their `Statistics`.

    Parameters
    ----------
    statistics : Statistics
        Of `statistics_of`, or the sum of those of all parts of a scene.
    hsi, msi : (bands,) array, optional
        As of `noise_of`.

    Returns
    -------
    Noise
    """
    began = time.perf_counter()
    of_hsi = _of_moments(statistics.moments, statistics.differences) if hsi is None else hsi
    alone = of_hsi, _of_steps(statistics.steps, statistics.msi_power)
    return replace(_noise(statistics, *alone, hsi is not None, msi), seconds=time.perf_counter() - began)


def _noise(statistics, hsi, of_msi, known, msi):
    """The noise of both images, by that of each alone; that of the HSI, and of the MSI if given, may be known."""
    moments, differences = statistics.moments, statistics.differences

    def looked_at(sigma):
        floored = _floored(sigma, statistics.hsi_power)
        spectrum = _with_neighbours(moments, differences, floored)
        signals = spectrum.vectors[:, : spectrum.signals]
        return floored, spectrum, variance_by_agreement(statistics.agreement, floored, signals)

    hsi = np.asarray(hsi, dtype=np.float64)
    hsi_floored, spectrum, by_both = looked_at(hsi)
    if not known and by_both.excess() > 1.0:
        hsi = np.minimum(hsi, hsi_floored / np.sqrt(by_both.excess()))
        hsi_floored, spectrum, by_both = looked_at(hsi)
    alone, common, above = of_msi
    beyond = by_both.beyond(above)
    misplacement = by_both.by_misplacement(beyond)
    settled = _settled(alone, common, above, by_both, beyond, misplacement) if msi is None else msi
    found = np.asarray(settled, dtype=np.float64)
    msi_floored = _floored(found, statistics.msi_power)
    shown = _signals_of(statistics.msi_moments, statistics.msi_differences, msi_floored)
    return Noise(
        hsi=hsi,
        msi=found,
        hsi_floored=hsi_floored,
        msi_floored=msi_floored,
        disagreement=beyond,
        misplacement=misplacement,
        moments=moments,
        differences=differences,
        spectrum=replace(spectrum, signals=min(max(spectrum.signals, shown), len(spectrum.values))),
    )


def _settled(alone, common, above, by_both, beyond, misplacement):
    """σ of the MSI: by its own differences, moved into what the two images agree about.

    Where the images disagree, the operators are not those of the images, and what one band seems to have of noise may
    be their error: a lower bound it is only where all bands in the mean have more than their differences show. What
    they disagree about is no noise, but for the fit it is as good as. `above` bounds all of it. Where only the blur is
    wrong, the MSI is as good as it was, and so are its own differences.
    """
    bounds = by_both.bounds(_LIKELY)
    if bounds is None or (beyond.any() and misplacement.any()):
        return alone
    alike = np.ptp(bounds[0]) == 0.0
    if beyond.any():
        smallest = alone if common is None else np.minimum(alone, common)
        at_least, at_most = by_both.times(smallest, _LIKELY)
        bounds = np.minimum(at_most * smallest**2, above**2) if at_least > 1.0 else 0.0 * alone, bounds[1]
    # A σ that is too small would have noise taken for signal: where texture was taken for noise in any band, its own
    # differences say nothing of the others either, and all have the upper end of what is likely.
    least, likely = (np.maximum(bound, 1e-6 * alone**2) for bound in bounds)
    if (alone**2 > likely).any():
        # Where all bands have one σ, so have their differences, and no edge a part in the least of their eigenvalues.
        if common is not None and alike and common**2 > least.max():
            found = np.minimum(likely, np.minimum(above, common) ** 2)
        else:
            found = np.minimum(likely, above**2)
    else:
        found = np.clip(alone**2, least, likely)
    return np.sqrt(np.minimum(found + beyond**2, np.maximum(found, above**2)))


def _floored(sigma, power):
    """σ, but no less than the noise floor of an image of such a power."""
    total, size = power
    return np.maximum(sigma, FLOOR * float(np.sqrt(total / max(size, 1))) or 1.0)


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
    return _of_moments(moments_of(image, valid), difference_moments(image, valid))


def _of_moments(moments, differences):
    """σ of each band by the second moments of the pixels and of their differences."""
    second, pixels = moments.second, moments.count
    least = _least(np.trace(second) / max(pixels * len(second), 1))
    sigma = np.maximum(_regression_residual(second, pixels), least)
    for turn in range(4):
        last = turn == 3
        spectrum = _with_neighbours(moments, differences, sigma) if last else spectrum_of(second, pixels, sigma)
        E = spectrum.vectors[:, : spectrum.signals]
        whitened = second / np.outer(sigma, sigma)
        left = np.diag(whitened) - (E * (2.0 * whitened @ E - E @ (E.T @ whitened @ E))).sum(axis=1)
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
    beta, unit = few / many, _unit(values, pixels)
    threshold = 2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + np.sqrt(beta**2 + 14.0 * beta + 1.0))
    signals = int((values[:few] > threshold * many * unit).sum())
    return Spectrum(values, vectors, min(signals, max(few - 1, 1)), unit)


def _unit(values, pixels):
    """σ² once more: 1 if σ is right, and what makes the first pass, where it is not, find the signals all the same.

    By the eigenvalues of the second moments divided by σ, largest first.
    """
    few, many = sorted((pixels, len(values)))
    return float(np.median(values[:few])) / (many * _marchenko_pastur_median(few / many))


def _with_neighbours(moments, differences, sigma):
    """The `Spectrum` whose signals are told by what neighbours share."""
    pixels = max(moments.count, 1)
    of_second = np.linalg.eigvalsh(moments.second / np.outer(sigma, sigma))
    unit = _unit(np.maximum(of_second[::-1], 0.0), pixels)
    values, vectors = by_neighbours(moments.divided(sigma), differences.divided(sigma))
    signals = int((values > max(unit, _FAINTEST) * largest_of_noise(len(values), pixels)).sum())
    return Spectrum(values, vectors, min(signals, max(min(pixels, len(values)) - 1, 1)), unit)


def _signals_of(moments, differences, sigma):
    """How many signals the MSI shows: a scene has no fewer, even where the HSI is too noisy to show them."""
    pixels = max(moments.count, 1)
    values, _ = by_neighbours(moments.divided(sigma), differences.divided(sigma))
    # Its σ may be 5 % too small.
    return int((values > 1.1 * largest_of_noise(len(values), pixels)).sum()) if differences.count else 0


def of_few_bands(image: Array, valid: Mask | None = None) -> NDArray[np.float64]:
    """σ of each band of an image with few bands; `valid`, of its shape, is False where there are no data."""
    return _of_steps(second_differences(image, valid), power_of(image))[0]


def _of_steps(found, power):
    """σ of each band by second differences, the one of all if they had one, and what bounds each from above."""
    least = _least(power[0] / max(power[1], 1))
    sigma, common = found.deviations(least)
    above = np.maximum(found.bound(), least)
    return (sigma if common is None else _one_if_alike(sigma, common)), common, above


def _one_if_alike(sigma, common):
    """One σ for all bands where theirs do not differ from it by more than estimates do."""
    return np.full_like(sigma, common) if np.median(np.abs(np.log(sigma / common))) < _ALIKE else sigma


def _least(mean_square):
    """The least σ of an image with this mean square."""
    return LEAST * float(np.sqrt(mean_square)) if mean_square > 0.0 else 1.0


@cache
def _marchenko_pastur_median(beta):
    """The median of the Marchenko-Pastur law of aspect ratio beta."""
    # With x = 1 + beta − 2 sqrt(beta) cos t the density's square roots at both ends are gone.
    t = (np.arange(1 << 14) + 0.5) * (np.pi / (1 << 14))
    x = 1.0 + beta - 2.0 * np.sqrt(beta) * np.cos(t)
    share = np.cumsum(np.sin(t) ** 2 / x)
    return float(x[np.searchsorted(share, 0.5 * share[-1])])
