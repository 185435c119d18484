"""`fuse` for DataArrays of xarray: named axes, coordinates, a coordinate system by rioxarray, masks as NaN.

An HSI and an MSI are three-dimensional DataArrays whose dimensions are called band (or wavelength), y and x, or by
other usual names, in any order. What is NaN, or the `_FillValue` of the array's attributes, has no data. Arrays of dask
are computed where they are needed, each once. The result is a DataArray (band, y, x) with the MSI's coordinates, the
HSI's along the bands, and a coordinate system where the MSI has one; its attributes say how it was made.

    import fastccpd.xarray
    fused = fastccpd.xarray.fuse(hsi, msi, degradation)

Both must lie on one grid already, each HSI pixel on whole MSI pixels; `fastccpd.rasters.fuse_files` brings files there.
"""

import json
import warnings
from typing import Any, cast

import numpy as np

from . import api
from .formats import Georeference, Header
from .formats.extras import needed
from .formats.raster import gone
from .model.degradation import Degradation
from .model.types import Array, Mask
from .rasters.placement import placement

__all__ = ["as_image", "fuse", "msi_ratio"]

_ROWS = ("y", "row", "rows", "lat", "latitude", "northing")
_COLUMNS = ("x", "col", "cols", "column", "columns", "lon", "longitude", "easting")
_BANDS = ("band", "bands", "wavelength", "wavelengths", "channel")


def fuse(hsi: Any, msi: Any, degradation: Degradation | None = None, **options: Any) -> Any:
    """Fuse two DataArrays.

    Parameters
    ----------
    hsi, msi : xarray.DataArray
        Three-dimensional, with dimensions that are called band, y and x, or the like, in any order.
    degradation : Degradation, optional
        How the two arise from the scene. None: blur, shift and response are estimated from the images.
    **options
        Whatever `fastccpd.fuse` takes.

    Returns
    -------
    xarray.DataArray
        (band, y, x): the fused image, NaN where there were no data, also in bands of the HSI that hold none.
        `attrs["fastccpd_…"]` say how it was made, and whether the images agree; a warning says so where they do not.

    Raises
    ------
    TypeError, ValueError
        One sentence, for what is no DataArray, or whose axes have no telling names or are too few or many.

    Examples
    --------
    >>> import numpy as np, xarray, fastccpd.xarray
    >>> from fastccpd.imaging import degrade, preset, scenes
    >>> scene = scenes.synthetic((16, 20, 36)).cube
    >>> degradation = preset("stereo", scene.shape)
    >>> hsi, msi = degrade(scene, degradation)
    >>> one = xarray.DataArray(hsi, dims=("y", "x", "band"), coords={"band": np.arange(36) + 1})
    >>> other = xarray.DataArray(msi.transpose(2, 0, 1), dims=("band", "y", "x"), coords={"x": np.arange(20) * 10.0})
    >>> fused = fastccpd.xarray.fuse(one, other, degradation, method="nn-ccpd-nls", rank=3, max_iter=2)
    >>> fused.dims, fused.shape, float(fused.x[1])
    (('band', 'y', 'x'), (36, 16, 20), 10.0)
    """
    xarray = needed("xarray", "fastccpd.xarray")
    images = {name: as_image(array, name) for name, array in (("hsi", hsi), ("msi", msi))}
    _check_grids(images)
    cubes, valid = {}, {}
    for name, (cube, pixels, _) in images.items():
        # Where pixels have data, a band that has none has NaN or nodata all the same: it is left out as a band.
        there = pixels[:, :, None] & ~_empty_bands(cube, (hsi if name == "hsi" else msi), name)
        cubes[name] = np.where(there, cube, cube.dtype.type(0))
        if not there.all():
            valid[f"{name}_valid"] = there
    result = api.fuse(cubes["hsi"], cubes["msi"], degradation, **options, **valid)
    sri = np.moveaxis(result.sri, 2, 0)
    ratio = msi_ratio(cast(Degradation, result.degradation))
    missing = ~images["msi"][1] | ~images["hsi"][1].repeat(ratio[0], axis=0).repeat(ratio[1], axis=1)
    empty = _empty_bands(images["hsi"][0], hsi, "hsi")
    if missing.any() or empty.any():
        sri = np.where(missing | empty[:, None, None], sri.dtype.type(np.nan), sri)
    if result.verdict.disagrees:
        warnings.warn(str(result.verdict), stacklevel=2)
    # What has no data is NaN here, whatever stood for it in the HSI.
    attributes = {name: value for name, value in hsi.attrs.items() if name != "_FillValue"} | {
        "fastccpd_verdict": str(result.verdict),
        "fastccpd_method": result.method,
        "fastccpd_status": str(result.status),
        "fastccpd_seed": str(result.seed),
        "fastccpd_versions": str(result.provenance["versions"]),
    }
    if "estimated" in result.provenance:
        attributes["fastccpd_estimated"] = json.dumps(result.provenance["estimated"])
    fused = xarray.DataArray(
        sri, dims=("band", "y", "x"), coords=_coordinates(hsi, msi), name=hsi.name or "fused", attrs=attributes
    )
    crs = _crs(msi)
    return fused if crs is None else fused.rio.write_crs(crs)


