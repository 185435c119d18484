"""Responses of known sensors by name, and which of their bands an image has."""

import numpy as np
import pytest
from scipy.integrate import trapezoid

from fastccpd.imaging import SENSORS, sensor_response, sensor_table
from fastccpd.imaging.sensors import matched_bands, sensor_named

TABLE = {
    "B2": ([440.0, 490.0, 540.0], [0.0, 1.0, 0.0]),
    "B8": ([770.0, 835.0, 900.0], [0.0, 1.0, 0.0]),
    "B8A": ([850.0, 865.0, 880.0], [0.0, 1.0, 0.0]),
}


@pytest.mark.parametrize("name", ["sentinel-2a", "Sentinel-2A", "SENTINEL2A", "sentinel_2a"])
def test_a_sensor_is_known_however_it_is_spelt(name):
    assert sensor_named(name) == "Sentinel-2A"
    assert sensor_named("Landsat 9") == "Landsat-9"
    assert sensor_named("landsat") is None


@pytest.mark.parametrize("sensor", SENSORS)
def test_every_table_is_there_in_nanometres_without_thermal_bands(sensor):
    pytest.importorskip("pyrsr")
    table = sensor_table(sensor)
    assert len(table) >= 3
    for samples, response in table.values():
        assert 300.0 < samples.min() < samples.max() < 3000.0
        assert 0.9 < response.max() < 1.1


def test_a_row_is_the_mean_of_the_curve_under_each_narrow_band():
    """Against the integral itself, for a spectrum that is a straight line: its value at the curve's centre."""
    pytest.importorskip("pyrsr")
    centres = np.arange(400.0, 1000.0, 4.0)
    PM = sensor_response("Sentinel-2B", centres, bands=["B02", "8A"], fwhm=5.0)
    for row, band in zip(PM.toarray(), ("B2", "B8A"), strict=True):
        samples, response = sensor_table("Sentinel-2B")[band]
        middle = trapezoid(samples * response, samples) / trapezoid(response, samples)
        assert row.sum() == pytest.approx(1.0)
        assert row @ centres == pytest.approx(middle, abs=0.3)
    assert sensor_response("Sentinel-2B", centres).shape[0] == 10  # all but B10, B11 and B12
    with pytest.raises(ValueError, match="wavelengths: cover no band of Landsat-8, whose bands are B1"):
        sensor_response("Landsat-8", [3000.0, 3010.0])


def test_the_tables_are_those_that_the_agencies_publish(data_folder):
    from fastccpd.imaging import read_response

    pytest.importorskip("pyrsr")
    theirs, ours = read_response(f"{data_folder}/srf/landsat8_oli.csv"), sensor_table("Landsat-8")
    for band in ("B1", "B4", "B7"):
        np.testing.assert_allclose(
            np.interp(theirs[band][0], *ours[band]), np.maximum(theirs[band][1], 0), rtol=0, atol=2e-3
        )


@pytest.mark.parametrize(
    ("names", "wavelengths", "bands", "by"),
    [
        (("B02", "B8A", "B08"), None, ["B2", "B8A", "B8"], "name"),
        (("SR_B2", "B8A, central wavelength 865 nm"), None, ["B2", "B8A"], "name"),
        (("Band 2", "Band 8"), (864.0, 495.0), ["B8A", "B2"], "wavelength"),
        (("B2", "B8"), (864.0, 495.0), ["B8A", "B2"], "wavelength"),  # names that contradict are none
        (None, (842.0, 865.0), ["B8", "B8A"], "wavelength"),
    ],
)
def test_bands_are_known_by_names_or_wavelengths(names, wavelengths, bands, by):
    assert matched_bands(TABLE, names, wavelengths) == (bands, by)


@pytest.mark.parametrize(
    ("names", "wavelengths"),
    [(None, None), (("Band 2", "Band 8"), None), (("B2", "B02"), None), (("B2", "B3"), None), (None, (490.0, 600.0))],
)
def test_bands_that_are_not_all_known_are_not_guessed(names, wavelengths):
    assert matched_bands(TABLE, names, wavelengths) is None


def test_a_sensor_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="sensor: got 'sentinel-2c'; Sentinel-2A, Sentinel-2B, Landsat-4"):
        sensor_table("sentinel-2c")
