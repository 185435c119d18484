"""What C libraries print past their callers, kept back while a file is read or written.

Both are states of the whole process: of several threads the first sets them, and the last puts back what was there.
"""

import ctypes
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class Shared:
    """A state of the process that holds while anybody is in a `with` block of it.

    Parameters
    ----------
    begin : callable
        Sets it, and returns what puts back the state before.
    """

    def __init__(self, begin: Callable[[], Callable[[], object]]):
        self._begin, self._lock, self._users = begin, threading.Lock(), 0

    def __enter__(self):
        with self._lock:
            if self._users == 0:
                self._end = self._begin()
            self._users += 1

    def __exit__(self, *error):
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._end()


def _without_failed_logs():
    """rasterio cannot log what quotes bytes that are no text, and Python prints that it failed, perhaps twice."""
    before, printed_before = sys.unraisablehook, sys.excepthook

    def hook(unraisable):
        if "log_error" not in str(unraisable.object):
            before(unraisable)

    def printed(kind, error, traceback):
        if not issubclass(kind, UnicodeDecodeError):
            printed_before(kind, error, traceback)

    def end():
        if sys.unraisablehook is hook:
            sys.unraisablehook = before
        if sys.excepthook is printed:
            sys.excepthook = printed_before

    sys.unraisablehook, sys.excepthook = hook, printed
    return end


def _without_lines_of_libtiff():
    """On a full disk libtiff prints to stderr, past GDAL and its log; what matters of it is raised anyway."""
    found = (getattr(_opened(path), "TIFFSetErrorHandler", None) for path in _loaded("libtiff"))
    setters = [setter for setter in found if setter is not None]
    if not setters:
        return _without_stderr_if_alone()
    for setter in setters:
        setter.argtypes, setter.restype = [ctypes.c_void_p], ctypes.c_void_p
    before = [setter(None) for setter in setters]
    return lambda: [setter(handler) for setter, handler in zip(setters, before)]


def _loaded(name):
    """The files of a library that this process has loaded, where the system tells."""
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        return sorted(set(re.findall(rf"\S*/{name}[^/\s]*\.so[^/\s]*$", maps, re.MULTILINE)))
    return []


def _opened(path):
    with suppress(OSError):
        return ctypes.CDLL(path)


def _without_stderr_if_alone():
    """The stream is the whole process's: where other threads might use it, it is left alone."""
    return _without_stderr() if threading.active_count() == 1 else lambda: None


def _without_stderr():
    try:
        stderr = os.dup(2)
    except OSError:  # closed
        return lambda: None
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)

    def end():
        os.dup2(stderr, 2)
        os.close(stderr)

    return end


#: Without Python's word on messages that rasterio could not log.
NO_FAILED_LOGS = Shared(_without_failed_logs)

#: Without the lines that libtiff itself prints.
NO_LINES_OF_LIBTIFF = Shared(_without_lines_of_libtiff)

#: Without the lines that libgeotiff prints on the keys of a JPEG 2000 file.
NO_LINES_OF_LIBGEOTIFF = Shared(_without_stderr_if_alone)
