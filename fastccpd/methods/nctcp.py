"""NCTCP: nonlocal coupled CP decompositions of groups of similar patches, by ADMM.

All p×p patches of the MSI are put in groups of similar ones, by a greedy path over them that is cut into runs. A group
of n patches is a tensor (p², n, K_M), and the same patches of the scene Z are one of (p², n, K). Both are CP tensors of
rank R with common factors A_g (p², R), B_g (n, R), and spectra C_g (K, R), D_g = PM C_g:

    min  ‖H − P Z‖² + λ Σ_g ‖M_g − [[A_g, B_g, D_g]]‖²      subject to  Z_g = [[A_g, B_g, C_g]],  D_g = PM C_g,

with multipliers Y of the scene and F_g of the spectra, one penalty μ, and P the blur and decimation of every band. In a
sweep X = Z + Y/μ, and for each group, x and y its patches of X and of the MSI,

    q_ilr = μ Σ_k x_ilk C_kr + 2λ Σ_m y_ilm D_mr,     S = μC'C + 2λD'D
    A = [Σ_l q_ilr B_lr] (S * B'B)⁻¹,   then B = [Σ_i q_ilr A_ir] (S * A'A)⁻¹
    C from PM'PM C + C G = x_(3) T + PM'(D + F/μ),     G = A'A * B'B,  T = B ⊙ A
    D = (2λ y_(3) T + μ PM C − F)(2λG + μI)⁻¹,         F += μ(D − PM C).

Then HT is the mean of the overlapping patches [[A_g, B_g, C_g]], Z solves (2P'P + μI) Z = 2P'H + μHT − Y exactly (see
`_separable`), Y += μ(Z − HT), and μ grows.

Similar patches overlap: a group has far fewer pixels than values. As T only ever meets the scene, what belongs to one
pixel can be summed first: q is found once for each pixel of the group, and x_(3) T and the sum of the patches
[[A, B, C]] both come from the rows of T added up by pixels. No patch of the scene is ever made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike
from scipy import linalg

from ..kernels.arrays import readonly
from ..kernels.patches import gathered_products, greedy_path, scattered_products
from ..model.checks import as_choice, as_count, as_number, set_fields
from ..model.types import Array, Callback
from ..threads import thread_map
from ._iteration import run_watched
from ._patches import Patches
from ._separable import SeparableBlur
from ._spectral import Scaled, as_scale, half_square, robust_maximum
from .method import Method, Solution, memory_of_phases, register

STARTS, OUTPUTS = ("random", "coupled"), ("image", "patches")

# Half the window of the path, in patches, beside the present one; and the steps made between two looks at the clock.
_REACH, _STEPS = 40, 32

# The temperature of the path's choice, for squared differences of one value in grey levels of 0 to 255.
_HEAT = 10.0**0.01

_GROWTH = 1.01

# No end before so many sweeps.
_LEAST_SWEEPS = 3

# Operators of extreme weights may overflow, which shows in the result: no warning is due.
_QUIET = np.errstate(over="ignore", invalid="ignore")


@register("nctcp")
@dataclass(frozen=True, kw_only=True)
class NCTCP(Method):
    """Nonlocal coupled tensor CP decomposition: groups of similar patches, each of low CP rank.

    P1, P2 and PM may be any. The MSI must be good enough to tell which patches are similar, and with the default rank
    its noise goes into the image as it is.

    Parameters
    ----------
    rank : int
        The rank R of each group. The default is that of the one published call, and has more unknowns than the MSI has
        data: noise is fitted exactly. At 5 dB, ranks of 5 to 8 with lam of 1 to 3 and mu=0.3 are better by 20 dB.
    lam : float
        Weight of the MSI's misfit.
    mu : float
        ADMM's penalty at the first sweep; it grows by 1 % a sweep.
    max_iter : int
        Sweeps over all groups, at most.
    tol : float
        Stop when the distance of Z and HT, and the change of either, are below this part of them, from the third sweep
        on.
    group : int
        Patches in a group; the last one may have fewer. How many there were in the paper is not known for certain.
    patch : int
        Rows and columns of a patch, or those of the scene where it has fewer.
    start : {"random", "coupled"}
        How D begins: "random", as published, or with the spectra that belong to C, "coupled", which is better by 1.5 to
        3 dB on clean scenes.
    output : {"image", "patches"}
        "image": Z, as published. "patches": HT, the mean of the groups' own patches, which in noise is best after the
        first sweep.
    scale : float, optional
        What the data are divided by; the result is in the units of the data. None is the largest value of the HSI.

    Notes
    -----
    Nothing is non-negative. The path and the first factors are random. The cost is ½‖hsi − degraded‖² +
    ½‖msi − degraded‖² of the returned image.

    References
    ----------
    .. [1] Yang Xu, Zebin Wu, Jocelyn Chanussot, Pierre Comon, Zhihui Wei: Nonlocal Coupled Tensor CP Decomposition for
       Hyperspectral and Multispectral Image Fusion. IEEE Transactions on Geoscience and Remote Sensing 58(1), 348-362,
       2020.
    """

    rank: int = 180
    lam: float = 100.0
    mu: float = 1e-4
    max_iter: int = 10
    tol: float = 1e-2
    group: int = 300
    patch: int = 5
    start: str = "random"
    output: str = "image"
    scale: float | None = None

    memory_is_for: ClassVar[str] = "scenes and factors in float64"
    has_starts: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True
    keeps_pixels: ClassVar[bool] = True
    same_bytes_on_any_threads: ClassVar[bool] = True

    def __post_init__(self):
        set_fields(self, scale=as_scale(self.scale))
        as_choice(self.start, "start", STARTS)
        as_choice(self.output, "output", OUTPUTS)
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))
        for name in ("rank", "group", "patch"):
            set_fields(self, **{name: as_count(getattr(self, name), name)})
        for name in ("lam", "mu"):
            set_fields(self, **{name: as_number(getattr(self, name), name, above=True)})
        set_fields(self, tol=as_number(self.tol, "tol"))

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        scale = self.scale or max(float(problem.hsi.max()), 0.0) or robust_maximum(problem.msi)
        with thread_map() as map_groups:
            admm = _ADMM(problem, scale, self, rng, map_groups)
            limits = {"max_iter": self.max_iter, "time_limit": time_limit, "settled": admm.settled}
            outcome = run_watched(admm, callback=callback, **limits)
        return Solution(**vars(outcome), image=Scaled(admm.shown(), scale))

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K), R, threads = msi_shape, hsi_shape, self.rank, numba.get_num_threads()
        N, q = I * J, min(self.patch, I) * min(self.patch, J)
        places = max(I - self.patch + 1, 1) * max(J - self.patch + 1, 1)
        # Factors; and the places' pixels, as int64 while the groups are made, as int32 twice in the groups.
        factors = R * (places + -(-places // self.group) * (q + K + 2 * K_M))
        if threads > 1:  # new ones come from the allocators of the threads, while the room of the old ones is kept
            factors *= 2
        indices = 2 * q * places + 3 * N
        # Of one group at most: x and y, the summed T, q or the patches; eigenvectors and solves. Threads have their own
        # allocators, which keep as much again. Then patches that are being added.
        pixels = min(min(self.group, places) * q, N)
        group = pixels * (K + K_M + R + max(K, R)) + 10 * R * max(R, K)
        groups = (1 if threads == 1 else 2 * threads) * group + 2 * pixels * K
        # Z, Y, HT; new Z and HT.
        kept = I_H * J_H * K + N * K_M + 3 * N * K + factors + indices + 4 * (I * I_H + J * J_H)
        ending = N * K + 2 * I_H * J * K + I_H * J_H * K + N * K_M + 16 * J * K
        return 8 * (kept + N * K) + memory_of_phases(8 * groups, 8 * ending)


class _ADMM:
    """The state of the iteration, in data divided by `scale`."""

    def __init__(self, problem, scale, options, rng, map_groups):
        self.scale, self.options, self.rng, self.map_groups = scale, options, rng, map_groups
        self.mu, self.sweeps, self.changes = options.mu, 0, np.full(3, np.inf)
        self.hsi, self.msi = (np.divide(image, scale, dtype=np.float64) for image in (problem.hsi, problem.msi))
        self.PM, self.blur = problem.degradation.PM.toarray(), SeparableBlur(problem.degradation)
        self.shape = problem.sri_shape
        self.Z: Array = _spread(self.hsi, self.blur)
        self.HT = self.Z

    def begin(self, pulse):
        options, rng = self.options, self.rng
        patches = Patches(self.msi.shape, options.patch)
        path = similar_path(self.msi, patches, rng, pulse)
        _, s, Q = linalg.svd(self.PM, full_matrices=False, check_finite=False)
        present = s > len(s) * np.finfo(np.float64).eps * s[0]
        self.response = s[present] ** 2, np.ascontiguousarray(Q[present].T)
        runs = [path[start : start + options.group] for start in range(0, len(path), options.group)]
        self.groups = [_Group(patches.pixels[run], options.rank, self.PM, rng) for run in runs]
        if options.start == "random":
            # Bands take their numbers in the order of their responses, so that the order of the MSI's is not seen.
            order = np.lexsort(self.PM.T)
            for group in self.groups:
                group.D[order] = _unit(rng.random(group.D.shape))
        self.coverage = patches.coverage()[:, :, None]
        self.Y = np.zeros(self.shape)

    def advance(self, pulse):
        """One pass over all groups, and the new HT, Z and Y."""
        HT, many = np.zeros(self.shape), numba.get_num_threads()
        flat = HT.reshape(-1, self.shape[2])
        for start in range(0, len(self.groups), many):
            groups = self.groups[start : start + many]
            # In the order of the groups, whichever is done first: the sum has the same bytes on any number of threads.
            for group, patches in zip(groups, self.map_groups(self._update, groups), strict=True):
                flat[group.pixels] += patches
            pulse()
        HT /= self.coverage
        mu = self.mu
        Z = self.blur.back_cube(self.hsi)
        for z, ht, y in zip(Z, HT, self.Y, strict=True):  # row by row: no further scene
            z *= 2.0
            z += mu * ht
            z -= y
        self.blur.solve_cube(Z, mu, 2.0, out=Z)
        distance = 0.0
        for z, ht, y in zip(Z, HT, self.Y, strict=True):
            apart = z - ht
            distance += np.vdot(apart, apart)
            apart *= mu
            y += apart
        size = np.linalg.norm(Z)
        self.changes = np.array([_ratio(distance**0.5, size), _change(HT, self.HT), _change(Z, self.Z)])
        self.Z, self.HT = Z, HT
        self.mu *= _GROWTH
        self.sweeps += 1

    def _update(self, group):
        """One pass over a group's factors; the sum of its patches at each of its pixels."""
        K = self.shape[2]
        Y, Z, msi = self.Y.reshape(-1, K), self.Z.reshape(-1, K), self.msi.reshape(-1, self.msi.shape[2])
        data = np.empty((len(group.pixels), K + msi.shape[1]))
        np.divide(Y[group.pixels], self.mu, out=data[:, :K])
        data[:, :K] += Z[group.pixels]
        data[:, K:] = msi[group.pixels]
        return group.update(data, self.mu, 2.0 * self.options.lam, self.PM, self.response)

    def settled(self):
        return self.sweeps >= _LEAST_SWEEPS and bool((self.changes < self.options.tol).all())

    def shown(self):
        return self.Z if self.options.output == "image" else self.HT

    def cost(self):
        """½‖hsi − degraded‖² + ½‖msi − degraded‖² of the image, in the units of the data."""
        image = self.shown()
        misfit = half_square(self.blur.see_cube(image), self.hsi) + half_square(image @ self.PM.T, self.msi)
        return misfit * self.scale**2


