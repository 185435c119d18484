"""Files of named arrays (npz, mat): which one is the cube, and what the others say of it.

The convention, written by `write` and understood by `read`; all but the cube may be absent:

    cube          (rows, columns, bands)
    wavelengths   one number a band, nm
    fwhm          one number a band, nm
    bad_bands     one flag a band, true for bad
    nodata        one number
    transform     the six numbers (a, b, c, d, e, f) of `Georeference`
    crs           text, WKT
    scale         one number a band; a physical value is value × scale + offset
    offset        one number a band
    names         text, a JSON list of one name a band
    tags          text, a JSON object of texts

In a file without `cube` the only array with three axes is the cube, under whatever name.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..model.files import one_line
from .axes import chosen, in_order_of_file, shape_of_cube
from .inspection import MOST_BANDS, check_array
from .raster import Georeference, Header, Stored
from .units import LARGEST_IN_MICROMETRES, in_nanometres

_LONGEST_TEXT = 1_000_000


@dataclass(frozen=True)
class Variable:
    """An array of a file, not yet read.

    `dtype` is a dtype, or the file's own word for what numpy has no dtype for; `load` returns the array, and `fill`
    fills an array of the same axes with it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype | str
    load: Callable[[], np.ndarray]
    fill: Callable[[np.ndarray], None]

    @property
    def kind(self):
        """The kind of the dtype; empty where there is none."""
        return getattr(self.dtype, "kind", "")

    @property
    def is_real(self):
        """Whether it holds real numbers of at most 64 bits, or bools."""
        return self.kind in tuple("fiub") and self.dtype.itemsize <= 8

    @property
    def content(self):
        """What it holds, in words."""
        objects = getattr(self.dtype, "hasobject", False)
        return "of Python objects, which are never loaded" if objects else str(self)

    def __str__(self):
        return f"{self.shape} {getattr(self.dtype, 'name', self.dtype)}"


def open_variables(path, variables, band_axis, wanted):
    """The cube among the variables of a file, with what the others say of it."""
    name, why = _choose(path, variables, wanted)
    variable = variables[name]
    check_array(path, variable.shape, variable.dtype, f"the variable {name}")
    axis, layout = chosen(band_axis)
    shape = shape_of_cube(variable.shape, axis)
    others = {other: found for other, found in variables.items() if other != name}
    known, notes = _described(others, shape[2])
    source = {
        "variable": name,
        "stored_shape": variable.shape,
        "band_axis": axis,
        "layout": f"the variable {name}, {why}, {layout}",
        "notes": tuple(notes),
    }
    header = Header(shape, variable.dtype.newbyteorder("="), **known, source=source)
    return Stored(header, lambda cube: variable.fill(in_order_of_file(cube, axis)))


def variables_of(raster):
    """The arrays that the convention has for a raster, by name."""
    plain = ("cube", "wavelengths", "fwhm", "bad_bands", "nodata", "scale", "offset")
    found = {name: getattr(raster, name) for name in plain}
    for name in ("names", "tags"):
        if getattr(raster, name) is not None:
            found[name] = json.dumps(getattr(raster, name))
    if raster.georeference is not None:
        found |= {"transform": raster.georeference.transform, "crs": raster.georeference.crs}
    return {name: np.asarray(value) for name, value in found.items() if value is not None}


def _choose(path, variables, wanted):
    """The name of the cube, and why it is that one."""
    if wanted is not None:
        if wanted not in variables:
            raise ValueError(f"variable: got {wanted!r}; {path} holds {_listed(variables)}")
        return wanted, "which was asked for"
    cubes = {name: variable for name, variable in variables.items() if len(variable.shape) == 3}
    if "cube" in cubes:
        return "cube", "so called"
    if not cubes:
        raise ValueError(f"{path}: holds no array with three axes, but {_listed(variables)}")
    if len(cubes) > 1:
        raise ValueError(f"{path}: holds {_listed(cubes)}; say which by variable=, or {path.name}::{next(iter(cubes))}")
    return next(iter(cubes)), "the only one with three axes"


def _listed(variables):
    return one_line(", ".join(f"{name} {variable}" for name, variable in variables.items())) or "nothing"


def _described(variables, bands):
    """Keyword arguments of a Header from the variables beside the cube, and sentences on those of no use."""
    notes = []
    sizes = {
        "wavelengths": bands,
        "fwhm": bands,
        "bad_bands": bands,
        "nodata": 1,
        "transform": 6,
        "scale": bands,
        "offset": bands,
    }
    values = {name: _numbers(variables, name, size, notes) for name, size in sizes.items()}
    wavelengths, fwhm = values["wavelengths"], values["fwhm"]
    small = wavelengths is not None and wavelengths.max() < LARGEST_IN_MICROMETRES
    wavelengths, fwhm, more = in_nanometres(wavelengths, fwhm, None if small else "nm")
    known = {"wavelengths": wavelengths, "fwhm": fwhm}
    for name in ("scale", "offset"):
        usable = (
            values[name] is not None and np.isfinite(values[name]).all() and (name != "scale" or values[name].all())
        )
        known[name] = values[name] if usable else None
        if values[name] is not None and not usable:
            notes.append(f"the variable {name} is left out: some of its numbers are of no use")
    known["names"] = _parsed(variables, "names", list, lambda names: len(names) == bands, notes)
    known["tags"] = _parsed(variables, "tags", dict, lambda tags: True, notes)
    if values["bad_bands"] is not None:
        known["bad_bands"] = values["bad_bands"] != 0.0
    if values["nodata"] is not None:
        known["nodata"] = float(values["nodata"][0])
    if values["transform"] is not None:
        known["georeference"] = _georeference(values["transform"], _text(variables, "crs", notes), notes)
    return known, notes + more


def _numbers(variables, name, size, notes):
    """A small variable as a vector of floats; None, with a note, where it is not what the convention says."""
    variable = variables.get(name)
    if variable is None:
        return None
    if variable.kind not in ("f", "i", "u", "b") or math.prod(variable.shape) != size or size > MOST_BANDS:
        notes.append(f"the variable {name}, {variable}, is left out: {size} numbers are needed")
        return None
    return variable.load().astype(np.float64).ravel()


def _text(variables, name, notes):
    variable = variables.get(name)
    if variable is None:
        return None
    size = getattr(variable.dtype, "itemsize", 0)
    if variable.kind != "U" or math.prod(variable.shape) != 1 or size > 4 * _LONGEST_TEXT:
        notes.append(f"the variable {name}, {variable}, is left out: one text is needed")
        return None
    return str(variable.load().reshape(-1)[0])


def _parsed(variables, name, kind, fits, notes):
    """What a text of JSON holds; None, with a note, where that is not what the convention says."""
    text = _text(variables, name, notes)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, kind) and fits(value):
        return value
    notes.append(f"the variable {name} is left out: JSON of a {kind.__name__} that fits the cube is needed")
    return None


def _georeference(transform, crs, notes):
    try:
        return Georeference(crs or None, tuple(transform))
    except ValueError as error:
        notes.append(f"the variable transform is left out: {error}")
        return None
