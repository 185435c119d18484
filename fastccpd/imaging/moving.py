"""Pictures moved by parts of a pixel, whole or block by block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..model.types import Array, Mask, Operator
from .psf import interpolation


@dataclass(frozen=True)
class Move:
    """What was `by` pixels further down and to the right comes to its place, by polynomials through six pixels.

    A block is made of the pixels around its own, so blocks fit together.

    Attributes
    ----------
    shape : (rows, columns, …)
        Of the picture.
    by : (rows, columns)
    """

    shape: Sequence[int]
    by: Sequence[float]

    @cached_property
    def _operators(self) -> tuple[Operator, Operator]:
        rows, columns = (
            interpolation(int(size), float(by), "reflect") for size, by in zip(self.shape[:2], self.by, strict=True)
        )
        return rows, columns

    def image(self, read: Callable[[slice, slice], Array], rows: slice, columns: slice) -> Array:
        """A block of the moved picture; NaN where what it is made of is.

        Parameters
        ----------
        read : callable(rows, columns) -> (rows, columns, bands) array
            Gives blocks of the picture.
        rows, columns : slice

        Returns
        -------
        (rows, columns, bands) array
        """
        parts = [P[part] for P, part in zip(self._operators, (rows, columns), strict=True)]
        low, high = zip(*((int(P.indices.min()), int(P.indices.max()) + 1) for P in parts))
        values = read(slice(low[0], high[0]), slice(low[1], high[1]))
        missing = np.asarray(np.isnan(values).any(axis=2))
        if missing.any():
            values = like_nearest(values, missing)
        P1, P2 = (P[:, start:stop] for P, start, stop in zip(parts, low, high, strict=True))
        down = (P1 @ values.reshape(len(values), -1)).reshape(P1.shape[0], *values.shape[1:])
        moved = np.stack([P2 @ row for row in down]).astype(values.dtype, copy=False)
        if missing.any():

            def there(own_rows, own_columns):
                return missing[_within(own_rows, low[0]), _within(own_columns, low[1])]

            moved[self._made_of(there, rows, columns)] = np.nan
        return moved

    def mask(self, read: Callable[[slice, slice], Mask], rows: slice, columns: slice) -> Mask:
        """Where a block of the moved picture is made of marked pixels, or of what lies outside the picture.

        Parameters
        ----------
        read : callable(rows, columns) -> (rows, columns) bool array
            Gives blocks of the marks.
        rows, columns : slice

        Returns
        -------
        (rows, columns) bool array
        """
        marked = self._made_of(read, rows, columns)
        for axis, (part, by) in enumerate(zip((rows, columns), self.by, strict=True)):
            places = np.arange(part.start, part.stop) + by
            outside = (places <= -1.0) | (places >= self.shape[axis])  # of pixels that do not meet the picture
            marked |= outside[:, None] if axis == 0 else outside
        return marked

    def _made_of(self, read, rows, columns):
        """Whether either of the two pixels next to it, along each axis, is marked."""
        near = [
            [np.clip(np.arange(part.start, part.stop) + whole, 0, size - 1) for whole in _neighbours(by)]
            for part, by, size in zip((rows, columns), self.by, self.shape[:2], strict=True)
        ]
        low, high = zip(*((min(int(p.min()) for p in own), max(int(p.max()) for p in own) + 1) for own in near))
        marks = read(slice(low[0], high[0]), slice(low[1], high[1]))
        found = np.zeros((rows.stop - rows.start, columns.stop - columns.start), bool)
        for i in near[0]:
            for j in near[1]:
                found |= marks[np.ix_(i - low[0], j - low[1])]
        return found


# A pixel that has less than this part in a moved one, by its distance, does not count.
_LITTLE = 0.05


def _neighbours(by):
    """How far the pixels lie that a moved one is between; one where it is nearly a whole number of pixels."""
    return sorted({int(np.floor(by + _LITTLE)), int(np.ceil(by - _LITTLE))})


def _within(part, start):
    return slice(part.start - start, part.stop - start)


def like_nearest(values: Array, missing: Mask) -> Array:
    """A picture with every missing pixel like the nearest one that is not; zeros where all are missing.

    Parameters
    ----------
    values : (rows, columns, bands) array
    missing : (rows, columns) bool array
    """
    # Imported here: it takes longer to import than everything else of this module.
    from scipy.ndimage import distance_transform_edt

    if missing.all():
        return np.zeros_like(values)
    rows, columns = np.asarray(distance_transform_edt(missing, return_distances=False, return_indices=True))
    return values[rows, columns]
