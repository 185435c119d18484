"""Blur, shift and response from the images alone, and the verdict: right numbers, honest errors, the right cause."""

import re
from dataclasses import replace

import numpy as np
import pytest

import fastccpd
from fastccpd import Degradation, Problem
from fastccpd.estimation import estimate_blur, estimate_degradation, estimate_noise, estimate_response, verdict_of
from fastccpd.estimation.blur_moments import BlurEvidence
from fastccpd.estimation.patches import patch_of
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, metrics, scenes
from fastccpd.imaging.moving import Move
from fastccpd.model.verdict import Grade, Verdict

SHAPE, RATIO = (96, 80, 40), 4
SCENE = scenes.synthetic(SHAPE, materials=6).cube


def operators(sigma=1.7, shift=(0.0, 0.0)):
    phase = (1.5 + shift[0], 1.5 + shift[1])
    blur = gaussian(SHAPE[:2], RATIO, sigma=sigma, phase=phase, boundary="reflect", coarse=(24, 20))
    return Degradation(*blur, landsat(SHAPE[2]))


def pair(snr=30.0, rng=0, **blur):
    generator = np.random.default_rng(rng)
    return [add_noise(image, snr, generator) for image in degrade(SCENE, operators(**blur))]


@pytest.mark.parametrize("known", [True, False])
def test_width_and_shift_are_found_within_their_errors(known):
    deviations = []
    for seed in range(8):
        hsi, msi = pair(rng=seed, sigma=(1.5, 2.0), shift=(0.7, -1.1))
        found = estimate_blur(hsi, msi, RATIO, landsat(SHAPE[2]) if known else None)
        np.testing.assert_allclose(found.sigma, (1.5, 2.0), rtol=0.15)
        np.testing.assert_allclose(found.shift, (0.7, -1.1), atol=0.2)
        deviations += list(np.subtract(found.sigma, (1.5, 2.0)) / found.sigma_errors)
        deviations += list(np.subtract(found.shift, (0.7, -1.1)) / found.shift_errors)
    assert np.mean(np.abs(deviations) < 2.0) >= 0.85


def test_bands_that_are_off_each_other_are_allowed_for():
    """They make signals that look like a shift, and noise hides a part of them."""
    rows, columns, bands = shape = 72, 80, 40
    blur = gaussian(shape[:2], RATIO, sigma=1.7, phase=(1.9, 1.3), boundary="reflect")
    for seed in range(2):
        cube = scenes.synthetic(shape, rng=seed).cube
        off = Move(shape, (0.3, -0.3)).image(lambda i, j, cube=cube: cube[i, j], slice(0, rows), slice(0, columns))
        cube[:, :, 20:] = off[:, :, 20:]
        images = degrade(cube, Degradation(*blur, landsat(bands)))
        found = estimate_blur(*(add_noise(image, 20.0, rng=10 * seed + n) for n, image in enumerate(images)), RATIO)
        assert (np.abs(np.subtract(found.shift, (0.4, -0.2))) < 2.0 * np.array(found.shift_errors)).all()


def test_more_noise_means_larger_errors_and_no_bias():
    low, high = (
        [estimate_blur(*pair(snr, seed), RATIO, landsat(SHAPE[2])) for seed in range(6)] for snr in (15.0, 35.0)
    )
    assert np.median([f.sigma_errors for f in low]) > 3.0 * np.median([f.sigma_errors for f in high])
    assert np.median([f.sigma for f in low]) == pytest.approx(1.7, rel=0.1)


def test_small_errors_are_told_with_a_digit_that_is_not_zero():
    found = replace(estimate_blur(*pair(), RATIO), sigma_errors=(0.0021, 0.021), shift_errors=(0.0, 0.0049))
    assert " ± 0.002 by " in str(found)
    assert re.search(r"± 0\.02 MSI .* \(given\) down and .* ± 0\.005 right", str(found))


