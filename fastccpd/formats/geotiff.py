"""GeoTIFF, by rasterio.

Wavelengths are in the tags of the bands: `wavelength`, `fwhm` with `wavelength_units`, and `bbl` as in ENVI, and in
GDAL's IMAGERY domain as CENTRAL_WAVELENGTH_UM and FWHM_UM. Both are written; read are the plain tags where they have a
unit, for they are exact, then the IMAGERY domain, then plain tags without a unit.
"""

import logging
import math
import warnings
from contextlib import contextmanager

import numpy as np

from .axes import declared, in_order_of_file
from .extras import needed
from .inspection import beginning, check_array, expect, reading
from .raster import REAL_DTYPES, Georeference, Header, Stored, can_hold
from .silence import NO_FAILED_LOGS, NO_LINES_OF_LIBTIFF
from .units import in_nanometres

DTYPES = REAL_DTYPES - {"float16"}

_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
_TILE = 256

# A block of this many bands is gathered at a time: with one, every cache line of the cube would be fetched once a band.
_BANDS_AT_ONCE = 16


def open_geotiff(path, band_axis):
    """The bands of a GeoTIFF file."""
    head, size = beginning(path)
    expect(path, head, "a TIFF file")
    rasterio = needed("rasterio", f"{path}: GeoTIFF")
    with _opened(rasterio, path) as image:
        shape, dtypes = (image.height, image.width, image.count), set(image.dtypes)
        pages, plain = len(image.subdatasets), image.compression is None
        axis, by = (2, "pixel interleave") if image.profile.get("interleave") == "pixel" else (0, "band interleave")
        known, notes = _described(rasterio, image)
    if pages > 1:
        raise ValueError(f"{path}: holds {pages} pages; one image that has all the bands is needed")
    layout = declared(path, axis, by, band_axis)
    dtype = np.dtype(dtypes.pop()) if len(dtypes) == 1 else "of several dtypes"
    check_array(path, shape, dtype, "the image")
    if plain and size < math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{path}: has {size} bytes but declares {math.prod(shape) * dtype.itemsize}; it is truncated")

    def load(cube):
        with _opened(rasterio, path) as image:
            for rows, bands, window in _blocks(rasterio, image):
                in_order_of_file(cube[rows, :, bands], 0)[...] = image.read(_numbers(bands), window=window)

    stored_shape = shape if axis == 2 else (shape[2], *shape[:2])
    source = {"stored_shape": stored_shape, "band_axis": axis, "layout": layout, "notes": tuple(notes)}
    return Stored(Header(shape, dtype, **known, source=source), load)


def write_geotiff(temporaries, raster):
    """Tiles of one band each, deflated; then read again, for a disk that fills up as the file is closed goes unsaid."""
    rasterio = needed("rasterio", "writing GeoTIFF")
    path = temporaries[0].absolute()
    # Without the .aux.xml that GDAL may write beside a file, and that would keep its temporary name.
    with _quiet(rasterio), NO_LINES_OF_LIBTIFF, rasterio.Env(GDAL_PAM_ENABLED=False):
        with rasterio.open(path, "w", **_profile(rasterio, raster)) as image:
            for rows, bands, window in _blocks(rasterio, image):
                block = in_order_of_file(raster.cube[rows, :, bands], 0)
                image.write(np.ascontiguousarray(block), _numbers(bands), window=window)
            _write_tags(image, raster)
        with rasterio.open(path, driver="GTiff") as image:
            for rows, bands, window in _blocks(rasterio, image):
                block = in_order_of_file(raster.cube[rows, :, bands], 0)
                if image.read(_numbers(bands), window=window).tobytes() != block.tobytes():
                    raise OSError("what was written does not read back")


def auxiliary(file):
    """What GDAL keeps beside a file of any format, and prefers to what the file itself says."""
    return file.with_name(file.name + ".aux.xml")


def names_beside(path):
    """What GDAL may read together with a file: its own notes, masks, overviews, world files."""
    named = [path.with_name(path.name + end) for end in (".msk", ".ovr")]
    worlds = [path.with_suffix(end) for end in (".tfw", ".tifw", ".tiffw", ".wld")]
    return [auxiliary(path), *named, *worlds]


def lost_by_geotiff(raster):
    """A nodata that no pixel of the dtype can have, and a grid that says nothing."""
    lost = []
    if raster.nodata is not None and _nodata(raster) is None:
        lost.append("nodata")
    georeference = raster.georeference
    if georeference is not None and georeference.crs is None and georeference.transform == _IDENTITY:
        lost.append("georeference")
    return tuple(lost)


@contextmanager
def _quiet(rasterio):
    """Yields GDAL's log of warnings; rasterio's word that a file has no georeference is no news."""

    class Collector(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())

    messages, log, collector = [], logging.getLogger("rasterio"), Collector(logging.WARNING)
    log.addHandler(collector)
    try:
        with NO_FAILED_LOGS, warnings.catch_warnings():
            warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
            yield messages
    finally:
        log.removeHandler(collector)


