"""How two grids lie to each other: by georeferencing, by sizes, and by the images themselves."""

import dataclasses

import numpy as np
import pytest
from pair_files import UTM_33, grid
from scipy import sparse

from fastccpd import Degradation, rasters
from fastccpd.estimation.shift import phase_of, shift_by_images
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, scenes
from fastccpd.rasters import grids_of, shift_by_georeference


def header(shape, georeference=None):
    return rasters.Header(shape, np.dtype(np.float32), georeference=georeference)


def georeferenced(down=0.0, right=0.0, coarse=40.0, hsi=(5, 7, 9), msi=(20, 28, 3)):
    return header(hsi, grid(coarse, down, right)), header(msi, grid(10.0))


def test_the_ratio_comes_from_georeferencing_first_and_from_sizes_otherwise():
    found = grids_of(*georeferenced())
    assert (found.ratio, found.ratio_from, found.offset) == (4, "georeferencing", (0.0, 0.0))
    found = grids_of(header((5, 7, 9)), header((15, 21, 3)))
    assert (found.ratio, found.ratio_from, found.offset) == (3, "sizes", None)
    assert grids_of(header((5, 7, 9)), header((15, 21, 3)), ratio=3).ratio_from == "given"


def test_the_offset_counts_msi_pixels_down_and_right():
    offset = grids_of(*georeferenced(down=3.0, right=-2.0)).offset
    np.testing.assert_allclose(offset, (0.3, -0.2), atol=1e-9)


