"""NNSTF: groups of similar patches, each a non-negative sparse Tucker model, coupled to both images.

Patches of the scene that look alike in the MSI form a group, a tensor of order four (patches, rows, columns, bands)
whose Tucker model (`_tucker_group`) has non-negative factors and a sparse non-negative core. What its patches have in
common is kept, and what they have not, most of it noise, is not: the mode along the patches is the denoiser. With Z the
image in which each pixel is the mean of the models of the patches that hold it,

    min_X  ½ ‖H − X ×1 P1 ×2 P2‖² + ½ ‖M − X ×3 PM‖² + ½ η ‖X − Z‖²,

and the models are fitted to the patches of X. A round is one sweep of each group, then Z, then X, which is exact: with
the singular vectors N of PM that belong to its rows, the change X − Z splits into a part in their span, one map for
each of K_M components, and a part outside it, which the MSI does not see,

    (P'P + c_k + η) E_k = P'H'_k + M'_k,                    (P'P + η) E = P' H'    outside,

H' and M' what Z leaves of the images, c_k the squared singular values of PM and P = P1 ⊗ P2. Both are solved in the
singular vectors of P1 and P2 (`_separable`), the second from coarse pixels alone.

Pixels beyond the outermost ones of the HSI, as a part of a scene has them, are in no group: the first image knows
nothing of them. X is the only image there.

Where a value is missing, H' or M' is zero: that is a step on a function above the misfit of the others, which touches
it at Z.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike
from scipy import linalg

from ..estimation.moments import SceneBands
from ..model.checks import as_choice, as_count, as_number, set_fields
from ..model.types import Callback
from ..threads import over_blocks, thread_map
from ._gaps import filled
from ._iteration import run_watched
from ._kmeans import kmeans
from ._patches import Patches, fewer_clusters
from ._separable import SeparableBlur, rows_of_product, whole
from ._spectral import Scaled, as_scale, robust_maximum
from ._tucker_group import PatchData, first_model
from .method import Compiled, SharesBands, Solution, memory_of_phases, register

OUTPUTS = ("Z", "X")
PARTED_BY = ("scene", "msi")

# Sweeps of the start, and gradient steps of each part of a sweep: in the start, and in a round.
_START_SWEEPS, _START_STEPS, _STEPS = 10, 20, 5

# Without `clusters`, there is one for so many patches, and at least two.
_PATCHES_PER_CLUSTER = 100

# A part of a scene has fewer patches that are alike: its groups are smaller by this, to be as much alike as those of
# the scene. In return its HSI is seen in the scene's subspace, with less noise.
_SMALLER = 0.8

# Weight of squared second differences in the first image, and of its squares.
_SMOOTH, _RIDGE = 1e-3, 1e-9


@register("nnstf")
@dataclass(frozen=True, kw_only=True)
class NNSTF(SharesBands, Compiled):
    """Nonlocal non-negative sparse Tucker models of groups of patches, coupled to both images: inferred.

    Neither the text nor the code of the paper was at hand. What stands here is inferred as a whole, from its abstract
    and from two methods before it [2]_ [3]_: the grouping, the non-negative dictionaries, the sparse core and the
    coupling are the paper's; the objective, the steps and all defaults are ours. No figure of the paper was checked.

    Parameters
    ----------
    ranks : (R1, R2, R3, R4)
        The rank of a group's model over the rows and columns of a patch, bands and patches; less where there are fewer.
    clusters : int, optional
        Groups of patches; None is one for every 100, and at least two. It is the option that matters: with one, Salinas
        at 5 dB is 3 dB better, and at 20 dB 1 dB worse.
    patch, step : int
        Rows and columns of a patch, and how far one lies from the next.
    eta : float
        Weight of the models, beside the images.
    rho : float
        Weight of the sum of each core, for data divided by `scale`.
    max_iter : int
        Rounds; all of them are done.
    output : {"Z", "X"}
        The image is that of the models, or the one that fits the data more closely: better without noise, worse with.
    parts : {"scene", "msi"}
        Whose patches part a group at the start, one part for each of the R4 columns of its factor over patches: those
        of the first image, or those of the MSI, which is sharper: 1 dB better on Salinas from 20 dB on.
    scale : float, optional
        What the data are divided by; the result is in the units of the data. None is the 99.9 % quantile of the MSI (of
        the HSI, where that is not positive).

    Notes
    -----
    The random start is in the groups, and in the factors of each. X is shown with its negative values set to zero. The
    cost is ½‖hsi − degraded‖² + ½‖msi − degraded‖² of the image, without the models' part; it need not fall in every
    round. A part of a scene that is fused in tiles has its HSI in the subspace of the scene, and smaller groups.

    References
    ----------
    .. [1] Wei Wan, Weihong Guo, Haiyang Huang, Jun Liu: Nonnegative and Nonlocal Sparse Tensor Factorization-Based
       Hyperspectral Image Super-Resolution. IEEE Transactions on Geoscience and Remote Sensing 58(12), 8384-8394, 2020.
    .. [2] Yi Peng, Deyu Meng, Zongben Xu, Chenqiang Gao, Yi Yang, Biao Zhang: Decomposable Nonlocal Tensor Dictionary
       Learning for Multispectral Image Denoising. IEEE Conference on Computer Vision and Pattern Recognition, 2014.
    .. [3] Renwei Dian, Leyuan Fang, Shutao Li: Hyperspectral Image Super-Resolution via Non-Local Sparse Tensor
       Factorization. IEEE Conference on Computer Vision and Pattern Recognition, 2017.
    """

    ranks: tuple[int, int, int, int] = (8, 8, 8, 16)
    clusters: int | None = None
    patch: int = 8
    step: int = 4
    eta: float = 0.1
    rho: float = 1e-3
    max_iter: int = 30
    output: str = "Z"
    parts: str = "scene"
    scale: float | None = None

    nonnegative: ClassVar[bool] = True
    has_starts: ClassVar[bool] = True
    keeps_pixels: ClassVar[bool] = True
    least_window: ClassVar[int] = 160  # in one of 112 to 132 groups are less alike: 0.03 to 0.12 dB are lost

    def __post_init__(self):
        ranks = tuple(self.ranks) if np.ndim(self.ranks) else (self.ranks,)
        if len(ranks) != 4:
            raise ValueError(f"ranks: got {len(ranks)} numbers; four, for rows, columns, bands and patches, are needed")
        set_fields(self, ranks=tuple(as_count(r, f"ranks[{n}]") for n, r in enumerate(ranks)))
        for name in ("patch", "step"):
            set_fields(self, **{name: as_count(getattr(self, name), name)})
        if self.step > self.patch:
            raise ValueError(f"step: got {self.step}; at most the patch of {self.patch} is needed, to reach all pixels")
        if self.clusters is not None:
            set_fields(self, clusters=as_count(self.clusters, "clusters"))
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))
        set_fields(self, eta=as_number(self.eta, "eta", above=True), rho=as_number(self.rho, "rho"))
        as_choice(self.output, "output", OUTPUTS)
        as_choice(self.parts, "parts", PARTED_BY)
        set_fields(self, scale=as_scale(self.scale))

    def for_part(self, share: float) -> "NNSTF":
        return self if self.clusters is None else fewer_clusters(self, min(1.0, share / _SMALLER))

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        problem, scene = problem if isinstance(problem, tuple) else (problem, None)
        scale = self.scale or robust_maximum(problem.msi, problem.hsi)
        patches = _PATCHES_PER_CLUSTER
        if scene is not None:
            problem = replace(problem, hsi=_in_subspace(problem, scene, max(self.ranks[2], scene.signals)))
            patches = round(_SMALLER * patches)
        rounds = _Rounds(problem, scale, self, rng, patches)
        outcome = run_watched(rounds, max_iter=self.max_iter, callback=callback, time_limit=time_limit)
        return Solution(**vars(outcome), image=Scaled(rounds.image, scale))

    def memory_needed(
        self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike, shared: SceneBands | None = None
    ) -> int:
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        scene, hsi, msi = I * J * K, I_H * J_H * K, I * J * K_M
        inside = Patches.count(msi_shape, self.patch, self.step) * min(self.patch, I) * min(self.patch, J)
        # X and Z, the images and what is left of them; pixels of patches, in two ways, and the matrix that sums them.
        kept = 2 * scene + 2 * (hsi + msi) + 5 * inside + 2 * (I * I + J * J)
        # All groups together by the MSI, then one after the other by the scene; the largest has thrice its share.
        share = min(1.0, 3.0 / (self.clusters or 2 + Patches.count(msi_shape, self.patch, self.step) // 100))
        beginning = max(4 * inside * K_M, inside * K_M + (int(share * inside * K) if self.parts == "scene" else 0))
        sweeps = 3 * inside * self.ranks[2]
        step = 2 * I_H * J * K + 3 * hsi + 4 * msi
        return 8 * kept + memory_of_phases(8 * beginning, 8 * sweeps, 8 * step)


class _Rounds:
    """The groups, and the images X and Z, in data divided by `scale`; `image` is what is shown of the last round."""

    def __init__(self, problem, scale, options, rng, patches_per_cluster=_PATCHES_PER_CLUSTER):
        self.options, self.rng, self.unit = options, rng, scale**2
        self.patches_per_cluster = patches_per_cluster
        self.step = _ImageStep(problem, scale, options.eta)
        self.patches = Patches(problem.msi.shape, options.patch, options.step)
        places = self.patches.within(*(_seen_part(P) for P in (problem.degradation.P1, problem.degradation.P2)))
        self.places = places if places.size else np.arange(len(self.patches))
        self.X, self.image = self.step.first_image(), np.empty(self.step.shape)
        self._show(self.X)
        self.groups = []

    def begin(self, pulse):
        """Group the patches, and fit the first models."""
        options = self.options
        seen = self.patches.gather(self.step.msi, self.places).reshape(len(self.places), -1)
        count = options.clusters or max(2, -(-len(seen) // self.patches_per_cluster))
        labels = kmeans(seen, count, self.rng, pulse)
        for n in range(labels.max() + 1):
            own = np.flatnonzero(labels == n)
            places = self.places[own]
            data = PatchData(self.patches, places).load(self.X)
            most = *self.patches.size, self.step.shape[2], len(places)
            ranks = [min(pair) for pair in zip(options.ranks, most, strict=True)]
            parts = self._parts(seen[own], places, ranks[3], pulse)
            model = first_model(data, parts, self.patches.size, ranks[:3], options.rho, self.rng)
            data.release()
            self.groups.append((data, model))
        for _ in range(_START_SWEEPS):
            self._sweep(_START_STEPS, pulse)

    def _parts(self, seen, places, count, pulse):
        """The part of each patch of a group, counted from zero."""
        if self.options.parts == "msi":
            return kmeans(seen, count, self.rng, pulse)
        return kmeans(self.patches.gather(self.X, places).reshape(len(places), -1), count, self.rng, pulse)

    def advance(self, pulse):
        """A sweep of each group, then Z and X; the image is the one before until the new one is whole."""
        self._sweep(_STEPS, pulse)
        Z, coverage = self.X, self.patches.coverage(self.places)[:, :, None]
        outside = coverage[:, :, 0] == 0
        kept = np.maximum(Z[outside], 0.0)
        Z.fill(0.0)
        for data, model in self.groups:
            data.add_model(model.model_coefficients(), model.W, Z)
            pulse()
        np.maximum(coverage, 1, out=coverage)
        over_blocks(lambda rows: np.divide(Z[rows], coverage[rows], out=Z[rows]), len(Z), pulse)
        Z[outside] = kept
        left = self.step.residuals(Z, pulse)
        if self.options.output == "Z":
            self.X, self.image, self.left = self.image, Z, left
            self.step(Z, *left, self.X, pulse)
        else:
            self.step(Z, *left, self.X, pulse)
            self._show(self.X)

    def _show(self, X):
        """The image is X, as far as it is positive."""
        over_blocks(lambda rows: np.maximum(X[rows], 0.0, out=self.image[rows]), len(X))
        self.left = self.step.residuals(self.image)

    def _sweep(self, steps, pulse):
        """A sweep of each group, over threads."""

        def sweep(group):
            data, model = group
            model.sweep(data.load(self.X), steps)
            data.release()

        with thread_map() as each:
            for _ in each(sweep, self.groups):
                pulse()

    def cost(self):
        return 0.5 * sum(float(np.vdot(part, part)) for part in self.left) * self.unit


class _ImageStep:
    """The exact step to X, and what an image leaves of the data, divided by `scale`."""

    def __init__(self, problem, scale, eta):
        self.PM, self.eta = problem.degradation.PM, eta
        self.blur = SeparableBlur(problem.degradation)
        self.valid = problem.hsi_valid, problem.msi_valid
        self.hsi, self.msi = (
            filled(image, valid) / scale for image, valid in zip((problem.hsi, problem.msi), self.valid, strict=True)
        )
        _, strengths, N_back = linalg.svd(self.PM.toarray(), full_matrices=False)
        self.N, self.squares = N_back.T, strengths**2

    @property
    def shape(self):
        """That of the scene."""
        return *self.msi.shape[:2], self.hsi.shape[2]

    def first_image(self):
        """The smoothest image that the HSI allows for."""
        rows, columns = (_inverse_of_blur(P) for P in (self.blur.P1, self.blur.P2))
        return whole(rows_of_product(rows, columns, self.hsi), self.shape)

    def residuals(self, Z, pulse=lambda: None):
        """What an image leaves of the HSI and of the MSI."""
        left, back = (self.hsi - self.blur.see_cube(Z), np.empty(self.msi.shape)), self.PM.toarray().T
        pulse()
        over_blocks(lambda rows: np.subtract(self.msi[rows], Z[rows] @ back, out=left[1][rows]), len(Z), pulse)
        for part, valid in zip(left, self.valid, strict=True):
            if valid is not None:
                part[~valid] = 0.0
        return left

    def __call__(self, Z, hsi, msi, out=None, pulse=lambda: None):
        """X for a given Z and what it leaves of the images; `out` may be Z itself."""
        out = np.empty(Z.shape) if out is None else out
        inside = hsi @ self.N
        rhs = self.blur.back_cube(inside) + msi @ (self.PM @ self.N)
        pulse()
        seen = self.blur.solve_cube(rhs, self.squares + self.eta, out=rhs)
        pulse()
        beside = self.blur.ridge_rows(hsi - inside @ self.N.T, self.eta, pulse)

        def put(rows):
            change = beside(rows)
            change += seen[rows] @ self.N.T
            np.add(Z[rows], change, out=out[rows])

        over_blocks(put, len(Z), pulse)
        return out


def _in_subspace(problem, scene, rank):
    """The HSI of a part of a scene in the leading directions of the scene's spectra; incomplete pixels as they are."""
    D = scene.leading(problem.hsi.shape[2], rank)
    inside = (problem.hsi @ D @ D.T).astype(problem.hsi.dtype)
    if problem.hsi_valid is None:
        return inside
    return np.where(problem.hsi_valid.all(axis=2, keepdims=True), inside, problem.hsi)


def _inverse_of_blur(P):
    """(P'P + 1e-3 D'D + 1e-9)⁻¹ P', D second differences."""
    dense, D = P.toarray(), np.diff(np.eye(P.shape[1]), n=2, axis=0)
    unit = np.abs(dense.sum(axis=1)).max() or 1.0  # the smoothness is for weights that sum to one
    dense = dense / unit
    normal = dense.T @ dense + _SMOOTH * (D.T @ D) + _RIDGE * np.eye(P.shape[1])
    inverse, seen = linalg.solve(normal, dense.T, assume_a="pos") / unit, _seen_part(P)
    return inverse[np.clip(np.arange(len(inverse)), seen.start, seen.stop - 1)]


def _seen_part(P):
    """The fine pixels from the first to the last that the HSI sees well, and those between these and the next ones."""
    weights = np.asarray(abs(P).sum(axis=0)).ravel()
    lit = np.flatnonzero(weights >= 0.5 * weights.max())
    between = math.ceil(P.shape[1] / P.shape[0]) - 1
    return slice(max(0, int(lit[0]) - between), min(len(weights), int(lit[-1]) + 1 + between))
