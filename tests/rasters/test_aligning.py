"""The shift between two images, measured from them, and put into the blur."""

import numpy as np
import pytest
from pair_files import grid

from fastccpd import Degradation, rasters
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, metrics, preset, scenes
from fastccpd.imaging.moving import Move
from fastccpd.imaging.psf import interpolation
from fastccpd.rasters import fuse_files
from fastccpd.rasters.tiling import fuse_files_in_tiles

SHAPE, RATIO, COARSE = (92, 76, 36), 4, (23, 19)
FAST = {"method": "gsa"}


def files(folder, shift, georeferenced=True, snr=35.0, shape=SHAPE):
    """Two files whose HSI lies `shift` MSI pixels from where its grid says, and the truth."""
    coarse = tuple(size // RATIO for size in shape[:2])
    cube = scenes.synthetic(shape, rng=1).cube
    phase = tuple(1.5 + by for by in shift)
    operators = gaussian(shape[:2], RATIO, sigma=1.7, phase=phase, boundary="reflect", coarse=coarse)
    images = degrade(cube, Degradation(*operators, landsat(shape[2])))
    paths = []
    for n, (name, image, pixel) in enumerate(zip(("hsi", "msi"), images, (40.0, 10.0), strict=True)):
        paths.append(str(folder / f"{name}.tif"))
        place = grid(pixel) if georeferenced else None
        rasters.write(paths[-1], rasters.Raster(add_noise(image, snr, n), georeference=place), overwrite=True)
    return *paths, cube


@pytest.mark.parametrize("by", [0.0, 2.0, -3.0, 0.37, -1.6])
def test_interpolation_moves_what_is_smooth(by):
    x = np.arange(40.0)
    moved = interpolation(40, by, "reflect") @ np.sin(x / 3.0)
    np.testing.assert_allclose(moved[8:-8], np.sin((x + by) / 3.0)[8:-8], atol=1e-4)


@pytest.mark.parametrize("psf", ["gaussian,sigma=1.7", "stereo", "matrices"])
def test_a_shift_of_georeferenced_images_is_measured_and_put_into_any_blur(psf, tmp_path):
    hsi, msi, truth = files(tmp_path, (0.6, -0.8))
    if psf == "matrices":
        psf = gaussian(SHAPE[:2], RATIO, sigma=1.7, phase=1.5, boundary="reflect")
    fused = fuse_files(hsi, msi, psf=psf, srf="landsat", messages=Silent(), **FAST)
    begins = 1.5 if psf != "stereo" else RATIO - 1
    found = np.array([begins + fused.shift.rows - 1.5, begins + fused.shift.columns - 1.5])
    np.testing.assert_allclose(found, (0.6, -0.8), atol=5.0 * max(fused.shift.errors))
    assert max(fused.shift.errors) < 0.05
    assert fused.blur.moved == (fused.shift.rows, fused.shift.columns)
    assert any("; the blur is moved by that, --no-align leaves it" in said for said in fused.warnings)
    left = fuse_files(hsi, msi, psf=psf, srf="landsat", align=False, messages=Silent(), **FAST)
    shown = rasters.read(hsi).cube[3:-3, 3:-3]
    fits = [metrics.rsnr(degrade(truth, one.degradation)[0][3:-3, 3:-3], shown) for one in (fused, left)]
    assert fits[0] > fits[1] + 5.0
    assert left.blur.moved is None
    assert any("the HSI lies an estimated" in warning for warning in left.warnings)


def test_pixels_of_shift_are_found_too(tmp_path):
    hsi, msi, _ = files(tmp_path, (6.3, -9.4))
    fused = fuse_files(hsi, msi, psf="gaussian,sigma=1.7", srf="auto", messages=Silent(), **FAST)
    np.testing.assert_allclose((fused.shift.rows, fused.shift.columns), (6.3, -9.4), atol=0.1)


def test_images_that_lie_right_keep_their_blur(tmp_path):
    hsi, msi, _ = files(tmp_path, (0.0, 0.0))
    fused = fuse_files(hsi, msi, psf="gaussian,sigma=1.7", srf="landsat", messages=Silent(), **FAST)
    assert fused.blur.moved is None
    assert not fused.warnings
    expected = gaussian(SHAPE[:2], RATIO, sigma=1.7, phase=1.5, boundary="reflect")
    np.testing.assert_array_equal(fused.degradation.P1.toarray(), expected[0].toarray())


def test_images_too_small_for_it_get_a_sentence(tmp_path):
    hsi, msi, _ = files(tmp_path, (0.0, 0.0), shape=(12, 12, 36))
    fused = fuse_files(hsi, msi, psf="stereo", srf="landsat", messages=Silent(), method="gsa", ridge=1e-3)
    assert any("too small to measure a shift" in note for note in fused.notes)


@pytest.mark.parametrize("srf", [None, "landsat"])
@pytest.mark.parametrize("tiled", [False, True])
def test_without_alignment_the_blur_stays_and_the_shift_is_said(srf, tiled, tmp_path):
    hsi, msi, _ = files(tmp_path, (0.6, -0.8))
    known = {"psf": "auto", "srf": srf, "align": False, "messages": Silent()}
    if tiled:
        fused = fuse_files_in_tiles(hsi, msi, tmp_path / "o.tif", tile=64, workers=0, method="tv-maps", **known)
    else:
        fused = fuse_files(hsi, msi, **known, **FAST)
    assert fused.blur.settings["shift"] == [0.0, 0.0]
    assert "its centre +0.00 (given) down and +0.00 (given) right" in str(fused.blur)
    assert preset("stereo", SHAPE).P1.shape == fused.degradation.P1.shape
    np.testing.assert_allclose((fused.shift.rows, fused.shift.columns), (0.6, -0.8), atol=5.0 * max(fused.shift.errors))
    assert 0.0 < max(fused.shift.errors) < 0.1
    assert any("the HSI lies an estimated 0." in warning for warning in fused.warnings)


@pytest.mark.parametrize("boundary", ["reflect", "periodic"])
def test_what_lies_outside_the_picture_is_estimated_with_the_blur(boundary, tmp_path):
    hsi, msi, truth = files(tmp_path, (0.0, 0.0))
    blur = gaussian(SHAPE[:2], RATIO, sigma=1.7, phase=1.5, boundary=boundary, coarse=COARSE)
    image = add_noise(degrade(truth, Degradation(*blur, landsat(SHAPE[2])))[0], 35.0, 0)
    rasters.write(hsi, rasters.Raster(image, georeference=grid(40.0)), overwrite=True)
    fused = fuse_files(hsi, msi, messages=Silent(), method="tv-maps", max_iter=5)
    assert fused.blur.settings["boundary"] == boundary


class Silent:
    """Hears nothing."""

    def note(self, text):
        pass

    def warn(self, text):
        pass


@pytest.mark.parametrize("psf", ["auto", "gaussian,sigma=1.7"])
def test_the_result_lies_where_the_msi_does_or_where_the_hsi_does(psf, tmp_path):
    hsi, msi, truth = files(tmp_path, (1.6, -0.8))
    known = {"psf": psf, "srf": "landsat", "messages": Silent(), **FAST}
    written = [str(tmp_path / f"at_{place}.tif") for place in ("msi", "hsi")]
    there = [fuse_files(hsi, msi, out, place=place, **known) for out, place in zip(written, ("msi", "hsi"))]
    assert there[0].move is None
    np.testing.assert_allclose(there[1].move.by, (1.6, -0.8), atol=0.1)
    assert any("the result is moved to the HSI's place, 1." in note for note in there[1].notes)
    # What the HSI's grid calls pixel (i, j) the MSI shows at (i + 1.6, j − 0.8).
    expected = Move(truth.shape, (1.6, -0.8)).image(lambda r, c: truth[r, c], *map(slice, (0, 0), truth.shape[:2]))
    cubes = [rasters.read(path).cube[6:-6, 6:-6] for path in written]
    right, wrong = (metrics.rsnr(cube, expected[6:-6, 6:-6]) for cube in cubes[::-1])
    assert right > wrong + 3.0
    np.testing.assert_array_equal(there[1].raster.cube[6:-6, 6:-6], cubes[1])
    assert there[1].marked[-1].all()  # which lies outside of the MSI
    assert not there[1].marked[:-1].any()


def test_a_place_that_is_neither_is_refused(tmp_path):
    hsi, msi, _ = files(tmp_path, (0.0, 0.0))
    with pytest.raises(ValueError, match="place: got 'north'; "):
        fuse_files(hsi, msi, place="north", srf="landsat", messages=Silent(), **FAST)
