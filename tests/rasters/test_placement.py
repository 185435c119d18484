"""Where two images are taken from: overlap, whole pixels, fine grids, warps and what they cost."""

import numpy as np
import pytest
from field_files import CORNER, UTM_32, UTM_33, centres, grid

from fastccpd.rasters import Georeference, Header, placement
from fastccpd.rasters.mapping import mapping


def header(shape, georeference=None):
    return Header(shape, np.dtype(np.float32), georeference=georeference)


def placed(hsi=(7, 5, 9), msi=(21, 15, 3), coarse=None, fine=None, **settings):
    return placement(header(hsi, coarse or grid(30.0)), header(msi, fine or grid(10.0)), **settings)


def test_images_on_one_grid_are_taken_whole_and_nothing_is_said():
    found = placed()
    assert (found.hsi.shape, found.msi.shape, found.notes) == ((7, 5), (21, 15), ())
    assert (found.hsi.warped, found.msi.warped, found.grids.offset) == (False, False, (0.0, 0.0))


def test_other_extents_are_cropped_to_whole_hsi_pixels_of_the_overlap():
    # The MSI begins 40 m above and 20 m right of the HSI, and ends 50 m before it does.
    found = placed(msi=(20, 13, 3), fine=grid(10.0, down=-40.0, right=20.0))
    assert (found.hsi.corner, found.hsi.shape) == ((0, 1), (5, 4))
    assert (found.msi.corner, found.msi.shape) == ((4, 1), (15, 12))
    assert found.msi.resampled == 0.0
    assert found.notes == ("the HSI is cropped from 7×5 to 5×4 pixels, those with an MSI or asked for",)
    np.testing.assert_allclose(found.msi.georeference.transform, grid(10.0, right=30.0).transform)


def test_a_grid_off_by_a_fraction_is_warped_and_its_cost_told():
    found = placed(fine=grid(10.0, down=-3.0, right=-3.0), msi=(23, 17, 3))
    assert found.msi.warped
    assert found.msi.resampled == 1.0
    assert "msi: warped from WGS 84 / UTM zone 33N to the grid of the result; 100% of its pixels are" in found.notes[-1]


def test_another_coordinate_system_is_warped_to_that_of_the_hsi():
    coarse, fine = grid(30.0), grid(10.0, down=-150.0, right=-150.0, crs=UTM_32)
    found = placed(msi=(60, 60, 3), coarse=coarse, fine=fine)
    assert (found.hsi.shape, found.grids.ratio) == ((7, 5), 3)
    np.testing.assert_allclose(found.msi.georeference.transform, grid(10.0).transform)
    assert found.msi.georeference.crs == UTM_33


def test_a_ratio_that_is_not_whole_becomes_the_nearest_and_that_is_said():
    found = placed(fine=grid(8.0), msi=(30, 30, 3))
    assert found.grids.ratio == 4
    assert found.msi.shape == (28, 20)
    assert "HSI pixels are 3.75 by 3.75 fine pixels; the warp makes that 4" in found.notes
    assert placed(fine=grid(8.0), msi=(30, 30, 3), ratio=3).msi.shape == (21, 15)
    with pytest.raises(ValueError, match="ratio: got 5, but by georeferencing an HSI pixel is 3.75 MSI pixels wide"):
        placed(fine=grid(8.0), msi=(30, 30, 3), ratio=5)


def test_images_that_do_not_meet_are_refused_with_both_extents():
    with pytest.raises(ValueError) as refused:
        placed(fine=grid(10.0, right=9000.0))
    assert "it covers x 380000 to 380150, y 5819790 to 5820000 in WGS 84 / UTM zone 33N" in str(refused.value)
    assert "the MSI x 389000 to 389150, y 5819790 to 5820000 in WGS 84 / UTM zone 33N" in str(refused.value)


