"""The vectors of conjugate gradients, and the few things that are done to them.

p is the step so far, r = g + H p the model's gradient there, d the direction, y = M⁻¹ r. `PlainWalk` asks for H d and
M⁻¹ r one by one; an objective that can do it in fewer passes has a `walk()` that returns a `Walk` of its own, as
`block_walk.py` has one.
"""

from typing import Protocol

import numpy as np

from ..kernels.vectors import advance, dot, turn
from .objective import Product, Vector


class Walk(Protocol):
    """What `steihaug` asks for."""

    def begin(self, g: Vector) -> float:
        """Start at p = 0, towards −M⁻¹ g; <r, y>."""
        ...

    def curvature(self) -> float:
        """<d, H d>."""
        ...

    def advance(self, alpha: float) -> None:
        """p += alpha d, r += alpha H d."""
        ...

    def turn(self, alpha: float, before: float) -> float:
        """The same, then d = beta d − y with beta = <r, y> / before; <r, y>."""
        ...

    def step(self) -> tuple[Vector, Vector]:
        """p and r = g + H p, which the walk does not change any more."""
        ...

    # `whole(g, radius, max_iter, rtol)`, which may be missing, goes all the way at once: the members of `pcg.Step`, or
    # None where that would take too long without a look at the clock.


class PlainWalk:
    """By any two functions that multiply by H and by M⁻¹."""

    def __init__(self, hessp: Product, precondition: Product):
        self._hessp, self._precondition = hessp, precondition

    def begin(self, g: Vector) -> float:
        self._p, self._d = np.zeros(g.shape), np.zeros(g.shape)
        self._r = np.array(g, np.float64, order="C")
        return self._turn(1.0)

    def curvature(self) -> float:
        self._Hd = self._hessp(self._d)
        return dot(self._d, self._Hd)

    def advance(self, alpha: float) -> None:
        advance(alpha, self._d, self._Hd, self._p, self._r)

    def turn(self, alpha: float, before: float) -> float:
        self.advance(alpha)
        return self._turn(before)

    def step(self) -> tuple[Vector, Vector]:
        return self._p, self._r

    def _turn(self, before):
        return turn(self._r, self._precondition(self._r), before, self._d)
