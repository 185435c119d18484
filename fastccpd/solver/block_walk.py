"""CG with a preconditioner of small blocks: all of it in one launch, or but for H d one launch a step.

The vectors are made once for all steps of a run, but for those that a step is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.arrays import aligned, readonly
from ..kernels.conjugate import turn_preconditioned
from ..kernels.coupled import ROWS_PER_SUM, hessian
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.newton_step import newton_step, room_for_stages
from ..kernels.vectors import advance, total_of
from .objective import Vector

# A launch of more flops than this may take longer than callbacks and clocks may wait.
LONGEST_LAUNCH = 2e9


class BlockWalk:
    """For coupled tensors and a preconditioner of one block a row, as `kernels/block_cholesky.py` factors them.

    Parameters
    ----------
    shape : (n, R)
        Of the vectors.
    linearised : callable() -> (inputs, scratch)
        What `kernels/coupled.py` multiplies by H with, before and after the vector itself.
    blocks : callable() -> (groups, L, means)
        The factored blocks.
    work : float
        Flops of a product with H.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        linearised: Callable[[], tuple[tuple[Any, ...], tuple[Any, ...]]],
        blocks: Callable[[], tuple[Any, ...]],
        work: float,
    ):
        self._linearised, self._blocks = linearised, blocks
        self._y, self._d, self._Hd = (aligned(shape, np.float64) for _ in range(3))
        self._product_work = work
        # A number read or written counts as four flops.
        self._turn_work = (6.0 * shape[1] + 44.0) * self._d.size
        self._found, self._sums = np.empty(3), np.empty((0, -(-shape[0] // ROWS_PER_SUM)))
        self._squares = np.empty((1, 0))

    def begin(self, g: Vector) -> float:
        self._go(g, np.inf, 0, 0.0)
        return total_of(self._squares[0].tolist())

    def curvature(self) -> float:
        return self.product(self._d, self._Hd)

    def product(self, z: Vector, Hz: Vector) -> float:
        """Write H z to Hz; <z, H z>."""
        inputs, scratch = self._linearised()
        sums = np.empty(self._sums.shape[1])
        hessian(inputs, z, *scratch, Hz, sums, work=self._product_work, least=LEAST)
        return total_of(sums.tolist())

    def advance(self, alpha: float) -> None:
        advance(alpha, self._d, self._Hd, self._p, self._r)

    def turn(self, alpha: float, before: float) -> float:
        blocks = self._blocks()
        sums = np.empty(len(blocks[0]))
        vectors = self._Hd, self._p, self._r, self._y, self._d
        turn_preconditioned(float(alpha), float(before), *blocks, *vectors, sums, work=self._turn_work, least=LEAST)
        return total_of(sums.tolist())

    def step(self) -> tuple[Vector, Vector]:
        return self._p, self._r

    def whole(
        self, g: Vector, radius: float, max_iter: int, rtol: float
    ) -> tuple[Vector, Vector, float, float, int] | None:
        """All of CG in one launch: the members of `pcg.Step`; None where that may take long."""
        if max_iter * (self._product_work + self._turn_work) > LONGEST_LAUNCH:
            return None
        self._go(g, radius, max_iter, rtol)
        products, square, predicted = self._found.tolist()
        return *self.step(), float(np.sqrt(square)), predicted, int(products)

    def _go(self, g, radius, most, rtol):
        """One launch of at most so many products; without any, it turns to the first direction."""
        (inputs, scratch), blocks = self._linearised(), self._blocks()
        if self._squares.shape != (most + 1, len(blocks[0])):
            self._sums = np.empty((most, self._sums.shape[1]))
            self._squares = np.empty((most + 1, len(blocks[0])))
        # New ones, since they are given away.
        self._p, self._r = np.empty(self._d.shape), np.empty(self._d.shape)
        g = readonly(np.ascontiguousarray(g, np.float64))
        vectors = self._y, self._d, self._Hd, self._p, self._r
        results = self._sums, self._squares, self._found
        work = self._product_work + self._turn_work
        sharing = {"work": work, "least": LEAST, "times": lambda: 1.0 + self._found[0]}
        stages = room_for_stages(most)
        newton_step(float(radius), float(rtol), inputs, blocks, g, stages, *scratch, *vectors, *results, **sharing)
