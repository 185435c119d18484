"""MAT files: up to version 7 by scipy, version 7.3, which is HDF5, by h5py.

Axes are in MATLAB's order: HDF5 has them reversed. A variable has the dtype of its MATLAB class, though version 7 keeps
doubles that are whole numbers as short integers. Version 4 knows matrices only, so it holds no cube.

A file of version 5 to 7 is a row of elements, each a tag (type and length) and its content, deflated or not; that of a
variable begins with further elements: flags, sizes, name, numbers. They are looked at here before scipy reads them,
for scipy allocates what a tag says, and a tag of an unknown type crashes it.
"""

import math
import struct
import zlib

import numpy as np

from .axes import stretches
from .extras import needed
from .hdf5 import check_chunk_shape, read_part
from .inspection import beginning, check_length, expect, reading
from .named import Variable, open_variables, variables_of
from .raster import REAL_DTYPES

# Of version 5: MATLAB itself stops at 2 GiB a variable.
LARGEST = 2**31 - 1

DTYPES = REAL_DTYPES - {"float16"}

_NUMBERS = {
    6: "double", 7: "single", 8: "int8", 9: "uint8", 10: "int16", 11: "uint16", 12: "int32", 13: "uint32", 14: "int64",
    15: "uint64",
}  # fmt: skip
_CLASSES = _NUMBERS | {
    1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function handle", 17: "opaque"
}  # fmt: skip
_CHAR, _OPAQUE = 4, 17
_LOGICAL, _COMPLEX = 0x200, 0x800
_NO_CLASS = "of no MATLAB class"

# The types of numbers in an element, and of text.
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_STORED_TEXT = {1: 1, 2: 1, 4: 2, 16: 1, 17: 2, 18: 4}
_MATRIX, _DEFLATED = 14, 15

_HEADER_BYTES = 128
_BEGINNING_BYTES = 4096  # of an element: more than its flags, sizes and name take
_LONGEST_TEXT = 1 << 20


def open_mat(path, band_axis, variable):
    """The cube of a MAT file, and what the other variables say of it."""
    return open_variables(path, mat_variables(path), band_axis, variable)


def mat_variables(path, any_class=False):
    """The variables of a MAT file by name, none of them read yet.

    Parameters
    ----------
    path : Path
    any_class : bool
        Whether numbers of HDF5 that have no MATLAB class, which other programs write, count as numbers.
    """
    head, size = beginning(path)
    if head[124:128] in (b"\x00\x01IM", b"\x01\x00MI"):
        return _variables_of_version_5(path, "<" if head[126:128] == b"IM" else ">", size)
    expect(path, head, "a MAT file of version 5 or later", others=("an HDF5 file",))
    if b"\x89HDF\r\n\x1a\n" not in (head[:8], head[512:520]):
        raise ValueError(f"{path}: is a MAT file of an unknown version, or truncated; version 5 to 7.3 is needed")
    return _variables_of_version_7_3(path, any_class)


def write_mat(temporaries, raster):
    """The variables of the convention, in version 5."""
    from scipy.io import savemat

    if raster.cube.nbytes > LARGEST:
        raise ValueError(f"a MAT file holds at most {LARGEST / 1e9:.1f} GB; write npz, ENVI or GeoTIFF instead")
    with open(temporaries[0], "xb") as file:
        savemat(file, variables_of(raster), oned_as="row")


def _variables_of_version_5(path, order, size):
    """The variables of the elements, which must end where the file ends."""
    variables, place = {}, _HEADER_BYTES
    with open(path, "rb") as file, reading(path, "a MAT file"):
        while place < size:
            file.seek(place)
            kind, length = struct.unpack(f"{order}II", file.read(8).ljust(8, b"\0"))
            place += 8 + length
            if place > size:
                break
            content = file.read(min(length, _BEGINNING_BYTES))
            if kind == _DEFLATED:
                content = zlib.decompressobj().decompress(content, 8 + _BEGINNING_BYTES)
                kind, length = struct.unpack_from(f"{order}II", content)
                content = content[8:]
            if kind != _MATRIX:
                raise ValueError(f"an element of type {kind} where a variable should be")
            name, shape, dtype = _declared(content, length, order)
            if name in variables:
                dtype = "there twice"
            if name:
                variables[name] = _variable_of_version_5(path, name, shape, dtype)
    check_length(path, place, size)
    return variables


