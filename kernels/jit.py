"""The one place that knows Numba: flags, cache directory, serial twin, launch lock.

``@device`` compiles a helper that kernels call. ``@kernel`` compiles a routine that Python calls, twice from the same
source: a parallel form, and a serial twin for small work, for one thread, and for the moments when another Python
thread is inside a parallel region (Numba's `workqueue` layer aborts the process if two threads enter one). Kernels own
their output rows or write a fixed number of partial sums, so both forms give the same bytes for any thread count.

Numba's on-disk cache does not tell twins apart: each gets a code name of its own (`disk_cache.py` has its other traps).
"""

import math
import os
import threading
import time
import types
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any

import numba
import numpy as np
from numba import extending, prange
from numba.core.ccallback import CFunc

from .disk_cache import CACHE_DIRECTORY as CACHE_DIRECTORY
from .disk_cache import before_first_use as before_first_use
from .disk_cache import use_cache
from .parts import PartCompiler, WholeCompiler

# Work below this, a tenth of a millisecond, is never shared: beside another spinning pool (BLAS) a launch can cost more
# than that. Above it, it is shared where a launch, timed once on this machine with its threading layer and wait policy
# (3 us for a spinning OpenMP pool, 60 us for a sleeping one, 140 us for workqueue), is worth it.
LEAST_PARALLEL_WORK = 4_000_000

# In a loop that uses no BLAS at all, such as the solver's, there is no such pool, and this much is worth sharing.
LEAST_PARALLEL_WORK_WITHOUT_BLAS = 1_000_000
_SERIAL_FLOPS_PER_SECOND = 5e10
_LAUNCHES_WORTH = 4

# A launch that takes so many times as long as the serial twin, and this many seconds more, waits for a core that other
# processes use: milliseconds, every time. Kernels then run serially for a while, the longer the more often it happens.
# What the serial twin takes is known from such a while, for work of about the same size: work that is larger than the
# caches may be ten times slower. Before, it is taken to be as slow as a kernel can be that only reads and writes.
_LATE_TIMES, _LATE_SECONDS = 4, 1e-4
_SLOWEST_FLOPS_PER_SECOND = 2e9

# What is done many times over in one launch stays in the caches; many stages of it may each wait for a core.
_SLOWEST_OF_MANY_FLOPS_PER_SECOND = 1e10
_SHORTEST_REST, _LONGEST_REST = 0.01, 1.0

# FMA contraction is the only freedom taken: reassociation would change bits, and `nnan` would break isnan.
_FLAGS = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}

# Entrances that nobody uses: kernels are called by Python alone, their helpers by compiled code alone.
_NO_C_ENTRANCE = {"no_cfunc_wrapper": True}
_NO_ENTRANCE = _NO_C_ENTRANCE | {"no_cpython_wrapper": True}

# Loops are shared where they say `prange`, and nowhere else: no launch hides in an assignment, and compiling is faster.
_PARALLEL = {
    "prange": True,
    **dict.fromkeys(("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion"), False),
}

KERNELS = []

# Whether there is a compiler: NUMBA_DISABLE_JIT=1 leaves plain Python.
COMPILED = not numba.config.DISABLE_JIT

# To a type checker their arguments would be those of the Python source, with the context of an intrinsic among them.
device: Any = numba.njit(**_FLAGS, **_NO_ENTRANCE, pipeline_class=PartCompiler)
intrinsic: Any = extending.intrinsic

# For the few numbers that must be those of the same function in plain Python, to the last bit: no multiply-add. Left
# unsaid, `fastmath` would be the caller's.
exact: Any = numba.njit(**(_FLAGS | _NO_ENTRANCE | {"fastmath": False}), pipeline_class=PartCompiler)

# For helpers within innermost loops, where a call would cost more than what it does.
inlined: Any = numba.njit(inline="always", **_FLAGS, **_NO_ENTRANCE)

# The widest vector registers there are: arrays that start on such a boundary are read a third faster.
ALIGNMENT = 64


