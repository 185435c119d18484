"""The spectra of fine detail, which the HSI does not see: what the MSI's bands say of them, in place of chance.

The terms of a CPD, A ⊙ B, span the detail of an image. With the Gramians G_M of the terms and G_H of what the blur
leaves of them, and V of the generalised eigenvectors, V'G_M V = I and V'G_H V = diag(γ), the image is a sum of
orthonormal pictures (A ⊙ B) V times the spectra c_i, the columns of C V⁻ᵀ. The HSI sees the part γ_i of the i-th
picture. Where that is little, c_i is known by the MSI's few bands alone, PM c_i, and all else of it stays where the fit
happened to begin: docs/auto.md shows what that costs.

Neighbouring pixels of the HSI differ by detail too, and their covariance S, freed of noise, says which spectra detail
has. Of a spectrum with that covariance the MSI's bands explain

    E[c | PM c] = G PM c,    G = S PM' (PM S PM')⁻¹,

and leave the part ε = tr(T S T') / tr S of its energy, T = I − G PM. What is not detail is explained less well: the
HSI's pixels have an ε too, and the larger one is taken. Fitted are not PM c, but y = PM c + e, in an orthonormal
picture with the noise Σ of the MSI's M bands, which G would enlarge where PM S PM' is small. So c has the covariance
a S, as large as y shows, y'Σ⁻¹y = a tr(Σ⁻¹ PM S PM') + M, and

    E[c | y] = a S PM' (a PM S PM' + Σ)⁻¹ y.

Of a picture with the spectrum c of K bands, the HSI's residual being s² a value, the most probable spectrum is between
what was fitted and that,

    (1 − w) c + w E[c | y],    w = p / (p + γ/s²),  p = K / (ε |c|²).

No weight is left to choose.

**Non-negative spectra** are those whose image is the nearest to that: ‖(A ⊙ B)(C − C')'‖ is least over C ≥ 0, by
columns in turn. To set to zero what is negative is no such thing, for terms cancel each other: on ABU urban-1 at 40 dB
112 terms have 24.6 dB, their likely spectra 28.3, cut at zero 23.5, the nearest non-negative ones 27.5.
"""

import numpy as np

from ..model.problem import Factors, Problem
from ..model.types import Array
from .noise import Noise

# What may be missing of a covariance for its inverse, and of the Gramian of terms that are alike.
_ROUNDING, _ALIKE = 1e-6, 1e-10

# The least part of the energy that bands do not explain of each other; the least that is shown, in parts of noise.
_LEAST_UNEXPLAINED, _LEAST_SHOWN = 1e-4, 1e-3

# So often the columns of non-negative spectra have their turn: 10 turns end 0.09 dB below 300 at most, 50 at the same
# (two scenes).
_TURNS = 30

# So many standard errors above noise a direction of the differences has detail.
_RARE = 6.0


def with_likely_spectra(problem: Problem, noise: Noise, factors: Factors, left: float) -> Factors:
    """Factors whose spectra of what the HSI does not see are those that the MSI's bands make likely.

    Parameters
    ----------
    problem : Problem
    noise : Noise
        Of `noise_of(problem)`.
    factors : Factors
        A fit.
    left : float
        The mean square that it leaves of the HSI, in the caller's units.

    Returns
    -------
    Factors
        A and B as they were; C is not negative where it was not.
    """
    A, B, C = factors
    S, PM = _covariance(noise), problem.degradation.PM.toarray()
    seen = PM @ S @ PM.T
    size = float(np.trace(seen))
    fine = (A.T @ A) * (B.T @ B)
    if not (size > 0.0 and left > 0.0 and np.trace(fine) > 0.0):
        return factors
    G = np.linalg.solve(seen + _ROUNDING * size / len(seen) * np.eye(len(seen)), PM @ S).T
    unexplained = max(_left(G @ PM, S), _left(G @ PM, _second_moments(noise)), _LEAST_UNEXPLAINED)
    fine += _ALIKE * np.trace(fine) / len(fine) * np.eye(len(fine))
    visible, V = _pictures(problem, A, B, fine)
    back = V.T @ fine  # V⁻¹
    spectra = C @ back.T
    weights = 1.0 / (1.0 + unexplained * np.square(spectra).mean(axis=0) * visible / left)
    mended = C - ((spectra - _likely(S, PM, noise.msi_floored, PM @ spectra)) * weights) @ V.T
    return Factors(A, B, _nearest_nonnegative(mended, fine) if C.min() >= 0.0 else mended)


def _nearest_nonnegative(wanted: Array, fine: Array) -> Array:
    """Of C ≥ 0 the one of least tr (C − wanted) fine (C − wanted)', or nearly so."""
    C = np.maximum(wanted, 0.0)
    slope = (C - wanted) @ fine
    for r in tuple(range(C.shape[1])) * _TURNS:
        column = np.maximum(C[:, r] - slope[:, r] / fine[r, r], 0.0)
        slope += np.outer(column - C[:, r], fine[r])
        C[:, r] = column
    return C


def _likely(S: Array, PM: Array, sigma: Array, shown: Array) -> Array:
    """(K, n) expected spectra whose covariances are multiples of S, by (M, n) what bands with noise sigma show."""
    values, vectors = np.linalg.eigh(PM @ S @ PM.T / np.outer(sigma, sigma))
    values = np.maximum(values, _ROUNDING * values.mean())[:, None]
    shown = vectors.T @ (shown / sigma[:, None])
    energy = np.square(shown).sum(axis=0)
    sizes = np.maximum(energy - len(sigma), _LEAST_SHOWN * len(sigma)) / values.sum()
    return (S @ PM.T / sigma) @ vectors @ (shown * sizes / (sizes * values + 1.0))


def _covariance(noise: Noise) -> Array:
    """Of the differences between the HSI's neighbours, without the noise of two pixels, where it stands out of that."""
    differences, count = noise.differences.divided(noise.hsi_floored), max(noise.differences.count, 1)
    values, vectors = np.linalg.eigh(differences.second / count)
    values = np.where(values - 2.0 > 2.0 * _RARE * np.sqrt(2.0 / count), values - 2.0, 0.0)
    return (vectors * values) @ vectors.T * np.outer(noise.hsi_floored, noise.hsi_floored)


def _second_moments(noise: Noise) -> Array:
    """Of the HSI's pixels, without their noise."""
    moments = noise.moments
    return moments.second / max(moments.count, 1) - np.diag(np.square(noise.hsi))


def _left(explains, S):
    """The part of the energy of spectra with second moments S that is not what their bands explain."""
    rest = np.eye(len(S)) - explains
    return float(np.trace(rest @ S @ rest.T)) / max(float(np.trace(S)), 1e-300)


def _pictures(problem, A, B, fine):
    """γ and V."""
    from scipy.linalg import eigh

    coarse_A, coarse_B = problem.degradation.P1 @ A, problem.degradation.P2 @ B
    coarse = (coarse_A.T @ coarse_A) * (coarse_B.T @ coarse_B)
    values, V = eigh(coarse, fine)
    return np.maximum(values, 0.0), V
