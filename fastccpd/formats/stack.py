"""A product that keeps each band in a file of its own: read as one cube, by rasterio.

All bands lie on the grid of the finest; coarser ones, where they are asked for, are interpolated to it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .axes import declared
from .extras import needed
from .gdal import georeference, opened
from .inspection import beginning, check_array
from .raster import Header, Stored


@dataclass(frozen=True)
class BandFile:
    """One band, and the file that holds it.

    Attributes
    ----------
    name : str
        As the product names its bands, "B8A".
    path : Path
        The file.
    driver : str
        The only driver of GDAL that may open it.
    opened_as : str or None
        What GDAL opens where that is not the path itself, as inside of a zip.
    """

    name: str
    path: Path
    driver: str
    opened_as: str | None = None


def open_stack(path, bands, band_axis, known, source, notes):
    """The bands of a product as one cube.

    Parameters
    ----------
    path : Path
        The product.
    bands : list of BandFile
    band_axis : int or None
        What the caller says; it must be 0.
    known : dict
        Keyword arguments of the Header.
    source : dict
        What else is known of the product.
    notes : list of str
    """
    rasterio = needed("rasterio", f"{path}: its bands")
    looks = [_look(rasterio, path, band, notes if n == 0 else []) for n, band in enumerate(bands)]
    finest = max(looks, key=lambda look: look["shape"])
    shape, dtypes = finest["shape"], {look["dtype"] for look in looks}
    for band, look in zip(bands, looks, strict=True):
        if any(fine % coarse for fine, coarse in zip(shape, look["shape"], strict=True)):
            raise ValueError(f"{path}: {band.name} has {look['shape']} pixels, which do not divide {shape}")
    coarse = [band.name for band, look in zip(bands, looks, strict=True) if look["shape"] != shape]
    if coarse:
        notes.append(f"{', '.join(coarse)} have coarser pixels and are interpolated to those of the others")
    dtype = np.dtype(dtypes.pop()) if len(dtypes) == 1 else "of several dtypes"
    check_array(path, (*shape, len(bands)), dtype, "the product")

    def window(rows, cols):
        part = np.empty((rows.stop - rows.start, cols.stop - cols.start, len(bands)), dtype)
        for n, (band, look) in enumerate(zip(bands, looks, strict=True)):
            part[:, :, n] = _read(rasterio, path, band, look["shape"], shape, rows, cols)
        return part

    def load(cube):
        for n, (band, look) in enumerate(zip(bands, looks, strict=True)):
            everything = slice(0, shape[0]), slice(0, shape[1])
            cube[:, :, n] = _read(rasterio, path, band, look["shape"], shape, *everything)

    about = {
        "stored_shape": (len(bands), *shape),
        "band_axis": 0,
        "layout": declared(path, 0, "files, one for each band", band_axis),
        "notes": tuple(notes),
    }
    known = {"georeference": finest["georeference"], "names": [band.name for band in bands]} | known
    try:
        header = Header((*shape, len(bands)), dtype, **known, source=source | about)
    except ValueError as error:  # numbers of its metadata
        raise ValueError(f"{path}: {error}") from None
    return Stored(header, load, window)


def _look(rasterio, path, band, notes):
    beginning(band.path)  # a pipe, of which GDAL would wait for the end, is refused
    with opened(rasterio, band.path, band.driver, f"a band of {path.name}", band.opened_as) as image:
        if image.count != 1:
            raise ValueError(f"{image.count} bands, where one is needed")
        return {
            "shape": (image.height, image.width),
            "dtype": image.dtypes[0],
            "georeference": georeference(image, notes),
        }


def _read(rasterio, path, band, own, shape, rows, cols):
    """The pixels of one band on the finest grid."""
    down, right = (size / fine for size, fine in zip(own, shape, strict=True))
    wanted = rows.stop - rows.start, cols.stop - cols.start
    part = rasterio.windows.Window(cols.start * right, rows.start * down, wanted[1] * right, wanted[0] * down)
    how = {} if own == shape else {"out_shape": wanted, "resampling": rasterio.enums.Resampling.bilinear}
    with opened(rasterio, band.path, band.driver, f"a band of {path.name}", band.opened_as) as image:
        return image.read(1, window=part, **how)
