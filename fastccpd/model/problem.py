"""What is to be fused: two images and the operators between them; and the factors that explain both."""

from dataclasses import dataclass

import numpy as np

from ..kernels import reconstruct
from .checks import as_cube, check_values, working_dtype
from .degradation import Degradation


@dataclass(frozen=True, eq=False)
class Problem:
    """Two images of one scene, checked against their operators, cast and contiguous once.

    Parameters
    ----------
    hsi : (I_H, J_H, K) array of any real dtype
    msi : (I, J, K_M) array of any real dtype
    degradation : Degradation
    check_finite : bool
        False skips the scan for NaN and infinities.

    Both images become float32 if both are (or are float16), else float64. C-ordered input of that dtype is not copied.
    """

    hsi: np.ndarray
    msi: np.ndarray
    degradation: Degradation
    check_finite: bool = True

    def __post_init__(self):
        if not isinstance(self.degradation, Degradation):
            raise TypeError(f"degradation: got {type(self.degradation).__name__}; a fastccpd.Degradation is needed")
        cubes = {name: as_cube(getattr(self, name), name) for name in ("hsi", "msi")}
        self.degradation.check(*(cube.shape for cube in cubes.values()))
        dtype = working_dtype(*cubes.values())
        for name, cube in cubes.items():
            if self.check_finite:
                check_values(cube, name)
            object.__setattr__(self, name, np.ascontiguousarray(cube, dtype=dtype))

    @property
    def dtype(self):
        return self.msi.dtype

    @property
    def sri_shape(self):
        return self.degradation.sri_shape


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors A (I, R), B (J, R), C (K, R) of a super-resolution image [[A, B, C]]."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray

    def __iter__(self):
        return iter((self.A, self.B, self.C))

    @property
    def rank(self):
        return self.A.shape[1]

    @property
    def shape(self):
        return len(self.A), len(self.B), len(self.C)

    def render(self, rows=None, cols=None, bands=None, dtype=None, out=None):
        """[[A, B, C]], whole or a block of it."""
        return reconstruct(tuple(self), rows, cols, bands, dtype, out)
