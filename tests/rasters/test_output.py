"""What `fuse_files` writes: dtypes, scales, bands that come back, how it was made; pairs that had to be warped."""

import json

import numpy as np
import pytest
import rasterio
from field_files import UTM_32, centres, grid, ground, seen
from pair_files import write_pair

from fastccpd import rasters
from fastccpd.cli import main
from fastccpd.imaging import response_from_groups
from fastccpd.rasters import Raster, fuse_files
from fastccpd.rasters.tiling import fuse_files_in_tiles
from fastccpd.rasters.writing import Output

QUICK = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 3}
BANDS, GROUPS = 9, [range(0, 3), range(3, 6), range(6, 9)]


def files(folder, **changed):
    """A pair on two coordinate systems, HSI of 30 m and MSI of 10 m, and the response."""
    coarse, fine = grid(30.0), grid(10.0, down=-90.0, right=-90.0, crs=UTM_32)
    PM = response_from_groups(GROUPS, BANDS)
    hsi = Raster(seen(coarse, (9, 8), BANDS), georeference=coarse, wavelengths=np.linspace(450.0, 850.0, BANDS))
    msi = Raster(seen(fine, (60, 60), BANDS) @ PM.T.toarray(), georeference=fine)
    for name, image in (("h", changed.get("hsi", hsi)), ("m", msi)):
        rasters.write(folder / f"{name}.tif", image, overwrite=True)
    return folder / "h.tif", folder / "m.tif", PM


def test_a_pair_of_two_coordinate_systems_is_fused_on_the_hsi_s_grid(tmp_path):
    hsi, msi, PM = files(tmp_path)
    fused = fuse_files(hsi, msi, tmp_path / "f.tif", srf=PM, rank=4, method="nn-ccpd-nls")
    found = rasters.read(tmp_path / "f.tif")
    assert (found.shape, found.dtype) == ((27, 24, BANDS), np.float32)
    np.testing.assert_allclose(found.georeference.transform, grid(10.0).transform)
    expected = ground(*centres(grid(10.0), (27, 24)), BANDS)
    assert np.linalg.norm(found.cube - expected) < 0.05 * np.linalg.norm(expected)
    assert fused.placement.msi.resampled == 1.0
    assert fused.levels.agree


def test_integers_are_scaled_and_say_so(tmp_path):
    hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True)
    fused = fuse_files(hsi, msi, tmp_path / "f.tif", srf="landsat", output_dtype="int16", output_scale=10000, **QUICK)
    found = rasters.read(tmp_path / "f.tif")
    assert found.dtype == np.int16
    np.testing.assert_allclose(found.cube * found.scale, fused.result.sri, atol=0.51e-4)
    with rasterio.open(tmp_path / "f.tif") as image:
        assert set(image.scales) == {1e-4}


def test_what_integers_cannot_hold_is_cut_off_and_counted(tmp_path):
    hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True)
    settings = {"srf": "landsat", "output_dtype": "uint16", "output_scale": 1e6}
    with pytest.warns(UserWarning, match="values are beyond uint16 and cut off; use a smaller --output-scale"):
        fuse_files(hsi, msi, tmp_path / "f.tif", **settings, **QUICK)
    assert rasters.read(tmp_path / "f.tif").cube.max() == 65534


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_bands_without_data_come_back_as_nodata(dtype, tmp_path):
    coarse = grid(30.0)
    cube = seen(coarse, (9, 8), BANDS)
    cube[:, :, 4] = -9.0
    dead = Raster(cube, georeference=coarse, nodata=-9.0, wavelengths=np.linspace(450.0, 850.0, BANDS))
    hsi, msi, PM = files(tmp_path, hsi=dead)
    scale = {"float32": 1.0, "int16": 10000.0}[dtype]
    fuse_files(hsi, msi, tmp_path / "f.tif", srf=PM, output_dtype=dtype, output_scale=scale, **QUICK)
    found = rasters.read(tmp_path / "f.tif")
    assert found.shape[2] == BANDS
    np.testing.assert_array_equal(np.flatnonzero(found.bad_bands), [4])
    absent = np.isnan(found.cube) if dtype == "float32" else found.cube == found.nodata
    np.testing.assert_array_equal(absent.all(axis=(0, 1)), np.arange(BANDS) == 4)
    np.testing.assert_array_equal(absent.any(axis=(0, 1)), np.arange(BANDS) == 4)


