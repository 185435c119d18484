"""HySure: a spectral subspace, and vector total variation on the maps of its coefficients, by ADMM.

The scene is Z = E X, E a (K, p) basis and X the p coefficient maps. With B the circular blur, S the sampling and
D_h, D_v the periodic forward differences,

    min_X  ½ ‖H − E X B S‖² + ½ λ_m ‖M − PM E X‖² + λ_φ Σ_pixels sqrt(Σ_p (X D_h)² + (X D_v)²).

ADMM splits it by V1 = X B, V2 = X, V3 = X D_h, V4 = X D_v, with scaled duals D1 … D4 and one penalty μ:

    V1 = (E'E + μI)⁻¹ (E'H + μ (X B − D1)) at sampled pixels, X B − D1 elsewhere
    V2 = (λ_m E'PM'PM E + μI)⁻¹ (λ_m E'PM'M + μ (X − D2))
    V3, V4 = X D_h − D3, X D_v − D4, their joint norm at each pixel lowered by λ_φ/μ, but not below zero
    D ← D − (the split of X) + V, for each of the four
    X from (|B|² + 1 + |D_h|² + |D_v|²) X = B'(V1 + D1) + (V2 + D2) + D_h'(V3 + D3) + D_v'(V4 + D4), by FFT

starting from zeros. What is not sampled need not be carried: there V1 = X B − D1 makes the new D1 zero, so
V1 + D1 = X B + S' r with r known at the HSI's pixels alone, and B'(V1 + D1) = |B|² X + P1' r P2, because B and S
together are P1 and P2. An iteration so takes one real FFT forwards and one back.
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
from ._iteration import run_watched
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
from ._vca import vertices
from .method import Method, Solution, memory_of_phases, register

BASES = ("vca", "svd")


@register("hysure")
@dataclass(frozen=True, kw_only=True)
class HySure(Method):
    """Subspace-based fusion with vector total variation.

    The degradation must be one periodic blur, sampled at a whole ratio.

    Parameters
    ----------
    rank : int
        The dimension p of the subspace of spectra.
    basis : {"vca", "svd"}
        "vca": extreme spectra of the HSI, found by vertex component analysis, as published. "svd": its leading singular
        vectors, 6 dB better on Salinas at 5 dB with lambda_phi=5e-2. On clean data it needs a smaller `mu`: at rank 16
        on Indian Pines 200 iterations are far from the end with 0.05, and near it with 0.005.
    lambda_m : float
        Weight of the MSI's misfit.
    lambda_phi : float
        Weight of the total variation, for data divided by `scale`. The published default suits clean data; at 5 dB a
        hundred times as much is better by 13 dB on Salinas.
    mu : float
        ADMM's penalty: it decides the path, not the optimum.
    max_iter : int
        ADMM iterations; all of them are done.
    scale : float, optional
        What the data are divided by; the result is in the units of the data. None is the 99.9 % quantile of the MSI (of
        the HSI, where that is not positive). 1 leaves the data as they are.

    Notes
    -----
    VCA draws its random directions from a generator of its own, so a result does not depend on the seed. The cost is
    ½‖hsi − degraded‖² + ½‖msi − degraded‖², without the total variation.

    References
    ----------
    .. [1] Miguel Simões, José Bioucas-Dias, Luis B. Almeida, Jocelyn Chanussot: A Convex Formulation for Hyperspectral
       Image Superresolution via Subspace-Based Regularization. IEEE Transactions on Geoscience and Remote Sensing
       53(6), 3373-3388, 2015.
    """

    rank: int = 6
    basis: str = "vca"
    lambda_m: float = 1.0
    lambda_phi: float = 5e-4
    mu: float = 0.05
    max_iter: int = 200
    scale: float | None = None

    needs_periodic_blur: ClassVar[bool] = True

    def __post_init__(self):
        as_choice(self.basis, "basis", BASES)
        lambda_m, lambda_phi = as_number(self.lambda_m, "lambda_m"), as_number(self.lambda_phi, "lambda_phi")
        set_fields(self, lambda_m=lambda_m, lambda_phi=lambda_phi, mu=as_number(self.mu, "mu", above=True))
        max_iter = as_count(self.max_iter, "max_iter", least=0)
        set_fields(self, rank=as_count(self.rank, "rank"), max_iter=max_iter)
        set_fields(self, scale=as_scale(self.scale))

    def check(self, problem: Problem) -> None:
        circular_blur(problem.degradation)
        check_dimension(self.rank, problem.hsi)

    def solve(
        self, problem: Any, *, rng: Any = None, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        began = time.perf_counter()
        blur = circular_blur(problem.degradation)
        scale = self.scale or robust_maximum(problem.msi, problem.hsi)
        E = self._subspace(np.divide(problem.hsi, scale, dtype=np.float64).reshape(-1, problem.hsi.shape[2]))
        admm = _ADMM(problem, blur, E, scale, self)

        left = None if time_limit is None else time_limit - (time.perf_counter() - began)
        outcome = run_watched(admm, max_iter=self.max_iter, callback=callback, time_limit=left)
        return Solution(**vars(outcome), image=mixture(admm.X, E * scale, problem.dtype))

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        p, hsi, msi = self.rank, I_H * J_H * K, I * J * K_M
        maps, coarse = p * I * J, p * I_H * J_H
        # X twice, N2, N3, N4, rhs, pull_2; then the transforms of X and of one of rhs, whose rows have J + 2 numbers.
        iteration = msi + 7 * maps + (p + 1) * I * (J + 2) + 7 * coarse + 8 * I * J
        beginning = 4 * hsi + 2 * K * K
        return memory_of_phases(8 * (iteration + msi), 8 * beginning)

    def _subspace(self, pixels):
        return vertices(pixels, self.rank) if self.basis == "vca" else leading_vectors(pixels.T, self.rank)[0]


class _ADMM:
    """The state of the iteration, in data divided by `scale`; `N1` … `N4` are −D1 … −D4."""

    def __init__(self, problem, blur, E, scale, options):
        I, J, _ = problem.msi.shape
        p, mu = E.shape[1], options.mu
        self.P1, self.P2 = problem.degradation.P1, problem.degradation.P2
        self.P1_back, self.P2_back = self.P1.T.tocsr(), self.P2.T.tocsr()
        self.threshold, self.unit = options.lambda_phi / mu, scale**2

        hsi = np.divide(problem.hsi, scale, dtype=np.float64)
        self.msi = np.divide(problem.msi.transpose(2, 0, 1), scale, dtype=np.float64, order="C")
        self.F = problem.degradation.PM @ E
        # E = Q T: ‖H − E u‖² is what lies outside the subspace, plus ‖Q'H − T u‖².
        Q, self.T = np.linalg.qr(E)
        self.inside = components(hsi, Q)
        self.outside = half_square(spectra(self.inside, Q), hsi)
        solve_1 = linalg.inv(E.T @ E + mu * np.eye(p))
        solve_2 = linalg.inv(options.lambda_m * (self.F.T @ self.F) + mu * np.eye(p))
        self.keep_1, self.keep_2 = mu * solve_1, mu * solve_2
        self.pull_1 = np.tensordot(solve_1 @ self.T.T, self.inside, 1)
        self.pull_2 = np.tensordot(options.lambda_m * solve_2 @ self.F.T, self.msi, 1)

        half = J // 2 + 1
        power = np.abs(blur.transfer[:, :half]) ** 2
        along, across = (4.0 * np.sin(np.pi * np.arange(m) / n) ** 2 for m, n in ((half, J), (I, I)))
        self.inverse = 1.0 / (power + 1.0 + along + across[:, None])
        self.remain = power * self.inverse

        self.X, self.N2, self.N3, self.N4, self.rhs = (np.zeros((p, I, J)) for _ in range(5))
        self.fourier_X = np.zeros((p, I, half), complex)
        self.N1 = np.zeros_like(self.pull_1)
        self.seen = np.zeros_like(self.pull_1)

    def begin(self, pulse):
        """Nothing is left to be done: X is zero."""

    def cost(self):
        """That of the last whole iteration, in the caller's units."""
        return self.misfit() * self.unit

    def advance(self, pulse):
        """New V and D, of which only what X needs is kept, then X; a pulse may end it with X as it was."""
        from scipy import fft

        p, I, J = self.X.shape
        # With Y = (split of X) − D:  D ← V − Y, so that V + D = 2V − Y.
        self.N1 += self.seen
        V = self.pull_1 + np.tensordot(self.keep_1, self.N1, 1)
        self.N1 -= V
        surplus = V - self.N1 - self.seen

        self.N2 += self.X
        np.matmul(self.keep_2, self.N2.reshape(p, -1), out=self.rhs.reshape(p, -1))
        norms = np.zeros((I, J))
        for n in range(p):
            self.rhs[n] += self.pull_2[n]
            self.N2[n] -= self.rhs[n]
            self.rhs[n] -= self.N2[n]
            self.rhs[n] += self.P1_back @ (self.P2_back @ surplus[n].T).T
            _add_difference(self.X[n].T, self.N3[n].T)
            _add_difference(self.X[n], self.N4[n])
            norms += np.square(self.N3[n])
            norms += np.square(self.N4[n])
            pulse()
        np.sqrt(norms, out=norms)
        lowered = np.divide(self.threshold, np.maximum(norms, self.threshold), out=np.zeros((I, J)), where=norms > 0.0)
        doubled = 1.0 - 2.0 * lowered
        for n in range(p):
            _add_adjoint((self.N3[n] * doubled).T, self.rhs[n].T)
            _add_adjoint(self.N4[n] * doubled, self.rhs[n])
            self.N3[n] *= lowered
            self.N4[n] *= lowered
            pulse()

        X, seen = np.empty_like(self.X), np.empty_like(self.seen)
        for n in range(p):
            change = np.asarray(fft.rfft2(self.rhs[n], overwrite_x=True))
            change *= self.inverse
            self.fourier_X[n] *= self.remain
            self.fourier_X[n] += change
            X[n] = np.asarray(fft.irfft2(self.fourier_X[n], s=(I, J)))
            seen[n] = (self.P2 @ (self.P1 @ X[n]).T).T
            pulse()
        self.X, self.seen = X, seen

    def misfit(self):
        """½‖hsi − degraded‖² + ½‖msi − degraded‖² of E X."""
        hsi = half_square(np.tensordot(self.T, self.seen, 1), self.inside)
        return self.outside + hsi + half_square(np.tensordot(self.F, self.X, 1), self.msi)


def _add_difference(x, out):
    """out += the periodic forward difference of x along its first axis."""
    out[:-1] += x[1:]
    out[-1] += x[0]
    out -= x


def _add_adjoint(y, out):
    """out += the adjoint of the periodic forward difference along the first axis, of y."""
    out[1:] += y[:-1]
    out[0] += y[-1]
    out -= y
