"""A scene of the bands that the HSI has: what a fit leaves out, and how it comes back.

Of a band without any data the HSI says nothing, and the MSI only what it sees of it among other bands. Left free in a
fit, its spectra would explain what is left of the MSI, noise and all, at the cost of every band. So it is left out:
what is fitted is the scene of the K' bands that have data, as if the others had never been. Each band of the MSI sees
those of its bands that are left, with weights that sum to as much as before; one of which nothing is left goes too.

**What comes back.** A band without data is W times the known ones. It lies between its neighbours (it is the nearest
one, at an end), and where a band m of the MSI sees it, that is corrected: blurred as the HSI is, P1 m P2' is at every
pixel of the HSI what the bands sum to, so less what is known of them it is data of the missing ones, with little noise.
What the interpolation leaves of it is regressed on the known bands, by the ridge that predicts best (leave-one-out).
"""

from dataclasses import dataclass, replace

import numpy as np

from .degradation import Degradation
from .problem import Factors, Maps, Mixture, Problem
from .types import Array, Mask, Renderable

# Pixels that are needed to learn from.
_FEWEST = 16

# A band of the MSI of whose weights less than this part is left sees nothing.
_LEAST = 1e-3

_TINY = np.finfo(float).tiny

# Weights of a ridge, as parts of the largest squared singular value.
_RIDGES = tuple(10.0**-n for n in range(7))


@dataclass(frozen=True, eq=False)
class KnownBands:
    """The bands that have data, and the scene of these alone.

    Attributes
    ----------
    problem : Problem
        Of the K' bands that have data.
    known : (K,) bool array
        Which they are.
    seen : (K_M,) bool array
        The bands of the MSI that see any of them.
    weights : (K, K') array
        W: every band by those that have data.
    """

    problem: Problem
    known: np.ndarray
    seen: np.ndarray
    weights: np.ndarray

    def whole_spectra(self, spectra: Array) -> Array:
        """(K', n) → (K, n); what is non-negative stays so."""
        whole = self.weights @ spectra
        return np.maximum(whole, 0.0) if spectra.min() >= 0.0 else whole

    def whole_factors(self, factors: Factors) -> Factors:
        """The factors of the whole scene."""
        return Factors(factors.A, factors.B, self.whole_spectra(factors.C))

    def whole_maps(self, maps: Maps) -> Maps:
        """The maps of the whole scene."""
        return Maps(maps.Z, self.weights @ maps.S)

    def whole_image(self, image: Array | Renderable) -> Array | Mixture:
        """The image of the whole scene, row by row: no second one in float64."""
        if isinstance(image, Mixture):
            return Mixture(image.Z, self.whole_spectra(image.S))
        if not isinstance(image, np.ndarray):
            image = image.render(None, None, None, self.problem.dtype)
        whole = np.empty((*image.shape[:2], len(self.known)), image.dtype)
        for row, found in zip(whole, image, strict=True):
            row[...] = self.whole_spectra(found.T).T
        return whole


def known_bands(problem: Problem) -> KnownBands | None:
    """The `KnownBands` of a problem; None where all bands have data, or too few for the MSI to see."""
    if problem.hsi_valid is None:
        return None
    known = np.asarray(problem.hsi_valid.any(axis=(0, 1)))
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM.toarray()
    left = PM[:, known].sum(axis=1)
    seen = np.abs(left) > _LEAST * np.abs(PM).sum(axis=1)
    if known.all() or not 0 < seen.sum() <= known.sum():
        return None
    response = PM[seen][:, known] * (PM[seen].sum(axis=1) / left[seen])[:, None]
    alone = replace(
        problem,
        hsi=problem.hsi[:, :, known],
        msi=problem.msi[:, :, seen],
        degradation=Degradation(P1, P2, response),
        check_finite=False,
        hsi_valid=problem.hsi_valid[:, :, known],
        msi_valid=None if problem.msi_valid is None else problem.msi_valid[:, :, seen],
    )
    return KnownBands(alone, known, seen, _weights(problem, known, PM))


def _weights(problem, known, PM):
    """W: between the neighbours, and where the MSI sees a band, as it says."""
    P1, P2 = problem.degradation.P1, problem.degradation.P2
    weights = bands_between(np.eye(len(known))[:, known], known)
    whole = problem.hsi_valid[:, :, known].all(axis=2)
    sees_most = np.abs(PM).argmax(axis=0)
    for m in np.flatnonzero(PM[:, ~known].any(axis=1)):
        pixels = whole
        if problem.msi_valid is not None:
            pixels = whole & (abs(P1) @ ~problem.msi_valid[:, :, m] @ abs(P2).T == 0.0)
        if pixels.sum() < _FEWEST:
            continue
        spectra = problem.hsi[pixels][:, known].astype(np.float64, copy=False)
        left = (P1 @ problem.msi[:, :, m] @ P2.T)[pixels] - spectra @ (PM[m] @ weights)
        own = ~known & (sees_most == m) & (PM[m] != 0.0)
        weights[own] += np.outer(PM[m, own], _regressed(spectra, left)) / max(np.square(PM[m, own]).sum(), _TINY)
    return weights


def _regressed(X, y):
    """d of min ‖y − X d‖² + ρ‖d‖², with the ρ that predicts each of y best by the others; zero, if that is best."""
    U, sizes, Vt = np.linalg.svd(X, full_matrices=False)
    best, least, inside = np.zeros(X.shape[1]), float(np.square(y).sum()), U.T @ y
    for ridge in _RIDGES if sizes[0] > 0.0 else ():
        damped = sizes / (sizes**2 + ridge * sizes[0] ** 2)
        leverage = np.square(U) @ (sizes * damped)
        error = float(np.square((y - U @ (sizes * damped * inside)) / np.maximum(1.0 - leverage, _TINY)).sum())
        if error < least:
            best, least = Vt.T @ (damped * inside), error
    return best


def bands_between(spectra: Array, known: Mask) -> Array:
    """The spectra, every band without data set between its neighbours."""
    bands = np.arange(len(spectra))
    return np.stack([np.interp(bands, bands[known], column[known]) for column in spectra.T], axis=1)
