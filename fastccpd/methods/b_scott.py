"""B-SCOTT: the blind coupled Tucker approximation, block by block.

In each spatial block the MSI alone gives U, V, W~ and the core G (its truncated multilinear SVD), so neither P1 nor P2
is needed. What is left is W with PM W = W~. It is sought among the R3 leading left singular vectors W_H of the HSI
block's bands: W = W_H T, with T the least-squares solution of (PM W_H) T = W~.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..model.checks import as_count, set_fields
from ..model.problem import Problem
from ..model.types import Callback
from ._iteration import finished
from ._spectral import half_square, leading_vectors
from .method import Method, Solution, register
from .scott import check_rank, multilinear_rank, multiply


@register("b-scott")
@dataclass(frozen=True, kw_only=True)
class BSCOTT(Method):
    """Coupled Tucker approximation that does not need to know the spatial degradation.

    The scene is cut into blocks, and each is recovered by itself.

    Parameters
    ----------
    rank : int or (R1, R2, R3)
        The multilinear rank of each block over rows, columns and bands; one number stands for all three. R3 is at most
        the number of MSI bands, R1 and R2 the rows and columns of the smallest block.
    blocks : int or (n_rows, n_columns)
        Into how many parts the rows and the columns are cut, at whole pixels of the HSI.

    Notes
    -----
    P1 and P2 are only used for the cost, ½‖hsi − degraded‖² + ½‖msi − degraded‖² of the returned image.

    References
    ----------
    .. [1] Clémence Prévost, Konstantin Usevich, Pierre Comon, David Brie: Hyperspectral Super-Resolution With Coupled
       Tucker Approximation: Recoverability and SVD-Based Algorithms. IEEE Transactions on Signal Processing 68,
       931-946, 2020.
    """

    rank: int | tuple[int, int, int] = (36, 36, 6)
    blocks: int | tuple[int, int] = (4, 4)

    def __post_init__(self):
        set_fields(self, rank=multilinear_rank(self.rank), blocks=_per_axis(self.blocks))

    def check(self, problem: Problem) -> None:
        def smallest(cuts, image):
            return min(cut[image].stop - cut[image].start for cut in cuts)

        row_cuts, column_cuts = self._cuts(problem)
        I, J, K_M = smallest(row_cuts, 1), smallest(column_cuts, 1), problem.msi.shape[2]
        pixels = smallest(row_cuts, 0) * smallest(column_cuts, 0)
        check_rank(multilinear_rank(self.rank), (min(I, J * K_M), min(J, I * K_M), min(K_M, pixels)))

    def solve(
        self, problem: Any, *, rng: Any = None, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        began = time.perf_counter()
        degradation = problem.degradation
        row_cuts, column_cuts = self._cuts(problem)
        image = np.empty(problem.sri_shape, problem.dtype)
        modelled = np.zeros(problem.hsi.shape)
        cost = 0.0
        for rows_H, rows in row_cuts:
            for columns_H, columns in column_cuts:
                hsi = np.asarray(problem.hsi[rows_H, columns_H], dtype=np.float64)
                msi = np.asarray(problem.msi[rows, columns], dtype=np.float64)
                coefficients, W = self._block(hsi, msi, degradation.PM)
                image[rows, columns] = coefficients @ W.T
                cost += half_square(coefficients @ (degradation.PM @ W).T, msi)
                seen, touched = _degraded(coefficients, degradation.P1[:, rows], degradation.P2[:, columns])
                modelled[touched] += seen @ W.T
        return finished(image, cost + half_square(modelled, problem.hsi), began, callback)

    def _block(self, hsi, msi, PM):
        """G ×1 U ×2 V and W of one block."""
        (I, J, K_M), K = msi.shape, hsi.shape[2]
        R1, R2, R3 = multilinear_rank(self.rank)
        U, _ = leading_vectors(msi.reshape(I, -1), R1)
        V, _ = leading_vectors(msi.transpose(1, 0, 2).reshape(J, -1), R2)
        W_M, _ = leading_vectors(msi.reshape(-1, K_M).T, R3)
        W_H, _ = leading_vectors(hsi.reshape(-1, K).T, R3)
        T = np.linalg.lstsq(PM @ W_H, W_M, rcond=None)[0]
        return multiply(U @ U.T, V @ V.T, W_M.T, msi), W_H @ T

    def _cuts(self, problem):
        """The slices of the HSI and of the MSI, over rows and over columns."""
        lengths = zip(_per_axis(self.blocks), problem.hsi.shape, problem.msi.shape, strict=False)
        return [_cuts(axis, *numbers) for axis, numbers in enumerate(lengths)]

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        (I, J, K_M), (I_H, J_H, K) = msi_shape, hsi_shape
        n_rows, n_columns = _per_axis(self.blocks)
        rows, columns = I // n_rows + 2 * I // I_H, J // n_columns + 2 * J // J_H
        block = rows * columns * (K + 4 * K_M) + 2 * K * K
        return np.dtype(dtype).itemsize * I * J * K + 8 * (2 * I_H * J_H * K + block)


def _per_axis(blocks):
    """`blocks` as (n_rows, n_columns), one number standing for both."""
    blocks = (blocks,) * 2 if np.ndim(blocks) == 0 else tuple(blocks)
    if len(blocks) != 2:
        raise ValueError(f"blocks: got {len(blocks)} numbers; one, or two for rows and columns, are needed")
    return tuple(as_count(n, f"blocks[{axis}]") for axis, n in enumerate(blocks))


def _cuts(axis, parts, coarse, fine):
    """Slices of the HSI and of the MSI for each part of one axis."""
    if parts > coarse:
        raise ValueError(
            f"blocks: got {parts} along axis {axis}; at most {coarse}, as the HSI has pixels, are possible"
        )
    bounds = [part * coarse // parts for part in range(parts + 1)]
    return [
        (slice(start, stop), slice(start * fine // coarse, stop * fine // coarse)) for start, stop in pairwise(bounds)
    ]


def _degraded(coefficients, P1, P2):
    """What the HSI sees of one block, and the index of the pixels that see any of it."""
    rows, columns = (np.flatnonzero(np.diff(P.indptr)) for P in (P1, P2))
    bands = np.eye(coefficients.shape[2])
    return multiply(P1[rows].toarray(), P2[columns].toarray(), bands, coefficients), np.ix_(rows, columns)
