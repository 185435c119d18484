"""The operators that options and files stand for."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from pair_files import grid
from product_files import sentinel2

from fastccpd import Degradation, formats, methods, rasters
from fastccpd.cli import main
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, scenes, sensor_response, sensors
from fastccpd.rasters import fuse_files, operators
from fastccpd.rasters.estimating import given_operators
from fastccpd.rasters.preparation import Preparation, open_pair
from fastccpd.rasters.remarks import Remarks

CENTRES = np.arange(430.0, 920.0, 10.0)
WIDTHS = np.full(len(CENTRES), 12.0)
QUICK = {"method": "nn-ccpd-nls", "rank": 2, "max_iter": 2, "psf": "gaussian"}


def bare(bands, *, names=None, wavelengths=None):
    """An image of which nothing but its bands matters."""
    return rasters.Raster(np.zeros((3, 2, bands)), names=names, wavelengths=wavelengths)


def response_for(srf, msi):
    hsi = replace(bare(len(CENTRES), wavelengths=CENTRES), fwhm=WIDTHS)
    return operators.response(srf, None, hsi, np.ones(len(CENTRES), bool), "hsi.tif", msi).toarray()


@pytest.mark.parametrize(
    ("srf", "msi"),
    [
        ("sentinel-2a", bare(3, names=("B03", "B8A", "B02"))),
        ("Sentinel-2A", bare(3, wavelengths=(559.8, 864.7, 492.4))),
        ("sentinel2a::B3,B8A,B02", bare(3)),
    ],
)
def test_a_sensor_s_response_is_that_of_the_msi_s_bands_in_their_order(srf, msi):
    pytest.importorskip("pyrsr")
    expected = sensor_response("Sentinel-2A", CENTRES, ["B3", "B8A", "B2"], WIDTHS).toarray()
    np.testing.assert_array_equal(response_for(srf, msi), expected)
    assert not np.allclose(expected, sensor_response("Sentinel-2A", CENTRES, ["B3", "B8A", "B2"]).toarray())


def test_bands_that_are_not_known_get_one_sentence():
    pytest.importorskip("pyrsr")
    with pytest.raises(ValueError, match="--srf: the MSI's 2 bands are not known by names or wavelengths among B1"):
        response_for("landsat-8", bare(2, names=("red", "green")))
    with pytest.raises(ValueError, match="the wavelengths cover only 0 % of band B11"):
        response_for("sentinel-2a::B2,B11", bare(2))
    with pytest.raises(ValueError, match="--srf: the HSI covers none of B11, B12 of sentinel-2b"):
        response_for("sentinel-2b", bare(2, names=("B11", "B12")))
    with pytest.raises(ValueError, match="got 'sentinel-9'; landsat, .* sensors Sentinel-2A"):
        response_for("sentinel-9", bare(2))


def test_a_table_of_more_bands_is_matched_by_name(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("wavelength_nm,B1,B2,B3\n430,1,0,0\n500,1,1,0\n600,0,1,0\n700,0,0,1\n800,0,0,1\n")
    found = response_for(table, bare(2, names=("B03", "B01")))
    assert found.shape == (2, len(CENTRES))
    assert found[0] @ CENTRES > 650.0
    assert found[1] @ CENTRES < 550.0


@pytest.fixture
def product(tmp_path):
    """A SAFE folder, and an HSI on its grid."""
    safe, _ = sentinel2(tmp_path)
    cube = np.random.default_rng(1).uniform(0.1, 0.4, (6, 5, len(CENTRES)))
    place = rasters.Georeference(formats.header(safe).georeference.crs, (40.0, 0.0, 399960.0, 0.0, -40.0, 5900040.0))
    rasters.write(tmp_path / "hsi.tif", rasters.Raster(cube, wavelengths=CENTRES, fwhm=WIDTHS, georeference=place))
    return str(tmp_path / "hsi.tif"), str(safe)


def test_the_sensor_that_a_product_names_gives_the_response(product, tmp_path):
    pytest.importorskip("pyrsr")
    fused = fuse_files(*product, **QUICK)
    expected = sensor_response("Sentinel-2A", CENTRES, ["B2", "B3", "B4", "B8"], WIDTHS)
    np.testing.assert_allclose(fused.degradation.PM.toarray(), expected.toarray(), rtol=1e-12)
    assert any("that of Sentinel-2A, which the MSI is of; --srf auto estimates it" in note for note in fused.notes)
    quick = ["--method", "gsa", "--psf", "gaussian", "--quiet"]
    assert main(["fuse", *product, "--tile", "24", "-o", str(tmp_path / "t.tif"), *quick]) == 0


def test_without_the_tables_the_response_is_estimated_and_that_is_said(product, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyrsr.rsr", None)
    monkeypatch.setattr(sensors, "_read", sensors._read.__wrapped__)
    remarks = Remarks(Silent())
    pair = open_pair(*product, Preparation(), remarks).load()
    _, PM = given_operators("gaussian", None, None, product[0], pair, methods.make("nn-ccpd-nls", {}), remarks)
    assert PM is None
    assert any('needs pyrsr; pip install "fastccpd[srf]"' in note for note in remarks.notes)


def test_bands_that_the_hsi_does_not_cover_are_left_out_by_the_sensor_s_table(tmp_path):
    pytest.importorskip("pyrsr")
    rng = np.random.default_rng(1)
    hsi = rasters.Raster(rng.uniform(0.1, 0.4, (6, 5, 49)), wavelengths=CENTRES, georeference=grid(40.0))
    msi = rasters.Raster(rng.uniform(0.1, 0.4, (24, 20, 3)), names=("B2", "B11", "B8"), georeference=grid(10.0))
    for name, image in (("h", hsi), ("m", msi)):
        rasters.write(tmp_path / f"{name}.tif", image)
    with pytest.warns(UserWarning, match=r"msi: 1 of 3 bands are not covered by the HSI, left out: 2 \(B11\)"):
        fused = fuse_files(tmp_path / "h.tif", tmp_path / "m.tif", srf="sentinel-2a", **QUICK)
    assert fused.degradation.PM.shape == (2, 49)


class Silent:
    """Hears nothing."""

    def note(self, text):
        pass

    def warn(self, text):
        pass


def test_a_gaussian_has_a_width_and_a_continuous_phase_along_each_axis():
    blur = operators.blur("gaussian,sigma=1.6x2.1,phase=1.87x-0.4", (48, 40), 4, offset=None)
    P1, P2 = gaussian((48, 40), 4, sigma=(1.6, 2.1), phase=(1.87, -0.4), boundary="reflect", coarse=(12, 10))
    np.testing.assert_array_equal(blur.P1.toarray(), P1.toarray())
    np.testing.assert_array_equal(blur.P2.toarray(), P2.toarray())
    assert str(blur) == "a Gaussian of σ 1.6 by 2.1 about phase 1.87 by -0.4, its boundary reflect"
    with pytest.raises(ValueError, match="got 'sigma=1x2x3' in .*; a number, or two as in 1.6x2 for rows and columns"):
        operators.blur("gaussian,sigma=1x2x3", (48, 40), 4, offset=None)


def test_every_blur_tells_its_width():
    stereo = operators.blur("stereo", (48, 40), 4, offset=None)
    assert str(stereo) == "the stereo convention, of σ 1.65 by 1.65 MSI pixels"
    given = operators.blur((stereo.P1, stereo.P2), (48, 40), 4, offset=None)
    assert given.sigma == stereo.sigma
    assert str(given).endswith("of σ 1.65 by 1.65 MSI pixels")


def test_info_says_what_two_images_show_of_each_other(tmp_path, capsys):
    scene = scenes.synthetic((72, 64, 36), rng=1)
    blur = gaussian((72, 64), 4, sigma=1.8, phase=(1.9, 1.5), boundary="reflect", coarse=(18, 16))
    images = degrade(scene.cube, Degradation(*blur, landsat(36)))
    for n, (name, image) in enumerate(zip(("h", "m"), images, strict=True)):
        rasters.write(tmp_path / f"{name}.npz", rasters.Raster((1.0 + n) * add_noise(image, 35.0, n)))
    files = [str(tmp_path / f"{name}.npz") for name in ("h", "m")]
    assert main(["info", *files]) == 0
    said = capsys.readouterr().out
    for line in (
        "blur                estimated, a Gaussian of σ 1.8",
        "scale and offset    the MSI's values are 2",
        "the images agree",
    ):
        assert line in said
    assert main(["info", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["pair"]["estimated"]
    np.testing.assert_allclose(found["blur"]["shift"], (0.4, 0.0), atol=0.1)
    assert found["levels"]["scale"] == pytest.approx(2.0, rel=0.05)
    assert found["verdict"]["grade"] == "agree"


def test_info_judges_the_operators_that_it_is_given(tmp_path, capsys):
    scene = scenes.synthetic((96, 88, 36), rng=1)
    blur = gaussian((96, 88), 4, sigma=1.8, phase=(1.9, 1.5), boundary="reflect", coarse=(24, 22))
    images = degrade(scene.cube, Degradation(*blur, landsat(36)))
    for n, (name, image) in enumerate(zip(("h", "m"), images, strict=True)):
        rasters.write(tmp_path / f"{name}.npz", rasters.Raster(add_noise(image, 35.0, n)))
    files = [str(tmp_path / f"{name}.npz") for name in ("h", "m")]

    def looked_at(*options):
        assert main(["info", *files, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)["pair"]["estimated"]

    right = looked_at("--psf", "gaussian,sigma=1.8,phase=1.5", "--srf", "landsat")
    assert right["blur"]["psf"].startswith("gaussian")
    assert right["verdict"]["grade"] == "agree"
    np.testing.assert_allclose([right["shift"]["rows"], right["shift"]["columns"]], (0.4, 0.0), atol=0.1)
    wide = looked_at("--psf", "gaussian,sigma=3.6,phase=1.5", "--srf", "landsat")
    assert wide["verdict"]["grade"] == "disagree"
    assert "blur" in wide["verdict"]["sentence"]
    assert main(["info", *files, "--psf", "gaussian,sigma=wide"]) == 2
    assert "--psf" in capsys.readouterr().err


def test_a_band_that_no_response_explains_is_left_out_and_named(tmp_path):
    scene, other = (scenes.synthetic((72, 64, 36), rng=seed).cube for seed in (1, 9))
    blur = gaussian((72, 64), 4, sigma=1.8, phase=1.5, boundary="reflect", coarse=(18, 16))
    hsi, msi = degrade(scene, Degradation(*blur, landsat(36)))
    msi[:, :, 2] = other[:, :, 20]
    for n, (name, image) in enumerate((("h", hsi), ("m", msi))):
        rasters.write(tmp_path / f"{name}.npz", rasters.Raster(add_noise(image, 35.0, n)))
    with pytest.warns(UserWarning, match=r"msi: 1 of 6 bands are no combination of the HSI's bands and left out: 3 of"):
        fused = fuse_files(tmp_path / "h.npz", tmp_path / "m.npz", method="gsa")
    assert fused.pair.msi.shape == (72, 64, 5)
    assert np.flatnonzero(~fused.pair.good_msi).tolist() == [2]
    assert fused.degradation.PM.shape == (5, 36)
