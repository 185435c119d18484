"""A piece of a scene as a problem of its own: what is read, and the operators cut to it."""

from dataclasses import dataclass, replace
from typing import Any

from scipy import sparse

from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.types import Operator
from .plan import Span, middles
from .sources import Cut, Source, take


@dataclass(frozen=True, eq=False)
class Piece:
    """A window of two images, and what lies between them there; it may go to another process.

    Attributes
    ----------
    hsi, msi : Source or Cut
    rows, cols : Span
    degradation : Degradation
        Of this piece.
    dtype : dtype or None
        What both images are cast to; None leaves that to `Problem`.
    """

    hsi: Source | Cut
    msi: Source | Cut
    rows: Span
    cols: Span
    degradation: Degradation
    dtype: Any = None

    def share_of(self, shape: tuple[int, int]) -> float:
        """How much of a scene of this shape, in fine pixels, the piece is."""
        return len(self.rows.fine) * len(self.cols.fine) / (shape[0] * shape[1])

    def read(self) -> "Piece":
        """The same, with what is not portable read."""
        rows, cols = self.rows, self.cols
        hsi = self.hsi if getattr(self.hsi, "portable", False) else take(self.hsi, rows.coarse, cols.coarse)
        msi = self.msi if getattr(self.msi, "portable", False) else take(self.msi, rows.runs, cols.runs)
        return replace(self, hsi=hsi, msi=msi)

    def problem(self, gaps: bool = True) -> Problem | None:
        """The problem; None where one of the images has no data at all.

        Parameters
        ----------
        gaps : bool
            Whether missing data are left out. Else they count as they are, for methods that leave out nothing.
        """
        hsi = take(self.hsi, self.rows.coarse, self.cols.coarse)
        msi = take(self.msi, self.rows.runs, self.cols.runs)
        masks = [None if cut.has is None or cut.has.all() else cut.has for cut in (hsi, msi)]
        if any(mask is not None and not mask.any() for mask in masks):
            return None
        cubes = [cut.pixels if self.dtype is None else cut.pixels.astype(self.dtype, copy=False) for cut in (hsi, msi)]
        given = dict(zip(("hsi_valid", "msi_valid"), masks)) if gaps else {}
        return Problem(cubes[0], cubes[1], self.degradation, **given)


def piece_of(
    hsi: Source,
    msi: Source,
    degradation: Degradation,
    rows: Span,
    cols: Span,
    *,
    periodic: bool = False,
    dtype: Any = None,
) -> Piece:
    """The piece of a scene that two spans stand for.

    Parameters
    ----------
    hsi, msi : Source
    degradation : Degradation
        Of the whole scene.
    rows, cols : Span
    periodic : bool
        Whether the piece is taken to go round in itself.
    dtype : dtype, optional
    """
    cut = _round if periodic else restricted
    operators = cut(degradation.P1, rows), cut(degradation.P2, cols)
    return Piece(hsi, msi, rows, cols, Degradation(*operators, degradation.PM), dtype)


def restricted(P: Operator, span: Span) -> Operator:
    """The rows of P that a span sees, whole."""
    return P[span.seen][:, span.fine]


def _round(P: Operator, span: Span) -> Operator:
    """The rows of P with what reaches beyond the window coming in again at its other end."""
    fine, size, seen = P.shape[1], len(span.fine), len(span.seen)
    entries = P[span.seen].tocoo()
    own = span.seen[entries.row]
    away = (entries.col - middles(P, own) + fine // 2) % fine - fine // 2  # beyond the scene's end, not round it
    place = middles(P, span.seen[0] + entries.row) + away - span.runs[0][0]  # a window may go on at the far end
    return sparse.coo_array((entries.data, (entries.row, place % size)), shape=(seen, size)).tocsr()