def _declared(content, length, order):
    """Name, shape and dtype (or MATLAB's word for what has none) of a variable of `length` bytes."""
    kind, flags, place = _element(content, 0, order)
    if kind != 6 or len(flags) != 8:
        raise ValueError("a variable without flags")
    flags = struct.unpack_from(f"{order}I", flags)[0]
    number = flags & 0xFF
    if number == _OPAQUE:
        return "", (), "opaque"
    kind, sizes, place = _element(content, place, order)
    if kind != 5 or len(sizes) < 8 or len(sizes) % 4:
        raise ValueError("a variable without sizes")
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
    kind, name, place = _element(content, place, order)
    if kind != 1 or min(shape) < 0:
        raise ValueError("a variable without a name, or of a negative size")
    name = name.decode("latin-1")
    if flags & _COMPLEX:
        return name, shape, np.dtype(complex)
    if number == _CHAR:
        return name, *_declared_text(content, place, length, order, shape)
    if number not in _NUMBERS:
        return name, shape, _CLASSES.get(number, f"of class {number}")
    dtype = np.dtype(_NUMBERS[number])
    kind, stored, start = _tag(content, place, order)
    words = np.dtype(_STORED.get(kind, "V1"))
    if words.kind == "V" or (dtype.kind in "iu" and words.kind == "f"):
        raise ValueError(f"the variable {name} of class {_CLASSES[number]} has numbers of type {kind}")
    if stored != math.prod(shape) * words.itemsize or start + stored > length:
        raise ValueError(f"the variable {name} of shape {shape} declares {stored} bytes of {words}")
    return name, shape, np.dtype(bool) if flags & _LOGICAL else dtype


def _declared_text(content, place, length, order, shape):
    """A row of characters is one text; its dtype holds at least as many as it has."""
    kind, stored, start = _tag(content, place, order)
    if stored > math.prod(shape) * 4 or start + stored > length or kind not in _STORED_TEXT:
        raise ValueError(f"text of shape {shape} that declares {stored} bytes of type {kind}")
    return shape[2:] if shape[0] == 1 else shape, np.dtype(f"U{min(stored, _LONGEST_TEXT)}")


def _tag(content, place, order):
    """Type and length of an element, and where its content starts. Four bytes or less lie in the tag itself."""
    word = struct.unpack_from(f"{order}I", content, place)[0]
    if word >> 16:
        return word & 0xFFFF, word >> 16, place + 4
    return word, struct.unpack_from(f"{order}I", content, place + 4)[0], place + 8


def _element(content, place, order):
    """Type and content of an element, and where the next one starts."""
    kind, length, start = _tag(content, place, order)
    if start + length > len(content) or (start == place + 4 and length > 4):
        raise ValueError("an element that does not fit its place")
    after = place + 8 if start == place + 4 else start + length + -length % 8
    return kind, content[start : start + length], after


def _variable_of_version_5(path, name, shape, dtype):
    def load():
        from scipy.io import loadmat

        with reading(path, "a MAT file"):
            return loadmat(path, variable_names=[name], appendmat=False)[name]

    def fill(array):
        array[...] = load()

    return Variable(shape, dtype, load, fill)


def _variables_of_version_7_3(path, any_class):
    h5py = needed("h5py", f"{path}: a MAT file of version 7.3")
    variables = {}
    with reading(path, "a MAT file of version 7.3"), h5py.File(path, "r") as file:
        for name in file:
            # Links could lead to other files; what MATLAB keeps for itself begins with #.
            if name.startswith("#") or not isinstance(file.get(name, getlink=True), h5py.HardLink):
                continue
            item = file[name]
            kind = item.attrs.get("MATLAB_class", _NO_CLASS)
            kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
            if isinstance(item, h5py.Dataset) and item.shape is not None and not item.attrs.get("MATLAB_empty", 0):
                variables[name] = _variable_of_version_7_3(h5py, path, name, item, kind, any_class)
            else:
                variables[name] = Variable((), kind, None, None)
    return variables


def _variable_of_version_7_3(h5py, path, name, dataset, kind, any_class):
    shape, dtype = dataset.shape[::-1], kind
    check_chunk_shape(dataset, name)
    if dataset.is_virtual or dataset.external:
        dtype = "kept in another file"
    elif dataset.dtype.kind not in "fiu":
        dtype = "complex" if dataset.dtype.names == ("real", "imag") else f"{kind} of {dataset.dtype}"
    elif kind == "char":
        dtype, shape = np.dtype(f"U{min(dataset.size, _LONGEST_TEXT)}"), shape[2:] if shape[:1] == (1,) else shape
    elif kind == "logical":
        dtype = np.dtype(bool)
    elif kind in _NUMBERS.values() or (any_class and kind == _NO_CLASS):
        dtype = dataset.dtype

    def fill(array):
        with reading(path, "a MAT file of version 7.3"), h5py.File(path, "r") as file:
            turned = array.T
            for stretch in stretches(turned):
                turned[stretch] = read_part(file[name], stretch, name)

    def load():
        with reading(path, "a MAT file of version 7.3"), h5py.File(path, "r") as file:
            value = read_part(file[name], (), name)
            if kind == "char":
                return np.array(value.astype("<u2").tobytes().decode("utf-16-le"))
            return value.T.astype(dtype, copy=False)

    return Variable(shape, dtype, load, fill)