class _Group:
    """The factors of one group, A (q, R), B (n, R), C (K, R), D (K_M, R), and its multiplier F.

    `pixels` are the pixels of its patches, each once; `index` (n, q) says which of them stand where in the patches.
    """

    def __init__(self, pixels, rank, PM, rng):
        self.pixels, index = np.unique(pixels, return_inverse=True)
        self.index = readonly(index.reshape(pixels.shape).astype(np.int32))
        self.turned = readonly(np.ascontiguousarray(self.index.T))
        self.A, self.B, self.C = (_unit(rng.random((n, rank))) for n in (*self.turned.shape, PM.shape[1]))
        self.D = PM @ self.C
        self.F = np.zeros_like(self.D)

    @_QUIET
    def update(self, data, mu, weight, PM, response):
        """A, B, C, D, F in turn, for pixels (u, K + K_M) of x and y side by side; the patches' sum at each pixel.

        `weight` is 2λ.
        """
        B, C, D, F, K = self.B, self.C, self.D, self.F, len(self.C)
        q = readonly(data @ np.vstack([mu * C, weight * D]))
        S = mu * (C.T @ C) + weight * (D.T @ D)
        A = _over(_gathered(q, self.turned, B), S * (B.T @ B))
        B = _over(_gathered(q, self.index, A), S * (A.T @ A))
        summed = np.zeros(q.shape)
        scattered_products(readonly(B), readonly(A), self.index, summed)
        del q
        products = data.T @ summed
        e, inverses, V = _eigh((A.T @ A) * (B.T @ B))
        C = _sylvester((products[:K] + PM.T @ (D + F / mu)) @ V, e, inverses, *response) @ V.T
        seen = PM @ C
        D = ((weight * products[K:] + mu * seen - F) @ V / (weight * e + mu)) @ V.T
        self.A, self.B, self.C, self.D, self.F = A, B, C, D, F + mu * (D - seen)
        return summed @ C.T


