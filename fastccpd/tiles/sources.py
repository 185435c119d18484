"""Images that are read window by window.

A source has `shape` (rows, columns, bands), `dtype` and `read(rows, cols)`, which gives the pixels of two slices as an
array (rows, columns, bands). It may have `valid(rows, cols)`: True where there are data, (rows, columns) or with bands,
or None where all are; and `identity()`, a plain value that changes when the image does. One whose `portable` is True is
pickled and read in another process; of others the windows are read here and sent.

`as_source` makes sources of arrays, of mapped files, and of whatever gives an array when it is indexed, like Zarr, dask
or a DataArray. Files of images are no matter of this room: `fastccpd.rasters` makes sources of them.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from ..model.checks import as_valid
from ..model.types import Array, Mask
from .plan import Range

_ROWS = ("y", "row", "rows", "lat", "latitude")
_COLS = ("x", "col", "cols", "column", "columns", "lon", "longitude")
_BANDS = ("band", "bands", "wavelength", "wavelengths", "channel")


@runtime_checkable
class Source(Protocol):
    """An image that is read window by window; what else it may have, the module says."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, bands)."""
        ...

    @property
    def dtype(self) -> Any:
        """Of the values that `read` gives."""
        ...

    def read(self, rows: slice, cols: slice, /) -> Array:
        """The values of a window, (rows, columns, bands)."""
        ...


@dataclass(frozen=True, eq=False)
class IndexedSource:
    """What gives an array when it is indexed by two slices.

    Attributes
    ----------
    array : array-like (rows, columns, bands)
        numpy, Zarr, dask, or anything with `shape`, `dtype` and `[]`.
    mask : (rows, columns) array-like or None
        True where there are data; indexed likewise.
    portable : bool
    """

    array: Any
    mask: Any = None
    portable: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        rows, cols, bands = self.array.shape
        return int(rows), int(cols), int(bands)

    @property
    def dtype(self) -> Any:
        return np.dtype(self.array.dtype)

    def read(self, rows: slice, cols: slice) -> Array:
        # Where a Zarr store is not there, all of its chunks are, to Zarr, empty: an image of zeros.
        folder = getattr(getattr(self.array, "store", None), "root", None)
        if isinstance(folder, Path) and not folder.exists():
            raise FileNotFoundError(f"{folder}: is not there for this process; files that all workers see are needed")
        return _computed(self.array[rows, cols])

    def valid(self, rows: slice, cols: slice) -> Mask | None:
        return None if self.mask is None else _computed(self.mask[rows, cols])

    def identity(self) -> str:
        return digest(self)


@dataclass(frozen=True)
class MappedSource:
    """A file that is mapped into memory, opened where it is read: other processes get its path, not its pixels.

    Attributes
    ----------
    path : str
        The file.
    dtype, shape, offset, order
        As of `numpy.memmap`.
    mask : (rows, columns) array-like or None
        True where there are data.
    """

    path: str
    dtype: Any
    shape: tuple[int, int, int]
    offset: int
    order: Literal["C", "F"]
    mask: Any = None

    portable = True

    def read(self, rows: slice, cols: slice) -> Array:
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)
        return np.array(mapped[rows, cols])

    def valid(self, rows: slice, cols: slice) -> Mask | None:
        return None if self.mask is None else np.asarray(self.mask[rows, cols])

    def identity(self) -> str:
        return digest(self)


@dataclass(frozen=True, eq=False)
class Cut:
    """A window that has been read: what is sent where a source cannot be."""

    pixels: np.ndarray
    has: np.ndarray | None = None


