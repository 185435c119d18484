"""Two files made ready for fusion: where they are taken from, in which units, which bands and pixels.

`open_pair` looks at the files and gives two `Image`s, which are read by windows; `OpenPair.load` reads them whole.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .. import formats
from ..formats.inspection import check_memory
from ..formats.table import windows as open_windows
from ..methods import Method
from ..model import types
from ..model.checks import working_dtype
from ..model.shapes import size_name
from . import bands
from .images import Image
from .masks import open_mask, split
from .pair import Pair, band_axis_of
from .placement import Placement, placement
from .remarks import Remarks


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How two files are made ready.

    Attributes
    ----------
    ratio : int, optional
        MSI pixels per HSI pixel, in each direction. None: by georeferencing, the nearest whole number, else by sizes.
    band_axis : int, optional
        Which stored axis holds the bands, in npy, npz and MAT files. None: the last.
    grid : "hsi", "msi" or path
        On which fine grid the result lies (`fastccpd.rasters.placement`).
    bbox : (left, bottom, right, top), optional
        What to cut out, in the coordinates of that grid.
    window : (rows, columns), optional
        What to cut out, as two slices of HSI pixels.
    keep_bands : str, optional
        HSI bands that are used although they are constant or marked as bad: "all", or "7,12-15", counted from 1.
    hsi_scale, hsi_offset, msi_scale, msi_offset : float, optional
        What turns stored values into physical ones, value × scale + offset. None: what the file says.
    hsi_mask, msi_mask : path, optional
        Rasters that are not zero where pixels are left out; `FILE::3,8,9` names the values that mask.
    """

    ratio: int | None = None
    band_axis: int | None = None
    grid: types.Path = "hsi"
    bbox: tuple[float, float, float, float] | None = None
    window: tuple[slice, slice] | None = None
    keep_bands: str | None = None
    hsi_scale: float | None = None
    hsi_offset: float | None = None
    msi_scale: float | None = None
    msi_offset: float | None = None
    hsi_mask: types.Path | None = None
    msi_mask: types.Path | None = None

    def __post_init__(self):
        for name in ("hsi_scale", "hsi_offset", "msi_scale", "msi_offset"):
            value = getattr(self, name)
            if value is not None and (not np.isfinite(value) or (name.endswith("scale") and value == 0)):
                option = "--" + name.replace("_", "-")
                raise ValueError(
                    f"{option}: got {value}; a finite number{' other than 0' if 'scale' in name else ''} is needed"
                )

    def rasters_read(self) -> dict[str, types.Path]:
        """The rasters that it names beside the two images, by the names of its attributes."""
        masks = {"hsi_mask": self.hsi_mask, "msi_mask": self.msi_mask}
        named: dict[str, types.Path] = {name: split(mask)[0] for name, mask in masks.items() if mask is not None}
        return named if str(self.grid) in ("hsi", "msi") else named | {"grid": self.grid}

    def files_read(self) -> list[Any]:
        """The files that it names, beside the two images."""
        return [file for path in self.rasters_read().values() for file in formats.files_read(path)]

    def given(self) -> dict[str, Any]:
        """What differs from the default, for a record of how something was made."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: str(value) for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True)
class OpenPair:
    """Two files that were looked at: images to be read by windows, and how they lie to each other.

    Attributes
    ----------
    hsi, msi : Image
        With the bands that are used.
    placement : Placement
    memory : float
        Bytes that a look at a part of them may take.
    """

    hsi: Image
    msi: Image
    placement: Placement
    memory: float = math.inf

    def memory_needed(self, method: Method, dtype: Any = None) -> int:
        """Bytes that both images, the method and the result take where none of them is in tiles.

        Parameters
        ----------
        method : Method
        dtype : dtype, optional
            That they are worked on in. None: by the images.
        """
        shapes = self.hsi.shape, self.msi.shape
        work = np.dtype(dtype) if dtype is not None else working_dtype(self.hsi, self.msi)
        sizes = [math.prod(shape) for shape in (*shapes, (*shapes[1][:2], shapes[0][2]))]
        # Images as they are stored and as they are worked on; the result and a copy of it that is written.
        return int(method.memory_needed(*shapes, work)) + 2 * work.itemsize * sum(sizes)

    def load(self) -> Pair:
        """Both images, whole and with all bands."""
        everything = slice(None), slice(None)
        images, masks = [], []
        for image in (self.hsi, self.msi):
            header = image.header
            check_memory(header.source["path"], [image.with_bands(np.ones_like(image.bands))], None)
            described = {name: getattr(header, name) for name in ("wavelengths", "fwhm", "names")}
            nodata = header.nodata if image.dtype == header.dtype else None
            source = header.source | formats.hashes_of(header)
            cube = image.read(*everything)
            if not image.bands.all():
                # Zeros for bands that are left out: read with the others, their gaps would be those of every band.
                used, cube = cube, np.zeros((*cube.shape[:2], len(image.bands)), cube.dtype)
                cube[:, :, image.bands] = used
            images.append(
                formats.Raster(
                    cube,
                    **described,
                    nodata=nodata,
                    georeference=image.taken.georeference,
                    bad_bands=~image.bands,
                    source=source,
                )
            )
            masks.append(~image.valid(*everything))
        hsi = self.hsi.header
        described = {"wavelengths": hsi.wavelengths, "fwhm": hsi.fwhm, "names": hsi.names}
        bands = self.hsi.bands, self.msi.bands
        return Pair(images[0], images[1], self.placement.grids, *bands, masks[0], masks[1], **described)


def open_pair(
    hsi: types.Path, msi: types.Path, wanted: Preparation, remarks: Remarks, *, scan: bool = True
) -> OpenPair:
    """Look at two files, and say how they are made ready.

    Parameters
    ----------
    hsi, msi : path
    wanted : Preparation
    remarks : Remarks
        Gets what was found or assumed.
    scan : bool
        False reads no pixel, and takes all bands for good ones.

    Returns
    -------
    OpenPair
    """
    files = {}
    for name, path in (("hsi", hsi), ("msi", msi)):
        file = files[name] = open_windows(path, band_axis=band_axis_of(path, wanted.band_axis))
        remarks.note(f"{name}: {size_name(file.shape)} {file.dtype}, {file.header.source['layout']}")
        for note in file.header.source["notes"]:
            remarks.note(f"{name}: {note}")
    grid = str(wanted.grid) if str(wanted.grid) in ("hsi", "msi") else formats.header(wanted.grid)
    headers = {name: file.header for name, file in files.items()}
    where = placement(
        headers["hsi"], headers["msi"], grid=grid, ratio=wanted.ratio, bbox=wanted.bbox, window=wanted.window
    )
    for note in where.notes:
        remarks.note(note)
    if where.grids.ratio_from != "given":
        remarks.note(f"the ratio is {where.grids.ratio}, by {where.grids.ratio_from}")
    for note in where.grids.notes:
        remarks.warn(note)
    images = {name: _image(name, file, getattr(where, name), wanted, remarks) for name, file in files.items()}
    if not scan:
        return OpenPair(images["hsi"], images["msi"], where)
    for name, image in images.items():
        _look_at_mask(name, image.mask, remarks)
    images["hsi"] = images["hsi"].with_bands(_good("hsi", images["hsi"], wanted.keep_bands, remarks))
    images["msi"] = images["msi"].with_bands(_good("msi", images["msi"], None, remarks))
    images["msi"] = images["msi"].with_bands(_covered(images["msi"], images["hsi"], remarks))
    return OpenPair(images["hsi"], images["msi"], where)


def _image(name, file, taken, wanted, remarks):
    header = file.header
    scaling = {}
    for part, plain in (("scale", 1.0), ("offset", 0.0)):
        given, said = getattr(wanted, f"{name}_{part}"), getattr(header, part)
        scaling[part] = said if given is None else np.full(header.shape[2], float(given))
        if scaling[part] is not None and (scaling[part] == plain).all():
            scaling[part] = None
    if any(part is not None for part in scaling.values()):
        who = (
            "the file says"
            if getattr(wanted, f"{name}_scale") is getattr(wanted, f"{name}_offset") is None
            else "given"
        )
        remarks.note(f"{name}: values are those stored{_scaling_name(**scaling)}, as {who}")
    mask = getattr(wanted, f"{name}_mask")
    mask = None if mask is None else open_mask(mask, f"--{name}-mask", header, taken)
    return Image(file, taken, **scaling, mask=mask)


def _look_at_mask(name, mask, remarks):
    """Say what a mask may have been meant to do, and does not."""
    if mask is None:
        return
    if mask.share < 1.0:
        remarks.warn(f"--{name}-mask: lies on {mask.share:.0%} of the {name.upper()}; the rest is not masked")
    if mask.is_empty():
        remarks.note(f"--{name}-mask: masks no pixel of the {name.upper()}")


def _scaling_name(scale, offset):
    words = []
    for values, mark in ((scale, " × "), (offset, " + ")):
        if values is not None:
            alike = values.min() == values.max()
            words.append(mark + (f"{values[0]:g}" if alike else f"{values.min():g} to {values.max():g} by band"))
    return "".join(words).replace("+ -", "- ")


def _good(name, image, keep, remarks):
    """The bands of an image that are used by what is known of them alone."""
    header = image.header
    found = bands.extremes(image)
    spared = bands.kept(keep, header.shape[2])
    marked = np.zeros_like(spared) if header.bad_bands is None else header.bad_bands & ~spared
    constant = found.constant & ~spared & ~marked
    empty, sparse = found.empty & ~marked, found.sparse & ~marked
    reasons = {
        "are marked as bad and": marked,
        "hold no data and are": empty,
        "have data at less than half of the pixels and are": sparse,
        "are constant and": constant & ~sparse,
    }
    for why, left_out in reasons.items():
        if left_out.any():
            numbers = bands.listed(left_out, header.wavelengths, header.names if name == "msi" else None)
            remarks.note(f"{name}: {int(left_out.sum())} of {left_out.size} bands {why} left out: {numbers}")
    in_vain = spared & (found.empty | found.sparse)
    if in_vain.any() and keep != "all":
        numbers = bands.listed(in_vain, header.wavelengths, None)
        remarks.warn(f"--keep-bands: asks for bands without data, which cannot be kept: {numbers}")
    good = ~(marked | empty | sparse | constant)
    if found.empty.all():
        pixels = math.prod(image.taken.shape)
        raise ValueError(f"{name}: {pixels} of {pixels} pixels are nodata; some data are needed")
    if not good.any():
        why = "every band is marked as bad" if marked.all() else "every band is marked as bad or has no data"
        raise ValueError(f"{header.source.get('path', name)}: {why}; some are needed")
    return good


def _covered(msi, hsi, remarks):
    """The good bands of the MSI without those that the HSI does not cover."""
    header = msi.header
    beyond = bands.uncovered(header, hsi.header, hsi.bands) & msi.bands
    if not beyond.any():
        return msi.bands
    if (beyond | ~msi.bands).all():
        raise ValueError("msi: by its wavelengths the HSI covers none of its bands; some are needed")
    numbers = bands.listed(beyond, header.wavelengths, header.names)
    remarks.note(f"msi: {int(beyond.sum())} of {beyond.size} bands are not covered by the HSI and left out: {numbers}")
    return msi.bands & ~beyond
