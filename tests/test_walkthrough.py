"""docs/walkthrough.md: its files, its command, and the same prepared by hand with the true operators."""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.warp import Resampling, reproject

import fastccpd
from fastccpd import rasters
from fastccpd.cli import main
from fastccpd.imaging import gaussian, response_from_table

DOCS = Path(__file__).parents[1] / "docs"
DATA = os.environ.get("FASTCCPD_DATA")
SCENE = None if DATA is None else Path(DATA) / "enmap_potsdam" / "enmap_potsdam_l2a_128x64.tif"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The script as a module, and the folder with its files; smaller than those of the page."""
    spec = importlib.util.spec_from_file_location("enmap_sentinel2", DOCS / "enmap_sentinel2.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HSI_SHAPE = (30, 28)
    folder = tmp_path_factory.mktemp("walk")
    module.make(folder, SCENE if SCENE is not None and SCENE.exists() else None)
    return module, folder


def by_hand(module, folder):
    """The image that a careful user gets: dead bands, wedge, units, warp and cloud by hand, operators as they are."""
    with rasterio.open(next(folder.glob("*SPECTRAL_IMAGE.TIF"))) as file:
        hsi = np.moveaxis(file.read(), 0, 2)
    good = (hsi != -32768).any(axis=(0, 1))
    hsi_valid = (hsi[:, :, good] != -32768).all(axis=2)
    hsi = np.where(hsi_valid[:, :, None], hsi[:, :, good] * 1e-4, 0.0)
    shape = tuple(3 * size for size in module.HSI_SHAPE)
    x, y = module.CORNER
    target = {"dst_transform": rasterio.Affine(10, 0, x, 0, -10, y), "dst_crs": module.UTM_33}
    with rasterio.open(folder / "sentinel2.tif") as file:
        msi = np.full((file.count, *shape), np.nan)
        source = {"src_transform": file.transform, "src_crs": file.crs}
        counts = (file.read() - 1000.0) / 10000.0
        reproject(counts, msi, **source, **target, resampling=Resampling.cubic, dst_nodata=np.nan)
    with rasterio.open(folder / "scl.tif") as file:
        cloud = np.zeros(shape, np.uint8)
        source = {"src_transform": file.transform, "src_crs": file.crs}
        reproject((file.read(1) == 9).astype(np.uint8), cloud, **source, **target, resampling=Resampling.max)
    msi = np.moveaxis(msi, 0, 2)
    msi_valid = np.isfinite(msi).all(axis=2) & (cloud == 0)
    known = np.load(folder / "truth.npz")
    table = module.response(known["wavelengths"], known["fwhm"])[1]
    PM = response_from_table(table, known["wavelengths"][good], fwhm=known["fwhm"][good])
    blur = gaussian(shape, 3, sigma=module.SIGMA, phase=1.0 + module.SHIFT, boundary="reflect", coarse=module.HSI_SHAPE)
    result = fastccpd.fuse(
        hsi,
        np.where(msi_valid[:, :, None], msi, 0.0),
        fastccpd.Degradation(*blur, PM),
        hsi_valid=hsi_valid,
        msi_valid=msi_valid,
    )
    return result.sri, good, msi_valid & hsi_valid.repeat(3, axis=0).repeat(3, axis=1)


def rsnr(image, truth):
    return 10.0 * np.log10((truth**2).sum() / ((image - truth) ** 2).sum())


def test_the_command_comes_within_half_a_decibel_of_work_by_hand(made, capsys):
    module, folder = made
    out = folder / "fused.tif"
    command = ["fuse", str(folder), str(folder / "sentinel2.tif"), "-o", str(out), "--psf", "auto"]
    command += ["--srf", str(folder / "sentinel2.csv"), "--msi-scale", "0.0001", "--msi-offset=-0.1"]
    command += ["--msi-mask", f"{folder}/scl.tif::3,8,9,10", "--json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["bands_left_out"]) == 26
    assert told["alignment"]["resampled"]["msi"] > 0.99
    np.testing.assert_allclose(told["blur"]["shift"], module.SHIFT, atol=0.15)
    np.testing.assert_allclose(told["blur"]["sigma"], module.SIGMA, rtol=0.05)
    assert told["levels"]["agree"]
    sri, good, there = by_hand(module, folder)
    truth = np.load(folder / "truth.npz")["cube"][:, :, good].astype(np.float64)
    found = rasters.read(out)
    assert found.shape == (90, 84, 224)
    np.testing.assert_array_equal(found.bad_bands, ~good)
    there &= np.isfinite(found.cube[:, :, good]).all(axis=2)
    assert there.mean() > 0.7
    assert rsnr(found.cube[:, :, good][there], truth[there]) > rsnr(sri[there], truth[there]) - 0.5
