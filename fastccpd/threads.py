"""Pieces of work over Python threads: BLAS, ufuncs and kernels let go of the interpreter's lock."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba

from .blas import one_blas_thread

# Seconds between two pulses while a piece is waited for.
_PULSE = 0.05

# Numbers that a piece of rows has, about: far more than what handing it over costs.
_NUMBERS = 1 << 18

# Rows that are multiplied at once.
_ROWS = 16


@contextmanager
def thread_map(pulse: Callable[[], None] | None = None):
    """Within the block, a `map` over as many threads as the kernels use; results come in the order of the items.

    BLAS is held at one thread meanwhile, and kernels in a piece are serial, so that neither takes the cores from the
    pieces, and each piece gives the same bytes on whichever thread it runs. No piece outlives the block.

    Parameters
    ----------
    pulse : callable, optional
        Called by the waiting thread, again and again; it may raise.
    """
    count = numba.get_num_threads()
    with one_blas_thread():
        if count == 1:
            yield map
            return
        pool, pending = _pool(os.getpid(), count), set[Future[Any]]()

        def map_pieces(function, *items):
            begun = []
            for piece in zip(*items, strict=True):
                begun.append(pool.submit(function, *piece))
                pending.add(begun[-1])
                begun[-1].add_done_callback(pending.discard)
            return _results(begun[::-1], pulse)

        try:
            yield map_pieces
        finally:
            left = list(pending)
            for future in left:
                future.cancel()
            wait(left)


def by_rows(function: Callable[[slice], Any], count: int, numbers: int) -> list[Any]:
    """What a function gives of each of some slices of rows, in their order; the slices do not depend on threads.

    Parameters
    ----------
    function : callable(slice) -> anything
    count : int
        How many rows there are.
    numbers : int
        How many numbers are worked on for one of them.
    """
    return over_pieces(function, row_slices(count, numbers))


def over_pieces(function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
    """What a function gives of each piece, in their order, on threads where there are several."""
    if len(pieces) < 2:
        return list(map(function, pieces))
    with thread_map() as map_pieces:
        return list(map_pieces(function, pieces))


def row_slices(count: int, numbers: int) -> list[slice]:
    """Slices of rows, each with a fixed amount of work: `numbers` is that of one row."""
    rows = max(1, _NUMBERS // max(1, numbers))
    return [slice(i, min(count, i + rows)) for i in range(0, count, rows)]


def over_blocks(function: Callable[[slice], Any], count: int, pulse: Callable[[], None] = lambda: None) -> None:
    """Call a function of each of some slices of rows, enough of them for a fast product, and `pulse()` after each."""
    with thread_map() as each:
        for _ in each(function, [slice(i, i + _ROWS) for i in range(0, count, _ROWS)]):
            pulse()


def _results(futures, pulse):
    """The results of futures, last to first; none is held longer than it takes to hand it over."""
    while futures:
        while pulse is not None and not wait(futures[-1:], _PULSE).done:
            pulse()
        yield futures.pop().result()


@cache
def _pool(process, count):
    """The threads of a process. All begin now: where memory is short, Python waits without end for one that cannot."""
    all_begun = threading.Barrier(count)
    pool = ThreadPoolExecutor(count, "fastccpd", numba.set_num_threads, (1,))
    wait([pool.submit(all_begun.wait) for _ in range(count)])
    return pool
