"""Names for compiled routines, by which machine code of other packages finds ours, in this process and in later ones.

A call is one to a C function (`c_routines.py`) by its name, so the caller's machine code, which Numba may keep in the
caller's cache, holds none of ours and cannot become stale. The name must have a meaning before such code is loaded.
Routines are compiled where a caller is; their names are kept in a list beside the kernel cache, and whatever is in it
is there again as soon as this module is imported, from the cache in milliseconds. A name that has no code yet answers
with an error: a caller whose cache has outlived ours is told to `prepare`.
"""

from collections.abc import Iterable
from contextlib import suppress

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.core.errors import TypingError

from .c_routines import DTYPES, IN_DOUBLE_ALONE, ROUTINES, address
from .jit import CACHE_DIRECTORY, COMPILED, callback, device

_WRONG, _UNKNOWN = 1, 2
_published: set[tuple[str, str]] = set()
_LIST = None if CACHE_DIRECTORY is None else CACHE_DIRECTORY.parent / "fastccpd-compiled.txt"


def _unknown():
    return 2


def _every_routine():
    for name in ROUTINES:
        for ending in DTYPES:
            if ending == "f64" or name not in IN_DOUBLE_ALONE:
                yield name, ending


def _symbol(name, ending):
    return f"fastccpd_{name}_{ending}"


def _publish(name, ending):
    """Give a routine's name its meaning; it is compiled if need be."""
    if (name, ending) not in _published:
        llvm.add_symbol(_symbol(name, ending), address(name, np.dtype(str(DTYPES[ending]))))
        _published.add((name, ending))


def _listed():
    """The routines that were ever used with this cache."""
    try:
        lines = _LIST.read_text(encoding="ascii", errors="replace").splitlines() if _LIST else []
    except OSError:
        lines = []
    return [routine for routine in _every_routine() if " ".join(routine) in lines]


def _remember(name, ending):
    if _LIST is not None and (name, ending) not in _listed():
        # The list is kept if it can be: nothing in this process needs it.
        with suppress(OSError), open(_LIST, "a", encoding="ascii") as file:
            file.write(f"{name} {ending}\n")


def prepare(names: Iterable[str] | None = None) -> None:
    """Compile routines now, and have them ready in every later process with this kernel cache.

    Parameters
    ----------
    names : iterable of str, optional
        As in `fastccpd.kernels.address`; None: all of them, which takes about a minute where none is in the cache.
    """
    chosen = list(ROUTINES) if names is None else list(names)
    for name in chosen:
        if name not in ROUTINES:
            raise ValueError(f"names: got {name!r}; some of {', '.join(ROUTINES)} are needed")
    for name, ending in _every_routine():
        if name in chosen:
            _publish(name, ending)
            _remember(name, ending)


def routine(name, inputs, outputs):
    """The external function for arguments of these types, or a sentence on what is wrong with them."""
    kinds = [*inputs, *outputs]
    dtypes = {"float64": "f64", "float32": "f32"}
    ending = dtypes.get(str(getattr(kinds[0], "dtype", None)))
    for kind in kinds:
        fits = isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype == kinds[0].dtype
        if not fits or ending is None or (name in IN_DOUBLE_ALONE and ending != "f64"):
            needed = "float64" if name in IN_DOUBLE_ALONE else "one of float32 and float64"
            raise TypingError(f"{name}: got {kind}; C-ordered arrays of one dtype, {needed}, are needed")
    for kind in outputs:
        if not kind.mutable:
            raise TypingError(f"{name}: got {kind} as output; an array that can be written to is needed")
    _publish(name, ending)
    _remember(name, ending)
    _, sizes, *arrays = ROUTINES[name]
    # Pointers travel as the numbers that `array.ctypes.data` gives.
    arguments = [types.int64] * len(sizes.split()) + [types.uintp] * len(" ".join(arrays).split())
    return types.ExternalFunction(_symbol(name, ending), types.int32(*arguments))


def check_dimensions(name, arrays, dimensions):
    for kind, count in zip(arrays, dimensions, strict=True):
        if kind.ndim != count:
            raise TypingError(f"{name}: got {kind}; an array of {count} dimensions is needed")


if COMPILED:
    _stub = callback(_unknown, "stub", types.int32())
    for _name, _ending in _every_routine():
        llvm.add_symbol(_symbol(_name, _ending), _stub.address)
    for _name, _ending in _listed():
        _publish(_name, _ending)


@device
def judge(status):
    """What a routine has answered, as an exception; their texts are part of compiled code, and so constants."""
    if status == _UNKNOWN:
        raise RuntimeError(
            "this function's cache has outlived that of the kernels: call fastccpd.kernels.compiled.prepare() before it"
        )
    if status == _WRONG:
        raise ValueError("got an array with an axis of length 0; at least 1 is needed")
