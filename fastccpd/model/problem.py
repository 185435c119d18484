"""What is to be fused: two images and the operators between them; and the factors or maps that explain both."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..blas import one_blas_thread
from ..kernels import reconstruct
from ..threads import by_rows
from .checks import as_cube, as_valid, check_values, set_fields, working_dtype
from .degradation import Degradation
from .types import Array, Part, Shape


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
    hsi_valid, msi_valid : bool array, optional
        True where there are data: (rows, columns) for pixels, (bands,) for bands, or the image's whole shape. What
        stands elsewhere, NaN too, is not looked at. None: everywhere.

    Both images become float32 if both are (or are float16), else float64. C-ordered input of that dtype is not copied.
    """

    hsi: np.ndarray
    msi: np.ndarray
    degradation: Degradation
    check_finite: bool = True
    hsi_valid: np.ndarray | None = None
    msi_valid: np.ndarray | None = None

    def __post_init__(self):
        if not isinstance(self.degradation, Degradation):
            raise TypeError(f"degradation: got {type(self.degradation).__name__}; a fastccpd.Degradation is needed")
        cubes = {name: as_cube(getattr(self, name), name) for name in ("hsi", "msi")}
        self.degradation.check(*(cube.shape for cube in cubes.values()))
        dtype = working_dtype(*cubes.values())
        for name, cube in cubes.items():
            valid = as_valid(getattr(self, f"{name}_valid"), f"{name}_valid", cube.shape)
            set_fields(self, **{f"{name}_valid": valid})
            if valid is not None:
                cube = np.where(valid, cube, cube.dtype.type(0))
            if self.check_finite:
                check_values(cube, name)
            set_fields(self, **{name: np.ascontiguousarray(cube, dtype=dtype)})

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.msi.dtype

    @property
    def sri_shape(self) -> Shape:
        return self.degradation.sri_shape

    @property
    def sizes(self) -> tuple[int, int]:
        """How many values the HSI and the MSI have."""
        pairs = (self.hsi, self.hsi_valid), (self.msi, self.msi_valid)
        hsi, msi = (image.size if valid is None else int(valid.sum()) for image, valid in pairs)
        return hsi, msi


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of a super-resolution image [[A, B, C]].

    Attributes
    ----------
    A : (I, R) array
        Of rows.
    B : (J, R) array
        Of columns.
    C : (K, R) array
        Of bands: the spectra.
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.A, self.B, self.C))

    @property
    def rank(self) -> int:
        """R, the number of terms."""
        return self.A.shape[1]

    @property
    def shape(self) -> Shape:
        """(I, J, K) of the image."""
        return len(self.A), len(self.B), len(self.C)

    def render(
        self,
        rows: Part = None,
        cols: Part = None,
        bands: Part = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """[[A, B, C]], whole or a block of it."""
        return reconstruct(tuple(self), rows, cols, bands, dtype, out)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A super-resolution image Z S', whose pixels are mixtures of few spectra.

    Attributes
    ----------
    Z : (I, J, P) array
        The maps.
    S : (K, P) array
        The spectra.
    """

    Z: np.ndarray
    S: np.ndarray

    # No value of the image is below.
    _floor: ClassVar[float] = -np.inf

    @property
    def shape(self) -> Shape:
        """(I, J, K) of the image."""
        return *self.Z.shape[:2], len(self.S)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the image."""
        return np.result_type(self.Z, self.S)  # maps alone may be float32, whose range images may exceed

    def render(self, rows: Part = None, cols: Part = None, bands: Part = None, dtype: DTypeLike | None = None) -> Array:
        """The image, whole or a block of it."""
        rows, cols, bands = map(as_part, (rows, cols, bands))
        Z, S = self.Z[rows][:, cols], self.S[bands]
        image = np.empty((*Z.shape[:2], len(S)), self.dtype if dtype is None else dtype)
        with one_blas_thread():
            for i in range(len(Z)):  # row by row: no second image in float64
                np.maximum(Z[i] @ S.T, self._floor, out=image[i], casting="same_kind")
        return image

    def bound(self) -> float:
        """What no magnitude of the image exceeds; not finite where Z or S are not."""

        def largest_of(X, part):
            return np.maximum(X[part].max(axis=(0, 1)), -X[part].min(axis=(0, 1)))

        with np.errstate(over="ignore", invalid="ignore"):
            parts = (by_rows(partial(largest_of, X), len(X), X[0].size) for X in (self.Z, self.S[None]))
            largest = [np.max(part, axis=0) for part in parts]
            return float(np.sum(np.prod(np.asarray(largest, dtype=np.float64), axis=0)))


@dataclass(frozen=True, eq=False)
class Maps(Mixture):
    """Maps and spectra of a non-negative super-resolution image max(Z S', 0).

    Attributes
    ----------
    Z : (I, J, P) array
        The maps.
    S : (K, P) array
        The spectra.
    """

    _floor: ClassVar[float] = 0.0


def as_part(part: Part) -> slice | Array:
    """What `render` takes of an axis: all of it for None; for a single number the axis stays, of length 1."""
    if part is None:
        return slice(None)
    return part if isinstance(part, slice) else np.atleast_1d(part)
