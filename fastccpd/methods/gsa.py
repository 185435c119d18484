"""GSA: Gram-Schmidt adaptive hypersharpening, each HSI band with the MSI band that it resembles most.

With U the HSI interpolated to the MSI's pixels and L = P1 M P2' the MSI as the HSI sees it, every HSI band b belongs to
the MSI band m of which L_m correlates most with H_b. The bands b of one m predict it,

    α = least squares of L_m on the H_b, all centred,          I_m = Σ_b α_b U_b, centred,

and take over what the prediction lacks, as far as they follow it:

    Z_b = U_b + g_b (M_m − mean M_m − I_m),          g_b = ⟨I_m, U_b − mean U_b⟩ / ⟨I_m, I_m⟩.

H and L are in the unit of the scene: both are divided by the sums of weights of P1 and P2 at each pixel.

The interpolation is linear, U = T1 H T2', so all but the last line happens at the HSI's pixels: a mean over U is a
weighted mean over H, the products with I_m are those with T1'T1 i_m T2'T2, where i_m = Σ_b α_b H_b. What is added has
the mean zero, so each band keeps the mean of U_b. What the sensors see of Z is the same line with fewer bands or
pixels, so the cost is known before Z is made.

Of a part of a scene, m, α, g and the means are those of all of it, from the moments of (L, H): g of H in place of U.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg
from scipy.sparse import diags_array

from ..blas import one_blas_thread
from ..estimation.moments import SceneBands
from ..model.checks import as_number, set_fields
from ..model.degradation import Degradation
from ..model.problem import as_part
from ..model.types import Array, Callback, Part, Shape
from ._iteration import finished
from ._spectral import half_square, robust_maximum
from ._upsampling import Upsampling, sums_of_weights, upsampling
from .method import SharesBands, Solution, memory_of_phases, register

# A band that departs from its mean by less than this part of its size is constant.
_CONSTANT = 1e-13

# Differences of second moments are rounded by less than this part of these.
_ROUNDED = 1e-14

# Numbers of a block of rows in which the image is made: what a block needs stays in the cache.
_BLOCK = 1 << 16


@register("gsa")
@dataclass(frozen=True, kw_only=True)
class GSA(SharesBands):
    """Gram-Schmidt adaptive hypersharpening: the HSI interpolated, plus the details of the most similar MSI band.

    It has no iterations and nothing to tune, and does not use PM: the baseline that takes a moment. It is not
    non-negative, and with noise the regression's weights explode. P1 and P2 may be any separable operators.

    Parameters
    ----------
    ridge : float
        Ridge of the regression of an MSI band on its HSI bands, in units of their mean variance. The published method
        has none, and on Salinas and Indian Pines it is no gain, with noise or without.

    Notes
    -----
    A constant band has no details and is returned as it is interpolated. Where an MSI band has as many HSI bands as
    there are HSI pixels, or more, the weights are those of least norm, and a warning says so. The cost is
    ½‖hsi − degraded‖² + ½‖msi − degraded‖² of the returned image.

    References
    ----------
    .. [1] Bruno Aiazzi, Stefano Baronti, Massimo Selva: Improving Component Substitution Pansharpening Through
       Multivariate Regression of MS+Pan Data. IEEE Transactions on Geoscience and Remote Sensing 45(10), 3230-3239,
       2007.
    .. [2] Naoto Yokoya, Claas Grohnfeldt, Jocelyn Chanussot: Hyperspectral and Multispectral Data Fusion: A Comparative
       Review of the Recent Literature. IEEE Geoscience and Remote Sensing Magazine 5(2), 29-56, 2017.
    """

    ridge: float = 0.0

    uses_kernels: ClassVar[bool] = True
    keeps_pixels: ClassVar[bool] = True
    same_bytes_on_any_threads: ClassVar[bool] = True

    def __post_init__(self):
        set_fields(self, ridge=as_number(self.ridge, "ridge"))

    def solve(
        self, problem: Any, *, rng: Any = None, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        began = time.perf_counter()
        problem, scene = problem if isinstance(problem, tuple) else (problem, None)
        P1, P2 = problem.degradation.P1, problem.degradation.P2
        scale = robust_maximum(problem.msi, problem.hsi)
        measured, msi = (np.divide(image, scale, dtype=np.float64) for image in (problem.hsi, problem.msi))
        sums = [sums_of_weights(P) for P in (P1, P2)]
        rows, columns = (diags_array(1.0 / s) @ P for s, P in zip(sums, (P1, P2)))
        means = Degradation(rows, columns, problem.degradation.PM)
        weights = np.multiply.outer(*sums)[:, :, None]
        (I, J, K_M), hsi, up = msi.shape, measured / weights, upsampling(means)
        if scene is None:
            prediction, gains, mean = self._fitted(hsi, _seen(means.P1, means.P2, msi), up)
        else:
            centre, alpha, gains = self._fitted_to_scene(scene.moments, K_M)
            centre = centre / (scale * weights.mean())
            prediction = np.moveaxis((hsi - centre[K_M:]) @ alpha.T, 2, 0)
            mean = centre[:K_M, None, None]

        details = msi.reshape(-1, K_M).T.reshape(K_M, I, J) - up.maps(prediction)
        details -= details.mean(axis=(1, 2), keepdims=True) if mean is None else mean
        details = np.moveaxis(details, 0, 2)
        image = Sharpened(up, up.coefficients(hsi), details, gains, scale)
        PM = problem.degradation.PM.toarray()
        misfit = half_square(up.fine(image.coefficients @ PM.T) + details @ (gains @ PM.T), msi)
        back = Upsampling(up.rows.seen_by(P1), up.columns.seen_by(P2))
        misfit += half_square(back.image(hsi) + _seen(P1, P2, details) @ gains, measured)
        return finished(image, misfit * scale**2, began, callback)

    def _fitted(self, hsi, seen, up):
        """The predictions of the MSI's bands at the HSI's pixels, g, and None for the means that details have."""
        bands, constant = _centred(hsi)
        targets, _ = _centred(seen)
        owner = _most_similar(bands.T @ targets, *(np.linalg.norm(columns, axis=0) for columns in (bands, targets)))
        prediction, gains = np.zeros((seen.shape[2], *hsi.shape[:2])), np.zeros((seen.shape[2], hsi.shape[2]))
        for m in range(len(gains)):
            members = np.flatnonzero((owner == m) & ~constant)
            if members.size:
                alpha = self._weights(bands[:, members], targets[:, m], m)
                prediction[m] = (bands[:, members] @ alpha).reshape(hsi.shape[:2])
                gains[m, members] = _gains(prediction[m], bands[:, members], up)
        return prediction, gains, None

    def _fitted_to_scene(self, moments, K_M):
        """The means of a scene's bands, those of the MSI first, and α and g, (MSI bands, bands) each."""
        centre, squares = moments.total / max(moments.count, 1), np.diag(moments.second) / max(moments.count, 1)
        about = moments.covariance()
        constant = np.diag(about) <= _ROUNDED * squares
        about[constant], about[:, constant] = 0.0, 0.0
        of_bands, of_both, sizes = about[K_M:, K_M:], about[K_M:, :K_M], np.sqrt(np.diag(about))
        owner = _most_similar(of_both, sizes[K_M:], sizes[:K_M])
        weights, gains = np.zeros((K_M, len(of_bands))), np.zeros((K_M, len(of_bands)))
        for m in range(K_M):
            members = np.flatnonzero((owner == m) & ~constant[K_M:])
            if members.size:
                normal = of_bands[np.ix_(members, members)]
                weight = self.ridge * np.trace(normal) / len(members) * np.eye(len(members))
                alpha = cast(tuple, linalg.lstsq(normal + weight, of_both[members, m], cond=_ROUNDED))[0]
                power = alpha @ normal @ alpha
                weights[m, members] = alpha
                gains[m, members] = normal @ alpha / power if power > 0.0 else 0.0
        return centre, weights, gains

    def _weights(self, bands, target, m):
        """α of MSI band m."""
        pixels, count = bands.shape
        if self.ridge:
            weight = self.ridge * np.vdot(bands, bands) / count
            return linalg.solve(bands.T @ bands + weight * np.eye(count), bands.T @ target, assume_a="pos")
        if count >= pixels:
            warnings.warn(
                f"hsi: {count} bands resemble band {m + 1} of the MSI, but there are {pixels} pixels; their weights "
                "are those of least norm",
                stacklevel=4,
            )
        # Every one of its drivers returns a tuple.
        return cast(tuple, linalg.lstsq(bands, target, cond=max(bands.shape) * np.finfo(np.float64).eps))[0]

    def memory_needed(
        self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike, shared: SceneBands | None = None
    ) -> int:
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        hsi, msi = I_H * J_H * K, I * J * K_M
        # The HSI, the MSI and the details; then what is centred and compared, or the coefficients and what they give.
        kept = hsi + 2 * msi + I_H**2 + J_H**2
        beginning, ending = 4 * hsi + 2 * (I * I_H + J * J_H), hsi + max(3 * hsi, 2 * msi)
        return 8 * kept + memory_of_phases(8 * beginning, 8 * ending) + (1 << 16)


