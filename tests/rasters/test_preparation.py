"""Two files made ready: warped values, dead bands, units, masks; read whole or by windows."""

from dataclasses import replace

import numpy as np
import pytest
from field_files import UTM_32, centres, grid, ground, seen

from fastccpd import rasters
from fastccpd.rasters import Preparation, Raster, open_pair
from fastccpd.rasters.masks import split
from fastccpd.rasters.remarks import Remarks

BANDS = 11
WAVELENGTHS = np.linspace(450.0, 950.0, BANDS)


def hsi_of(shape=(9, 8), **known):
    coarse = grid(30.0)
    return Raster(seen(coarse, shape, BANDS), georeference=coarse, wavelengths=WAVELENGTHS, **known)


def msi_of(fine=None, shape=(40, 40), bands=3, **known):
    fine = fine or grid(10.0, down=-50.0, right=-50.0)
    return Raster(seen(fine, shape, bands), georeference=fine, **known)


def opened(folder, hsi, msi, **settings):
    """The open pair of two rasters in files, and what was said."""
    for name, image in (("h", hsi), ("m", msi)):
        rasters.write(folder / f"{name}.tif", image, overwrite=True)
    remarks = Remarks()
    pair = open_pair(folder / "h.tif", folder / "m.tif", Preparation(**settings), remarks)
    return pair, remarks.notes


def whole(image):
    return image.read(slice(None), slice(None))


def test_a_warped_msi_shows_the_ground_at_the_pixels_of_the_hsi_s_grid(tmp_path):
    fine = grid(10.0, down=-90.0, right=-90.0, crs=UTM_32)
    pair, notes = opened(tmp_path, hsi_of(), msi_of(fine, (60, 60)))
    found = whole(pair.msi)
    there = pair.msi.valid(slice(None), slice(None))
    expected = ground(*centres(grid(10.0), (27, 24)), 3)
    assert there.all()
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert any("warped from WGS 84 / UTM zone 32N" in note for note in notes)


def test_any_window_is_a_part_of_the_whole(tmp_path):
    fine = grid(10.0, down=-90.0, right=-90.0, crs=UTM_32)
    msi = msi_of(fine, (60, 60), nodata=-1.0)
    msi.cube[20:23, 25] = -1.0
    pair, _ = opened(tmp_path, hsi_of(), msi)
    for image in (pair.hsi, pair.msi):
        everything, has = whole(image), image.valid(slice(None), slice(None))
        rows, cols = slice(2, 7), slice(3, 8)
        np.testing.assert_array_equal(image.read(rows, cols), everything[rows, cols])
        np.testing.assert_array_equal(image.valid(rows, cols), has[rows, cols])
        assert image.read(rows, cols).dtype == image.dtype
    assert not has.all()


def test_gaps_of_a_warped_image_stay_gaps_and_do_not_bleed(tmp_path):
    msi = msi_of(grid(10.0, down=-54.0, right=-54.0), nodata=-9999.0)
    msi.cube[12:16, 12:16] = -9999.0
    pair, _ = opened(tmp_path, hsi_of(), msi)
    found, has = whole(pair.msi), pair.msi.valid(slice(None), slice(None))
    assert 12 <= (~has).sum() <= 36
    expected = ground(*centres(grid(10.0), (27, 24)), 3)
    np.testing.assert_allclose(found[has], expected[has], atol=0.03)


def test_a_band_without_data_does_not_empty_a_warped_image(tmp_path):
    hsi, msi = hsi_of(nodata=-1.0), msi_of(grid(10.0, down=-54.0, right=-54.0), nodata=-1.0)
    hsi.cube[:, :, 3] = msi.cube[:, :, 1] = -1.0
    pair, _ = opened(tmp_path, hsi, msi)
    loaded = pair.load()
    assert pair.msi.taken.warped
    assert not loaded.missing.any()
    found = loaded.msi.cube[:, :, loaded.good_msi]
    np.testing.assert_allclose(found, ground(*centres(grid(10.0), (27, 24)), 3)[:, :, ::2], atol=1e-3)


def test_dead_and_constant_bands_are_left_out_by_number_and_wavelength(tmp_path):
    hsi = hsi_of(nodata=-1.0)
    hsi.cube[:, :, 3:5] = -1.0
    hsi.cube[:, :, 8] = 0.25
    hsi.cube[0, 0] = -1.0
    pair, notes = opened(tmp_path, hsi, msi_of())
    np.testing.assert_array_equal(np.flatnonzero(~pair.hsi.bands), [3, 4, 8])
    assert "hsi: 2 of 11 bands hold no data and are left out: 4-5 (600 to 650 nm)" in notes
    assert "hsi: 1 of 11 bands are constant and left out: 9 (850 nm)" in notes
    assert (~pair.hsi.valid(slice(None), slice(None))).sum() == 1
    pair, _ = opened(tmp_path, hsi, msi_of(), keep_bands="9")
    np.testing.assert_array_equal(np.flatnonzero(~pair.hsi.bands), [3, 4])
    with pytest.warns(UserWarning, match=r"--keep-bands: asks for bands without data, which cannot be kept: 4 \(600"):
        pair, _ = opened(tmp_path, hsi, msi_of(), keep_bands="4,9")
    np.testing.assert_array_equal(np.flatnonzero(~pair.hsi.bands), [3, 4])
    with pytest.raises(ValueError, match="--keep-bands: got '12' in '9,12'; all, or bands of 1 to 11"):
        opened(tmp_path, hsi, msi_of(), keep_bands="9,12")


