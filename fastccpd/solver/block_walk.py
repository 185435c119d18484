"""CG with a preconditioner of small blocks: but for H d, all that one of its steps does is one launch.

The vectors are made once for all steps of a run.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.arrays import aligned, readonly
from ..kernels.conjugate import turn_preconditioned
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.vectors import advance
from .objective import Vector


class BlockWalk:
    """For a preconditioner of one block a row, as `kernels/block_cholesky.py` factors them.

    Parameters
    ----------
    shape : (n, R)
        Of the vectors.
    product : callable(d, Hd) -> float
        Writes H d to Hd; <d, H d>.
    blocks : callable() -> (groups, L, means)
        The factored blocks.
    """

    def __init__(
        self, shape: tuple[int, int], product: Callable[[Vector, Vector], float], blocks: Callable[[], tuple[Any, ...]]
    ):
        self._product, self._blocks = product, blocks
        self._p, self._r, self._y, self._d, self._Hd = (aligned(shape, np.float64) for _ in range(5))
        self._d_in, self._Hd_in = readonly(self._d), readonly(self._Hd)
        # A number read or written counts as four flops.
        self._work = (6.0 * shape[1] + 44.0) * self._p.size
        self._sums = np.empty(0)

    def begin(self, g: Vector) -> float:
        self._p.fill(0.0)
        self._d.fill(0.0)
        self._r[...] = g
        return self.turn(0.0, 1.0)

    def curvature(self) -> float:
        return self._product(self._d_in, self._Hd)

    def advance(self, alpha: float) -> None:
        advance(alpha, self._d, self._Hd, self._p, self._r)

    def turn(self, alpha: float, before: float) -> float:
        groups, L, means = self._blocks()
        if len(self._sums) != len(groups):
            self._sums = np.empty(len(groups))
        vectors = self._Hd_in, self._p, self._r, self._y, self._d
        sharing = {"work": self._work, "least": LEAST}
        turn_preconditioned(float(alpha), float(before), groups, L, means, *vectors, self._sums, **sharing)
        return sum(self._sums.tolist())

    def step(self, g: Vector) -> tuple[Vector, Vector]:
        return self._p.copy(), self._r - g
