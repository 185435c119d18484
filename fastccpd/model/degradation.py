"""The operators through which the two images see the scene."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .checks import as_operator, set_fields
from .types import Operator, Shape


@dataclass(frozen=True, eq=False)
class Degradation:
    """How a hyperspectral and a multispectral image arise from the super-resolution image.

    ``HSI = SRI x1 P1 x2 P2`` (rows and columns blurred and decimated), ``MSI = SRI x3 PM`` (bands averaged).

    Parameters
    ----------
    P1 : (I_H, I) matrix, dense or scipy.sparse
    P2 : (J_H, J) matrix
    PM : (K_M, K) matrix
    """

    P1: Operator
    P2: Operator
    PM: Operator

    def __post_init__(self):
        set_fields(self, **{name: as_operator(getattr(self, name), name) for name in ("P1", "P2", "PM")})

    @property
    def sri_shape(self) -> Shape:
        """(I, J, K) of the super-resolution image."""
        return self.P1.shape[1], self.P2.shape[1], self.PM.shape[1]

    @property
    def hsi_shape(self) -> Shape:
        """(I_H, J_H, K) of the HSI."""
        return self.P1.shape[0], self.P2.shape[0], self.PM.shape[1]

    @property
    def msi_shape(self) -> Shape:
        """(I, J, K_M) of the MSI."""
        return self.P1.shape[1], self.P2.shape[1], self.PM.shape[0]

    def check(self, hsi_shape: Sequence[int], msi_shape: Sequence[int]) -> None:
        """Refuse images that these operators cannot have made, naming the first axis that does not agree."""
        axes = (("rows", "P1"), ("columns", "P2"), ("bands", "PM"))
        for name, shape, expected in (("hsi", hsi_shape, self.hsi_shape), ("msi", msi_shape, self.msi_shape)):
            for (axis, operator), got, needed in zip(axes, shape, expected, strict=True):
                # P1 and P2 map to the HSI's pixels and PM from its bands; for the MSI it is the other way round.
                maps = "to" if (name == "hsi") == (axis != "bands") else "from"
                if got != needed:
                    raise ValueError(f"{name}: {got} {axis}, but {operator} maps {maps} {needed}; they must agree")

    def __repr__(self):
        def size(shape):
            return "×".join(map(str, shape))

        taps = "/".join(str(int(np.diff(P.indptr).max())) for P in (self.P1, self.P2, self.PM))
        sri, hsi, msi = size(self.sri_shape), size(self.hsi_shape), size(self.msi_shape)
        ratio = "×".join(f"{fine / coarse:g}" for coarse, fine in (self.P1.shape, self.P2.shape))
        return f"<Degradation: SRI {sri} → HSI {hsi}, MSI {msi}; ratio {ratio}, taps {taps}>"
