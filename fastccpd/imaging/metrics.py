"""How close an estimate Ŷ is to the reference Y, both (I, J, K).

    RMSE   ‖Ŷ−Y‖ / sqrt(IJK)
    R-SNR  10 log10(‖Y‖² / ‖Ŷ−Y‖²), in dB
    CC     mean over bands of Pearson's correlation; a band constant in either image has none and is left out
    SAM    mean over pixels of the angle between the spectra, in degrees; a pixel zero in either image is left out
    ERGAS  100/d · sqrt(mean_k(MSE_k / mean(Y_k)²)); a reference band of zero mean is left out
    UIQI   mean over bands and 8×8 windows of  4 σ_xy x̄ ȳ / ((σ_x²+σ_y²)(x̄²+ȳ²))   (Wang and Bovik, 2002)
    PSNR   mean over bands of  10 log10(peak_k² / MSE_k)
    SSIM   mean over bands and 11×11 Gaussian windows of deviation 1.5   (Wang et al., 2004)

The last two are scikit-image's; the peak is the largest value of the reference's band, and a band without a positive
value is left out.

What is left out is told: by a warning from the single metric, by the entry `left_out` of `score`.

The angle between two spectra is 2 atan2(‖u−v‖, ‖u+v‖), u and v their unit vectors: the arc cosine of the cosine
clamped to [−1, 1], but exact where that loses half the digits, at small angles. All sums are float64 whatever the
images are, taken over blocks of rows or bands so that no image is copied whole.
"""

import math
import warnings

import numpy as np

from ..model.checks import as_count, as_cube, as_number

# Values of an image looked at together.
_BLOCK = 1 << 18

_SSIM_SIDE = 11

# Below this part of its mean square, the variance in a window is rounding.
_FLAT = 1e-13


def rmse(estimate, reference):
    """Root mean squared error.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> metrics.rmse(np.full((2, 3, 4), 1.5), np.ones((2, 3, 4)))
    0.5
    """
    estimate, reference = _pair(estimate, reference)
    return _rmse(_errors(estimate, reference))


def rsnr(estimate, reference):
    """Reconstruction signal-to-noise ratio in dB; infinite for a perfect estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> metrics.rsnr(np.full((2, 3, 4), 1.1), np.ones((2, 3, 4))).__round__(10)
    20.0
    """
    estimate, reference = _pair(estimate, reference)
    return _rsnr(_errors(estimate, reference))


def cc(estimate, reference):
    """Mean over bands of Pearson's correlation; NaN if every band is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> scene = np.random.default_rng(0).random((4, 5, 3))
    >>> round(metrics.cc(2.0 * scene + 1.0, scene), 12)
    1.0
    """
    estimate, reference = _pair(estimate, reference)
    return _told("cc", *_cc(estimate, reference))


def sam_map(estimate, reference):
    """The spectral angle at every pixel in degrees, (I, J); NaN where a spectrum is zero.

    Examples
    --------
    >>> from fastccpd.imaging import metrics
    >>> metrics.sam_map([[[1.0, 0.0]], [[0.0, 0.0]]], [[[1.0, 1.0]], [[1.0, 1.0]]])
    array([[45.],
           [nan]])
    """
    return _angles(*_pair(estimate, reference))[0]


def sam(estimate, reference):
    """Mean spectral angle in degrees; NaN if every pixel is zero.

    Examples
    --------
    >>> from fastccpd.imaging import metrics
    >>> round(metrics.sam([[[1.0, 0.0], [0.0, 2.0]]], [[[1.0, 1.0], [0.0, 1.0]]]), 12)
    22.5
    """
    estimate, reference = _pair(estimate, reference)
    return _told("sam", *_sam(estimate, reference))


def ergas(estimate, reference, ratio):
    """Relative dimensionless global error of synthesis (ERGAS); `ratio` is the decimation d.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> round(metrics.ergas(np.full((2, 3, 4), 2.2), np.full((2, 3, 4), 2.0), ratio=4), 12)
    2.5
    """
    estimate, reference = _pair(estimate, reference)
    return _told("ergas", *_ergas(_errors(estimate, reference), as_number(ratio, "ratio", above=True)))


def uiqi(estimate, reference, window=8):
    """Universal image quality index, mean over bands and over all `window`×`window` windows inside the image.

    Where both windows are flat only their means are compared, and two zero windows agree perfectly. In an image smaller
    than the window the window is as large as fits.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> scene = np.random.default_rng(0).random((9, 12, 3))
    >>> round(metrics.uiqi(scene, scene), 12), round(metrics.uiqi(2 * scene, scene), 12)
    (1.0, 0.64)
    """
    estimate, reference = _pair(estimate, reference)
    window = as_count(window, "window")
    return float(np.mean([_uiqi_of_band(x, y, window) for x, y in _bands(estimate, reference)]))


