"""A scene as a few maps times a few spectra, freed of noise by total variation: the prior of "nn-ccpd-auto".

The scene is Z S', maps Z (I, J, P) and spectra S (K, P). Every band is divided by its noise σ, so that a misfit of 1 is
one standard deviation. With S = diag(σ_H) F the most probable maps minimise

    ½ ‖Y_H − (P Z) F'‖² + ½ ‖Y_M − Z R'‖² + λ TV(Z),     P = P1 ⊗ P2,  R = diag(1/σ_M) PM S,                    (1)

a convex problem. TV couples the maps, so that they share their edges; it is bounded by reweighted squares
(kernels/maps.py), and each quadratic is solved by preconditioned conjugate gradients.

P   is the number of singular values of the HSI that are worth keeping in its noise (`noise.py`), and at most the number
    of the MSI's bands: more maps cannot be told apart on the fine grid.
F   spans the HSI's leading singular vectors; then, once the maps are roughly known, the spectra that belong to P Z.
    Those have white noise of known size, and are freed of it by total variation along the bands.
    Its columns are scaled: TV expects steps of like size in all maps, but weak maps have small ones. With each
    principal spectrum multiplied by the square root of its map's deviation, half-way between equal steps in the data's
    units and equal steps in units of each map, the estimated risk below is the least on nearly every scene tried.
λ   is the one of least estimated risk. Stein's unbiased estimate of Σ (fit − truth)²/σ² over all data is

        χ² − N + 2 tr(∂fit/∂data),                                                                          (2)

    and the trace is had from a second fit to data with a known disturbance added: <change of fit, disturbance>. Both
    fits follow λ downwards from strong smoothing, each from the one before, until the estimate rises.

Missing data have no part in (1): every pixel has the Gramian R'R of the bands that it has.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from ..kernels._arrays import readonly
from ..kernels._jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.maps import along, curvature, edge_weights
from ..kernels.vectors import dot
from ..solver.pcg import steihaug
from . import noise

# λ in units of sqrt(largest eigenvalue of R'R), the inverse of the noise of the map that the MSI sees best: where the
# path begins, by what it goes on, where it ends.
STRONGEST, STEP, WEAKEST = 1.7, 0.6, 0.01

# Reweighted squares for each λ, and conjugate gradient steps for each of them.
REWEIGHTINGS, CG_STEPS, CG_RTOL = 3, 40, 0.1

# Differences below this part of the noise of the best map count as none.
_ROUNDING = 0.025

# Strength of the first, quadratic smoothing, and of the total variation that the spectra are found with.
_FIRST, _FOR_SPECTRA = 8.0, 1.6

# Weights of the total variation along the bands of a spectrum with noise 1, and what counts as no step there.
_ALONG_BANDS, _NO_STEP = (0.25, 0.5, 1.0, 2.0), 0.05

# The least variance of a map's own, in units of its noise: below it, it cannot be told.
_FAINTEST = 0.3

_DISTURBANCE = 0.1

# Pixels, as the standard deviation of a Gaussian, over which an expected error is spread.
_NEIGHBOURHOOD = 2.0


@dataclass(frozen=True, eq=False)
class FittedMaps:
    """The maps and spectra of a scene.

    Attributes
    ----------
    Z : (I, J, P) array
    spectra : (K, P) array
    strength : float
        λ, in units of the inverse noise of the best map.
    misfit, degrees, risk : float
        χ² over all data, effective degrees of freedom of the maps, and the estimated risk (2), spectra included.
    deviation : (I, J) array
        Expected error of a pixel, root mean square over bands.
    """

    Z: np.ndarray
    spectra: np.ndarray
    strength: float
    misfit: float
    degrees: float
    risk: float
    deviation: np.ndarray


def fit(problem, sigma_H, sigma_M, rng, out_of_time=lambda: False):
    """The `FittedMaps` of a problem whose bands have the noise sigma_H, sigma_M.

    `rng` draws the disturbance; when `out_of_time()`, the best λ so far is taken.
    """
    chosen, fill = noise.complete(problem.hsi, problem.hsi_valid)
    pixels = noise.pixels_of(problem.hsi, chosen, fill) / sigma_H
    F = _scaled(_leading(pixels, most=problem.msi.shape[2]), pixels)
    data = _Data(problem, F, sigma_H, sigma_M)
    path = _Path(data, np.zeros(data.target.shape))
    path.smooth(_FIRST)
    for _ in range(2):
        path.descend(_FOR_SPECTRA)

    F = _scaled(_spectra_of(noise.pixels_of(data.coarse(path.Z), chosen), pixels), pixels)
    before, data = data, _Data(problem, F, sigma_H, sigma_M)
    path = _Path(data, path.Z @ (before.F.T @ np.linalg.pinv(data.F).T))  # the same scene, by the new spectra
    del before
    disturbance = data.disturbance(rng)
    disturbed = _Path(data, path.Z.copy(), data.target + _DISTURBANCE * disturbance)
    best, strength = None, STRONGEST
    while strength > WEAKEST and (best is None or not out_of_time()):
        path.descend(strength)
        disturbed.descend(strength)
        degrees = dot(disturbed.Z - path.Z, disturbance) / _DISTURBANCE
        misfit = data.misfit(path.Z)
        risk = misfit - data.size + 2.0 * (degrees + F.size)
        if best is None:
            smoothest = path.Z.copy()
        elif risk > best[-1]:
            break
        best = path.Z.copy(), strength, misfit, degrees, risk
        strength *= STEP
    Z, strength, misfit, degrees, risk = best
    deviation = _deviation(Z, (smoothest, path.Z), data) * np.sqrt(np.mean(np.square(sigma_H)))
    spectra = _with_bands_between(sigma_H[:, None] * data.F, problem.hsi_valid)
    return FittedMaps(Z, spectra, strength, misfit, degrees, max(risk, degrees), deviation)


class _Image:
    """One image, divided by its noise, as (1) sees it: R'Y and R'R at each pixel, ‖Y‖², and how many data it has."""

    def __init__(self, image, R, sigma, valid):
        scaled = R / sigma[:, None]
        if valid is None:
            self.kinds, self.grams = np.zeros(image.shape[:2], np.int64), (R.T @ R)[None]
            self.size = image.size
        else:
            # Pixels that have the same bands share a Gramian.
            packed = np.packbits(valid, axis=2).reshape(-1, -(-len(R) // 8))
            patterns, kinds = np.unique(packed, axis=0, return_inverse=True)
            bands = np.unpackbits(patterns, axis=1, count=len(R)).astype(bool)
            self.kinds = np.ascontiguousarray(kinds.reshape(image.shape[:2]), np.int64)
            self.grams = np.array([R[has].T @ R[has] for has in bands])
            self.size = int(valid.sum())
        # A problem's images are zero where they have no data.
        self.projected = np.array([row @ scaled for row in image])
        self.energy = sum(float(np.einsum("jk,jk,k->", row, row, sigma**-2.0)) for row in image)

    def product(self, Z, weights=None):
        """R'R Z, pixel by pixel, with weighted differences if there are weights."""
        out = np.empty(Z.shape)
        if weights is None:
            weights = np.zeros(Z.shape[:2])
        curvature(*map(readonly, (Z, self.kinds, self.grams, weights)), out,
                  work=2.0 * Z.size * (Z.shape[2] + 10), least=LEAST)  # fmt: skip
        return out

    def drawn(self, rng):
        """R' times white noise."""
        values, vectors = np.linalg.eigh(self.grams)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        white = rng.standard_normal((*self.kinds.shape, self.grams.shape[1]))
        return np.einsum("ijpq,ijq->ijp", roots[self.kinds], white) if len(roots) > 1 else white @ roots[0].T


