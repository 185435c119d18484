"""Bands and pixels without data: left out, filled, and marked again in the result."""

from dataclasses import replace

import numpy as np

from ..formats import Raster
from ..imaging.moving import like_nearest
from ..model.types import Array, Mask


def good_bands(raster: Raster) -> Mask:
    """The bands that are not marked as bad, (bands,) bool; ValueError if none is left."""
    good = np.ones(raster.shape[2], bool) if raster.bad_bands is None else ~raster.bad_bands
    if not good.any():
        raise ValueError(f"{raster.source.get('path', 'raster')}: every band is marked as bad; some are needed")
    return good


def without_bad_bands(raster: Raster) -> Raster:
    """The raster with its good bands alone, and no marks."""
    good = good_bands(raster)
    if good.all():
        return replace(raster, bad_bands=None)
    kept = {
        name: None if getattr(raster, name) is None else np.asarray(getattr(raster, name))[good]
        for name in ("wavelengths", "fwhm", "scale", "offset", "names")
    }
    return replace(raster, cube=np.ascontiguousarray(raster.cube[:, :, good]), bad_bands=None, **kept)


def count_sentence(name: str, mask: Mask) -> str:
    """How many pixels are missing."""
    return f"{name}: {int(mask.sum())} of {mask.size} pixels are nodata"


def filled(raster: Raster, missing: Mask) -> Raster:
    """The raster with every missing pixel like the nearest one that is not."""
    return replace(raster, cube=like_nearest(raster.cube, missing))


def emptied(cube: Array, missing: Mask) -> Array:
    """The cube with NaN at missing pixels; itself where there are none."""
    if not missing.any():
        return cube
    cube = cube.astype(np.float32 if cube.dtype == np.float32 else np.float64)
    cube[missing] = np.nan
    return cube


def fine_mask(missing_hsi: Mask, missing_msi: Mask, ratio: int) -> Mask:
    """The pixels of the result without data: missing in the MSI, or under a missing pixel of the HSI."""
    return missing_msi | missing_hsi.repeat(ratio, axis=0).repeat(ratio, axis=1)


def marked(cube: Array, missing: Mask, declared: float | None) -> tuple[Array, float]:
    """A cube with its missing pixels marked, and the value that marks them.

    That is what the MSI declares, or NaN where it declares nothing or where a pixel with data has that very value.
    """
    value = np.nan if declared is None else float(declared)
    if not np.isnan(value):
        value = float(cube.dtype.type(value))
        if not np.isfinite(value) or (cube == value).any(axis=2)[~missing].any():
            value = np.nan
    cube = cube.copy()
    cube[missing] = value
    return cube, value
