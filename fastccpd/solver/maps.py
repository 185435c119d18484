"""A scene as a few maps times a few spectra, its noise removed by total variation: the regulariser of "nn-ccpd-auto".

The scene is Z S', maps Z (I, J, P) and spectra S (K, P). With every band divided by its noise σ, so that a misfit of one
is one standard deviation, and S = diag(σ_H) E with orthonormal E, the most probable maps minimise

    ½ ‖E'Y_H − P Z‖² + ½ ‖Y_M − R Z‖² + λ TV(Z),     P = P1 ⊗ P2,  R = diag(1/σ_M) PM S,                    (1)

a convex problem. TV couples the maps, so that they share their edges; it is bounded by reweighted squares
(kernels/maps.py), and each quadratic is solved by preconditioned conjugate gradients.

**P** is the number of singular values of the HSI that are worth keeping in its noise (`noise.py`), and at most the number
of the MSI's bands: more maps cannot be told apart on the fine grid, and what is made up for them costs more than they
bring.

**E** comes from the HSI's singular vectors, then once more from the maps: the spectra that belong to P Z have white noise of
known size, and their own total variation along the bands, which is small, is bounded in the same way.

**λ** is the one with the least estimated risk. Stein's unbiased estimate of Σ (fit − truth)²/σ², over all data, is

    χ² − N + 2 tr(∂fit/∂data),                                                                           (2)

and the trace is had from a second fit to data with a known disturbance added: <change of fit, disturbance>. Both
fits follow λ downwards from strong smoothing, each from the one before, until the estimate has risen twice.

Missing data have no part in (1): every pixel has the Gramian R'R of the bands that it has.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded
from scipy.ndimage import gaussian_filter

from ..kernels._jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.maps import along, curvature, edge_weights
from . import noise
from .pcg import dot, steihaug

# λ in units of sqrt(largest eigenvalue of R'R), the inverse of the noise of the map that the MSI sees best.
STRONGEST, STEP, WEAKEST = 2.4, 2.0**-0.5, 0.02

# Differences below this part of that noise count as none.
_ROUNDING = 0.025

# Strength of the first, quadratic smoothing, and of the total variation that the spectra are found with.
_FIRST, _FOR_SPECTRA = 8.0, 1.6

# Weights of the total variation along the bands of a spectrum with noise 1.
_ALONG_BANDS = (0.25, 0.5, 1.0, 2.0)

# Reweighted squares for each λ, and conjugate gradient steps for each of them.
REWEIGHTINGS, CG_STEPS, CG_RTOL = 3, 40, 0.1

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
        λ, in units of the noise of the best map.
    misfit, degrees, risk : float
        χ² over all data, effective degrees of freedom, and the estimated risk (2).
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
    """The `FittedMaps` of a problem whose bands have the noise sigma_H, sigma_M; `rng` draws the disturbance."""
    good_H = None if problem.hsi_valid is None else problem.hsi_valid.all(axis=2)
    E = _scaled(_first_spectra(problem.hsi, sigma_H, good_H, problem.msi.shape[2]), problem.hsi, sigma_H, good_H)
    seen = _Seen(problem, E, sigma_H, sigma_M)
    path = _Path(seen)
    path.smooth(_FIRST)
    path.descend(_FOR_SPECTRA)
    path.descend(_FOR_SPECTRA)
    E = _scaled(_spectra_of(seen.coarse(path.Z), problem.hsi, sigma_H, good_H), problem.hsi, sigma_H, good_H)
    turned = path.Z @ (seen.E.T @ np.linalg.pinv(E).T)
    seen = _Seen(problem, E, sigma_H, sigma_M)
    path = _Path(seen, turned @ seen.turn)
    disturbance = seen.disturbance(rng)
    other = _Path(seen, path.Z.copy(), seen.target + _DISTURBANCE * disturbance)

    best, rises, strength = None, 0, STRONGEST
    while strength > WEAKEST and rises < 2 and (best is None or not out_of_time()):
        path.descend(strength)
        other.descend(strength)
        degrees = dot(other.Z - path.Z, disturbance) / _DISTURBANCE
        misfit = seen.misfit(path.Z)
        risk = misfit - seen.size + 2.0 * (degrees + E.size)
        if best is None:
            smoothest = path.Z.copy()
        if best is None or risk < best.risk:
            best = _Choice(path.Z.copy(), strength, misfit, degrees, risk)
            rises = 0
        else:
            rises += 1
        strength *= STEP
    return FittedMaps(
        best.Z, _whole(seen.spectra, problem.hsi_valid), best.strength, best.misfit, best.degrees,
        max(best.risk, best.degrees), _deviation(best.Z, smoothest, seen) * np.sqrt(np.mean(np.square(sigma_H))),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Choice:
    Z: np.ndarray
    strength: float
    misfit: float
    degrees: float
    risk: float


class _Image:
    """One image, divided by its noise, as (1) sees it: R'Y and R'R at each pixel, and ‖Y‖²."""

    def __init__(self, image, R, sigma, good):
        scaled = R / sigma[:, None]
        if good is None:
            self.kinds = np.zeros(image.shape[:2], np.int64)
            self.grams = (R.T @ R)[None]
            self.target = image @ scaled
            self.energy = float(sum(np.einsum("jk,jk,k->", row, row, sigma**-2.0, dtype=np.float64) for row in image))
            self.size = image.size
            return
        patterns, kinds = np.unique(np.packbits(good, axis=2).reshape(-1, -(-len(R) // 8)), axis=0, return_inverse=True)
        bands = np.unpackbits(patterns, axis=1, count=len(R)).astype(bool)
        self.kinds = np.ascontiguousarray(kinds.reshape(image.shape[:2]), np.int64)
        self.grams = np.array([R[has].T @ R[has] for has in bands])
        present = np.where(good, image, 0.0)
        self.target = present @ scaled
        self.energy = float(np.square(present / sigma).sum())
        self.size = int(good.sum())

    def product(self, Z, weights=None):
        """R'R Z, pixel by pixel, with weighted differences if there are weights."""
        out = np.empty(Z.shape)
        if weights is None:
            weights = np.zeros(Z.shape[:2])
        curvature(Z, self.kinds, self.grams, weights, out, work=2.0 * Z.size * (Z.shape[2] + 10), least=LEAST)
        return out

    def diagonal(self):
        return np.einsum("npp->np", self.grams)[self.kinds]

    def draw(self, rng):
        """R' times white noise."""
        values, vectors = np.linalg.eigh(self.grams)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        white = rng.standard_normal((*self.kinds.shape, self.grams.shape[1]))
        return np.einsum("ijpq,ijq->ijp", roots[self.kinds], white) if len(roots) > 1 else white @ roots[0].T


