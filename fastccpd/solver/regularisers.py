"""Prior knowledge, one small object each.

A regulariser adds a convex term to the cost. Its ``space`` says of what it is a function: "latent" (x) or "factors"
(u = φ(x); the objective applies the chain rule). All arrays are stacked (I+J+K, R).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..model.checks import as_choice, as_number, check_members, set_fields

SPACES = ("latent", "factors")


class Regulariser(Protocol):
    """A convex term of the cost, of x or of the factors; any object with these members is one.

    v and z are (I+J+K, R) float64 arrays, the rows of A, B and C one after the other; they must not be written to.
    The methods divide the data by the scene's own size first, so that weights do not depend on their unit.
    """

    @property
    def space(self) -> str:
        """Of what it is a function: "latent", x itself, or "factors", u = φ(x), the squares of squared parameters."""
        ...

    def value(self, v: np.ndarray, /) -> float:
        """The term at v."""
        ...

    def gradient(self, v: np.ndarray, /) -> np.ndarray:
        """Its gradient at v."""
        ...

    def hessp(self, v: np.ndarray, z: np.ndarray, /) -> np.ndarray:
        """Its Hessian at v, positive semidefinite, times z."""
        ...

    def diagonal(self, v: np.ndarray, /) -> np.ndarray:
        """The Hessian's diagonal at v, for the preconditioner; whatever broadcasts to v's shape."""
        ...


def as_regularisers(values: Iterable[Regulariser]) -> tuple[Regulariser, ...]:
    """`values` as a tuple of objects that have all that a `Regulariser` has."""
    try:
        regularisers = tuple(values)
    except TypeError:
        got = type(values).__name__
        raise TypeError(f"regularisers: got {got}; a sequence of regularisers is needed") from None
    for n, regulariser in enumerate(regularisers):
        check_members(regulariser, f"regularisers[{n}]", ("value", "gradient", "hessp", "diagonal"))
        as_choice(getattr(regulariser, "space", None), f"regularisers[{n}].space", SPACES)
    return regularisers


@dataclass(frozen=True, eq=False)
class InKnownBands:
    """A regulariser of all bands, as a function of those that have data: v = E v', E = diag(I, I, W).

    Where whole bands are masked, a fit leaves them out, but the caller's regulariser is written for all of them.

    Parameters
    ----------
    whole : Regulariser
        Of (I+J+K, R) arrays.
    weights : (K, K') array
        W: how each band lies between those that have data.
    """

    whole: Regulariser
    weights: np.ndarray

    @property
    def space(self) -> str:
        return self.whole.space

    def _expanded(self, v):
        rest = len(v) - self.weights.shape[1]
        return np.vstack([v[:rest], np.einsum("kp,pr->kr", self.weights, v[rest:])])

    def _gathered(self, v, weights):
        rest = len(v) - len(weights)
        return np.vstack([v[:rest], np.einsum("kp,kr->pr", weights, v[rest:])])

    def value(self, v: np.ndarray) -> float:
        return self.whole.value(self._expanded(v))

    def gradient(self, v: np.ndarray) -> np.ndarray:
        return self._gathered(self.whole.gradient(self._expanded(v)), self.weights)

    def hessp(self, v: np.ndarray, z: np.ndarray) -> np.ndarray:
        return self._gathered(self.whole.hessp(self._expanded(v), self._expanded(z)), self.weights)

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """Of the Hessian's diagonal alone: what lies beside it is left out, as the preconditioner does anyway."""
        whole = self._expanded(v)
        diagonal = np.broadcast_to(self.whole.diagonal(whole), whole.shape)
        return self._gathered(diagonal, np.square(self.weights))


@dataclass(frozen=True)
class Ridge:
    """½μ‖x‖²: on squared parameters this is ½μ(ΣA + ΣB + ΣC), an L1 prior that prunes components.

    Parameters
    ----------
    weight : float
        μ, at least zero.
    """

    weight: float
    space = "latent"

    def __post_init__(self):
        set_fields(self, weight=as_number(self.weight, "weight"))

    def value(self, v: np.ndarray) -> float:
        return 0.5 * self.weight * float(np.einsum("ij,ij->", v, v))

    def gradient(self, v: np.ndarray) -> np.ndarray:
        return self.weight * v

    def hessp(self, v: np.ndarray, z: np.ndarray) -> np.ndarray:
        return self.weight * z

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        return np.full((1, v.shape[1]), self.weight)


@dataclass(frozen=True, eq=False)
class Smoothness:
    """½ Σ_n λ_n ‖D U_n‖²: first differences down the columns of each factor, of rows, columns and bands in turn.

    Parameters
    ----------
    weights : three floats
        λ of A, B and C, at least zero.
    sizes : (I, J, K)
        The rows of A, B and C.
    """

    weights: tuple[float, float, float]
    sizes: tuple[int, int, int]
    space = "factors"

    def __post_init__(self):
        set_fields(self, weights=tuple(as_number(w, f"weights[{n}]") for n, w in enumerate(self.weights)))

    def _modes(self):
        ends = np.cumsum(self.sizes)
        return zip(self.weights, map(slice, ends - self.sizes, ends), strict=True)

    def value(self, v: np.ndarray) -> float:
        return 0.5 * sum(weight * float(np.square(np.diff(v[rows], axis=0)).sum()) for weight, rows in self._modes())

    def gradient(self, v: np.ndarray) -> np.ndarray:
        return self.hessp(v, v)

    def hessp(self, v: np.ndarray, z: np.ndarray) -> np.ndarray:
        out = np.zeros(z.shape)
        for weight, rows in self._modes():
            steps, part = weight * np.diff(z[rows], axis=0), out[rows]
            part[1:] += steps
            part[:-1] -= steps
        return out

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """One for each neighbour: a tridiagonal matrix has nothing else."""
        out = np.zeros((len(v), 1))
        for weight, rows in self._modes():
            out[rows][1:] += weight
            out[rows][:-1] += weight
        return out


@dataclass(frozen=True, eq=False)
class Subspace:
    """½ λ ‖(I − E E')C‖²: spectra near the span of the orthonormal columns of E.

    Parameters
    ----------
    weight : float
        λ, at least zero.
    E : (K, P) array
    bands : slice
        The rows of C in the stack, from I + J to I + J + K.
    """

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

    def value(self, v: np.ndarray) -> float:
        return 0.5 * self.weight * float(np.square(self._outside(v)).sum())

    def gradient(self, v: np.ndarray) -> np.ndarray:
        return self.hessp(v, v)

    def hessp(self, v: np.ndarray, z: np.ndarray) -> np.ndarray:
        out = np.zeros(z.shape)
        out[self.bands] = self.weight * self._outside(z)
        return out

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        out = np.zeros((len(v), 1))
        out[self.bands, 0] = self.weight * (1.0 - np.square(self.E).sum(axis=1))
        return out
