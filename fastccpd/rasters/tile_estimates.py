"""Blur, shift, response, scale and offset of a scene in tiles, as far as they are not given: from one window of it.

All of these are one for the whole scene and take few pixels to find, so a window of some hundred coarse pixels a side
does: the one with the most data of nine that are spread over the scene, the middle first. Its estimates are as good as
those of an image of its size, and hold everywhere.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from .. import formats
from ..estimation import Levels, Shift, estimate_degradation, estimate_levels, estimate_response, shift_by_images
from ..methods import Method
from ..model.degradation import Degradation
from ..model.types import Array, Mask, Operator
from ..tiles import Span
from ..tiles.pieces import restricted
from ..tiles.plan import span_of
from ..tiles.sources import Cut, take
from . import operators
from .estimating import AUTO
from .gaps import filled
from .grids import shift_by_georeference
from .preparation import OpenPair
from .remarks import Remarks

# Side of the window in fine pixels, and how many of them along each axis there are to choose from.
_SIDE, _PLACES = 768, 3


def window_of(pair: OpenPair) -> tuple[slice, slice]:
    """The coarse rows and columns that are looked at: of nine places the first with data everywhere, or with most."""
    rows, cols = (_places(size, pair.placement.grids.ratio) for size in pair.hsi.shape[:2])
    found: list[tuple[float, tuple[slice, slice]]] = []
    for where in product(rows, cols):
        share = float(pair.hsi.valid(*where).mean() * pair.msi.valid(*_fine(where, pair)).mean())
        found.append((share, where))
        if share == 1.0:
            break
    return max(found, key=lambda entry: entry[0])[1]


def _places(size, ratio):
    """Slices of coarse pixels, the one in the middle first."""
    width = max(1, min(size, _SIDE // ratio))
    starts = sorted(
        {(size - width) * n // (_PLACES - 1) for n in range(_PLACES)}, key=lambda at: abs(2 * at + width - size)
    )
    return [slice(at, at + width) for at in starts]


def _fine(where, pair):
    ratio = pair.placement.grids.ratio
    return tuple(slice(part.start * ratio, part.stop * ratio) for part in where)


def complete_operators(
    blur: operators.Blur | None, PM: Operator | None, pair: OpenPair, method: Method, remarks: Remarks
) -> tuple[operators.Blur, Operator]:
    """Blur and response with what is None estimated, like `completed` for a pair that is whole in memory.

    Parameters
    ----------
    blur : Blur or None
    PM : matrix or None
    pair : OpenPair
    method : Method
        Some need a periodic blur.
    remarks : Remarks
    """
    if blur is not None and PM is not None:
        return blur, PM
    where = window_of(pair)
    wavelengths = pair.hsi.header.wavelengths
    wavelengths = None if wavelengths is None else np.asarray(wavelengths)[pair.hsi.bands]
    if blur is not None:
        seen = _window(pair, span_of(blur.P1, *_ends(where[0])), span_of(blur.P2, *_ends(where[1])))
        response = estimate_response(
            *seen.images,
            restricted(blur.P1, seen.rows),
            restricted(blur.P2, seen.cols),
            wavelengths=wavelengths,
            hsi_valid=seen.hsi_valid,
            msi_valid=seen.msi_valid,
        )
        remarks.note(f"the response is {response}, by {_name(where)}")
        return blur, response.PM
    seen = _window(pair, *(_whole(part, pair.placement.grids.ratio) for part in where))
    boundary = "periodic" if method.needs_periodic_blur else "reflect"
    found = estimate_degradation(
        *seen.images,
        pair.placement.grids.ratio,
        PM=PM,
        wavelengths=wavelengths,
        boundary=boundary,
        hsi_valid=seen.hsi_valid,
        msi_valid=seen.msi_valid,
    )
    if found.response is not None:
        remarks.note(f"the response is {found.response}, by {_name(where)}")
    remarks.note(f"the blur is estimated from the images: {found.blur}, by {_name(where)}")
    settings = {"psf": AUTO, "assumed": False, **found.figures()}
    P1, P2 = found.blur.operators(pair.msi.shape[:2], pair.hsi.shape[:2], boundary)
    return operators.Blur(P1, P2, f"estimated, {found.blur}", settings), found.degradation.PM


@dataclass(frozen=True, eq=False)
class Window:
    """Both images of a part of the scene, their gaps filled, and where they have data."""

    rows: Span
    cols: Span
    images: tuple[Array, Array]
    hsi_valid: Mask
    msi_valid: Mask


def levels_and_shift(pair: OpenPair, degradation: Degradation, shifts: bool) -> tuple[Levels | None, Shift | None]:
    """Scale and offset between the images, and the shift that the operators do not know of, where that is asked for.

    Parameters
    ----------
    pair : OpenPair
    degradation : Degradation
        Of the whole scene.
    shifts : bool
        Whether the shift is looked for: not where the operators come from the images themselves.
    """
    where = window_of(pair)
    seen = _window(pair, *(span_of(P, *_ends(part)) for P, part in zip((degradation.P1, degradation.P2), where)))
    here = Degradation(restricted(degradation.P1, seen.rows), restricted(degradation.P2, seen.cols), degradation.PM)
    levels = estimate_levels(*seen.images, here, seen.hsi_valid, seen.msi_valid)
    grids = pair.placement.grids
    if not shifts:
        return levels, None
    if grids.offset is not None:
        return levels, shift_by_georeference(grids, degradation.P1, degradation.P2)
    complete = seen.hsi_valid.all() and seen.msi_valid.all()
    return levels, shift_by_images(*seen.images, here) if complete else None


def _window(pair, rows, cols):
    cuts = take(pair.hsi, (rows.coarse,), (cols.coarse,)), take(pair.msi, rows.runs, cols.runs)
    return Window(rows, cols, (_filled(cuts[0]), _filled(cuts[1])), _has(cuts[0]), _has(cuts[1]))


def _has(cut: Cut) -> Mask:
    return np.ones(cut.pixels.shape[:2], bool) if cut.has is None else cut.has


def _filled(cut: Cut) -> Array:
    """Pixels with data, and others like the nearest of these."""
    missing = ~_has(cut)
    if missing.all():
        raise ValueError("hsi, msi: no part of the scene that was looked at has data in both; give --psf and --srf")
    return filled(formats.Raster(cut.pixels), missing).cube if missing.any() else cut.pixels


def _whole(part, ratio):
    """The span of coarse pixels and of the fine ones under them, no more."""
    fine = part.start * ratio, part.stop * ratio
    return Span(fine, fine, (fine,), (part.start, part.stop))


def _ends(part: slice) -> tuple[int, int]:
    return part.start, part.stop


def _name(where: tuple[slice, slice]) -> str:
    rows, cols = where
    return f"rows {rows.start} to {rows.stop} and columns {cols.start} to {cols.stop} of the HSI"


@dataclass(frozen=True, eq=False)
class Adjusted:
    """An image as tiles read it, with gaps filled or brought to the other's units.

    Attributes
    ----------
    image : Image
        As it stands in its file.
    levels : Levels or None
        Of an image whose values are scale × those wanted + offset.
    fill : bool
        Whether missing pixels are like the nearest of a window that is not; a window without any data stays without.
    """

    image: Any
    levels: Levels | None = None
    fill: bool = False

    @property
    def portable(self) -> bool:
        return self.image.portable

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.image.shape

    @property
    def dtype(self) -> np.dtype:
        stored = self.image.dtype
        return stored if self.levels is None or stored.kind == "f" else np.dtype(np.float64)

    def read(self, rows: slice, cols: slice) -> Array:
        values = self.image.read(rows, cols)
        missing = ~self.image.valid(rows, cols) if self.fill else np.zeros(0, bool)
        if missing.any() and not missing.all():
            values = filled(formats.Raster(values), missing).cube
        return values if self.levels is None else ((values - self.levels.offset) / self.levels.scale).astype(self.dtype)

    def valid(self, rows: slice, cols: slice) -> Mask | None:
        has = self.image.valid(rows, cols)
        return None if self.fill and has.any() else has

    def identity(self) -> str:
        return f"{self.image.identity()} {self.levels!r} filled: {self.fill}"
