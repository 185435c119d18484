"""ENVI: raw numbers in one file, and a header of text beside it, which the package spectral parses.

The header `scene.hdr` or `scene.img.hdr` belongs to the data `scene.img` (or .dat, .raw, .bsq, .bil, .bip, or `scene`);
either may be named. Its axes follow from the interleave: bsq is (bands, rows, columns), bil (rows, bands, columns), bip
(rows, columns, bands).
"""

import math
import sys
import warnings
from urllib.parse import quote, unquote

import numpy as np

from ..model.files import one_line
from .axes import declared, fill, in_order_of_file, mapped_window, pour, shape_of_cube
from .extras import needed
from .inspection import beginning, check_array, check_length, check_text, expect, reading
from .map_info import esri_text, floats_of, georeference_of, map_info_of
from .raster import REAL_DTYPES, Header, Stored
from .units import centres_in, in_nanometres, plain_names

HEADER = ".hdr"
DATA_SUFFIXES = (".img", ".dat", ".bsq", ".bil", ".bip", ".raw")
DTYPES = REAL_DTYPES - {"float16", "int8"}

_BAND_AXES = {"bsq": 0, "bil": 1, "bip": 2}
_LARGEST_HEADER = 1 << 24
# The time that the parser takes grows with the square of the lines.
_MOST_LINES = 50_000

# How the tags of a raster begin in the header, where every program keeps its own fields.
_TAG = "fastccpd "

# What need not be quoted in them; braces, commas and signs of equality have meanings of their own.
_SAFE = " \"[]():;/+-_.'"


def header_of(path):
    """The header beside a data file, or None."""
    return next((file for file in _headers_beside(path) if file != path and file.is_file()), None)


def names_beside(path):
    """Every name under which `open_envi` would look for the other file of the pair."""
    if path.suffix.lower() == HEADER:
        return [path.with_name(name) for name in _data_names(path)]
    return _headers_beside(path)


def open_envi(path, band_axis):
    """The cube that a header and its data file hold; `path` is either."""
    header, data = _pair(path)
    text = _parse(header)
    sizes, dtype, offset = _numbers_of(header, text)
    interleave = str(text["interleave"]).lower()
    if interleave not in _BAND_AXES:
        raise ValueError(f"{header}: got the interleave {one_line(interleave)!r}; bsq, bil or bip is needed")
    axis = _BAND_AXES[interleave]
    layout = declared(header, axis, f"interleave {interleave}", band_axis)
    stored_shape = list(sizes[:2])
    stored_shape.insert(axis, sizes[2])
    check_array(header, stored_shape, dtype, "the image")
    _, size = beginning(data)
    check_length(data, offset + math.prod(sizes) * dtype.itemsize, size)
    known, notes = _described(header, data, text, sizes[2])
    source = {
        "path": str(data),
        "header_path": str(header),
        "stored_shape": tuple(stored_shape),
        "band_axis": axis,
        "layout": layout,
        "notes": tuple(notes),
    }

    def load(cube):
        with open(data, "rb") as file, reading(data, "ENVI data"):
            file.seek(offset)
            fill(in_order_of_file(cube, axis), file, dtype)

    def window(rows, cols):
        with reading(data, "ENVI data"):
            return mapped_window(data, dtype, offset, tuple(stored_shape), axis, rows, cols)

    shape = shape_of_cube(stored_shape, axis)
    return Stored(Header(shape, dtype.newbyteorder("="), **known, source=source), load, window)


def files(path):
    """The data file and the header that an output is: those of the pair that is there, if there is one."""
    if path.suffix.lower() != HEADER:
        return path, header_of(path) or path.with_suffix(HEADER)
    there, bare = _data_beside(path), path.with_suffix("")
    if path.is_file() and len(there) == 1:
        return there[0], path
    return bare if bare.suffix.lower() in DATA_SUFFIXES else path.with_suffix(".img"), path


def write_envi(temporaries, raster):
    """The data in the interleave that their suffix names, bsq where it names none, then the header."""
    envi = needed("spectral.io.envi", "writing ENVI")
    data, header = temporaries
    suffix = data.suffix.lower().removeprefix(".")
    interleave = suffix if suffix in _BAND_AXES else "bsq"
    with open(data, "xb") as file:
        pour(in_order_of_file(raster.cube, _BAND_AXES[interleave]), file)
    envi.write_envi_header(str(header), _text_of(raster, interleave, envi))


def lost_by_envi(raster):
    """Not every grid has a map info."""
    georeference = raster.georeference
    return () if georeference is None or map_info_of(georeference) is not None else ("georeference",)


def _pair(path):
    """The header and the data of which one is named."""
    beginning(path)
    if path.suffix.lower() != HEADER:
        header = header_of(path)
        if header is None:
            raise FileNotFoundError(f"{path}: there is no ENVI header {path.stem}{HEADER} beside it")
        return header, path
    data = _data_beside(path)
    if not data:
        raise FileNotFoundError(f"{path}: there are no data beside this header, such as {path.stem}.img")
    if len(data) > 1:
        names = ", ".join(file.name for file in data)
        raise ValueError(f"{path}: {names} are beside this header; name the one that is meant")
    return path, data[0]


def _headers_beside(data):
    """The headers that may belong to a data file, the likeliest first."""
    named = [data.with_name(data.name + HEADER), data.with_suffix(HEADER)]
    return named + [file.with_suffix(HEADER.upper()) for file in named]


def _data_beside(header):
    """The data files that may belong to a header, those that exist."""
    names, folder = _data_names(header), header.parent
    return sorted(file for file in folder.iterdir() if file.name in names and file.is_file()) if folder.is_dir() else []