@contextmanager
def _opened(rasterio, path):
    """A GeoTIFF file, and no other kind: some of GDAL's formats lead to further files, or to the network."""
    with (
        reading(path, "a GeoTIFF file"),
        _quiet(rasterio) as messages,
        rasterio.open(path.absolute(), driver="GTiff") as image,
    ):
        # GDAL passes over tags that lie beyond the end of a truncated file.
        damage = [message for message in messages if "IO error" in message]
        if damage:
            raise ValueError(damage[0])
        yield image


def _blocks(rasterio, image):
    """Rows, bands and window of blocks that cover an image and need each of its tiles once."""
    height = image.block_shapes[0][0]
    height *= max(1, _TILE // height)
    together = image.count if image.profile.get("interleave") == "pixel" else _BANDS_AT_ONCE
    for row in range(0, image.height, height):
        rows = slice(row, min(row + height, image.height))
        window = rasterio.windows.Window(0, row, image.width, rows.stop - row)
        for band in range(0, image.count, together):
            yield rows, slice(band, min(band + together, image.count)), window


def _numbers(bands):
    """The numbers of some bands as GDAL counts them."""
    return list(range(bands.start + 1, bands.stop + 1))


def _described(rasterio, image):
    """Keyword arguments of a Header, and sentences on what was assumed or left out."""
    notes = []
    known = {"nodata": image.nodata, "georeference": _georeference(image, notes)}
    tags = [{name.lower(): value for name, value in image.tags(band).items()} for band in image.indexes]
    known["wavelengths"], known["fwhm"] = _wavelengths(image, tags, notes)
    bbl = _every(tags, "bbl", notes)
    known["bad_bands"] = None if bbl is None else bbl == 0.0
    if set(image.scales) != {1.0} or set(image.offsets) != {0.0}:
        notes.append("the values are as stored, though the file has a scale or an offset")
    flags = {flag for band in image.mask_flag_enums for flag in band}
    if flags & {rasterio.enums.MaskFlags.per_dataset, rasterio.enums.MaskFlags.alpha}:
        notes.append("the file has a mask, which is left out: only nodata marks missing pixels")
    return known, notes


def _georeference(image, notes):
    transform = tuple(image.transform)[:6]
    if transform == _IDENTITY and image.crs is None:
        if image.gcps[0]:
            notes.append("the ground control points are left out: a regular grid is needed")
        return None
    return Georeference(image.crs.to_wkt() if image.crs else None, transform)


def _wavelengths(image, tags, notes):
    """Centres and widths of the bands in nm."""
    units = {tag.get("wavelength_units", tag.get("wavelength_unit")) for tag in tags}
    unit = units.pop() if len(units) == 1 else "different from band to band"
    domain = [image.tags(band, ns="IMAGERY") for band in image.indexes]
    names = ("wavelength", "fwhm")
    if unit is None and any("CENTRAL_WAVELENGTH_UM" in tag for tag in domain):
        tags, names, unit = domain, ("CENTRAL_WAVELENGTH_UM", "FWHM_UM"), "um"
    wavelengths, fwhm, more = in_nanometres(*(_every(tags, name, notes) for name in names), unit)
    notes += more
    return wavelengths, fwhm


def _every(tags, name, notes):
    """A number that each band has as a tag; None, with a note, where some have none."""
    found = [tag[name] for tag in tags if name in tag]
    if not found:
        return None
    try:
        values = np.array([float(value) for value in found])
    except ValueError:
        values = np.empty(0)
    if len(values) == len(tags):
        return values
    notes.append(f"the tag {name} is left out: only {len(values)} of {len(tags)} bands have it as a number")
    return None


def _profile(rasterio, raster):
    rows, columns, bands = raster.shape
    profile = {
        "driver": "GTiff",
        "height": rows,
        "width": columns,
        "count": bands,
        "dtype": raster.dtype.name,
        "tiled": True,
        "blockxsize": _TILE,
        "blockysize": _TILE,
        "interleave": "band",
        "BIGTIFF": "IF_SAFER",
        "compress": "deflate",
        "predictor": 3 if raster.dtype.kind == "f" else 2,
        "nodata": _nodata(raster),
    }
    if raster.georeference is not None:
        profile["transform"] = rasterio.Affine(*raster.georeference.transform)
        if raster.georeference.crs is not None:
            profile["crs"] = rasterio.CRS.from_wkt(raster.georeference.crs)
    return profile


def _nodata(raster):
    """The nodata that the file can declare, or None."""
    value = raster.nodata
    holds = value is not None and not math.isinf(value) and can_hold(raster.dtype, value)
    return value if holds else None


def _write_tags(image, raster):
    for band in range(raster.shape[2]):
        plain, imagery = {}, {}
        for values, name, domain in (
            (raster.wavelengths, "wavelength", "CENTRAL_WAVELENGTH_UM"),
            (raster.fwhm, "fwhm", "FWHM_UM"),
        ):
            if values is not None:
                plain |= {name: repr(float(values[band])), "wavelength_units": "Nanometers"}
                imagery[domain] = f"{values[band] / 1e3:.9g}"
        if raster.bad_bands is not None:
            plain["bbl"] = str(int(not raster.bad_bands[band]))
        if plain:
            image.update_tags(band + 1, **plain)
        if imagery:
            image.update_tags(band + 1, ns="IMAGERY", **imagery)
