"""Prior knowledge, one small object each.

A regulariser adds a convex term to the cost. Its ``space`` says of what it is a function: "latent" (x) or "factors"
(u = φ(x); the objective applies the chain rule). All arrays are stacked (I+J+K, R).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..model.checks import as_number


class Regulariser(Protocol):
    space: str

    def value(self, v) -> float: ...

    def gradient(self, v) -> np.ndarray: ...

    def hessp(self, v, z) -> np.ndarray:
        """The Hessian at v times z."""

    def diagonal(self, v) -> np.ndarray:
        """The Hessian's diagonal at v, for the preconditioner; it broadcasts."""


@dataclass(frozen=True)
class Ridge:
    """½μ‖x‖²: on squared parameters this is ½μ(ΣA + ΣB + ΣC), an L1 prior that prunes components."""

    weight: float
    space = "latent"

    def __post_init__(self):
        object.__setattr__(self, "weight", as_number(self.weight, "weight"))

    def value(self, v):
        return 0.5 * self.weight * float(np.einsum("ij,ij->", v, v))

    def gradient(self, v):
        return self.weight * v

    def hessp(self, v, z):
        return self.weight * z

    def diagonal(self, v):
        return np.full((1, v.shape[1]), self.weight)
