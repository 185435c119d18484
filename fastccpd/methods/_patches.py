"""Overlapping square patches of an image: where they lie, their values, and their average.

A patch is named by its place, a number that counts the starts row by row. Starts along an axis are 0, step, 2·step, …,
and one more where the border is not reached, so that every pixel lies in some patch; none comes twice. A patch is never
larger than the image.
"""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..model.types import Array


def starts(length: int, size: int, step: int) -> Array:
    """Where patches of `size` begin along an axis: 0, step, 2·step, …, the last one flush with the border."""
    last = max(length - size, 0)
    return np.append(np.arange(0, last, step), last)


class Patches:
    """The patches of images of one shape.

    Parameters
    ----------
    shape : (I, J, ...)
        Of the images; further axes are not looked at.
    size, step : int
        Rows and columns of a patch, and how far its start moves.
    order : {"C", "F"}
        Whether the pixels inside a patch are counted row by row or column by column.

    Attributes
    ----------
    size : (int, int)
        Rows and columns of a patch: those asked for, or those of the image where it has fewer.
    grid : (int, int)
        How many places there are along rows and along columns.
    rows, columns : (N,) arrays
        The first pixel of each place.
    pixels : (N, q) array
        The pixels of each place, as numbers in the image row by row; q = size[0]·size[1].
    """

    def __init__(self, shape, size, step=1, order: Literal["C", "F"] = "C"):
        self.shape = I, J = tuple(shape[:2])
        self.size = min(size, I), min(size, J)
        rows, columns = (starts(n, q, step) for n, q in zip((I, J), self.size, strict=True))
        self.grid = len(rows), len(columns)
        self.rows, self.columns = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
        inside = np.add.outer(np.arange(self.size[0]) * J, np.arange(self.size[1])).ravel(order=order)
        self.pixels = np.add.outer(self.rows * J + self.columns, inside)

    def __len__(self):
        return len(self.pixels)

    @staticmethod
    def count(shape, size: int, step: int = 1) -> int:
        """How many patches images of a shape have, without making them."""
        rows, columns = (len(starts(n, min(size, n), step)) for n in shape[:2])
        return rows * columns

    def gather(self, image: Array, places: Array | slice = slice(None)) -> Array:
        """The patches at some places, (n, q, K), of an image (I, J, K)."""
        return np.take(image.reshape(-1, image.shape[2]), self.pixels[places], axis=0)

    def add(self, patches: Array, total: Array, places: Array | slice = slice(None)) -> None:
        """Add patches (n, q, K) at places that all differ to an image (I, J, K), in C order.

        Pixels of different patches at the same offset differ too, so that a fixed order of sums, and the same bytes,
        need no more than one addition an offset.
        """
        flat = total.reshape(-1, total.shape[2])
        pixels = self.pixels[places]
        for offset in range(pixels.shape[1]):
            flat[pixels[:, offset]] += patches[:, offset]

    def within(self, rows: slice, columns: slice) -> Array:
        """The places whose patches lie in a block of the image."""
        inside = (self.rows >= rows.start) & (self.rows + self.size[0] <= rows.stop)
        return np.flatnonzero(inside & (self.columns >= columns.start) & (self.columns + self.size[1] <= columns.stop))

    def coverage(self, places: Array | slice = slice(None)) -> Array:
        """How many patches at some places each pixel lies in, (I, J); of all places, at least one."""
        return np.bincount(self.pixels[places].ravel(), minlength=self.shape[0] * self.shape[1]).reshape(self.shape)

    def average(self, patches: Array) -> Array:
        """The image (I, J, K) in which each pixel is the mean of the patches (N, q, K) over it, all places in order."""
        total = np.zeros((*self.shape, patches.shape[2]))
        self.add(patches, total)
        total /= self.coverage()[:, :, None]
        return total


def fewer_clusters(method: Any, share: float) -> Any:
    """A method with so many clusters for a part of a scene that each has as many patches as one of the scene's."""
    return replace(method, clusters=max(1, round(share * method.clusters)))
