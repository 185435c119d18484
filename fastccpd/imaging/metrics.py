"""How close an estimate Ŷ is to the reference Y, both (I, J, K): one table of metrics, and a function for each.

    R-SNR  10 log10(‖Y‖² / ‖Ŷ−Y‖²), in dB
    RMSE   ‖Ŷ−Y‖ / sqrt(IJK)
    CC     mean over bands of Pearson's correlation; a band constant in either image has none and is left out
    SAM    mean over pixels of the angle between the spectra, in degrees; a pixel zero in either image is left out
    ERGAS  100/d · sqrt(mean_k(MSE_k / mean(Y_k)²)); a reference band of zero mean is left out
    UIQI   mean over bands and 8×8 windows of  4 σ_xy x̄ ȳ / ((σ_x²+σ_y²)(x̄²+ȳ²))   (Wang and Bovik, 2002)
    PSNR   mean over bands of  10 log10(peak_k² / MSE_k)
    SSIM   mean over bands and 11×11 Gaussian windows of deviation 1.5   (Wang et al., 2004)

The last two are scikit-image's; the peak is the largest value of the reference's band, and a band without a positive
value is left out.

What is left out is reported: by a warning of the single metric, by the entry `left_out` of `score`.

A new metric is one entry of `METRICS`: `score`, tables of the command line, reports and experiments follow it.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..model.checks import as_count
from . import formulas
from .columns import SECONDS, Column, Metric
from .comparison import Comparison, ComparisonOfParts

__all__ = [
    "METRICS",
    "cc",
    "columns",
    "ergas",
    "psnr",
    "rmse",
    "rsnr",
    "sam",
    "sam_map",
    "score",
    "score_of_parts",
    "ssim",
    "uiqi",
    "usual",
    "usual_names",
]


def _table(*metrics):
    return {metric.name: metric for metric in metrics}


#: All metrics by name, in the order of tables.
METRICS: dict[str, Metric] = _table(
    Metric("rsnr", "R-SNR", "dB", 1, function=formulas.rsnr),
    Metric("rmse", "RMSE", None, -1, function=formulas.rmse),
    Metric("cc", "CC", "", 1, function=formulas.cc),
    Metric("sam", "SAM", "degrees", -1, function=formulas.sam),
    Metric("ergas", "ERGAS", "", -1, function=formulas.ergas),
    Metric("uiqi", "UIQI", "", 1, function=formulas.uiqi, usual=False, spatial=True),
    Metric("psnr", "PSNR", "dB", 1, function=formulas.psnr, usual=False, needs="scikit-image"),
    Metric("ssim", "SSIM", "", 1, function=formulas.ssim, usual=False, spatial=True, needs="scikit-image"),
)


def columns() -> dict[str, Column]:
    """The columns that a table of results may have, by name: all metrics, then the time.

    Returns
    -------
    dict of str to Column
    """
    return {**METRICS, SECONDS.name: SECONDS}


def usual_names() -> tuple[str, ...]:
    """The names of the metrics that `usual` gives.

    Returns
    -------
    tuple of str
    """
    return tuple(name for name, metric in METRICS.items() if metric.usual)


def score(estimate: ArrayLike, reference: ArrayLike, ratio: float) -> dict[str, float | str]:
    """All metrics of one estimate, as one row of a table.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays
        Any real dtype and layout; never modified.
    ratio : float
        The decimation, for ERGAS.

    Returns
    -------
    dict
        The value of each of `METRICS`: rsnr, rmse, cc, sam, ergas, uiqi; psnr and ssim where scikit-image is installed
        (ssim NaN below 11 pixels); and `left_out`, a text that says what some of them could not use, empty if nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import score
    >>> scene = np.random.default_rng(0).random((12, 14, 3)) + 1.0
    >>> row = score(scene * 1.1, scene, ratio=4)
    >>> round(row["rsnr"], 9), round(row["cc"], 9), round(row["ergas"], 2), row["left_out"]
    (20.0, 1.0, 2.54, '')
    """
    return _row(Comparison(estimate, reference, ratio), METRICS)


def _row(pair, names):
    found = list(_measured(pair, names))
    notes = (f"{name}: {note}" for name, _, note in found if note)
    return {name: value for name, value, _ in found} | {"left_out": "; ".join(notes)}


def usual(estimate: ArrayLike, reference: ArrayLike, ratio: float) -> dict[str, float]:
    """The metrics that papers report, by name: quick, and with nothing but NumPy. `score` has all of them.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays
        Any real dtype and layout; never modified.
    ratio : float
        The decimation, for ERGAS.

    Returns
    -------
    dict
        rsnr, rmse, cc, sam and ergas. What one of them leaves out is a warning.
    """
    row = {}
    for name, value, note in _measured(Comparison(estimate, reference, ratio), usual_names()):
        row[name] = _reported(name, value, note)
    return row


def score_of_parts(parts: Callable[[], Iterable[tuple[NDArray, NDArray]]], ratio: float) -> dict[str, float | str]:
    """The metrics of `usual` of two images that are never whole in memory, as one row of a table.

    Parameters
    ----------
    parts : callable() -> iterator of (estimate, reference)
        Gives all pixels, some at a time, each part (pixels, bands). It is called several times.
    ratio : float
        The decimation, for ERGAS.

    Returns
    -------
    dict
        rsnr, rmse, cc, sam and ergas; and `left_out`, as of `score`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> image = np.random.default_rng(0).random((12, 14, 3)) + 1.0
    >>> row = metrics.score_of_parts(lambda: ((1.1 * line, line) for line in image), ratio=4)
    >>> round(row["rsnr"], 9), round(row["ergas"], 2)
    (20.0, 2.54)
    """
    return _row(ComparisonOfParts(parts, ratio), usual_names())


def rmse(estimate: ArrayLike, reference: ArrayLike) -> float:
    """Root mean squared error.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays

    Returns
    -------
    float
        In the units of the images.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> metrics.rmse(np.full((2, 3, 4), 1.5), np.ones((2, 3, 4)))
    0.5
    """
    return formulas.rmse(Comparison(estimate, reference))[0]


def rsnr(estimate: ArrayLike, reference: ArrayLike) -> float:
    """Reconstruction signal-to-noise ratio.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays

    Returns
    -------
    float
        In dB; infinite for a perfect estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> metrics.rsnr(np.full((2, 3, 4), 1.1), np.ones((2, 3, 4))).__round__(10)
    20.0
    """
    return formulas.rsnr(Comparison(estimate, reference))[0]


def cc(estimate: ArrayLike, reference: ArrayLike) -> float:
    """Mean over bands of Pearson's correlation.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays

    Returns
    -------
    float
        Between -1 and 1; NaN if every band is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> scene = np.random.default_rng(0).random((4, 5, 3))
    >>> round(metrics.cc(2.0 * scene + 1.0, scene), 12)
    1.0
    """
    return _reported("cc", *formulas.cc(Comparison(estimate, reference)))


def sam_map(estimate: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    """The spectral angle at every pixel.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays

    Returns
    -------
    (I, J) array
        In degrees; NaN where a spectrum is zero.

    Examples
    --------
    >>> from fastccpd.imaging import metrics
    >>> metrics.sam_map([[[1.0, 0.0]], [[0.0, 0.0]]], [[[1.0, 1.0]], [[1.0, 1.0]]])
    array([[45.],
           [nan]])
    """
    return formulas.angles(Comparison(estimate, reference))[0]


def sam(estimate: ArrayLike, reference: ArrayLike) -> float:
    """Mean spectral angle.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays

    Returns
    -------
    float
        In degrees; NaN if every pixel is zero.

    Examples
    --------
    >>> from fastccpd.imaging import metrics
    >>> round(metrics.sam([[[1.0, 0.0], [0.0, 2.0]]], [[[1.0, 1.0], [0.0, 1.0]]]), 12)
    22.5
    """
    return _reported("sam", *formulas.sam(Comparison(estimate, reference)))


def ergas(estimate: ArrayLike, reference: ArrayLike, ratio: float) -> float:
    """Relative dimensionless global error of synthesis (ERGAS).

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays
    ratio : float
        The decimation d.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> round(metrics.ergas(np.full((2, 3, 4), 2.2), np.full((2, 3, 4), 2.0), ratio=4), 12)
    2.5
    """
    return _reported("ergas", *formulas.ergas(Comparison(estimate, reference, ratio)))


def uiqi(estimate: ArrayLike, reference: ArrayLike, window: int = 8) -> float:
    """Universal image quality index, mean over bands and over all windows inside the image.

    Where both windows are flat only their means are compared, and two zero windows agree perfectly.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays
    window : int
        Side of the square window; in an image smaller than that it is as large as fits.

    Returns
    -------
    float
        Between -1 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> scene = np.random.default_rng(0).random((9, 12, 3))
    >>> round(metrics.uiqi(scene, scene), 12), round(metrics.uiqi(2 * scene, scene), 12)
    (1.0, 0.64)
    """
    return formulas.uiqi(Comparison(estimate, reference), as_count(window, "window"))[0]


def psnr(estimate: ArrayLike, reference: ArrayLike, data_range: float | None = None) -> float:
    """Peak signal-to-noise ratio, mean over bands; needs scikit-image.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays
    data_range : float, optional
        The peak; None takes the largest value of each of the reference's bands.

    Returns
    -------
    float
        In dB.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> round(metrics.psnr(np.full((2, 3, 4), 2.2), np.full((2, 3, 4), 2.0)), 12)
    20.0
    """
    return _reported("psnr", *formulas.psnr(Comparison(estimate, reference), data_range))


def ssim(estimate: ArrayLike, reference: ArrayLike, data_range: float | None = None) -> float:
    """Structural similarity, mean over bands, with the 11×11 Gaussian window of its authors; needs scikit-image.

    Parameters
    ----------
    estimate, reference : (I, J, K) arrays
        Of at least 11 rows and columns.
    data_range : float, optional
        As of `psnr`.

    Returns
    -------
    float
        Between -1 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import metrics
    >>> scene = np.random.default_rng(0).random((12, 14, 3))
    >>> round(metrics.ssim(scene, scene), 12)
    1.0
    """
    pair = Comparison(estimate, reference)
    rows, columns, _ = pair.shape
    if min(rows, columns) < formulas.SSIM_SIDE:
        least = formulas.SSIM_SIDE
        raise ValueError(f"reference: {rows} rows and {columns} columns; ssim needs at least {least} of each")
    return _reported("ssim", *formulas.ssim(pair, data_range))


def _measured(pair, names) -> Iterator[tuple[str, float, str]]:
    """Name, value and note of these metrics, without those whose package is not installed."""
    for name in names:
        try:
            value, note = METRICS[name].function(pair)
        except ImportError:
            if not METRICS[name].needs:
                raise
        else:
            yield name, value, note


def _reported(metric, value, note):
    """`value`, after warning the caller of the public function of what it leaves out."""
    if note:
        warnings.warn(f"{metric} leaves out {note}", stacklevel=3)
    return value
