"""Files that are written a block at a time, for images that are never whole in memory: GeoTIFF, Zarr and npy."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from ..model import types
from ..model.files import finish, first_line, take_place
from . import geotiff, zarr_store
from .gdal import TILE
from .inspection import as_path
from .raster import Raster
from .table import check_target, files_written

#: The suffixes of what is written a block at a time.
STREAMED = (".tif", ".tiff", ".zarr", ".npy")


class Stream:
    """A file that is being written.

    Attributes
    ----------
    chunks : (rows, columns)
        Blocks should be of these, or of multiples of them.
    """

    chunks = (TILE, TILE)

    def __init__(self, write: Callable[[slice, slice, types.Array], None]):
        self.write = write


@contextmanager
def stream(
    path: types.Path, raster: Raster, folder: types.Path, *, overwrite: bool = False, cog: bool = False
) -> Iterator[Stream]:
    """Write a file a block at a time; it takes its place when it is whole.

    Parameters
    ----------
    path : path
        Of GeoTIFF, Zarr or npy.
    raster : Raster
        All that is known of the image; its cube stands for shape and dtype only (`placeholder`).
    folder : path
        On the same disk: what is not finished lies there, under a name that is used again.
    overwrite : bool
        False refuses a path where something is.
    cog : bool
        Whether GeoTIFF is written as a cloud-optimised one.

    Yields
    ------
    Stream
        Its `write(rows, cols, block)` takes blocks (rows, columns, bands).
    """
    check_streamed(path)
    path = as_path(path)
    temporary = Path(folder) / f"output{path.suffix.lower()}"
    _remove(temporary)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        writing = _stream_npy(temporary, raster)
    elif suffix == ".zarr":
        writing = zarr_store.stream_zarr(temporary, raster)
    else:
        writing = geotiff.stream_geotiff(temporary, raster, cog)
    with ExitStack() as stack:
        with _naming(path):
            write = stack.enter_context(writing)

        def named(rows, cols, block):
            with _naming(path):
                write(rows, cols, block)

        yield Stream(named)
        with _naming(path):
            stack.close()
    check_target(path, overwrite)
    target = Path(os.path.realpath(path))
    with _naming(path):
        finish(temporary, target)
        for stale in files_written(path)[1:]:
            stale.unlink(missing_ok=True)
        take_place(temporary, target)


@contextmanager
def _naming(path):
    """What the disk, or a library, says of a file is a sentence with its name."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{path}: cannot be written ({error.strerror or first_line(error)})") from error


def check_streamed(path: types.Path) -> None:
    """Refuse a format that is not written a block at a time."""
    if as_path(path).suffix.lower() not in STREAMED:
        raise ValueError(f"{path}: is not written in tiles; one of {', '.join(STREAMED)} is needed")


def placeholder(shape: tuple[int, int, int], dtype: types.Array | np.dtype | str) -> types.Array:
    """A cube of a shape and dtype that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


@contextmanager
def _stream_npy(path, raster):
    np.lib.format.open_memmap(path, "w+", raster.dtype, raster.shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and would end the process later
        with open(path, "rb+") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)

    def write(rows, cols, block):
        # Mapped for this block alone: pages count as memory of the process as long as they are mapped.
        np.lib.format.open_memmap(path, "r+")[rows, cols] = block

    yield write


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
