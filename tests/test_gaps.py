"""Data that are missing, as a user tells of them: `hsi_valid`, `msi_valid`."""

from dataclasses import replace

import numpy as np
import pytest
from scenery import band_means, blur, rsnr

from fastccpd import Degradation, fuse, methods
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes
from fastccpd.solver.regularisers import Smoothness
from fastccpd.testing import small_case, small_instance

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


def test_bands_that_neither_image_sees_lie_between_their_neighbours(case):
    scene, hsi, _, degradation = case
    there = np.ones(SHAPE[2], bool)
    there[[0, 11, 12, 27]] = False
    response = np.where(there, degradation.PM.toarray(), 0.0)
    blind = Degradation(degradation.P1, degradation.P2, response)
    result = fuse(np.where(there, hsi, np.nan), scene @ response.T, blind, hsi_valid=there, max_iter=5)
    S = result.maps.S
    np.testing.assert_array_equal(S[0], S[1])
    np.testing.assert_allclose(S[27], 0.5 * (S[26] + S[28]))
    np.testing.assert_allclose(S[[11, 12]], [(2 * S[10] + S[13]) / 3, (S[10] + 2 * S[13]) / 3])
    assert rsnr(result.sri[:, :, ~there], scene[:, :, ~there]) > rsnr(result.sri[:, :, there], scene[:, :, there]) - 6.0


def test_a_band_that_only_the_msi_sees_is_learned_from_it(case):
    """A band unlike its neighbours, which no interpolation could find; also where pixels of both images are missing."""
    scene, _, _, degradation = case
    scene, there = scene.copy(), np.arange(SHAPE[2]) != 12
    scene[:, :, 12] = scene[:, :, 3] + 0.5 * scene[:, :, 30]
    hsi, msi = degrade(scene, degradation)
    valid = np.repeat(there[None, :], hsi.shape[1], axis=0)[None] & (np.arange(len(hsi)) > 2)[:, None, None]
    seen = np.ones(msi.shape[:2], bool)
    seen[20, 31] = False
    for masks in ({"hsi_valid": there}, {"hsi_valid": valid, "msi_valid": seen}):
        found = fuse(hsi, np.where(seen[:, :, None], msi, 7.0) if len(masks) > 1 else msi, degradation, **masks).sri
        assert rsnr(found[:, :, [12]], scene[:, :, [12]]) > 55.0
        assert rsnr(found[:, :, there], scene[:, :, there]) > 60.0  # 39 and 30 dB with the response that is left


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


@pytest.fixture(scope="module")
def noisy():
    """(scene, hsi, msi, degradation) at 25 dB, of materials that differ in every band."""
    scene = scenes.synthetic((48, 48, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    rng = np.random.default_rng(0)
    return scene, *(add_noise(image, 25.0, rng) for image in degrade(scene, degradation)), degradation


@pytest.mark.parametrize(
    ("method", "bands"),
    [
        *(("auto", [band]) for band in (0, 3, 7, 20, 39)),
        *((method, [band]) for method in ("nn-ccpd-nls", "uc-ccpd-nls", "cnmf", "nnstf") for band in (0, 7)),
        *(("auto", bands) for bands in ([7, 8, 9], [3, 12, 20, 33], list(range(14, 24)))),
    ],
)
def test_a_masked_band_costs_no_more_than_a_removed_one(noisy, method, bands):
    """Also where the MSI sees it: then the fit needs its spectra, which the HSI does not tell."""
    scene, hsi, msi, degradation = noisy
    valid = ~np.isin(np.arange(40), bands)
    masked = fuse(hsi, msi, degradation, hsi_valid=valid, method=method).sri
    response = degradation.PM.toarray()
    sees = response[:, valid].any(axis=1)  # a band of the MSI that sees nothing else goes too
    kept = response[sees][:, valid]
    kept *= (response[sees].sum(axis=1) / kept.sum(axis=1))[:, None]
    without = hsi[:, :, valid], msi[:, :, sees], Degradation(degradation.P1, degradation.P2, kept)
    removed = metrics.rsnr(fuse(*without, method=method).sri, scene[:, :, valid])
    assert metrics.rsnr(masked[:, :, valid], scene[:, :, valid]) >= removed - 1.0
    if len(bands) == 1:
        assert metrics.rsnr(masked, scene) >= removed - 1.0


@pytest.mark.parametrize("method", methods.names())
def test_a_scene_of_the_known_bands_is_what_is_fitted(method):
    """By any method, also one that cannot leave single values out: as if the other bands had never been."""
    hsi, msi, degradation = small_case(noise=0.05)
    # Of the bands 12 to 15, which the last band of the MSI sees, none is left; of 4 to 7, which its second sees, three.
    known = ~np.isin(np.arange(16), [7, 12, 13, 14, 15])
    options = small_instance(method)
    options = replace(options, max_iter=2) if "max_iter" in options.option_names() else options
    masked = fuse(np.where(known, hsi, np.nan), msi, degradation, hsi_valid=known, method=options)
    response = degradation.PM.toarray()[:3, known]
    response /= response.sum(axis=1, keepdims=True)
    removed = Degradation(degradation.P1, degradation.P2, response)
    alone = fuse(hsi[:, :, known], msi[:, :, :3], removed, method=options)
    np.testing.assert_allclose(masked.sri[:, :, known], alone.sri, rtol=1e-10, atol=1e-12)
    assert not options.nonnegative or masked.sri.min() >= 0.0
    assert masked.cost == pytest.approx(alone.cost, rel=1e-12)
    assert masked.status is alone.status
    assert masked.verdict == alone.verdict
    for shown, found in ((masked.maps, alone.maps), (masked.known_factors, alone.known_factors)):
        assert (shown is None) == (found is None)
    if masked.noise is not None:
        assert [len(sigma) for sigma in masked.noise] == [16, 4]


def test_starts_and_regularisers_of_all_bands_are_taken_beside_a_masked_one(noisy):
    """A regulariser of all bands sees the interpolated ones: here it holds each band to the next."""
    scene, hsi, msi, degradation = noisy
    rng, valid = np.random.default_rng(1), ~np.isin(np.arange(40), [7, 39])
    init = [rng.random((n, 3)) for n in scene.shape]
    options = {"method": "nn-ccpd-nls", "rank": 3, "init": init, "max_iter": 100}
    held = Smoothness((0.0, 0.0, 1e6), scene.shape)
    plain, smooth = (
        fuse(hsi, msi, degradation, hsi_valid=valid, regularisers=regularisers, **options).factors.C
        for regularisers in ((), (held,))
    )
    assert plain.shape == smooth.shape == (40, 3)
    rough = [np.abs(np.diff(C, axis=0)).max() / C.max() for C in (plain, smooth)]
    assert rough[1] < 0.2 * rough[0]
    with pytest.raises(ValueError, match="^init: got shapes"):
        fuse(hsi, msi, degradation, hsi_valid=valid, **(options | {"init": [*init[:2], init[2][1:]]}))
