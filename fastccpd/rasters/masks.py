"""Masks from files: any raster of one band, nonzero where pixels are to be left out, or of some classes there.

`FILE` masks where it is not zero; `scl.tif::3,8,9,10` where it is one of these, as in the scene classification (SCL) of
Sentinel-2: 3 cloud shadow, 8 and 9 cloud, 10 cirrus. A mask that is georeferenced may lie on any grid; one that is not
must have the size of its image's file.
"""

import re
from dataclasses import dataclass
from typing import cast

import numpy as np

from .. import formats
from ..formats.table import windows as open_windows
from ..model import types
from .mapping import extent_name, mapping, part
from .placement import Place, place
from .warping import MASKS, warped_window

# How many pixels along each side are asked whether the mask lies there, and how many of the image are read at a time.
_ASKED, _BLOCK = 101, 1 << 22

_CLASSES = re.compile(r"\d+(,\d+)*")


@dataclass(frozen=True)
class Mask:
    """Where pixels of an image are left out, on the grid on which the image is taken.

    Attributes
    ----------
    windows : formats.Windows
        The file.
    classes : tuple of int or None
        The values that mask; None: all but zero.
    taken : Place
    """

    windows: formats.Windows
    classes: tuple[int, ...] | None
    taken: Place

    def read(self, rows: slice, cols: slice) -> types.Mask:
        """True where a rectangle of the image is masked."""
        shape = rows.stop - rows.start, cols.stop - cols.start
        if not self.taken.warped:
            top, left = self.taken.corner
            return self._flags(
                slice(top + rows.start, top + rows.stop), slice(left + cols.start, left + cols.stop)
            ).astype(bool)[:, :, 0]
        header = self.windows.header
        georeference, of = (
            part(self.taken.grid, rows.start, cols.start),
            cast(formats.Georeference, header.georeference),
        )
        found = warped_window(self._flags, of, header.shape[:2], georeference, shape, MASKS)
        return np.zeros(shape, bool) if found is None else found[:, :, 0] != 0

    @property
    def share(self) -> float:
        """The part of the image on which the mask lies."""
        if not self.taken.warped:
            return 1.0
        asked = [np.linspace(0.5, size - 0.5, min(size, _ASKED)) for size in self.taken.shape]
        centres = np.stack([side.ravel() for side in np.meshgrid(*asked, indexing="ij")], axis=1)
        header = self.windows.header
        places = mapping(self.taken.grid, cast(formats.Georeference, header.georeference))(centres)
        return float(((places >= 0.0) & (places <= header.shape[:2])).all(axis=1).mean())

    def is_empty(self) -> bool:
        """Whether no pixel of the image is masked."""
        rows, columns = self.taken.shape
        step = max(1, _BLOCK // columns)
        blocks = (slice(start, min(start + step, rows)) for start in range(0, rows, step))
        return not any(self.read(block, slice(0, columns)).any() for block in blocks)

    def _flags(self, rows, cols):
        values = self.windows.read(rows, cols)
        flags = values != 0 if self.classes is None else np.isin(values, self.classes)
        return flags.astype(np.uint8)


def open_mask(spec: types.Path, option: str, image: formats.Header, taken: Place) -> Mask:
    """The mask that an option names.

    Parameters
    ----------
    spec : path
        `FILE` or `FILE::CLASS,CLASS`.
    option : str
        For messages.
    image : Header
        The file of the image.
    taken : Place
        How the image is taken.

    Returns
    -------
    Mask
    """
    path, classes = split(spec)
    windows = open_windows(path)
    header = windows.header
    if header.shape[2] != 1:
        raise ValueError(f"{option}: {path} has {header.shape[2]} bands; a raster of one band is needed")
    if header.georeference is not None and taken.georeference is not None:
        mask = Mask(windows, classes, place(header, taken.georeference, taken.shape))
        if mask.share == 0.0:
            grids = (header.georeference, header.shape[:2]), (taken.georeference, taken.shape)
            extents = [extent_name(*grid) for grid in grids]
            raise ValueError(f"{option}: {path} covers {extents[0]}, and the image {extents[1]}; they must meet")
        return mask
    if header.shape[:2] != image.shape[:2] or taken.warped:
        size = "×".join(map(str, header.shape[:2]))
        needed = "×".join(map(str, image.shape[:2]))
        raise ValueError(
            f"{option}: {path} has {size} pixels and no grid in common with the image; a georeferenced raster, or one "
            f"of the image's {needed} pixels, is needed"
        )
    return Mask(windows, classes, taken)


def split(spec: types.Path) -> tuple[str, tuple[int, ...] | None]:
    """The path and the classes of `FILE::CLASS,CLASS`; None where no classes are named."""
    text = str(spec)
    path, mark, classes = text.rpartition("::")
    if mark and path and _CLASSES.fullmatch(classes):
        return path, tuple(int(value) for value in classes.split(","))
    return text, None
