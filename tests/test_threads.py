"""Pieces of work over threads: in order, on as many threads as the kernels use, none left behind."""

import threading
import time

import numba
import pytest

from fastccpd.threads import thread_map

pytestmark = pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="for two threads")


def test_results_come_in_the_order_of_the_items_whichever_is_done_first():
    def slow_at_first(n, seconds):
        time.sleep(seconds)
        return n, threading.get_ident()

    with thread_map() as map_pieces:
        found = list(map_pieces(slow_at_first, range(4), (0.1, 0.0, 0.0, 0.0)))
    assert [n for n, _ in found] == [0, 1, 2, 3]
    assert 1 < len({thread for _, thread in found}) <= numba.get_num_threads()


def test_no_piece_outlives_the_block():
    running, begun = set(), threading.Event()

    def piece(n):
        running.add(n)
        begun.set()
        time.sleep(0.1)
        running.discard(n)

    def interrupted():
        with thread_map() as map_pieces:
            map_pieces(piece, range(50))
            begun.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not running


def test_an_error_of_a_piece_is_raised_and_the_next_block_works():
    with pytest.raises(ZeroDivisionError), thread_map() as map_pieces:
        list(map_pieces(lambda n: 1 // n, (1, 0, 2)))
    with thread_map() as map_pieces:
        assert list(map_pieces(lambda n: n, (1, 2))) == [1, 2]
