"""npy and npz: headers by numpy's own parser, data as raw numbers, so that nothing in them can run."""

import io
import math
import warnings
import zipfile
from contextlib import contextmanager
from functools import partial

import numpy as np
from numpy.lib import format as npy

from ..model.files import one_line
from .axes import chosen, fill, in_order_of_file, mapped_window, pour, shape_of_cube
from .inspection import beginning, check_array, check_length, expect, reading
from .named import Variable, open_variables, variables_of
from .raster import Header, Stored

# By version of the format: how many bytes say how long the header is, and who parses both.
_HEADERS = {(1, 0): (2, npy.read_array_header_1_0), (2, 0): (4, npy.read_array_header_2_0)}

# Beyond this numpy refuses a header too, but reads it first.
_LONGEST_HEADER = 10_000


def open_npy(path, band_axis):
    """The one array of an npy file."""
    shape, fortran, dtype, offset = _npy_header(path)
    variable = npy_variables(path)[""]
    check_array(path, shape, dtype)
    axis, layout = chosen(band_axis)

    def window(rows, cols):
        with reading(path, "an npy file"):
            return mapped_window(path, dtype, offset, shape, axis, rows, cols, "F" if fortran else "C")

    source = {"stored_shape": shape, "band_axis": axis, "layout": layout}
    header = Header(shape_of_cube(shape, axis), dtype.newbyteorder("="), source=source)
    return Stored(header, lambda cube: variable.fill(in_order_of_file(cube, axis)), window)


def npy_variables(path):
    """The one array of an npy file, under the name "", not read yet."""
    shape, fortran, dtype, _ = _npy_header(path)

    @contextmanager
    def opened():
        with open(path, "rb") as file, reading(path, "an npy file"):
            yield file

    return {"": _variable(opened, shape, fortran, dtype)}


def _npy_header(path):
    """Shape, Fortran order and dtype of an npy file, and where its data begin."""
    head, size = beginning(path)
    expect(path, head, "an npy file")
    with open(path, "rb") as file, reading(path, "an npy file"):
        shape, fortran, dtype = _read_header(file)
        offset = file.tell()
    if not dtype.hasobject:
        check_length(path, offset + math.prod(shape) * dtype.itemsize, size)
    return shape, fortran, dtype, offset


def write_npy(temporaries, raster):
    """The cube alone."""
    declared = {"descr": npy.dtype_to_descr(raster.dtype), "fortran_order": False, "shape": raster.shape}
    with open(temporaries[0], "xb") as file:
        npy.write_array_header_1_0(file, declared)
        pour(raster.cube, file)


def open_npz(path, band_axis, variable):
    """The cube of an npz file, and what the other arrays say of it."""
    return open_variables(path, npz_variables(path), band_axis, variable)


def npz_variables(path):
    """The arrays of an npz file by name, none of them read yet."""
    head, _ = beginning(path)
    expect(path, head, "an npz (zip) file")
    with reading(path, "an npz (zip) file"), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        headers = {member: _member_header(archive, member) for member in members}
    variables = {}
    for member, (shape, fortran, dtype, offset) in headers.items():
        name = member.filename.removesuffix(".npy")
        if name in variables:
            raise ValueError(f"{path}: holds two arrays called {one_line(name)}")
        if not dtype.hasobject:
            declared = offset + math.prod(shape) * dtype.itemsize
            check_length(path, declared, member.file_size, f"the array {one_line(name)}")
        variables[name] = _variable(partial(_opened_member, path, member), shape, fortran, dtype)
    return variables


def write_npz(temporaries, raster):
    """The arrays of the convention, not compressed: measured data hardly get smaller."""
    with open(temporaries[0], "xb") as file:
        np.savez(file, **variables_of(raster))


def _read_header(stream):
    """Shape, Fortran order and dtype of what a stream of npy format declares; the stream is then at the data."""
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version {version[0]}.{version[1]} of the format, where 1.0 or 2.0 is needed")
    width, reader = _HEADERS[version]
    length = stream.read(width)
    declared = int.from_bytes(length, "little")
    if declared > _LONGEST_HEADER:
        raise ValueError(f"a header of {declared} bytes, where at most {_LONGEST_HEADER} are needed")
    with warnings.catch_warnings():
        # A file of Python 2 is as good as any.
        warnings.filterwarnings("ignore", "Reading `.npy` or `.npz` file required additional", UserWarning)
        shape, fortran, dtype = reader(io.BytesIO(length + stream.read(declared)))
    if any(size < 0 or isinstance(size, bool) for size in shape):
        raise ValueError(f"the shape {shape}")
    return shape, fortran, dtype


def _member_header(archive, member):
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Of others Python unpacks whole blocks, however small the piece that is asked for.
        raise ValueError(f"{member.filename} is neither stored nor deflated")
    with archive.open(member) as stream:
        return *_read_header(stream), stream.tell()


@contextmanager
def _opened_member(path, member):
    with reading(path, "an npz (zip) file"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        yield stream
        stream.read(1)  # at the end the checksum is compared


def _variable(opened, shape, fortran, dtype):
    """The array of a stream of npy format; `opened` is a context manager that yields the stream."""

    def fill_from_stream(array):
        with opened() as stream:
            _read_header(stream)
            # Fortran order is C order with the axes reversed.
            fill(array.T if fortran else array, stream, dtype)

    def load():
        array = np.empty(shape, dtype)
        fill_from_stream(np.atleast_1d(array))
        return array

    return Variable(shape, dtype, load, fill_from_stream)
