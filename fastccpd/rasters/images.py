"""One of the two images as a source of windows: physical values, on the grid on which it is taken, masked.

`read(rows, cols)` and `valid(rows, cols)` of an `Image` are all that a fusion of tiles asks of its inputs, and reading
the whole is one window.
"""

import os
from typing import cast

import numpy as np

from ..formats import Georeference, Header, Windows
from ..formats.raster import gone
from ..model import types
from .mapping import part
from .masks import Mask
from .placement import Place
from .warping import VALUES, source_window, warped_window


class Image:
    """Windows of an image that is made ready.

    Parameters
    ----------
    windows : Windows
        The file.
    taken : Place
        Which of its pixels, or where between them.
    scale, offset : (bands,) arrays or None
        What turns stored values into physical ones: value × scale + offset.
    mask : Mask, optional
        Pixels that are left out.
    bands : (bands,) bool array, optional
        The bands that are used. None: all.

    Attributes
    ----------
    header : Header
        Of the file.
    shape : (rows, columns, bands)
    dtype : numpy.dtype
        That of the file where values are neither scaled nor warped; else float32 for floats of at most 32 bits, and
        float64.
    """

    def __init__(
        self,
        windows: Windows,
        taken: Place,
        scale: types.Array | None = None,
        offset: types.Array | None = None,
        mask: Mask | None = None,
        bands: types.Mask | None = None,
    ):
        self.header, self.taken, self.mask = windows.header, taken, mask
        self._windows, self._scale, self._offset = windows, scale, offset
        self.bands = np.ones(windows.shape[2], bool) if bands is None else bands
        stored = windows.dtype
        self._float = np.dtype(np.float32 if stored.kind == "f" and stored.itemsize <= 4 else np.float64)
        self._last = None

    def __getstate__(self):
        return self.__dict__ | {"_last": None}  # pixels stay here

    @property
    def portable(self) -> bool:
        """Whether another process reads it a part at a time: not where it would have to read the whole."""
        return self._windows.by_parts

    @property
    def shape(self) -> types.Shape:
        """(rows, columns, bands)."""
        return *self.taken.shape, int(self.bands.sum())

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        plain = self._scale is None and self._offset is None and not self.taken.warped
        return self._windows.dtype if plain else self._float

    def with_bands(self, bands: types.Mask) -> "Image":
        """The same with other bands, a bool for each of the file's."""
        return Image(self._windows, self.taken, self._scale, self._offset, self.mask, bands)

    def read(self, rows: slice, cols: slice) -> types.Array:
        """The values of a rectangle, (rows, columns, bands); where `valid` is False they mean nothing."""
        return self._both(rows, cols)[0]

    def valid(self, rows: slice, cols: slice) -> types.Mask:
        """Where a rectangle has data in every band that is used, (rows, columns)."""
        return np.asarray(self._both(rows, cols)[1])

    def identity(self) -> str:
        """A text that changes when the file does, or what is made of it."""
        path, parts = self.header.source["path"], (self.taken, self._scale, self._offset, self.mask, self.bands)
        status = os.stat(path)
        return f"{path} {status.st_size} {status.st_mtime_ns} {parts}"

    def stored(self, rows: slice, cols: slice) -> types.Array:
        """Values as they are stored, of all bands, of a rectangle of the file's own pixels."""
        return self._windows.read(rows, cols)

    def _both(self, rows, cols):
        rows, cols = (slice(*part.indices(size)[:2]) for part, size in zip((rows, cols), self.taken.shape, strict=True))
        asked = rows.start, rows.stop, cols.start, cols.stop
        if self._last is None or self._last[0] != asked:
            self._last = asked, self._made(rows, cols)
        return self._last[1]

    def _made(self, rows, cols):
        if self.taken.warped:
            values, valid = self._warped(rows, cols)
        else:
            top, left = self.taken.corner
            here = slice(top + rows.start, top + rows.stop), slice(left + cols.start, left + cols.stop)
            stored = self._windows.read(*here)[:, :, self.bands]
            valid = ~gone(stored, self.header.nodata).any(axis=2)
            values = self._physical(stored)
        if self.mask is not None:
            valid = valid & ~self.mask.read(rows, cols)
        return values, valid

    def _warped(self, rows, cols):
        shape = rows.stop - rows.start, cols.stop - cols.start
        of, size = cast(Georeference, self.header.georeference), self.header.shape[:2]
        georeference = part(self.taken.grid, rows.start, cols.start)
        values = warped_window(self._with_gaps, of, size, georeference, shape, VALUES)
        if values is None:
            values = np.full((*shape, self.shape[2]), np.nan, self._float)
        return values, ~np.isnan(values).any(axis=2)

    def _with_gaps(self, rows, cols):
        """Physical values with NaN where there are none in any band that is used."""
        stored = self._windows.read(rows, cols)[:, :, self.bands]
        values = self._physical(stored).astype(self._float)
        values[gone(stored, self.header.nodata).any(axis=2)] = np.nan
        return values

    def _physical(self, stored):
        if self._scale is None and self._offset is None:
            return stored
        scale = 1.0 if self._scale is None else self._scale[self.bands]
        offset = 0.0 if self._offset is None else self._offset[self.bands]
        return (stored * scale + offset).astype(self._float)


def file_part(image: Image) -> tuple[slice, slice]:
    """The pixels of the file that an image is made of, as slices of rows and columns."""
    header: Header = image.header
    if not image.taken.warped:
        (top, left), (rows, columns) = image.taken.corner, image.taken.shape
        return slice(top, top + rows), slice(left, left + columns)
    of = cast(Georeference, header.georeference)  # without one nothing is warped
    found = source_window(image.taken.grid, image.taken.shape, of, header.shape[:2])
    return found or (slice(0, header.shape[0]), slice(0, header.shape[1]))
