"""The few spectra of which a scene is made: found in the HSI, freed of noise, and scaled for total variation.

**Number.** As many as can be told from noise in the HSI (`signals.py`), or in the MSI if those are more, and at most
thirty. What the MSI does not see of them follows the edges that it sees, and the HSI.

**Scale.** The prior expects steps of like size in all maps, but weak maps have small ones. The covariance of the steps
is that of the HSI's differences between neighbours, less their noise. With its principal spectra multiplied by the
deviations of their steps to the power 0.7, close to equal steps in all maps, the image is the best on nearly every
scene tried; with the power 1 the noise of the weakest maps would decide where edges are.

**Model error.** What the kept spectra leave of the HSI beyond its noise is no noise, but for the maps it is as good as:
it is added to the variance of each band. Of the MSI's bands it is added as the response sees it, four times, for fine
pixels differ more than coarse ones. A misplaced blur makes errors of the HSI's pixels that bands share
(`misplacement.py`): a covariance beside the noise, by which the fit trusts the HSI least where it is wrong most.

**Noise.** The spectra that belong to given coarse maps U, orthonormal, are X'U: each has white noise of the size of
X's, and is freed of it by total variation along the bands, with the weight of least risk.
"""

import time
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import dptsv  # pyright: ignore[reportAttributeAccessIssue] (made when scipy is built)

from ..model.problem import Problem
from ..model.result import Status, Trace
from ..model.types import Array, Mask, Operator
from ..threads import by_rows
from .misplacement import error_of_pixels
from .moments import Moments, eigh_signed
from .noise import Noise


@dataclass(frozen=True, eq=False)
class Subspace:
    """The spectra of a scene, in units of the noise: the second stage of the default method.

    Attributes
    ----------
    F : (bands, P) array
        Principal spectra of the HSI divided by `hsi`, each scaled for the prior.
    hsi, msi : (bands,) arrays
        The standard deviation of each band from P maps and their spectra: noise, and what they cannot explain. The
        later stages divide by it.
    signals : int
        How many spectra can be told from noise; P is at most 30.
    values : (bands,) array
        Eigenvalues of the moments by which signals are told, of the pixels divided by their noise, largest first.
    mismatch : (bands, P) array or None
        L of the covariance LL' that a misplaced blur gives the HSI's pixels beside their noise, in units of it.
    status : Status
    trace : Trace
        Empty: nothing is iterated.
    seconds : float
    """

    F: np.ndarray
    hsi: np.ndarray
    msi: np.ndarray
    signals: int
    values: np.ndarray
    mismatch: np.ndarray | None = None
    status: Status = Status.FINISHED
    trace: Trace = field(default_factory=Trace)
    seconds: float = 0.0


# Weights of the total variation along the bands of a spectrum with noise 1, and what counts as no step there.
_ALONG_BANDS, _NO_STEP = (0.25, 0.5, 1.0, 2.0), 0.05

# The least variance of a map's own steps, in units of their noise: below it, it cannot be told.
_FAINTEST = 0.3

# The power of the deviations of steps that maps are scaled with.
_POWER = 0.7

# More spectra than this were never worth their time.
MOST = 30

# How much larger the variance of what is not explained is at fine pixels than at coarse ones.
_FINER = 4.0


def subspace_of(problem: Problem, noise: Noise, *, most: int = MOST) -> Subspace:
    """The `Subspace` that the HSI shows.

    Parameters
    ----------
    problem : Problem
    noise : Noise
        Of `noise_of(problem)`.
    most : int
        The most spectra.

    Returns
    -------
    Subspace
    """
    return subspace_from(problem.degradation.PM, noise, most=most)


def subspace_from(PM: Operator, noise: Noise, *, most: int = MOST) -> Subspace:
    """The `Subspace` of a scene by its `Noise`, which has all that is needed of the HSI.

    Parameters
    ----------
    PM : (MSI bands, bands) matrix
        The response of the MSI.
    noise : Noise
        Of `noise_from`.
    most : int
        The most spectra.

    Returns
    -------
    Subspace
    """
    began = time.perf_counter()
    whitened, count = noise.moments.divided(noise.hsi_floored), max(noise.moments.count, 1)
    second = whitened.second / count
    spectrum = noise.spectrum
    E = spectrum.vectors[:, : max(1, min(spectrum.signals, most))]
    rest = np.eye(len(E)) - E @ E.T
    left = rest @ second @ rest
    hsi = noise.hsi_floored * np.sqrt(1.0 + _beyond(left, E, np.eye(len(E)), count))
    unseen = _beyond(left, E, PM.toarray() * noise.hsi_floored, count)
    msi = np.sqrt(noise.msi_floored**2 + _FINER * unseen)
    basis = np.linalg.qr(E * (noise.hsi_floored / hsi)[:, None])[0]
    differences = noise.differences.divided(hsi)
    F = scaled(basis, differences)
    mismatch = error_of_pixels(differences, basis, PM.toarray() * hsi, np.square(noise.misplacement))
    return Subspace(F, hsi, msi, spectrum.signals, spectrum.values, mismatch, seconds=time.perf_counter() - began)


