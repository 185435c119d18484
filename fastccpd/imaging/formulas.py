"""The formulas of the metrics: each takes a `Comparison`, and returns a number and a note on what it leaves out.

The angle between two spectra is 2 atan2(‖u−v‖, ‖u+v‖), u and v their unit vectors: the arc cosine of the cosine
clamped to [−1, 1], but exact where that loses half the digits, at small angles. All sums are float64 whatever the
images are, and of images in a unit in which their squares are numbers (`Comparison.exponent`).
"""

import math

import numpy as np

from ..model.checks import as_number

SSIM_SIDE = 11

# Below this part of its mean square, the variance in a window is rounding.
_FLAT = 1e-13


def rmse(pair):
    """‖Ŷ−Y‖ / sqrt(IJK)."""
    squared = pair.sums.squared
    return math.ldexp(math.sqrt(squared.sum() / (pair.sums.pixels * len(squared))), pair.exponent), ""


def rsnr(pair):
    """10 log10(‖Y‖² / ‖Ŷ−Y‖²), infinite for a perfect estimate."""
    error, energy = pair.sums.squared.sum(), pair.sums.energy.sum()
    if error == 0.0:
        return float("inf"), ""
    with np.errstate(divide="ignore"):
        return float(10.0 * np.log10(energy / error)), ""


def cc(pair):
    """The mean over bands of Pearson's correlation, without those that are constant in either image."""
    bands = pair.shape[2]
    lows, highs, sums = np.full((2, bands), np.inf), np.full((2, bands), -np.inf), np.zeros((2, bands))
    for _, *images in pair.rows():
        for n, image in enumerate(images):
            np.minimum(lows[n], image.min(axis=0), out=lows[n])
            np.maximum(highs[n], image.max(axis=0), out=highs[n])
            sums[n] += image.sum(axis=0)
    means = sums / (pair.shape[0] * pair.shape[1])
    variances, covariance = np.zeros((2, bands)), np.zeros(bands)
    for _, *images in pair.rows():
        x, y = (image - mean for image, mean in zip(images, means, strict=True))
        variances += np.einsum("pk,pk->k", x, x), np.einsum("pk,pk->k", y, y)
        covariance += np.einsum("pk,pk->k", x, y)
    # The variance of a constant band is zero up to rounding only, so equal extremes decide.
    varies = (lows != highs).all(axis=0) & (variances != 0.0).all(axis=0)
    x, y = np.sqrt(variances[:, varies])
    return _mean(np.clip(covariance[varies] / x / y, -1.0, 1.0)), _note(~varies, "bands", "constant")


def sam(pair):
    """The mean over pixels of the spectral angle in degrees, without those that are zero in either image."""
    found, zero = angles(pair)
    # Chosen by `zero` and not by isnan: a NaN in an image must show.
    return _mean(found[~zero]), _note(zero, "pixels", "zero")


def angles(pair):
    """The spectral angles in degrees, NaN where a spectrum is zero; and where that is."""
    found, zeros = np.empty(pair.shape[:2]), np.empty(pair.shape[:2], bool)
    for rows, x, y in pair.rows():
        norms = [np.sqrt(np.einsum("pk,pk->p", image, image)) for image in (x, y)]
        zero = (norms[0] == 0.0) | (norms[1] == 0.0)
        u, v = (image / np.where(zero, 1.0, norm)[:, None] for image, norm in zip((x, y), norms, strict=True))
        difference = u - v
        u += v
        apart, together = (np.sqrt(np.einsum("pk,pk->p", image, image)) for image in (difference, u))
        block = np.degrees(2.0 * np.arctan2(apart, together))
        block[zero] = np.nan
        found[rows], zeros[rows] = (part.reshape(-1, pair.shape[1]) for part in (block, zero))
    return found, zeros


def ergas(pair):
    """100/d · sqrt(mean_k(MSE_k / mean(Y_k)²)), without reference bands of zero mean."""
    sums = pair.sums
    used = sums.means != 0.0
    # A reference much fainter than the error is infinitely far away, which is no reason to warn.
    with np.errstate(divide="ignore", over="ignore"):
        relative = sums.squared[used] / sums.pixels / sums.means[used] ** 2
    return 100.0 / pair.ratio * float(np.sqrt(_mean(relative))), _note(~used, "bands", "zero mean")


