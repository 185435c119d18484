"""What the trust-region solver asks of a function that it minimises."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# A vector times H, or times M⁻¹.
Product = Callable[[Vector], Vector]


class Objective(Protocol):
    """A smooth cost of one array x, with a positive semidefinite model of its Hessian.

    Any class with these methods will do; deriving from this one adds a `release` that has nothing to offer. x, the
    gradient and the products are float64 arrays of one shape, whatever that is.
    """

    def cost(self, x: Vector, /) -> float:
        """f(x); it must leave the linearisation point as it is. NaN and infinity make the solver step back."""
        ...

    def cost_and_gradient(self, x: Vector, /) -> tuple[float, Vector]:
        """(f(x), ∇f(x)); x becomes the linearisation point of `hessp` and `precondition`."""
        ...

    def hessp(self, z: Vector, /) -> Vector:
        """H z for a symmetric positive semidefinite H, such as J'J, at the linearisation point."""
        ...

    def precondition(self, r: Vector, /) -> Vector:
        """M⁻¹ r for a symmetric positive definite M near H, the same at every call until the point changes."""
        ...

    def release(self, x: Vector, /) -> Vector | None:
        """A point of lower cost if x, the linearisation point, is stationary only in its parametrisation; else None.

        It is asked before a run is called converged, and may be missing.
        """
        return None

    # `walk() -> Walk | None`, which may be missing too, does CG's steps with H and M in fewer passes (`walk.py`).
