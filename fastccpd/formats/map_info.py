"""Where an ENVI image lies: the fields `map info` and `coordinate system string` of its header, and back.

`map info` counts pixels from 1 at the outer corner of the first; its rotation is in degrees, counter-clockwise, about
that reference pixel.
"""

import math

import numpy as np

from ..model.files import first_line, one_line
from .extras import rasterio_or_none
from .raster import Georeference


def georeference_of(header, data, text, notes):
    """The georeference that the fields of a header describe, None where its map info means none; `notes` says why."""
    fields = text["map info"]
    if not isinstance(fields, list) or len(fields) < 7:
        raise ValueError(f"{header}: got map info = {one_line(fields)}; a projection and six numbers are needed")
    column, row, x, y, width, height = (float(value) for value in floats_of(header, "map info", fields[1:7]))
    rotation = next((field.split("=")[1] for field in fields if field.replace(" ", "").startswith("rotation=")), "0")
    degrees = float(floats_of(header, "rotation", [rotation])[0])
    if fields[0].lower() == "arbitrary" or abs(degrees) == 180.0:
        # Half a turn is what it says to some programs, and to others, GDAL among them, rows that run northwards.
        why = "its coordinates are arbitrary" if abs(degrees) != 180.0 else "a rotation by 180 degrees has two meanings"
        notes.append(f"the map info is left out: {why}")
        return None
    angle = math.radians(degrees)
    # Exact where nothing is rotated.
    cosine, sine = (1.0, 0.0) if angle == 0.0 else (math.cos(angle), math.sin(angle))
    a, b, d, e = width * cosine, height * sine, width * sine, -height * cosine
    c, f = x - a * (column - 1.0) - b * (row - 1.0), y - d * (column - 1.0) - e * (row - 1.0)
    try:
        return Georeference(_crs(data, text, notes), (a, b, c, d, e, f))
    except ValueError as error:
        raise ValueError(f"{header}: got a map info without sense ({error})") from None


def map_info_of(georeference):
    """The fields of map info, or None for a grid it cannot express: mirrored, sheared, or upside down."""
    a, b, c, d, e, f = georeference.transform
    width, height = math.hypot(a, d), math.hypot(b, e)
    cosine, sine = a / width, d / width
    if d == 0.0 and a < 0.0:
        return None
    if not np.allclose((b, e), (sine * height, -cosine * height), rtol=0.0, atol=1e-9 * height):
        return None
    numbers = [repr(value) for value in (1.0, 1.0, c, f, width, height)]
    rotation = [] if d == 0.0 else [f"rotation={math.degrees(math.atan2(sine, cosine))!r}"]
    projection, *zone = _projection(georeference.crs)
    return [projection, *numbers, *zone, *rotation]


def esri_text(wkt):
    """The spelling that ENVI itself uses, where rasterio is installed to give it; else the text on one line."""
    rasterio = rasterio_or_none()
    if rasterio is not None:
        with rasterio.Env():
            try:
                return rasterio.CRS.from_wkt(wkt).to_wkt(version="WKT1_ESRI")
            except ValueError:
                pass
    return " ".join(wkt.split())


def floats_of(header, name, values):
    """The numbers that a field of this name lists."""
    numbers = []
    for value in values:
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            raise ValueError(f"{header}: got {str(value)[:40]!r} as {name}; a number is needed") from None
    return np.array(numbers)


def _crs(data, text, notes):
    """The coordinate system as WKT, in GDAL's spelling where rasterio is installed, else as the header has it."""
    rasterio = rasterio_or_none()
    field = text.get("coordinate system string", "")
    wkt = (",".join(field) if isinstance(field, list) else field).strip()
    if rasterio is None:
        if not wkt:
            notes.append("the coordinate system is not known: only rasterio can derive it from the map info")
        return wkt or None
    with rasterio.Env():
        try:
            if wkt:
                return rasterio.CRS.from_wkt(wkt, morph_from_esri_dialect=True).to_wkt()
            with rasterio.open(data.absolute(), driver="ENVI") as image:
                known = image.crs is not None and (image.crs.is_projected or image.crs.is_geographic)
                return image.crs.to_wkt() if known else None
        except (rasterio.errors.RasterioError, ValueError) as error:
            notes.append(f"the coordinate system is left as it is written, for GDAL says: {first_line(error)}")
    return wkt or None


def _projection(wkt):
    """The name of a projection in map info, and what follows its numbers, for the two that older readers know."""
    rasterio = rasterio_or_none()
    if wkt is None or rasterio is None:
        return ("Unknown",)
    with rasterio.Env():
        try:
            crs = rasterio.CRS.from_wkt(wkt)
            code = crs.to_epsg() or 0
        except ValueError:
            return ("Unknown",)
    if code == 4326:
        return "Geographic Lat/Lon", "WGS-84", "units=Degrees"
    hemisphere = {326: "North", 327: "South"}.get(code // 100)
    if hemisphere is None or not 1 <= code % 100 <= 60:
        return ("Unknown",)
    return "UTM", str(code % 100), hemisphere, "WGS-84", "units=Meters"
