"""Kernels: compiled on first use, on one thread or on several, as it pays.

``@device`` compiles a helper that kernels call (`parts.py`). ``@kernel`` compiles a routine that Python calls. One
whose first argument is a `team` shares its work among threads (`team.py`); it runs on one thread for small work, and in
the moments when another Python thread is inside a parallel region (Numba's `workqueue` layer aborts the process if two
threads enter one). Kernels own their output rows or write a fixed number of partial sums, so bytes do not depend on how
many threads there are.

`disk_cache.py` keeps what was compiled, and knows the traps of Numba's own cache.
"""

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.ccallback import CFunc

from .disk_cache import CACHE_DIRECTORY as CACHE_DIRECTORY
from .disk_cache import before_first_use as before_first_use
from .disk_cache import use_cache
from .parts import FLAGS, NO_C_ENTRANCE, WholeCompiler
from .parts import allocating as allocating
from .parts import device as device
from .parts import exact as exact
from .parts import inlined as inlined
from .parts import intrinsic as intrinsic
from .team import alone, entrance, launch, part_of

# Work below this, a tenth of a millisecond, is never shared: beside another spinning pool (BLAS) a launch can cost more
# than that. Above it, it is shared where a launch, timed once on this machine with its threading layer and wait policy
# (3 us for a spinning OpenMP pool, 60 us for a sleeping one, 140 us for workqueue), is worth it.
LEAST_PARALLEL_WORK = 4_000_000

# In a loop that uses no BLAS at all, such as the solver's, there is no such pool, and this much is worth sharing.
LEAST_PARALLEL_WORK_WITHOUT_BLAS = 1_000_000
_SERIAL_FLOPS_PER_SECOND = 5e10
_LAUNCHES_WORTH, _SLOWEST_LAUNCH = 4, 1e-3

# A launch that takes so many times as long as the serial twin, and this many seconds more, waits for a core that other
# processes use: milliseconds, every time. Kernels then run serially for a while, the longer the more often it happens.
# What the serial twin takes is known from such a while, for work of about the same size: work that is larger than the
# caches may be ten times slower. Before, it is taken to be as slow as a kernel can be that only reads and writes.
_LATE_TIMES, _LATE_SECONDS = 4, 1e-4
_SLOWEST_FLOPS_PER_SECOND = 2e9

# What is done many times over in one launch stays in the caches; many stages of it may each wait for a core.
_SLOWEST_OF_MANY_FLOPS_PER_SECOND = 1e10
_SHORTEST_REST, _LONGEST_REST = 0.01, 0.1

# Loops are shared where they say `prange`, and nowhere else: no launch hides in an assignment, and compiling is faster.
_PARALLEL = {
    "prange": True,
    **dict.fromkeys(("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion"), False),
}

KERNELS = []

# Whether there is a compiler: NUMBA_DISABLE_JIT=1 leaves plain Python.
COMPILED = not numba.config.DISABLE_JIT


class Kernel:
    """A compiled routine: call it for the serial twin, or with `work` (flops) to go parallel where that pays.

    Where how often that work is done shows only afterwards, `times` is a function that then says it.
    """

    def __init__(self, function, uses_tiles=False):
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.function, self.uses_tiles = function, uses_tiles
        self.shares_work = function.__code__.co_varnames[0] == "team"
        self.body = device(function)
        self.compiled = self._compile() if COMPILED else None
        if self.shares_work:
            self.serial = partial(self.compiled, 0, 1) if COMPILED else self._run_plainly
            self.parallel = self._run_by_all if COMPILED else self.serial
        else:
            self.serial = self.parallel = self.compiled or function
        self.was_launched, self.paces = False, {}
        KERNELS.append(self)

    def _compile(self):
        function = entrance(self.function, self.body) if self.shares_work else self.function
        dispatcher = numba.njit(**FLAGS, **NO_C_ENTRANCE, pipeline_class=WholeCompiler)(function)
        use_cache(dispatcher, function, self.uses_tiles)
        return dispatcher

    def _run_plainly(self, *args):
        self.function(alone(), *args)

    def _run_by_all(self, *args):
        self.compiled(_launcher(), numba.get_num_threads(), *args)

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
        _launch.count += self.shares_work

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
            self._take_a_rest()
        else:
            self.rest = max(0.99 * self.rest, _SHORTEST_REST)

    def pays(self, work):
        """Whether `work` flops are worth a launch; the caller holds the lock."""
        if self.seconds is None and not self.rests():
            self._time()
        return self.seconds is not None and work > _LAUNCHES_WORTH * self.seconds * _SERIAL_FLOPS_PER_SECOND

    def _time(self):
        """Find out what a launch costs, or rest, if launches wait for a core just now, as beside BLAS they may."""
        counts, times = np.zeros(2), []
        nearly_nothing.parallel(counts)  # which may compile it
        while len(times) < 20 and sum(times) < _SHORTEST_REST:
            start = time.perf_counter()
            nearly_nothing.parallel(counts)
            times.append(time.perf_counter() - start)
        if min(times) < _SLOWEST_LAUNCH:
            self.seconds = min(times)
        else:
            self._take_a_rest()

    def _take_a_rest(self):
        self.rest = min(2.0 * self.rest, _LONGEST_REST)
        self.resting_until = time.perf_counter() + self.rest

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


_callbacks = []  # machine code lives as long as its CFunc


def callback(function, name, signature, uses_tiles=False, **options):
    """Compile `function` for callers outside Numba's own conventions; the result has an `address`.

    With `uses_tiles` the tiles of its dtypes are made first, as for a kernel.
    """
    copy = _renamed(function, name)
    compiled = CFunc(copy, (signature.args, signature.return_type), {}, FLAGS | options, WholeCompiler)
    use_cache(compiled, copy, uses_tiles)
    compiled.compile()
    _callbacks.append(compiled)
    return compiled


def _renamed(function, suffix):
    """A copy of `function` whose code carries a name of its own, and so a cache slot of its own."""
    name = f"{function.__name__}_{suffix}"
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__module__, copy.__doc__ = function.__module__, function.__doc__
    return copy


@cache
def _launcher():
    """The address of `team.launch`."""
    n = types.int64
    return callback(launch, "all", types.void(n, n, n), parallel=_PARALLEL).address


@kernel
def nearly_nothing(team, counts):
    """Count launches.

    (n)->(n)
    counts += 1: what a launch costs by itself.
    """
    for n in part_of(team, counts.shape[0]):
        counts[n] += 1


def threading_layer():
    """The name of Numba's threading layer, which shows in the first launch; None where the JIT is off."""
    if not COMPILED:
        return None
    nearly_nothing.parallel(np.zeros(2))
    return numba.threading_layer()
