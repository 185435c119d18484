"""NSSR: non-negative structured sparse representation, by ADMM.

The scene is Z = A D', pixels row by row: D (K, a) non-negative spectra learnt from the HSI alone, A (N, a) non-negative
sparse codes. With P the blur and decimation of every band, U the nonlocal mean of the current Z, found from the MSI,

    min_A  ‖H − P A D'‖² + ‖M − A D' PM'‖² + η1 ‖A D' − U‖² + η2 ‖A‖₁,          A ≥ 0,

in data divided by `scale`, since all constants are absolute. ADMM splits Z from A D' (multiplier V1) and the sparse
codes S from A (V2), and starts from zeros; with D_M = PM D, in each iteration

    A = (M D_M + η1 U D + (μZ − V1/2) D + μS + V2/2) (D_M'D_M + (η1 + μ) D'D + μI)⁻¹
    Z from (P'P + μI) Z = P'H + μ A D' + V1/2, exactly (see `_separable`)
    S = max(A − V2/(2μ) − η2/(2μ), 0),   V2 += μ(S − A),   V1 += μ(A D' − Z),   U = W Z,   μ grows.

All but the equation for Z and the nonlocal mean goes pixel by pixel, and is done block by block in the cache. The
result is Z, which is free and goes negative with noise; S D' is not.

The iteration knows Z only by its products with D. So it keeps Z, U and V1 in orthonormal axes Q of the atoms' span (K
numbers a pixel become at most a), and what Z has outside them, Z°, is made once, at the end. There A D' has no part,
and Z° = ζ P'H° in the singular vectors of the blur, with p = a_i² b_j² and from ν = 0

    ζ = (1 + ν) / (p + μ),          ν −= μζ/2          in each iteration.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike
from scipy import linalg

from ..kernels.maps import along
from ..model.checks import as_choice, as_count, as_number, set_fields
from ..model.problem import Mixture, as_part
from ..model.types import Array, Callback, Part, Shape
from ..threads import over_blocks, thread_map
from ._dictionary import learn_dictionary
from ._iteration import run_watched
from ._neighbours import nonlocal_weights
from ._separable import SeparableBlur
from ._spectral import Scaled, as_scale, half_square, robust_maximum
from .method import Method, Solution, memory_of_phases, register

OUTPUTS = ("image", "codes")

# Pixels of a block.
_BLOCK = 256

# Grey levels of the images for which the decay of the nonlocal weights was made; pixels of their patches.
_LEVELS, _PATCH = 255.0, 9

# Rounds of back-projection at most, and the change of its correction that ends it.
_ROUNDS, _SMALL = 50, 1e-3


@register("nssr")
@dataclass(frozen=True, kw_only=True)
class NSSR(Method):
    """Non-negative structured sparse representation: sparse codes in spectra of the HSI, and nonlocal means.

    The degradation may be any that goes along rows and columns in turn: no periodic boundary, no whole ratio is needed.

    Parameters
    ----------
    rank : int
        The number of spectra ("atoms") of the dictionary; no more than the HSI has pixels.
    eta1 : float
        Weight of the distance to the nonlocal mean.
    eta2 : float
        Weight of the codes' sparsity. The defaults are the published ones for a Gaussian blur; for a uniform one over 8
        pixels 1e-4. On clean scenes (eta1, eta2) = (1e-4, 1e-4) is better by 6 dB, on noisy ones worse by 4.
    mu, growth : float
        ADMM's penalty, and the factor by which it grows in an iteration: they decide how far the iterations come.
    max_iter : int
        ADMM iterations; all of them are done.
    neighbours : int
        Pixels of a nonlocal mean, itself among them.
    reach : int
        How many rows and columns away they are looked for.
    decay : float
        The mean squared difference of two patches, in grey levels of 0 to 255, at which the weight falls to 1/e.
    bands : int, optional
        How many bands of the MSI are compared to find similar pixels: those that see the first bands of the scene. The
        published code takes three, and still divides by the number of all. None is all of them, which is better by 1.5
        dB on clean Salinas, and worse by 1 dB at 5 dB.
    output : {"image", "codes"}
        "image": Z, which fits the HSI exactly and may be negative, as published. "codes": S D', which is non-negative.
    back_projection : bool
        Whether Z is projected in turn on the scenes that explain the MSI and on those that explain the HSI, at the end.
        It needs clean data: at 20 dB it costs 3 dB.
    scale : float, optional
        What the data are divided by; the result is in the units of the data. None is the 99.9 % quantile of the HSI,
        which sees the brightest bands too (of the MSI, where that is not positive). 1 leaves the data as they are.

    Notes
    -----
    The dictionary begins with random pixels of the HSI, so the result depends on the seed, by some 0.1 dB. The cost is
    ½‖hsi − degraded‖² + ½‖msi − degraded‖² of the returned image.

    References
    ----------
    .. [1] Weisheng Dong, Fazuo Fu, Guangming Shi, Xun Cao, Jinjian Wu, Guangyu Li, Xin Li: Hyperspectral Image
       Super-Resolution via Non-Negative Structured Sparse Representation. IEEE Transactions on Image Processing 25(5),
       2337-2352, 2016.
    """

    rank: int = 80
    eta1: float = 0.015
    eta2: float = 6e-5
    mu: float = 2e-4
    growth: float = 1.1
    max_iter: int = 26
    neighbours: int = 10
    reach: int = 18
    decay: float = 90.0
    bands: int | None = 3
    output: str = "image"
    back_projection: bool = False
    scale: float | None = None

    has_starts: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True
    keeps_pixels: ClassVar[bool] = True
    same_bytes_on_any_threads: ClassVar[bool] = True
    memory_is_for: ClassVar[str] = "scenes and codes in float64"

    def __post_init__(self):
        for name, least in (("rank", 1), ("max_iter", 0), ("neighbours", 1), ("reach", 0)):
            set_fields(self, **{name: as_count(getattr(self, name), name, least=least)})
        for name in ("eta1", "eta2"):
            set_fields(self, **{name: as_number(getattr(self, name), name)})
        for name in ("mu", "growth", "decay"):
            set_fields(self, **{name: as_number(getattr(self, name), name, above=True)})
        as_choice(self.output, "output", OUTPUTS)
        if not isinstance(self.back_projection, bool | np.bool_):
            raise TypeError(f"back_projection: got {self.back_projection!r}; True or False is needed")
        set_fields(self, back_projection=bool(self.back_projection))
        if self.bands is not None:
            set_fields(self, bands=as_count(self.bands, "bands"))
        set_fields(self, scale=as_scale(self.scale))

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        scale = self.scale or robust_maximum(problem.hsi, problem.msi)
        with thread_map() as map_blocks:
            admm = _ADMM(problem, scale, self, rng, map_blocks)
            outcome = run_watched(admm, max_iter=self.max_iter, callback=callback, time_limit=time_limit)
        return Solution(**vars(outcome), image=admm.image())

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        N, pixels, atoms, count = I * J, I_H * J_H, min(self.rank, I_H * J_H), self.neighbours
        axes = min(atoms, K)
        scene, half, blocks = N * K, I_H * J, numba.get_num_threads() * _BLOCK * (axes + 2 * atoms)
        images = pixels * K + N * K_M
        # The matrix of weights; what the HSI has in the axes and beside them.
        kept = images + 2 * N * count + pixels * (K + axes) + I * I_H * 4 + J * J_H * 4
        search = 3 * N * K_M + 3 * N * count
        learning = 100 * atoms**2 + pixels * 2 * atoms
        # Z, U, V1 and P'H in the axes; the codes S, V2 and M D_M.
        loop = 4 * N * axes + 3 * N * atoms + 2 * N * K_M + (2 * half + 16 * J) * axes + blocks
        # Z and S, and where it is projected the scene and a correction of it.
        projecting = N * axes + N * atoms + 5 * scene // 2 + half * K + pixels * K if self.back_projection else 0
        return 8 * kept + memory_of_phases(8 * search, 8 * learning, 8 * loop, 8 * projecting)


class _ADMM:
    """The state of the iteration, in data divided by `scale`; `half_V1` and `half_V2` are V1/2 and V2/2.

    Z, U and V1 are in the axes Q. `beside` is what the HSI has beside them, in the blur's singular vectors.
    """

    def __init__(self, problem, scale, options, rng, map_blocks):
        self.problem, self.scale, self.options = problem, scale, options
        self.rng, self.map_blocks = rng, map_blocks
        self.shape, self.mu, self.n_iter = problem.sri_shape, options.mu, 0
        self.Z: Any = None  # until it has begun
        self.U: Any = None
        self.projected: Any = None
        self.hsi, self.msi = (np.divide(image, scale, dtype=np.float64) for image in (problem.hsi, problem.msi))

    def begin(self, pulse):
        options, (I, J, K), K_M = self.options, self.shape, self.msi.shape[2]
        decay = options.decay * _PATCH * K_M / _LEVELS**2
        self.PM = self.problem.degradation.PM.toarray()
        # By what they see, not by their place in the MSI.
        centres = np.abs(self.PM) @ np.arange(K) / np.abs(self.PM).sum(axis=1)
        compared = self.msi[:, :, np.argsort(centres, kind="stable")[: options.bands]]
        self.W = nonlocal_weights(compared, options.neighbours, options.reach, decay, pulse)
        self.D = learn_dictionary(self.hsi.reshape(-1, K), options.rank, self.rng, pulse)
        self.D_M = self.PM @ self.D
        self.Q = np.linalg.qr(self.D).Q
        self.atoms, self.PM_inside = self.Q.T @ self.D, self.PM @ self.Q
        self.blur = SeparableBlur(self.problem.degradation)
        self.hsi_inside = self.hsi @ self.Q
        outside = self.hsi - self.hsi_inside @ self.Q.T
        self.beside = self.blur.modes(outside)
        self.squares_beside = np.square(self.beside).sum(axis=2)
        self.unseen = max(0.0, float(np.vdot(outside, outside)) - self.squares_beside.sum())
        self.gain, self.half_V1_beside = np.zeros((2, *self.blur.powers.shape))
        L = self.Q.shape[1]
        self.pull_H = self.blur.back_cube(self.hsi_inside).reshape(-1, L)
        self.pull_M = self.msi.reshape(I * J, -1) @ self.D_M
        self.Z, self.U, self.half_V1 = (np.zeros((I * J, L)) for _ in range(3))
        self.S, self.half_V2 = (np.zeros_like(self.pull_M) for _ in range(2))

    def advance(self, pulse):
        """New A, S and V2 block by block, Z, V1, and the nonlocal mean."""
        options, mu, D, (I, J, L) = self.options, self.mu, self.D, (*self.shape[:2], self.Q.shape[1])
        gram = self.D_M.T @ self.D_M + (options.eta1 + mu) * (D.T @ D) + mu * np.eye(D.shape[1])
        inverse = linalg.inv(gram, check_finite=False)
        blocks = [slice(start, start + _BLOCK) for start in range(0, I * J, _BLOCK)]
        for _ in self.map_blocks(lambda block: self._code(block, inverse), blocks):
            pass
        self.U = None
        # What the blocks have left in Z is the right side.
        self.blur.solve_cube(self.Z.reshape(I, J, L), mu, out=self.Z.reshape(I, J, L))
        for _ in self.map_blocks(self._finish, blocks):
            pass
        self.U = along(self.W, self.Z.reshape(-1, 1, L), 0).reshape(-1, L)
        self.gain = (1.0 + self.half_V1_beside) / (self.blur.powers + mu)
        self.half_V1_beside -= 0.5 * mu * self.gain
        self.mu *= options.growth
        self.n_iter += 1
        if options.back_projection and self.n_iter == options.max_iter:
            self._project()

    def _code(self, block, inverse):
        """A, S and V2 of some pixels; Z becomes P'H + μ A D' + V1/2, and V1/2 has + μ A D'/2 added."""
        mu, options = self.mu, self.options
        Z, half_V1, S, half_V2 = (part[block] for part in (self.Z, self.half_V1, self.S, self.half_V2))
        aim = options.eta1 * self.U[block]
        Z *= mu
        aim += Z
        aim -= half_V1
        rhs = aim @ self.atoms
        rhs += self.pull_M[block]
        S *= mu
        rhs += S
        rhs += half_V2
        A = rhs @ inverse
        np.matmul(A, self.atoms.T, out=aim)
        aim *= mu
        np.add(aim, half_V1, out=Z)
        Z += self.pull_H[block]
        aim *= 0.5
        half_V1 += aim

        np.divide(half_V2, -mu, out=S)
        S += A
        S -= 0.5 * options.eta2 / mu
        np.maximum(S, 0.0, out=S)
        np.subtract(S, A, out=rhs)
        rhs *= 0.5 * mu
        half_V2 += rhs

    def _finish(self, block):
        """− μZ/2 to V1/2 of some pixels, with the new Z."""
        self.half_V1[block] -= 0.5 * self.mu * self.Z[block]

    def _outside(self, columns):
        """Z° times some columns (K, n)."""
        return self.blur.from_modes(self.beside @ columns, self._gain_outside())

    def _gain_outside(self):
        return self.gain * np.sqrt(self.blur.powers)

    def _scene(self, unit):
        """unit·Z in all its bands."""
        inside = Mixture(self.Z.reshape(*self.shape[:2], -1), unit * self.Q)
        return Scene(inside, self.blur, self.beside, unit * self._gain_outside())

    def _project(self):
        """Z on the scenes that explain the MSI and on those that explain the HSI, in turn."""
        self.U = self.half_V1 = self.half_V2 = self.pull_H = self.pull_M = np.zeros((0, 0))
        self.projected = Z = self._scene(1.0).render(dtype=np.float64)
        inverse, before = np.linalg.pinv(self.PM), np.inf
        for _ in range(_ROUNDS):
            Z += (self.msi - Z @ self.PM.T) @ inverse.T
            correction = self.blur.pseudo_inverse_cube(self.hsi - self.blur.see_cube(Z))
            Z += correction
            size = float(np.linalg.norm(correction))
            if abs(before - size) < _SMALL:
                break
            before = size

    def cost(self):
        """½‖hsi − degraded‖² + ½‖msi − degraded‖² of the image, in the units of the data."""
        if self.Z is None:
            return 0.5 * self.scale**2 * float(np.vdot(self.hsi, self.hsi) + np.vdot(self.msi, self.msi))
        I, J, _ = self.shape
        if self.options.output == "codes":
            seen = self.blur.see_cube(self.S.reshape(I, J, -1)) @ self.D.T
            averaged = (self.S @ self.D_M.T).reshape(self.msi.shape)
            misfit = half_square(seen, self.hsi)
        elif self.projected is not None:
            misfit = half_square(self.blur.see_cube(self.projected), self.hsi)
            averaged = self.projected @ self.PM.T
        else:
            misfit = half_square(self.blur.see_cube(self.Z.reshape(I, J, -1)), self.hsi_inside)
            misfit += 0.5 * (self.unseen + np.vdot(self.squares_beside, (1.0 - self.gain * self.blur.powers) ** 2))
            averaged = (self.Z @ self.PM_inside.T).reshape(self.msi.shape)
            averaged += self._outside(self.PM.T)
        return float(misfit + half_square(averaged, self.msi)) * self.scale**2

    def image(self):
        """The image in the units of the data, made when it is asked for."""
        I, J, K = self.shape
        if self.Z is None:
            return Mixture(np.zeros((I, J, 1)), np.zeros((K, 1)))
        if self.options.output == "codes":
            return Mixture(self.S.reshape(I, J, -1), self.scale * self.D)
        return self._scene(self.scale) if self.projected is None else Scaled(self.projected, self.scale)


