"""The spectral responses against band ranges printed in the literature and sums from the definition."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fastccpd.imaging import landsat, read_edges, read_response, scenes

from fastccpd.imaging import response_from_edges, response_from_groups, response_from_table  # isort: skip

# The centres of two detectors that overlap: they go backwards once.
UNSORTED = np.array([640.0, 650.0, 660.0, 655.0, 665.0, 675.0, 685.0])


def ranges(PM):
    """1-based first and last band of each row, which must have no holes and equal weights."""
    found = []
    for row in PM.toarray():
        bands = np.flatnonzero(row)
        assert np.array_equal(bands, np.arange(bands[0], bands[-1] + 1))
        np.testing.assert_allclose(row[bands], 1 / len(bands), rtol=1e-15)
        found.append((int(bands[0]) + 1, int(bands[-1]) + 1))
    return found


def test_landsat_of_indian_pines_has_the_published_ranges():
    assert ranges(landsat(200)) == [(6, 12), (13, 19), (23, 28), (36, 48), (110, 130), (161, 185)]


def test_landsat_of_salinas_has_the_published_ranges():
    assert ranges(landsat(204)) == [(6, 12), (13, 20), (24, 29), (36, 49), (113, 133), (164, 189)]


def test_landsat_needs_bands_enough():
    assert landsat(36).shape == (6, 36)
    with pytest.raises(ValueError, match=r"n_bands: got 10, too few"):
        landsat(10)


def test_groups_average_slices_ranges_numbers_and_masks():
    mask = np.array([True, False, False, False, True])
    PM = response_from_groups([slice(1, 4), range(0, 5, 2), [3], np.array([4, 0]), mask], 5)
    assert isinstance(PM, sparse.csr_array)
    expected = np.array(
        [
            [0, 1 / 3, 1 / 3, 1 / 3, 0],
            [1 / 3, 0, 1 / 3, 0, 1 / 3],
            [0, 0, 0, 1, 0],
            [0.5, 0, 0, 0, 0.5],
            [0.5, 0, 0, 0, 0.5],
        ]
    )
    np.testing.assert_allclose(PM.toarray(), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "groups: got none"),
        ([[]], r"groups\[0\]: got \[\]"),
        ([[0], [5]], r"groups\[1\]: got bands 5 to 5; 0 to 4 are needed"),
        ([[-1]], r"groups\[0\]: got bands -1"),
        ([[1, 1]], r"groups\[0\]: names a band twice"),
        ([[0.5]], r"groups\[0\]: got \[0.5\]"),
        ([[True, False]], r"a mask of 5 bands"),
        ([slice(5, 9)], r"groups\[0\]: got range"),
    ],
)
def test_groups_refuse_what_is_no_band(groups, message):
    with pytest.raises(ValueError, match=message):
        response_from_groups(groups, 5)


def test_edges_are_inclusive_and_do_not_need_sorted_centres():
    PM = response_from_edges([(650, 660), (660, 685)], UNSORTED)
    expected = np.array([[0, 1, 1, 1, 0, 0, 0], [0, 0, 1, 0, 1, 1, 1]])
    np.testing.assert_allclose(PM.toarray(), expected / expected.sum(axis=1, keepdims=True), rtol=1e-15)


def test_edges_follow_a_permutation_of_the_bands():
    rng = np.random.default_rng(0)
    centres = rng.uniform(400, 2500, 120)
    order = rng.permutation(120)
    edges = [(450, 700), (900, 1300)]
    straight, shuffled = (response_from_edges(edges, c).toarray() for c in (centres, centres[order]))
    np.testing.assert_array_equal(straight[:, order], shuffled)


def test_edges_without_a_band_say_where_the_bands_are():
    with pytest.raises(ValueError, match=r"edges: no band centre lies in band nir, 760 to 900; .* from 640 to 685"):
        response_from_edges({"red": (640, 685), "nir": (760, 900)}, UNSORTED)


@pytest.mark.parametrize("edges", [[], [(600, 500)], [(1, 2, 3)], "red", [(np.nan, 1)], [(1, 2), (3,)]])
def test_edges_must_be_pairs(edges):
    with pytest.raises(ValueError, match="edges: got"):
        response_from_edges(edges, UNSORTED)


@pytest.mark.parametrize("wavelengths", [[], [[500.0]], [np.nan], None, "blue"])
def test_wavelengths_must_be_one_number_a_band(wavelengths):
    with pytest.raises(ValueError, match="wavelengths: got"):
        response_from_edges([(400, 900)], wavelengths)


def test_table_is_interpolated_at_unsorted_centres():
    table = {"triangle": ([640, 660, 680], [0.0, 1.0, 0.0])}
    weights = np.array([max(0.0, 1 - abs(c - 660) / 20) for c in UNSORTED])
    PM = response_from_table(table, UNSORTED)
    np.testing.assert_allclose(PM.toarray()[0], weights / weights.sum(), rtol=1e-14)


def test_table_under_band_profiles_is_the_mean_response_under_each_gaussian():
    samples = np.linspace(560.0, 760.0, 2001)
    response = np.exp(-0.5 * ((samples - 660) / 9) ** 2)
    fwhm = np.linspace(8.0, 14.0, len(UNSORTED))
    PM = response_from_table({"red": (samples, response)}, UNSORTED, fwhm=fwhm)
    # A Gaussian under a Gaussian is a Gaussian whose variances add; linear interpolation between samples costs 1e-5.
    sigma2 = (fwhm / np.sqrt(8 * np.log(2))) ** 2
    weights = 9 / np.sqrt(81 + sigma2) * np.exp(-0.5 * (UNSORTED - 660) ** 2 / (81 + sigma2))
    np.testing.assert_allclose(PM.toarray()[0], weights / weights.sum(), rtol=1e-4)


def test_width_of_the_bands_matters_to_a_response_between_two_centres():
    table = {"narrow": ([652, 654, 656], [0.0, 1.0, 0.0])}
    centres = [640.0, 650.0, 660.0]
    with pytest.raises(ValueError, match="narrow"):
        response_from_table(table, centres)
    PM = response_from_table(table, centres, fwhm=10.0).toarray()[0]
    assert PM[1] > PM[2] > PM[0] > 0.0


def test_table_chooses_bands_in_the_order_asked_for():
    table = {"a": ([640, 660], [1, 1]), "b": ([660, 690], [1, 1])}
    both, swapped = (response_from_table(table, UNSORTED, bands=b).toarray() for b in (None, ["b", "a"]))
    np.testing.assert_array_equal(both, swapped[::-1])
    with pytest.raises(ValueError, match=r"bands: got \['c'\]; the table has a, b"):
        response_from_table(table, UNSORTED, bands=["a", "c"])


def test_table_refuses_a_band_of_which_only_the_tail_is_covered():
    samples = np.arange(600.0, 801.0)
    table = {"far": (samples, np.exp(-0.5 * ((samples - 740) / 20) ** 2))}
    with pytest.raises(ValueError, match=r"table: the wavelengths cover only \d % of band far; leave it out by bands="):
        response_from_table(table, UNSORTED)
    PM = response_from_table(table, UNSORTED, coverage=0.0)
    assert PM.toarray().argmax() == 6


def test_negative_responses_count_as_zero():
    table = {"noisy": ([640, 650, 660, 690], [-0.1, 1.0, 1.0, -0.2])}
    PM = response_from_table(table, [640.0, 650.0, 660.0]).toarray()
    np.testing.assert_allclose(PM, [[0.0, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        (([1, 2], [1]), r"band x has wavelengths of shape \(2,\)"),
        (([1], [1]), r"two or more"),
        (([1, 2], [np.nan, 1]), "holds NaN"),
        (([1, 1], [1, 1]), "one wavelength twice"),
        (([1, 2], [0, -1]), "responds nowhere"),
    ],
)
def test_tables_that_make_no_sense_are_refused(curve, message):
    with pytest.raises(ValueError, match=message):
        response_from_table({"x": curve}, [1.0, 2.0])


def test_table_of_another_type_is_refused():
    with pytest.raises(TypeError, match="table: got ndarray"):
        response_from_table(np.ones((3, 3)), UNSORTED)
    with pytest.raises(ValueError, match="fwhm: holds values"):
        response_from_table({"x": ([600, 700], [1, 1])}, UNSORTED, fwhm=0.0)


def test_long_and_wide_files_say_the_same(tmp_path):
    long, wide = tmp_path / "long.csv", tmp_path / "wide.csv"
    long.write_text(
        "band,wavelength_nm,response\nB1,640,0.5\nB1,660,1\nB1,680,0\nB2,640,0\nB2,660,0.25\nB2,680,1\n",
        encoding="utf-8",
    )
    wide.write_text("wavelength_nm,B1,B2\n640,0.5,0\n660,1,0.25\n680,0,1\n", encoding="utf-8")
    first, second = read_response(long), read_response(str(wide))
    assert list(first) == list(second) == ["B1", "B2"]
    for band in first:
        np.testing.assert_array_equal(first[band], second[band])
    PM = response_from_table(long, UNSORTED)
    np.testing.assert_allclose(PM.toarray(), response_from_table(second, UNSORTED).toarray())


NO_RESPONSE = {
    "": "a csv file with a header",
    "band,wavelength_nm\n1,2,3\n": "rows differ in length",
    "a,b\n1,2\n": "got columns a, b",
    "wavelength_nm,B1\n1,high\n": "got 'high' among the numbers",
}


@pytest.mark.parametrize(("text", "message"), NO_RESPONSE.items())
def test_files_that_are_no_response_are_refused(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_response(path)


def test_binary_file_is_refused_as_a_table(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a csv file"):
        read_response(path)


def test_edges_are_read_by_sensor(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("sensor,band,low_nm,high_nm,source\none,a,1,2,x\ntwo,a,3,4,x\ntwo,b,5,6,x\n", encoding="utf-8")
    assert read_edges(path, "two") == {"a": (3.0, 4.0), "b": (5.0, 6.0)}
    with pytest.raises(ValueError, match="sensor: got 'three'; the file has one, two"):
        read_edges(path, "three")
    path.write_text("sensor,low\none,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="got columns sensor, low"):
        read_edges(path, "one")


@pytest.fixture
def srf():
    if not os.environ.get(scenes.FOLDER_VARIABLE):
        pytest.skip(f"{scenes.FOLDER_VARIABLE} is not set")
    return Path(os.environ[scenes.FOLDER_VARIABLE]) / "srf"


@pytest.mark.scenes
@pytest.mark.parametrize("fwhm", [None, 10.0])
@pytest.mark.parametrize("scene", ["salinas-a", "indian-pines"])
@pytest.mark.parametrize(
    ("file", "bands"),
    [
        ("landsat5_tm.csv", None),
        ("landsat7_etm.csv", ["B1", "B2", "B3", "B4", "B5", "B7"]),
        ("landsat8_oli.csv", ["B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8"]),
        ("sentinel2a_msi.csv", ["B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B11", "B12"]),
        ("ikonos.csv", ["blue", "green", "red", "NIR"]),
    ],
)
def test_real_responses_weigh_the_bands_around_their_centre(srf, file, bands, scene, fwhm):
    centres = scenes.load(scene).wavelengths
    assert (np.diff(centres) < 0).any(), "real centres are not sorted, which is the point"
    curves = read_response(srf / file)
    PM = response_from_table(srf / file, centres, bands=bands, fwhm=fwhm)
    np.testing.assert_allclose(PM.sum(axis=1), 1.0, rtol=1e-14)
    assert PM.data.min() > 0.0
    for row, band in zip(PM.toarray(), bands or curves, strict=True):
        samples, response = curves[band]
        assert abs(row @ centres - samples @ response / response.sum()) < 12.0


@pytest.mark.scenes
def test_cirrus_band_lies_in_a_gap_of_the_corrected_cubes(srf):
    centres = scenes.load("indian-pines").wavelengths
    with pytest.raises(ValueError, match="of band B9; leave it out"):
        response_from_table(srf / "landsat8_oli.csv", centres)


@pytest.mark.scenes
def test_real_edges_find_bands_for_every_sensor(srf):
    centres = scenes.load("salinas-a").wavelengths
    for sensor in ("landsat_tm", "quickbird", "worldview2", "eo1_ali"):
        edges = read_edges(srf / "band_edges.csv", sensor)
        PM = response_from_edges(edges, centres).toarray()
        for row, (low, high) in zip(PM, edges.values(), strict=True):
            assert np.array_equal(row > 0, (centres >= low) & (centres <= high))
