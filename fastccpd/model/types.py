"""Names for the types of arguments and results."""

import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

#: An array of float32 or float64: an image is (rows, columns, bands), a stack of maps (rows, columns, maps).
Array = NDArray[Any]
Mask = NDArray[np.bool_]


class HasDtype(Protocol):
    """An array, or what is read as one."""

    @property
    def dtype(self) -> np.dtype[Any]: ...


#: (rows, columns, bands).
Shape = tuple[int, int, int]


class Renderable(Protocol):
    """An image that is made when it is asked for, whole or a block of it."""

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def render(self, rows: "Part", cols: "Part", bands: "Part", dtype: DTypeLike | None) -> Array:
        """A block of the image; None is a whole axis."""
        ...

    def bound(self) -> float:
        """What no magnitude of the image exceeds; not finite where the image is not."""
        ...


#: What becomes an operator: dense, or scipy.sparse, of whose classes a type checker cannot see enough.
Matrix = ArrayLike | Any

#: A scipy.sparse.csr_array, for the same reason.
Operator = Any

#: What is taken of an axis: all of it for None, or a slice, an index or an array of indices.
Part = slice | ArrayLike | None

Path = str | os.PathLike[str]

#: Called with a `Progress` or a solver's `State`; True ends what is going on.
Callback = Callable[[Any], bool | None]
