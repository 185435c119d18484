"""The result as a raster: on the fine grid, with all bands of the HSI, what has no data marked, in the dtype asked for.

Bands that were left out come back as nodata and are marked as bad, so that band 57 of the result is band 57 of the HSI.
Integers are round(value × scale), and the file says so: what reads it multiplies by 1/scale.
"""

import json
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .. import formats
from ..machine import versions_in_use
from ..model import types
from ..model.checks import as_choice, as_number
from ..model.degradation import Degradation
from . import gaps
from .pair import Pair
from .remarks import Listener, Remarks

#: The dtypes of an output.
DTYPES = ("float32", "float64", "int16", "uint16", "int32")


@dataclass(frozen=True, kw_only=True)
class Output:
    """In which form a result is written.

    Attributes
    ----------
    dtype : str
        One of `DTYPES`.
    scale : float
        Stored values are value × scale.
    cog : bool
        Whether GeoTIFF is written as a cloud-optimised one with overviews.
    """

    dtype: str = "float32"
    scale: float = 1.0
    cog: bool = False

    def __post_init__(self):
        as_choice(self.dtype, "output_dtype", DTYPES)
        as_number(self.scale, "output_scale", above=True)


def result_raster(
    cube: types.Array, pair: Pair, marked: types.Mask, form: Output, tags: dict[str, str] | None = None
) -> formats.Raster:
    """The fused image as a raster.

    Parameters
    ----------
    cube : (rows, columns, bands) array
        Of the bands that were used.
    pair : Pair
    marked : (rows, columns) bool array
        The pixels to mark as nodata.
    form : Output
    tags : dict, optional
        How it was made.

    Returns
    -------
    formats.Raster
    """
    good = pair.good_hsi
    described = {"wavelengths": pair.wavelengths, "fwhm": pair.fwhm, "names": pair.names}
    complete = good.all()
    stored, nodata = _stored(cube, marked, pair.msi.nodata, form, always=not complete)
    if not complete:
        whole = np.full((*stored.shape[:2], good.size), nodata, stored.dtype)
        whole[:, :, good] = stored
        stored = whole
    scale = None if form.scale == 1.0 else np.full(good.size, 1.0 / form.scale)
    bad = None if complete else ~good
    return formats.Raster(
        stored, **described, nodata=nodata, georeference=pair.msi.georeference, bad_bands=bad, scale=scale, tags=tags
    )


def map_raster(
    values: types.Array, pair: Pair, marked: types.Mask, tags: dict[str, str] | None = None
) -> formats.Raster:
    """A map of one number a pixel as a raster, in float32 unless it is in float64.

    Parameters
    ----------
    values : (rows, columns) array
    pair : Pair
    marked : (rows, columns) bool array
    tags : dict, optional
    """
    form = Output(dtype="float64" if values.dtype == np.float64 else "float32")
    stored, nodata = _stored(values[:, :, None], marked, pair.msi.nodata, form)
    return formats.Raster(stored, nodata=nodata, georeference=pair.msi.georeference, tags=tags)


def write_raster(path: types.Path, raster: formats.Raster, form: Output, overwrite: bool, remarks: Remarks) -> None:
    """Write a raster, and say what its format cannot carry."""
    warn_of_loss(path, raster, remarks)
    formats.write(path, raster, overwrite=overwrite, cog=form.cog)


def warn_of_loss(path: types.Path, raster: formats.Raster, listener: Listener) -> None:
    """Say what the format of `path` cannot carry of a raster, if there is anything."""
    lost = formats.lost_by(path, raster)
    if lost:
        listener.warn(f"{path}: is written without {', '.join(lost)}, which this format cannot carry")


class Made(Protocol):
    """What `provenance` asks of a result."""

    @property
    def method(self) -> str: ...

    @property
    def options(self) -> dict[str, Any]: ...

    @property
    def seed(self) -> Any: ...


def provenance(
    result: Made, pair: Pair, degradation: Degradation, operators: dict[str, Any], options: dict[str, Any]
) -> dict[str, str]:
    """How a result was made, as tags of a file: versions, options, the inputs' hashes, the operators.

    Parameters
    ----------
    result : Made
        A FusionResult, or what has as much to say of how it was made.
    pair : Pair
        The two images made ready.
    degradation : Degradation
        The operators that were used.
    operators : dict
        What is known of the blur, the shift and the response.
    options : dict
        How the pair was made ready.
    """
    inputs = {
        name: {key: image.source[key] for key in ("path", "sha256")} | {"path": _name(image.source["path"])}
        for name, image in (("hsi", pair.hsi), ("msi", pair.msi))
    }
    PM = degradation.PM.tocoo()
    rows: list[dict[str, float]] = [{} for _ in range(PM.shape[0])]
    numbers = np.flatnonzero(pair.good_hsi) + 1
    for row, column, weight in zip(PM.row, PM.col, PM.data, strict=True):
        rows[row][str(numbers[column])] = float(f"{weight:.6g}")
    made = {
        "VERSIONS": versions_in_use(),
        "OPTIONS": {"method": result.method, "seed": result.seed} | result.options | options,
        "INPUTS": inputs,
        "OPERATORS": {"ratio": pair.grids.ratio} | operators | {"response": rows},
    }
    return {f"FASTCCPD_{name}": json.dumps(value, default=str, sort_keys=True) for name, value in made.items()}


def clipped(cube: types.Array, marked: types.Mask, form: Output) -> int:
    """How many values a dtype of integers cannot hold."""
    if form.dtype.startswith("float"):
        return 0
    least, largest = _range(np.dtype(form.dtype))
    count = 0
    for i in range(len(cube)):
        row = cube[i][~marked[i]] * form.scale
        count += int(np.count_nonzero((row < least - 0.5) | (row > largest + 0.5)))
    return count


def _name(path):
    return str(path).replace("\\", "/").rpartition("/")[2]


def _range(dtype):
    """The values of an integer dtype without the one that marks nodata: its least, or its largest if unsigned."""
    limits = np.iinfo(dtype)
    return (limits.min + 1, limits.max) if dtype.kind == "i" else (limits.min, limits.max - 1)


def _stored(cube, marked, declared, form, always=False):
    """The cube in the dtype of the output with its missing pixels marked, and the value that marks them or None."""
    dtype = np.dtype(form.dtype)
    if dtype.kind == "f":
        cube = np.asarray(cube * form.scale if form.scale != 1.0 else cube, dtype)
        return gaps.marked(cube, marked, declared) if marked.any() or always else (cube, None)
    least, largest = _range(dtype)
    limits = np.iinfo(dtype)
    nodata = limits.min if dtype.kind == "i" else limits.max
    stored = np.empty(cube.shape, dtype)
    for i in range(len(cube)):
        stored[i] = np.clip(np.rint(cube[i] * form.scale), least, largest)
    if not (marked.any() or always):
        return stored, None
    stored[marked] = nodata
    return stored, float(nodata)