def similar_path(msi: Array, patches: Patches, rng: Generator, pulse: Callable[[], None]) -> Array:
    """All places of `patches`, in the order of a path from place 0 on that steps to similar patches.

    `pulse` is called every few steps.
    """
    I, _, bands = msi.shape
    (rows, columns), size = patches.grid, np.array(patches.size)
    reach = max(rows, columns) if 2 * _REACH + 1 >= rows else _REACH
    path, visited = np.zeros(len(patches), np.int64), np.zeros((rows, columns), np.bool_)
    visited[0, 0] = True
    lines, uniforms = readonly(np.ascontiguousarray(msi).reshape(I, -1)), readonly(rng.random(len(patches)))
    heat = _HEAT * size.prod() * bands
    for first in range(1, len(path), _STEPS):
        pulse()
        greedy_path(lines, bands, readonly(size), reach, heat, uniforms[first : first + _STEPS], first, visited, path)
    return path


def _spread(hsi, blur):
    """P'H over the sums of the columns of P: each pixel the mean of the HSI's pixels that see it."""
    rows, columns = (np.asarray(P.sum(axis=0)).ravel() for P in (blur.P1, blur.P2))
    sums = np.multiply.outer(rows, columns)
    seen = np.abs(sums) > 1e-8 * np.abs(sums).max()
    Z = blur.back_cube(hsi)
    Z *= np.divide(1.0, sums, out=np.zeros_like(sums), where=seen)[:, :, None]
    return Z