def _seen(P1, P2, image):
    """P1·P2·image at the HSI's pixels, (I_H, J_H, bands)."""
    return np.stack([(P2 @ (P1 @ band).T).T for band in np.moveaxis(image, 2, 0)], axis=2)


def _centred(image):
    """The bands of an image as centred columns, and which of them are constant; those are zero."""
    columns = image.reshape(-1, image.shape[2])
    sizes = np.linalg.norm(columns, axis=0)
    columns = columns - columns.mean(axis=0)
    constant = np.linalg.norm(columns, axis=0) <= _CONSTANT * sizes
    columns[:, constant] = 0.0
    return columns, constant


def _most_similar(products, of_bands, of_targets):
    """For each band the target of the highest correlation, by products and norms; a constant has none with anything."""
    of_bands, of_targets = (np.where(norms > 0.0, norms, 1.0) for norms in (of_bands, of_targets))
    return np.argmax(products / of_bands[:, None] / of_targets, axis=1)


def _gains(prediction, bands, up):
    """g of the bands: both interpolated and centred at the fine pixels, by sums over the coarse ones."""
    rows, columns = up.rows.matrix, up.columns.matrix
    fine = len(rows) * len(columns)
    weights = np.outer(rows.sum(axis=0), columns.sum(axis=0))
    spread = rows.T @ (rows @ prediction @ columns.T) @ columns
    spread -= np.vdot(weights, prediction) / fine * weights
    power = np.vdot(spread, prediction)
    return bands.T @ spread.ravel() / power if power > 0.0 else np.zeros(bands.shape[1])


