"""How latent parameters x become factors u = φ(x): squares are never negative."""

from dataclasses import dataclass

import numpy as np

from ..model.checks import as_choice


@dataclass(frozen=True)
class Parametrisation:
    """φ, its slope and its second derivative, elementwise."""

    name: str
    nonnegative: bool

    def value(self, x):
        return np.square(x) if self.nonnegative else x

    def slope(self, x):
        return 2.0 * x if self.nonnegative else 1.0

    def second(self):
        return 2.0 if self.nonnegative else 0.0

    def inverse(self, u):
        """An x with φ(x) = u."""
        return np.sqrt(u) if self.nonnegative else u


PARAMETRISATIONS = {"square": Parametrisation("square", True), "identity": Parametrisation("identity", False)}


def per_mode(choice):
    """Three parametrisations from one name or three."""
    names = (choice,) * 3 if isinstance(choice, str) else tuple(choice)
    if len(names) != 3:
        raise ValueError(f"parametrisation: got {len(names)} names; one, or one for each of the three modes, is needed")
    return tuple(PARAMETRISATIONS[as_choice(name, "parametrisation", tuple(PARAMETRISATIONS))] for name in names)
