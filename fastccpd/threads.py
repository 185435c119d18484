"""Pieces of NumPy work over Python threads: BLAS and ufuncs let go of the interpreter's lock."""

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba

from .blas import one_blas_thread


@contextmanager
def thread_map():
    """Within the block, a `map` over as many threads as the kernels use; results come in the order of the items.

    BLAS is held at one thread meanwhile, so that it does not take the cores from the pieces, and each piece gives the
    same bytes on whichever thread it runs. No piece outlives the block.
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
            return _results(begun[::-1])

        try:
            yield map_pieces
        finally:
            left = list(pending)
            for future in left:
                future.cancel()
            wait(left)


def over_blocks(function, length, pulse=lambda: None, size=16):
    """Call `function(block)` for the slices of `size` that make up `length`, over threads, and `pulse()` after each."""
    with thread_map() as each:
        for _ in each(function, [slice(at, at + size) for at in range(0, length, size)]):
            pulse()


def _results(futures):
    """The results of futures, last to first; none is held longer than it takes to hand it over."""
    while futures:
        yield futures.pop().result()


@cache
def _pool(process, count):
    """The threads of a process. All begin now: where memory is short, Python waits without end for one that cannot."""
    pool, all_begun = ThreadPoolExecutor(count, "fastccpd"), threading.Barrier(count)
    wait([pool.submit(all_begun.wait) for _ in range(count)])
    return pool