class _Seen:
    """The quadratic part of (1) for one E: both images, and the blur between maps and HSI."""

    def __init__(self, problem, E, sigma_H, sigma_M):
        degradation = problem.degradation
        R = (degradation.PM @ (sigma_H[:, None] * E)) / sigma_M[:, None]
        # In the basis in which R'R is diagonal, a diagonal preconditioner does most of the work.
        _, turn = np.linalg.eigh(R.T @ R)
        self.turn, self.E = turn, E @ turn
        self.spectra = sigma_H[:, None] * self.E
        self.hsi = _Image(problem.hsi, self.E, sigma_H, problem.hsi_valid)
        self.msi = _Image(problem.msi, R @ turn, sigma_M, problem.msi_valid)
        self.size = self.hsi.size + self.msi.size
        self.ahead = [rows_of(P) for P in (degradation.P1, degradation.P2)]
        self.back = [rows_of(P.T) for P in (degradation.P1, degradation.P2)]
        self.target = self.msi.target + self._fine(self.hsi.target)
        coverage = [np.asarray(P.multiply(P).sum(axis=0)).ravel() for P in (degradation.P1, degradation.P2)]
        by_hsi = np.multiply.outer(*coverage)[:, :, None] * np.einsum("npp->p", self.hsi.grams[-1:])
        self.diagonal = self.msi.diagonal() + by_hsi
        best = float(np.linalg.eigvalsh(R.T @ R)[-1])
        self.unit = np.sqrt(best if best > 0.0 else max(float(by_hsi.max()), 1e-300))

    def coarse(self, Z):
        """P Z."""
        return along(self.ahead[0], along(self.ahead[1], Z, axis=1), axis=0)

    def _fine(self, H):
        """P' H."""
        return along(self.back[1], along(self.back[0], H, axis=0), axis=1)

    def product(self, Z, weights=None):
        """The Hessian of the quadratic part, with weighted differences, times Z."""
        out = self.msi.product(Z, weights)
        out += self._fine(self.hsi.product(self.coarse(Z)))
        return out

    def misfit(self, Z):
        """χ² over both images."""
        energy = self.hsi.energy + self.msi.energy
        return max(0.0, energy - 2.0 * dot(Z, self.target) + dot(Z, self.product(Z)))

    def disturbance(self, rng):
        """What white noise of size 1 on all data adds to `target`."""
        return self.msi.draw(rng) + self._fine(self.hsi.draw(rng))


class _Path:
    """Maps that follow λ: each fit begins where the last one ended."""

    def __init__(self, seen, Z=None, target=None):
        self.seen = seen
        self.Z = np.zeros(seen.target.shape) if Z is None else np.ascontiguousarray(Z)
        self.target = seen.target if target is None else target
        self.weights = np.empty(self.Z.shape[:2])

    def smooth(self, strength):
        """Quadratic smoothing, to begin with."""
        self.weights[...] = strength * self.seen.unit**2
        self._solve(steps=2 * CG_STEPS)

    def descend(self, strength):
        """Fit with λ = strength."""
        for _ in range(REWEIGHTINGS):
            edge_weights(self.Z, strength * self.seen.unit, _ROUNDING / self.seen.unit, self.weights,
                         work=10.0 * self.Z.size, least=LEAST)  # fmt: skip
            self._solve(CG_STEPS)

    def _solve(self, steps):
        inverse = 1.0 / np.maximum(self._diagonal(), 1e-300)
        gradient = self.seen.product(self.Z, self.weights) - self.target
        step = steihaug(gradient, lambda z: self.seen.product(z, self.weights), lambda r: inverse * r,
                        radius=np.inf, max_iter=steps, rtol=CG_RTOL)  # fmt: skip
        self.Z += step.p

    def _diagonal(self):
        w = self.weights
        degree = np.zeros_like(w)
        degree[:-1] += w[:-1]
        degree[1:] += w[:-1]
        degree[:, :-1] += w[:, :-1]
        degree[:, 1:] += w[:, :-1]
        return self.seen.diagonal + degree[:, :, None]