@dataclass(frozen=True, eq=False)
class Sharpened:
    """The interpolated HSI and the details times their gains, in the caller's unit, made when it is asked for.

    Attributes
    ----------
    up : Upsampling
    coefficients : (n, m, K) array
        Of the HSI.
    details : (I, J, K_M) array
    gains : (K_M, K) array
    unit : float
    """

    up: Upsampling
    coefficients: Array
    details: Array
    gains: Array
    unit: float

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.details.dtype

    @property
    def shape(self) -> Shape:
        return *self.details.shape[:2], self.gains.shape[1]

    def render(self, rows: Part = None, cols: Part = None, bands: Part = None, dtype: DTypeLike | None = None) -> Array:
        """The image, whole or a block of it."""
        rows, cols, bands = map(as_part, (rows, cols, bands))
        up, details = self.up.at(rows, cols), self.details[rows][:, cols]
        coefficients, gains = np.ascontiguousarray(self.coefficients[:, :, bands]), self.gains[:, bands]
        image = np.empty((*details.shape[:2], gains.shape[1]), self.dtype if dtype is None else dtype)
        step = max(1, _BLOCK // max(1, image[0].size))
        with one_blas_thread():
            for start in range(0, len(image), step):
                lines = slice(start, start + step)
                block = up.at(lines, slice(None)).fine(coefficients)
                block += details[lines] @ gains
                np.multiply(block, self.unit, out=image[lines], casting="same_kind")
        return image

    def bound(self) -> float:
        """At every place the bells' values add up to one."""
        details = np.abs(self.details).max(axis=(0, 1)) @ np.abs(self.gains)
        return self.unit * float(np.abs(self.coefficients).max() + details.max())
