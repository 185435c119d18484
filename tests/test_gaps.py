"""Data that are missing, as a user tells of them: `hsi_valid`, `msi_valid`."""

import numpy as np
import pytest
from scenery import band_means, blur, rsnr

from fastccpd import Degradation, fuse, methods
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

SHAPE = (64, 52, 40)
ABLE = ("auto", "nn-ccpd-auto", "nn-ccpd-nls", "uc-ccpd-nls", "nn-btd-mu")


@pytest.fixture(scope="module")
def case():
    """(scene, hsi, msi, degradation) at 20 dB."""
    scene = scenes.synthetic(SHAPE).cube
    degradation = Degradation(blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], 5))
    rng = np.random.default_rng(0)
    return scene, *(add_noise(image, 20.0, rng) for image in degrade(scene, degradation)), degradation


def gaps(image, kind, seed=1):
    """A mask that leaves out a tenth of the pixels, or of all values; as `fuse` takes it, and of the image's shape."""
    valid = np.random.default_rng(seed).random(image.shape[:2] if kind == "pixels" else image.shape) > 0.1
    return valid, valid if kind == "values" else np.repeat(valid[:, :, None], image.shape[2], axis=2)


@pytest.mark.parametrize("kind", ["pixels", "values"])
@pytest.mark.parametrize("which", ["hsi", "msi"])
def test_a_tenth_of_the_data_missing_costs_less_than_a_decibel(case, which, kind):
    scene, hsi, msi, degradation = case
    whole = rsnr(fuse(hsi, msi, degradation, max_iter=20).sri, scene)
    images = {"hsi": hsi, "msi": msi}
    valid, everywhere = gaps(images[which], kind)
    images[which] = np.where(everywhere, images[which], np.nan)
    result = fuse(**images, degradation=degradation, max_iter=20, **{f"{which}_valid": valid})
    assert np.isfinite(result.sri).all()
    assert rsnr(result.sri, scene) > whole - 1.0


@pytest.mark.parametrize("method", ABLE)
def test_what_stands_in_the_gaps_has_no_part_in_the_result(case, method):
    _, hsi, msi, degradation = case
    options = {"method": method, "rank": 4, "max_iter": 5}
    (valid_H, there_H), (valid_M, there_M) = gaps(hsi, "values"), gaps(msi, "pixels", seed=2)
    images = [
        fuse(
            np.where(there_H, hsi, filling),
            np.where(there_M, msi, filling),
            degradation,
            hsi_valid=valid_H,
            msi_valid=valid_M,
            **options,
        ).sri.tobytes()
        for filling in (0.0, np.nan, -1e9)
    ]
    assert images[0] == images[1] == images[2]


@pytest.mark.parametrize("method", ABLE)
def test_a_mask_that_is_true_everywhere_changes_no_byte(case, method):
    _, hsi, msi, degradation = case
    options = {"method": method, "rank": 4, "max_iter": 5}
    masked = fuse(hsi, msi, degradation, hsi_valid=np.ones(hsi.shape[:2], bool), msi_valid=np.ones(5, bool), **options)
    assert masked.sri.tobytes() == fuse(hsi, msi, degradation, **options).sri.tobytes()


def test_bands_that_the_hsi_lacks_lie_between_their_neighbours(case):
    scene, hsi, msi, degradation = case
    there = np.ones(SHAPE[2], bool)
    there[[0, 11, 12, 27]] = False
    result = fuse(np.where(there, hsi, np.nan), msi, degradation, hsi_valid=there, max_iter=5)
    S = result.maps.S
    np.testing.assert_array_equal(S[0], S[1])
    np.testing.assert_allclose(S[27], 0.5 * (S[26] + S[28]))
    np.testing.assert_allclose(S[[11, 12]], [(2 * S[10] + S[13]) / 3, (S[10] + 2 * S[13]) / 3])
    assert rsnr(result.sri[:, :, ~there], scene[:, :, ~there]) > rsnr(result.sri[:, :, there], scene[:, :, there]) - 6.0


@pytest.mark.parametrize("method", ABLE)
def test_images_and_masks_are_left_as_they_were(case, method):
    _, hsi, msi, degradation = case
    (valid_H, there), (valid_M, _) = gaps(hsi, "pixels"), gaps(msi, "values", seed=2)
    given = np.where(there, hsi, np.nan), msi.copy(), valid_H, valid_M
    before = [array.tobytes() for array in given]
    for array in given:
        array.flags.writeable = False
    fuse(*given[:2], degradation, hsi_valid=valid_H, msi_valid=valid_M, method=method, rank=3, max_iter=3)
    assert [array.tobytes() for array in given] == before


@pytest.mark.parametrize(
    ("valid", "error", "sentence"),
    [
        (np.ones((16, 12), bool), ValueError, r"got shape \(16, 12\); \(16, 13\), \(40,\) or \(16, 13, 40\) is needed"),
        (np.ones(39, bool), ValueError, r"got shape \(39,\)"),
        (np.ones((16, 13)), TypeError, "got dtype float64; a bool array, True where there are data, is needed"),
        (np.ones((16, 13), np.uint8), TypeError, "got dtype uint8"),
        (np.zeros((16, 13), bool), ValueError, "is False everywhere; some data are needed"),
        ("all", TypeError, "got dtype"),
    ],
    ids=["columns", "bands", "floats", "bytes", "nothing", "text"],
)
def test_a_mask_that_makes_no_sense_is_refused_with_a_sentence(case, valid, error, sentence):
    _, hsi, msi, degradation = case
    with pytest.raises(error, match=f"^hsi_valid: .*{sentence}"):
        fuse(hsi, msi, degradation, hsi_valid=valid)


def test_nan_outside_the_gaps_is_still_refused(case):
    _, hsi, msi, degradation = case
    valid, _ = gaps(hsi, "pixels")
    broken = hsi.copy()
    broken[tuple(np.argwhere(valid)[0])] = np.nan
    with pytest.raises(ValueError, match="^hsi: holds NaN"):
        fuse(broken, msi, degradation, hsi_valid=valid)


@pytest.mark.parametrize("method", [name for name in methods.names() if not methods.get(name).takes_gaps])
def test_methods_that_need_complete_data_name_those_that_do_not(case, method):
    _, hsi, msi, degradation = case
    for name, image in (("hsi_valid", hsi), ("msi_valid", msi)):
        with pytest.raises(TypeError, match=f"^{name}: '{method}' cannot leave data out; .*") as raised:
            fuse(hsi, msi, degradation, method=method, **{name: gaps(image, "pixels")[0]})
        assert all(able in str(raised.value) for able in ABLE)


@pytest.mark.parametrize("band", [0, 7, 20, 39])
def test_a_masked_band_costs_no_more_than_a_removed_one(band):
    """Also where the MSI sees it: then the maps need its spectra, which the HSI does not tell."""
    scene = scenes.synthetic((48, 48, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    rng = np.random.default_rng(0)
    hsi, msi = (add_noise(image, 25.0, rng) for image in degrade(scene, degradation))
    valid = np.arange(40) != band
    masked = fuse(hsi, msi, degradation, hsi_valid=valid).sri
    response = degradation.PM.toarray()
    kept = response[:, valid] * (response.sum(axis=1) / response[:, valid].sum(axis=1))[:, None]
    removed = fuse(hsi[:, :, valid], msi, Degradation(degradation.P1, degradation.P2, kept)).sri
    assert metrics.rsnr(masked, scene) >= metrics.rsnr(removed, scene[:, :, valid]) - 1.0
