"""A scene that is kept as tiles, and joined block by block where it is asked for."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..estimation import Shared
from ..model.result import FusionResult, Status
from ..model.types import Array
from ..model.verdict import Verdict
from .memory import BLOCK, HELD
from .plan import Plan, weights
from .state import State


@dataclass(eq=False)
class FusedTiles:
    """A fused scene that is kept as tiles in a folder.

    Attributes
    ----------
    shape : (I, J, K)
    dtype : dtype
    plan : Plan
    shared : Shared or None
        What was found from the whole scene; None for methods that find all they need in each tile.
    verdict : Verdict
        Whether the images of the scene agree.
    method : str
    status : Status
        The worst of all tiles; `converged` if all have.
    statuses : dict of (row, column) to Status or None
        Of each tile; None for one without data.
    seconds : float
        Of this run, those before an interruption not counted.
    provenance : dict
        What would make it again: options, seed, versions, the plan.
    state : State
        The folder of the tiles.
    temporary : bool
        Whether that folder is removed when this is closed.
    """

    shape: tuple[int, int, int]
    dtype: Any
    plan: Plan
    shared: Shared | None
    verdict: Verdict
    method: str
    status: Status
    statuses: dict[tuple[int, int], Status | None]
    seconds: float
    provenance: dict[str, Any]
    state: State = field(repr=False)
    temporary: bool = field(default=False, repr=False)

    def __post_init__(self):
        self._held: OrderedDict[tuple[int, int], FusionResult | None] = OrderedDict()

    @property
    def converged(self) -> bool:
        return self.status.converged

    @property
    def sri(self) -> Array:
        """The whole image, in memory: only for scenes that fit there."""
        out = np.empty(self.shape, self.dtype)
        self.write(out)
        return out

    def render(self, rows: slice | None = None, cols: slice | None = None) -> Array:
        """A block of the image; NaN where the scene has no data."""
        return self._blended(rows, cols, lambda tile, r, c: tile.render(r, c))

    def uncertainty(self, rows: slice | None = None, cols: slice | None = None) -> Array:
        """A block of the expected error of each pixel, (rows, columns, 1), where it was asked for."""
        return self._blended(rows, cols, lambda tile, r, c: tile.uncertainty[r, c, None])

    def write(
        self,
        out: Any,
        progress: Callable[[int, int], Any] | None = None,
        *,
        uncertainty: bool = False,
        render: Callable[[slice, slice], Array] | None = None,
    ) -> None:
        """Write the image block by block, whole chunks at a time.

        Parameters
        ----------
        out : array, Zarr array, or object with write(rows, cols, block)
            What takes `out[rows, cols] = block` will do. Its `chunks`, if it has any, are what blocks are made of.
        progress : callable(done, total), optional
            Called after each block.
        uncertainty : bool
            Whether the expected error is written instead.
        render : callable(rows, columns) -> array, optional
            Gives the blocks. None: `render` of this, or `uncertainty`.
        """
        blocks = list(self._blocks(getattr(out, "chunks", None)))
        if render is None:
            render = self.uncertainty if uncertainty else self.render
        for done, (rows, cols) in enumerate(blocks, start=1):
            block = render(rows, cols).astype(self.dtype, copy=False)
            if hasattr(out, "write"):
                out.write(rows, cols, block)
            else:
                out[rows, cols] = block
            if progress is not None:
                progress(done, len(blocks))
        self._held.clear()  # a file that is finished now may take the memory

    def close(self) -> None:
        """Let go of the folder; one that was made for this run only is removed."""
        self._held.clear()
        if self.temporary:
            self.state.remove()
        else:
            self.state.close()

    def __enter__(self) -> "FusedTiles":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self):
        size = "×".join(map(str, self.shape))
        return f"<FusedTiles {self.method}: {size}, {len(self.plan)} tiles, {self.status}>"

    def _blocks(self, chunks):
        """Blocks of whole chunks, those of a row of tiles one below the other: so each tile is read about twice."""
        high, wide = (BLOCK, BLOCK) if chunks is None else (_whole(BLOCK, chunk) for chunk in chunks[:2])
        I, J, _ = self.shape
        band = max(high, max(span.core[1] - span.core[0] for span in self.plan.rows) // high * high)
        for top in range(0, I, band):
            for left in range(0, J, wide):
                for first in range(top, min(top + band, I), high):
                    yield slice(first, min(first + high, I, top + band)), slice(left, min(left + wide, J))

    def _blended(self, rows, cols, render):
        """Σ weight · tile over the tiles that have data, divided by the sum of their weights."""
        I, J, _ = self.shape
        (top, bottom, _), (left, right, _) = ((part or slice(None)).indices(n) for part, n in ((rows, I), (cols, J)))
        parts = []
        for r, c in self.plan.tiles():
            row, col = self.plan.rows[r], self.plan.cols[c]
            here = max(top, row.kept[0]), min(bottom, row.kept[1]), max(left, col.kept[0]), min(right, col.kept[1])
            if here[0] < here[1] and here[2] < here[3] and (tile := self._tile((r, c))) is not None:
                inside = (
                    slice(here[0] - row.kept[0], here[1] - row.kept[0]),
                    slice(here[2] - col.kept[0], here[3] - col.kept[0]),
                )
                weight = np.multiply.outer(weights(self.plan.rows, r)[inside[0]], weights(self.plan.cols, c)[inside[1]])
                place = slice(here[0] - top, here[1] - top), slice(here[2] - left, here[3] - left)
                parts.append((place, weight, render(tile, *inside)))
        size = bottom - top, right - left
        if len(parts) == 1 and parts[0][1].shape == size and (parts[0][1] == 1.0).all():
            return parts[0][2]
        bands = parts[0][2].shape[2] if parts else self.shape[2]
        total, sums = np.zeros((*size, bands)), np.zeros(size)
        while parts:
            place, weight, block = parts.pop(0)
            total[place] += weight[:, :, None] * block
            sums[place] += weight
        with np.errstate(invalid="ignore"):
            total /= sums[:, :, None]
        return total.astype(self.dtype)

    def _tile(self, tile):
        """A tile's result; a few are held."""
        if tile not in self._held:
            while len(self._held) >= HELD:
                self._held.popitem(last=False)
            self._held[tile] = self.state.tile(tile)
        self._held.move_to_end(tile)
        return self._held[tile]


def _whole(size, chunk):
    """The multiple of a chunk that is nearest to a size from below, and at least one."""
    return max(1, size // chunk) * chunk