class _Data:
    """The quadratic part of (1) for one F: both images, and the blur between the maps and the HSI."""

    def __init__(self, problem, F, sigma_H, sigma_M):
        P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
        R = (PM @ (sigma_H[:, None] * F)) / sigma_M[:, None]
        # TV does not mind a rotation of the maps. Where R'R is diagonal, a diagonal preconditioner does most.
        values, turn = np.linalg.eigh(R.T @ R)
        self.F = F @ turn
        self.hsi = _Image(problem.hsi, self.F, sigma_H, problem.hsi_valid)
        self.msi = _Image(problem.msi, R @ turn, sigma_M, problem.msi_valid)
        self.size = self.hsi.size + self.msi.size
        self._ahead, self._back = [rows_of(P) for P in (P1, P2)], [rows_of(P.T) for P in (P1, P2)]
        self.target = self._fine(self.hsi.projected)
        self.target += self.msi.projected
        del self.msi.projected, self.hsi.projected  # stacks of maps are what this module's memory is made of
        coverage = np.multiply.outer(*(np.asarray(P.multiply(P).sum(axis=0)).ravel() for P in (P1, P2)))
        by_hsi = coverage[:, :, None] * np.einsum("npp->np", self.hsi.grams).max(axis=0)
        self.diagonal = np.einsum("npp->np", self.msi.grams)[self.msi.kinds] + by_hsi
        self.unit = np.sqrt(max(values[-1], by_hsi.max(), 1e-300))

    def coarse(self, Z):
        """P Z."""
        return along(self._ahead[0], along(self._ahead[1], Z, axis=1), axis=0)

    def _fine(self, H):
        """P' H."""
        return along(self._back[1], along(self._back[0], H, axis=0), axis=1)

    def product(self, Z, weights=None):
        """The Hessian of the quadratic part, with weighted differences, times Z."""
        out = self.msi.product(Z, weights)
        out += self._fine(self.hsi.product(self.coarse(Z)))
        return out

    def misfit(self, Z):
        """χ² over both images."""
        return max(0.0, self.hsi.energy + self.msi.energy - 2.0 * dot(Z, self.target) + dot(Z, self.product(Z)))

    def disturbance(self, rng):
        """What white noise of size 1 on all data adds to `target`."""
        total = self.msi.drawn(rng)
        total += self._fine(self.hsi.drawn(rng))
        return total


