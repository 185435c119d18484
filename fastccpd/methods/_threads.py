"""Pieces of NumPy work over Python threads: BLAS and ufuncs let go of the interpreter's lock."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numba


@contextmanager
def thread_map():
    """Within the block, a `map` over as many threads as the kernels use; results come in the order of the items.

    A method that uses it says `same_bytes_on_any_threads`: BLAS is then held at one thread, and each piece gives the
    same bytes whichever thread it runs on.
    """
    count = numba.get_num_threads()
    if count == 1:
        yield map
        return
    with ThreadPoolExecutor(count) as pool:
        yield pool.map
