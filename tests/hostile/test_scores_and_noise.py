"""Metrics and noise of images in any unit: the squares of their values may leave the range of a float."""

import warnings

import numpy as np
import pytest

from fastccpd.imaging import add_noise, metrics

RNG = np.random.default_rng(5)
REFERENCE = 0.2 + RNG.random((16, 14, 6))
ESTIMATE = REFERENCE + 0.03 * RNG.standard_normal(REFERENCE.shape)

UNITS = [1e-200, 1e-160, 1e160, 1e200]


def numbers(scores):
    return {name: value for name, value in scores.items() if isinstance(value, float)}


@pytest.mark.parametrize("unit", UNITS)
def test_scores_are_the_same_in_any_unit(unit):
    near = numbers(metrics.score(ESTIMATE, REFERENCE, ratio=4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = numbers(metrics.score(ESTIMATE * unit, REFERENCE * unit, ratio=4))
    for name, value in near.items():
        expected = value * unit if name == "rmse" else value
        np.testing.assert_allclose(far[name], expected, rtol=1e-9, err_msg=name)


def test_a_perfect_estimate_of_a_faint_image_is_still_perfect():
    faint = REFERENCE * 1e-200
    assert metrics.score(faint, faint, ratio=4)["rsnr"] == np.inf


def test_images_of_unlike_size_are_scored_too():
    scores = metrics.score(ESTIMATE, REFERENCE * 1e-200, ratio=4)
    assert scores["rsnr"] < -3000.0


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("per_band", [False, True])
def test_noise_of_a_ratio_is_the_same_in_any_unit(unit, per_band):
    near = add_noise(REFERENCE, 20.0, 0, per_band=per_band)
    np.testing.assert_allclose(add_noise(REFERENCE * unit, 20.0, 0, per_band=per_band), near * unit, rtol=1e-9)


@pytest.mark.parametrize("snr_db", [-1e5, -7000.0, 1e5, 1e300])
def test_a_ratio_beyond_all_measure_is_refused_or_right(snr_db):
    if snr_db < 0:
        with pytest.raises(ValueError, match=r"^snr_db: got -.*; a number "):
            add_noise(REFERENCE, snr_db, 0)
    else:
        np.testing.assert_array_equal(add_noise(REFERENCE, snr_db, 0), REFERENCE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_loudest_noise_is_finite(dtype):
    noisy = add_noise(REFERENCE.astype(dtype), -300.0, 0)
    assert noisy.dtype == dtype
    assert np.isfinite(noisy).all()
