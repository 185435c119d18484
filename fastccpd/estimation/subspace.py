"""The few spectra of which a scene is made: found in the HSI, freed of noise, and scaled for total variation.

**Number.** As many as the HSI has singular values that are worth keeping in its noise (`noise.py`), and at most as many
as the MSI has bands: more maps cannot be told apart on the fine grid.

**Scale.** Total variation expects steps of like size in all maps, but weak maps have small ones. With each principal
spectrum multiplied by the square root of its map's deviation, half-way between equal steps in the data's units and
equal steps in units of each map, the estimated risk is the least on nearly every scene tried.

**Noise.** The spectra that belong to given coarse maps U, orthonormal, are X'U: each has white noise of the size of
X's, and is freed of it by total variation along the bands, with the weight of least risk.
"""

import time
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solveh_banded

from ..model.result import Status, Trace
from ..model.types import Array, Mask
from .moments import Moments, eigh_signed
from .noise import Noise, spectrum_of

# Weights of the total variation along the bands of a spectrum with noise 1, and what counts as no step there.
_ALONG_BANDS, _NO_STEP = (0.25, 0.5, 1.0, 2.0), 0.05

# The least variance of a map's own, in units of its noise: below it, it cannot be told.
_FAINTEST = 0.3


@dataclass(frozen=True, eq=False)
class Subspace:
    """The spectra of a scene, in units of the noise: the second stage of the default method.

    Attributes
    ----------
    F : (bands, P) array
        Principal spectra of the HSI divided by its noise, each scaled for total variation.
    signals : int
        How many singular values of the HSI are above its noise; P is at most the number of the MSI's bands.
    values : (bands,) array
        Eigenvalues of X'X, X the pixels divided by their noise, largest first.
    status : Status
    trace : Trace
        Empty: nothing is iterated.
    seconds : float
    """

    F: np.ndarray
    signals: int
    values: np.ndarray
    status: Status = Status.FINISHED
    trace: Trace = field(default_factory=Trace)
    seconds: float = 0.0


def subspace_of(noise: Noise, *, most: int) -> Subspace:
    """The `Subspace` that the HSI shows.

    Parameters
    ----------
    noise : Noise
        Of `noise_of(problem)`.
    most : int
        The most spectra: the number of the MSI's bands.
    """
    began = time.perf_counter()
    whitened = noise.moments.divided(noise.hsi_floored)
    spectrum = spectrum_of(whitened.second, max(whitened.count, 1), np.ones(len(whitened.total)))
    leading = spectrum.vectors[:, : max(1, min(spectrum.signals, most))]
    F = scaled(leading, whitened)
    return Subspace(F, spectrum.signals, spectrum.values, seconds=time.perf_counter() - began)


def scaled(E: Array, whitened: Moments) -> Array:
    """The principal spectra within orthonormal E, each times the square root of its map's relative deviation."""
    variances, turn = eigh_signed(E.T @ whitened.covariance() @ E)
    own = np.maximum(variances - 1.0, _FAINTEST)
    return (E @ turn) * (own / own[-1]) ** 0.25


def spectra_of(coarse: Array, pixels: Array, known: Mask | None = None) -> Array:
    """An orthonormal basis of the spectra that belong to the coarse maps, freed of noise.

    Parameters
    ----------
    coarse : (n, P) array
        The maps at the HSI's pixels.
    pixels : (n, bands) array
        The HSI's pixels divided by their noise.
    known : (bands,) bool array, optional
        The bands that have data; the others stay zero.
    """
    U, sizes, _ = np.linalg.svd(coarse, full_matrices=False)
    U = U[:, sizes > 1e-10 * sizes[0]] if sizes[0] > 0.0 else U[:, :1]
    spectra = pixels.T @ U
    known = np.ones(len(spectra), bool) if known is None else known
    for f in spectra.T:
        f[known] = smoothed(f[known])
    return np.linalg.qr(spectra)[0]


def smoothed(f: Array) -> Array:
    """A spectrum with noise 1, freed of it: total variation along the bands, with the weight of least risk."""
    best, least = f, float(len(f))
    for weight in _ALONG_BANDS if len(f) > 2 else ():
        u = f
        for _ in range(30):
            w = weight / np.sqrt(np.square(np.diff(u)) + (0.2 * _NO_STEP) ** 2)
            bands = np.ones((2, len(f)))
            bands[0, 1:] = -w
            bands[1, :-1] += w
            bands[1, 1:] += w
            u = solveh_banded(bands, f)
        # In one dimension the degrees of freedom are the constant pieces.
        pieces = 1 + int((np.abs(np.diff(u)) > _NO_STEP).sum())
        risk = float(np.square(f - u).sum()) - len(f) + 2.0 * pieces
        if risk < least:
            best, least = u, risk
    return best


def with_bands_between(spectra: Array, known: Mask) -> Array:
    """The spectra, every band without data set between its neighbours."""
    bands = np.arange(len(spectra))
    return np.stack([np.interp(bands, bands[known], column[known]) for column in spectra.T], axis=1)
