"""Files of every format as other programs write them, for the tests of the rasters."""

import struct
import zlib

import h5py
import numpy as np
import rasterio
from rasterio.crs import CRS

from fastccpd.rasters import Georeference, Raster

SHAPE = (24, 20, 7)

# The suffixes that stand for a format, or for a way to lie in one.
SUFFIXES = (".npy", ".npz", ".mat", ".hdr", ".img", ".bil", ".bip", ".raw", ".tif", ".tiff", ".nc", ".zarr")

UTM = CRS.from_epsg(32633).to_wkt()


def values(dtype=np.float64, shape=SHAPE):
    """A cube in which no two axes can be mixed up, with the extremes of its dtype."""
    rng = np.random.default_rng(3)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        cube = rng.normal(size=shape).astype(dtype)
        limits = np.finfo(dtype)
    else:
        limits = np.iinfo(dtype)
        cube = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    cube[0, 0, 0], cube[-1, -1, -1] = limits.min, limits.max
    return cube


def full_raster(dtype=np.float64, **changed):
    """A raster of which everything is known; no number in it is round."""
    bands = SHAPE[2]
    known = {
        "wavelengths": np.linspace(401.29, 2499.47, bands),
        "fwhm": np.linspace(9.43, 11.7, bands),
        "nodata": 7.0,
        "georeference": Georeference(UTM, (29.7, 0.0, 500000.25, 0.0, -30.1, 4200000.7)),
        "bad_bands": np.arange(bands) % 3 == 1,
    }
    return Raster(values(dtype), **known | changed)


def write_envi(path, cube, interleave="bsq", *, order="<", offset=0, code=None, **fields):
    """An ENVI pair as text and bytes; `path` is that of the data. Returns the header's path."""
    codes = {"u1": 1, "i2": 2, "i4": 3, "f4": 4, "f8": 5, "c8": 6, "u2": 12, "u4": 13, "i8": 14, "u8": 15}
    axis = {"bsq": 0, "bil": 1, "bip": 2}[interleave]
    lying = np.moveaxis(cube, 2, axis).astype(cube.dtype.newbyteorder(order))
    path.write_bytes(bytes(offset) + lying.tobytes())
    rows, columns, bands = cube.shape
    text = {
        "samples": columns,
        "lines": rows,
        "bands": bands,
        "header offset": offset,
        "file type": "ENVI Standard",
        "data type": code or codes[cube.dtype.str[1:]],
        "interleave": interleave,
        "byte order": int(order == ">"),
    } | {name.replace("_", " "): value for name, value in fields.items()}
    header = path.with_suffix(".hdr")
    header.write_text("ENVI\n" + "".join(f"{name} = {value}\n" for name, value in text.items() if value is not None))
    return header


def write_mat73(path, variables, userblock=True):
    """A MAT file of version 7.3 as MATLAB writes it; arrays are in MATLAB's order. A dict names attributes too."""
    with h5py.File(path, "w", userblock_size=512 if userblock else 0) as file:
        for name, value in variables.items():
            kind = {"f8": "double", "f4": "single", "b1": "logical"}.get(np.asarray(value).dtype.str[1:])
            if isinstance(value, str):
                data, kind = np.frombuffer(value.encode("utf-16-le"), "<u2")[:, None], "char"
            else:
                data = value.T.astype(np.uint8) if kind == "logical" else value.T
            file.create_dataset(name, data=data).attrs["MATLAB_class"] = np.bytes_(kind or value.dtype.name)
    if userblock:
        with open(path, "rb+") as file:
            file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM")


def mat5(name, shape, data, *, order="<", kind=6, stored=9, compressed=False, length=None):
    """The bytes of a MAT file of version 5 with one variable.

    `kind` is its MATLAB class (6 double, 7 single), `stored` the type of the numbers in the file (9 double, 2 uint8),
    `length` what the element claims to have instead of what it has.
    """

    def element(number, content):
        return struct.pack(f"{order}II", number, len(content)) + content + bytes(-len(content) % 8)

    body = element(6, struct.pack(f"{order}II", kind, 0))
    body += element(5, struct.pack(f"{order}{len(shape)}i", *shape)) + element(1, name.encode())
    body += element(stored, data)
    matrix = struct.pack(f"{order}II", 14, len(body) if length is None else length) + body
    if compressed:
        squeezed = zlib.compress(matrix)
        matrix = struct.pack(f"{order}II", 15, len(squeezed)) + squeezed
    version = b"\x00\x01IM" if order == "<" else b"\x01\x00MI"
    return b"MATLAB 5.0 MAT-file, Platform: MACI64".ljust(124) + version + matrix


def write_tiff(path, cube, *, tags=None, imagery=None, descriptions=None, **options):
    """A GeoTIFF; `tags` and `imagery` are lists of one dict a band."""
    rows, columns, bands = cube.shape
    size = {"width": columns, "height": rows, "count": bands, "dtype": cube.dtype.name}
    options = {"driver": "GTiff", "transform": rasterio.Affine(30, 0, 5e5, 0, -30, 4.2e6)} | size | options
    with rasterio.open(path, "w", **options) as image:
        image.write(np.ascontiguousarray(np.moveaxis(cube, 2, 0)))
        for band in range(bands):
            if tags is not None:
                image.update_tags(band + 1, **tags[band])
            if imagery is not None:
                image.update_tags(band + 1, ns="IMAGERY", **imagery[band])
            if descriptions is not None:
                image.set_band_description(band + 1, descriptions[band])


def same_grid(found, expected):
    """Whether two georeferences are one grid; rotated ones are written in degrees, so only nearly."""
    near = np.allclose(found.transform, expected.transform, rtol=1e-12, atol=1e-9)
    return near and (found.crs == expected.crs or bool(found.same_crs(expected)))
