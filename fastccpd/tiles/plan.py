"""Where tiles lie, what they read, and how they are joined: plain numbers, made once and kept.

Tiles are laid out on the coarse grid. Each has a core; the cores cover the scene without overlap. It reads a window
around its core, wider by the overlap, and sees the coarse pixels whose blur lies inside the window, with the rows of P1
and P2 as they are: a row that was cut and made to sum to one again would be the row of another blur. Three widths, in
fine pixels, make the overlap:

    reach   how far the blur of a coarse pixel goes beyond that pixel: within it from the window's edge no coarse
            pixel is seen,
    PRIOR   how far what is wrong there spreads into the window,
    BLEND   half the width over which two tiles are blended, about the line between their cores.

A method that looks for what is alike all over a window may need a least window; small tiles then overlap by more.

The weights of a tile rise in a straight line over that width; those of neighbours sum to one, along rows and along
columns, and so do their products.

Where a blur goes round, from one end of the scene to the other, the window has a second run: the far end's few rows. A
tile that is taken to go round in itself has a window as wide on all sides, which goes on at the far end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..model.checks import as_count
from ..model.types import Array, Operator

#: The sizes that tiles have, in fine pixels, and the one that is tried first.
LADDER = (4096, 3072, 2048, 1536, 1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32)
DEFAULT_TILE = 512

# Side in fine pixels of the blocks of the first pass.
FIRST_BLOCK = 512

PRIOR, BLEND = 8, 8

Range = tuple[int, int]


@dataclass(frozen=True)
class Span:
    """A tile along one axis, in half-open ranges.

    Attributes
    ----------
    core : (start, stop)
        Fine pixels that are this tile's alone to answer for.
    kept : (start, stop)
        Fine pixels where its weight is not zero: the core, and half of each blend.
    runs : tuple of (start, stop)
        Fine pixels that are read: the window, and what the blur sees of the scene's far end.
    coarse : tuple of (start, stop)
        Coarse pixels that are seen.
    """

    core: Range
    kept: Range
    runs: tuple[Range, ...]
    coarse: tuple[Range, ...]

    @property
    def fine(self) -> Array:
        """The indices of what is read."""
        return _indices(self.runs)

    @property
    def seen(self) -> Array:
        """The indices of the coarse pixels."""
        return _indices(self.coarse)

    @property
    def inside(self) -> slice:
        """Where `kept` lies in what is read."""
        first = int(np.flatnonzero(self.fine == self.kept[0])[0])
        return slice(first, first + self.kept[1] - self.kept[0])


@dataclass(frozen=True)
class Plan:
    """How a scene is cut into tiles.

    Attributes
    ----------
    shape : (I, J)
        Of the fine grid.
    coarse_shape : (I_H, J_H)
    tile : int
        The size that was asked for; cores are of about that size, and of one size as far as can be.
    overlap : (rows, columns)
        How much wider a window is than its core, on each side.
    periodic : bool
        Whether each tile is taken to go round in itself, for methods that need that.
    rows, cols : tuple of Span
        The tiles are all pairs of these.
    block : int
        Side in fine pixels of the blocks of the first pass: sums over other blocks are rounded otherwise.
    """

    shape: tuple[int, int]
    coarse_shape: tuple[int, int]
    tile: int
    overlap: tuple[int, int]
    periodic: bool
    rows: tuple[Span, ...]
    cols: tuple[Span, ...]
    block: int

    def __len__(self) -> int:
        return len(self.rows) * len(self.cols)

    def tiles(self) -> Iterator[tuple[int, int]]:
        """The ids of all tiles, row by row."""
        return ((r, c) for r in range(len(self.rows)) for c in range(len(self.cols)))

    def pixels(self, tile: tuple[int, int]) -> int:
        """How many fine pixels a tile reads."""
        return len(self.rows[tile[0]].fine) * len(self.cols[tile[1]].fine)

    def largest(self, hsi_bands: int, msi_bands: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Shapes that the images of no tile exceed."""
        fine = [max(len(span.fine) for span in spans) for spans in (self.rows, self.cols)]
        coarse = [max(len(span.seen) for span in spans) for spans in (self.rows, self.cols)]
        return (coarse[0], coarse[1], hsi_bands), (fine[0], fine[1], msi_bands)

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Plan":
        """The plan that `as_json` gave."""

        def span(entry):
            runs, coarse = (tuple(map(_pair, entry[name])) for name in ("runs", "coarse"))
            return Span(runs=runs, coarse=coarse, core=_pair(entry["core"]), kept=_pair(entry["kept"]))

        rows, cols = (tuple(map(span, value[name])) for name in ("rows", "cols"))
        return Plan(
            shape=_pair(value["shape"]),
            coarse_shape=_pair(value["coarse_shape"]),
            tile=int(value["tile"]),
            overlap=_pair(value["overlap"]),
            periodic=bool(value["periodic"]),
            rows=rows,
            cols=cols,
            block=int(value["block"]),
        )


