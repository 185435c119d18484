"""How latent parameters x become factors u = φ(x): squares are never negative."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.checks import as_choice


@dataclass(frozen=True)
class Parametrisation:
    """φ, its slope and its second derivative, elementwise.

    Parameters
    ----------
    name : str
        "square" or "identity", as an option says it.
    nonnegative : bool
        Whether φ is the square; else it is the identity.
    """

    name: str
    nonnegative: bool

    def value(self, x: np.ndarray) -> np.ndarray:
        """φ(x)."""
        return np.square(x) if self.nonnegative else x

    def slope(self, x: np.ndarray) -> np.ndarray | float:
        """φ'(x)."""
        return 2.0 * x if self.nonnegative else 1.0

    def second(self) -> float:
        """φ'', the same everywhere."""
        return 2.0 if self.nonnegative else 0.0

    def inverse(self, u: np.ndarray) -> np.ndarray:
        """An x with φ(x) = u."""
        return np.sqrt(u) if self.nonnegative else u


PARAMETRISATIONS = {"square": Parametrisation("square", True), "identity": Parametrisation("identity", False)}


def per_mode(choice: str | Sequence[str]) -> tuple[Parametrisation, Parametrisation, Parametrisation]:
    """Three parametrisations from one name or three."""
    names = (choice,) * 3 if isinstance(choice, str) else tuple(choice)
    if len(names) != 3:
        raise ValueError(f"parametrisation: got {len(names)} names; one, or one for each of the three modes, is needed")
    A, B, C = (PARAMETRISATIONS[as_choice(name, "parametrisation", tuple(PARAMETRISATIONS))] for name in names)
    return A, B, C
