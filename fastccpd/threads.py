"""Pieces of work over Python threads: BLAS, ufuncs and kernels let go of the interpreter's lock.

The threads stay, and Ctrl-C may come between any two bytecodes: in `threading` and `concurrent.futures`, whose locks
are taken in Python, it can leave one taken, and whoever comes next waits without end. So nothing is used here but
queues, whose methods are whole, and the pop of a list, by which a piece is taken once: by a thread that does it, or by
the caller who leaves.
"""

import _thread
import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

import numba

from .blas import one_blas_thread

# Seconds between two pulses while a piece is waited for, and what a thread may take to begin.
_PULSE, _PATIENCE = 0.05, 60.0

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
        tasks, pending = _tasks(os.getpid(), count), list[_Piece]()

        def map_pieces(function, *items):
            pieces = [_Piece(function, item) for item in zip(*items, strict=True)]
            pending.extend(pieces)
            for piece in pieces:
                tasks.put(piece)
            return _results(pieces[::-1], pulse)

        try:
            yield map_pieces
        finally:
            begun = [piece for piece in pending if not piece.take()]
            for piece in begun:
                piece.wait()


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
    """What a function gives of each piece, in their order, on threads where there are several.

    The caller is one of them: the others may take long to wake, and find the less to do.
    """
    if len(pieces) < 2:
        return list(map(function, pieces))
    count, results = numba.get_num_threads(), [None] * len(pieces)
    left = list(range(len(pieces)))[::-1]

    def work_off():
        """Take pieces until there are none, which the pop of a list makes sure that nobody else has."""
        while left:
            try:
                n = left.pop()
            except IndexError:
                return
            results[n] = function(pieces[n])

    helpers = [_Piece(work_off, ()) for _ in range(min(count, len(pieces)) - 1)]
    with one_blas_thread():
        try:
            try:
                for helper in helpers:
                    _tasks(os.getpid(), count).put(helper)
                numba.set_num_threads(1)
                work_off()
            finally:
                numba.set_num_threads(count)
        finally:
            numba.set_num_threads(count)  # again, for Ctrl-C may have come just before
            left.clear()
            begun = [helper for helper in helpers if not helper.take()]
            for helper in begun:
                helper.wait()
    for helper in begun:
        helper.result()
    return results


def row_slices(count: int, numbers: int) -> list[slice]:
    """Slices of rows, each with a fixed amount of work: `numbers` is that of one row."""
    rows = max(1, _NUMBERS // max(1, numbers))
    return [slice(i, min(count, i + rows)) for i in range(0, count, rows)]


def over_blocks(function: Callable[[slice], Any], count: int, pulse: Callable[[], None] = lambda: None) -> None:
    """Call a function of each of some slices of rows, enough of them for a fast product, and `pulse()` after each."""
    with thread_map() as each:
        for _ in each(function, [slice(i, i + _ROWS) for i in range(0, count, _ROWS)]):
            pulse()


class _Piece:
    """A call, which is taken once, and what came of it."""

    def __init__(self, function, items):
        self._call, self._result, self._error = [(function, items)], None, None
        self._done, self._is_done = SimpleQueue(), False

    def take(self):
        """The call, in a list, if nobody has taken it before; nobody will after."""
        try:
            return [self._call.pop()]
        except IndexError:
            return []

    def run(self):
        for function, items in self.take():
            try:
                self._result = function(*items)
            except BaseException as error:  # the caller's, wherever it comes from
                self._error = error
            self._is_done = True
            self._done.put(None)

    def wait(self, pulse=None):
        """Until a thread is through with it."""
        while not self._is_done:
            try:
                self._done.get(timeout=_PULSE)
            except Empty:
                if pulse is not None:
                    pulse()

    def result(self):
        """What came of it, handed over, or its error."""
        if self._error is not None:
            raise self._error
        result, self._result = self._result, None
        return result


def _results(pieces, pulse):
    """The results of pieces, last to first; none is held longer than it takes to hand it over."""
    while pieces:
        pieces[-1].wait(pulse)
        yield pieces.pop().result()


@cache
def _tasks(process, count):
    """The queue of a process's threads. All begin now; where memory is too short for that, nobody waits for them."""
    tasks, begun = SimpleQueue(), SimpleQueue()
    for _ in range(count):
        _thread.start_new_thread(_work, (tasks, begun))
    try:
        for _ in range(count):
            begun.get(timeout=_PATIENCE)
    except Empty:
        raise MemoryError("no thread could begin") from None
    return tasks


def _work(tasks, begun):
    numba.set_num_threads(1)
    begun.put(None)
    while True:
        tasks.get().run()
