"""Pairs of images as they come from the field: other coordinate systems, extents, units, dead bands, gaps, clouds.

The scene is a function of the ground, so that every image of it can be made without resampling another: what a warp
should give is known exactly.
"""

import numpy as np
import rasterio
from rasterio.warp import transform

from fastccpd import rasters
from fastccpd.imaging import scenes

UTM_32, UTM_33 = (rasterio.CRS.from_epsg(code).to_wkt() for code in (32632, 32633))
CORNER = 380000.0, 5820000.0


def ground(x, y, bands, seed=3):
    """A smooth scene over coordinates in UTM zone 33: (rows, columns, bands) reflectances in 0.05 … 0.6."""
    rng = np.random.default_rng(seed)
    u, v = (x - CORNER[0]) / 100.0, (y - CORNER[1]) / 100.0
    spectra = np.abs(scenes.synthetic((4, 4, max(bands, 4)), rng=rng).cube.reshape(16, -1)[:4, :bands])
    maps = [
        np.sin(a * u + b * v + c) + 1.0 for a, b, c in zip(*(rng.uniform(-1.5, 1.5, 4) for _ in range(3)), strict=True)
    ]
    cube = np.stack(maps, axis=2) @ spectra
    return 0.05 + 0.55 * cube / cube.max()


def centres(georeference, shape):
    """The coordinates of the pixels' centres in UTM zone 33, whatever system the grid has."""
    a, b, c, d, e, f = georeference.transform
    rows, columns = np.meshgrid(np.arange(shape[0]) + 0.5, np.arange(shape[1]) + 0.5, indexing="ij")
    x, y = a * columns + b * rows + c, d * columns + e * rows + f
    if "zone 33N" not in georeference.crs:
        systems = rasterio.CRS.from_wkt(georeference.crs), rasterio.CRS.from_wkt(UTM_33)
        x, y = (np.reshape(side, shape) for side in transform(*systems, x.ravel(), y.ravel()))
    return x, y


def seen(georeference, shape, bands, **settings):
    """The scene at the centres of a grid's pixels."""
    return ground(*centres(georeference, shape), bands, **settings)


def grid(pixel, down=0.0, right=0.0, crs=UTM_33):
    """North-up, its corner moved by metres from where the scene begins; in zone 32 from the same spot there."""
    x, y = CORNER
    if crs != UTM_33:
        (x,), (y,) = transform(rasterio.CRS.from_wkt(UTM_33), rasterio.CRS.from_wkt(crs), [x], [y])
        x, y = round(x, -1), round(y, -1)
    return rasters.Georeference(crs, (pixel, 0.0, x + right, 0.0, -pixel, y - down))
