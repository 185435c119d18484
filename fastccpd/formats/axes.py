"""Which axis of a file holds the bands, and the data of a file into a cube.

A cube is (rows, columns, bands). A file has these axes in the same order but with the bands at `band_axis`, so that
`in_order_of_file(cube, band_axis)` is a view of the cube that lies as the file does.
"""

import numpy as np

from ..model.checks import as_count

# A stretch of the file and its transposition should stay small beside the cube, and calls few.
_STRETCH = 1 << 26


def as_band_axis(band_axis):
    """0, 1 or 2; None stays None."""
    return None if band_axis is None else as_count(band_axis, "band_axis", least=-3, most=2) % 3


def chosen(band_axis):
    """The band axis of a file that declares none, and the layout in words."""
    if band_axis is None:
        return 2, f"stored as {_axes(2)}, the order taken where band_axis is not given"
    return band_axis, f"stored as {_axes(band_axis)}, as band_axis={band_axis} says"


def declared(path, axis, by, band_axis):
    """The layout in words of a file that declares its own; a band axis to the contrary is refused."""
    if band_axis not in (None, axis):
        raise ValueError(
            f"band_axis: got {band_axis}, but {path} declares {_axes(axis)} by its {by}; leave band_axis out"
        )
    return f"stored as {_axes(axis)}, as declared by its {by}"


def _axes(axis):
    names = ["rows", "columns"]
    names.insert(axis, "bands")
    return f"({', '.join(names)})"


def shape_of_cube(stored_shape, axis):
    """(rows, columns, bands) of a file's shape."""
    return (*(size for place, size in enumerate(stored_shape) if place != axis), stored_shape[axis])


def in_order_of_file(cube, axis):
    """A view of the cube with the axes where the file has them."""
    return np.moveaxis(cube, 2, axis)


def stretches(array):
    """Slices of the first axis that cover an array a moderate number of bytes at a time."""
    step = max(1, _STRETCH // max(1, array[:1].nbytes))
    return [slice(start, min(start + step, len(array))) for start in range(0, len(array), step)]


def fill(array, stream, dtype):
    """Fill an array, in the order of the file, with values of `dtype` from a binary stream."""
    for stretch in stretches(array):
        part = array[stretch]
        content = stream.read(part.size * dtype.itemsize)
        if len(content) != part.size * dtype.itemsize:
            raise ValueError("the data end too early")
        part[...] = np.frombuffer(content, dtype).reshape(part.shape)


def mapped_window(path, dtype, offset, stored_shape, axis, rows, cols, order="C"):
    """The (rows, columns, bands) array of two slices of a file of raw numbers.

    It is a copy: what a mapping has read counts as memory of the process for as long as the mapping lasts.
    """
    mapped = np.memmap(path, dtype, "r", offset, stored_shape, "F" if order == "F" else "C")
    return np.array(np.moveaxis(mapped, axis, 2)[rows, cols], dtype.newbyteorder("="), order="C")


def pour(array, stream):
    """Write an array to a binary stream in C order; `ndarray.tofile` would not notice that a disk is full."""
    for stretch in stretches(array):
        stream.write(np.ascontiguousarray(array[stretch]).data)
