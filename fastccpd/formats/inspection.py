"""A look at a file before anything is read: is it there, is it what its name says, is it as long as it declares.

What a library raises on a bad file becomes one sentence with the path: ValueError for what is in the file, OSError for
what keeps it from being read.
"""

import hashlib
import math
import os
import stat
from contextlib import contextmanager
from pathlib import Path

from ..machine import available_memory
from ..model.files import first_line

#: More than any image has: what is said of so many bands is not read.
MOST_BANDS = 1 << 20

_CHUNK = 1 << 18
_HEAD = 1024

_BEGINNINGS = (
    ("an npy file", (b"\x93NUMPY",)),
    ("an npz (zip) file", (b"PK\x03\x04", b"PK\x05\x06")),
    ("an HDF5 file", (b"\x89HDF\r\n\x1a\n",)),
    ("a MAT file of version 5 or later", (b"MATLAB ",)),
    ("a TIFF file", (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")),
    ("an ENVI header", (b"ENVI",)),
    ("a JPEG 2000 file", (b"\x00\x00\x00\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")),
)


def as_path(path):
    """`path` as a Path, if it is the name of anything."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path: got {type(path).__name__}; the name of a file is needed") from None
    try:
        usable = bool(name) and b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:  # half of a character
        usable = False
    if not usable:
        raise ValueError(f"path: got {name!r}; the name of a file is needed")
    return Path(name)


def beginning(path):
    """The first bytes of a regular file that has any, and its size."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(f"{path}: is a folder; a file is needed")
        if not stat.S_ISREG(status.st_mode):  # reading a pipe might never end
            raise OSError(f"{path}: is not a regular file")
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        if error.errno is None:
            raise
        raise _unreadable(path, error) from None
    if not head:
        raise ValueError(f"{path}: is empty")
    return head, status.st_size


def check_text(path, kind, most_bytes, most_lines=None):
    """Refuse, before it is parsed, a text that is no regular file, or that is longer than any of its kind."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{path}: is not a regular file")
    if status.st_size > most_bytes:
        raise ValueError(f"{path}: has {status.st_size} bytes, too many for {kind}")
    if most_lines is None:
        return
    lines = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            lines += max(chunk.count(b"\n"), chunk.count(b"\r"))
    if lines > most_lines:
        raise ValueError(f"{path}: has {lines} lines, too many for {kind}")


def expect(path, head, kind, others=()):
    """Refuse a file that does not begin as its kind does, and say what it looks like instead."""
    found = next((name for name, starts in _BEGINNINGS if head.startswith(starts)), None)
    if found != kind and found not in others:
        seen = "nothing known" if found is None else found
        raise ValueError(f"{path}: is not {kind}; by its first bytes it is {seen}")


@contextmanager
def reading(path, kind):
    """Around calls of a library: what it raises becomes one sentence."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # libraries raise whatever a damaged file leads them to
        if isinstance(error, OSError) and error.errno is not None:
            raise _unreadable(path, error) from error
        raise ValueError(f"{path}: cannot be read as {kind} ({first_line(error)})") from error


def check_array(path, shape, dtype, what="an array"):
    """Refuse what is no cube of real numbers; `dtype` is a dtype, or the name of something that has none."""
    name = getattr(dtype, "name", dtype)
    if getattr(dtype, "hasobject", False):
        raise ValueError(f"{path}: {what} holds Python objects, which are never loaded; real numbers are needed")
    if getattr(dtype, "kind", "") not in ("f", "i", "u") or dtype.itemsize > 8:
        raise ValueError(f"{path}: {what} is {name}; real integers or floats of at most 64 bits are needed")
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"{path}: {what} has shape {tuple(shape)}; three axes, each at least 1 long, are needed")


def check_length(path, expected, found, what="the file"):
    """Refuse data that are shorter or longer than declared."""
    if found != expected:
        why = "it is truncated" if found < expected else "its header does not fit"
        raise ValueError(f"{path}: {what} has {found} bytes but declares {expected}; {why}")


def check_memory(path, arrays, limit):
    """Refuse arrays (what has a shape and a dtype) that together take more bytes than `limit`, or than there are."""
    declared = sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
    allowed = available_memory() if limit is None else limit
    if allowed is not None and declared > allowed:
        what = ", ".join(f"{'×'.join(map(str, array.shape))} values of {array.dtype}" for array in arrays[:3])
        more = f" and {len(arrays) - 3} more" if len(arrays) > 3 else ""
        bound = "the limit is" if limit is not None else "the memory left is"
        raise MemoryError(f"{path}: declares {what}{more}, {declared / 1e6:.1f} MB, but {bound} {allowed / 1e6:.1f} MB")


def sha256(path):
    """The SHA-256 of a file, which is read a stretch at a time.

    Parameters
    ----------
    path : path

    Returns
    -------
    str
        Hexadecimal.
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise _unreadable(path, error) from None
    return digest.hexdigest()


def sha256_of_all(paths):
    """One SHA-256 of several files and their names, as hexadecimal text."""
    digest = hashlib.sha256()
    for path in sorted(map(Path, paths)):
        digest.update(f"{path.name} {sha256(path)}\n".encode())
    return digest.hexdigest()


def _unreadable(path, error):
    return type(error)(f"{path}: cannot be read ({(error.strerror or str(error)).lower()})")