def known_noise(problem: Problem, noise: Noise, subspace: Subspace) -> float:
    """Which part of the variance that the fit divides by is noise that was found in the images."""
    sigmas = zip((noise.hsi, noise.msi), (subspace.hsi, subspace.msi))
    shares = [np.square(np.minimum(found / used, 1.0)).mean() for found, used in sigmas]
    return float(np.average(shares, weights=problem.sizes))


def _beyond(left, E, response, count):
    """What `response` sees of the second moments that E leaves, less their noise and three of its standard errors."""
    seen, signals = (response @ left * response).sum(axis=1), response @ E
    noise = np.square(response).sum(axis=1) - np.square(signals).sum(axis=1)
    return np.maximum(seen - (1.0 + 3.0 * np.sqrt(2.0 / count)) * noise, 0.0)


def scaled(E: Array, differences: Moments) -> Array:
    """The principal spectra of the differences within orthonormal E, each scaled for the prior."""
    variances, turn = eigh_signed(E.T @ (differences.second / max(differences.count, 1)) @ E)
    own = np.maximum(variances - 2.0, 2.0 * _FAINTEST)  # two pixels' noise is in a difference
    return (E @ turn) * (own / own[-1]) ** (0.5 * _POWER)


def spectra_of(coarse: Array, pixels: Array, known: Mask | None = None, sigma: Array | float = 1.0) -> Array:
    """An orthonormal basis of the spectra that belong to the coarse maps, freed of noise.

    Parameters
    ----------
    coarse : (n, P) array
        The maps at the HSI's pixels.
    pixels : (n, bands) array
        The HSI's pixels.
    known : (bands,) bool array, optional
        The bands that have data; the others stay zero.
    sigma : (bands,) array or float
        Their noise.
    """
    U, sizes, _ = np.linalg.svd(coarse, full_matrices=False)
    U = U[:, sizes > 1e-10 * sizes[0]] if sizes[0] > 0.0 else U[:, :1]
    parts = by_rows(lambda part: (pixels[part] / sigma).T @ U[part], *pixels.shape)
    return _freed_of_noise(sum(parts), known)


def spectra_from(gram: Array, cross: Array, known: Mask | None = None) -> Array:
    """What `spectra_of` gives, by sums over the pixels: of coarse maps B and pixels X, B'B and X'B.

    They are additive: U = B V / s with B'B = V s² V', so X'U = (X'B) V / s.

    Parameters
    ----------
    gram : (P, P) array
    cross : (bands, P) array
    known : (bands,) bool array, optional
    """
    values, V = eigh_signed(gram)
    values, V = values[::-1], V[:, ::-1]
    kept = values > 1e-20 * values[0] if values[0] > 0.0 else np.arange(len(values)) < 1
    return _freed_of_noise(cross @ V[:, kept] / np.sqrt(np.maximum(values[kept], 1e-300)), known)


def _freed_of_noise(spectra, known):
    """An orthonormal basis of spectra with noise 1, freed of it."""
    known = np.ones(len(spectra), bool) if known is None else known
    spectra[known] = smoothed(spectra[known])
    return np.linalg.qr(spectra)[0]


def smoothed(spectra: Array) -> Array:
    """(bands, n) spectra with noise 1, freed of it: total variation along the bands, each with the best weight by risk.

    All of them are one tridiagonal system, whose blocks do not touch.
    """
    f = np.ascontiguousarray(spectra.T)
    best, least, w = f.copy(), np.full(len(f), float(f.shape[1])), np.zeros(f.shape)
    for weight in _ALONG_BANDS if f.shape[1] > 2 else ():
        u = f
        for _ in range(30):
            w[:, :-1] = weight / np.sqrt(np.square(np.diff(u)) + (0.2 * _NO_STEP) ** 2)
            diagonal = 1.0 + w
            diagonal[:, 1:] += w[:, :-1]
            u = dptsv(diagonal.ravel(), -w.ravel()[:-1], f.ravel())[2].reshape(f.shape)
        # In one dimension the degrees of freedom are the constant pieces.
        pieces = 1 + (np.abs(np.diff(u)) > _NO_STEP).sum(axis=1)
        risk = np.square(f - u).sum(axis=1) - f.shape[1] + 2.0 * pieces
        better = risk < least
        best[better], least[better] = u[better], risk[better]
    return best.T
