"""LTMR: a spectral subspace, and clusters of similar patches whose tensors have a low multi-rank, by ADMM.

The scene is Z = C D', D (K, p) the leading singular vectors of the HSI's bands, C the (I, J, p) maps. The patches of C,
q × q pixels each, are put in clusters by the patches of the MSI at the same places; those of cluster k are a tensor C_k
of (n_k, q², p). With ^ the Fourier transform along the q² pixels, counted column by column, minimise

    ‖H − P C D'‖² + ‖M − C (PM D)'‖² + η Σ_k (1/q²) Σ_f Σ_i log σ_i(C^_k,f),

C^_k,f being the (n_k, p) slice of frequency f. ADMM takes the patches from other maps V, with dual G and penalty μ:

    C from (S + μ) C + P'P C = M (PM D) + P'(H D) + μV + ½G,          S = (PM D)'(PM D)
    V from the patches of X = C − G/(2μ): in each slice every singular value σ becomes (σ + sqrt(σ² − 4τ))/2, or 0 where
      σ² ≤ 4τ = 2η/μ; a pixel of V is the mean of the patches over it
    G ← G + 2μ (V − C)

Singular values do not change if D is rotated. So D is one in which S is diagonal, and the first line is one exact
separable solve for each map. With U = G/(2μ), U is V − X afterwards, and μV + ½G is μ(2V − X): of the dual nothing is
kept but U. A slice T becomes f(T T*) T, or T f(T*T), whichever is smaller, with f(λ) = (1 + sqrt(1 − 4τ/λ))/2 or 0:
that takes eigenvectors of small matrices, and no singular vectors. The pixels of a patch are few, so their Fourier
transform is a product with a matrix.

The rule for σ takes the stationary point of τ log σ + ½(σ − y)² without comparing it with σ = 0, and the mean of the
patches is not the minimiser of their sum: the iteration has no cost that falls, and its end oscillates a little.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike
from scipy import sparse

from ..estimation.moments import SceneBands
from ..kernels.slices import shrink, whole_lanes
from ..model.checks import as_count, as_number, set_fields
from ..model.problem import Mixture, Problem
from ..model.types import Array, Callback
from ._iteration import run_watched
from ._patches import Patches, fewer_clusters, starts
from ._separable import SeparableBlur
from ._spectral import as_scale, check_dimension, half_square, leading_vectors, robust_maximum
from ._upsampling import upsampling
from .method import SharesBands, Solution, memory_of_phases, register

# Called often: shows progress, and raises what ends the run.
Pulse = Callable[[], None]

# Numbers of the patches that are transformed and shrunk together.
_BATCH = 1 << 19

# A scale that few bright pixels do not move, and that is near the maximum all the same.
_NEARLY_ALL = 0.9999

# Lloyd's k-means settles after some dozens of sweeps; rounding must not keep it going for ever.
_SWEEPS = 1000


@register("ltmr")
@dataclass(frozen=True, kw_only=True)
class LTMR(SharesBands):
    """Subspace-based low tensor multi-rank regularisation of clusters of similar patches.

    P1 and P2 may be any separable operators. The strongest published model-based method on clean data. At its published
    settings it is for clean data alone: with noise a smaller `rank` (at most the MSI's bands), a larger `eta`, and
    `mu` of 0.03 to 0.1 with 16 to 40 `clusters` are worth up to 20 dB.

    Parameters
    ----------
    rank : int
        The dimension p of the subspace of spectra. More than the MSI's bands leave directions that only the HSI and
        `mu` determine.
    eta : float
        Weight of the multi-rank, for data divided by `scale`. Published are 1e-3 (Pavia) and 3e-2 (CAVE).
    mu : float
        ADMM's penalty. The published one leaves single patches nearly as the data have them.
    clusters : int
        Clusters of patches; where there are fewer patches, each is one.
    patch, step : int
        Rows and columns of a patch, and pixels from one to the next.
    max_iter : int
        ADMM iterations; all of them are done.
    scale : float, optional
        What the data are divided by; the result is in the units of the data. None is the 99.99 % quantile of the HSI
        (of the MSI, where that is not positive), nearly the largest value of the scene: the weights were published for
        data from 0 to 1. 1 leaves the data as they are.

    Notes
    -----
    The start of the clustering is random: patches drawn from all, then Lloyd's k-means until no patch moves. The cost
    is ½‖hsi − degraded‖² + ½‖msi − degraded‖², without the multi-rank.

    References
    ----------
    .. [1] Renwei Dian, Shutao Li: Hyperspectral Image Super-Resolution via Subspace-Based Low Tensor Multi-Rank
       Regularization. IEEE Transactions on Image Processing 28(10), 5135-5146, 2019.
    """

    rank: int = 10
    eta: float = 1e-3
    mu: float = 1e-3
    clusters: int = 200
    patch: int = 7
    step: int = 3
    max_iter: int = 100
    scale: float | None = None

    has_starts: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True
    same_bytes_on_any_threads: ClassVar[bool] = True

    def __post_init__(self):
        for name in ("rank", "clusters", "patch", "step"):
            set_fields(self, **{name: as_count(getattr(self, name), name)})
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))
        set_fields(self, eta=as_number(self.eta, "eta"), mu=as_number(self.mu, "mu", above=True))
        if self.step > self.patch:
            raise ValueError(f"step: got {self.step}; at most {self.patch} is needed, for patches must cover the scene")
        set_fields(self, scale=as_scale(self.scale))

    def for_part(self, share: float) -> "LTMR":
        return fewer_clusters(self, share)

    def check(self, problem: Problem) -> None:
        check_dimension(self.rank, problem.hsi)

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        problem, scene = problem if isinstance(problem, tuple) else (problem, None)
        admm = ADMM(problem, self, rng, scene=scene)
        outcome = run_watched(admm, max_iter=self.max_iter, callback=callback, time_limit=time_limit)
        return Solution(**vars(outcome), image=admm.image(problem.dtype))

    def memory_needed(
        self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike, shared: SceneBands | None = None
    ) -> int:
        (I, J, K_M), (I_H, J_H, K), itemsize = msi_shape, hsi_shape, np.dtype(dtype).itemsize
        p, hsi, fine, coarse = self.rank, I_H * J_H * K, I * J, I_H * J_H
        number = len(starts(I, self.patch, self.step)) * len(starts(J, self.patch, self.step))
        pixels = min(self.patch, I) * min(self.patch, J)
        beginning = 3 * hsi + 2 * K * K
        clustering = number * (pixels * K_M + 2 * min(self.clusters, number))
        kept = fine * (K_M + 1 + 3 * p) + 2 * coarse * p + number * pixels + 2 * (I * I_H + J * J_H) + I_H**2 + J_H**2
        # A batch: its patches, their transforms (a third more numbers) before and after.
        shrinking = 2 * fine * p + 4 * min(_BATCH, number * pixels * p)
        solving = 5 * fine * p + (I_H * J + coarse) * p
        phases = 8 * beginning, 8 * clustering, 8 * max(shrinking, solving), fine * p * itemsize
        return 8 * kept + memory_of_phases(*phases) + (1 << 16)


class ADMM:
    """The iteration, in data divided by `scale`; `C` are the maps, `image` gives D C."""

    def __init__(
        self,
        problem: Problem,
        options: LTMR,
        rng: Generator,
        labels: Array | None = None,
        scene: SceneBands | None = None,
    ):
        self.options, self.rng, self.labels, self.tau = options, rng, labels, 0.5 * options.eta / options.mu
        self.scale = options.scale or robust_maximum(problem.hsi, problem.msi, quantile=_NEARLY_ALL)
        hsi, self.msi = (np.divide(image, self.scale, dtype=np.float64) for image in (problem.hsi, problem.msi))
        if scene is None:
            D, _ = leading_vectors(hsi.reshape(-1, hsi.shape[2]).T, options.rank)
        else:
            D = scene.leading(hsi.shape[2], options.rank)
        _, roots, Q = np.linalg.svd(problem.degradation.PM @ D)
        self.D = D @ Q.T
        self.weights = np.pad(roots**2, (0, options.rank - len(roots)))[: options.rank] + options.mu
        self.D_M = problem.degradation.PM @ self.D
        self.inside = hsi @ self.D
        self.outside = half_square(self.inside @ self.D.T, hsi)
        self.blur = SeparableBlur(problem.degradation)
        self.C = upsampling(problem.degradation).image(self.inside)
        self.U = None

    def all_patches(self) -> Patches:
        """The patches of the scene, their pixels column by column."""
        return Patches(self.msi.shape, self.options.patch, self.options.step, order="F")

    def begin(self, pulse: Pulse) -> None:
        """The clusters, and what of the first step stays."""
        self.patches = self.all_patches()
        if self.labels is None:
            pixels = self.patches.gather(self.msi).reshape(len(self.patches), -1)
            self.labels = k_means(pixels, self.options.clusters, self.rng, pulse)
        self.order = np.argsort(self.labels, kind="stable")
        self.firsts = np.append(0, np.cumsum(np.unique(self.labels, return_counts=True)[1]))
        count = self.patches.pixels.shape[1]
        self.batches = batches(self.firsts, _BATCH // (count * self.C.shape[2]))
        self.forwards, self.backwards = fourier(count)
        self.coverage = self.patches.coverage()[:, :, None]
        self.fixed = self.blur.back_cube(self.inside)
        self.fixed += self.msi @ self.D_M

    def advance(self, pulse: Pulse) -> None:
        """V and U from the maps of before, then new ones. The first iteration begins with V, the interpolated HSI."""
        mu = self.options.mu
        if self.U is None:
            rhs, U = mu * self.C, np.zeros_like(self.C)
        else:
            X = self.C - self.U
            V = self.shrunk(X, pulse)
            U = V - X
            rhs = mu * (V + U)
        rhs += self.fixed
        self.U, self.C = U, self.blur.solve_cube(rhs, self.weights, out=rhs)

    def shrunk(self, X: Array, pulse: Pulse) -> Array:
        """V: the mean of the patches of X, each in the slices of its cluster with smaller singular values."""
        total = np.zeros_like(X)
        for clusters in self.batches:
            pulse()
            firsts = self.firsts[clusters]
            places = self.order[firsts[0] : firsts[-1]]
            spectrum = self.patches.gather(X, places).swapaxes(1, 2) @ self.forwards
            shrunk = np.empty_like(spectrum)
            shrink(spectrum, firsts - firsts[0], 4.0 * self.tau, shrunk)
            self.patches.add(self.backwards @ shrunk.swapaxes(1, 2), total, places)
        total /= self.coverage
        return total

    def cost(self) -> float:
        """½‖hsi − degraded‖² + ½‖msi − degraded‖² in the caller's unit."""
        hsi = half_square(self.blur.see_cube(self.C), self.inside)
        return (self.outside + hsi + half_square(self.C @ self.D_M.T, self.msi)) * self.scale**2

    def image(self, dtype: DTypeLike) -> Mixture:
        """D C in the caller's unit."""
        return Mixture(self.C.astype(dtype, copy=False), (self.scale * self.D).astype(dtype))


def fourier(count: int) -> tuple[Array, Array]:
    """The real Fourier transform of `count` numbers and its inverse, as matrices (count, 2F).

    Of F frequencies first come the real parts, then the imaginary ones; those beyond the last are zeros.
    """
    frequencies, F = count // 2 + 1, whole_lanes(count // 2 + 1)
    angles = 2.0 * np.pi / count * (np.outer(np.arange(count), np.arange(frequencies)) % count)
    forwards = np.zeros((count, 2 * F))
    forwards[:, :frequencies], forwards[:, F : F + frequencies] = np.cos(angles), -np.sin(angles)
    # All but the first, and the last of an even number, stand for two.
    twice = np.where((np.arange(F) > 0) & (2 * np.arange(F) != count), 2.0, 1.0)
    return forwards, forwards * np.tile(twice, 2) / count


def batches(firsts: Array, size: int) -> list[slice]:
    """Slices of the bounds of clusters that together have at most `size` patches, where no cluster has more."""
    bounds = [0]
    while bounds[-1] < len(firsts) - 1:
        last = np.searchsorted(firsts, firsts[bounds[-1]] + size, side="right") - 1
        bounds.append(max(int(last), bounds[-1] + 1))
    return [slice(first, last + 1) for first, last in pairwise(bounds)]


def k_means(points: Array, clusters: int, rng: Generator, pulse: Pulse) -> Array:
    """Lloyd's labels of points (n, m): from distinct points as centres, until none changes; no cluster is empty."""
    n = len(points)
    if clusters >= n:
        return np.arange(n)
    centres, labels = points[rng.choice(n, clusters, replace=False)], np.zeros(0, np.intp)
    for _ in range(_SWEEPS):
        pulse()
        distances = points @ (-2.0 * centres.T)
        distances += np.einsum("km,km->k", centres, centres)
        nearest = distances.argmin(axis=1)
        if np.array_equal(nearest, labels):
            break
        # Clusters that lost all points vanish.
        _, labels = np.unique(nearest, return_inverse=True)
        counts = np.bincount(labels)
        members = sparse.csr_array((1.0 / counts[labels], (labels, np.arange(n))), (len(counts), n))
        centres = members @ points
    return labels
