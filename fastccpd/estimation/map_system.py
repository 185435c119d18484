"""The linear system of the maps (`tv_maps.py`), and its solution by preconditioned conjugate gradients.

    H = R'R ⊗ 1 + P'P ⊗ F'F + D'wD,

the quadratic of `map_data.py` with weighted differences. kernels/map_steps.py has the layout of stacks, the passes that
a step takes, and the preconditioner. Residuals and directions are float32, whatever the images are: they only correct
maps whose residual has just been taken anew, and a step to a tenth of the residual does not need more digits.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..kernels.arrays import readonly
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.lanes import LANES
from ..kernels.map_steps import (
    GUARD,
    advance_maps,
    blur_maps,
    correct_maps,
    invert_diagonal,
    join_weights,
    reweight_maps,
    turn_maps,
)
from ..kernels.vectors import PIECE, dot_pieces, total_of
from ..model.types import Array
from ..threads import by_rows

# The last level of aggregates has no more than so many.
_FEW = 16

_NOTHING = np.empty(0, np.float32)


class Layout:
    """How P maps of I × J pixels lie in memory: row by row, and in a row map by map, padded."""

    def __init__(self, I: int, J: int, P: int):
        self.I, self.J, self.P = I, J, P
        self.width = -(-J // LANES) * LANES
        self.shape = (I, P, self.width)

    def joined(self) -> "Layout":
        """The layout of aggregates of 2 × 2 pixels."""
        return Layout(-(-self.I // 2), -(-self.J // 2), self.P)

    def zeros(self, dtype: DTypeLike = np.float32, maps: int | None = None) -> Array:
        """A stack of zeros; with `maps` = 1, a plane."""
        maps = self.P if maps is None else maps
        return np.zeros(2 * GUARD + self.I * maps * self.width, dtype)

    def rows(self, stack: Array) -> Array:
        """The (I, P, J) view of a stack, or the (I, 1, J) view of a plane."""
        return stack[GUARD:-GUARD].reshape(self.I, -1, self.width)[:, :, : self.J]

    def stack(self, maps: Array, dtype: DTypeLike = np.float32) -> Array:
        """(I, J, P) maps as a stack."""
        out = self.zeros(dtype)
        self.rows(out)[...] = np.moveaxis(maps, 2, 1)
        return out

    def view(self, stack: Array) -> Array:
        """The (I, J, P) view of a stack."""
        return np.moveaxis(self.rows(stack), 1, 2)

    def maps(self, stack: Array) -> Array:
        """A stack as (I, J, P) maps."""
        view, maps = self.view(stack), np.empty((self.I, self.J, self.P), stack.dtype)

        def copy(part):
            maps[part] = view[part]

        by_rows(copy, self.I, self.J * self.P)
        return maps


def inner(one: Array, other: Array) -> float:
    """<one, other> of two stacks, summed in float64."""
    sums = np.empty(-(-one.size // PIECE))
    dot_pieces(readonly(one), readonly(other), sums, work=4.0 * one.size, least=LEAST)
    return total_of(sums.tolist())


class MapSystem:
    """H, its preconditioner, and room for the residual and the direction of conjugate gradients.

    Parameters
    ----------
    data : MapData
    pulse : callable, optional
        Called before every product, and by others whose work takes long.
    """

    def __init__(self, data: Any, pulse: Callable[[], None] = lambda: None):
        self.data, self.layout, self.products, self.pulse = data, data.layout, 0, pulse
        layout, blur = self.layout, data.blur
        I1 = blur.operators[0].shape[0]
        self._work = float(np.prod(layout.shape))
        self.r, self._d = (layout.zeros() for _ in range(2))
        self.below, self.right, self._own = (layout.zeros(maps=1) for _ in range(3))
        self.rest, self._sums, self._pairs = np.zeros(layout.I), np.zeros(I1), np.zeros((layout.I + 1) // 2)
        diagonal = (*map(readonly, (self._own, data.share, _plane(layout, blur.coverage_of(1)))),)
        self._aggregates = _aggregates(data)
        # (layout, below, right, own) of the grid, of all aggregates, and of one level more, which nothing is asked of.
        layouts = [*(level for level, *_ in self._aggregates), self._aggregates[-1][0].joined()]
        self._weights = [(layout, self.below, self.right, self._own)]
        self._weights += [(level, *(level.zeros(maps=1) for _ in range(3))) for level in layouts]
        starts = GUARD + np.cumsum([0] + [np.prod(level.shape) for level, *_ in self._aggregates])
        self._levels = np.array([(start, *level.shape[::2]) for start, (level, *_) in zip(starts, self._aggregates)])
        # Of r and y on aggregates each is needed only until the other is there.
        self._y, inverses = (np.zeros(starts[-1] + GUARD, np.float32) for _ in range(2))
        self._inverses, self._sums_of_levels = inverses, np.zeros(self._levels[:, 1].sum())
        self._width = int(self._levels[0, 2])
        blurred = Layout(I1, layout.J, layout.P).zeros()
        # The arguments of the passes, as kernels take them.
        base, weights = (readonly(data.diagonals[0]), readonly(data.ones)), (readonly(self.below), readonly(self.right))
        pixelwise = (*base, *weights, data.msi.odd, readonly(data.extras))
        mixing = *blur.compressed, readonly(data.gram), data.hsi.odd, readonly(data.extras_coarse)
        self._to_blur = (*pixelwise, *mixing, blurred, self._sums)
        a, g = map(readonly, data.diagonals)
        back = blur.rows_back, readonly(blurred), *diagonal, g, self._width
        self._to_advance = (*pixelwise, *back)
        self._to_correct = self._levels, layout.P, readonly(inverses), self._y, self._y, self._sums_of_levels
        self._to_turn = *diagonal, a, g, readonly(self.r), readonly(self._y), self._width

    def release(self) -> None:
        """Let go of all room: nothing is solved any more."""
        for name in ("r", "_d", "_y", "_inverses", "_to_blur", "_to_advance", "_to_correct", "_to_turn"):
            setattr(self, name, None)

    def weigh(self, Z: Array, weight: float, rounding: float, knee: float) -> None:
        """Take the weights of the squares around Z."""
        shape, J, given = self.layout.shape, self.layout.J, (readonly(Z), readonly(self.data.dearer))
        out = self.below, self.right, self.rest
        reweight_maps(shape, J, *given, weight, rounding, knee, *out, work=10.0 * self._work, least=LEAST)
        self._prepare()

    def weigh_all(self, weights: Array | float) -> None:
        """Take given weights, of each pixel or of all."""
        below, right = (self.layout.rows(plane)[:, 0] for plane in (self.below, self.right))
        below[...] = right[...] = weights
        below[-1], right[:, -1], self.rest[...] = 0.0, 0.0, 0.0
        self._prepare()

    def _prepare(self):
        """What the diagonal has of the weights, and its inverse on all aggregates."""
        a, g = self.data.diagonals
        for (layout, below, right, own), (joined, *planes, _) in pairwise(self._weights):
            I, width, given = layout.I, layout.width, map(readonly, (below, right))
            join_weights(I, width, *given, own, joined.width, *planes, work=8.0 * I * width, least=LEAST)
        for (level, share, coverage), (*_, own), start in zip(self._aggregates, self._weights[1:], self._levels[:, 0]):
            self._invert(level, own, share, coverage, a, g, start, self._inverses)

    def _invert(self, layout, own, share, coverage, a, g, start, out):
        I, P, W = layout.shape
        given = map(readonly, (own, share, coverage, a, g))
        invert_diagonal(I, P, W, start, *given, out, work=8.0 * I * P * W, least=LEAST)

    def _blur(self, d):
        """Half of the product with d, and d'Hd."""
        self.pulse()
        self.products += 1
        blur_maps(self.layout.shape, readonly(d), *self._to_blur, work=20.0 * self._work, least=LEAST)
        return sum(self._sums.tolist())

    def _advance(self, alpha, d, Z):
        """r −= alpha H d, where `_blur` has just seen d, and Z += alpha d; <r, y>."""
        shape, out = self.layout.shape, (Z, self.r, self._y, self._pairs)
        advance_maps(shape, alpha, readonly(d), *self._to_advance, *out, work=30.0 * self._work, least=LEAST)
        correct_maps(*self._to_correct, work=4.0 * self._work, least=LEAST)
        return sum(self._pairs.tolist()) + sum(self._sums_of_levels.tolist())

    def residual(self, Z: Array, target: Array) -> tuple[float, float]:
        """Set r = target − H Z; Z'H Z and <r, y>."""
        r, pieces = self.r, -(-target.size // PIECE)

        def copy(part):
            r[PIECE * part.start : PIECE * part.stop] = target[PIECE * part.start : PIECE * part.stop]

        by_rows(copy, pieces, PIECE)
        return self._blur(Z), self._advance(1.0, Z, _NOTHING)

    def solve(self, Z: Array, ry: float, max_iter: int, rtol: float) -> float:
        """Add the solution of H x = r to Z, where <r, y> is `ry`; by how much ½ x'Hx − r'x falls.

        It ends where sqrt(<r, y>) is the part `rtol` of what it was.
        """
        beta, fallen, enough = 0.0, 0.0, rtol**2 * ry
        for _ in range(max_iter):
            if not ry > enough:
                break
            turn_maps(self.layout.shape, *self._to_turn, beta, self._d, work=8.0 * self._work, least=LEAST)
            energy = self._blur(self._d)
            if not energy > 0.0:
                break
            alpha, before = ry / energy, ry
            ry = self._advance(alpha, self._d, Z)
            fallen, beta = fallen + 0.5 * alpha * before, ry / before
        return fallen


def _plane(layout, values):
    out = layout.zeros(maps=1)
    layout.rows(out)[:, 0] = values
    return out


def _paired(values, axis):
    """Sums of two neighbours along an axis, the last one alone where their number is odd."""
    first, second = (values[n::2] if axis == 0 else values[:, n::2] for n in range(2))
    sums = first.copy()
    sums[: second.shape[0], : second.shape[1]] += second
    return sums


def _aggregates(data):
    """(layout, share, coverage) of aggregates of 2 × 2, 4 × 4, … pixels."""
    share, levels = data.layout.rows(data.share)[:, 0], []
    while not levels or levels[-1][0].I * levels[-1][0].J > _FEW:
        share = _paired(_paired(share, 0), 1)
        layout = (levels[-1][0] if levels else data.layout).joined()
        coverage = data.blur.coverage_of(2 ** (len(levels) + 1))
        levels.append((layout, _plane(layout, share), _plane(layout, coverage)))
    return levels