@device
def scratch(rows, width, like):
    """An uninitialised aligned (rows, width) array of the dtype of `like`, for use inside kernels."""
    buffer = np.empty(rows * width + ALIGNMENT // like.itemsize, like.dtype)
    start = (-buffer.ctypes.data % ALIGNMENT) // like.itemsize
    return buffer[start : start + rows * width].reshape(rows, width)


class Kernel:
    """A compiled routine: call it for the serial twin, or with `work` (flops) to go parallel where that pays.

    Where how often that work is done shows only afterwards, `times` is a function that then says it.
    """

    def __init__(self, function, uses_tiles=False):
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.uses_tiles = uses_tiles
        self.serial = _compile(function, "serial", uses_tiles, parallel=False)
        shares_work = "prange" in function.__code__.co_names
        self.parallel = _compile(function, "parallel", uses_tiles, parallel=_PARALLEL) if shares_work else self.serial
        self.was_launched, self.paces = False, {}
        KERNELS.append(self)

    def __call__(self, *args, work=0, least=LEAST_PARALLEL_WORK, times=None):
        enough = work >= least or (work > 0 and _launch.shares_all)
        if enough and _launch.permitted() and _launch.lock.acquire(blocking=False):
            try:
                if _launch.shares_all:
                    return self._run_parallel(*args)
                if _launch.pays(work):
                    return self._run_timed(args, work, times)
            finally:
                _launch.lock.release()
        self.serial(*args)

    def _run_parallel(self, *args):
        self.parallel(*args)
        _launch.count += self.parallel is not self.serial

    def _run_timed(self, args, work, times):
        rests, started = _launch.rests(), time.perf_counter()
        (self.serial if rests else self._run_parallel)(*args)
        seconds = time.perf_counter() - started
        work = work if times is None else work * times()
        size = math.frexp(work)[1]
        if rests:
            self.paces[size] = min(self.paces.get(size, np.inf), seconds / work)
        elif self.was_launched:  # the first launch loads the code
            slowest = _SLOWEST_FLOPS_PER_SECOND if times is None else _SLOWEST_OF_MANY_FLOPS_PER_SECOND
            _launch.judge(seconds, work * self.paces.get(size, 1.0 / slowest))
        else:
            self.was_launched = True

    def __repr__(self):
        return f"<kernel {self.__name__}>"


def kernel(function: Callable[..., Any] | None = None, *, uses_tiles: bool = False) -> Any:
    """Compile `function` as a `Kernel`: lazily, for float32 and float64, cached on disk.

    A kernel that calls `panel`, itself or through a helper, says so by `uses_tiles`: its tiles are then made first.
    """
    return partial(Kernel, uses_tiles=uses_tiles) if function is None else Kernel(function, uses_tiles)


class _Launch:
    """Who may start a parallel region: one Python thread at a time, and no child forked after a launch."""

    def __init__(self):
        self.lock = threading.Lock()
        self.happened = self.forbidden = False
        self.count = self.shares_all = 0
        self.seconds = None
        self.rest, self.resting_until = _SHORTEST_REST, 0.0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def permitted(self):
        if self.forbidden or numba.config.DISABLE_JIT or numba.get_num_threads() == 1:
            return False
        self.happened = True
        return True

    def rests(self):
        return time.perf_counter() < self.resting_until

    def judge(self, seconds, serially):
        """Rest after a launch that came late beside what the serial twin takes; the caller holds the lock."""
        if seconds > _LATE_TIMES * serially + _LATE_SECONDS:
            self.rest = min(2.0 * self.rest, _LONGEST_REST)
            self.resting_until = time.perf_counter() + self.rest
        else:
            self.rest = max(0.99 * self.rest, _SHORTEST_REST)

    def pays(self, work):
        """Whether `work` flops are worth a launch; the caller holds the lock."""
        if self.seconds is None:
            counts = np.zeros(2)
            times = []
            for _ in range(21):
                start = time.perf_counter()
                nearly_nothing.parallel(counts)
                times.append(time.perf_counter() - start)
            # The least: in company, as right after BLAS, most of them may be late, and this is asked only once.
            self.seconds = min(times)
        return work > _LAUNCHES_WORTH * self.seconds * _SERIAL_FLOPS_PER_SECOND

    def _after_fork(self):
        # OpenMP's pool does not survive a fork: a child of a process that used it runs serially.
        self.forbidden = self.happened
        self.lock = threading.Lock()


_launch = _Launch()


class SharedWork:
    """What `sharing_all_work` yields: `launches` is the number of parallel launches since, by any Python thread."""

    def __init__(self):
        self._before = _launch.count

    @property
    def launches(self):
        return _launch.count - self._before


@contextmanager
def sharing_all_work():
    """Within the block work of any size is shared among threads, so that small tests see parallel launches.

    It holds for all Python threads. With one Numba thread, or the JIT off, kernels are serial all the same, which
    `launches` of the `SharedWork` that it yields then shows.
    """
    with _launch.lock:
        _launch.shares_all += 1
    try:
        yield SharedWork()
    finally:
        with _launch.lock:
            _launch.shares_all -= 1


def _compile(function, twin, uses_tiles, *, parallel):
    """Compile one twin under a name of its own."""
    if not COMPILED:
        return function
    copy = _renamed(function, twin)
    dispatcher = numba.njit(parallel=parallel, **_FLAGS, **_NO_C_ENTRANCE, pipeline_class=WholeCompiler)(copy)
    use_cache(dispatcher, copy, uses_tiles)
    return dispatcher


_callbacks = []  # machine code lives as long as its CFunc


def callback(function, name, signature, uses_tiles=False):
    """Compile `function` for callers outside Numba's own conventions; the result has an `address`.

    With `uses_tiles` the tiles of its dtypes are made first, as for a kernel.
    """
    copy = _renamed(function, name)
    compiled = CFunc(copy, (signature.args, signature.return_type), {}, _FLAGS, pipeline_class=WholeCompiler)
    use_cache(compiled, copy, uses_tiles)
    compiled.compile()
    _callbacks.append(compiled)
    return compiled


def _renamed(function, suffix):
    """A copy of `function` whose code carries a name of its own, and so a cache slot of its own."""
    name = f"{function.__name__}_{suffix}"
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__module__, copy.__doc__ = function.__module__, function.__doc__
    return copy


@kernel
def nearly_nothing(counts):
    """Count launches.

    (n)->(n)
    counts += 1: what a launch costs by itself.
    """
    for n in prange(counts.shape[0]):
        counts[n] += 1


def threading_layer():
    """The name of Numba's threading layer, which shows in the first launch; None where the JIT is off."""
    if not COMPILED:
        return None
    nearly_nothing.parallel(np.zeros(2))
    return numba.threading_layer()
