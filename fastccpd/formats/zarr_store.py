"""Zarr: a folder of chunks, version 2 or 3, by the package zarr; by the conventions of `cf`.

A store is a folder on this machine. Dimensions are named by `dimension_names` (version 3) or the attribute
`_ARRAY_DIMENSIONS` that xarray writes (version 2). A chunk is unpacked by codecs that the store names, of which only
those are taken that change numbers: one of them, pickle, would run code.
"""

import os
import stat
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .cf import Named, open_variables, variables_of
from .extras import needed
from .inspection import reading
from .raster import REAL_DTYPES
from .zarr_chunks import Chunks, name_of

DTYPES = REAL_DTYPES

_KIND = "a Zarr store"
_MARKS = ("zarr.json", ".zgroup", ".zarray")
_METADATA = (*_MARKS, ".zattrs", ".zmetadata")
_LARGEST_METADATA = 1 << 24
_DIMENSIONS = "_ARRAY_DIMENSIONS"
_CODECS = frozenset(
    (
        *("blosc", "zlib", "gzip", "zstd", "lz4", "lzma", "bz2", "shuffle", "bitshuffle", "delta", "fixedscaleoffset"),
        *("quantize", "bytes", "crc32c", "crc32", "adler32", "fletcher32", "transpose", "sharding_indexed", "packbits"),
    )
)
_CHUNK = 256


def is_store(path):
    """Whether a path is a folder that holds a Zarr store."""
    return path.is_dir() and any((path / mark).is_file() for mark in _MARKS)


def open_zarr(path, band_axis, variable):
    """The cube of a Zarr store."""
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise NotADirectoryError(f"{path}: is a file; {_KIND} is a folder")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: cannot be read (no such file or directory)") from None
    if not is_store(path):
        raise ValueError(f"{path}: is not {_KIND}; it holds none of {', '.join(_MARKS)}")
    zarr = needed("zarr", f"{path}: Zarr")
    with reading(path, _KIND), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that are no part of a store
        _check_closed(path)
        root = zarr.open(str(path.absolute()), mode="r")
        arrays = {"cube": root} if isinstance(root, zarr.Array) else dict(root.arrays())
        variables = {name: _named(path, array) for name, array in arrays.items()}
    return open_variables(path, variables, band_axis, variable, dict(root.attrs), "as its dimensions are called")


def write_zarr(temporaries, raster):
    """Version 3, chunks of 256 × 256 pixels and a few bands."""
    array, bands = _created(temporaries[0], raster), raster.shape[2]
    for first in range(0, bands, array.chunks[0]):
        part = slice(first, first + array.chunks[0])
        array[part] = np.moveaxis(raster.cube[:, :, part], 2, 0)


@contextmanager
def stream_zarr(path, raster):
    """Yields write(rows, cols, block) for a store whose pixels are not there yet; `raster` says the rest."""
    array = _created(path, raster)

    def write(rows, cols, block):
        array[:, rows, cols] = np.moveaxis(block, 2, 0)

    yield write


def _created(path, raster):
    """The array of a new store, with all that is known of it but its pixels."""
    zarr = needed("zarr", "writing Zarr")
    rows, columns, bands = raster.shape
    root = zarr.create_group(str(path.absolute()), zarr_format=3)
    root.attrs.update({"Conventions": "CF-1.8"} | (raster.tags or {}))
    for name, found in variables_of(raster).items():
        about = dict(found.attributes)
        fill = about.pop("_FillValue", None)
        if fill is not None:
            about["_FillValue"] = float(fill) if np.isfinite(fill) else str(float(fill))
        chunks = (min(bands, 16), min(rows, _CHUNK), min(columns, _CHUNK)) if len(found.shape) == 3 else found.shape
        array = root.create_array(
            name,
            shape=found.shape,
            dtype=found.dtype,
            chunks=chunks or "auto",
            dimension_names=found.dims,
            fill_value=None if fill is None else fill,
            attributes=about,
        )
        if len(found.shape) == 3:
            cube = array
        else:
            array[...] = found.values
    return cube


def _named(path, array):
    metadata = array.metadata
    _check_codecs(metadata)
    chunks = Chunks(Path(path, *array.path.split("/")), metadata)
    about = {key: value for key, value in dict(array.attrs).items() if key != _DIMENSIONS}
    dims = getattr(metadata, "dimension_names", None) or array.attrs.get(_DIMENSIONS)
    dims = (
        tuple(str(dim) for dim in dims)
        if dims and len(dims) == array.ndim
        else tuple(f"axis{n}" for n in range(array.ndim))
    )
    if "_FillValue" in about:
        about["_FillValue"] = _number(about["_FillValue"])

    def read(slices):
        with reading(path, _KIND):
            chunks.check(slices)
            return np.asarray(array[slices])

    return Named(
        dims, tuple(array.shape), array.dtype, {key: value for key, value in about.items() if value is not None}, read
    )


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _check_closed(path):
    """Refuse a store with links to elsewhere, or with anything but files, of which a pipe might never end."""
    store, waiting = os.path.realpath(path), [path]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink() and os.path.commonpath([store, os.path.realpath(entry)]) != store:
                    raise ValueError(f"{entry.name} leads out of the store, which is not followed")
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not entry.is_file() and not entry.is_dir():
                    raise ValueError(f"{entry.name} is not a regular file")
                elif entry.name in _METADATA and entry.stat().st_size > _LARGEST_METADATA:
                    raise ValueError(f"{entry.name} has {entry.stat().st_size} bytes, too many for metadata")


def _check_codecs(metadata):
    """Refuse a store whose chunks are to be unpacked by anything but codecs of numbers."""
    told = metadata.to_dict()
    waiting = [told.get(key) for key in ("codecs", "filters", "compressor")]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list | tuple):
            waiting += item
        elif isinstance(item, dict):
            name = name_of(item)
            if name not in _CODECS:
                raise ValueError(f"the codec {name[:40]!r} is not one of numbers")
            inner = item.get("configuration") or {}
            waiting += [inner.get(key) for key in ("codecs", "index_codecs")]
