"""Width and place of a separable Gaussian blur between two images, noise in both allowed for.

Whatever the scene, the MSI blurred like the HSI is the HSI seen through the MSI's response, R:

    r = B(θ) − H R' = P(θ) n_M − n_H R',    B(θ) = P(θ) MSI,   θ = (log σ_r, log σ_c, phase_r, phase_c).          (1)

Least squares of r alone would be wrong twice: a wider blur hides more of the MSI's noise, and R shrinks where the HSI's
noise is in its regressors. Both noises are known well enough to be taken out of the second moments first (errors in
variables): with c = the inner products of the kernels, all moments about the mean, S_HH loses N Σ_H and the moments of
B and its derivatives J lose N c σ_M². The score and the curvature of ½ Σ_m w_m |r_m|² are then those of images without
noise, on average, and the estimate is not biased.

**Response given**: R is known, up to a gain for each band if that is asked for. **Not given**: R is what regression on
the HSI's signals gives, those directions of its pixels, in units of noise, that stand out of it; J is rid of what they
explain of it (variable projection). σ_M is what the MSI's differences say, or less where r has less room for it.

A Gauss-Newton step costs one pass over the images. Standard errors are A⁻¹ V A⁻¹, A the curvature, V the variance of
the score: the noise of the HSI and misfit beyond noise, white, and that of the MSI, which neighbours share. A weak
prior (width within a factor of 1.65, place within half an HSI pixel, one standard deviation) holds what images cannot
tell. Where the response is not given, signals too weak to stand out are lost, and a scene may have some that look like
a shift or a wider blur of stronger ones (bands of a sensor that are a little off each other are such): how far the
result would move without the weakest signals that do stand out is added to the errors, twice over, for those that are
lost already may have moved it as far.

One more such step from the result, now with kernels that no separable Gaussian has, is a test of the model: how far
their coefficients are from zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..model.types import Array
from .blur_moments import ROUGHLY, BlurEvidence, BlurMoments
from .blurred import Gaussian
from .place_search import FURTHEST

# The prior: the usual width in HSI pixels, and standard deviations of its logarithm and of the place in HSI pixels.
_USUAL, _WIDTHS, _PLACES = 0.4247, 0.5, 0.5

# Widths that are tried, in HSI pixels: the least, the most, and where to begin.
_LEAST, _MOST, _BEGIN = 0.1, 2.0, (0.3, 0.45, 0.7)

# The longest step, of log σ and in HSI pixels; the one at which it ends; the most of them.
_LONGEST, _FINE, _MOST_STEPS = 0.5, 1e-3, 15

# The furthest place, in HSI pixels from the middle: half a pixel beyond the search for one.
_FURTHEST = FURTHEST + 0.5

# Estimates of a variance that are so many deviations apart contradict each other.
_CONTRADICTION = 2.5

# Without a response, more than the misfit shows is lost with weak signals: so many times its variance, by simulation.
_LOST = 8.0

# Directions of the HSI count as signals above so many times the largest that noise would have, and as weak ones below
# so many times as much.
_STANDS_OUT, _WEAK = 1.05, 5.0


@dataclass(frozen=True, eq=False)
class GaussianFit:
    """A Gaussian fitted to two images.

    Standard errors allow for the noise of both; a test says whether a separable Gaussian is the right model.

    Attributes
    ----------
    gaussian : Gaussian
    covariance : (4, 4) array
        Of `gaussian.parameters`.
    shape : (3,) array
        Coefficients of what a separable Gaussian has not: turned, tails along rows, tails along columns.
    shape_errors : (3,) array
    chi2 : float
        Of these three together: about 3 where the model fits.
    misfit : (MSI bands,) array
        Mean square of r over that which noise would leave.
    signals : int
        How many directions of the HSI the response was sought in; 0 where it was given.
    count : int
        The number of pixels compared.
    converged : bool
    """

    gaussian: Gaussian
    covariance: np.ndarray
    shape: np.ndarray
    shape_errors: np.ndarray
    chi2: float
    misfit: np.ndarray
    signals: int
    count: int
    converged: bool


class GaussianFitter:
    """The fit for one pair of images.

    Parameters
    ----------
    gather : callable(Gaussian, whole) -> BlurMoments
        Of all of the scene.
    ratio : int
    sigma_hsi, sigma_msi : (bands,) arrays
        Noise.
    response : (MSI bands, bands) array or None
    gains : bool
        Whether a given response is known up to a gain for each band only.
    known : (4,) array
        Parameters that are known; NaN for those that are sought.
    """

    def __init__(
        self,
        gather: Callable[..., BlurMoments],
        ratio: int,
        sigma_hsi: Array,
        sigma_msi: Array,
        response: Array | None,
        gains: bool,
        known: Array,
    ):
        self._gather, self._ratio = gather, ratio
        self._noise_hsi, self._noise_msi = sigma_hsi**2, sigma_msi**2
        self._response, self._gains = response, gains
        self._known = known
        self._free = np.isnan(known)
        middle = (ratio - 1) / 2
        self._usual = np.array([np.log(_USUAL * ratio)] * 2 + [middle] * 2)
        self._precision = np.array([_WIDTHS**-2.0] * 2 + [(_PLACES * ratio) ** -2.0] * 2)

    def begin(self, shift: tuple[int, int] | None = None) -> Array:
        """Where to begin: the best of a few widths, about the middle and moved by `shift` MSI pixels."""
        places = [self._usual[2:]] + ([] if shift is None else [self._usual[2:] + shift])
        starts = [np.array([np.log(width * self._ratio)] * 2 + list(place)) for place in places for width in _BEGIN]
        starts = np.unique([np.where(self._free, start, self._known) for start in starts], axis=0)
        if len(starts) == 1:
            return starts[0]
        best = starts[int(np.argmin([self._look(start).misfit_of_all for start in starts]))]
        # What is usual is a place near to where the pair lies.
        self._usual[2:] = np.where(self._free[2:], best[2:], self._usual[2:])
        return best

    def descend(self, parameters: Array, steps: int = _MOST_STEPS) -> tuple[Array, bool]:
        """Gauss-Newton from here; the parameters at the end, and whether it settled."""
        here = self._look(parameters)
        for _ in range(steps):
            step = self._step(parameters, here)
            small = np.abs(step) < _FINE
            while True:
                there = self._within(parameters + step)
                look = self._look(there)
                if self._cost(there, look, here.weights) <= self._cost(parameters, here, here.weights) or small.all():
                    break
                step, small = 0.4 * step, np.abs(0.4 * step) < _FINE
            parameters, here = there, look
            if small.all():
                return parameters, True
        return parameters, False

    def finish(self, parameters: Array, converged: bool) -> GaussianFit:
        """Errors and the test of the model, at the end."""
        moments = self._gather(Gaussian.of(parameters), True)
        look = self._looked(moments)
        _, covariance = self._solved(look, 4)
        if self._response is None:
            moved, _ = self._solved(self._looked(moments, strong=True), 4)
            covariance = covariance + 2.0 * np.outer(moved, moved)
        step, of_all = self._solved(look, len(look.score))
        of_others = of_all[4:, 4:]
        return GaussianFit(
            gaussian=Gaussian.of(parameters),
            covariance=covariance,
            shape=step[4:],
            shape_errors=np.sqrt(np.maximum(np.diag(of_others), 0.0)),
            chi2=float(step[4:] @ np.linalg.pinv(of_others, hermitian=True) @ step[4:]),
            misfit=look.misfit,
            signals=look.signals,
            count=look.count,
            converged=converged,
        )

    def glance(self, parameters: Array) -> tuple[Array, Array]:
        """The first step from here, and its standard errors: one pass over the images."""
        step, covariance = self._solved(self._look(parameters, whole=True), 4)
        return step, np.sqrt(np.maximum(np.diag(covariance), 0.0))

    def _solved(self, look, number):
        """A step of the first `number` parameters, and their covariance A⁻¹ V A⁻¹; zeros for those that are known."""
        free = np.concatenate([self._free, np.ones(number - 4, bool)])
        prior = np.diag(np.concatenate([self._precision, np.zeros(number - 4)])[free])
        parts = np.ix_(free, free)
        step, covariance = np.zeros(number), np.zeros((number, number))
        inverse = np.linalg.pinv(_positive(look.curvature[:number, :number][parts]) + prior, hermitian=True)
        step[free] = -inverse @ look.score[:number][free]
        covariance[parts] = inverse @ (look.variance[:number, :number][parts] + prior) @ inverse
        return step, covariance

    def _step(self, parameters, look):
        free = self._free
        curvature = _positive(look.curvature[np.ix_(free, free)]) + np.diag(self._precision[free])
        score = (look.score + self._precision * (parameters - self._usual))[free]
        step = np.zeros(4)
        longest = np.array([_LONGEST] * 2 + [_LONGEST * self._ratio] * 2)[free]
        step[free] = np.clip(-np.linalg.solve(curvature, score), -longest, longest)
        return step

    def _within(self, parameters):
        low, high = (np.log(width * self._ratio) for width in (_LEAST, _MOST))
        middle, far = (self._ratio - 1) / 2, _FURTHEST * self._ratio
        places = np.clip(parameters[2:], middle - far, middle + far)
        within = np.concatenate([np.clip(parameters[:2], low, high), places])
        return np.where(self._free, within, parameters)

    def _cost(self, parameters, look, weights):
        return 0.5 * weights @ look.squares + 0.5 * self._precision @ (parameters - self._usual) ** 2

    def _look(self, parameters, whole=False):
        return self._looked(self._gather(Gaussian.of(parameters), whole))

    def _looked(self, moments, strong=False):
        return _Look(moments, self._noise_hsi, self._noise_msi, self._response, self._gains, strong)


class _Look:
    """Score, curvature and misfit at one Gaussian; `strong`: without the weakest of the HSI's signals."""

    def __init__(self, moments, noise_hsi, noise_msi, response, gains, strong=False):
        n, shares = moments.count, moments.shares
        seen, crossed, second = moments.centred()
        bands = len(seen)
        R, bases, self.signals = _responses(crossed, second, n, noise_hsi, response, gains, strong)
        squares = seen[:, 0, 0] - 2.0 * np.einsum("mk,mk->m", crossed[:, 0], R)
        squares += np.einsum("mk,kl,ml->m", R, second, R)
        fitted = 1 + (self.signals if response is None else int(gains))
        mean = np.maximum(squares, 0.0) / max(n - fitted, 1)
        of_hsi = (R**2 * noise_hsi).sum(axis=1)
        of_msi = _settled(noise_msi, mean, of_hsi, shares[0, 0], n)
        noise = shares[0, 0] * of_msi + of_hsi
        self.weights = 1.0 / np.maximum(np.maximum(noise, mean), np.finfo(float).tiny)
        self.misfit, self.count = mean / np.maximum(noise, np.finfo(float).tiny), n
        self.squares = squares - n * noise
        self.misfit_of_all = float(np.sum(self.squares / np.maximum(seen[:, 0, 0], np.finfo(float).tiny)))
        clean = seen - n * shares * of_msi[:, None, None]
        curves, noisy = clean[:, 1:, 1:], seen[:, 1:, 1:].copy()
        for m in range(bands):
            basis, values = bases[m]
            along_basis = crossed[m, 1:] @ basis
            explained = (along_basis / values) @ along_basis.T
            curves[m] -= explained
            noisy[m] -= explained
        scores = clean[:, 1:, 0] - np.einsum("mik,mk->mi", crossed[:, 1:], R)
        self.score = self.weights @ scores
        self.curvature = np.einsum("m,mij->ij", self.weights, curves)
        # What is neither the HSI's noise nor explained is texture, which neighbours share like the MSI's noise.
        texture = of_msi + (1.0 if response is not None else _LOST) * np.maximum(mean - noise, 0.0) / shares[0, 0]
        shared = noisy * shares[0, 0] if moments.correlated is None else moments.correlated[:, 1:, 1:]
        self.variance = np.einsum("m,mij->ij", self.weights**2 * of_hsi, noisy)
        self.variance += np.einsum("m,mij->ij", self.weights**2 * texture, shared)


