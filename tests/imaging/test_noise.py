"""Degraded images against dense products, and noise against its stated variance."""

import tracemalloc

import numpy as np
import pytest

from fastccpd import Degradation, Problem
from fastccpd.imaging import add_noise, degrade, gaussian, response_from_groups


def make_degradation(shape=(13, 18, 7), ratio=4, boundary="periodic"):
    P1, P2 = gaussian(shape[:2], ratio, boundary=boundary)
    return Degradation(P1, P2, response_from_groups([[0, 1, 2], [2, 5], [6]], shape[2]))


@pytest.mark.parametrize("boundary", ["periodic", "reflect", "zero"])
def test_degrade_equals_the_dense_products(boundary):
    scene = np.random.default_rng(0).random((13, 18, 7))
    degradation = make_degradation(boundary=boundary)
    hsi, msi = degrade(scene, degradation)
    P1, P2, PM = (P.toarray() for P in (degradation.P1, degradation.P2, degradation.PM))
    np.testing.assert_allclose(hsi, np.einsum("ai,ijk,bj->abk", P1, scene, P2), rtol=1e-14)
    np.testing.assert_allclose(msi, np.einsum("ijk,mk->ijm", scene, PM), rtol=1e-14)
    assert hsi.shape == (3, 4, 7)
    assert hsi.dtype == msi.dtype == np.float64


def test_degrade_takes_dense_operators_of_any_kind():
    rng = np.random.default_rng(3)
    scene = rng.random((5, 6, 4))
    P1, P2, PM = rng.standard_normal((2, 5)), rng.standard_normal((6, 6)), rng.standard_normal((1, 4))
    hsi, msi = degrade(scene, Degradation(P1, P2, PM))
    np.testing.assert_allclose(hsi, np.einsum("ai,ijk,bj->abk", P1, scene, P2), rtol=1e-12)
    np.testing.assert_allclose(msi, scene @ PM.T, rtol=1e-12)


def test_degrade_passes_the_adjoint_test():
    rng = np.random.default_rng(1)
    degradation = make_degradation()
    scene = rng.standard_normal((13, 18, 7))
    H, M = rng.standard_normal((3, 4, 7)), rng.standard_normal((13, 18, 3))
    hsi, msi = degrade(scene, degradation)
    P1, P2, PM = (P.toarray() for P in (degradation.P1, degradation.P2, degradation.PM))
    back = np.einsum("ai,abk,bj->ijk", P1, H, P2) + np.einsum("ijm,mk->ijk", M, PM)
    assert np.isclose(np.vdot(hsi, H) + np.vdot(msi, M), np.vdot(scene, back), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.float32, np.float16, ">f8"])
def test_degrade_takes_any_dtype_and_layout_and_leaves_it_alone(dtype):
    scene = np.asfortranarray((100 * np.random.default_rng(2).random((13, 18, 7))).astype(dtype))
    before = scene.copy()
    hsi, msi = degrade(scene, make_degradation())
    expected = degrade(np.ascontiguousarray(scene, dtype=np.float64), make_degradation())
    narrow = np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize <= 4
    assert hsi.dtype == msi.dtype == (np.float32 if narrow else np.float64)
    for image, reference in zip((hsi, msi), expected, strict=True):
        np.testing.assert_allclose(image, reference, rtol=1e-7 if narrow else 0)
    assert np.array_equal(scene, before)


def test_degraded_images_make_a_problem():
    degradation = make_degradation()
    problem = Problem(*degrade(np.ones((13, 18, 7)), degradation), degradation)
    assert problem.sri_shape == (13, 18, 7)
    np.testing.assert_allclose(problem.hsi, 1.0)


