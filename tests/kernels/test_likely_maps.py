"""What regressions at coarse pixels say of fine ones, against its definition."""

import numpy as np
import pytest
from fastccpd.kernels.likely_maps import predict_maps
from scenery import likely_case

from fastccpd.estimation.map_system import Layout


def by_definition(args):
    first, last, shape, Z, mix, place, along, windows, blocks, middle, features, known, models, which, out = args
    I, P, _ = shape
    layout = Layout(I, int(blocks[-1, 1]), P)
    maps, found = layout.maps(Z).astype(np.float64), layout.maps(out)
    for i in range(first, last):
        for start, stop, left, right in blocks:
            for j in range(start, stop):
                x = np.array([*(mix.T @ maps[i, j]), place[0] * along[i], place[1] * along[I + j]])
                rows = slice(*windows[i])
                apart = np.square(x - middle - features[rows, left:right]).sum(axis=2)[known[rows, left:right]]
                these = models[rows, left:right][known[rows, left:right]].astype(np.float64)
                if len(apart):
                    two = np.argsort(apart, kind="stable")[:2]
                    weights = 1.0 / np.maximum(apart[two], 1e-30)
                    said = [these[n, 0] + x @ these[n, 1:] for n in two]
                    found[i, j, which] = weights @ said / weights.sum()
    return found


def run(args):
    predict_maps(*args)
    _, _, (I, P, _), *_, blocks, _, _, _, _, _, out = args
    return Layout(I, int(blocks[-1, 1]), P).maps(out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_two_coarse_pixels_that_are_most_alike_predict_a_fine_one(dtype):
    args = list(likely_case(dtype))
    expected = by_definition(args)
    found = run(args)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert not np.array_equal(expected, likely_case(dtype)[-1])


@pytest.mark.parametrize("count", [0, 1])
def test_with_one_known_pixel_that_alone_predicts_and_with_none_nothing_does(count):
    args = list(likely_case(np.float64))
    known = np.zeros_like(args[11])
    known[2, 2] = count
    args[11] = known
    np.testing.assert_allclose(run([*args[:-1], args[-1].copy()]), by_definition(args), rtol=1e-5, atol=1e-5)


def test_coarse_pixels_like_a_fine_one_in_all_digits_predict_it():
    args = list(likely_case(np.float64))
    args[4], args[5], args[9] = np.zeros_like(args[4]), np.zeros(2), np.zeros(5)
    args[10] = np.zeros_like(args[10])
    found = run([*args[:-1], args[-1].copy()])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, by_definition(args), rtol=1e-5, atol=1e-5)