def _responses(crossed, second, n, noise, response, gains, strong):
    """R; for each band a basis of what R may still be and its Gramian, which is diagonal; the number of signals."""
    bands = len(crossed)
    if response is not None:
        if not gains:
            empty = np.zeros((second.shape[0], 0)), np.ones(0)
            return response, [empty] * bands, 0
        clean = np.einsum("mk,kl,ml->m", response, second, response) - n * (response**2 * noise).sum(axis=1)
        clean = np.maximum(clean, 1e-6 * np.einsum("mk,kl,ml->m", response, second, response) + np.finfo(float).tiny)
        gain = np.einsum("mk,mk->m", crossed[:, 0], response) / clean
        return gain[:, None] * response, [(row[:, None], value[None]) for row, value in zip(response, clean)], 0
    sigma = np.sqrt(noise)
    values, vectors = np.linalg.eigh(second / np.outer(sigma, sigma))
    largest = (np.sqrt(n) + np.sqrt(len(values))) ** 2
    stands_out = values > _STANDS_OUT * largest
    if strong and stands_out.any():
        stands_out[np.argmax(stands_out)] = False  # at least the weakest, for values ascend
        stands_out &= values > _WEAK * _STANDS_OUT * largest
    stands_out[-1] = True
    basis, values = vectors[:, stands_out] / sigma[:, None], np.maximum(values[stands_out] - n, 1e-3 * n)
    return (crossed[:, 0] @ basis / values) @ basis.T, [(basis, values)] * bands, len(values)


