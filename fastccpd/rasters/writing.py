"""The result as a raster: on the fine grid, with all bands of the HSI, what has no data marked, in the dtype asked for.

Bands that were left out come back as nodata and are marked as bad, so that band 57 of the result is band 57 of the HSI.
Integers are round(value × scale), and the file says so: what reads it multiplies by 1/scale.
"""

import json
import math
import os
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

# The part of an image that rounding may lose without a word: what noise at 40 dB is.
_MOST_ROUNDED = 0.01


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
    result: Made,
    pair: Pair,
    degradation: Degradation,
    operators: dict[str, Any],
    options: dict[str, Any],
    beside: dict[str, dict[str, str]],
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
        How the pair was made ready; arrays among them are said to be given.
    beside : dict of name to {"path", "sha256"}
        The files that were read beside the two images.
    """
    read = {"hsi": pair.hsi.source, "msi": pair.msi.source} | beside
    inputs = {name: {"path": _name(file["path"]), "sha256": file["sha256"]} for name, file in read.items()}
    PM = degradation.PM.tocoo()
    rows: list[dict[str, float]] = [{} for _ in range(PM.shape[0])]
    numbers = np.flatnonzero(pair.good_hsi) + 1
    for row, column, weight in zip(PM.row, PM.col, PM.data, strict=True):
        rows[row][str(numbers[column])] = float(f"{weight:.6g}")
    made = {
        "VERSIONS": versions_in_use(),
        "OPTIONS": {"method": result.method, "seed": result.seed} | result.options | _told(options),
        "INPUTS": inputs,
        "OPERATORS": {"ratio": pair.grids.ratio} | operators | {"response": rows},
    }
    return {f"FASTCCPD_{name}": json.dumps(value, default=str, sort_keys=True) for name, value in made.items()}


class Rounding:
    """What a dtype of integers does to an image, which may come in parts.

    Parameters
    ----------
    form : Output
    """

    def __init__(self, form: Output):
        self._form, self._outside, self._squares, self._count = form, 0, 0.0, 0

    def add(self, cube: types.Array, marked: types.Mask) -> None:
        """Count a part of the image; marked pixels do not count."""
        if self._form.dtype.startswith("float"):
            return
        least, largest = _range(np.dtype(self._form.dtype))
        for i in range(len(cube)):
            row = cube[i][~marked[i]] * self._form.scale
            self._outside += int(np.count_nonzero((row < least - 0.5) | (row > largest + 0.5)))
            self._squares += float(np.einsum("pk,pk->", row, row, dtype=np.float64))
            self._count += row.size

    def warn(self, output: types.Path, listener: Listener) -> None:
        """Say what is cut off, and where rounding loses more than a sensor's noise would."""
        if self._outside:
            cut = f"{self._outside} values are beyond {self._form.dtype} and cut off"
            listener.warn(f"{output}: {cut}; use a smaller --output-scale")
        # Rounding has a variance of a twelfth.
        lost = math.sqrt(self._count / 12.0 / self._squares) if self._squares > 0.0 else 0.0
        if lost > _MOST_ROUNDED:
            listener.warn(
                f"{output}: rounding to {self._form.dtype} loses {lost:.0%} of the image, root mean square; use a "
                "larger --output-scale"
            )


def _told(options):
    """Options for JSON: names of files as text, and no arrays."""
    plain = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in options.items()}
    known = bool, int, float, str, type(None)
    return {name: value if isinstance(value, known) else "given" for name, value in plain.items()}


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