def test_the_grid_of_the_msi_keeps_its_pixels_and_leaves_the_rest_to_the_blur():
    found = placed(fine=grid(10.0, down=-4.0, right=-23.0), msi=(30, 30, 3), grid="msi")
    assert (found.hsi.warped, found.msi.warped) == (False, False)
    np.testing.assert_allclose(found.grids.offset, (0.4, 0.3), atol=1e-9)
    assert (found.msi.corner, found.msi.shape, found.hsi.shape) == ((0, 2), (21, 15), (7, 5))
    with pytest.raises(
        ValueError, match="--grid: got msi, but the HSI's coordinate system is .* 33N and the MSI's .*32N"
    ):
        placed(fine=grid(10.0, crs=UTM_32), msi=(60, 60, 3), grid="msi")
    with pytest.raises(ValueError, match="HSI pixels are 3.75 by 3.75 MSI pixels; a whole number is needed"):
        placed(fine=grid(8.0), msi=(60, 60, 3), grid="msi")
    south_up = Georeference(UTM_33, (10.0, 0.0, CORNER[0], 0.0, 10.0, CORNER[1] - 210.0))
    with pytest.raises(ValueError, match="the HSI is turned or mirrored against the MSI; .* or --grid hsi"):
        placed(fine=south_up, grid="msi")


def test_the_grid_of_a_file_is_that_of_the_result():
    base = header((50, 50, 1), grid(10.0, down=5.0, right=5.0))
    found = placed(msi=(30, 30, 3), grid=base)
    assert found.hsi.warped
    assert found.msi.warped
    assert found.hsi.shape == (6, 4)
    np.testing.assert_allclose(found.msi.georeference.transform, base.georeference.transform)
    assert found.msi.shape == (18, 12)
    assert found.notes[0] == "6×4 blocks of 3×3 pixels of the given grid lie on both images"


def test_a_box_and_a_window_cut_whole_hsi_pixels():
    found = placed(bbox=(380031.0, 5819850.0, 380060.0, 5819935.0))
    assert (found.hsi.corner, found.hsi.shape, found.msi.corner) == ((2, 1), (3, 1), (6, 3))
    found = placed(window=(slice(1, 4), slice(None, 2)))
    assert (found.hsi.corner, found.hsi.shape, found.msi.shape) == ((1, 0), (3, 2), (9, 6))
    with pytest.raises(ValueError, match="--bbox: leaves no HSI pixel"):
        placed(bbox=(0.0, 0.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="--bbox: got 3,0,1,1; left < right and bottom < top are needed"):
        placed(bbox=(3.0, 0.0, 1.0, 1.0))


def test_images_without_a_grid_are_cut_by_a_window_alone():
    plain = header((7, 5, 9)), header((21, 15, 3))
    found = placement(*plain, window=(slice(2, 5), slice(1, 2)))
    assert (found.hsi.corner, found.msi.corner, found.msi.shape) == ((2, 1), (6, 3), (9, 3))
    with pytest.raises(ValueError, match="--bbox: needs two georeferenced images"):
        placement(*plain, bbox=(0, 0, 1, 1))


def test_a_finer_hsi_is_refused():
    with pytest.raises(ValueError, match="coarser pixels than the MSI's are needed"):
        placed(coarse=grid(4.0), fine=grid(10.0))


def test_pixels_map_to_the_same_ground_in_two_coordinate_systems():
    one, other = grid(30.0), grid(10.0, crs=UTM_32)
    places = np.array([(0.5, 0.5), (3.5, 4.5)])
    mapped = mapping(one, other)(places)
    x, y = centres(Georeference(UTM_32, other.transform), (1, 1))
    back = mapping(other, one)(mapped)
    np.testing.assert_allclose(back, places, atol=1e-6)
    near = mapping(other, one)(np.array([[0.5, 0.5]]))[0]
    np.testing.assert_allclose(near, [(5820000.0 - y[0, 0]) / 30.0, (x[0, 0] - 380000.0) / 30.0], atol=1e-6)
