"""Pieces of work over threads: in order, on as many threads as the kernels use, none left behind."""

import itertools
import sys
import threading
import time

import numba
import numpy as np
import pytest

from fastccpd import threads
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


def by_threads(function, pieces):
    with thread_map() as map_pieces:
        return list(map_pieces(function, pieces))


WAYS = pytest.mark.parametrize("way", [by_threads, threads.over_pieces])


@WAYS
def test_an_interruption_between_any_two_bytecodes_leaves_the_threads_fit(way):
    before_all = numba.get_num_threads()

    def work():
        return way(abs, (-1, -2, -3))

    def interrupted_after(count):
        left = iter(range(count))

        def trace(frame, event, _):
            if frame.f_code.co_filename != threads.__file__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode" and next(left, None) is None:
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)

    work()  # the threads begin
    for count in itertools.count():
        try:
            interrupted_after(count)
            break
        except KeyboardInterrupt:
            assert numba.get_num_threads() == before_all
            assert work() == [1, 2, 3]
    assert count > 100


@WAYS
def test_an_error_of_a_piece_is_raised_and_the_next_block_works(way):
    for places in itertools.permutations((1, 0, 2)):
        with pytest.raises(ZeroDivisionError):
            way(lambda n: 1 // n, places)
    assert way(lambda n: n, (1, 2)) == [1, 2]


@WAYS
def test_kernels_in_a_piece_are_serial(way):
    before = numba.get_num_threads()
    assert way(lambda n: numba.get_num_threads(), range(4)) == [1] * 4
    assert numba.get_num_threads() == before


def test_the_caller_works_on_pieces_too():
    def slow(n):
        time.sleep(0.02)
        return n, threading.get_ident()

    found = threads.over_pieces(slow, range(6))
    assert [n for n, _ in found] == list(range(6))
    workers = {thread for _, thread in found}
    assert threading.get_ident() in workers
    assert 1 < len(workers) <= numba.get_num_threads()


def test_the_waiting_thread_is_called_again_and_again_and_may_end_it_all():
    done, called = [], []

    def piece(n):
        time.sleep(0.2)
        done.append(n)

    def pulse():
        called.append(threading.get_ident())
        if len(called) > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), thread_map(pulse) as map_pieces:
        list(map_pieces(piece, range(50)))
    assert called == [threading.get_ident()] * 2
    assert len(done) <= 2 * numba.get_num_threads()


def test_slices_of_rows_cover_all_of_them_and_do_not_depend_on_threads():
    slices = threads.row_slices(1000, 1000)
    assert np.array_equal(np.concatenate([np.arange(1000)[part] for part in slices]), np.arange(1000))
    assert len(slices) > 1
    assert threads.by_rows(lambda part: part, 1000, 1000) == slices
    assert threads.by_rows(lambda part: part, 0, 1000) == []