def psnr(estimate, reference, data_range=None):
    """Peak signal-to-noise ratio in dB, mean over bands; needs scikit-image.

    `data_range` is the peak; None takes the largest value of each of the reference's bands.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> round(metrics.psnr(np.full((2, 3, 4), 2.2), np.full((2, 3, 4), 2.0)), 12)
    20.0
    """
    estimate, reference = _pair(estimate, reference)
    return _told("psnr", *_psnr(estimate, reference, data_range, _skimage_metrics()))


def ssim(estimate, reference, data_range=None):
    """Structural similarity, mean over bands, with the 11×11 Gaussian window of its authors; needs scikit-image.

    `data_range` as in `psnr`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> scene = np.random.default_rng(0).random((12, 14, 3))
    >>> round(metrics.ssim(scene, scene), 12)
    1.0
    """
    estimate, reference = _pair(estimate, reference)
    if min(reference.shape[:2]) < _SSIM_SIDE:
        raise ValueError(f"reference: {reference.shape[0]} rows and {reference.shape[1]} columns; ssim needs at least "
                         f"{_SSIM_SIDE} of each")  # fmt: skip
    return _told("ssim", *_ssim(estimate, reference, data_range, _skimage_metrics()))


def usual(estimate, reference, ratio):
    """The five metrics that papers report, by name: quick, and with nothing but NumPy. `score` has all of them."""
    return {
        "rsnr": rsnr(estimate, reference), "rmse": rmse(estimate, reference), "cc": cc(estimate, reference),
        "sam": sam(estimate, reference), "ergas": ergas(estimate, reference, ratio),
    }  # fmt: skip


def score(estimate, reference, ratio):
    """All metrics of one estimate, as one row of a table.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays
    ratio : int
        The decimation, for ERGAS.

    Returns
    -------
    dict
        rmse, rsnr, cc, sam, ergas, uiqi; psnr and ssim where scikit-image is installed (ssim NaN below 11 pixels); and
        `left_out`, a text that says what some of them could not use, empty if nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import score
    >>> scene = np.random.default_rng(0).random((12, 14, 3)) + 1.0
    >>> row = score(scene * 1.1, scene, ratio=4)
    >>> round(row["rsnr"], 9), round(row["cc"], 9), round(row["ergas"], 2), row["left_out"]
    (20.0, 1.0, 2.54, '')
    """
    estimate, reference = _pair(estimate, reference)
    ratio = as_number(ratio, "ratio", above=True)
    errors = _errors(estimate, reference)
    row = {"rmse": _rmse(errors), "rsnr": _rsnr(errors)}
    left_out = []

    def enter(name, value, note):
        row[name] = value
        if note:
            left_out.append(f"{name}: {note}")

    enter("cc", *_cc(estimate, reference))
    enter("sam", *_sam(estimate, reference))
    enter("ergas", *_ergas(errors, ratio))
    row["uiqi"] = uiqi(estimate, reference)
    try:
        skimage_metrics = _skimage_metrics()
    except ImportError:
        pass
    else:
        enter("psnr", *_psnr(estimate, reference, None, skimage_metrics))
        if min(reference.shape[:2]) < _SSIM_SIDE:
            enter("ssim", float("nan"), f"images of fewer than {_SSIM_SIDE} rows or columns")
        else:
            enter("ssim", *_ssim(estimate, reference, None, skimage_metrics))
    row["left_out"] = "; ".join(left_out)
    return row


# Each of the following returns a number and a note on what it leaves out; the public functions tell the note.


def _rmse(errors):
    squared, _, _, pixels = errors
    return float(np.sqrt(squared.sum() / (pixels * len(squared))))


def _rsnr(errors):
    squared, energy, _, _ = errors
    with np.errstate(divide="ignore"):
        if squared.sum() == 0.0:
            return float("inf")
        return float(10.0 * np.log10(energy.sum() / squared.sum()))


def _cc(estimate, reference):
    bands, pixels = reference.shape[2], reference.shape[0] * reference.shape[1]
    lows, highs, sums = np.full((2, bands), np.inf), np.full((2, bands), -np.inf), np.zeros((2, bands))
    for _, *images in _rows(estimate, reference):
        for n, image in enumerate(images):
            np.minimum(lows[n], image.min(axis=0), out=lows[n])
            np.maximum(highs[n], image.max(axis=0), out=highs[n])
            sums[n] += image.sum(axis=0)
    means = sums / pixels
    variances, covariance = np.zeros((2, bands)), np.zeros(bands)
    for _, *images in _rows(estimate, reference):
        x, y = (image - mean for image, mean in zip(images, means, strict=True))
        variances += np.einsum("pk,pk->k", x, x), np.einsum("pk,pk->k", y, y)
        covariance += np.einsum("pk,pk->k", x, y)
    # The variance of a constant band is zero up to rounding only, so equal extremes tell it.
    varies = (lows != highs).all(axis=0) & (variances != 0.0).all(axis=0)
    x, y = np.sqrt(variances[:, varies])
    return _mean(np.clip(covariance[varies] / x / y, -1.0, 1.0)), _note(~varies, "bands", "constant")


