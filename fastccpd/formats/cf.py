"""A raster as variables with named dimensions and attributes, by the CF conventions: what NetCDF and Zarr hold.

The cube is a variable (band, y, x) with the coordinates x and y of the pixels' centres, `wavelength` and `fwhm` in nm,
`bad_bands` and `band_name` beside it. Its grid is in the attributes of the variable that `grid_mapping` names:
`crs_wkt`, and `GeoTransform` in GDAL's order, which also holds where a grid is turned. `_FillValue` is nodata;
`scale_factor` and `add_offset` turn stored values into physical ones, and so do the variables `band_scale` and
`band_offset` where bands differ.

What is read may come from other programs: dimensions are known by their names, never by their lengths.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..model.files import one_line
from .axes import shape_of_cube
from .inspection import MOST_BANDS, check_array
from .raster import Georeference, Header, Stored
from .units import in_nanometres

_ROWS = ("y", "row", "rows", "lat", "latitude", "northing", "line", "lines")
_COLUMNS = ("x", "col", "cols", "column", "columns", "lon", "longitude", "easting", "sample", "samples")
_BANDS = ("band", "bands", "wavelength", "wavelengths", "channel", "channels", "spectral")

# A coordinate, or a list of numbers for each band, longer than this is none that a picture has.
_LONGEST = MOST_BANDS

# Coordinates are evenly spaced to this part of a pixel.
_EVEN = 1e-3

#: The name of the cube, and of the variable that describes its grid.
CUBE, GRID = "cube", "spatial_ref"


@dataclass(frozen=True)
class Named:
    """A variable of a file: its dimensions, attributes, and how to read it; `read(slices)` gives an array."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any
    attributes: dict[str, Any]
    read: Callable[[Any], np.ndarray] | None = None
    values: Any = field(default=None, compare=False)


def variables_of(raster):
    """The variables of a raster by name, their content as `values`."""
    rows, columns, bands = raster.shape
    cube = np.moveaxis(raster.cube, 2, 0)
    about: dict[str, Any] = {"long_name": "fused image"} if raster.tags else {}
    if raster.nodata is not None:
        about["_FillValue"] = raster.dtype.type(raster.nodata)
    found = {}
    for name, values in (("scale", raster.scale), ("offset", raster.offset)):
        if values is not None and values.min() == values.max():
            about["scale_factor" if name == "scale" else "add_offset"] = float(values[0])
        elif values is not None:
            found[f"band_{name}"] = _vector(values, {})
    beside = {"wavelength": raster.wavelengths, "fwhm": raster.fwhm}
    found |= {name: _vector(values, {"units": "nm"}) for name, values in beside.items() if values is not None}
    found["band"] = _vector(np.arange(1, bands + 1), {})
    if raster.bad_bands is not None:
        found["bad_bands"] = _vector(raster.bad_bands.astype(np.uint8), {"long_name": "1 for a band without use"})
    if raster.names is not None:
        about["band_names"] = "\n".join(raster.names)
    about["coordinates"] = " ".join(name for name in ("wavelength", "fwhm") if name in found)
    if raster.georeference is not None:
        found |= _grid_variables(raster.georeference, (rows, columns))
        about["grid_mapping"] = GRID
    found[CUBE] = Named(("band", "y", "x"), cube.shape, raster.dtype, about, values=cube)
    return found


