"""The spectral response of the MSI from two images alone: `estimate_response`.

Blurred like the HSI, band m of the MSI is the HSI seen through row m of the response, up to an offset if there is one:

    B_m ≈ H r_m + o_m,    r_m ≥ 0, smooth along the bands, zero outside its overlap.                              (1)

The HSI's noise is in the regressors: in the directions of its pixels that stand out of noise, N times that noise is
taken off the Gramian (errors in variables); the other directions, in which there is nothing else, keep it as a ridge.
Smoothness is a prior: steps between neighbouring bands have the variance of those of a box as wide as a third of its
share of the bands, so its weight follows from the residual's variance, and more noise smooths more.

A response is known in the spectral directions that the scene has, and there only: its rows may be far from the true
ones while what they make of the scene is right to a per cent. So it belongs to the pair that it was found from. Its
sums are the gains between the units of the two images.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..blas import one_blas_thread
from ..model.checks import as_cube, as_operator, as_valid, check_values
from ..model.degradation import Degradation
from ..model.types import Array, Matrix, Operator
from .map_data import Blur
from .noise import of_few_bands, of_many_bands

# Directions count as signals above so many times the largest that noise would have.
_STANDS_OUT = 1.05

# Bands further apart than so many times the usual distance are no neighbours.
_FAR = 4.0

_FEWEST = 12

# An offset that nobody asked about is believed where what it mends is so many deviations of chance and so large a part
# of what is left beyond noise, and where it is so large a part of the image: one of 0.19 costs 3 dB (`verdict.py`).
_BEYOND, _MENDS, _MATTERS = 5.0, 0.9, 0.17

# So many pixels are enough to tell whether the HSI's signals make up a constant.
_ENOUGH = 5000

# Exchanges in a row that leave as many bands of the wrong sign.
_PATIENCE = 5


@dataclass(frozen=True, eq=False)
class ResponseEstimate:
    """A spectral response, as two images show it.

    Attributes
    ----------
    PM : (MSI bands, bands) scipy.sparse.csr_array
        Non-negative; its rows sum to the gains.
    errors : (MSI bands, bands) array
        Standard errors of the entries that are not zero.
    offsets, offset_errors : (MSI bands,) arrays
        What the MSI has beside the response, in its units; zeros where none was sought.
    residual : (MSI bands,) array
        Root mean square of what is left of (1), in the MSI's units.
    expected : (MSI bands,) array
        What noise alone would leave.
    unseen_offset : float
        As large an offset of all bands, in the MSI's units, might be hidden in the response: what it would leave
        unexplained is no more than chance leaves. Zero where an offset was sought and belongs to what was found.
    """

    PM: Operator
    errors: np.ndarray
    offsets: np.ndarray
    offset_errors: np.ndarray
    residual: np.ndarray
    expected: np.ndarray
    unseen_offset: float = 0.0

    @property
    def gains(self) -> Array:
        """The sum of each row: MSI units per HSI unit."""
        return np.asarray(self.PM.sum(axis=1)).ravel()

    @property
    def misfit(self) -> float:
        """Mean square of what is left, over that which noise alone would leave."""
        return float(np.mean(self.residual**2) / max(np.mean(self.expected**2), np.finfo(float).tiny))

    def __str__(self):
        low, high, left = self.gains.min(), self.gains.max(), np.sqrt(self.misfit)
        text = (
            f"estimated for {len(self.gains)} bands, gains {low:.3g} to {high:.3g}, residual {left:.2f} times the noise"
        )
        if self.offsets.any():
            text += f", offsets {self.offsets.min():.3g} to {self.offsets.max():.3g}"
        if self.unseen_offset:
            text += f"; an offset between the images of up to {self.unseen_offset:.2g} would be hidden in it"
        return text.replace("-", "−")


def estimate_response(
    hsi: ArrayLike,
    msi: ArrayLike,
    P1: Matrix,
    P2: Matrix,
    *,
    offset: bool | None = None,
    wavelengths: ArrayLike | None = None,
    overlap: ArrayLike | None = None,
    hsi_valid: ArrayLike | None = None,
    msi_valid: ArrayLike | None = None,
    noise: Sequence[ArrayLike] | None = None,
) -> ResponseEstimate:
    """The spectral response between two images whose blur is known.

    It is known in the spectral directions that the scene has, and there only: it belongs to this pair of images.

    Parameters
    ----------
    hsi, msi : (rows, columns, bands) arrays
    P1, P2 : matrices
        The blur along rows and columns, as of `fastccpd.Degradation`.
    offset : bool, optional
        Whether an offset is sought for each band. None: where a response without one does not explain the images, and
        one with it does.
    wavelengths : (bands,) array, optional
        Centres of the HSI's bands: neighbours are those in this order. None: the order of the bands.
    overlap : (MSI bands, bands) bool array, optional
        Where the response may be other than zero. None: everywhere.
    hsi_valid, msi_valid, noise
        As of `estimate_blur`.

    Returns
    -------
    ResponseEstimate
        PM with its standard errors, the offsets, and what is left unexplained.

    Examples
    --------
    >>> from fastccpd.estimation import estimate_response
    >>> from fastccpd.imaging import degrade, preset, scenes
    >>> scene = scenes.synthetic((64, 60, 40)).cube
    >>> degradation = preset("stereo", scene.shape)
    >>> hsi, msi = degrade(scene, degradation)
    >>> found = estimate_response(hsi, msi, degradation.P1, degradation.P2)
    >>> bool(abs(scene @ found.PM.toarray().T - msi).max() < 0.02 * msi.max())
    True
    """
    hsi, msi = as_cube(hsi, "hsi"), as_cube(msi, "msi")
    identity = sparse.eye_array(1, hsi.shape[2])
    degradation = Degradation(as_operator(P1, "P1"), as_operator(P2, "P2"), identity)
    degradation.check(hsi.shape, (*msi.shape[:2], 1))
    masks = as_valid(hsi_valid, "hsi_valid", hsi.shape), as_valid(msi_valid, "msi_valid", msi.shape)
    hsi, msi = (
        image if valid is None else np.where(valid, image, image.dtype.type(0))
        for image, valid in zip((hsi, msi), masks, strict=True)
    )
    for name, image in (("hsi", hsi), ("msi", msi)):
        check_values(image, name)
    sigma = (of_many_bands(hsi, masks[0]), of_few_bands(msi, masks[1])) if noise is None else noise
    chosen = np.ones(hsi.shape[:2], bool)
    if masks[0] is not None:
        chosen &= masks[0][:, :, masks[0].any(axis=(0, 1))].all(axis=2)
    if masks[1] is not None:
        missing = np.any(~masks[1][:, :, masks[1].any(axis=(0, 1))], axis=2)
        reach = Blur(Degradation(abs(degradation.P1), abs(degradation.P2), identity))
        chosen &= reach.coarse(missing[:, :, None].astype(np.float64))[:, :, 0] == 0.0
    seen = Blur(degradation).coarse(np.ascontiguousarray(msi, dtype=np.float64))[chosen]
    squares = (np.asarray(P.multiply(P).sum(axis=1)).ravel() for P in (degradation.P1, degradation.P2))
    share = float(np.multiply.outer(*squares)[chosen].mean()) if chosen.any() else 0.0
    pixels = np.asarray(hsi[chosen], dtype=np.float64)
    sigma_hsi, sigma_msi = (np.asarray(part, dtype=np.float64) for part in sigma)
    return response_of(pixels, seen, sigma_hsi, share * sigma_msi**2, wavelengths, overlap, offset)


def response_of(
    pixels: Array,
    seen: Array,
    sigma: Array,
    seen_noise: Array,
    wavelengths: ArrayLike | None,
    overlap: ArrayLike | None,
    offset: bool | None,
) -> ResponseEstimate:
    """The `ResponseEstimate` of pixels of the HSI and what the blurred MSI shows there.

    Parameters
    ----------
    pixels : (n, bands) array
    seen : (n, MSI bands) array
    sigma : (bands,) array
        The HSI's noise.
    seen_noise : (MSI bands,) array
        The variance of the MSI's noise, blurred.
    wavelengths, overlap, offset
        As of `estimate_response`.
    """
    n, bands = pixels.shape
    number = seen.shape[1]
    if n < _FEWEST:
        raise ValueError(f"hsi: {n} of its pixels have data in both images; at least {_FEWEST} are needed")
    if offset is None:
        given = pixels, seen, sigma, seen_noise, wavelengths, overlap
        without, by_chance = response_of(*given, False), np.sqrt(2.0 / n)
        level = float(np.sqrt(np.mean(seen**2)))
        hidden = _unseen(pixels, sigma, np.sqrt(_BEYOND * by_chance * np.mean(without.expected**2)))
        without = replace(without, unseen_offset=hidden if hidden > _MATTERS * level else 0.0)
        if without.misfit <= 1.0 + _BEYOND * by_chance:
            return without
        found = response_of(*given, True)
        left = max(found.misfit, 1.0)
        size = abs(found.offsets.mean()) / level
        mends = without.misfit - left > max(_BEYOND * by_chance, _MENDS * (without.misfit - 1.0))
        return found if mends and size > _MATTERS else without
    allowed = _overlap(overlap, number, bands)
    differences = _differences(wavelengths, bands)
    means = pixels.mean(axis=0), seen.mean(axis=0)
    if offset:
        pixels, seen = pixels - means[0], seen - means[1]
    with one_blas_thread():
        second, crossed = pixels.T @ pixels, pixels.T @ seen
        gram = _without_noise(second, n, sigma)
    rows, errors, left, expected = (np.zeros(shape) for shape in ((number, bands), (number, bands), number, number))
    level, of_seen = (max(float(np.sqrt(np.mean(mean**2))), np.finfo(float).tiny) for mean in means)
    width, gain = max(2.0, bands / (3.0 * number)), of_seen / level
    smooth = differences.T @ differences / (2.0 * (gain / width) ** 2 / bands)
    for m in range(number):
        variance = float(seen_noise[m] + gain**2 * np.mean(sigma**2) / width)
        parts = np.ix_(allowed[m], allowed[m])
        with one_blas_thread():
            for _ in range(2):
                whole = gram[parts] + variance * smooth[parts]
                whole[np.diag_indices_from(whole)] += 1e-9 * np.trace(whole) / len(whole)
                found = _nonnegative(whole, crossed[allowed[m], m])
                if not found.any():  # nothing explains this band, which its residual then says
                    found = np.full(len(found), gain / len(found))
                rows[m, allowed[m]] = found
                squares = seen[:, m] @ seen[:, m] - 2.0 * crossed[:, m] @ rows[m] + rows[m] @ second @ rows[m]
                variance = max(float(squares) / n, 1e-6 * variance)
            active = np.asarray(found) > 0.0
            inverse = np.linalg.inv(whole[np.ix_(active, active)])
        errors[m, np.flatnonzero(allowed[m])[active]] = np.sqrt(np.maximum(variance * np.diag(inverse), 0.0))
        left[m], expected[m] = variance, seen_noise[m] + float(rows[m] ** 2 @ sigma**2)
    offsets = means[1] - rows @ means[0] if offset else np.zeros(number)
    spread = np.sqrt(left / n * (1.0 + _lever(means[0], gram, n))) if offset else np.zeros(number)
    return ResponseEstimate(
        PM=sparse.csr_array(rows),
        errors=errors,
        offsets=offsets,
        offset_errors=spread,
        residual=np.sqrt(left),
        expected=np.sqrt(expected),
    )


def _unseen(pixels, sigma, least):
    """The largest constant of which the HSI's signals leave no more than `least`, root mean square.

    Signs of a response are not asked for: with them some of these constants might be seen.
    """
    white = pixels[:: -(-len(pixels) // _ENOUGH)] / sigma
    n = len(white)
    with one_blas_thread():
        values, vectors = np.linalg.eigh(white.T @ white)
    kept = values > _STANDS_OUT * (np.sqrt(n) + np.sqrt(len(values))) ** 2
    along = vectors[:, kept].T @ white.sum(axis=0)
    left = 1.0 - float(np.sum(along**2 / np.maximum(values[kept] - n, 1.0))) / n
    return float(least / np.sqrt(max(left, 1e-8)))


def _nonnegative(gram, rhs):
    """The x ≥ 0 of least x'Gx/2 − x'rhs, by exchanging all bands of the wrong sign at once (Kim and Park, 2008).

    A dozen solutions of linear systems, where the classical method takes one for each band. It may go in circles, and
    then the classical one has the last word.
    """
    active = np.ones(len(rhs), bool)
    fewest, patience = len(rhs) + 1, _PATIENCE
    while patience:
        x = np.zeros(len(rhs))
        x[active] = np.linalg.solve(gram[np.ix_(active, active)], rhs[active])
        slope = gram @ x - rhs
        wrong = np.where(active, x < 0.0, slope < -1e-12 * np.abs(rhs).max())
        if not wrong.any():
            return x
        fewest, patience = (int(wrong.sum()), _PATIENCE) if wrong.sum() < fewest else (fewest, patience - 1)
        active = active ^ wrong
    from scipy.optimize import nnls

    root = np.linalg.cholesky(gram).T
    return nnls(root, np.linalg.solve(root.T, rhs), maxiter=30 * len(rhs))[0]


def _overlap(overlap, number, bands):
    if overlap is None:
        return np.ones((number, bands), bool)
    allowed = np.asarray(overlap)
    if allowed.dtype != bool or allowed.shape != (number, bands):
        raise ValueError(
            f"overlap: got {allowed.dtype} of shape {allowed.shape}; bool of {(number, bands)}, MSI bands by HSI "
            "bands, is needed"
        )
    if not allowed.any(axis=1).all():
        empty = int(np.flatnonzero(~allowed.any(axis=1))[0])
        raise ValueError(f"overlap: MSI band {empty + 1} may see no band of the HSI; leave it out")
    return allowed


def _differences(wavelengths, bands):
    """Differences between neighbouring bands, as rows."""
    D = np.diff(np.eye(bands), axis=0)
    if wavelengths is None:
        return D
    centres = np.asarray(wavelengths, dtype=np.float64)
    if centres.shape != (bands,) or not np.isfinite(centres).all():
        raise ValueError(f"wavelengths: got shape {centres.shape}; {bands} finite centres are needed")
    order = np.argsort(centres, kind="stable")
    gaps = np.diff(centres[order])
    near = gaps <= _FAR * max(float(np.median(gaps)), np.finfo(float).tiny)
    placed = np.zeros((len(D), bands))
    placed[:, order] = D
    return placed[near]


def _without_noise(second, n, sigma):
    """X'X with the noise taken off its signals."""
    values, vectors = np.linalg.eigh(second / np.outer(sigma, sigma))
    largest = (np.sqrt(n) + np.sqrt(len(values))) ** 2
    clean = np.where(values > _STANDS_OUT * largest, values - n, np.maximum(values, 0.0))
    return (vectors * clean) @ vectors.T * np.outer(sigma, sigma)


def _lever(mean, gram, n):
    """How uncertain slopes add to the variance of an offset."""
    regular = gram + 1e-9 * np.trace(gram) / len(gram) * np.eye(len(gram))
    return float(n * mean @ np.linalg.solve(regular, mean))