def _unit(X):
    """X with columns of length one."""
    return X / np.maximum(np.linalg.norm(X, axis=0), np.finfo(np.float64).tiny)


def _gathered(q, index, factor):
    out = np.empty((len(index), factor.shape[1]))
    gathered_products(q, index, readonly(factor), out)
    return out


def _eigh(gram):
    """Eigenvalues, zero where they are rounding, their pseudo-inverses, and eigenvectors."""
    if not np.isfinite(gram).all():  # LAPACK would raise; what is not finite shows in the result
        nothing = np.full(len(gram), np.nan)
        return nothing, nothing, np.eye(len(gram))
    values, vectors = np.linalg.eigh(gram)
    present = values > len(gram) * np.finfo(np.float64).eps * values[-1]
    return np.where(present, values, 0.0), np.divide(1.0, values, out=np.zeros_like(values), where=present), vectors


def _over(rhs, gram):
    """rhs gram⁺, without eigenvalues that are rounding: the MSI's part has less than full rank."""
    _, inverses, vectors = _eigh(gram)
    return ((rhs @ vectors) * inverses) @ vectors.T


def _sylvester(rhs, e, inverses, r, Q):
    """C of Q diag(r) Q' C + C diag(e) = rhs, of least norm; `inverses` are those of e."""
    C = rhs * inverses
    C += Q @ ((Q.T @ rhs) * (1.0 / (r[:, None] + e) - inverses))
    return C


def _ratio(part, whole):
    return float(part / whole) if whole > 0.0 else 0.0


def _change(new, old):
    """‖new − old‖ / ‖old‖."""
    squares = sum(float(np.sum(np.square(n - o))) for n, o in zip(new, old, strict=True))
    return _ratio(squares**0.5, np.linalg.norm(old))