def open_variables(path, variables, band_axis, wanted, attributes, layout):
    """The cube among the variables of a file, and what the others and its attributes say of it."""
    name = _choose(path, variables, wanted)
    cube = variables[name]
    check_array(path, cube.shape, cube.dtype, f"the variable {name}")
    axis, swapped = _axes(path, name, cube.dims, band_axis)
    notes = []
    shape = shape_of_cube(cube.shape, axis)
    shape = (shape[1], shape[0], shape[2]) if swapped else shape
    known = _described(variables, cube, cube.dims[axis], shape, notes)
    known["georeference"] = _georeference(variables, cube, shape, notes)
    known["tags"] = {key: str(value) for key, value in attributes.items() if key.startswith("FASTCCPD_")}
    source = {
        "variable": name,
        "stored_shape": cube.shape,
        "band_axis": axis,
        "layout": f"the variable {name}, stored as ({', '.join(cube.dims)}), {layout}",
        "notes": tuple(notes),
    }

    def window(rows, cols):
        slices = [cols, rows] if swapped else [rows, cols]
        slices.insert(axis, slice(None))
        part = np.moveaxis(cube.read(tuple(slices)), axis, 2)
        part = part.transpose(1, 0, 2) if swapped else part
        return np.ascontiguousarray(part, np.dtype(cube.dtype).newbyteorder("="))

    def load(array):
        step = max(1, (1 << 26) // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):
            rows = slice(start, min(start + step, len(array)))
            array[rows] = window(rows, slice(0, array.shape[1]))

    header = Header(shape, np.dtype(cube.dtype).newbyteorder("="), **known, source=source)
    return Stored(header, load, window)


def _vector(values, attributes):
    values = np.asarray(values)
    return Named(("band",), values.shape, values.dtype, attributes, values=values)


def _grid_variables(georeference, shape):
    a, b, c, d, e, f = georeference.transform
    numbers = " ".join(repr(value) for value in (c, a, b, f, d, e))
    about = {"GeoTransform": numbers} | ({} if georeference.crs is None else {"crs_wkt": georeference.crs})
    found = {GRID: Named((), (), np.dtype(np.int32), about, values=np.int32(0))}
    if b == d == 0.0:
        for name, first, step, size in (("x", c, a, shape[1]), ("y", f, e, shape[0])):
            values = first + step * (np.arange(size) + 0.5)
            found[name] = Named((name,), values.shape, values.dtype, {"axis": name.upper()}, values=values)
    return found


def _choose(path, variables, wanted):
    if wanted is not None:
        if wanted not in variables:
            raise ValueError(f"variable: got {wanted!r}; {path} holds {_listed(variables)}")
        return wanted
    cubes = {name: found for name, found in variables.items() if len(found.shape) == 3}
    if CUBE in cubes:
        return CUBE
    if len(cubes) != 1:
        what = (
            f"holds {_listed(cubes)}; say which by {path.name}::NAME" if cubes else "holds no variable with three axes"
        )
        raise ValueError(f"{path}: {what}")
    return next(iter(cubes))


def _listed(variables):
    return one_line(", ".join(f"{name} {found.shape}" for name, found in variables.items())) or "nothing"


def _axes(path, name, dims, band_axis):
    """Which axis holds the bands, and whether columns come before rows."""
    lower = [str(dim).lower() for dim in dims]
    roles = [next((n for n, names in enumerate((_ROWS, _COLUMNS, _BANDS)) if dim in names), None) for dim in lower]
    if sorted(role for role in roles if role is not None) == [0, 1, 2]:
        axis = roles.index(2)
        if band_axis not in (None, axis):
            raise ValueError(f"band_axis: got {band_axis}, but {path} names its axes {', '.join(dims)}; leave it out")
        return axis, roles.index(1) < roles.index(0)
    if band_axis is None:
        raise ValueError(
            f"{path}: the axes of {name} are called {one_line(', '.join(dims))}, which does not say where the bands "
            "are; --band-axis is needed"
        )
    return band_axis, False


def _described(variables, cube, band, shape, notes):
    bands = shape[2]
    about, known = cube.attributes, {}
    centres = next((variables[n] for n in ("wavelength", "wavelengths", band) if n in variables), None)
    if centres is not None and centres is variables.get(band) and band.lower() not in ("wavelength", "wavelengths"):
        centres = None
    wavelengths, fwhm = (_numbers(found, bands) for found in (centres, variables.get("fwhm")))
    unit = None if centres is None else _text(centres.attributes.get("units"))
    known["wavelengths"], known["fwhm"], more = in_nanometres(wavelengths, fwhm, unit)
    notes += more
    bad = _numbers(variables.get("bad_bands"), bands)
    known["bad_bands"] = None if bad is None else bad != 0.0
    nodata = (_number(about, name, notes) for name in ("_FillValue", "missing_value"))
    known["nodata"] = next((value for value in nodata if value is not None), None)
    for name, attribute in (("scale", "scale_factor"), ("offset", "add_offset")):
        value, by_band = _number(about, attribute, notes), _numbers(variables.get(f"band_{name}"), bands)
        usable = value is not None and math.isfinite(value) and (name != "scale" or value != 0.0)
        known[name] = value if usable else by_band
        if value is not None and not usable:
            notes.append(f"the attribute {attribute} is left out: {value} is of no use")
    names = _text(about.get("band_names"))
    names = None if names is None else names.split("\n")
    known["names"] = names if names is not None and len(names) == bands else None
    return known


def _number(attributes, name, notes):
    """An attribute that is one number; None, with a note where it is something else."""
    if name not in attributes:
        return None
    try:
        return float(np.asarray(attributes[name]).reshape(()))
    except (TypeError, ValueError):
        notes.append(f"the attribute {name} is left out: one number is needed")
        return None


def _numbers(found, size):
    """The values of a variable that has one number for each of so many; None where it has not."""
    if found is None or found.shape != (size,) or size > _LONGEST or np.dtype(found.dtype).kind not in "fiub":
        return None
    return np.asarray(found.read((slice(None),)), np.float64)


def _text(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def _georeference(variables, cube, shape, notes):
    name = _text(cube.attributes.get("grid_mapping")) or GRID
    about = variables[name].attributes if name in variables else {}
    crs = _text(about.get("crs_wkt")) or _text(about.get("spatial_ref"))
    transform = _geotransform(_text(about.get("GeoTransform")))
    if transform is None:
        transform = _by_coordinates(variables, cube, shape, notes)
    if transform is None:
        return None
    try:
        return Georeference(crs, transform)
    except ValueError as error:
        notes.append(f"the grid is left out: {error}")
        return None


def _geotransform(text):
    """The six numbers of GDAL's order in ours."""
    try:
        c, a, b, f, d, e = (float(number) for number in (text or "").split())
    except ValueError:
        return None
    return a, b, c, d, e, f


def _by_coordinates(variables, cube, shape, notes):
    found = {}
    for role, names, size in (("y", _ROWS, shape[0]), ("x", _COLUMNS, shape[1])):
        dim = next((dim for dim in cube.dims if str(dim).lower() in names), None)
        values = _numbers(variables.get(dim), size)
        if values is None or size < 2:
            return None
        step = (values[-1] - values[0]) / (size - 1)
        even = values[0] + step * np.arange(size)
        if not (math.isfinite(step) and step and np.abs(values - even).max() <= _EVEN * abs(step)):
            notes.append(f"the grid is left out: the coordinates {dim} are not evenly spaced")
            return None
        found[role] = values[0] - step / 2, step
    (c, a), (f, e) = found["x"], found["y"]
    return a, 0.0, c, 0.0, e, f
