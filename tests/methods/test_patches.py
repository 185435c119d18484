"""Patches against loops over their pixels."""

import numpy as np
import pytest

from fastccpd.methods._patches import Patches, starts


@pytest.mark.parametrize(
    ("length", "size", "step", "expected"),
    [
        (10, 5, 1, [0, 1, 2, 3, 4, 5]),
        (12, 8, 4, [0, 4]),
        (13, 8, 4, [0, 4, 5]),
        (16, 7, 3, [0, 3, 6, 9]),
        (8, 8, 4, [0]),
        (5, 8, 4, [0]),
        (1, 1, 1, [0]),
    ],
)
def test_starts_end_flush_with_the_border_and_never_come_twice(length, size, step, expected):
    np.testing.assert_array_equal(starts(length, size, step), expected)


CASES = [((9, 11, 3), 5, 1), ((13, 10, 2), 7, 3), ((17, 9, 1), 8, 4), ((3, 12, 2), 5, 2)]


@pytest.mark.parametrize(("shape", "size", "step"), CASES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_patches_hold_the_pixels_of_their_places(shape, size, step, order):
    image = np.random.default_rng(0).random(shape)
    patches = Patches(shape, size, step, order)
    high, wide = patches.size
    found = patches.gather(image)
    assert found.shape == (len(patches), high * wide, shape[2])
    assert len(patches) == patches.grid[0] * patches.grid[1] == len(set(zip(patches.rows, patches.columns)))
    for patch, i, j in zip(found, patches.rows, patches.columns):
        block = image[i : i + high, j : j + wide]
        expected = block.swapaxes(0, 1) if order == "F" else block
        np.testing.assert_array_equal(patch, expected.reshape(high * wide, -1))
    places = np.array([2, 0, len(patches) - 1])
    np.testing.assert_array_equal(patches.gather(image, places), found[places])


@pytest.mark.parametrize(("shape", "size", "step"), CASES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_average_of_an_image_s_own_patches_is_the_image(shape, size, step, order):
    image = np.random.default_rng(0).random(shape)
    patches = Patches(shape, size, step, order)
    np.testing.assert_allclose(patches.average(patches.gather(image)), image, rtol=1e-14)
    assert patches.coverage().min() >= 1


def test_the_average_is_the_mean_over_the_patches_of_each_pixel():
    patches = Patches((9, 11, 2), 5, 3)
    values = np.random.default_rng(1).random((len(patches), 25, 2))
    total, count = np.zeros((9, 11, 2)), np.zeros((9, 11, 1))
    for patch, i, j in zip(values, patches.rows, patches.columns):
        total[i : i + 5, j : j + 5] += patch.reshape(5, 5, 2)
        count[i : i + 5, j : j + 5] += 1
    np.testing.assert_allclose(patches.average(values), total / count, rtol=1e-13)
    np.testing.assert_array_equal(patches.coverage(), count[:, :, 0])


def test_groups_of_patches_add_up_to_all_of_them():
    patches = Patches((9, 11, 2), 5)
    values = np.random.default_rng(1).random((len(patches), 25, 2))
    total = np.zeros((9, 11, 2))
    for places in np.array_split(np.random.default_rng(2).permutation(len(patches)), 4):
        patches.add(values[places], total, places)
    np.testing.assert_allclose(total / patches.coverage()[:, :, None], patches.average(values), rtol=1e-13)
