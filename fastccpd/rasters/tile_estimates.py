"""Blur, shift, response, scale and offset of a scene in tiles, as far as they are not given: from one window of it.

All of these are one for the whole scene and take few pixels to find, so a window of some hundred coarse pixels a side
does: the one with the most data of nine that are spread over the scene, the middle first. Its estimates are as good as
those of an image of its size, and hold everywhere.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from .. import formats
from ..estimation import Levels, Shift, estimate_degradation, estimate_levels, estimate_response
from ..methods import Method
from ..model.checks import as_operator
from ..model.degradation import Degradation
from ..model.types import Array, Mask, Operator
from ..tiles import Span
from ..tiles.memory import PROCESS
from ..tiles.pieces import restricted
from ..tiles.plan import span_of
from ..tiles.sources import Cut, take
from . import operators
from .estimating import AUTO, aligned, say_unexplained, unexplained
from .gaps import filled
from .pair import Pair
from .preparation import OpenPair
from .remarks import Remarks

# Sides of the window in fine pixels, the largest that fits the memory, and how many of them along each axis there are
# to choose from; bytes that estimates take for each value of its images: measured 40 to 60.
_SIDES, _PLACES, _OF_WINDOW = (768, 576, 384, 256), 3, 60


def window_of(pair: OpenPair) -> tuple[slice, slice]:
    """The coarse rows and columns that are looked at: of nine places the first with data everywhere, or with most."""
    ratio, (rows, cols, bands) = pair.placement.grids.ratio, pair.hsi.shape
    allowed = (pair.memory - PROCESS) / _OF_WINDOW / (bands / ratio**2 + pair.msi.shape[2])
    side = next((side for side in _SIDES if min(side, rows * ratio) * min(side, cols * ratio) <= allowed), _SIDES[-1])
    rows, cols = (_places(size, ratio, side) for size in pair.hsi.shape[:2])
    found: list[tuple[float, tuple[slice, slice]]] = []
    for where in product(rows, cols):
        share = float(pair.hsi.valid(*where).mean() * pair.msi.valid(*_fine(where, pair)).mean())
        found.append((share, where))
        if share == 1.0:
            break
    return max(found, key=lambda entry: entry[0])[1]


def _places(size, ratio, side):
    """Slices of coarse pixels, the one in the middle first."""
    width = max(1, min(size, side // ratio))
    starts = sorted(
        {(size - width) * n // (_PLACES - 1) for n in range(_PLACES)}, key=lambda at: abs(2 * at + width - size)
    )
    return [slice(at, at + width) for at in starts]


def _fine(where, pair):
    ratio = pair.placement.grids.ratio
    return tuple(slice(part.start * ratio, part.stop * ratio) for part in where)


def settled_by_window(
    blur: operators.Blur | None, PM: Operator | None, pair: OpenPair, method: Method, align: bool, remarks: Remarks
) -> tuple[operators.Blur, Operator, OpenPair, Shift | None]:
    """Blur and response as they are used, for which bands, and the shift, like `settled` for a whole pair.

    Parameters
    ----------
    blur, PM, pair, method, remarks
        As of `_completed`.
    align : bool
        False: a blur that is given stays where it is, and a shift is a warning.
    """
    made, response, pair = _completed(blur, PM, pair, method, align, remarks)
    if blur is None and align:
        return made, response, pair, None
    where = window_of(pair)
    seen = _window(pair, *(_whole(part, pair.placement.grids.ratio) for part in where))
    here = replace(made, **{name: _cut(getattr(made, name), part) for name, part in zip(("P1", "P2"), where)})
    placed, shift = aligned(here, response, seen.as_pair(pair), method, align, remarks, estimated=PM is None)
    if placed is here or shift is None:
        return made, response, pair, shift
    made = operators.moved(made, (shift.rows, shift.columns), method.needs_periodic_blur)
    return *_completed(made, PM, pair, method, align, remarks), shift


def _cut(P, part):
    """What some coarse pixels see of the fine ones under them."""
    P = as_operator(P, "psf")
    ratio = P.shape[1] // P.shape[0]
    return P[part, part.start * ratio : part.stop * ratio]


def _completed(
    blur: operators.Blur | None, PM: Operator | None, pair: OpenPair, method: Method, align: bool, remarks: Remarks
) -> tuple[operators.Blur, Operator, OpenPair]:
    """Blur and response with what is None estimated, as `completed` does for a pair that is whole in memory."""
    if blur is not None and PM is not None:
        return blur, PM, pair
    where = window_of(pair)
    wavelengths = pair.hsi.header.wavelengths
    wavelengths = None if wavelengths is None else np.asarray(wavelengths)[pair.hsi.bands]
    if blur is not None:
        seen = _window(pair, span_of(blur.P1, *_ends(where[0])), span_of(blur.P2, *_ends(where[1])))
        here = restricted(blur.P1, seen.rows), restricted(blur.P2, seen.cols)
        masks: dict[str, Any] = {"hsi_valid": seen.hsi_valid, "msi_valid": seen.msi_valid}
        response = estimate_response(*seen.images, *here, wavelengths=wavelengths, **masks)
        fewer = _without_unexplained(response, here, seen, pair, remarks)
        if fewer is not pair:
            return _completed(blur, PM, fewer, method, align, remarks)
        remarks.note(f"the response is {response}, by {_name(where)}")
        return blur, response.PM, pair
    seen = _window(pair, *(_whole(part, pair.placement.grids.ratio) for part in where))
    boundary = "periodic" if method.needs_periodic_blur else "reflect"
    found = estimate_degradation(
        *seen.images,
        pair.placement.grids.ratio,
        PM=PM,
        shift=None if align else (pair.placement.grids.offset or (0.0, 0.0)),
        wavelengths=wavelengths,
        boundary=boundary,
        hsi_valid=seen.hsi_valid,
        msi_valid=seen.msi_valid,
    )
    if found.response is not None:
        fewer = _without_unexplained(found.response, (found.degradation.P1, found.degradation.P2), seen, pair, remarks)
        if fewer is not pair:
            return _completed(blur, PM, fewer, method, align, remarks)
        remarks.note(f"the response is {found.response}, by {_name(where)}")
    remarks.note(f"the blur is estimated from the images: {found.blur}, by {_name(where)}")
    settings = {"psf": AUTO, "assumed": False, **found.figures()}
    P1, P2 = found.blur.operators(pair.msi.shape[:2], pair.hsi.shape[:2], boundary)
    return operators.Blur(P1, P2, f"estimated, {found.blur}", settings), found.degradation.PM, pair


def _without_unexplained(response, blur, seen, pair, remarks):
    """The pair without MSI bands that no response explains; itself where there are none."""
    strange = unexplained(response, blur, seen.images[1], seen.hsi_valid)
    if not strange.any():
        return pair
    used = np.flatnonzero(pair.msi.bands)
    header = pair.msi.header
    wavelengths = None if header.wavelengths is None else np.asarray(header.wavelengths)[used]
    names = None if header.names is None else tuple(header.names[band] for band in used)
    say_unexplained(strange, wavelengths, names, remarks)
    bands = pair.msi.bands.copy()
    bands[used[strange]] = False
    return replace(pair, msi=pair.msi.with_bands(bands))


@dataclass(frozen=True, eq=False)
class Window:
    """Both images of a part of the scene, their gaps filled, and where they have data."""

    rows: Span
    cols: Span
    images: tuple[Array, Array]
    hsi_valid: Mask
    msi_valid: Mask

    def as_pair(self, scene: OpenPair) -> Pair:
        """A pair of its own, of the bands that are used."""
        hsi, msi = (formats.Raster(image) for image in self.images)
        used, gaps = (scene.hsi.bands, scene.msi.bands), (~self.hsi_valid, ~self.msi_valid)
        return Pair(hsi, msi, scene.placement.grids, used[0], used[1], gaps[0], gaps[1])


def levels_by_window(pair: OpenPair, degradation: Degradation) -> Levels | None:
    """Scale and offset between the images.

    Parameters
    ----------
    pair : OpenPair
    degradation : Degradation
        Of the whole scene.
    """
    where = window_of(pair)
    seen = _window(pair, *(span_of(P, *_ends(part)) for P, part in zip((degradation.P1, degradation.P2), where)))
    here = Degradation(restricted(degradation.P1, seen.rows), restricted(degradation.P2, seen.cols), degradation.PM)
    return estimate_levels(*seen.images, here, seen.hsi_valid, seen.msi_valid)


def _window(pair, rows, cols):
    cuts = take(pair.hsi, rows.coarse, cols.coarse), take(pair.msi, rows.runs, cols.runs)
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
    return Span(fine, fine, (fine,), ((part.start, part.stop),))


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
