"""What kernels take of arrays, and what they borrow: views, scratch memory, sums of lanes."""

import numba
import numpy as np
import pytest
from fastccpd.kernels.lanes import LANES, inverse, inverse_root, load, load_as, store, store_transposed, total_of_lanes
from fastccpd.kernels.parts import FLAGS
from fastccpd.kernels.scratch import ALIGNMENT, borrow, give_back
from fastccpd.kernels.views import flat, matrix_at, rows_of

# As kernels are, but none of them: tests go through the list of all kernels.
compiled = numba.njit(**FLAGS)


@compiled
def take_views(cube, matrix, first, stop, some, flattened, of_vector):
    """Copies of views.

    (I,J,K),(n,m),(),()->(stop-first,J,K),(n m),(2,3)
    """
    view, vector = rows_of(cube, first, stop), flat(matrix)
    for i in range(view.shape[0]):
        for j in range(view.shape[1]):
            for k in range(view.shape[2]):
                some[i, j, k] = view[i, j, k]
    for n in range(vector.shape[0]):
        flattened[n] = vector[n]
    small = matrix_at(vector, first, 2, 3)
    for i in range(small.shape[0]):
        for j in range(small.shape[1]):
            of_vector[i, j] = small[i, j]


@compiled
def borrow_rooms(rooms, counts, remainders):
    """Borrow vectors of several lengths, fill them, and give them back.

    ()->(n),(n)
    """
    for n in range(rooms):
        room = borrow(3 * n + 1, remainders)
        for m in range(room.shape[0]):
            room[m] = m
        counts[n] = room[room.shape[0] - 1]
        remainders[n] = room.ctypes.data % ALIGNMENT
        give_back(room)


@compiled
def add_lanes(vector, out):
    """The sum of the first lanes.

    (n)->(1)
    """
    out[0] = total_of_lanes(load(vector, 0))


@compiled
def invert_lanes(vector, inverses, of_roots):
    """One over the first lanes, and over their roots.

    (n)->(n),(n)
    """
    store(inverses, 0, inverse(load(vector, 0)))
    store(of_roots, 0, inverse_root(load(vector, 0)))


@compiled
def turn_block(block, apart, count, out):
    """Eight rows of eight numbers as columns, the first `count` of which are stored.

    (64),(),()->(n)
    """
    store_transposed(
        out,
        3,
        apart,
        count,
        load_as(block, 0, block),
        load_as(block, 8, block),
        load_as(block, 16, block),
        load_as(block, 24, block),
        load_as(block, 32, block),
        load_as(block, 40, block),
        load_as(block, 48, block),
        load_as(block, 56, block),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_views_are_the_slices_that_they_stand_for(dtype):
    cube, matrix = np.arange(210).reshape(7, 5, 6).astype(dtype), np.arange(77).reshape(11, 7).astype(dtype)
    some, flattened, of_vector = np.empty((3, 5, 6), dtype), np.empty(77, dtype), np.empty((2, 3), dtype)
    take_views(cube, matrix, 2, 5, some, flattened, of_vector)
    np.testing.assert_array_equal(some, cube[2:5])
    np.testing.assert_array_equal(flattened, matrix.ravel())
    np.testing.assert_array_equal(of_vector, matrix.ravel()[2:8].reshape(2, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_borrowed_is_aligned_and_as_long_as_asked(dtype):
    counts, remainders = np.full(40, np.nan, dtype), np.full(40, np.nan, dtype)
    borrow_rooms(40, counts, remainders)
    np.testing.assert_array_equal(counts, 3 * np.arange(40))
    if not numba.config.DISABLE_JIT:
        np.testing.assert_array_equal(remainders, 0)


def test_lanes_are_added_from_the_first_to_the_last():
    vector, out = np.array([1e16, 1.0, -1e16, 1.0, 0.5, 0.25, 3.0, -2.0]), np.empty(1)
    assert len(vector) == LANES
    add_lanes(vector, out)
    total = 0.0
    for value in vector:
        total += value
    assert out[0] == total != np.sum(vector[::-1])


def test_inverses_are_right_to_a_few_roundings_over_all_magnitudes():
    rng, inverses, of_roots = np.random.default_rng(0), np.empty(LANES), np.empty(LANES)
    for _ in range(500):
        vector = rng.random(LANES) * 10.0 ** rng.uniform(-290, 290, LANES)
        invert_lanes(vector, inverses, of_roots)
        np.testing.assert_allclose(inverses, 1.0 / vector, rtol=4 * np.finfo(float).eps)
        np.testing.assert_allclose(of_roots, 1.0 / np.sqrt(vector), rtol=4 * np.finfo(float).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 5, 8, 11])
def test_columns_of_eight_vectors_are_stored_apart(dtype, count):
    block, out = np.random.default_rng(0).random((LANES, LANES)).astype(dtype), np.full(103, 7.0, dtype)
    turn_block(block.ravel(), 13, count, out)
    expected = np.full(103, 7.0, dtype)
    for n in range(min(count, LANES)):
        expected[3 + 13 * n : 11 + 13 * n] = block[:, n]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_every_kernel_gives_back_what_it_borrows(launches, fresh):
    from numba.core.runtime import _nrt_python, rtsys

    counted = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        whole = 0
        for kernel, args in launches:
            args, before = [fresh(arg) for arg in args], rtsys.get_allocation_stats()
            kernel.serial(*args)
            after = rtsys.get_allocation_stats()
            # What is borrowed has no owner that Numba would count.
            borrowed = (after.alloc - before.alloc) - (after.mi_alloc - before.mi_alloc)
            returned = (after.free - before.free) - (after.mi_free - before.mi_free)
            assert borrowed == returned, kernel
            whole += borrowed
        assert whole > 0
    finally:
        if not counted:
            _nrt_python.memsys_disable_stats()