def _sam(estimate, reference):
    angles, zero = _angles(estimate, reference)
    # Chosen by `zero` and not by isnan: a NaN in an image must show.
    return _mean(angles[~zero]), _note(zero, "pixels", "zero")


def _angles(estimate, reference):
    """The spectral angles in degrees, NaN where a spectrum is zero; and where that is."""
    angles, zeros = np.empty(reference.shape[:2]), np.empty(reference.shape[:2], bool)
    for rows, x, y in _rows(estimate, reference):
        norms = [np.sqrt(np.einsum("pk,pk->p", image, image)) for image in (x, y)]
        zero = (norms[0] == 0.0) | (norms[1] == 0.0)
        u, v = (image / np.where(zero, 1.0, norm)[:, None] for image, norm in zip((x, y), norms, strict=True))
        difference = u - v
        u += v
        apart, together = (np.sqrt(np.einsum("pk,pk->p", image, image)) for image in (difference, u))
        block = np.degrees(2.0 * np.arctan2(apart, together))
        block[zero] = np.nan
        angles[rows], zeros[rows] = (part.reshape(-1, reference.shape[1]) for part in (block, zero))
    return angles, zeros


def _ergas(errors, ratio):
    squared, _, means, pixels = errors
    used = means != 0.0
    relative = squared[used] / pixels / means[used] ** 2
    return 100.0 / ratio * float(np.sqrt(_mean(relative))), _note(~used, "bands", "zero mean")


def _psnr(estimate, reference, data_range, skimage_metrics):
    ratio = skimage_metrics.peak_signal_noise_ratio
    # A band without error has an infinite ratio, which is no reason to warn.
    with np.errstate(divide="ignore"):
        return _over_bands(estimate, reference, data_range, lambda x, y, peak: ratio(y, x, data_range=peak))


def _ssim(estimate, reference, data_range, skimage_metrics):
    def similarity(x, y, peak):
        return skimage_metrics.structural_similarity(
            y, x, data_range=peak, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
        )

    return _over_bands(estimate, reference, data_range, similarity)


def _over_bands(estimate, reference, data_range, quality):
    """The mean of `quality(x, y, peak)` over the bands whose peak is positive."""
    if data_range is not None:
        data_range = as_number(data_range, "data_range", above=True)
    values, dark = [], []
    for x, y in _bands(estimate, reference):
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


def _errors(estimate, reference):
    """Per band: squared error, energy and mean of the reference; and the number of pixels."""
    squared, energy, sums = np.zeros((3, reference.shape[2]))
    for _, x, y in _rows(estimate, reference):
        difference = x - y
        squared += np.einsum("pk,pk->k", difference, difference)
        energy += np.einsum("pk,pk->k", y, y)
        sums += y.sum(axis=0)
    pixels = reference.shape[0] * reference.shape[1]
    return squared, energy, sums / pixels, pixels


def _rows(estimate, reference):
    """Blocks of rows as (rows, x, y), x and y (pixels, bands) in float64; views where the image allows it."""
    step = max(1, _BLOCK // reference[0].size)
    for start in range(0, len(reference), step):
        rows = slice(start, start + step)
        blocks = (np.ascontiguousarray(image[rows], dtype=np.float64) for image in (estimate, reference))
        yield rows, *(block.reshape(-1, reference.shape[2]) for block in blocks)


def _bands(estimate, reference):
    """Pairs of bands as contiguous float64 pictures, gathered at least eight at a time: a cache line's worth."""
    rows, columns, bands = reference.shape
    step = max(8, _BLOCK // (rows * columns))
    for start in range(0, bands, step):
        parts = [np.moveaxis(image[:, :, start : start + step], 2, 0) for image in (estimate, reference)]
        yield from zip(*(np.ascontiguousarray(part, dtype=np.float64) for part in parts), strict=True)


def _pair(estimate, reference):
    estimate, reference = as_cube(estimate, "estimate"), as_cube(reference, "reference")
    if estimate.shape != reference.shape:
        raise ValueError(f"estimate: got shape {estimate.shape}, but reference has {reference.shape}; they must agree")
    return estimate, reference


def _mean(values):
    return float(np.mean(values)) if len(values) else float("nan")


def _note(left_out, things, why):
    count = int(np.count_nonzero(left_out))
    return f"{count} of {left_out.size} {things} ({why})" if count else ""


def _told(metric, value, note):
    """`value`, after warning the caller of the public function of what it leaves out."""
    if note:
        warnings.warn(f"{metric} leaves out {note}", stacklevel=3)
    return value


def _skimage_metrics():
    try:
        from skimage import metrics
    except ImportError:
        raise ImportError("PSNR and SSIM need scikit-image; install fastccpd[metrics]") from None
    return metrics