def test_noise_of_wide_images_is_told_by_their_middle_if_that_has_data(monkeypatch):
    hsi, msi = pair()
    whole = BlurEvidence(hsi, msi, RATIO)
    monkeypatch.setattr("fastccpd.estimation.blur_moments.ROUGHLY", 240)
    top = [np.where(np.arange(len(image))[:, None, None] < len(image) // 6, 100.0, 1.0) for image in (hsi, msi)]
    middle = BlurEvidence(hsi * top[0], msi * top[1], RATIO)
    np.testing.assert_allclose(middle.sigma_hsi, whole.sigma_hsi, rtol=0.2)
    np.testing.assert_allclose(middle.sigma_msi, whole.sigma_msi, rtol=0.2)
    valid = np.ones(hsi.shape, bool)
    valid[6:18] = False
    np.testing.assert_array_equal(BlurEvidence(hsi, msi, RATIO, valid).sigma_hsi, estimate_noise(hsi, valid=valid))


def test_moments_through_a_response_are_those_of_the_bands_that_it_shows():
    hsi, msi = pair()
    evidence, response = BlurEvidence(hsi, msi, RATIO), landsat(SHAPE[2]).toarray()
    of_bands, shown = (evidence.gather(evidence.centred(0.4), True, way) for way in (None, response))
    np.testing.assert_allclose(shown.hsi, response @ of_bands.hsi @ response.T, rtol=1e-10)
    np.testing.assert_allclose(shown.crossed, of_bands.crossed @ response.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(shown.hsi_total, response @ of_bands.hsi_total, rtol=1e-10)
    np.testing.assert_array_equal(shown.correlated, of_bands.correlated)


def test_what_is_given_is_kept():
    found = estimate_blur(*pair(), RATIO, sigma=1.7, shift=(0.0, 0.0))
    np.testing.assert_allclose((*found.sigma, *found.shift), (1.7, 1.7, 0.0, 0.0), atol=1e-12)
    assert found.sigma_errors == (0.0, 0.0)


def test_a_box_is_no_gaussian_and_the_free_profile_is_nearer_to_it():
    box = np.kron(np.eye(24), np.full((1, 4), 0.25)), np.kron(np.eye(20), np.full((1, 4), 0.25))
    hsi, msi = degrade(SCENE, Degradation(*box, landsat(SHAPE[2])))
    found = estimate_blur(hsi, msi, RATIO, landsat(SHAPE[2]), profile=True)
    near = [np.abs(P.toarray()[5:-5] - true[5:-5]).sum() for P, true in zip(found.operators(SHAPE[:2], (24, 20)), box)]
    plain = gaussian(SHAPE[:2], RATIO, sigma=found.sigma, phase=found.phase, boundary="reflect", coarse=(24, 20))
    assert sum(near) < sum(np.abs(P.toarray()[5:-5] - true[5:-5]).sum() for P, true in zip(plain, box))


def test_the_response_explains_the_scene_with_gain_and_offset():
    hsi, msi = degrade(SCENE, operators())
    found = estimate_response(hsi, 2.0 * msi + 0.3, operators().P1, operators().P2, offset=True)
    shown = SCENE @ found.PM.toarray().T + found.offsets
    assert np.abs(shown - 2.0 * msi - 0.3).max() < 0.05
    assert found.PM.min() >= 0.0


def test_a_band_that_nothing_explains_has_a_row_and_a_residual_that_says_so():
    hsi, msi = degrade(SCENE, operators())
    msi[:, :, 2] = msi.max() - 1.5 * msi[:, :, 2]
    found = estimate_response(hsi, msi - msi.mean(), operators().P1, operators().P2, offset=False)
    assert (found.gains > 0.0).all()
    assert found.residual[2] > 10.0 * found.expected[2]


def test_a_fusion_with_an_estimated_blur_is_as_good_as_with_the_true_one():
    hsi, msi = pair(shift=(0.6, -0.4))
    found = estimate_degradation(hsi, msi, RATIO, PM=landsat(SHAPE[2])).degradation
    given, blind = (fastccpd.fuse(hsi, msi, each) for each in (operators(shift=(0.6, -0.4)), found))
    assert metrics.rsnr(blind.sri, SCENE) > metrics.rsnr(given.sri, SCENE) - 0.3


def test_a_fused_image_can_be_moved_to_where_the_hsi_lies():
    from scipy.ndimage import shift

    fine, coarse = SCENE[:, :, :6], shift(SCENE[:, :, :6], (-0.6, 0.4, 0.0), order=3, mode="nearest")
    hsi, msi = (add_noise(y, 50.0, rng=0) for y in degrade(SCENE, operators(shift=(0.6, -0.4))))
    moved = estimate_blur(hsi, msi, RATIO, landsat(SHAPE[2])).at_hsi(fine)[4:-4, 4:-4]
    left, before = (np.abs(each - coarse[4:-4, 4:-4]).mean() for each in (moved, fine[4:-4, 4:-4]))
    assert left < 0.2 * before


def test_fuse_estimates_the_operators_that_nobody_gives():
    blind = fastccpd.fuse(*pair(shift=(0.6, -0.4)))
    assert blind.stages["degradation"].blur.shift == pytest.approx((0.6, -0.4), abs=0.2)
    assert blind.provenance["estimated"]["sigma"]


def test_an_offset_is_not_hidden_in_an_estimated_response():
    hsi, msi = pair(35.0)
    assert not estimate_degradation(hsi, msi, RATIO).response.offsets.any()
    found = estimate_degradation(hsi, msi + 0.3, RATIO)
    np.testing.assert_allclose(found.response.offsets, 0.3, atol=0.1)
    verdict = verdict_of(Problem(hsi, msi + 0.3, found.degradation))
    assert verdict.disagrees
    assert verdict.cause == "scale"
    assert not estimate_degradation(hsi, msi + 0.3, RATIO, offset=False).response.offsets.any()


def test_an_offset_that_a_response_can_hide_is_said_to_be_hidden():
    hsi, msi = pair(35.0)
    assert not estimate_degradation(hsi, msi, RATIO).response.unseen_offset
    flat = hsi.copy()
    flat[:, :, :12] = msi.mean() + add_noise(np.full_like(hsi[:, :, :12], 0.01), 20.0, rng=1)  # bands that are constant
    found = estimate_degradation(flat, msi + 0.3, RATIO)
    assert not found.response.offsets.any()
    assert found.response.unseen_offset > 0.3
    assert "would be hidden in it" in str(found.response)
    assert found.figures()["unseen_offset"] == found.response.unseen_offset


def test_images_too_small_to_tell_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match="pixels lie inside and have data in both images; at least 25 are needed"):
        estimate_degradation(np.ones((3, 3, 8)), np.ones((12, 12, 2)), 4)
    with pytest.raises(ValueError, match="msi: 12 rows, but 5 times the HSI's 3 are 15"):
        estimate_degradation(np.ones((3, 3, 8)), np.ones((12, 12, 2)), 5)


def clouded(msi):
    cloudy = msi.copy()
    cloudy[20:60, 20:58] = 0.1 * cloudy[20:60, 20:58] + 1.2 * msi.max()
    return cloudy


@pytest.mark.parametrize("where", ["hsi", "msi"])
@pytest.mark.parametrize("known", [True, False])
def test_a_cloud_in_one_image_has_no_say_in_what_is_estimated(where, known):
    hsi, msi = pair(shift=(0.7, -1.1))
    if where == "msi":
        msi = clouded(msi)
    else:
        hsi[4:13, 5:14] = 1.5 * hsi.max()
    found = estimate_degradation(hsi, msi, RATIO, PM=landsat(SHAPE[2]) if known else None)
    np.testing.assert_allclose(found.blur.sigma, 1.7, rtol=0.1)
    np.testing.assert_allclose(found.blur.shift, (0.7, -1.1), atol=0.25)
    assert 0.1 < found.blur.left_out < 0.6
    assert "of the picture, which is unlike in the two images" in str(found.blur)
    assert verdict_of(Problem(hsi, msi, found.degradation)).cause == "mask"


def test_a_cloud_is_a_patch_although_edges_are_unlike_too():
    """As they are with little noise as long as the blur is not known."""
    left, cloud = np.ones((30, 28)), np.zeros((30, 28), bool)
    cloud[10:15, 8:14] = True
    left[cloud] = left[::6, 3:] = left[2:, 20] = 100.0
    chosen = np.ones(left.shape, bool)
    assert patch_of(left.ravel(), chosen, 1.0) is None
    np.testing.assert_array_equal(patch_of(left.ravel(), chosen, 1.0, edges=True).where, cloud)


def test_the_border_of_a_gap_is_not_taken_for_tails_of_the_blur():
    hsi, msi = pair(40.0)
    rows, columns = np.indices(SHAPE[:2])
    valid = np.hypot(rows - 50, columns - 40) > 18.0
    found = estimate_blur(hsi, np.where(valid[:, :, None], msi + 1.0, np.nan), RATIO, msi_valid=valid)
    assert found.fits
    np.testing.assert_allclose(found.sigma, 1.7, atol=0.02)


def test_pairs_without_a_cloud_are_compared_everywhere():
    for snr in (15.0, 30.0, 50.0):
        assert estimate_blur(*pair(snr, shift=(2.0, 1.0)), RATIO).left_out == 0.0


def test_a_shift_is_not_sought_beyond_what_a_blur_may_have():
    hsi, msi = pair()
    found = estimate_degradation(hsi, msi[::-1, ::-1].copy(), RATIO)  # nothing in common
    assert np.abs(found.blur.shift).max() <= 3.5 * RATIO


@pytest.mark.parametrize(
    ("cause", "spoil"),
    [
        ("scale", lambda hsi, msi: (hsi, 1e4 * msi, operators())),
        ("scale", lambda hsi, msi: (hsi, msi + 0.3, operators())),
        ("shift", lambda hsi, msi: (hsi, msi, operators(shift=(2.0, -2.0)))),
        ("blur", lambda hsi, msi: (hsi, msi, operators(sigma=3.4))),
        ("mask", lambda hsi, msi: (hsi, clouded(msi), operators())),
    ],
)
def test_what_is_wrong_is_called_by_its_name(cause, spoil):
    verdict = verdict_of(Problem(*spoil(*pair())))
    assert verdict.disagrees
    assert verdict.cause == cause
    assert verdict.advice


def test_a_scale_beside_a_cloud_is_told_by_the_pixels_without_one():
    hsi, msi = pair()
    for gain, offset in ((1e4, 1000.0), (1e4, 0.0)):
        verdict = verdict_of(Problem(hsi, gain * clouded(msi) + offset, operators()))
        assert verdict.cause == "scale"
        found = [float(number) for number in re.findall(r"[-+.e\d]*\d", verdict.details)]
        assert found[0] == pytest.approx(gain, rel=0.01)
        assert found[1] == pytest.approx(offset, abs=0.01 * gain)


@pytest.mark.parametrize(("beyond", "words"), [(0.0123, "1.2 % of"), (1.26, "1.3 times"), (10034.0, "10034 times")])
def test_the_size_of_a_disagreement_is_told_in_plain_numbers(beyond, words):
    sentence = str(Verdict(Grade.DISAGREE, 2.0, beyond, "scale", details="d", advice="a"))
    assert f"they differ by {words} the image beyond noise" in sentence


def test_clean_pairs_raise_no_alarm():
    for seed in range(10):
        assert not verdict_of(Problem(*pair(25.0, seed), operators())).disagrees


def test_tiny_clean_pairs_raise_no_alarm():
    blur = gaussian((32, 32), RATIO, sigma=1.7, phase=1.5, boundary="reflect", coarse=(8, 8))
    tiny = Degradation(*blur, landsat(SHAPE[2]))
    for seed in range(3, 6):
        rng = np.random.default_rng(seed)
        top, left = rng.integers(0, 64), rng.integers(0, 48)
        images = degrade(SCENE[top : top + 32, left : left + 32], tiny)
        hsi, msi = (add_noise(image, 5.0, rng) for image in images)
        assert not verdict_of(Problem(hsi, msi, tiny)).disagrees


@pytest.mark.parametrize(
    ("cloud", "cause"),
    [
        ((slice(0, 100), slice(0, 150)), "mask"),  # far from the middle
        ((slice(140, 250), slice(60, 180)), "mask"),  # over the middle
        ((slice(0, 0), slice(0, 0)), None),
    ],
)
def test_a_cloud_anywhere_in_a_wide_scene_is_seen(cloud, cause):
    shape = 360, 240
    wide = scenes.synthetic((*shape, 36), rng=4).cube
    blur = gaussian(shape, RATIO, sigma=1.7, phase=1.5, boundary="reflect")
    degradation = Degradation(*blur, landsat(36))
    hsi, msi = (add_noise(image, 30.0, seed) for seed, image in enumerate(degrade(wide, degradation)))
    msi[cloud] = 1.2 * msi.max()
    verdict = verdict_of(Problem(hsi, msi, degradation))
    assert (verdict.cause if verdict.disagrees else None) == cause


def test_uncertainty_grows_with_model_error():
    hsi, msi = pair()
    right, wrong = (fastccpd.fuse(hsi, factor * msi, operators()) for factor in (1.0, 1.3))
    assert wrong.uncertainty.mean() > 2.0 * right.uncertainty.mean()