def test_msi_bands_beyond_the_hsi_are_left_out_and_named(tmp_path):
    msi = msi_of(wavelengths=[490.0, 842.0, 2190.0], fwhm=[66.0, 106.0, 180.0], names=("B2", "B8", "B12"))
    pair, notes = opened(tmp_path, hsi_of(), msi)
    np.testing.assert_array_equal(pair.msi.bands, [True, True, False])
    assert "msi: 1 of 3 bands are not covered by the HSI and left out: 3 (B12, 2190 nm)" in notes
    with pytest.raises(ValueError, match="msi: by its wavelengths the HSI covers none of its bands"):
        opened(tmp_path, hsi_of(), replace(msi, wavelengths=[2000.0, 2100.0, 2190.0]))


def test_scale_and_offset_of_the_file_are_applied_and_options_replace_them(tmp_path):
    hsi, msi = hsi_of(), msi_of()
    counts = np.round(msi.cube * 10000 + 1000).astype(np.uint16)
    stored = replace(msi, cube=counts, scale=1e-4, offset=-0.1)
    pair, notes = opened(tmp_path, hsi, stored)
    expected = ground(*centres(grid(10.0), (27, 24)), 3)
    np.testing.assert_allclose(whole(pair.msi), expected, atol=6e-5)
    assert "msi: values are those stored × 0.0001 - 0.1, as the file says" in notes
    pair, notes = opened(tmp_path, hsi, stored, msi_scale=1.0, msi_offset=-1000.0)
    np.testing.assert_allclose(whole(pair.msi), expected * 1e4, atol=0.6)
    assert "msi: values are those stored - 1000, as given" in notes
    with pytest.raises(ValueError, match="--hsi-scale: got 0; a finite number other than 0 is needed"):
        Preparation(hsi_scale=0)


def test_a_mask_of_classes_on_another_grid_leaves_out_what_it_covers(tmp_path):
    classes = np.full((20, 20, 1), 4, np.uint8)
    classes[5:7, 5:8] = 9
    classes[0, 0] = 8
    scl = Raster(classes, georeference=grid(20.0, down=-50.0, right=-50.0))
    rasters.write(tmp_path / "scl.tif", scl)
    settings = {"msi_mask": f"{tmp_path}/scl.tif::3,8,9,10"}
    pair, _ = opened(tmp_path, hsi_of(), msi_of(), **settings)
    masked = np.zeros((27, 24), bool)
    masked[5:9, 5:11] = True  # 50 m into the scene, 40 m high and 60 m wide
    np.testing.assert_array_equal(~pair.msi.valid(slice(None), slice(None)), masked)
    assert pair.hsi.valid(slice(None), slice(None)).all()
    pair, _ = opened(tmp_path, hsi_of(), msi_of(), msi_mask=tmp_path / "scl.tif")
    assert not pair.msi.valid(slice(None), slice(None)).any()


def test_a_mask_that_lies_elsewhere_or_masks_nothing_is_said(tmp_path):
    def scl(**place):
        classes = np.full((27, 24, 1), 4, np.uint8)
        rasters.write(tmp_path / "scl.tif", Raster(classes, georeference=grid(10.0, **place)), overwrite=True)
        return opened(tmp_path, hsi_of(), msi_of(), msi_mask=f"{tmp_path}/scl.tif::9")[1]

    assert "--msi-mask: masks no pixel of the MSI" in scl()
    with pytest.warns(UserWarning, match="--msi-mask: lies on 50% of the MSI; the rest is not masked"):
        scl(right=120.0)
    with pytest.raises(ValueError, match="--msi-mask: .*scl.tif covers x 389000 to .*, and the image x 380000 to .*"):
        scl(right=9000.0)


def test_a_mask_without_a_grid_has_the_size_of_its_image(tmp_path):
    flags = np.zeros((9, 8, 1))
    flags[2, 3] = 1
    np.save(tmp_path / "mask.npy", flags)
    pair, _ = opened(tmp_path, hsi_of(), msi_of(), hsi_mask=tmp_path / "mask.npy")
    assert list(zip(*np.nonzero(~pair.hsi.valid(slice(None), slice(None))), strict=True)) == [(2, 3)]
    np.save(tmp_path / "mask.npy", flags[1:])
    with pytest.raises(
        ValueError, match="--hsi-mask: .* has 8×8 pixels and no grid in common .* 9×8 pixels, is needed"
    ):
        opened(tmp_path, hsi_of(), msi_of(), hsi_mask=tmp_path / "mask.npy")
    np.save(tmp_path / "mask.npy", np.zeros((9, 8, 2)))
    with pytest.raises(ValueError, match="has 2 bands; a raster of one band is needed"):
        opened(tmp_path, hsi_of(), msi_of(), hsi_mask=tmp_path / "mask.npy")


def test_classes_are_told_from_variables():
    assert split("scl.tif::3,8") == ("scl.tif", (3, 8))
    assert split("a.npz::cloud") == ("a.npz::cloud", None)
    assert split("a.npz::cloud::1") == ("a.npz::cloud", (1,))
    assert split("scl.tif") == ("scl.tif", None)