class _Path:
    """Maps that follow λ: each fit begins where the last one ended."""

    def __init__(self, data, Z, target=None):
        self.data, self.Z = data, np.ascontiguousarray(Z)
        self.target = data.target if target is None else target
        self.weights = np.empty(self.Z.shape[:2])

    def smooth(self, strength):
        """Quadratic smoothing, to begin with."""
        self.weights[...] = strength * self.data.unit**2
        self._solve()

    def descend(self, strength):
        """Fit with λ = strength."""
        for _ in range(REWEIGHTINGS):
            edge_weights(readonly(self.Z), strength * self.data.unit, _ROUNDING / self.data.unit, self.weights,
                         work=10.0 * self.Z.size, least=LEAST)  # fmt: skip
            self._solve()

    def _solve(self):
        inverse = np.maximum(self._diagonal(), 1e-300)
        np.reciprocal(inverse, out=inverse)
        gradient = self.data.product(self.Z, self.weights) - self.target
        step = steihaug(gradient, lambda z: self.data.product(z, self.weights), lambda r: inverse * r,
                        radius=np.inf, max_iter=CG_STEPS, rtol=CG_RTOL)  # fmt: skip
        self.Z += step.p

    def _diagonal(self):
        """Of the Hessian: the data's, and the weights of the differences that each pixel is part of."""
        w, own = self.weights, np.zeros(self.weights.shape)
        own[:-1] += w[:-1]
        own[1:] += w[:-1]
        own[:, :-1] += w[:, :-1]
        own[:, 1:] += w[:, :-1]
        return self.data.diagonal + own[:, :, None]


