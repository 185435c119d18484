"""A file that is read a part at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..model.types import Array, Shape
from .raster import Header


class Windows:
    """The pixels of a file, any rectangle of them, as they are stored.

    Parameters
    ----------
    header : Header
    part : callable(rows, cols) -> array, or None
        Reads two slices that have start and stop; None for a format that is only read whole.
    whole : callable() -> array
        Reads all of it.
    again : (callable, arguments), optional
        What opens the file once more: it is that, and no pixels, that goes to another process.

    Attributes
    ----------
    header : Header
    shape : (rows, columns, bands)
    dtype : numpy.dtype
    by_parts : bool
        Whether a part is read without the rest.
    """

    def __init__(
        self,
        header: Header,
        part: Callable[[slice, slice], Array] | None,
        whole: Callable[[], Array],
        again: tuple[Callable[..., "Windows"], tuple[Any, ...]] | None = None,
    ):
        self.header, self.by_parts, self._again = header, part is not None, again
        self._part, self._whole, self._cube = part, whole, None

    def __reduce__(self):
        if self._again is None:
            raise TypeError("windows: opened by hand, so no other process can open them again")
        return self._again

    def __repr__(self):
        return f"<Windows {self.header.source['path']}>"

    @property
    def shape(self) -> Shape:
        """(rows, columns, bands)."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype:
        """That of the stored values."""
        return self.header.dtype

    def read(self, rows: slice, cols: slice) -> Array:
        """The values of a rectangle.

        Parameters
        ----------
        rows, cols : slice
            With steps of one; what lies beyond the edge is cut off.

        Returns
        -------
        (rows, columns, bands) array
        """
        rows, cols = (slice(*part.indices(size)[:2]) for part, size in zip((rows, cols), self.shape[:2], strict=True))
        everything = rows == slice(0, self.shape[0]) and cols == slice(0, self.shape[1])
        if self._cube is None and self._part is not None:
            return self._whole() if everything else self._part(rows, cols)
        if self._cube is None:
            self._cube = self._whole()
        return self._cube[rows, cols]