@pytest.mark.parametrize("suffix", [".tif", ".hdr", ".nc", ".zarr", ".npz", ".mat"])
def test_every_format_says_how_it_was_made(suffix, tmp_path):
    hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True)
    fuse_files(hsi, msi, tmp_path / f"f{suffix}", srf="landsat", window=(slice(0, 5), slice(0, 5)), **QUICK)
    tags = {name: json.loads(text) for name, text in rasters.read(tmp_path / f"f{suffix}").tags.items()}
    assert tags["FASTCCPD_INPUTS"]["hsi"] == {"path": "hsi.tif", "sha256": rasters.sha256(hsi)}
    assert tags["FASTCCPD_OPTIONS"]["rank"] == 3
    assert "slice(0, 5" in tags["FASTCCPD_OPTIONS"]["window"]
    assert tags["FASTCCPD_OPERATORS"]["ratio"] == 4
    assert len(tags["FASTCCPD_OPERATORS"]["response"]) == 6
    assert set(tags["FASTCCPD_VERSIONS"]) >= {"fastccpd", "numpy"}


@pytest.mark.parametrize("tiled", [False, True])
def test_options_and_every_file_that_was_read_stand_in_the_tags(tiled, tmp_path):
    hsi, msi, PM = files(tmp_path)
    np.savez(tmp_path / "pm.npz", PM=PM.toarray())
    mask = np.zeros((9, 8, 1), np.uint8)
    mask[4, 4] = 3
    rasters.write(tmp_path / "mask.tif", Raster(mask, georeference=grid(30.0)))
    rasters.write(tmp_path / "grid.tif", Raster(np.zeros((27, 24, 1), np.uint8), georeference=grid(10.0)))
    asked = {"psf": "gaussian,sigma=1.3", "srf": tmp_path / "pm.npz", "align": False, "messages": Heard()}
    prepared = {"hsi_mask": f"{tmp_path}/mask.tif::3", "grid": tmp_path / "grid.tif"}
    if tiled:
        wanted = rasters.Preparation(**prepared)
        quick = {"method": "tv-maps", "max_iter": 3, "tile": 24, "workers": 0}
        fuse_files_in_tiles(hsi, msi, tmp_path / "f.tif", wanted=wanted, **asked, **quick)
    else:
        fuse_files(hsi, msi, tmp_path / "f.tif", **prepared, **asked, **QUICK)
    tags = {name: json.loads(text) for name, text in rasters.read(tmp_path / "f.tif").tags.items()}
    beside = {"hsi_mask": "mask.tif", "grid": "grid.tif", "srf": "pm.npz"}
    read = {"hsi": hsi, "msi": msi} | {name: tmp_path / file for name, file in beside.items()}
    assert tags["FASTCCPD_INPUTS"] == {
        name: {"path": path.name, "sha256": rasters.sha256(path)} for name, path in read.items()
    }
    options = tags["FASTCCPD_OPTIONS"]
    assert (options["psf"], options["srf"], options["align"]) == ("gaussian,sigma=1.3", str(asked["srf"]), False)
    assert options["hsi_mask"].endswith("mask.tif::3")


def test_matrices_are_given_in_the_tags(tmp_path):
    hsi, msi, PM = files(tmp_path)
    fuse_files(hsi, msi, tmp_path / "f.tif", srf=PM, **QUICK)
    assert json.loads(rasters.read(tmp_path / "f.tif").tags["FASTCCPD_OPTIONS"])["srf"] == "given"


