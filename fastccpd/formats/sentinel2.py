"""Sentinel-2: the SAFE folder of a product, or the zip of it, levels 1C and 2A.

Bands are JPEG 2000 files under GRANULE/…/IMG_DATA. Without a choice those of 10 m are read; `PRODUCT.SAFE::20m` reads
those of 20 m, `PRODUCT.SAFE::B02,B03,B05` names bands, which come on the finest of their grids, and
`PRODUCT.SAFE::SCL` is the scene classification of level 2A. MTD_MSIL2A.xml or MTD_MSIL1C.xml says the wavelengths, the
quantification and, from processing baseline 04.00 on, the offset of each band: reflectance is
(count + offset) / quantification, and a count of 0 is nodata.
"""

import re
import zipfile

from .inspection import reading
from .stack import BandFile, open_stack
from .xml_text import LARGEST, number, parse, texts

_TEN = ("B02", "B03", "B04", "B08")
_TWENTY = ("B05", "B06", "B07", "B8A", "B11", "B12")
_ORDER = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
_IMAGE = re.compile(r"GRANULE/[^/]+/IMG_DATA/(?:R(\d+)m/)?[^/]+_(B\d[\dA]|SCL)(?:_\d+m)?\.jp2$")
_METADATA = re.compile(r"MTD_MSIL(1C|2A)\.xml$")
_MOST_MEMBERS = 100_000


def is_product(path):
    """Whether a path is a SAFE folder, or a zip that holds one."""
    if path.is_dir():
        return any(_METADATA.fullmatch(file.name) for file in path.iterdir())
    return path.suffix.lower() == ".zip" and path.is_file() and any(".SAFE/" in name for name in _members(path))


def open_safe(path, band_axis, variable):
    """The bands of a product."""
    names = _members(path)
    metadata = [name for name in names if _METADATA.search(name) and name.count("/") <= 1]
    if len(metadata) != 1:
        raise ValueError(f"{path}: holds {len(metadata)} files MTD_MSIL1C.xml or MTD_MSIL2A.xml; one product is needed")
    root = parse(_content(path, metadata[0]), f"{path}/{metadata[0]}")
    images = {}
    for name in names:
        match = _IMAGE.search(name)
        if match:
            resolution = int(match[1] or (10 if match[2] in _TEN else 20 if match[2] in _TWENTY else 60))
            images.setdefault(match[2], {})[resolution] = name
    chosen = _chosen(path, images, variable)
    bands = [_band(path, band, images[band][resolution]) for band, resolution in chosen]
    known = _described(root, [band for band, _ in chosen]) if chosen[0][0] != "SCL" else {}
    sensor = next((text for _, text in texts(root, "SPACECRAFT_NAME")), None)
    source = {"sensor": sensor, "variable": variable}
    if path.is_dir():
        source["files"] = [str(path / metadata[0]), *(str(band.path) for band in bands)]
    return open_stack(path, bands, band_axis, known, source, [])


def _members(path):
    """The names of the files of a product, with / between folders."""
    if path.is_dir():
        found = (path.glob("MTD_MSIL*.xml"), path.glob("GRANULE/*/IMG_DATA/**/*.jp2"))
        return [file.relative_to(path).as_posix() for files in found for file in files if file.is_file()]
    with reading(path, "a zip of a SAFE folder"), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        if len(members) > _MOST_MEMBERS:
            raise ValueError(f"{len(members)} members")
        outside = next((name for name in members if name.startswith("/") or ".." in name.split("/")), None)
        if outside is not None:
            raise ValueError(f"{outside[:60]!r} leads out of the archive")
        return members


def _content(path, name):
    if path.is_dir():
        with open(path / name, "rb") as file:
            return file.read(LARGEST + 1)
    with reading(path, "a zip of a SAFE folder"), zipfile.ZipFile(path) as archive, archive.open(name) as file:
        return file.read(LARGEST + 1)


def _chosen(path, images, variable):
    """(band, resolution) of what is asked for, in the order of the bands."""
    wanted = variable or "10m"
    match = re.fullmatch(r"(\d+)m", wanted)
    if match:
        resolution = int(match[1])
        names = [band for band in _ORDER if resolution in images.get(band, {})]
        if not names:
            raise ValueError(f"{path}: holds no bands of {resolution} m, but {_held(images)}")
        return [(band, resolution) for band in names]
    names = wanted.split(",")
    for name in names:
        if name not in images:
            raise ValueError(
                f"variable: got {name!r}; {path} holds {_held(images)}, and 10m, 20m stand for all of a size"
            )
    if "SCL" in names and len(names) > 1:
        raise ValueError(f"variable: got {wanted!r}; SCL holds classes and is read alone")
    return [(name, min(images[name])) for name in names]


def _held(images):
    return ", ".join(name for name in (*_ORDER, "SCL") if name in images) or "no bands"


def _band(path, name, member):
    if path.is_dir():
        return BandFile(name, path / member, "JP2OpenJPEG")
    return BandFile(name, path, "JP2OpenJPEG", f"/vsizip/{{{path.absolute()}}}/{member}")


def _described(root, names):
    """Wavelengths, widths, scale, offset and nodata of bands."""
    by_number = {}
    known = {"nodata": 0.0}
    centres, widths = {}, {}
    for element in root.iter("Spectral_Information"):
        band = _padded(element.get("physicalBand", ""))
        by_number[element.get("bandId")] = band
        (least, most, centre) = (number(element.findtext(f"Wavelength/{end}")) for end in ("MIN", "MAX", "CENTRAL"))
        centres[band], widths[band] = centre, most - least
    if all(centres.get(name, 0.0) > 0.0 and widths[name] > 0.0 for name in names):
        known["wavelengths"], known["fwhm"] = ([values[name] for name in names] for values in (centres, widths))
    values = [*texts(root, "BOA_QUANTIFICATION_VALUE"), *texts(root, "QUANTIFICATION_VALUE")]
    quantification = number(values[0][1]) if values else float("nan")
    if quantification > 0.0:
        offsets = {}
        for about, text in (*texts(root, "BOA_ADD_OFFSET"), *texts(root, "RADIO_ADD_OFFSET")):
            band_number = about.get("band_id", "")
            default = _ORDER[int(band_number)] if band_number.isdecimal() and int(band_number) < len(_ORDER) else None
            offsets[by_number.get(band_number, default)] = number(text)
        known["scale"] = 1.0 / quantification
        known["offset"] = [offsets.get(name, 0.0) / quantification for name in names]
    return known


def _padded(band):
    """ "B1" as "B01"; B8A stays."""
    return f"B{int(band[1:]):02d}" if band[1:].isdecimal() else band
