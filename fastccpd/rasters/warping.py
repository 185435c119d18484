"""Pixels interpolated from those of another grid, by GDAL through rasterio's `WarpedVRT`.

What is asked for is a window of the target; of the file only the pixels that it needs are read, with a margin for the
kernel. GDAL is told to map every pixel by itself, not to interpolate between mapped ones, so that the result does not
depend on the window.
"""

from collections.abc import Callable

import numpy as np

from ..formats import Georeference
from ..formats.extras import needed
from ..formats.geotiff import plain_profile
from ..model.types import Array
from .mapping import bounds, edge, mapping, part, steps

#: The interpolation of values, and of masks: a pixel is masked if any that it is made of is.
VALUES, MASKS = "cubic", "max"

# The reach of the widest kernel, in pixels of the coarser of the two grids, and one to spare.
_REACH = 3

# How far, in pixels, GDAL may be off where it maps pixels by interpolation between others; 0 it does not take.
_EXACT = 1e-9


def source_window(
    georeference: Georeference, shape: tuple[int, int], of: Georeference, size: tuple[int, int]
) -> tuple[slice, slice] | None:
    """The pixels of a file that a window of a target grid needs.

    Parameters
    ----------
    georeference, shape : Georeference, (rows, columns)
        Of the window.
    of, size : Georeference, (rows, columns)
        Of the file.

    Returns
    -------
    (rows, columns) or None
        Slices of the file; None where the file has none of them.
    """
    there = mapping(georeference, of)
    low, high = bounds(there(edge(shape)))
    wide = np.abs(steps(there, np.array(shape) / 2)).sum(axis=1)
    margin = np.ceil(_REACH * np.maximum(1.0, np.where(np.isfinite(wide), wide, 1.0)))
    low, high = np.maximum(0, np.floor(low - margin)), np.minimum(size, np.ceil(high + margin))
    if not (low < high).all():
        return None
    return slice(int(low[0]), int(high[0])), slice(int(low[1]), int(high[1]))


def warp(
    values: Array, of: Georeference, georeference: Georeference, shape: tuple[int, int], resampling: str = VALUES
) -> Array:
    """An image brought to another grid.

    Parameters
    ----------
    values : (rows, columns, bands) array
        Floats, NaN where there are no data; or uint8, of which nothing is missing.
    of : Georeference
        The grid of the values.
    georeference, shape : Georeference, (rows, columns)
        The grid that is wanted.
    resampling : str
        One of rasterio's names.

    Returns
    -------
    (rows, columns, bands) array
        NaN, or 0, where no value lies.
    """
    rasterio = needed("rasterio", "images on different grids")
    vrt = needed("rasterio.vrt", "images on different grids")
    nodata = np.nan if values.dtype.kind == "f" else None
    profile = plain_profile(values.shape, values.dtype, nodata)
    target = {"transform": rasterio.Affine(*georeference.transform), "height": shape[0], "width": shape[1]}
    if of.same_crs(georeference) is False:
        systems = {"src_crs": of.crs, "crs": georeference.crs}
    else:
        systems = dict.fromkeys(("src_crs", "crs"), georeference.crs or of.crs or _PLANE)
    systems = {name: rasterio.CRS.from_wkt(crs) for name, crs in systems.items()}
    # GDAL would take them from the sizes of the two windows, which are not alike where grids are turned.
    down, right = np.linalg.norm(steps(mapping(georeference, of), np.array(shape) / 2), axis=0)
    scales = {"XSCALE": f"{1.0 / right:.4g}", "YSCALE": f"{1.0 / down:.4g}"}
    profile |= {"crs": systems["src_crs"], "transform": rasterio.Affine(*of.transform)}
    with rasterio.Env(GDAL_PAM_ENABLED=False), rasterio.MemoryFile() as memory:
        with memory.open(**profile) as image:
            image.write(np.moveaxis(values, 2, 0))
        with (
            memory.open() as image,
            vrt.WarpedVRT(
                image,
                crs=systems["crs"],
                resampling=rasterio.enums.Resampling[resampling],
                tolerance=_EXACT,
                src_nodata=nodata,
                nodata=nodata,
                **target,
                **scales,
            ) as warped,
        ):
            return np.ascontiguousarray(np.moveaxis(warped.read(), 0, 2))


def warped_window(
    read: Callable[[slice, slice], Array],
    of: Georeference,
    size: tuple[int, int],
    georeference: Georeference,
    shape: tuple[int, int],
    resampling: str,
) -> Array | None:
    """A window of a target grid, out of a file that is read in parts; None where the file does not reach it.

    Parameters
    ----------
    read : callable(rows, columns) -> array
        Gives what `warp` takes of a file.
    of, size : Georeference, (rows, columns)
        The grid of the file.
    georeference, shape : Georeference, (rows, columns)
        The window.
    resampling : str
        One of rasterio's names.
    """
    needed_part = source_window(georeference, shape, of, size)
    if needed_part is None:
        return None
    rows, columns = needed_part
    return warp(read(rows, columns), part(of, rows.start, columns.start), georeference, shape, resampling)


# A plane without a place on Earth, for two grids of which no coordinate system is known.
_PLANE = 'LOCAL_CS["plane",UNIT["metre",1],AXIS["x",EAST],AXIS["y",NORTH]]'