def _leading(pixels, most):
    """The leading singular vectors of the HSI that are worth keeping in noise of size 1."""
    spectrum = noise.spectrum_of(pixels.T @ pixels, max(len(pixels), 1), np.ones(pixels.shape[1]))
    return spectrum.vectors[:, : max(1, min(spectrum.signals, most))]


def _scaled(E, pixels):
    """The principal spectra within orthonormal E, each times the square root of its map's relative deviation."""
    maps = pixels @ E
    maps = maps - maps.mean(axis=0)
    variances, turn = np.linalg.eigh(maps.T @ maps / len(maps))
    own = np.maximum(variances - 1.0, _FAINTEST)
    return (E @ turn) * (own / own[-1]) ** 0.25


def _spectra_of(coarse, pixels):
    """An orthonormal basis of the spectra that belong to the coarse maps, freed of noise."""
    U, sizes, _ = np.linalg.svd(coarse, full_matrices=False)
    U = U[:, sizes > 1e-10 * sizes[0]] if sizes[0] > 0.0 else U[:, :1]
    # U is orthonormal, so each column of pixels'U has white noise of size 1.
    return np.linalg.qr(np.stack([_along_bands(f) for f in (pixels.T @ U).T], axis=1))[0]


def _along_bands(f):
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


def _with_bands_between(spectra, valid):
    """The spectra, every band that the HSI lacks altogether set between its neighbours."""
    known = np.ones(len(spectra), bool) if valid is None else valid.any(axis=(0, 1))
    bands = np.arange(len(known))
    return np.stack([np.interp(bands, bands[known], column[known]) for column in spectra.T], axis=1)


def _deviation(Z, others, data):
    """The expected error of each pixel, root mean square over bands, where the noise of a band is 1.

    Its square has three parts: the error of the spectra, z'(B'B)⁻¹z for a pixel's z and the coarse maps B that they
    were found from; what the choice of λ decides, the squared changes to the maps at both ends of the path; and the
    squared step to the neighbours, for edges are displaced and dulled. The last two are spread over the neighbourhood.
    Their shares are empirical.
    """
    # Imported here: it takes long to import.
    from scipy.ndimage import gaussian_filter

    metric = data.F.T @ data.F  # maps to spectra, in units of the noise
    B = data.coarse(Z).reshape(-1, Z.shape[2])
    spectral = np.einsum("ijp,pq,ijq->ij", Z, np.linalg.pinv(B.T @ B), Z, optimize=True)
    root = np.linalg.cholesky(metric + 1e-12 * np.trace(metric) * np.eye(len(metric)))
    changes = sum(np.square((Z - other) @ root).sum(axis=2) for other in others)
    change = gaussian_filter(changes, _NEIGHBOURHOOD)
    steps = np.zeros(Z.shape[:2])
    for axis in (0, 1):
        squared = np.square(np.diff(Z, axis=axis) @ root).sum(axis=2)
        nothing = np.zeros_like(steps.take([0], axis=axis))
        steps += np.concatenate([squared, nothing], axis=axis) + np.concatenate([nothing, squared], axis=axis)
    # An edge well above the noise is lowered by what the noise is worth, not by its height.
    noise2 = np.linalg.norm(root, 2) ** 2 / data.unit**2
    edges = np.square(gaussian_filter(np.sqrt(steps / (1.0 + steps / noise2)), _NEIGHBOURHOOD))
    return np.sqrt(0.6 * spectral + (2.0 * change + 0.5 * edges) / len(data.F))


def rows_of(P):
    """A copy of a scipy.sparse matrix in compressed rows, of the types that the kernels expect."""
    P = P.tocsr().astype(np.float64, copy=True)
    P.indptr, P.indices = P.indptr.astype(np.int64), P.indices.astype(np.int64)
    return P