@dataclass(frozen=True, eq=False)
class Scene:
    """Z = Q Z' and what the HSI has beside Q, made when it is asked for.

    Attributes
    ----------
    inside : Mixture
        Q Z'.
    blur : SeparableBlur
    beside : (n, m, K) array
        In the blur's singular vectors.
    gain : (n, m) array
        What `beside` is multiplied by.
    """

    inside: Mixture
    blur: SeparableBlur
    beside: Array
    gain: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inside.dtype

    @property
    def shape(self) -> Shape:
        return self.inside.shape

    def render(self, rows: Part = None, cols: Part = None, bands: Part = None, dtype: DTypeLike | None = None) -> Array:
        """The scene, whole or a block of it."""
        image = self.inside.render(rows, cols, bands, dtype)
        rows, cols, bands = map(as_part, (rows, cols, bands))
        beside = self.blur.rows_from_modes(self.beside[:, :, bands], self.gain, cols)
        places = np.arange(self.shape[0])[rows]

        def add_beside(block):
            image[block] += beside(places[block])

        over_blocks(add_beside, len(places))
        return image

    def bound(self) -> float:
        """The singular vectors are orthonormal: no value exceeds the coefficients' norm."""
        return self.inside.bound() + float(np.linalg.norm(self.beside * self.gain[:, :, None]))
