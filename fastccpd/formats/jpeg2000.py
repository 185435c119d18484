"""JPEG 2000 (.jp2), by rasterio: one file with all its bands."""

import numpy as np

from .axes import declared
from .extras import needed
from .gdal import described, opened, read_window
from .inspection import beginning, check_array, expect
from .raster import Header, Stored

_KIND = "a JPEG 2000 file"


def open_jpeg2000(path, band_axis):
    """The bands of a JPEG 2000 file."""
    head, _ = beginning(path)
    expect(path, head, _KIND)
    return open_with_gdal(path, "JP2OpenJPEG", _KIND, band_axis)


def open_with_gdal(path, driver, kind, band_axis, files=None):
    """The bands of a file of one of GDAL's drivers.

    Parameters
    ----------
    path : Path
    driver, kind : str
        GDAL's name for the format, and ours.
    band_axis : int or None
    files : list of str, optional
        The files that it is made of.
    """
    rasterio = needed("rasterio", f"{path}: {kind}")
    with opened(rasterio, path, driver, kind) as image:
        shape, dtypes = (image.height, image.width, image.count), set(image.dtypes)
        known, notes = described(rasterio, image)
    dtype = np.dtype(dtypes.pop()) if len(dtypes) == 1 else "of several dtypes"
    check_array(path, shape, dtype, "the image")

    def window(rows, cols):
        with opened(rasterio, path, driver, kind) as image:
            return read_window(rasterio, image, rows, cols)

    def load(cube):
        step = max(1, (1 << 26) // max(1, cube[:1].nbytes))
        for start in range(0, len(cube), step):
            rows = slice(start, min(start + step, len(cube)))
            cube[rows] = window(rows, slice(0, cube.shape[1]))

    source = {
        "stored_shape": (shape[2], *shape[:2]),
        "band_axis": 0,
        "layout": declared(path, 0, "bands", band_axis),
        "notes": tuple(notes),
    } | ({} if files is None else {"files": files})
    return Stored(Header(shape, dtype, **known, source=source), load, window)
