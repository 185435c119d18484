"""SC-LL1: a non-negative coupled block-term decomposition, by alternating projected gradients.

The scene is Σ_r S_r ∘ c_r: R materials, each with an (I, J) abundance map S_r and a spectrum c_r, a column of C. With
pixels row by row, S the (IJ, R) matrix of the maps and P = P1 ⊗ P2,

    f(S, C) = ½ ‖H − P S C'‖² + ½ ‖M − S C' PM'‖² + ½ λ ‖C‖²
              + η Σ_r tr (S_r S_r' + τI)^(p/2) + θ Σ_r Σ_differences d of S_r  (d² + ε)^(q/2),      S, C ≥ 0.

The first prior is a smooth stand-in for the rank of each map, the second for the number of its edges; differences are
between neighbours in a row and in a column. Both are concave in the squares, so their gradients,

    p η W_r S_r,  W_r = (S_r S_r' + τI)^(p/2 − 1),          q θ D' diag((d² + ε)^(q/2 − 1)) D s,

are those of quadratics that touch them from above, and the step 1/L is safe with (s the largest eigenvalue)

    L_C = s(S'P'P S) + s(PM'PM) s(S'S) + λ
    L_S = s(C'C) s(P1'P1) s(P2'P2) + s(C'PM'PM C) + p η max_r s(W_r) + q θ 4 (the largest weight in each direction).

An iteration takes such a step for C and then for S, each from a point extrapolated by Nesterov's rule
t⁺ = (1 + sqrt(1 + 4t²))/2 and each followed by clipping at zero.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..model.checks import as_count, as_number, set_fields
from ._iteration import run_watched
from ._spectral import as_scale, components, half_square, mixture, robust_maximum, spectra
from .method import Method, Solution, register


@register("cbtd-apg")
@dataclass(frozen=True, kw_only=True)
class CBTDAPG(Method):
    """Non-negative coupled block-term decomposition with low-rank and sparse-gradient abundance maps (SC-LL1).

    Parameters
    ----------
    rank : int
        The number R of materials.
    p, tau, eta : float
        Exponent, smoothing and weight of the low-rank prior on each map.
    q, eps, theta : float
        Exponent, smoothing and weight of the total variation of each map.
    lam : float
        Weight of ½‖C‖².
    max_iter : int
        Iterations at most, each a step for the spectra and one for the maps.
    tol : float
        Stop when an iteration changes the cost by less than this part of it.
    scale : float, optional
        What the data are divided by, so that the weights mean the same for reflectances and for counts; the result is
        in the units of the data. None is the 99.9 % quantile of the MSI (of the HSI, where that is not positive). 1
        leaves the data as they are.

    Notes
    -----
    The cost is the method's own, f with its priors, times scale².

    References
    ----------
    .. [1] Meng Ding, Xiao Fu, Ting-Zhu Huang, Jun Wang, Xi-Le Zhao: Hyperspectral Super-Resolution via Interpretable
       Block-Term Tensor Modeling. IEEE Journal of Selected Topics in Signal Processing 15(3), 641-656, 2021.
    """

    rank: int = 6
    p: float = 0.5
    q: float = 0.5
    tau: float = 1.0
    eps: float = 1e-3
    lam: float = 0.8
    theta: float = 1e-4
    eta: float = 5e-3
    max_iter: int = 300
    tol: float = 1e-4
    scale: float | None = None

    nonnegative: ClassVar[bool] = True
    has_starts: ClassVar[bool] = True

    def __post_init__(self):
        set_fields(self, rank=as_count(self.rank, "rank"))
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))
        for name in ("p", "q", "tau", "eps"):
            set_fields(self, **{name: as_number(getattr(self, name), name, above=True)})
        for name in ("lam", "theta", "eta", "tol"):
            set_fields(self, **{name: as_number(getattr(self, name), name)})
        for name in ("p", "q"):
            if getattr(self, name) > 2.0:
                raise ValueError(f"{name}: got {getattr(self, name)!r}; a number of at most 2 is needed")
        set_fields(self, scale=as_scale(self.scale))

    def solve(self, problem, *, rng, callback=None, time_limit=None):
        scale = self.scale or robust_maximum(problem.msi, problem.hsi)
        iterates = _Iterates(_Objective(problem, scale, self), problem.sri_shape, self.rank, rng, scale)
        limits = {"max_iter": self.max_iter, "time_limit": time_limit, "tol": self.tol}
        outcome = run_watched(iterates, callback=callback, **limits)
        return Solution(**vars(outcome), image=mixture(iterates.S, iterates.C * scale, problem.dtype))

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        hsi, msi = I_H * J_H * K, I * J * K_M
        maps, seen, short = self.rank * I * J, self.rank * I_H * J_H, min(I, J)
        images = 2 * hsi + 2 * msi + I_H**2 + J_H**2
        # S, the one before, the one ahead, the gradient, differences and their weights.
        return 8 * (images + 6 * maps + 6 * seen + (self.rank + 4) * short**2)


class _Iterates:
    """Maps S and spectra C, and those of the iteration before, from which both are extrapolated."""

    def __init__(self, objective, sri_shape, rank, rng, scale):
        rows, columns, bands = sri_shape
        self.objective, self.scale, self.t, self.value = objective, scale, 1.0, np.nan
        self.S = self.before_S = rng.random((rank, rows, columns))
        self.C = self.before_C = rng.random((bands, rank))
        self.seen = self.before_seen = objective.see(self.S)

    def cost(self):
        """Of the last whole iteration."""
        return self.value * self.scale**2

    def begin(self, pulse):
        # Ended here, it has the cost of the data alone: the priors take long.
        self.value = self.objective.misfit(self.S, self.C, self.seen)
        self.objective.pulse = pulse
        self.value = self.objective.cost(self.S, self.C, self.seen)

    def advance(self, pulse):
        """One accelerated projected-gradient step in C, then one in S."""
        objective, t = self.objective, 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.t * self.t))
        momentum = (self.t - 1.0) / t

        ahead = self.C + momentum * (self.C - self.before_C)
        gradient, L = objective.spectral_gradient(ahead, self.S, self.seen)
        C = np.maximum(ahead - gradient / L, 0.0)
        pulse()

        ahead = self.S + momentum * (self.S - self.before_S)
        ahead_seen = self.seen + momentum * (self.seen - self.before_seen)
        gradient, L = objective.spatial_gradient(ahead, C, ahead_seen)
        gradient /= -L
        gradient += ahead
        del ahead
        S = np.maximum(gradient, 0.0, out=gradient)
        seen = objective.see(S)
        value = objective.cost(S, C, seen)
        # Until here a pulse may have ended it, with all as it was.
        self.before_S, self.before_C, self.before_seen = self.S, self.C, self.seen
        self.S, self.C, self.seen, self.t, self.value = S, C, seen, t, value


class _Objective:
    """f and its gradients in data divided by `scale`. Maps are (R, I, J); `seen` are those the HSI sees, P1 S_r P2'.

    `pulse` is called between parts that take long on large images.
    """

    def __init__(self, problem, scale, options, pulse=lambda: None):
        self.options, self.pulse = options, pulse
        self.P1, self.P2, self.PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
        self.P1_back, self.P2_back = self.P1.T.tocsr(), self.P2.T.tocsr()
        self.hsi, self.msi = (np.divide(image, scale, dtype=np.float64) for image in (problem.hsi, problem.msi))
        self.blur_norm = _largest_square(self.P1) * _largest_square(self.P2)
        self.response_norm = _largest_square(self.PM)

    def see(self, S):
        return np.stack([(self.P2 @ (self.P1 @ S_r).T).T for S_r in S])

    def cost(self, S, C, seen):
        options, powers = self.options, _squared_singular_values(S, self.pulse)
        powers += options.tau
        low_rank, edges = np.sum(powers ** (0.5 * options.p)), 0.0
        for axis in (1, 2):
            edges += np.sum((np.diff(S, axis=axis) ** 2 + options.eps) ** (0.5 * options.q))
            self.pulse()
        priors = 0.5 * options.lam * np.vdot(C, C) + options.eta * low_rank + options.theta * edges
        return float(self.misfit(S, C, seen) + priors)

    def misfit(self, S, C, seen):
        return half_square(spectra(seen, C), self.hsi) + half_square(spectra(S, self.PM @ C), self.msi)

    def spectral_gradient(self, C, S, seen):
        """∂f/∂C, and a bound on its slope."""
        lam = self.options.lam
        S, seen = S.reshape(len(S), -1), seen.reshape(len(seen), -1)
        gram_H, gram_M = seen @ seen.T, S @ S.T
        gradient = C @ gram_H - (seen @ self.hsi.reshape(seen.shape[1], -1)).T
        gradient += self.PM.T @ ((self.PM @ C) @ gram_M - (S @ self.msi.reshape(S.shape[1], -1)).T)
        gradient += lam * C
        return gradient, _largest(gram_H) + self.response_norm * _largest(gram_M) + lam

    def spatial_gradient(self, S, C, seen):
        """∂f/∂S, and a bound on its slope."""
        options, C_M = self.options, self.PM @ C
        gram_H, gram_M = C.T @ C, C_M.T @ C_M
        gradient = np.tensordot(gram_M, S, 1)
        gradient -= components(self.msi, C_M)
        pull = np.tensordot(gram_H, seen, 1) - components(self.hsi, C)
        low_rank_slope = 0.0
        for g, r, S_r in zip(gradient, pull, S, strict=True):
            g += self.P1_back @ (self.P2_back @ r.T).T
            low_rank, largest = _low_rank_gradient(S_r, options)
            g += low_rank
            low_rank_slope = max(low_rank_slope, largest)
            self.pulse()
        L = _largest(gram_H) * self.blur_norm + _largest(gram_M) + low_rank_slope
        for axis in (1, 2):
            L += _add_edge_gradient(np.moveaxis(S, axis, 0), np.moveaxis(gradient, axis, 0), options)
            self.pulse()
        return gradient, L


def _low_rank_gradient(S, options):
    """p η W S, and the largest eigenvalue of p η W; with W from the left or from the right, whichever is smaller."""
    wide = S.shape[0] <= S.shape[1]
    X = S if wide else S.T
    # NumPy's eigh, not SciPy's: each may bring its own BLAS, and two pools of waiting threads in one loop cost 4 times.
    values, vectors = np.linalg.eigh(X @ X.T)
    weights = options.p * options.eta * (np.maximum(values, 0.0) + options.tau) ** (0.5 * options.p - 1.0)
    gradient = (vectors * weights) @ (vectors.T @ X)
    return gradient if wide else gradient.T, weights.max()


def _add_edge_gradient(S, gradient, options):
    """Add q θ D' diag((d² + ε)^(q/2 − 1)) d, d = D S the differences along the first axis; a bound on its slope."""
    d = np.diff(S, axis=0)
    weights = np.square(d)
    weights += options.eps
    np.power(weights, 0.5 * options.q - 1.0, out=weights)
    weights *= options.q * options.theta
    steepest = 4.0 * weights.max(initial=0.0)
    d *= weights
    gradient[:-1] -= d
    gradient[1:] += d
    return steepest


def _squared_singular_values(S, pulse):
    """Of each map: as many as it has rows, those beyond its columns being zero."""
    R, rows, columns = S.shape
    X = S if rows <= columns else S.transpose(0, 2, 1)
    values = np.empty((R, min(rows, columns)))
    for r in range(R):
        values[r] = np.maximum(np.linalg.eigvalsh(X[r] @ X[r].T), 0.0)
        pulse()
    return np.pad(values, ((0, 0), (0, rows - values.shape[1])))


def _largest(gram):
    """The largest eigenvalue of a symmetric matrix."""
    return float(np.linalg.eigvalsh(gram)[-1])


def _largest_square(P):
    """The square of the largest singular value of P."""
    small = P @ P.T
    return _largest(small.toarray())
