"""A blur that is not that of the images: how much of what they disagree about it explains, and what it does to the HSI.

Were the true operator shifted against P, or a little wider or narrower, the HSI would show

    P̃ Z = P Z + Σ_i c_i G_i Z,      G_1 = P1' ⊗ P2,  G_2 = P1 ⊗ P2',  G_3 = P1'' ⊗ P2 + P1 ⊗ P2'',                 (1)

to first order in the two shifts and the change of width c. Of a Gaussian g of width v the derivatives are −x/v² g and
(x²/v² − 1)/v² g: the row's own taps times a polynomial of their places. So are they made here of any blur, which then
reaches no further than it did.

Bands seen by a wrong response are wrong in proportion to what the HSI shows at the same pixel; a misplaced one is not.
So P Y_M is regressed on the HSI's signals, all that a response, a gain or an offset can do, and on G_i Y_M with one c_i
for all bands. Where the latter explain more than chance does, the blur is wrong, and the variance of Σ c_i G_i Y_M is
what that is worth in each band. It all follows from the second moments of (P Y_M, Y_H, G_i Y_M), which are additive.

A misplaced pixel is wrong by its differences to its neighbours. So is the whole spectrum: its error has the covariance
of the HSI's differences, times what makes it as large as was found in the MSI's bands.
"""

import numpy as np

from ..kernels.maps import along
from ..model.degradation import Degradation
from ..model.types import Array, Operator
from .map_data import compressed_rows
from .moments import Moments, eigh_signed

# The least that χ² must fall by for c to be other than zero: three numbers, and four standard errors.
_RARE = 25.0

# What is left of a regression is no less than this part of what there was: rounding.
_ROUNDING = 1e-12


def misplaced(degradation: Degradation, image: Array) -> Array:
    """G_1, G_2 and G_3 of an image, side by side as bands: (coarse rows, coarse columns, 3 bands).

    Parameters
    ----------
    degradation : Degradation
    image : (rows, columns, bands) array
    """
    P1, P2 = degradation.P1, degradation.P2
    (slope1, curve1), (slope2, curve2) = _derivatives(P1), _derivatives(P2)

    def seen(rows, columns):
        return along(compressed_rows(columns), along(compressed_rows(rows), image, axis=0), axis=1)

    return np.concatenate([seen(slope1, P2), seen(P1, slope2), seen(curve1, P2) + seen(P1, curve2)], axis=2)


def _derivatives(P: Operator) -> tuple[Operator, Operator]:
    """P' and P'': taps times a polynomial of their places, as if each row were samples of a Gaussian."""
    P = P.tocsr().astype(np.float64, copy=True)
    size, weights = P.shape[1], np.abs(P.data)
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    peaks = np.zeros(P.shape[0], np.int64)
    order = np.argsort(weights, kind="stable")
    peaks[rows[order]] = P.indices[order]  # the largest tap of each row is written last
    # A periodic blur wraps round: places are counted from the peak, the shorter way.
    places = (P.indices - peaks[rows] + size // 2) % size - size // 2

    def mean(values):
        sums = np.bincount(rows, weights * values, minlength=P.shape[0])
        return sums / np.maximum(np.bincount(rows, weights, minlength=P.shape[0]), 1e-300)

    places = places - mean(places)[rows]
    width2 = mean(places**2)
    inverse = np.where(width2 > 0.0, 1.0 / np.maximum(width2, 1e-300), 0.0)[rows]
    slope, curve = P.copy(), P.copy()
    slope.data = P.data * places * inverse
    curve.data = P.data * (places**2 * inverse - 1.0) * inverse
    return slope, curve


def explained(moments: Moments, bands: int, signals: Array, noise: float = 0.0) -> tuple[Array, Array]:
    """c, and the variance of Σ c_i G_i Y_M in each of the MSI's bands, in the moments' units; zeros if c may be zero.

    Parameters
    ----------
    moments : Moments
        Of (P Y_M, Y_H, G_1 Y_M, G_2 Y_M, G_3 Y_M).
    bands : int
        The MSI's.
    signals : (HSI bands, signals) array
        What the HSI's pixels are multiplied by to give their signals.
    noise : float
        The variance of the noise of each signal, which is taken off them: a regression on noisy signals leaves some of
        each, and edges most. Zero where what a regression leaves is only judged, and not believed.
    """
    covariance, n = moments.covariance(), moments.count
    M, K = bands, len(signals)
    x = slice(M, M + K)
    free, nothing = n - signals.shape[1] - 1, (np.zeros(3), np.zeros(M))
    if free < 2 * M or len(covariance) != 4 * M + K:
        return nothing
    parts = [slice(0, M), *(slice(M + K + i * M, M + K + (i + 1) * M) for i in range(3))]
    within = signals.T @ covariance[x, x] @ signals - noise * np.eye(signals.shape[1])
    to_signals = [np.linalg.lstsq(within, signals.T @ covariance[x, part], rcond=1e-10)[0] for part in parts]

    def left(i, j):
        """The covariance, band by band, of parts i and j after the regression on the signals."""
        whole = np.diag(covariance[parts[i], parts[j]])
        return whole - np.einsum("pm,pm->m", to_signals[i], signals.T @ covariance[x, parts[j]])

    rest = np.maximum(left(0, 0), _ROUNDING * np.diag(covariance)[:M])
    weights = np.where(rest > 0.0, 1.0 / np.maximum(rest, 1e-300), 0.0)
    normal = np.array([[weights @ left(i, j) for j in (1, 2, 3)] for i in (1, 2, 3)])
    right = np.array([weights @ left(i, 0) for i in (1, 2, 3)])
    c = np.linalg.lstsq(normal, right, rcond=1e-10)[0]
    share = float(c @ right) / M  # of what is left of a band, in the mean
    if free * M * share < _RARE * max(1.0 - share, _ROUNDING):
        return nothing
    G = [np.diag(covariance[parts[i], parts[j]]) for i in (1, 2, 3) for j in (1, 2, 3)]
    return c, np.maximum(np.einsum("i,im->m", np.outer(c, c).ravel(), np.array(G)), 0.0)


def error_of_pixels(differences: Moments, E: Array, response: Array, variance: Array) -> Array | None:
    """L of the covariance LL' that misplacement gives the HSI's pixels, in units of their noise; None if it gives none.

    Parameters
    ----------
    differences : Moments
        Of the differences between the HSI's neighbours, in units of the noise.
    E : (bands, signals) array
        The signals, orthonormal.
    response : (MSI bands, bands) array
        Of pixels in units of the noise.
    variance : (MSI bands,) array
        What misplacement is worth in each of them.
    """
    if not variance.any():
        return None
    variances, turn = eigh_signed(E.T @ (differences.second / max(differences.count, 1)) @ E)
    L = E @ turn * np.sqrt(np.maximum(variances - 2.0, 0.0))  # two pixels' noise is in a difference
    seen = np.square(response @ L).sum()
    return L * np.sqrt(variance.sum() / seen) if seen > 0.0 else None
