"""Prior knowledge, one small object each.

A regulariser adds a convex term to the cost. Its ``space`` says of what it is a function: "latent" (x) or "factors"
(u = φ(x); the objective applies the chain rule). All arrays are stacked (I+J+K, R).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..model.checks import as_number, set_fields


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
        set_fields(self, weight=as_number(self.weight, "weight"))

    def value(self, v):
        return 0.5 * self.weight * float(np.einsum("ij,ij->", v, v))

    def gradient(self, v):
        return self.weight * v

    def hessp(self, v, z):
        return self.weight * z

    def diagonal(self, v):
        return np.full((1, v.shape[1]), self.weight)


@dataclass(frozen=True, eq=False)
class Smoothness:
    """½ Σ_n λ_n ‖D U_n‖²: first differences down the columns of each factor, of rows, columns and bands in turn."""

    weights: tuple[float, float, float]
    sizes: tuple[int, int, int]
    space = "factors"

    def __post_init__(self):
        set_fields(self, weights=tuple(as_number(w, f"weights[{n}]") for n, w in enumerate(self.weights)))

    def _modes(self):
        ends = np.cumsum(self.sizes)
        return zip(self.weights, map(slice, ends - self.sizes, ends), strict=True)

    def value(self, v):
        return 0.5 * sum(weight * float(np.square(np.diff(v[rows], axis=0)).sum()) for weight, rows in self._modes())

    def gradient(self, v):
        return self.hessp(v, v)

    def hessp(self, v, z):
        out = np.zeros(z.shape)
        for weight, rows in self._modes():
            steps, part = weight * np.diff(z[rows], axis=0), out[rows]
            part[1:] += steps
            part[:-1] -= steps
        return out

    def diagonal(self, v):
        """One for each neighbour: a tridiagonal matrix has nothing else."""
        out = np.zeros((len(v), 1))
        for weight, rows in self._modes():
            out[rows][1:] += weight
            out[rows][:-1] += weight
        return out


@dataclass(frozen=True, eq=False)
class Subspace:
    """½ λ ‖(I − E E')C‖²: spectra near the span of the orthonormal columns of E; `bands` are C's rows."""

    weight: float
    E: np.ndarray
    bands: slice
    space = "factors"

    def __post_init__(self):
        set_fields(self, weight=as_number(self.weight, "weight"))

    def _outside(self, v):
        # Not by BLAS, whose bits depend on its thread count.
        C = v[self.bands]
        return C - np.einsum("kp,pr->kr", self.E, np.einsum("kp,kr->pr", self.E, C))

    def value(self, v):
        return 0.5 * self.weight * float(np.square(self._outside(v)).sum())

    def gradient(self, v):
        return self.hessp(v, v)

    def hessp(self, v, z):
        out = np.zeros(z.shape)
        out[self.bands] = self.weight * self._outside(z)
        return out

    def diagonal(self, v):
        out = np.zeros((len(v), 1))
        out[self.bands, 0] = self.weight * (1.0 - np.square(self.E).sum(axis=1))
        return out
