"""PRISMA: a file `PRS_….he5`, which is HDF5; levels 2C and 2D, by h5py.

VNIR_Cube and SWIR_Cube under HDFEOS/SWATHS/PRS_…_HCO/Data Fields are (rows, bands, columns), bands from long to short
wavelengths, some of them unused, which have the centre 0. They come as one cube, each detector from short to long, VNIR
first: where the two overlap, wavelengths go back. Reflectance is min + count (max − min) / 65535, with L2Scale…Min and
…Max of each detector; a count of 0 is what surrounds the swath, and is taken as nodata.

Level 2D has a regular grid: the corners in its attributes are centres of pixels. Others have none.
"""

import math

import numpy as np

from .axes import declared
from .extras import needed, rasterio_or_none
from .hdf5 import check_closed, check_dataset, read_part
from .inspection import beginning, check_array, expect, reading
from .raster import Georeference, Header, Stored

_KIND = "a PRISMA file"
_LARGEST_COUNT = 65535
_LONGEST_LIST = 10_000


def open_prisma(path, band_axis):
    """Both detectors of a PRISMA product as one cube."""
    head, _ = beginning(path)
    expect(path, head, "an HDF5 file")
    h5py = needed("h5py", f"{path}: PRISMA")
    check_closed(path, _KIND)
    with reading(path, _KIND), h5py.File(path, "r") as file:
        fields = _fields(h5py, file)
        detectors = [_detector(file, fields, name) for name in ("Vnir", "Swir")]
        rows, columns = detectors[0]["shape"]
        if detectors[1]["shape"] != (rows, columns):
            raise ValueError(f"{detectors[0]['shape']} pixels of VNIR, but {detectors[1]['shape']} of SWIR")
        notes = []
        grid = _georeference(file.attrs, fields, (rows, columns), notes)
    bands = sum(len(detector["bands"]) for detector in detectors)
    dtype = detectors[0]["dtype"]
    if detectors[1]["dtype"] != dtype:
        raise ValueError(f"{path}: VNIR is {dtype} but SWIR {detectors[1]['dtype']}; one dtype is needed")
    check_array(path, (rows, columns, bands), dtype, "the product")

    def window(part_rows, part_cols):
        pieces = []
        with reading(path, _KIND), h5py.File(path, "r") as file:
            for detector in detectors:
                piece = read_part(file[detector["name"]], (part_rows, slice(None), part_cols), detector["name"])
                pieces.append(piece[:, detector["bands"], :].transpose(0, 2, 1))
        return np.ascontiguousarray(np.concatenate(pieces, axis=2))

    def load(cube):
        step = max(1, (1 << 26) // max(1, cube[:1].nbytes))
        for start in range(0, rows, step):
            stretch = slice(start, min(start + step, rows))
            cube[stretch] = window(stretch, slice(0, columns))

    known = {
        name: np.concatenate([detector[name] for detector in detectors])
        for name in ("wavelengths", "fwhm", "scale", "offset")
    }
    if not (known["fwhm"] > 0.0).all():
        known["fwhm"] = None
    notes.append("counts of 0 are taken as nodata, which the product does not declare")
    source = {
        "stored_shape": (rows, bands, columns),
        "band_axis": 1,
        "layout": declared(path, 1, "format", band_axis),
        "sensor": "PRISMA",
        "notes": tuple(notes),
    }
    return Stored(
        Header((rows, columns, bands), dtype, **known, nodata=0.0, georeference=grid, source=source), load, window
    )


def _fields(h5py, file):
    """The path of the folder of the hyperspectral cubes."""
    swaths = file.get("HDFEOS/SWATHS")
    names = [name for name in (swaths or ()) if name.startswith("PRS_") and name.endswith("_HCO")]
    if not isinstance(swaths, h5py.Group) or len(names) != 1:
        raise ValueError("no swath HDFEOS/SWATHS/PRS_…_HCO")
    if names[0].startswith("PRS_L1"):
        raise ValueError("level 1, whose detectors are not co-registered; level 2C or 2D is needed")
    return f"HDFEOS/SWATHS/{names[0]}/Data Fields"


def _detector(file, fields, name):
    """What is needed of one detector: its dataset, its used bands from short to long, and their description."""
    path = f"{fields}/{name.upper()}_Cube"
    cube = file[path]
    check_dataset(cube, path)
    if len(cube.shape) != 3:
        raise ValueError(f"{path} has shape {cube.shape}; (rows, bands, columns) is needed")
    centres, widths = (_numbers(file.attrs, f"List_{what}_{name}", cube.shape[1]) for what in ("Cw", "Fwhm"))
    bands = np.flatnonzero(centres > 0.0)
    bands = bands[np.argsort(centres[bands], kind="stable")]
    low, high = (float(np.ravel(file.attrs[f"L2Scale{name}{end}"])[0]) for end in ("Min", "Max"))
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        raise ValueError(f"the scale of {name} from {low} to {high}")
    return {
        "name": path,
        "bands": bands,
        "shape": (cube.shape[0], cube.shape[2]),
        "dtype": cube.dtype.newbyteorder("="),
        "wavelengths": centres[bands],
        "fwhm": widths[bands],
        "scale": np.full(len(bands), (high - low) / _LARGEST_COUNT),
        "offset": np.full(len(bands), low),
    }


def _numbers(attributes, name, size):
    values = np.ravel(attributes[name])
    if values.dtype.kind not in "fiu" or len(values) > _LONGEST_LIST or len(values) != size:
        raise ValueError(f"{name} has {len(values)} values of {values.dtype} for {size} bands")
    return values.astype(float)


def _georeference(attributes, fields, shape, notes):
    """The grid of level 2D; None, with a note, for other levels."""
    names = ("UL", "LR")
    keys = [f"Product_{corner}corner_{axis}" for corner in names for axis in ("easting", "northing")]
    if "L2D" not in fields or any(key not in attributes for key in keys) or min(shape) < 2:
        notes.append("it has no regular grid, which level 2D has")
        return None
    left, top, right, bottom = (float(np.ravel(attributes[key])[0]) for key in keys)
    wide, high = (right - left) / (shape[1] - 1), (bottom - top) / (shape[0] - 1)
    rasterio, crs = rasterio_or_none(), None
    code = int(np.ravel(attributes.get("Epsg_Code", 0))[0])
    if rasterio is not None and code:
        with rasterio.Env():
            try:
                crs = rasterio.CRS.from_epsg(code).to_wkt()
            except ValueError:
                notes.append(f"its coordinate system, EPSG {code}, is not known")
    return Georeference(crs, (wide, 0.0, left - wide / 2, 0.0, high, top - high / 2))