def as_image(array: Any, name: str) -> tuple[Array, Mask, Georeference | None]:
    """A DataArray as (rows, columns, bands), where it has data, and where it lies.

    Parameters
    ----------
    array : xarray.DataArray
    name : str
        For messages.

    Returns
    -------
    cube : (rows, columns, bands) array
    valid : (rows, columns) bool array
        False where a band has no data that has some elsewhere.
    georeference : Georeference or None
    """
    rows, columns, bands = _dimensions(array, name)
    values = np.asarray(array.transpose(rows, columns, bands).data)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name}: got dtype {values.dtype}; real numbers are needed")
    absent = gone(values, _nodata(array, name))
    empty = absent.all(axis=(0, 1))
    valid = np.asarray(~absent[:, :, ~empty].any(axis=2)) & ~empty.all()
    return values, valid, _georeference(array, rows, columns)


def _nodata(array, name):
    nodata = array.attrs.get("_FillValue", array.encoding.get("_FillValue"))
    try:
        return None if nodata is None else float(nodata)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: got {nodata!r} as _FillValue; a number is needed") from None


def _empty_bands(cube, array, name):
    """The bands of (rows, columns, bands) without data at any pixel."""
    return np.asarray(gone(cube, _nodata(array, name)).all(axis=(0, 1)))


def msi_ratio(degradation: Degradation) -> tuple[int, int]:
    """How many rows and columns of the fine image a coarse pixel has."""
    return tuple(P.shape[1] // P.shape[0] for P in (degradation.P1, degradation.P2))


def _dimensions(array, name):
    """The names of rows, columns and bands."""
    if not all(hasattr(array, part) for part in ("dims", "coords", "transpose", "attrs", "dtype")):
        raise TypeError(
            f"{name}: got {type(array).__name__}; an xarray.DataArray is needed (fastccpd.fuse takes arrays)"
        )
    if len(array.dims) != 3:
        raise ValueError(f"{name}: got the dimensions {array.dims}; band, y and x are needed")
    found = []
    for known in (_ROWS, _COLUMNS, _BANDS):
        match = [dim for dim in array.dims if str(dim).lower() in known]
        if len(match) != 1:
            raise ValueError(f"{name}: got the dimensions {array.dims}; band, y and x, or the like, are needed")
        found += match
    return found


def _coordinates(hsi, msi):
    """The coordinates of the result: along y and x the MSI's, along the bands the HSI's."""
    rows, columns, _ = _dimensions(msi, "msi")
    bands = _dimensions(hsi, "hsi")[2]
    names = {rows: "y", columns: "x", bands: "band"}
    found = {}
    for array, own in ((msi, (rows, columns)), (hsi, (bands,))):
        for name, coordinate in array.coords.items():
            if coordinate.dims and set(coordinate.dims) <= set(own):
                new = names.get(name, name)
                found[new] = (tuple(names[dim] for dim in coordinate.dims), coordinate.data, coordinate.attrs)
    return found


def _crs(array):
    """The coordinate system that rioxarray knows; None where there is none, or no rioxarray."""
    if "spatial_ref" not in array.coords:
        return None
    needed("rioxarray", "a DataArray with a coordinate system")
    return array.rio.crs


def _georeference(array, rows, columns):
    crs = _crs(array)
    centres = []
    for dim in (rows, columns):
        known = dim in array.coords and array.coords[dim].dtype.kind in "fiu"
        values = np.asarray(array.coords[dim].data, float) if known else np.empty(0)
        steps = np.diff(values)
        if not len(steps) or not np.allclose(steps, steps[0], rtol=1e-3) or not steps[0]:
            return None
        centres.append((values[0], float(values[-1] - values[0]) / len(steps)))
    (top, high), (left, wide) = centres
    return Georeference(None if crs is None else crs.to_wkt(), (wide, 0.0, left - wide / 2, 0.0, high, top - high / 2))


def _check_grids(images):
    """Refuse two grids that do not lie on each other."""
    headers = {name: Header(cube.shape, cube.dtype, georeference=grid) for name, (cube, _, grid) in images.items()}
    if any(header.georeference is None for header in headers.values()):
        return
    found = placement(headers["hsi"], headers["msi"])
    same = found.hsi.shape == headers["hsi"].shape[:2] and found.msi.shape == headers["msi"].shape[:2]
    if not same or found.msi.warped:
        raise ValueError(
            "msi: by its coordinates it does not lie on whole pixels of the HSI; reproject it, or use "
            "fastccpd.rasters.fuse_files, which does"
        )
