"""The noise of two images from the images alone: on real scenes, band by band, with gaps."""

import numpy as np
import pytest
from scenery import small_case

from fastccpd import Problem, fuse, threads
from fastccpd.estimation import moments, noise, once, statistics
from fastccpd.imaging import degrade, preset, scenes

ESTIMATES = (noise.of_many_bands, noise.of_few_bands)
IMAGES = pytest.mark.parametrize("which", [0, 1], ids=["many bands", "few bands"])
DRAWS = range(5)


@pytest.fixture(scope="module", params=["salinas-a", "indian-pines"])
def images(request, data_folder):
    """The HSI and the MSI of a real scene, without noise added."""
    cube = scenes.load(request.param, data_folder).cube[1:, 1:].astype(float)
    return degrade(cube / cube.max(), preset("stereo", cube.shape))


def relative_errors(which, image, sigma, draws=DRAWS):
    """|estimate/σ − 1| of each band, the estimate the median over draws."""
    found = [
        ESTIMATES[which](image + sigma * np.random.default_rng(draw).standard_normal(image.shape)) for draw in draws
    ]
    return np.abs(np.median(found, axis=0) / sigma - 1.0)


def of_snr(image, snr_db):
    return np.sqrt(np.mean(image**2) / 10.0 ** (snr_db / 10.0))


def uneven(bands, ratio):
    """Deviations whose largest is `ratio` times the smallest, in no order, mean square 1."""
    profile = ratio ** (0.5 * np.sin(2.3 * np.arange(bands)))
    return profile / np.sqrt(np.mean(profile**2))


@pytest.mark.scenes
@IMAGES
def test_white_noise_is_found_within_a_tenth_up_to_25_db_and_a_fifth_at_30(images, which):
    for snr, limit in {0: 0.1, 5: 0.1, 15: 0.1, 25: 0.1, 30: 0.2}.items():
        errors = relative_errors(which, images[which], of_snr(images[which], snr))
        assert errors.max() < limit, (snr, errors.max())


@pytest.mark.scenes
@IMAGES
def test_noise_of_every_band_is_found_where_bands_differ_threefold(images, which):
    image = images[which]
    sigma = of_snr(image, 10.0) * uneven(image.shape[2], 3.0)
    assert relative_errors(which, image, sigma).max() < 0.15


@pytest.mark.scenes
@IMAGES
def test_bands_ten_times_as_noisy_as_others_are_not_taken_for_signals(images, which):
    image = images[which]
    for snr in (0.0, 10.0):
        sigma = of_snr(image, snr) * uneven(image.shape[2], 10.0)
        errors = relative_errors(which, image, sigma, range(2))
        assert np.quantile(errors, 0.9) < 0.1, snr
        assert errors.max() < 0.35, snr


@pytest.mark.scenes
@IMAGES
def test_images_without_noise_have_a_small_positive_estimate(images, which):
    sigma = ESTIMATES[which](images[which])
    assert np.isfinite(sigma).all()
    assert (sigma > 0.0).all()
    assert sigma.max() < 0.03 * np.sqrt(np.mean(images[which] ** 2))


@pytest.mark.scenes
@IMAGES
@pytest.mark.parametrize("missing", ["pixels", "values", "bands"])
def test_gaps_leave_the_estimate_within_a_tenth(images, which, missing):
    rng = np.random.default_rng(1)
    image = images[which]
    noisy = image + of_snr(image, 10.0) * rng.standard_normal(image.shape)
    valid = {
        "pixels": rng.random((*image.shape[:2], 1)) > 0.1,
        "values": rng.random(image.shape) > 0.1,
        "bands": np.arange(image.shape[2]) % 3 != 1,
    }[missing]
    valid = np.broadcast_to(valid, image.shape)
    there = valid.any(axis=(0, 1))
    sigma = ESTIMATES[which](np.where(valid, noisy, 0.0), valid)
    np.testing.assert_allclose(sigma[there], ESTIMATES[which](noisy)[there], rtol=0.1)
    assert (sigma > 0.0).all()


@IMAGES
@pytest.mark.parametrize("kind", ["low rank", "constant", "zero", "one pixel", "one band", "one dark band"])
def test_any_image_has_a_finite_positive_estimate(which, kind):
    scene = small_case(shape=(24, 20, 7))[1 + which]
    scene = {
        "low rank": scene,
        "constant": np.full((5, 4, 6), 3.0),
        "zero": np.zeros((5, 4, 6)),
        "one pixel": scene[:1, :1],
        "one band": scene[:, :, :1],
        "one dark band": scene * (np.arange(scene.shape[2]) != 2),
    }[kind]
    sigma = ESTIMATES[which](scene)
    assert sigma.shape == scene.shape[2:]
    assert np.isfinite(sigma).all()
    assert (sigma > 0.0).all()


def test_noise_that_the_signals_take_along_is_added_again():
    """Four signals in twelve bands hold a third of the noise: left out, σ would come out a sixth too small."""
    _, hsi, _, _ = small_case(shape=(120, 96, 12), rank=4, noise=0.02)
    np.testing.assert_allclose(noise.of_many_bands(hsi), 0.02, rtol=0.08)


@IMAGES
def test_the_estimate_follows_the_unit_of_the_image(which):
    image = small_case(shape=(64, 48, 12), noise=0.05)[1 + which]
    np.testing.assert_allclose(ESTIMATES[which](1024.0 * image), 1024.0 * ESTIMATES[which](image), rtol=1e-6)


@pytest.mark.parametrize("gaps", [0.0, 0.002, 0.5], ids=["complete", "few gaps", "many gaps"])
def test_differences_of_a_large_image_are_looked_at_in_parts(gaps, monkeypatch):
    rng = np.random.default_rng(0)
    image = rng.random((23, 17, 12))
    valid = rng.random(image.shape) >= gaps if gaps else None
    image = image if valid is None else np.where(valid, image, 0.0)
    whole = moments.difference_moments(image, valid)
    monkeypatch.setattr(threads, "_NUMBERS", 5 * 17 * 12)
    parts = moments.difference_moments(image, valid)
    assert parts.count == whole.count > 0
    np.testing.assert_allclose(parts.total, whole.total, atol=1e-12)
    np.testing.assert_allclose(parts.second, whole.second, rtol=1e-12)


def test_the_verdict_and_the_fusion_look_at_the_images_alone_once(monkeypatch):
    _, hsi, msi, degradation = small_case((48, 40, 30), noise=0.01)
    looked, found = [], statistics.difference_moments
    monkeypatch.setattr(statistics, "difference_moments", lambda *image: looked.append(image[0].shape) or found(*image))
    result = fuse(hsi, msi, degradation)
    assert looked.count(hsi.shape) == 1
    looked.clear()
    again = noise.noise_of(Problem(hsi, msi, degradation))
    assert looked.count(hsi.shape) == 1
    # Arrays of another layout add up in another order in older versions of NumPy.
    np.testing.assert_allclose(again.hsi, result.stages["noise"].hsi, rtol=1e-9)
    np.testing.assert_allclose(again.msi, result.stages["noise"].msi, rtol=1e-9)
    assert not once._kept