def test_degrade_names_the_axis_that_disagrees():
    for shape, message in (
        ((12, 18, 7), "sri: 12 rows, but P1 maps from 13"),
        ((13, 17, 7), "sri: 17 columns, but P2 maps from 18"),
        ((13, 18, 8), "sri: 8 bands, but PM maps from 7"),
    ):
        with pytest.raises(ValueError, match=message):
            degrade(np.ones(shape), make_degradation())
    with pytest.raises(TypeError, match="degradation: got tuple"):
        degrade(np.ones((13, 18, 7)), (1, 2, 3))


def test_degrade_makes_no_copy_of_the_scene():
    scene = np.ones((128, 96, 60), np.float32)
    P1, P2 = gaussian((128, 96), 4)
    degradation = Degradation(P1, P2, response_from_groups([range(60)], 60))
    tracemalloc.start()
    try:
        degrade(scene, degradation)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < scene.nbytes / 2


def test_noise_has_the_stated_variance():
    rng = np.random.default_rng(0)
    cube = rng.random((60, 50, 40)) * np.linspace(0.1, 2.0, 40)
    for snr in (-3.0, 5.0, 30.0):
        noise = add_noise(cube, snr, rng) - cube
        expected = (cube**2).mean() / 10 ** (snr / 10)
        # 120 000 draws: the sample variance has a relative deviation of 0.4 %.
        assert abs((noise**2).mean() / expected - 1) < 0.02
        assert abs(noise.mean()) < 5 * np.sqrt(expected / cube.size)
        per_band = (noise**2).mean(axis=(0, 1)) / expected
        assert abs(per_band - 1).max() < 0.15


def test_noise_per_band_gives_every_band_its_ratio():
    cube = np.random.default_rng(0).random((90, 70, 6)) * np.array([0.01, 0.1, 1, 10, 100, 1000])
    noise = add_noise(cube, 12.0, 1, per_band=True) - cube
    ratio = 10 * np.log10((cube**2).mean(axis=(0, 1)) / (noise**2).mean(axis=(0, 1)))
    np.testing.assert_allclose(ratio, 12.0, atol=0.4)


def test_noise_equals_one_draw_of_the_whole_image_whatever_its_blocks(monkeypatch):
    cube = np.random.default_rng(0).random((11, 7, 5))
    deviation = np.sqrt((cube**2).mean() / 10**0.5)
    expected = cube + deviation * np.random.default_rng(42).standard_normal(cube.shape)
    np.testing.assert_allclose(add_noise(cube, 5.0, 42), expected, rtol=1e-13)
    monkeypatch.setattr("fastccpd.imaging.noise._SLAB", 70)
    np.testing.assert_allclose(add_noise(cube, 5.0, np.random.default_rng(42)), expected, rtol=1e-13)


def test_noise_keeps_negative_values_and_the_image():
    cube = np.zeros((8, 9, 3))
    cube[0, 0, 0] = 1.0
    noisy = add_noise(cube, 0.0, 0)
    assert noisy.min() < 0.0
    assert cube.sum() == 1.0


def test_infinite_ratio_adds_nothing_and_still_copies():
    cube = np.arange(24).reshape(2, 3, 4)
    noisy = add_noise(cube, np.inf, 0)
    assert noisy.dtype == np.float64
    assert np.array_equal(noisy, cube)
    assert not np.shares_memory(noisy, cube)


def test_noise_of_float32_is_float32_and_the_same_draw():
    cube = np.random.default_rng(0).random((6, 7, 5))
    narrow = add_noise(cube.astype(np.float32), 5.0, 3)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, add_noise(cube, 5.0, 3), rtol=1e-5, atol=1e-6)


def test_noise_refuses_what_is_no_ratio_and_no_generator():
    cube = np.ones((2, 3, 4))
    for snr in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="snr_db: got"):
            add_noise(cube, snr, 0)
    with pytest.raises(TypeError, match="rng: got None"):
        add_noise(cube, 5.0, None)
    with pytest.raises(ValueError, match="cube: got shape"):
        add_noise(np.ones((2, 3)), 5.0, 0)