def _settled(alone, mean, of_hsi, share, n):
    """σ_M²: what the MSI says alone, or less where the residual has less room for it."""
    room = (mean - of_hsi) / share
    deviation = np.sqrt(2.0 / max(n, 1)) * mean / share
    return np.where(alone > room + _CONTRADICTION * deviation, np.maximum(room + deviation, 0.0), alone)


def _positive(matrix):
    """A symmetric matrix with its small and negative eigenvalues lifted: what noise has made of them."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 1e-3 * values.max(initial=0.0))) @ vectors.T


def fit_gaussian(evidence: BlurEvidence, response: Array | None, gains: bool, known: Array) -> GaussianFit:
    """The `GaussianFit` of two images.

    Parameters
    ----------
    evidence : BlurEvidence
    response, gains, known
        As of `GaussianFitter`.
    """
    fitter = _fitter(evidence, response, gains, known)
    shift = evidence.whole_shift() if np.isnan(known[2:]).any() else None
    if len(evidence.pixels) > ROUGHLY:
        evidence.choose(evidence.centred(0.5), ROUGHLY)
    parameters, converged = fitter.begin(shift), True
    if shift is not None:
        evidence.choose(Gaussian.of(parameters), ROUGHLY)
    if np.isnan(known).any():
        parameters, _ = fitter.descend(parameters, 6)
    # What the blur reaches is known now.
    evidence.choose(Gaussian.of(parameters))
    if np.isnan(known).any():
        parameters, converged = fitter.descend(parameters)
    return fitter.finish(parameters, converged)


def glance(evidence: BlurEvidence, response: Array, parameters: Array) -> tuple[Array, Array]:
    """How far `parameters` seem to be from the right ones, and the standard errors of that, by one pass."""
    return _fitter(evidence, response, True, np.full(4, np.nan)).glance(parameters)


def _fitter(evidence, response, gains, known):
    """Of a given response the HSI's bands are compared as it shows them: as many as the MSI's, each seen by its own."""
    has, gather = evidence.hsi_bands, evidence.gather
    of_hsi, of_msi = evidence.sigma_hsi[has], evidence.sigma_msi[evidence.msi_bands]
    if response is not None:
        response = np.asarray(response, dtype=np.float64)[np.ix_(evidence.msi_bands, has)]
        gather = partial(gather, response=response)
        of_hsi, response = np.sqrt(response**2 @ of_hsi**2), np.eye(len(response))
    return GaussianFitter(gather, evidence.ratio, of_hsi, of_msi, response, gains, known)
