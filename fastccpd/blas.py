"""BLAS and LAPACK held at one thread, so that results do not depend on how many they would use.

Not products alone change their last bits between one and two threads: eigenvalues, inverses, singular vectors do too.
The limit is counted: of several fusions at once the first sets it, and the last puts back what was there, whichever
thread that is. (threadpoolctl lets only the thread that set a limit put it back, so it cannot serve here.)

NumPy and SciPy each bring a BLAS of their own: OpenBLAS in their wheels, or what the system has, where MKL and BLIS can
be held too. A BLAS that has no such call, as Apple's, is left as it is.
"""

import ctypes
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path

_lock = threading.Lock()
_users = 0
_before = []

# The names of the two calls (set, get) in the libraries that have them.
_CALLS = [
    *(
        (f"{prefix}openblas_set_num_threads{suffix}", f"{prefix}openblas_get_num_threads{suffix}")
        for prefix, suffix in product(("scipy_", ""), ("64_", "_64", ""))
    ),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
    ("bli_thread_set_num_threads", "bli_thread_get_num_threads"),
]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the thread pools of NumPy's and SciPy's BLAS at one thread, in the whole process, for a block."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter():
    global _users, _before
    with _lock:
        if _users == 0:
            _before = [get() for _, get in _pools()]
            for set_threads, _ in _pools():
                set_threads(1)
        _users += 1


def _leave():
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            for (set_threads, _), count in zip(_pools(), _before, strict=True):
                set_threads(count)


@cache
def _pools():
    """(set, get) of the number of threads, for each BLAS of this process."""
    import numpy as np
    import scipy.linalg  # its BLAS must be loaded to be found

    found = {}
    for path in _libraries([Path(np.__file__).parent, Path(scipy.__file__).parent]):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for set_name, get_name in _CALLS:
            if hasattr(library, set_name) and hasattr(library, get_name):
                found[ctypes.cast(getattr(library, set_name), ctypes.c_void_p).value] = (
                    getattr(library, set_name),
                    getattr(library, get_name),
                )
                break
    return tuple(found.values())


def _libraries(packages):
    """The files that may be a BLAS: those that are loaded, where the system tells, and those beside the packages."""
    names = re.compile(r"(openblas|mkl_rt|blis)[^/\\]*\.(so|dll|dylib)", re.IGNORECASE)
    loaded = set()
    maps = Path("/proc/self/maps")
    if maps.exists():
        for line in maps.read_text(encoding="utf-8", errors="replace").splitlines():
            path = line.split(maxsplit=5)[5:]
            if path and names.search(path[0]):
                loaded.add(path[0])
        return sorted(loaded)
    for package in packages:
        for folder in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
            loaded |= {str(path) for path in folder.glob("*") if names.search(path.name)}
    return sorted(loaded)