def _data_names(header):
    ends = ("", *DATA_SUFFIXES, *(end.upper() for end in DATA_SUFFIXES))
    return [header.stem + end for end in ends]


def _parse(header):
    """The fields of a header by name, in lower case."""
    head, _ = beginning(header)
    expect(header, head, "an ENVI header")
    check_text(header, "a header of text", _LARGEST_HEADER, _MOST_LINES)
    envi = needed("spectral.io.envi", f"{header}: ENVI")
    with reading(header, "an ENVI header"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parameters with non-lowercase names", UserWarning)
        text = envi.read_envi_header(str(header))
        envi.check_compatibility(text)
    return text


def _numbers_of(header, text):
    """(rows, columns, bands), dtype and offset of the data."""
    envi = needed("spectral.io.envi", f"{header}: ENVI")
    if str(text.get("file type", "")).lower() == "envi spectral library" or _whole(header, text, "file compression", 0):
        raise ValueError(f"{header}: describes a spectral library or compressed data; a plain image is needed")
    kinds = dict(envi.dtype_map)
    code = str(text["data type"]).strip()
    if code not in kinds:
        raise ValueError(f"{header}: got the data type {one_line(code)}; one of {', '.join(kinds)} is needed")
    big = _whole(header, text, "byte order")
    if big not in (0, 1):
        raise ValueError(f"{header}: got the byte order {big}; 0 or 1 is needed")
    sizes = tuple(_whole(header, text, name) for name in ("lines", "samples", "bands"))
    dtype = np.dtype(kinds[code]).newbyteorder(">" if big else "<")
    return sizes, dtype, _whole(header, text, "header offset", 0)


def _whole(header, text, name, default=None):
    value = text.get(name, default)
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ValueError(f"{header}: got {name} = {one_line(value)}; a whole number of at least 0 is needed")
    return number


def _described(header, data, text, bands):
    """Keyword arguments of a Header from the fields of the text, and sentences on what was assumed or left out."""
    wavelengths, fwhm, bbl = (_list(header, text, name, bands) for name in ("wavelength", "fwhm", "bbl"))
    wavelengths, fwhm, notes = in_nanometres(wavelengths, fwhm, text.get("wavelength units"))
    known = {"wavelengths": wavelengths, "fwhm": fwhm, "bad_bands": None if bbl is None else bbl == 0.0}
    if "data ignore value" in text:
        known["nodata"] = floats_of(header, "data ignore value", [text["data ignore value"]])[0]
    if "map info" in text:
        known["georeference"] = georeference_of(header, data, text, notes)
    known["scale"], known["offset"] = _scaling(header, text, bands)
    names = text.get("band names")
    if isinstance(names, list) and len(names) == bands:
        known["names"] = plain_names(names)
        known["wavelengths"] = centres_in(names) if wavelengths is None else wavelengths
    tags = {name.upper().replace(" ", "_"): value for name, value in text.items() if name.startswith(_TAG)}
    known["tags"] = {name: unquote(value) for name, value in tags.items() if isinstance(value, str)}
    return known, notes


def _scaling(header, text, bands):
    """Scale and offset of each band; values are to be divided by the reflectance scale factor."""
    gain, offset = (_list(header, text, f"data {name} values", bands) for name in ("gain", "offset"))
    factor = text.get("reflectance scale factor")
    if factor is None or gain is not None:
        return gain, offset
    divisor = floats_of(header, "reflectance scale factor", [factor])[0]
    if not divisor:
        raise ValueError(f"{header}: got the reflectance scale factor 0; another number is needed")
    return 1.0 / divisor, offset


def _list(header, text, name, bands):
    if name not in text:
        return None
    values = text[name] if isinstance(text[name], list) else [text[name]]
    values = floats_of(header, name, values)
    if len(values) != bands:
        raise ValueError(f"{header}: got {len(values)} values of {name} for {bands} bands; they must agree")
    return values


def _text_of(raster, interleave, envi):
    """The fields of the header of a raster."""
    rows, columns, bands = raster.shape
    codes = {np.dtype(kind): code for code, kind in envi.dtype_map}
    text = {
        "samples": columns,
        "lines": rows,
        "bands": bands,
        "header offset": 0,
        "file type": "ENVI Standard",
        "data type": codes[raster.dtype],
        "interleave": interleave,
        "byte order": int(sys.byteorder == "big"),
    }
    if raster.wavelengths is not None or raster.fwhm is not None:
        text["wavelength units"] = "Nanometers"
    for name, values in (("wavelength", raster.wavelengths), ("fwhm", raster.fwhm)):
        if values is not None:
            text[name] = [repr(float(value)) for value in values]
    if raster.bad_bands is not None:
        text["bbl"] = [int(not bad) for bad in raster.bad_bands]
    if raster.nodata is not None:
        text["data ignore value"] = repr(raster.nodata)
    for name, values in (("data gain values", raster.scale), ("data offset values", raster.offset)):
        if values is not None:
            text[name] = [repr(float(value)) for value in values]
    if raster.names is not None:
        text["band names"] = [_plain(name) for name in raster.names]
    for name, value in (raster.tags or {}).items():
        text[name.lower().replace("_", " ")] = quote(value, safe=_SAFE)
    info = None if raster.georeference is None else map_info_of(raster.georeference)
    if info is not None:
        text["map info"] = info
        if raster.georeference.crs is not None:
            text["coordinate system string"] = f"{{{esri_text(raster.georeference.crs)}}}"
    return text


def _plain(text):
    """A text without what would end a field or begin another."""
    return " ".join(text.translate(str.maketrans("{}=\n\r", "()~  ")).split()).replace(",", ";")
