"""Pictures moved by parts of a pixel: values, blocks, and what is missing."""

import numpy as np
import pytest

from fastccpd.imaging.moving import Move

ROWS, COLUMNS = slice(0, 30), slice(0, 41)


def picture(rows, columns):
    """A smooth picture of two bands, at any place."""
    waves = np.sin(0.3 * np.asarray(rows, float))[:, None] * np.cos(0.2 * np.asarray(columns, float))
    return np.stack([waves, 2.0 - waves], axis=2)


IMAGE = picture(range(30), range(41))


def block(rows, columns):
    return IMAGE[rows, columns]


@pytest.mark.parametrize("by", [(0.0, 0.0), (0.5, -0.3), (-2.0, 3.7)])
def test_what_was_further_on_comes_to_its_place(by):
    moved = Move(IMAGE.shape, by).image(block, ROWS, COLUMNS)
    expected = picture(np.arange(30) + by[0], np.arange(41) + by[1])
    np.testing.assert_allclose(moved[6:-6, 6:-6], expected[6:-6, 6:-6], atol=1e-4)


def test_blocks_are_those_of_the_whole():
    move = Move(IMAGE.shape, (1.3, -0.6))
    whole = move.image(block, ROWS, COLUMNS)
    for rows, columns in ((slice(0, 7), slice(3, 9)), (slice(25, 30), slice(38, 41)), (slice(11, 12), COLUMNS)):
        np.testing.assert_allclose(move.image(block, rows, columns), whole[rows, columns], rtol=1e-12)


def test_single_precision_stays_what_it_is():
    assert Move(IMAGE.shape, (0.5, 0.5)).image(lambda r, c: block(r, c).astype("f4"), ROWS, COLUMNS).dtype == np.float32


def test_what_is_made_of_gaps_is_a_gap_and_the_rest_is_not_touched():
    holed = IMAGE.copy()
    holed[10, 20] = np.nan
    move = Move(IMAGE.shape, (0.5, -2.0))
    moved = move.image(lambda rows, columns: holed[rows, columns], ROWS, COLUMNS)
    gaps = np.isnan(moved).all(axis=2)
    assert sorted(zip(*np.nonzero(gaps))) == [(9, 22), (10, 22)]
    whole = move.image(block, ROWS, COLUMNS)
    np.testing.assert_allclose(moved[~gaps], whole[~gaps], atol=0.1)
    np.testing.assert_array_equal(move.mask(lambda r, c: np.isnan(holed[r, c, 0]), ROWS, slice(2, 41)), gaps[:, 2:])
    nothing = move.image(lambda rows, columns: np.full_like(holed[rows, columns], np.nan), ROWS, COLUMNS)
    assert np.isnan(nothing).all()


@pytest.mark.parametrize(("by", "lost"), [(0.6, []), (1.0, [29]), (2.2, [28, 29]), (-3.0, [0, 1, 2])])
def test_pixels_that_do_not_meet_the_picture_are_marked(by, lost):
    marks = Move(IMAGE.shape, (by, 0.0)).mask(lambda r, c: np.zeros(IMAGE.shape[:2], bool)[r, c], ROWS, COLUMNS)
    assert np.flatnonzero(marks.all(axis=1)).tolist() == lost
    assert marks.sum() == 41 * len(lost)
