"""npy and npz: headers by numpy's own parser, data as raw numbers, so that nothing in them can run."""

import math
import warnings
import zipfile

import numpy as np
from numpy.lib import format as npy

from .axes import chosen, fill, in_order_of_file, pour, shape_of_cube
from .inspection import beginning, check_array, check_length, expect, reading
from .named import Variable, open_variables, variables_of
from .raster import Header, Stored


def open_npy(path, band_axis):
    """The one array of an npy file."""
    head, size = beginning(path)
    expect(path, head, "an npy file")
    with open(path, "rb") as file, reading(path, "an npy file"):
        shape, fortran, dtype = _read_header(file)
        offset = file.tell()
    check_array(path, shape, dtype)
    check_length(path, offset + math.prod(shape) * dtype.itemsize, size)
    axis, layout = chosen(band_axis)

    def load(cube):
        with open(path, "rb") as file, reading(path, "an npy file"):
            file.seek(offset)
            _fill(in_order_of_file(cube, axis), file, dtype, fortran)

    source = {"stored_shape": shape, "band_axis": axis, "layout": layout}
    return Stored(Header(shape_of_cube(shape, axis), dtype.newbyteorder("="), source=source), load)


def write_npy(temporaries, raster):
    """The cube alone."""
    declared = {"descr": npy.dtype_to_descr(raster.dtype), "fortran_order": False, "shape": raster.shape}
    with open(temporaries[0], "xb") as file:
        npy.write_array_header_1_0(file, declared)
        pour(raster.cube, file)


def open_npz(path, band_axis, variable):
    """The cube of an npz file, and what the other arrays say of it."""
    head, _ = beginning(path)
    expect(path, head, "an npz (zip) file")
    with reading(path, "an npz (zip) file"), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        headers = {member: _member_header(archive, member) for member in members}
    variables = {}
    for member, (shape, fortran, dtype, offset) in headers.items():
        name = member.filename.removesuffix(".npy")
        if name in variables:
            raise ValueError(f"{path}: holds two arrays called {name}")
        if not dtype.hasobject:
            declared = offset + math.prod(shape) * dtype.itemsize
            check_length(path, declared, member.file_size, f"the array {name}")
        variables[name] = _variable(path, member, shape, fortran, dtype)
    return open_variables(path, variables, band_axis, variable)


def write_npz(temporaries, raster):
    """The arrays of the convention, not compressed: measured data hardly get smaller."""
    with open(temporaries[0], "xb") as file:
        np.savez(file, **variables_of(raster))


def _read_header(stream):
    """Shape, Fortran order and dtype of what a stream of npy format declares; the stream is then at the data."""
    version = npy.read_magic(stream)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of the format, where 1.0 or 2.0 is needed")
    with warnings.catch_warnings():
        # A file of Python 2 is as good as any.
        warnings.filterwarnings("ignore", "Reading `.npy` or `.npz` file required additional", UserWarning)
        shape, fortran, dtype = readers[version](stream)
    if any(size < 0 for size in shape):
        raise ValueError(f"the shape {shape}")
    return shape, fortran, dtype


def _member_header(archive, member):
    with archive.open(member) as stream:
        return *_read_header(stream), stream.tell()


def _variable(path, member, shape, fortran, dtype):
    def fill_with_member(array):
        with reading(path, "an npz (zip) file"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            _read_header(stream)
            _fill(array, stream, dtype, fortran)
            stream.read(1)  # at the end the checksum is compared

    def load():
        array = np.empty(shape, dtype)
        fill_with_member(np.atleast_1d(array))
        return array

    return Variable(shape, dtype, load, fill_with_member)


def _fill(array, stream, dtype, fortran):
    # Fortran order is C order with the axes reversed.
    fill(array.T if fortran else array, stream, dtype)