def as_tile(tile: Any) -> int:
    """A side of tiles, checked."""
    return as_count(tile, "tile", least=8)


def make_plan(
    P1: Operator,
    P2: Operator,
    tile: int = DEFAULT_TILE,
    *,
    periodic: bool = False,
    block: int = FIRST_BLOCK,
    least_window: int = 0,
) -> Plan:
    """The `Plan` of a scene that P1 and P2 blur and decimate.

    Parameters
    ----------
    P1, P2 : (I_H, I) and (J_H, J) matrices, scipy.sparse in compressed rows
    tile : int
        Side of a tile in fine pixels.
    periodic : bool
        Whether each tile is taken to go round in itself.
    block : int
        Side of the blocks of the first pass.
    least_window : int
        How wide windows are at least, in fine pixels, where the scene does not end.

    Returns
    -------
    Plan
        Where each tile lies, and what is kept of it.

    Examples
    --------
    >>> from fastccpd.imaging import gaussian
    >>> from fastccpd.tiles import make_plan
    >>> plan = make_plan(*gaussian((100, 60), 4, phase=1.5, boundary="reflect"), tile=48)
    >>> len(plan), [span.core for span in plan.rows]
    (6, [(0, 32), (32, 64), (64, 100)])
    """
    tile = as_tile(tile)
    spans, overlaps = zip(*(_spans(P, tile, periodic, least_window) for P in (P1, P2)), strict=True)
    shapes = (P1.shape[1], P2.shape[1]), (P1.shape[0], P2.shape[0])
    return Plan(*shapes, tile, (overlaps[0], overlaps[1]), periodic, spans[0], spans[1], block)


def weights(spans: Sequence[Span], index: int) -> Array:
    """How much each kept pixel of one tile counts along an axis; over all tiles these sum to one."""
    span = spans[index]
    total = np.ones(span.kept[1] - span.kept[0])
    before, after = span.core[0] - span.kept[0], span.kept[1] - span.core[1]
    if before:
        total[: 2 * before] = _rise(before)
    if after:
        total[-2 * after :] = 1.0 - _rise(after)  # what the neighbour leaves
    return total


def _rise(width):
    return (np.arange(2 * width) + 0.5) / (2 * width)


