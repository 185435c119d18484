"""The Lee filter against loops over windows."""

import numpy as np
import pytest

from fastccpd.imaging import lee


def lee_by_loops(cube, window, noise, boundary):
    """The published formula, pixel by pixel."""
    rows, columns, bands = cube.shape
    half = window // 2

    def pixel(i, j, k):
        if boundary == "zero":
            return cube[i, j, k] if 0 <= i < rows and 0 <= j < columns else 0.0
        while not 0 <= i < rows:
            i = -1 - i if i < 0 else 2 * rows - 1 - i
        while not 0 <= j < columns:
            j = -1 - j if j < 0 else 2 * columns - 1 - j
        return cube[i, j, k]

    mean, variance = np.empty(cube.shape), np.empty(cube.shape)
    for i, j, k in np.ndindex(cube.shape):
        seen = [pixel(i + p, j + q, k) for p in range(-half, half + 1) for q in range(-half, half + 1)]
        mean[i, j, k], variance[i, j, k] = np.mean(seen), np.var(seen)
    n = variance.mean(axis=(0, 1)) if noise is None else np.broadcast_to(noise, bands)
    gain = np.maximum(variance - n, 0.0) / np.maximum(variance, n)
    return mean + gain * (cube - mean)


@pytest.mark.parametrize("boundary", ["reflect", "zero"])
@pytest.mark.parametrize("noise", [None, 0.05, [0.01, 0.3, 0.08]])
@pytest.mark.parametrize(("shape", "window"), [((9, 13, 3), 3), ((8, 5, 3), 5), ((2, 4, 3), 7)])
def test_lee_equals_the_formula_pixel_by_pixel(shape, window, noise, boundary):
    cube = np.random.default_rng(0).random(shape)
    cube[:, shape[1] // 2 :] += 2.0
    expected = lee_by_loops(cube, window, noise, boundary)
    np.testing.assert_allclose(lee(cube, window, noise, boundary), expected, rtol=0, atol=1e-12)


def test_default_is_three_by_three_reflected():
    cube = np.random.default_rng(1).random((7, 9, 2))
    np.testing.assert_allclose(lee(cube), lee_by_loops(cube, 3, None, "reflect"), atol=1e-13)


@pytest.mark.parametrize("noise", [None, 0.5])
def test_constant_image_is_unchanged_to_the_bit(noise):
    cube = np.broadcast_to([0.1, 1e6 / 3, 0.0, -7.7], (6, 9, 4))
    assert np.array_equal(lee(cube, 5, noise), cube)


@pytest.mark.parametrize("boundary", ["reflect", "zero"])
@pytest.mark.parametrize("noise", [None, 0.5])
def test_window_of_one_pixel_is_the_identity_to_the_bit(boundary, noise):
    cube = np.random.default_rng(2).standard_normal((6, 9, 4)) * 1e3
    assert np.array_equal(lee(cube, 1, noise, boundary), cube)


def test_without_noise_nothing_is_smoothed():
    cube = np.random.default_rng(3).random((6, 9, 4))
    assert np.array_equal(lee(cube, noise=0.0), cube)


def test_with_much_noise_the_local_mean_is_left():
    cube = np.random.default_rng(4).random((6, 9, 2))
    expected = np.pad(cube, ((1, 1), (1, 1), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(expected, (3, 3), axis=(0, 1))
    np.testing.assert_allclose(lee(cube, noise=1e6), windows.mean(axis=(-2, -1)), atol=1e-13)


def test_variance_does_not_increase():
    rng = np.random.default_rng(5)
    cube = 1.0 + 0.3 * rng.standard_normal((40, 30, 5))
    assert (lee(cube).var(axis=(0, 1)) < cube.var(axis=(0, 1))).all()


def test_an_edge_stands_out_of_the_noise_and_stays():
    rng = np.random.default_rng(6)
    clean = np.zeros((40, 30, 1))
    clean[:, 15:] = 1.0
    smooth = lee(clean + 0.05 * rng.standard_normal(clean.shape), noise=0.05**2)
    assert abs(smooth[:, 14].mean()) < 0.03
    assert abs(smooth[:, 15].mean() - 1.0) < 0.03


def test_a_large_offset_does_not_drown_the_variance():
    cube = np.random.default_rng(7).random((12, 10, 2))
    np.testing.assert_allclose(lee(cube + 2.0**20) - 2.0**20, lee(cube), atol=1e-8)


def test_blocks_of_bands_do_not_show(monkeypatch):
    cube = np.random.default_rng(8).random((6, 9, 37))
    whole = lee(cube)
    monkeypatch.setattr("fastccpd.imaging.smoothing._BLOCK", 1)
    assert np.array_equal(lee(cube), whole)


def test_dtype_and_input_are_kept():
    cube = np.random.default_rng(9).random((6, 9, 4)).astype(np.float32)
    before = cube.copy()
    smooth = lee(np.asfortranarray(cube))
    assert smooth.dtype == np.float32
    np.testing.assert_allclose(smooth, lee(cube.astype(np.float64)), rtol=1e-6)
    assert np.array_equal(cube, before)
    assert lee((1000 * cube).astype(np.uint16)).dtype == np.float64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 2}, "window: got 2; an odd number"),
        ({"window": 0}, "window: got 0"),
        ({"noise": -1.0}, "noise: got -1.0; finite variances"),
        ({"noise": np.inf}, "noise: got inf; finite variances"),
        ({"noise": [1.0, 2.0]}, "one for each of the 4 bands"),
        ({"boundary": "periodic"}, "boundary: got 'periodic'; 'reflect' or 'zero'"),
    ],
)
def test_lee_refuses_what_makes_no_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        lee(np.ones((5, 6, 4)), **arguments)
