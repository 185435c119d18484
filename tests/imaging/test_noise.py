"""Degraded images against dense products, and noise against its stated variance."""

import numpy as np
import pytest
from scenery import peak_bytes

from fastccpd import Degradation, Factors, FusionResult, Problem, Status
from fastccpd.estimation import estimate_noise
from fastccpd.imaging import add_noise, degrade, gaussian, preset, response_from_groups, scenes
from fastccpd.imaging.degrading import degraded
from fastccpd.model.problem import Maps
from fastccpd.model.result import Trace


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


def result_of(**parts):
    about = {"method": "", "options": {}, "seed": 0, "provenance": {}, "dtype": np.dtype(np.float64)}
    return FusionResult(status=Status.FINISHED, cost=0.0, n_iter=0, trace=Trace(), seconds=0.0, **about, **parts)


@pytest.mark.parametrize("kind", ["image", "factors", "maps"])
def test_degrade_renders_a_result_row_by_row(kind):
    rng = np.random.default_rng(0)
    result = result_of(
        **{
            "image": {"image": rng.random((13, 18, 7))},
            "factors": {"known_factors": Factors(*(rng.random((n, 3)) for n in (13, 18, 7)))},
            "maps": {"maps": Maps(rng.standard_normal((13, 18, 3)), rng.standard_normal((7, 3)))},
        }[kind]
    )
    found = degrade(result, make_degradation())
    assert (result.image is None) == (kind != "image")
    for image, expected in zip(found, degrade(result.sri, make_degradation()), strict=True):
        np.testing.assert_allclose(image, expected, rtol=1e-13)


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
    assert peak_bytes(degrade, scene, degradation) < scene.nbytes / 2


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
    monkeypatch.setattr("fastccpd.imaging.degrading._SLAB", 70)
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


def noisy_images(snr):
    """HSI and MSI of a scene and what noise of this ratio has been added to each."""
    cube = scenes.synthetic((80, 72, 60)).cube
    rng = np.random.default_rng(1)
    clean = degrade(cube, preset("stereo", cube.shape))
    return [(add_noise(image, snr, rng), np.sqrt((image**2).mean() / 10 ** (snr / 10))) for image in clean]


@pytest.mark.parametrize("snr", [0.0, 10.0, 20.0])
def test_the_noise_of_both_kinds_of_image_is_found(snr):
    for image, expected in noisy_images(snr):
        np.testing.assert_allclose(estimate_noise(image), expected, rtol=0.06)


def test_the_noise_of_many_bands_is_found_where_there_is_little():
    for snr in (40.0, 60.0):
        image, expected = noisy_images(snr)[0]
        np.testing.assert_allclose(estimate_noise(image), expected, rtol=0.05)


def test_bands_of_different_noise_are_told_apart():
    cube = scenes.synthetic((80, 72, 60)).cube
    rng = np.random.default_rng(2)
    hsi, msi = degrade(cube, preset("stereo", cube.shape))
    for image, tolerance in ((hsi, 0.2), (msi, 0.15)):
        sigma = 0.1 * rng.uniform(0.5, 2.0, image.shape[2])
        found = estimate_noise(image + sigma * rng.standard_normal(image.shape))
        assert np.median(np.abs(found / sigma - 1.0)) < tolerance / 2
        np.testing.assert_allclose(found, sigma, rtol=2 * tolerance)


def test_the_number_of_bands_decides_how_noise_is_found_unless_told():
    rng = np.random.default_rng(0)
    for bands, kind in ((30, "few"), (31, "many")):
        image = rng.random((20, 18, bands))
        found = estimate_noise(image)
        assert np.array_equal(found, estimate_noise(image, kind=kind))
        assert not np.array_equal(found, estimate_noise(image, kind={"few": "many", "many": "few"}[kind]))


def test_noise_without_the_pixels_that_have_no_data_is_the_noise_of_the_others():
    rng = np.random.default_rng(3)
    for image, expected in noisy_images(15.0):
        valid = np.ones(image.shape[:2], bool)
        valid[2:5, 3:9] = False
        spoiled = image.copy()
        spoiled[~valid] = np.nan
        np.testing.assert_allclose(estimate_noise(spoiled, valid=valid), expected, rtol=0.08)
        everywhere = rng.random(image.shape) < 0.97
        spoiled = np.where(everywhere, image, 1e9)
        assert np.isfinite(estimate_noise(spoiled, valid=everywhere)).all()


@pytest.mark.parametrize("kind", ["few", "many"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint16])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 2, 3), (1, 7, 4), (1, 1, 40), (3, 2, 40), (20, 18, 6), (12, 11, 60)])
def test_estimated_noise_is_finite_and_positive_whatever_the_image(shape, dtype, kind):
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.add.outer(np.arange(shape[0]), np.arange(shape[1])), np.arange(shape[2]))
    spot = np.zeros(shape)
    spot[0, 0, 0] = 1.0
    dead = 9.0 * rng.random(shape)
    dead[:, :, 0] = 0.0
    images = [np.zeros(shape), np.full(shape, 3.0), ramp, spot, dead, 9.0 * rng.random(shape)]
    units = (1.0,) if dtype == np.uint16 else (1.0, 1e-28, 1e28)
    for image in images:
        for unit in units:
            sigma = estimate_noise((unit * image).astype(dtype), kind)
            assert sigma.shape == (shape[2],)
            assert sigma.dtype == np.float64
            assert np.isfinite(sigma).all()
            assert (sigma > 0.0).all()


def test_estimated_noise_scales_with_the_image_and_is_alike_in_single_precision():
    for image, _ in noisy_images(20.0):
        expected = estimate_noise(image)
        np.testing.assert_allclose(estimate_noise(1e-25 * image), 1e-25 * expected, rtol=1e-9)
        np.testing.assert_allclose(estimate_noise((1e25 * image).astype(np.float32)), 1e25 * expected, rtol=1e-4)


def test_estimating_noise_refuses_what_it_cannot_look_at():
    image = np.ones((4, 5, 3))
    with pytest.raises(ValueError, match="kind: got 'some'; 'auto' or 'many' or 'few' is needed"):
        estimate_noise(image, "some")
    with pytest.raises(ValueError, match="valid: got shape"):
        estimate_noise(image, valid=np.ones((4, 4), bool))
    with pytest.raises(ValueError, match="valid: is False everywhere"):
        estimate_noise(image, valid=np.zeros((4, 5), bool))
    image[1, 2, 0] = np.inf
    with pytest.raises(ValueError, match="image: holds NaN or infinite values"):
        estimate_noise(image)
    with pytest.raises(ValueError, match="image: got shape"):
        estimate_noise(np.ones((4, 5)))


@pytest.mark.parametrize("dense", [False, True], ids=["short blur", "blur of all rows"])
def test_images_made_in_parts_are_those_made_at_once_bit_for_bit(dense):
    shape = (160, 12, 36)
    cube, degradation = scenes.synthetic(shape).cube, preset("stereo", shape)
    if dense:
        rows = np.random.default_rng(0).random((40, 160))
        degradation = Degradation(rows, degradation.P2, degradation.PM)
    parts = []

    def counted(function, *items):
        parts.extend(items[0])
        return map(function, *items)

    once, in_parts = degrade(cube, degradation), degraded(cube, cube.dtype, degradation, counted)
    assert len(parts) == (1 if dense else 2)
    for one, other in zip(once, in_parts, strict=True):
        assert one.tobytes() == other.tobytes()