def supports(P: Operator, start: int = 0, stop: int | None = None) -> Array:
    """(n, 2): the first and the end of the fine pixels that each coarse one from `start` to `stop` sees.

    Of a blur that goes round the scene's end they lie beyond it: below 0, or above the size.
    """
    coarse, fine = P.shape
    stop = int(coarse if stop is None else stop)
    centres = middles(P, np.arange(start, stop, dtype=np.int64))
    found = np.stack([centres, centres + 1], axis=1)  # of one that sees nothing
    begins, ends = P.indptr[start:stop], P.indptr[start + 1 : stop + 1]
    seeing = np.flatnonzero(ends > begins)
    if seeing.size:
        first = begins[seeing[0]]
        columns, at = P.indices[first : ends[seeing[-1]]], begins[seeing] - first
        found[seeing, 0] = np.minimum.reduceat(columns, at)
        found[seeing, 1] = np.maximum.reduceat(columns, at) + 1
    for n in np.flatnonzero(found[:, 1] - found[:, 0] > fine // 2):  # none else can go round
        columns, middle = P.indices[begins[n] : ends[n]].astype(np.int64), centres[n]
        if _goes_round(columns, fine):
            columns = middle + (columns - middle + fine // 2) % fine - fine // 2
            found[n] = columns.min(), columns.max() + 1
    return found


def middles(P: Operator, coarse: Array) -> Array:
    """The fine pixels in the middle of coarse ones."""
    return ((2 * coarse + 1) * P.shape[1]) // (2 * P.shape[0])


def span_of(P: Operator, start: int, stop: int) -> Span:
    """What the coarse pixels from `start` to `stop` see, and no more: a window to gather figures from, not a tile."""
    fine, seen = P.shape[1], supports(P, start, stop)
    first, last = int(seen[:, 0].min()), int(seen[:, 1].max())
    if first < 0 and last > fine:
        window, runs = (0, fine), ((0, fine),)
    else:
        window = max(first, 0), min(last, fine)
        far = [(max(fine + first, window[1]), fine)] if first < 0 else [(0, min(last - fine, window[0]))]
        runs = (window, *((a, b) for a, b in far if a < b))
    return Span(window, window, runs, ((start, stop),))


def _goes_round(columns, fine):
    """Whether what is seen is two ends of the scene, and nothing between."""
    gaps = np.diff(np.sort(columns))
    return bool(gaps.size and gaps.max() > fine // 2)


def _spans(P, tile, periodic, least_window):
    """The tiles along one axis, and their overlap."""
    coarse, fine = P.shape
    seen = supports(P)
    corner = np.array([(a * fine) // coarse for a in range(coarse + 1)])
    reach = int(max((corner[:-1] - seen[:, 0]).max(), (seen[:, 1] - corner[1:]).max(), 0))
    count = -(-coarse // max(1, (tile * coarse) // fine))
    cuts = [(n * coarse) // count for n in range(count + 1)]
    narrowest = int(np.diff(corner[cuts]).min())
    overlap = max(reach + PRIOR + BLEND, -(-(least_window - narrowest) // 2))
    spans = []
    for n in range(count):
        core = int(corner[cuts[n]]), int(corner[cuts[n + 1]])
        blends = [_blend(corner, cuts, cut) for cut in (n, n + 1)]
        wide = core[0] - overlap + BLEND - blends[0], core[1] + overlap - BLEND + blends[1]
        kept = core[0] - blends[0], core[1] + blends[1]
        read = _going_round(wide, corner) if periodic and count > 1 else _cut(wide, corner, seen)
        spans.append(Span(core, kept, *read))
    return tuple(spans), overlap


def _going_round(wide, corner):
    """The fine and the coarse pixels of a window of whole coarse ones that goes on at the far end of the scene."""
    coarse, fine = len(corner) - 1, int(corner[-1])
    corners = np.concatenate([corner[:-1] - fine, corner[:-1], corner + fine])
    first, last = _whole_pixels(wide, corners)
    if last - first >= coarse:
        return ((0, fine),), ((0, coarse),)
    return _wrapped(int(corners[first]), int(corners[last]), fine), _wrapped(first - coarse, last - coarse, coarse)


def _wrapped(start, stop, size):
    """The runs of a range that may reach beyond an axis at one of its ends, in their order."""
    if start < 0:
        return (start + size, size), (0, stop)
    return ((start, stop),) if stop <= size else ((start, size), (0, stop - size))


def _cut(wide, corner, seen):
    """What a window of whole coarse pixels that ends with the scene reads, and the coarse pixels that it sees."""
    fine = int(corner[-1])
    first, last = _whole_pixels((max(wide[0], 0), min(wide[1], fine)), corner)
    return _seen((int(corner[first]), int(corner[last])), fine, seen)


def _whole_pixels(wide, corners):
    """The last corner at or before the one end, and the first at or after the other."""
    return int(np.searchsorted(corners, wide[0], side="right")) - 1, int(np.searchsorted(corners, wide[1]))


def _blend(corner, cuts, cut):
    """Half the width of a blend; none at the ends of the scene."""
    if cut in (0, len(cuts) - 1):
        return 0
    sides = corner[cuts[cut]] - corner[cuts[cut - 1]], corner[cuts[cut + 1]] - corner[cuts[cut]]
    return int(min(BLEND, *(side // 2 for side in sides)))


def _seen(window, fine, seen):
    """What a window reads, and the coarse pixels that it sees."""
    first = -(1 << 62) if window[0] == 0 else window[0]
    last = 1 << 62 if window[1] == fine else window[1]
    inside = np.flatnonzero((seen[:, 0] >= first) & (seen[:, 1] <= last))
    runs = [window]
    if window != (0, fine):
        below, above = int(min(seen[inside, 0].min(), 0)), int(max(seen[inside, 1].max() - fine, 0))
        far = (max(fine + below, window[1]), fine) if window[0] == 0 else (0, min(above, window[0]))
        runs += [far] if far[0] < far[1] else []
    return tuple(runs), ((int(inside[0]), int(inside[-1]) + 1),)


def _indices(runs):
    return np.concatenate([np.arange(*run) for run in runs])


def _pair(value) -> tuple[int, int]:
    first, last = value
    return int(first), int(last)