@pytest.mark.parametrize("tiled", [False, True])
def test_what_rounding_to_integers_loses_is_said(tiled, tmp_path):
    """Reflectances without a scale would all be 0 or 1."""
    hsi, msi, PM = files(tmp_path)
    listener = Heard()
    for scale, losses in ((1.0, 1), (1000.0, 0)):
        if tiled:
            form = Output(dtype="int16", scale=scale)
            quick = {"method": "tv-maps", "max_iter": 3, "tile": 24, "workers": 0}
            out = {"form": form, "messages": listener, "overwrite": True}
            fuse_files_in_tiles(hsi, msi, tmp_path / "f.tif", srf=PM, **out, **quick)
        else:
            out = {"output_dtype": "int16", "output_scale": scale, "messages": listener, "overwrite": True}
            fuse_files(hsi, msi, tmp_path / "f.tif", srf=PM, **out, **QUICK)
        found = [text for text in listener.warnings if "rounding to int16 loses" in text]
        assert len(found) == losses
        assert all("% of the image, root mean square; use a larger --output-scale" in text for text in found)
        listener.warnings.clear()


class Heard:
    """Keeps warnings."""

    def __init__(self):
        self.warnings = []

    def note(self, text):
        pass

    def warn(self, text):
        self.warnings.append(text)


def test_units_that_differ_are_said_and_mended_on_request(tmp_path):
    hsi, msi, PM = files(tmp_path)
    counts = rasters.read(msi)
    rasters.write(msi, Raster(counts.cube * 1e4 + 1000.0, georeference=counts.georeference), overwrite=True)
    with pytest.warns(UserWarning, match="the MSI's values are 9[0-9]+ .* or --match-values to apply what was found"):
        fuse_files(hsi, msi, srf=PM, **QUICK)
    fused = fuse_files(hsi, msi, srf=PM, match_values=True, **{**QUICK, "max_iter": 10})
    assert fused.levels.scale == pytest.approx(1e4, rel=0.05)
    assert fused.residuals["msi"] < 0.2


def test_the_command_line_has_all_of_it(tmp_path, capsys):
    hsi, msi, PM = files(tmp_path)
    np.savez(tmp_path / "pm.npz", PM=PM.toarray())
    mask = np.zeros((9, 8, 1), np.uint8)
    mask[4, 4] = 3
    rasters.write(tmp_path / "mask.tif", Raster(mask, georeference=grid(30.0)))
    options = ["--grid", "hsi", "--bbox", "380000,5819800,380200,5820000", "--hsi-scale", "2", "--msi-scale", "2"]
    options += ["--hsi-mask", f"{tmp_path}/mask.tif::3", "--cog", "--output-dtype", "int16", "--output-scale", "1000"]
    quick = ["--method", "nn-ccpd-nls", "--rank", "3", "--max-iter", "3", "--srf", str(tmp_path / "pm.npz"), "--json"]
    assert main(["fuse", str(hsi), str(msi), "-o", str(tmp_path / "f.tif"), *options, *quick]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["files"]["output"]["shape"] == [21, 21, BANDS]
    assert told["nodata"] == {"hsi": 1, "msi": 0, "output": 9}
    assert told["alignment"]["resampled"]["msi"] == 1.0
    assert told["levels"]["agree"]
    found = rasters.read(tmp_path / "f.tif")
    np.testing.assert_array_equal(np.nonzero((found.cube == found.nodata).all(axis=2))[0].min(), 12)


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--bbox", "1,2,3", "argument --bbox: got '1,2,3'; LEFT,BOTTOM,RIGHT,TOP, four numbers, are needed"),
        ("--window", "1:2", "argument --window: got '1:2'; ROW:ROW,COL:COL as in 10:60,0:50 is needed"),
        ("--hsi-scale", "0", "--hsi-scale: got 0.0; a finite number other than 0 is needed"),
        ("--output-scale", "-1", "output_scale: got -1.0; a finite number above 0 is needed"),
        ("--grid", "nothing.tif", "nothing.tif: cannot be read"),
        ("--output", "f.npz", "--cog: got the output f.npz; a GeoTIFF, .tif or .tiff, is needed"),
    ],
)
def test_options_that_cannot_be_are_one_line(option, value, sentence, tmp_path, capsys):
    hsi, msi, _ = files(tmp_path)
    command = ["fuse", str(hsi), str(msi), "-o", str(tmp_path / "f.tif"), "--srf", "landsat", "--cog"]
    assert main([*command, f"{option}={value}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert sentence in line
    assert not (tmp_path / "f.tif").exists()
