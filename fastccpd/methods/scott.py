"""SCOTT: the coupled Tucker approximation, in closed form.

The scene is G ×1 U ×2 V ×3 W. U and V are leading left singular vectors of the MSI's row and column unfoldings, W of
the HSI's band unfolding; all three are orthonormal. With U~ = P1 U, V~ = P2 V, W~ = PM W the core G minimises

    ½ ‖H − G ×1 U~ ×2 V~ ×3 W‖² + ½ ‖M − G ×1 U ×2 V ×3 W~‖²,

so it solves (U~'U~, V~'V~, 1)·G + (1, 1, W~'W~)·G = H ×1 U~' ×2 V~' ×3 W' + M ×1 U' ×2 V' ×3 W~'. In the bases of the
eigenvectors of the three small Gramians, with eigenvalues a, b, c, that is G_ijk = rhs_ijk / (a_i b_j + c_k).

c has at most K_M and a_i b_j at most I_H J_H positive entries: with R3 > K_M and R1 > I_H or R2 > J_H some denominators
are zero, and those entries of the core are seen by neither image. They are set to zero, the least-norm choice.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg

from ..model.checks import as_count, as_number, set_fields
from ..model.problem import Problem
from ..model.types import Array, Callback
from ._iteration import finished
from ._spectral import half_square, leading_vectors, products, products_of_slices
from .method import Method, Solution, memory_of_phases, register


@register("scott")
@dataclass(frozen=True, kw_only=True)
class SCOTT(Method):
    """Coupled Tucker approximation from three truncated SVDs and one small linear system ("UC-C-Tucker").

    Parameters
    ----------
    rank : int or (R1, R2, R3)
        The multilinear rank over rows, columns and bands; one number stands for all three.
    rtol : float
        Entries of the core whose denominator is below `rtol` times the largest are set to zero, with a warning. The
        default only catches what neither image determines. A larger one regularises: on Indian Pines at 5 dB and rank
        (30, 30, 30), 1e-3 raises the R-SNR from -12 to -4 dB.

    Notes
    -----
    The cost is ½‖hsi − degraded‖² + ½‖msi − degraded‖² of the returned image.

    References
    ----------
    .. [1] Clémence Prévost, Konstantin Usevich, Pierre Comon, David Brie: Hyperspectral Super-Resolution With Coupled
       Tucker Approximation: Recoverability and SVD-Based Algorithms. IEEE Transactions on Signal Processing 68,
       931-946, 2020.
    """

    rank: int | tuple[int, int, int] = (12, 12, 12)
    rtol: float = 1e-10

    def __post_init__(self):
        set_fields(self, rank=multilinear_rank(self.rank))
        set_fields(self, rtol=as_number(self.rtol, "rtol"))

    def check(self, problem: Problem) -> None:
        (I, J, K_M), (I_H, J_H, K) = problem.msi.shape, problem.hsi.shape
        check_rank(multilinear_rank(self.rank), (min(I, J * K_M), min(J, I * K_M), min(K, I_H * J_H)))

    def solve(
        self, problem: Any, *, rng: Any = None, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        began = time.perf_counter()
        (I, J, K_M), (I_H, J_H, K) = problem.msi.shape, problem.hsi.shape
        R1, R2, R3 = multilinear_rank(self.rank)
        hsi, msi = (np.asarray(image, dtype=np.float64) for image in (problem.hsi, problem.msi))
        U, _ = leading_vectors(msi.reshape(I, -1), R1)
        V, _ = leading_vectors(msi.transpose(1, 0, 2).reshape(J, -1), R2)
        W, _ = leading_vectors(hsi.reshape(-1, K).T, R3)

        P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
        a, U, U_H = _rotated(U, P1)
        b, V, V_H = _rotated(V, P2)
        c, W, W_M = _rotated(W, PM)
        core = multiply(U_H.T, V_H.T, W.T, hsi)
        core += multiply(U.T, V.T, W_M.T, msi)
        denominator = np.multiply.outer(a, b)[:, :, None] + c
        unseen = denominator <= self.rtol * denominator.max()
        if unseen.any():
            warnings.warn(
                f"rank: {np.count_nonzero(unseen)} of the {core.size} entries of a core of rank {self.rank} are not "
                f"determined by these images and are set to zero; R3 <= {K_M}, or R1 <= {I_H} and R2 <= {J_H}, "
                "usually avoids it",
                stacklevel=3,
            )
            denominator[unseen] = np.inf
        core /= denominator

        cost = half_square(multiply(U_H, V_H, W, core), hsi) + half_square(multiply(U, V, W_M, core), msi)
        image = multiply(*(part.astype(problem.dtype) for part in (U, V, W, core)))
        return finished(image, cost, began, callback)

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        R1, R2, R3 = rank = multilinear_rank(self.rank)
        hsi, msi, core, itemsize = I_H * J_H * K, I * J * K_M, R1 * R2 * R3, np.dtype(dtype).itemsize
        kept = 3 * core + 2 * (I * R1 + J * R2 + K * R3) + I_H * R1 + J_H * R2 + K_M * R3
        kept += 0 if itemsize == 8 else hsi + msi
        subspaces = max(msi + 2 * J * J, 2 * I * I, 2 * K * K)
        misfits = max(
            2 * image + _largest_product(shape, rank) for image, shape in ((msi, msi_shape), (hsi, hsi_shape))
        )
        rendering = itemsize * (I * J * K + _largest_product((I, J, K), rank) + core)
        return 8 * kept + memory_of_phases(8 * subspaces, 8 * misfits, rendering) + (1 << 16)


def multilinear_rank(rank: Any) -> tuple[int, int, int]:
    """`rank` as (R1, R2, R3), one number standing for all three."""
    if np.ndim(rank) == 0:
        count = as_count(rank, "rank")
        return count, count, count
    ranks = [as_count(r, f"rank[{n}]") for n, r in enumerate(rank)]
    if len(ranks) != 3:
        raise ValueError(f"rank: got {len(ranks)} numbers; one, or three for rows, columns and bands, are needed")
    return ranks[0], ranks[1], ranks[2]


def check_rank(rank: Sequence[int], most: Sequence[int]) -> None:
    """Refuse a multilinear rank beyond what the unfoldings have."""
    for axis, got, limit in zip(("rows", "columns", "bands"), rank, most, strict=True):
        if got > limit:
            raise ValueError(f"rank: got {got} over the {axis}; at most {limit} is possible with these images")


def multiply(A: Array, B: Array, C: Array, cube: Array) -> Array:
    """cube ×1 A ×2 B ×3 C, the mode that grows most last and the one that shrinks most first."""
    modes = sorted((0, 1, 2), key=lambda mode: len((A, B, C)[mode]) / cube.shape[mode])
    for mode in modes:
        if mode == 0:
            cube = products(A, cube.reshape(len(cube), -1)).reshape(len(A), *cube.shape[1:])
        elif mode == 1:
            cube = products_of_slices(B, cube)
        else:
            cube = products(cube.reshape(-1, cube.shape[2]), C.T).reshape(*cube.shape[:2], len(C))
    return cube


def _rotated(factor, P):
    """The eigenvalues of (P F)'(P F), and F and P F rotated to its eigenvectors."""
    seen = P @ factor
    rows, columns = seen.shape
    # By singular values, for eigenvalues that are small to be right in all their digits.
    _, values, vectors = linalg.svd(seen, full_matrices=rows < columns, check_finite=False)
    eigenvalues = np.zeros(columns)
    eigenvalues[: len(values)] = values**2
    return eigenvalues, factor @ vectors.T, seen @ vectors.T


def _largest_product(shape, rank):
    """The size of the largest array on the way from a core of `rank` to `shape`, the last one not counted."""
    sizes = np.array(rank)
    modes = sorted(range(3), key=lambda mode: shape[mode] / rank[mode])
    sizes[modes[:2]] = np.array(shape)[modes[:2]]
    return int(np.prod(sizes))