def _deviation(Z, smoothest, seen):
    """The expected error of each pixel, root mean square over bands, where the noise of a band is 1.

    Its square is a sum of three: the error of the spectra, z'(B'B)⁻¹z for a pixel z and the coarse maps B that they
    were found from; what the chosen smoothing decides, the squared change from the strongest one; and the squared
    step to the neighbours, for edges are displaced or dulled. The last two are spread over the neighbourhood. The
    shares were set by hand once, on two scenes: good to a factor of two, and in their order.
    """
    B = seen.coarse(Z).reshape(-1, Z.shape[2])
    spectral = np.einsum("ijp,pq,ijq->ij", Z, np.linalg.pinv(B.T @ B), Z, optimize=True)
    change = gaussian_filter(np.square(Z - smoothest).sum(axis=2), _NEIGHBOURHOOD)
    steps = np.zeros(Z.shape[:2])
    for axis in (0, 1):
        squared = np.square(np.diff(Z, axis=axis)).sum(axis=2)
        nothing = np.zeros_like(steps.take([0], axis=axis))
        steps += np.concatenate([squared, nothing], axis=axis) + np.concatenate([nothing, squared], axis=axis)
    edges = np.square(gaussian_filter(np.sqrt(steps), _NEIGHBOURHOOD))
    return np.sqrt(0.6 * spectral + (2.0 * change + 0.5 * edges) / len(seen.spectra))


def _first_spectra(hsi, sigma, good, most):
    """The singular vectors of the HSI, divided by its noise, that are worth keeping."""
    X = noise._pixels(hsi, good)
    spectrum = noise.spectrum_of(X.T @ X, max(len(X), 1), sigma)
    return spectrum.vectors[:, : max(1, min(spectrum.signals, most))]


GAMMA = 0.5
def _scaled(E, hsi, sigma, good):
    X = noise._pixels(hsi, good) / sigma
    W=X-X.mean(axis=0)
    w,V=np.linalg.eigh(E.T@(W.T@W)@E/len(X))
    w,V=w[::-1],V[:,::-1]
    s=np.sqrt(np.maximum(w-1,0.3))
    return (E@V)*(s/s[0])**GAMMA


def _spectra_of(coarse, hsi, sigma, good):
    """An orthonormal basis of the spectra that belong to the coarse maps, their noise removed."""
    B, X = noise._pixels(coarse, good), noise._pixels(hsi, good) / sigma
    U, sizes, _ = np.linalg.svd(B, full_matrices=False)
    U = U[:, sizes > 1e-10 * sizes[0]] if sizes[0] > 0.0 else U[:, :1]
    # U is orthonormal, so each column of X'U has white noise of size 1.
    return np.linalg.qr(np.stack([_along_bands(f) for f in (X.T @ U).T], axis=1))[0]


def _along_bands(f):
    """A spectrum with noise 1 without its noise: total variation along the bands, the weight of least risk."""
    best, least = f, float(len(f))
    for weight in _ALONG_BANDS if len(f) > 2 else ():
        u = f
        for _ in range(30):
            w = weight / np.sqrt(np.square(np.diff(u)) + 1e-4)
            bands = np.ones((2, len(f)))
            bands[0, 1:] = -w
            bands[1, :-1] += w
            bands[1, 1:] += w
            u = solveh_banded(bands, f)
        # The degrees of freedom of total variation in one dimension are the constant pieces.
        pieces = 1 + int((np.abs(np.diff(u)) > 0.05).sum())
        risk = float(np.square(f - u).sum()) - len(f) + 2.0 * pieces
        if risk < least:
            best, least = u, risk
    return best


def _whole(spectra, good):
    """The spectra with every band that the HSI lacks altogether between its neighbours."""
    if good is None:
        return spectra
    known = good.any(axis=(0, 1))
    bands = np.arange(len(known))
    return np.stack([np.interp(bands, bands[known], column[known]) for column in spectra.T], axis=1)


def rows_of(P):
    """A scipy.sparse matrix in compressed rows, in the types the kernels expect."""
    P = P.tocsr()
    P.indptr, P.indices = P.indptr.astype(np.int64), P.indices.astype(np.int64)
    P.data = np.asarray(P.data, dtype=np.float64)
    return P