def as_source(image: Any, name: str, valid: Any = None) -> Source:
    """A source of an image.

    Parameters
    ----------
    image : Source, array, memmap, Zarr or dask array, or DataArray
        A DataArray's axes are found by the names of its dimensions; of others they are (rows, columns, bands).
    name : str
        For messages.
    valid : (rows, columns) or (rows, columns, bands) array, optional
        True where there are data.

    Returns
    -------
    Source
    """
    if isinstance(image, Source):
        if valid is not None:
            raise TypeError(f"{name}_valid: is given beside a source, which says itself where it has data")
        return image
    if hasattr(image, "dims") and hasattr(image, "isel"):
        image = _ordered(image, name)
    if not all(hasattr(image, part) for part in ("shape", "dtype", "__getitem__")):
        raise TypeError(
            f"{name}: got {type(image).__name__}; an array, or a source with shape, dtype and read, is needed"
        )
    if len(image.shape) != 3 or 0 in image.shape:
        raise ValueError(f"{name}: got shape {tuple(image.shape)}; (rows, columns, bands), none of them 0, is needed")
    if np.dtype(image.dtype).kind not in "buif":
        raise TypeError(f"{name}: got dtype {image.dtype}; real numbers are needed")
    if isinstance(valid, np.ndarray | list | tuple):
        valid = as_valid(valid, f"{name}_valid", tuple(image.shape))
    if isinstance(image, np.memmap) and _is_whole_map(image):
        order = "C" if image.flags.c_contiguous else "F"
        return MappedSource(str(image.filename), image.dtype, image.shape, image.offset, order, valid)
    stored = type(image).__module__.partition(".")[0] == "zarr" and _is_on_disk(image)
    return IndexedSource(image, valid, portable=stored)


def _is_whole_map(image):
    """Whether a memmap is what its file holds from its offset on, and not a part of that."""
    contiguous = image.flags.c_contiguous or image.flags.f_contiguous
    return image.filename is not None and contiguous and not isinstance(image.base, np.ndarray)


def _is_on_disk(array):
    """Whether other processes can open it; a relative path may lead them elsewhere."""
    folder = getattr(array.store, "root", None)
    known = type(array.store).__name__ in ("LocalStore", "FsspecStore", "ZipStore")
    return known and (folder is None or Path(folder).is_absolute())


def _ordered(image, name):
    """A DataArray's data as (rows, columns, bands)."""
    order = []
    for axis, known in (("rows", _ROWS), ("columns", _COLS), ("bands", _BANDS)):
        found = [dim for dim in image.dims if str(dim).lower() in known]
        if len(found) != 1 or image.ndim != 3:
            raise ValueError(
                f"{name}: got dimensions {', '.join(map(str, image.dims))}; three are needed, and {axis} called one of "
                f"{', '.join(known)}"
            )
        order += found
    return image.transpose(*order).data


def _computed(block):
    """The values of an array that may be lazy, computed in this process, which may itself be a task of a cluster."""
    if hasattr(block, "compute"):
        block = block.compute(scheduler="synchronous")
    return np.asarray(block)


def take(source: Source | Cut, rows: tuple[Range, ...], cols: tuple[Range, ...]) -> Cut:
    """The pixels of all pairs of runs, beside and below each other, and where they have data."""
    if isinstance(source, Cut):
        return source
    pairs = [[(slice(*row), slice(*col)) for col in cols] for row in rows]
    pixels = _joined([[source.read(*pair) for pair in line] for line in pairs])
    ask = getattr(source, "valid", None)
    if ask is None:
        return Cut(pixels)
    masks = [[ask(*pair) for pair in line] for line in pairs]
    if all(mask is None for line in masks for mask in line):
        return Cut(pixels)
    filled = [[_mask(mask, pair) for mask, pair in zip(*lines)] for lines in zip(masks, pairs)]
    return Cut(pixels, _joined(filled))


def _mask(mask, pair):
    return np.ones([part.stop - part.start for part in pair], bool) if mask is None else np.asarray(mask, bool)


def _joined(blocks):
    if len(blocks) == len(blocks[0]) == 1:
        return blocks[0][0]
    return np.concatenate([np.concatenate(line, axis=1) for line in blocks], axis=0)


def digest(source: Any) -> str:
    """A hash of an image's pixels, read some rows at a time."""
    rows, cols, bands = source.shape
    lines = max(1, (1 << 24) // (cols * bands * source.dtype.itemsize))
    found = hashlib.sha256(f"{source.shape} {source.dtype}".encode())
    for first in range(0, rows, lines):
        part = slice(first, min(first + lines, rows)), slice(0, cols)
        for array in (source.read(*part), source.valid(*part)):
            found.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
