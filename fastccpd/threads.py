"""Pieces of NumPy work over Python threads: BLAS and ufuncs let go of the interpreter's lock."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numba

from .blas import one_blas_thread


@contextmanager
def thread_map():
    """Within the block, a `map` over as many threads as the kernels use; results come in the order of the items.

    BLAS is held at one thread meanwhile, so that it does not take the cores from the pieces, and each piece gives the
    same bytes on whichever thread it runs.
    """
    count = numba.get_num_threads()
    with one_blas_thread():
        if count == 1:
            yield map
            return
        with ThreadPoolExecutor(count) as pool:
            yield pool.map
