"""Landsat: the folder of a scene of Collection 1 or 2, levels 1 and 2, with its MTL.txt.

Bands are GeoTIFF files that MTL.txt names, in the folder itself. Without a choice the reflective bands of 30 m are
read; `FOLDER::B2,B3` names bands, B8 (panchromatic, 15 m) too. Reflectance is count × REFLECTANCE_MULT_BAND_n +
REFLECTANCE_ADD_BAND_n, without the sun's elevation at level 1; a count of 0 is nodata. MTL.txt has no wavelengths; the
edges of the bands are those that USGS publishes (Landsat 8-9 OLI; Landsat 4-5 TM and 7 ETM+).
"""

import math
import re
from pathlib import Path

import numpy as np

from .inspection import check_text
from .stack import BandFile, open_stack
from .xml_text import number

_LARGEST_MTL = 1 << 20

# The limits of each band in nm: on OLI (Landsat 8 and 9), and on TM and ETM+ (those before).
_LIMITS = {
    "B1": ((430, 450), (450, 520)),
    "B2": ((450, 510), (520, 600)),
    "B3": ((530, 590), (630, 690)),
    "B4": ((640, 670), (770, 900)),
    "B5": ((850, 880), (1550, 1750)),
    "B6": ((1570, 1650), None),
    "B7": ((2110, 2290), (2080, 2350)),
    "B8": ((500, 680), (520, 900)),
    "B9": ((1360, 1380), None),
}
_NAME = re.compile(r"FILE_NAME_BAND_(\d+)")


def metadata_in(path):
    """The MTL.txt of a folder, or None."""
    return next((file for file in sorted(path.iterdir()) if file.name.upper().endswith("_MTL.TXT")), None)


def is_product(path):
    """Whether a path is the folder of a Landsat scene."""
    return path.is_dir() and metadata_in(path) is not None


def open_landsat(path, band_axis, variable):
    """The bands of a scene."""
    metadata = metadata_in(path)
    fields = _fields(metadata)
    mission = fields.get("SPACECRAFT_ID", "")
    column = 0 if mission in ("LANDSAT_8", "LANDSAT_9") else 1
    edges = {name: limits[column] for name, limits in _LIMITS.items() if limits[column] is not None}
    files = {f"B{match[1]}": name for key, name in fields.items() if (match := _NAME.fullmatch(key))}
    wanted = [name for name in edges if name not in ("B8",) and name in files]
    if variable is not None:
        wanted = variable.split(",")
    for name in wanted:
        if name not in files or name not in edges:
            held = ", ".join(band for band in edges if band in files) or "no bands"
            raise ValueError(f"variable: got {name!r}; {path} holds {held}")
    if not wanted:
        raise ValueError(f"{path}: its MTL.txt names no files of reflective bands")
    bands = [BandFile(name, _inside(path, files[name]), "GTiff") for name in wanted]
    limits = np.array([edges[name] for name in wanted], float)
    known = {"wavelengths": limits.mean(axis=1), "fwhm": np.diff(limits, axis=1)[:, 0], "nodata": 0.0}
    for name, key in (("scale", "MULT"), ("offset", "ADD")):
        values = [fields.get(f"REFLECTANCE_{key}_BAND_{band[1:]}") for band in wanted]
        if all(value is not None for value in values):
            known[name] = [float(value) for value in values]
    source = {
        "sensor": mission.replace("_", " ").title() or None,
        "variable": variable,
        "files": [str(metadata), *(str(band.path) for band in bands)],
    }
    notes = ["wavelengths are the middles of the bands' published edges, which the product does not hold"]
    return open_stack(path, bands, band_axis, known, source, notes)


def _fields(metadata):
    """The fields of MTL.txt by name; of level 2 without the later groups on the level 1 that it was made from."""
    check_text(metadata, "the text of an MTL file", _LARGEST_MTL)
    found, group, of_level_2 = {}, "", False
    for line in metadata.read_text(encoding="utf-8", errors="replace").splitlines():
        key, mark, value = (part.strip() for part in line.partition("="))
        if not mark:
            continue
        if key in ("GROUP", "END_GROUP"):
            group = value if key == "GROUP" else ""
            of_level_2 = of_level_2 or group.startswith("LEVEL2")
            continue
        if not (group.startswith("LEVEL1") and of_level_2):
            found[key] = value.strip('"')
    numbers = {key for key in found if key.startswith(("REFLECTANCE_MULT", "REFLECTANCE_ADD"))}
    for key in numbers:
        value = number(found[key])
        if not math.isfinite(value) or (value == 0.0 and "MULT" in key):
            raise ValueError(f"{metadata}: got {key} = {found[key][:40]!r}; a finite number is needed, and no factor 0")
    return found


def _inside(folder: Path, name: str) -> Path:
    """A file of a folder; a name that leads elsewhere is refused."""
    if Path(name).name != name or name in ("", ".", "..") or "\0" in name:
        raise ValueError(f"{folder}: its MTL.txt names {name[:60]!r}, which is no file of this folder")
    return folder / name
