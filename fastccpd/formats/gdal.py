"""What GDAL reads, by rasterio: the header of one file, its bands a block or a window at a time.

Wavelengths are in the tags of the bands: `wavelength`, `fwhm` with `wavelength_units`, and `bbl` as in ENVI; in GDAL's
IMAGERY domain as CENTRAL_WAVELENGTH_UM and FWHM_UM; or in the description, "band 1 (0.42 Micrometers)". Read are the
plain tags where they have a unit, for they are exact, then the IMAGERY domain, plain tags without a unit, and
descriptions.

A driver is always named: some of GDAL's formats lead to further files, or to the network.
"""

import logging
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np

from .inspection import reading
from .raster import Georeference
from .silence import NO_FAILED_LOGS, NO_LINES_OF_LIBGEOTIFF
from .units import centres_in, in_nanometres, plain_names

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
TILE = 256

# A block of this many bands is gathered at a time: with one, every cache line of the cube would be fetched once a band.
_BANDS_AT_ONCE = 16


@contextmanager
def quiet(rasterio):
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
def opened(rasterio, path, driver, kind, name=None):
    """A file of one driver, and of no other; `name` is what GDAL is to open where that is not the path itself."""
    with (
        reading(path, kind),
        NO_LINES_OF_LIBGEOTIFF if driver == "JP2OpenJPEG" else nullcontext(),
        quiet(rasterio) as messages,
        rasterio.open(path.absolute() if name is None else name, driver=driver) as image,
    ):
        # GDAL passes over tags that lie beyond the end of a truncated file.
        damage = [message for message in messages if "IO error" in message]
        if damage:
            raise ValueError(damage[0])
        yield image


def blocks(rasterio, image):
    """Rows, bands and window of blocks that cover an image and need each of its tiles once."""
    height = image.block_shapes[0][0]
    height *= max(1, TILE // height)
    together = image.count if image.profile.get("interleave") == "pixel" else _BANDS_AT_ONCE
    for row in range(0, image.height, height):
        rows = slice(row, min(row + height, image.height))
        window = rasterio.windows.Window(0, row, image.width, rows.stop - row)
        for band in range(0, image.count, together):
            yield rows, slice(band, min(band + together, image.count)), window


def numbers(bands):
    """The numbers of some bands as GDAL counts them."""
    return list(range(bands.start + 1, bands.stop + 1))


def window_of(rasterio, rows, cols):
    """Two slices, both with start and stop, as rasterio has them."""
    return rasterio.windows.Window(cols.start, rows.start, cols.stop - cols.start, rows.stop - rows.start)


def read_window(rasterio, image, rows, cols):
    """All bands of a window, (rows, columns, bands) and contiguous."""
    return np.ascontiguousarray(np.moveaxis(image.read(window=window_of(rasterio, rows, cols)), 0, 2))


def described(rasterio, image):
    """Keyword arguments of a Header, and sentences on what was assumed or left out."""
    notes = []
    known = {"nodata": image.nodata, "georeference": georeference(image, notes)}
    tags = [{name.lower(): value for name, value in image.tags(band).items()} for band in image.indexes]
    known["wavelengths"], known["fwhm"] = _wavelengths(image, tags, notes)
    known["names"] = plain_names(image.descriptions)
    bbl = _every(tags, "bbl", notes)
    known["bad_bands"] = None if bbl is None else bbl == 0.0
    known["scale"], known["offset"] = _scaling(image, notes)
    known["tags"] = {key: value for key, value in image.tags().items() if key.startswith("FASTCCPD_")}
    flags = {flag for band in image.mask_flag_enums for flag in band}
    if flags & {rasterio.enums.MaskFlags.per_dataset, rasterio.enums.MaskFlags.alpha}:
        notes.append("the file has a mask, which is left out: only nodata marks missing pixels")
    return known, notes


def georeference(image, notes):
    """Where an image lies; None where it has no regular grid."""
    transform = tuple(image.transform)[:6]
    if transform == IDENTITY and image.crs is None:
        if image.gcps[0]:
            notes.append("the ground control points are left out: a regular grid is needed")
        return None
    return Georeference(image.crs.to_wkt() if image.crs else None, transform)


def _scaling(image, notes):
    scale, offset = np.array(image.scales), np.array(image.offsets)
    if np.isfinite(scale).all() and np.isfinite(offset).all() and scale.all():
        return scale, offset
    notes.append("the scale and offset are left out: some are not finite, or a scale is 0")
    return None, None


def _wavelengths(image, tags, notes):
    """Centres and widths of the bands in nm."""
    units = {tag.get("wavelength_units", tag.get("wavelength_unit")) for tag in tags}
    unit = units.pop() if len(units) == 1 else "different from band to band"
    domain = [image.tags(band, ns="IMAGERY") for band in image.indexes]
    names = ("wavelength", "fwhm")
    if unit is None and any("CENTRAL_WAVELENGTH_UM" in tag for tag in domain):
        tags, names, unit = domain, ("CENTRAL_WAVELENGTH_UM", "FWHM_UM"), "um"
    elif not any("wavelength" in tag for tag in tags):
        centres = centres_in(image.descriptions)
        if centres is not None:
            return centres, None
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