def test_a_turned_grid_is_compared_along_its_own_axes():
    angle = np.radians(30.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def turned(pixel, corner):
        (a, b), (d, e) = turn * pixel @ np.diag([1.0, -1.0])
        return rasters.Georeference(UTM_33, (a, b, corner[0], d, e, corner[1]))

    moved = turn @ np.array([5.0, -2.5])  # 5 m along the columns, 2.5 m along the rows
    found = grids_of(header((5, 7, 9), turned(40.0, moved)), header((20, 28, 3), turned(10.0, (0.0, 0.0))))
    assert found.ratio == 4
    np.testing.assert_allclose(found.offset, (0.25, 0.5), atol=1e-9)


def test_rounded_pixel_sizes_are_the_same_ratio():
    hsi, msi = georeferenced(coarse=40.0001)
    assert grids_of(hsi, msi).ratio == 4


@pytest.mark.parametrize(
    ("images", "ratio", "sentence"),
    [
        (
            georeferenced(coarse=35.0),
            None,
            "hsi: by georeferencing its pixels are 3.5 MSI pixels wide and 3.5 high; one",
        ),
        (georeferenced(), 3, "ratio: got 3, but by georeferencing an HSI pixel is 4 MSI pixels wide"),
        (georeferenced(msi=(20, 27, 3)), None, "msi: 27 columns, but 4 times the HSI's 7 are 28; they must agree"),
        (
            (header((5, 7, 9)), header((15, 28, 3))),
            None,
            "msi: its 15 rows and 28 columns are 3 and 4 times the HSI's 5",
        ),
        ((header((5, 7, 9)), header((15, 21, 3))), 4, "msi: 15 rows, but 4 times the HSI's 5 are 20; they must agree"),
        ((header((5, 7, 9)), header((4, 6, 3))), None, "msi: its 4 rows and 6 columns are 0.8 and 0.857143 times"),
    ],
)
def test_grids_that_do_not_belong_together_are_refused_with_the_numbers(images, ratio, sentence):
    with pytest.raises(ValueError) as refused:
        grids_of(*images, ratio)
    assert str(refused.value).startswith(sentence)


def test_a_grid_stored_upside_down_is_refused():
    hsi, msi = georeferenced()
    a, b, c, d, e, f = hsi.georeference.transform
    upside_down = dataclasses.replace(hsi.georeference, transform=(a, b, c, d, -e, f))
    with pytest.raises(ValueError, match="4 MSI pixels wide and -4 high"):
        grids_of(dataclasses.replace(hsi, georeference=upside_down), msi)


def test_different_coordinate_systems_are_refused_by_name():
    pytest.importorskip("rasterio")
    hsi, msi = georeferenced()
    other = UTM_33.replace("zone 33N", "zone 32N").replace('"central_meridian",15', '"central_meridian",9')
    moved = dataclasses.replace(hsi, georeference=grid(40.0, crs=other))
    with pytest.raises(
        ValueError, match="hsi: its coordinate system is WGS 84 / UTM zone 32N, but the MSI's is .* 33N"
    ):
        grids_of(moved, msi)


def test_what_cannot_be_compared_is_said():
    hsi, msi = georeferenced()
    assert grids_of(dataclasses.replace(hsi, georeference=None), msi).notes == (
        "only the MSI is georeferenced, so the grids cannot be compared",
    )
    nameless = dataclasses.replace(hsi, georeference=grid(40.0, crs=None))
    assert "not known to agree" in grids_of(nameless, msi).notes[0]
    assert grids_of(hsi, msi).notes == ()


@pytest.mark.parametrize("boundary", ["periodic", "reflect"])
@pytest.mark.parametrize("phase", [0, 1.5, 3])
def test_the_phase_of_an_operator_is_read_off_its_rows(boundary, phase):
    for P in gaussian((40, 36), 4, phase=phase, boundary=boundary):
        assert phase_of(P, 4) == pytest.approx(phase, abs=1e-9)
    lopsided = sparse.csr_array(np.kron(np.eye(6), [[0.0, 0.0, 3.0, 1.0]]))
    assert phase_of(lopsided, 4) == pytest.approx(2.25)


@pytest.mark.parametrize(
    ("down", "right", "phase", "shift", "better"),
    [
        (0.0, 0.0, 1.5, (0.0, 0.0), None),
        (0.0, 0.0, 3, (-1.5, -1.5), 1.5),
        (5.0, 5.0, 1.5, (0.5, 0.5), 2.0),
        (5.0, 5.0, 2, (0.0, 0.0), None),
        (3.0, -6.0, 1.5, (0.3, -0.6), None),
        (15.0, 15.0, 3, (0.0, 0.0), None),
    ],
)
def test_the_shift_is_what_the_operators_leave_of_the_offset(down, right, phase, shift, better):
    grids = grids_of(*georeferenced(down=down, right=right))
    found = shift_by_georeference(grids, *gaussian((20, 28), 4, phase=phase))
    np.testing.assert_allclose((found.rows, found.columns), shift, atol=1e-9)
    assert found.phase == better
    assert found.matters == (shift != (0.0, 0.0))


def test_the_sentence_of_a_shift_has_its_numbers():
    grids = grids_of(*georeferenced(down=5.0, right=4.0))
    assert str(shift_by_georeference(grids, *gaussian((20, 28), 4, phase=1.5))) == (
        "the HSI lies 0.50 MSI pixels down and 0.40 right of where the blur puts it; a blur of phase 2 would fit better"
    )


def test_a_grid_a_pixel_away_is_refused_unless_the_operators_know_it():
    grids = grids_of(*georeferenced(down=15.0, right=15.0))
    with pytest.raises(ValueError, match=r"1.50 MSI pixels down and 1.50 right .* or use a blur of phase 3"):
        shift_by_georeference(grids, *gaussian((20, 28), 4, phase=1.5))
    far = grids_of(*georeferenced(down=-80.0))
    with pytest.raises(ValueError, match=r"8.00 MSI pixels up and 0.00 right of the MSI's; .* same corner$"):
        shift_by_georeference(far, *gaussian((20, 28), 4, phase=1.5))


def shifted_pair(down, right, snr, *, phase=1.5, shape=(72, 60, 40), rng=0):
    """HSI and MSI of two windows of one scene, the HSI's further down and to the right by whole MSI pixels."""
    scene = scenes.synthetic((shape[0] + 8, shape[1] + 8, shape[2])).cube
    windows = [scene[4 + r : 4 + r + shape[0], 4 + c : 4 + c + shape[1]] for r, c in ((down, right), (0, 0))]
    degradation = Degradation(*gaussian(shape[:2], 4, phase=phase, boundary="reflect"), landsat(shape[2]))
    images = degrade(windows[0], degradation)[0], degrade(windows[1], degradation)[1]
    generator = np.random.default_rng(rng)
    return *(add_noise(image, snr, generator) for image in images), degradation


@pytest.mark.parametrize(("down", "right"), [(0, 0), (1, 0), (-1, 2), (2, 2), (-3, -1)])
def test_a_shift_is_found_in_the_images(down, right):
    found = shift_by_images(*shifted_pair(down, right, 30.0))
    np.testing.assert_allclose((found.rows, found.columns), (down, right), atol=0.25)
    assert found.matters == ((down, right) != (0, 0))
    assert "an estimated" in str(found)


def test_counts_and_single_precision_show_the_same_shift():
    hsi, msi, degradation = shifted_pair(1, -1, 40.0)
    plain = shift_by_images(hsi, msi, degradation)
    counts = shift_by_images(*((1e4 * image).astype(np.uint16) for image in (hsi, msi)), degradation)
    single = shift_by_images(hsi.astype(np.float32), msi.astype(np.float32), degradation)
    for other in (counts, single):
        np.testing.assert_allclose((other.rows, other.columns), (plain.rows, plain.columns), atol=0.02)


def test_a_phase_is_advised_where_one_fits():
    hsi, msi, degradation = shifted_pair(1, 1, 30.0)
    assert shift_by_images(hsi, msi, degradation).phase == 2.5


@pytest.mark.parametrize("snr", [0.0, 5.0, 10.0, 20.0, 40.0])
def test_noise_is_not_taken_for_a_shift(snr):
    for rng in range(5):
        found = shift_by_images(*shifted_pair(0, 0, snr, rng=rng))
        assert found is None or not found.matters


@pytest.mark.parametrize("snr", [10.0, 20.0, 40.0])
def test_standard_errors_are_honest(snr):
    for rng in range(5):
        found = shift_by_images(*shifted_pair(1, -2, snr, rng=rng))
        apart = np.abs([found.rows - 1, found.columns + 2]) / found.errors
        assert apart.max() < 5.0


def test_images_that_show_nothing_have_no_shift():
    flat = np.ones((10, 9, 40)), np.ones((40, 36, 6))
    degradation = Degradation(*gaussian((40, 36), 4), landsat(40))
    assert shift_by_images(*flat, degradation) is None
    tiny = Degradation(*gaussian((12, 8), 4), landsat(40))
    rng = np.random.default_rng(0)
    assert shift_by_images(rng.random((3, 2, 40)), rng.random((12, 8, 6)), tiny) is None


@pytest.mark.scenes
@pytest.mark.parametrize("snr", [5.0, 10.0, 20.0, 40.0])
def test_salinas_unshifted_gives_no_alarm(snr, data_folder):
    cube = scenes.load("salinas-a", data_folder).cube
    degradation = Degradation(*gaussian(cube.shape[:2], 4, phase=3), landsat(204))
    rng = np.random.default_rng(0)
    found = shift_by_images(*(add_noise(image, snr, rng) for image in degrade(cube, degradation)), degradation)
    assert found is None or not found.matters