def uiqi(pair, window=8):
    """The mean over bands and windows of 4 σ_xy x̄ ȳ / ((σ_x²+σ_y²)(x̄²+ȳ²))."""
    return float(np.mean([_uiqi_of_band(x, y, window) for x, y in pair.bands()])), ""


def psnr(pair, data_range=None):
    """The mean over bands of 10 log10(peak_k² / MSE_k), by scikit-image."""
    ratio = _skimage_metrics().peak_signal_noise_ratio
    # A band without error has an infinite ratio, which is no reason to warn.
    with np.errstate(divide="ignore"):
        return _over_bands(pair, data_range, lambda x, y, peak: ratio(y, x, data_range=peak))


def ssim(pair, data_range=None):
    """The mean over bands of the structural similarity, by scikit-image."""
    similarity = _skimage_metrics().structural_similarity
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    if min(pair.shape[:2]) < SSIM_SIDE:
        return float("nan"), f"images of fewer than {SSIM_SIDE} rows or columns"
    return _over_bands(pair, data_range, lambda x, y, peak: similarity(y, x, data_range=peak, **settings))


def _over_bands(pair, data_range, quality):
    """The mean of `quality(x, y, peak)` over the bands whose peak is positive."""
    if data_range is not None:
        data_range = math.ldexp(as_number(data_range, "data_range", above=True), -pair.exponent)
    values, dark = [], []
    for x, y in pair.bands():
        peak = float(y.max()) if data_range is None else data_range
        dark.append(peak <= 0.0)
        if not dark[-1]:
            values.append(quality(x, y, peak))
    return _mean(values), _note(np.array(dark), "bands", "no positive value")


def _uiqi_of_band(x, y, window):
    """UIQI of one band from local moments: of the band about its mean, where the differences of squares lose least."""
    sides = [min(window, size) for size in x.shape]

    def local_mean(image):
        for axis, side in enumerate(sides):
            image = _window_sums(image, side, axis)
        return image / math.prod(sides)

    shift_x, shift_y = x.mean(), y.mean()
    x, y = x - shift_x, y - shift_y
    mean_x, mean_y, covariance = local_mean(x), local_mean(y), local_mean(x * y)
    covariance -= mean_x * mean_y
    power = local_mean(x * x + y * y)
    spread = power - mean_x**2 - mean_y**2
    flat = spread <= _FLAT * power
    mean_x += shift_x
    mean_y += shift_y
    level = mean_x**2 + mean_y**2
    contrast = np.divide(2.0 * covariance, spread, out=np.ones_like(spread), where=~flat)
    luminance = np.divide(2.0 * mean_x * mean_y, level, out=np.ones_like(level), where=level != 0.0)
    return (contrast * luminance).mean()


def _window_sums(image, side, axis):
    """Sums of `side` neighbours along an axis, of all windows wholly inside.

    By doubling: sums of 1, 2, 4 … neighbours, added as the binary digits of `side` say. Few additions, and none of the
    drift of a running sum.
    """
    windows = image.shape[axis] - side + 1

    def part(values, start, length):
        return values[(slice(None),) * axis + (slice(start, start + length),)]

    total, covered = 0.0, 0
    span, width = image, 1
    while True:
        if side & width:
            total = total + part(span, covered, windows)
            covered += width
        if covered == side:
            return total
        length = span.shape[axis] - width
        span = part(span, 0, length) + part(span, width, length)
        width *= 2


def _mean(values):
    return float(np.mean(values)) if len(values) else float("nan")


def _note(left_out, things, why):
    count = int(np.count_nonzero(left_out))
    return f"{count} of {left_out.size} {things} ({why})" if count else ""


def _skimage_metrics():
    try:
        from skimage import metrics
    except ImportError:
        raise ImportError("PSNR and SSIM need scikit-image; install fastccpd[metrics]") from None
    return metrics
