"""FUSE: fusion by the closed-form solution of a Sylvester equation, in the Fourier domain.

The scene's bands lie in a subspace: pixel spectra E u, E (K, L) orthonormal, the leading left singular vectors of the
HSI's band unfolding. λ_1 ≥ … ≥ λ_L are the eigenvalues of the HSI's second moment, H'H / (I_H J_H). With B the circular
blur, S the sampling, the coefficients U (L, IJ) minimise

    ½ ‖H − E U B S‖² + ½ ‖M − PM E U‖² + ½ tr (U − N)' Π (U − N),         Π = π diag(1/λ)

(a spherical prior, of precision π, for coefficients in units of √λ). With C = (PM E)'(PM E) + Π = Q diag(t) Q',

    U B S S'B' + C U = E'H S'B' + (PM E)'M + Π N

splits into one equation for each row of Q'U. In the Fourier domain S S' couples the d_1·d_2 frequencies that alias, by
averaging over them. Let β be the transfer function of B, ⟨·⟩ that average (a coarse spectrum, tiled where it meets β),
h the coarse transform of a row of (E Q)'H, m the fine one of a row of Q'((PM E)'M + Π N). Woodbury's identity gives

    u = β* h / (⟨|β|²⟩ + t)  +  (m − β* ⟨β m⟩ / (⟨|β|²⟩ + t)) / t.

The HSI's term is free of 1/t, and t is the square of a singular value, of PM E on top of Π^½: a direction that the MSI
hardly sees is solved without cancellation. Where the MSI sees the whole subspace, no prior ("ml") is Π = 0. Where it
does not (L > K_M), no prior is the limit Π → 0, and that is not the same as leaving out the terms with 1/t: what
neither image sees follows what they see by the correlations in Π. On Indian Pines with L = 10 this is worth 14 dB.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg

from ..model.checks import as_choice, as_count, as_number, set_fields
from ..model.problem import Problem
from ..model.types import Callback
from ._circular import circular_blur
from ._iteration import finished
from ._spectral import (
    as_scale,
    check_dimension,
    components,
    half_square,
    leading_vectors,
    mixture,
    robust_maximum,
    spectra,
)
from ._upsampling import upsampling
from .method import Method, Solution, memory_of_phases, register

PRIORS = ("gaussian", "ml")

# The MSI sees the whole subspace if no direction is weaker than this part of the strongest.
_SEEN = 1e-6

# The limit Π → 0, as part of λ_1: the largest value whose bias does not show, for the rounding falls as it grows.
_VANISHING = 1e-13


# The least square of a singular value, in the data's own unit: a dark HSI has variances too, so small that the
# coefficients stay at zero.
_DARK = 1e-200


@register("fuse-sylvester")
@dataclass(frozen=True, kw_only=True)
class FUSESylvester(Method):
    """Fast fusion based on a Sylvester equation: the subspace coefficients of the scene in closed form.

    Both images' noise is taken as white and equally strong. The degradation must be one periodic blur, sampled at a
    whole ratio.

    Parameters
    ----------
    rank : int
        The dimension of the subspace of spectra (directions that the HSI does not have are left out).
    prior : {"gaussian", "ml"}
        "gaussian": the coefficients are expected around those of the HSI, interpolated to the MSI's pixels by periodic
        cubic splines. "ml": none, the maximum-likelihood estimate.
    precision : float
        Of the Gaussian prior, where one unit of noise and one unit of the data divided by `scale` are the same.
    scale : float, optional
        What the data are divided by, so that `precision` means the same for reflectances and for counts; the result is
        in the units of the data. None is the 99.9 % quantile of the MSI (of the HSI, where that is not positive), a
        maximum that noise hardly moves. "ml" does not depend on it.

    Notes
    -----
    The cost is ½‖hsi − degraded‖² + ½‖msi − degraded‖² of the returned image, without the prior.

    References
    ----------
    .. [1] Qi Wei, Nicolas Dobigeon, Jean-Yves Tourneret: Fast Fusion of Multi-Band Images Based on Solving a Sylvester
       Equation. IEEE Transactions on Image Processing 24(11), 4109-4121, 2015.
    """

    rank: int = 6
    prior: str = "gaussian"
    precision: float = 1e-3
    scale: float | None = None

    needs_periodic_blur: ClassVar[bool] = True

    def __post_init__(self):
        set_fields(self, rank=as_count(self.rank, "rank"))
        as_choice(self.prior, "prior", PRIORS)
        set_fields(self, precision=as_number(self.precision, "precision", above=True))
        set_fields(self, scale=as_scale(self.scale))

    def check(self, problem: Problem) -> None:
        circular_blur(problem.degradation)
        check_dimension(self.rank, problem.hsi)

    def solve(
        self, problem: Any, *, rng: Any = None, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        began = time.perf_counter()
        I_H, J_H, K = problem.hsi.shape
        blur = circular_blur(problem.degradation)
        hsi, msi = (np.asarray(image, dtype=np.float64) for image in (problem.hsi, problem.msi))
        P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM

        E, values = leading_vectors(hsi.reshape(-1, K).T, self.rank)
        present = values >= K * np.finfo(np.float64).eps * values[0]
        unit = robust_maximum(msi, hsi)
        E, variances = E[:, present], np.maximum((values[present] / unit) ** 2, _DARK) / (I_H * J_H)
        precision = self._precision(PM @ E, variances, unit)
        _, roots, Q = linalg.svd(np.vstack([PM @ E, np.diag(precision**0.5)]), full_matrices=False, check_finite=False)
        t, Q = roots**2, Q.T
        E = E @ Q
        E_M = PM @ E

        projected = components(hsi, E)
        coefficients = components(msi, E_M)
        if self.prior == "gaussian":
            interpolated = upsampling(problem.degradation).maps
            for u, pull in zip(coefficients, np.tensordot((Q.T * precision) @ Q, projected, 1), strict=True):
                u += interpolated(pull)
        power = _aliased(np.abs(blur.transfer) ** 2, blur.ratio)
        for u, h, t_u in zip(coefficients, projected, t, strict=True):
            u[...] = _solved(u, h, t_u, power, blur)

        seen = np.stack([P1 @ u @ P2.T for u in coefficients])
        cost = half_square(spectra(seen, E), hsi) + half_square(spectra(coefficients, E_M), msi)
        return finished(mixture(coefficients, E, problem.dtype), cost, began, callback)

    def _precision(self, seen_by_msi, variances, unit):
        """The diagonal of Π; `variances` are in units of unit²."""
        if self.prior == "gaussian":
            return self.precision * ((self.scale or unit) / unit) ** 2 / variances
        strength = linalg.svdvals(seen_by_msi, check_finite=False)
        whole = len(strength) == len(variances) and strength[-1] > _SEEN * strength[0]
        return np.zeros_like(variances) if whole else _VANISHING * variances[0] / variances

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K), L, itemsize = msi_shape, hsi_shape, self.rank, np.dtype(dtype).itemsize
        hsi, msi, fine, coarse = I_H * J_H * K, I * J * K_M, I * J, I_H * J_H
        copies = 0 if itemsize == 8 else hsi + msi
        narrow = 0 if itemsize == 8 else fine * L
        kept = copies + (2 + L) * fine + 3 * L * coarse + 4 * K * L
        misfit = max(2 * K * K, msi, hsi)
        fourier = 12 * fine + 8 * coarse
        phases = 8 * misfit, 8 * fourier, itemsize * narrow
        return 8 * kept + memory_of_phases(*phases) + (1 << 16)


def _aliased(spectrum, ratio):
    """The average over the frequencies that sampling maps to the same one: (I, J) to (I_H, J_H)."""
    (rows, columns), (d_rows, d_columns) = spectrum.shape, ratio
    return spectrum.reshape(d_rows, rows // d_rows, d_columns, columns // d_columns).mean((0, 2))


def _solved(data, h, t, power, blur):
    """One row of Q'U: `data` is that row of Q'((PM E)'M + Π N), `h` of (E Q)'H, both in space; `power` is ⟨|β|²⟩."""
    from scipy import fft

    fine = fft.fft2(data)
    fine /= t
    coarse = fft.fft2(h)
    coarse -= _aliased(blur.transfer * fine, blur.ratio)
    coarse /= power + t
    fine += np.conj(blur.transfer) * np.tile(coarse, blur.ratio)
    return np.real(np.asarray(fft.ifft2(fine, overwrite_x=True)))
