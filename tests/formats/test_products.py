"""Products of sensors, made small with their true structure: what is read of each, and what is refused."""

import json
import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import rasterio
import zarr
from product_files import enmap, landsat, prisma, sentinel2, vrt, write_jp2, zipped
from raster_files import full_raster, write_tiff
from scipy.io import netcdf_file

from fastccpd import formats, rasters
from fastccpd.formats.xml_text import parse

DATA = os.environ.get("FASTCCPD_DATA")


def physical(raster):
    scale = 1.0 if raster.scale is None else raster.scale
    return raster.cube * scale + (0.0 if raster.offset is None else raster.offset)


def check_windows(path, raster):
    """Any rectangle is a part of the whole."""
    source, rows, cols = formats.windows(path), slice(2, 5), slice(1, 4)
    np.testing.assert_array_equal(source.read(rows, cols), raster.cube[rows, cols])
    assert rasters.header(path).shape == raster.shape


# --- EnMAP


def test_enmap_has_wavelengths_and_units_of_its_metadata(tmp_path):
    image, counts = enmap(tmp_path / "product")
    metadata = next((tmp_path / "product").glob("*METADATA.XML"))
    for path in (image, metadata, tmp_path / "product"):
        found = rasters.read(path)
        np.testing.assert_array_equal(found.cube, counts)
        np.testing.assert_allclose(found.wavelengths, 420 + 6.5 * np.arange(6))
        np.testing.assert_allclose(found.fwhm, 6.9 + 0.1 * np.arange(6))
        np.testing.assert_allclose(physical(found), counts * 1e-4)
        assert found.nodata == -32768.0
        assert found.source["sensor"] == "EnMAP"
    check_windows(image, found)
    assert metadata in formats.files_read(image)


def test_metadata_of_enmap_that_do_not_fit_are_left_out_and_that_is_said(tmp_path):
    image, _ = enmap(tmp_path)
    write_tiff(image, np.ones((3, 4, 5), np.int16))
    found = rasters.read(image)
    assert found.wavelengths is None
    assert "is left out: it describes 6 bands, and the image has 5" in found.source["notes"][0]


@pytest.mark.scenes
@pytest.mark.skipif(DATA is None, reason="FASTCCPD_DATA is not set")
def test_the_real_enmap_file_is_read_as_it_is():
    path = Path(DATA) / "enmap_potsdam" / "enmap_potsdam_l2a_128x64.tif"
    found = rasters.header(path)
    assert (found.shape, found.nodata) == ((64, 128, 224), -32768.0)
    assert found.names[0] == "band 1"
    assert found.wavelengths[0] == pytest.approx(418.24)
    assert found.bad_bands is not None


def test_wavelengths_are_read_from_descriptions(tmp_path):
    cube = np.ones((3, 4, 2), np.float32)
    write_tiff(tmp_path / "a.tif", cube, descriptions=["band 1 (0.42 Micrometers)", "band 2 (0.5 Micrometers)"])
    found = rasters.read(tmp_path / "a.tif")
    np.testing.assert_allclose(found.wavelengths, [420.0, 500.0])
    assert found.names == ("band 1", "band 2")
    write_tiff(tmp_path / "a.tif", cube, descriptions=["418.24 nm", "423.8 nm"])
    np.testing.assert_allclose(rasters.read(tmp_path / "a.tif").wavelengths, [418.24, 423.8])
    write_tiff(tmp_path / "a.tif", cube, descriptions=["B2", "B3"])
    found = rasters.read(tmp_path / "a.tif")
    assert (found.wavelengths, found.names) == (None, ("B2", "B3"))


# --- PRISMA


def test_prisma_comes_as_one_cube_in_units_of_reflectance(tmp_path):
    vnir, swir = prisma(tmp_path / "PRS_L2D_STD_20230501.he5")
    found = rasters.read(tmp_path / "PRS_L2D_STD_20230501.he5")
    np.testing.assert_allclose(found.wavelengths, [406, 600, 800, 972, 943, 1600, 2497])
    np.testing.assert_allclose(found.fwhm, [10, 11, 12, 13, 11, 10, 9])
    expected = np.concatenate([vnir[:, 3::-1] * 1.5 / 65535, swir[:, 2::-1] / 65535 - 0.1], axis=1).transpose(0, 2, 1)
    np.testing.assert_allclose(physical(found), expected, atol=1e-6)
    np.testing.assert_allclose(found.georeference.transform, (30.0, 0.0, 500000.0, 0.0, -30.0, 5200000.0))
    assert "UTM zone 33N" in found.georeference.crs
    assert found.source["sensor"] == "PRISMA"
    check_windows(tmp_path / "PRS_L2D_STD_20230501.he5", found)


def test_prisma_without_a_grid_says_so_and_level_1_is_refused(tmp_path):
    prisma(tmp_path / "c.he5", level="L2C")
    found = rasters.read(tmp_path / "c.he5")
    assert found.georeference is None
    assert "it has no regular grid, which level 2D has" in found.source["notes"]
    prisma(tmp_path / "one.he5", level="L1")
    with pytest.raises(ValueError, match="one.he5: cannot be read as a PRISMA file .level 1, whose detectors"):
        rasters.read(tmp_path / "one.he5")


@pytest.mark.parametrize("kind", ["link", "virtual", "external"])
def test_hdf5_that_leads_to_other_files_is_refused(kind, tmp_path):
    prisma(tmp_path / "a.he5")
    prisma(tmp_path / "other.he5")
    name = "HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields/VNIR_Cube"
    with h5py.File(tmp_path / "a.he5", "a") as file:
        del file[name]
        if kind == "link":
            file[name] = h5py.ExternalLink("other.he5", name)
        elif kind == "virtual":
            layout = h5py.VirtualLayout((9, 5, 8), np.uint16)
            layout[:] = h5py.VirtualSource("other.he5", name, (9, 5, 8))
            file.create_virtual_dataset(name, layout)
        else:
            file.create_dataset(name, (9, 5, 8), np.uint16, external=[("other.he5", 0, 720)])
    with pytest.raises(ValueError, match="a.he5: cannot be read as a PRISMA file .*another file"):
        rasters.read(tmp_path / "a.he5")


# --- Sentinel-2


def test_a_safe_folder_gives_the_bands_of_ten_metres_in_units_of_reflectance(tmp_path):
    root, counts = sentinel2(tmp_path)
    found = rasters.read(root)
    assert found.names == ("B02", "B03", "B04", "B08")
    np.testing.assert_array_equal(found.cube[:, :, 3], counts["B08", "10"])
    np.testing.assert_allclose(physical(found), (found.cube - 1000.0) / 10000.0)
    np.testing.assert_allclose(found.wavelengths, [492.4, 559.8, 664.6, 832.8])
    assert (found.nodata, found.source["sensor"]) == (0.0, "Sentinel-2A")
    np.testing.assert_allclose(found.georeference.transform, (10.0, 0.0, 399960.0, 0.0, -10.0, 5900040.0))
    check_windows(root, found)


def test_bands_of_twenty_metres_and_classes_come_on_request(tmp_path):
    root, counts = sentinel2(tmp_path)
    found = rasters.read(f"{root}::20m")
    assert found.names == ("B02", "B03", "B04", "B05", "B06", "B07", "B8A", "B11", "B12")
    assert found.shape[:2] == (12, 10)
    found = rasters.read(f"{root}::B04,B8A")
    assert found.shape == (24, 20, 2)
    np.testing.assert_array_equal(found.cube[:, :, 0], counts["B04", "10"])
    middle = found.cube[2:-2, 2:-2, 1].astype(float).mean()
    assert middle == pytest.approx(counts["B8A", "20"][1:-1, 1:-1].mean(), rel=0.05)
    assert "B8A have coarser pixels and are interpolated" in found.source["notes"][0]
    classes = rasters.read(f"{root}::SCL")
    np.testing.assert_array_equal(classes.cube[:, :, 0], counts["SCL", "20"])
    assert classes.scale is None
    for wrong, sentence in (("B99", "got 'B99'"), ("SCL,B02", "SCL holds classes"), ("60m", "holds no bands of 60 m")):
        with pytest.raises(ValueError, match=sentence):
            rasters.read(f"{root}::{wrong}")


def test_a_zip_of_a_safe_folder_is_read_without_unpacking(tmp_path):
    root, _ = sentinel2(tmp_path)
    archive = zipped(root, tmp_path / "S2A {odd} name.zip")
    one, other = rasters.read(root), rasters.read(archive)
    np.testing.assert_array_equal(other.cube, one.cube)
    np.testing.assert_allclose(other.offset, one.offset)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([root.name, archive.name])


def test_a_product_without_offsets_is_of_the_old_baseline(tmp_path):
    root, _ = sentinel2(tmp_path)
    text = (root / "MTD_MSIL2A.xml").read_text()
    (root / "MTD_MSIL2A.xml").write_text(
        re.sub("<BOA_ADD_OFFSET_VALUES_LIST>.*</BOA_ADD_OFFSET_VALUES_LIST>", "", text)
    )
    found = rasters.read(root)
    assert found.offset is None
    np.testing.assert_allclose(found.scale, 1e-4)


def test_a_jpeg_2000_file_is_read_alone(tmp_path):
    band = np.random.default_rng(0).integers(0, 4000, (9, 8), dtype=np.uint16)
    write_jp2(tmp_path / "b.jp2", band, 10.0)
    found = rasters.read(tmp_path / "b.jp2")
    np.testing.assert_array_equal(found.cube[:, :, 0], band)
    check_windows(tmp_path / "b.jp2", found)
    with pytest.raises(ValueError, match="b.jp2: got the suffix '.jp2'; one of .npy, .* is needed"):
        rasters.write(tmp_path / "b.jp2", found, overwrite=True)


# --- Landsat


def test_a_landsat_folder_gives_reflective_bands_with_units_of_level_2(tmp_path):
    counts = landsat(tmp_path / "scene")
    found = rasters.read(tmp_path / "scene")
    assert found.names == ("B1", "B2", "B3", "B4", "B5", "B6", "B7")
    np.testing.assert_array_equal(found.cube[:, :, [4]], counts["B5"])
    np.testing.assert_allclose(physical(found), found.cube * 2.75e-05 - 0.2)
    assert found.source["sensor"] == "Landsat 9"
    assert found.wavelengths[3] == 655.0
    check_windows(tmp_path / "scene", found)
    assert rasters.read(f"{tmp_path}/scene::B4,B2").names == ("B4", "B2")
    with pytest.raises(ValueError, match="variable: got 'B8'; .* holds B1, B2, B3"):
        rasters.read(f"{tmp_path}/scene::B8")


def test_names_in_an_mtl_file_that_lead_elsewhere_are_refused(tmp_path):
    landsat(tmp_path / "scene")
    mtl = next((tmp_path / "scene").glob("*_MTL.txt"))
    mtl.write_text(re.sub(r'FILE_NAME_BAND_1 = ".*"', 'FILE_NAME_BAND_1 = "../secret.TIF"', mtl.read_text()))
    with pytest.raises(ValueError, match="its MTL.txt names '../secret.TIF', which is no file of this folder"):
        rasters.read(tmp_path / "scene")


# --- virtual rasters


def sources(folder, count=2):
    for n in range(count):
        write_tiff(folder / f"{n}.tif", np.full((6, 5, 1), 7 + n, np.uint16))
    return [f"{n}.tif" for n in range(count)]


def test_a_virtual_raster_is_read_from_its_sources(tmp_path):
    vrt(tmp_path / "a.vrt", sources(tmp_path), (6, 5))
    found = rasters.read(tmp_path / "a.vrt")
    assert (found.cube[:, :, 0] == 7).all()
    assert (found.cube[:, :, 1] == 8).all()
    np.testing.assert_allclose(found.wavelengths, [450.0, 550.0])
    assert tmp_path / "1.tif" in formats.files_read(tmp_path / "a.vrt")
    check_windows(tmp_path / "a.vrt", found)


@pytest.mark.parametrize("source", ["/vsicurl/http://x/a.tif", "http://x/a.tif", "a.txt", "a.vrt", "<VRTDataset/>"])
def test_a_virtual_raster_that_leads_elsewhere_is_refused(source, tmp_path):
    (tmp_path / "a.txt").write_text("secret")
    vrt(tmp_path / "a.vrt", [source.replace("<", "&lt;")], (6, 5))
    with pytest.raises(ValueError, match="a.vrt: leads to"):
        rasters.read(tmp_path / "a.vrt")


@pytest.mark.parametrize(
    "inside",
    [
        '<VRTRasterBand dataType="Byte" band="3" subClass="VRTRawRasterBand"/>',
        '<VRTRasterBand dataType="Byte" band="3" subClass="VRTDerivedRasterBand"/>',
        "<PansharpeningOptions/>",
        "<Group/>",
    ],
)
def test_a_virtual_raster_with_more_than_plain_bands_is_refused(inside, tmp_path):
    vrt(tmp_path / "a.vrt", sources(tmp_path), (6, 5), inside)
    with pytest.raises(ValueError, match="a.vrt: holds"):
        rasters.read(tmp_path / "a.vrt")


def test_xml_with_a_document_type_is_refused(tmp_path):
    bomb = b'<!DOCTYPE a [<!ENTITY x "lol"><!ENTITY y "&x;&x;&x;">]><a>&y;</a>'
    for content in (bomb, bomb.decode().encode("utf-16")):
        with pytest.raises(ValueError, match="m.xml: its XML declares a document type, which is not read"):
            parse(content, "m.xml")
    with pytest.raises(ValueError, match="m.xml: its XML is nested too deeply"):
        parse(b"<a>" * 200 + b"</a>" * 200, "m.xml")
    with pytest.raises(ValueError, match="m.xml: cannot be read as XML"):
        parse(b"<a>", "m.xml")


def test_a_folder_that_is_no_product_is_refused_without_a_walk_through_it(tmp_path, monkeypatch):
    """It may be a whole disk."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.txt").write_text("no image")
    monkeypatch.setattr("pathlib.Path.rglob", lambda *_: pytest.fail("all files were looked at"))
    assert formats.files_read(tmp_path) == [tmp_path]
    with pytest.raises(OSError, match="is a folder; a file is needed"):
        rasters.read(tmp_path)


# --- NetCDF and Zarr of other programs


@pytest.mark.parametrize("order", ["band y x", "y x band", "wavelength lat lon", "x y band"])
def test_dimensions_are_known_by_their_names(order, tmp_path):
    xarray = pytest.importorskip("xarray")
    order = order.split()
    cube = np.random.default_rng(0).random((5, 7, 3)).astype(np.float32)
    places = {"y": 0, "lat": 0, "x": 1, "lon": 1, "band": 2, "wavelength": 2}
    coordinates = {name: np.arange(cube.shape[places[name]]) * 2.0 + 500.0 for name in order}
    array = xarray.DataArray(cube.transpose([places[name] for name in order]), dims=order, coords=coordinates, name="r")
    array.to_dataset().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    array.to_dataset().to_zarr(tmp_path / "a.zarr", zarr_format=2, consolidated=False)
    for path in (tmp_path / "a.nc", tmp_path / "a.zarr"):
        found = rasters.read(path)
        np.testing.assert_array_equal(found.cube, cube)
        np.testing.assert_allclose(found.georeference.transform, (2.0, 0.0, 499.0, 0.0, 2.0, 499.0))
        assert (found.wavelengths is not None) == ("wavelength" in order)
        check_windows(path, found)


@pytest.mark.parametrize("version", [2, 3])
def test_a_store_with_a_coordinate_system_is_read_as_xarray_writes_it(version, tmp_path):
    """Its coordinate system is an array of one number, which has no chunks."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("rioxarray")
    cube = np.random.default_rng(0).random((5, 7, 3)).astype(np.float32)
    places = {"y": 100.0 - 10.0 * np.arange(5), "x": 10.0 * np.arange(7), "wavelength": ("band", [500.0, 600.0, 700.0])}
    array = xarray.DataArray(cube, dims=("y", "x", "band"), coords=places, name="r").rio.write_crs(32633)
    array.to_dataset().to_zarr(tmp_path / "a.zarr", zarr_format=version, consolidated=False)
    found = rasters.read(tmp_path / "a.zarr")
    np.testing.assert_array_equal(found.cube, cube)
    assert "UTM zone 33N" in found.georeference.crs
    np.testing.assert_array_equal(found.wavelengths, [500.0, 600.0, 700.0])


def test_axes_without_telling_names_need_a_band_axis(tmp_path):
    cube = np.random.default_rng(0).random((5, 7, 3))
    zarr.save_array(tmp_path / "a.zarr", cube)
    with pytest.raises(ValueError, match="does not say where the bands are; --band-axis is needed"):
        rasters.read(tmp_path / "a.zarr")
    np.testing.assert_array_equal(rasters.read(tmp_path / "a.zarr", band_axis=2).cube, cube)


def test_a_classic_netcdf_file_is_read(tmp_path):
    cube = np.random.default_rng(0).random((3, 5, 7))
    with netcdf_file(tmp_path / "a.nc", "w") as file:
        for name, size in zip(("band", "y", "x"), cube.shape, strict=True):
            file.createDimension(name, size)
        variable = file.createVariable("r", "d", ("band", "y", "x"))
        variable[:] = cube
        variable.scale_factor = 0.5
    found = rasters.read(tmp_path / "a.nc")
    np.testing.assert_array_equal(found.cube, np.moveaxis(cube, 0, 2))
    np.testing.assert_allclose(found.scale, 0.5)


@pytest.mark.parametrize("codec", ["pickle", "base64"])
def test_a_store_whose_codec_is_none_of_numbers_is_refused(codec, tmp_path):
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(4, 5, 3), dtype="f8", zarr_format=2, chunks=(4, 5, 3))[...] = 1.0
    metadata = json.loads((tmp_path / "a.zarr" / ".zarray").read_text())
    metadata["compressor"] = {"id": codec}
    (tmp_path / "a.zarr" / ".zarray").write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match=rf"a.zarr: cannot be read as a Zarr store \(.*'{codec}'"):
        rasters.read(tmp_path / "a.zarr", band_axis=2)


def test_a_store_that_leads_elsewhere_or_holds_a_pipe_is_refused(tmp_path):
    store = tmp_path / "a.zarr"
    rasters.write(store, rasters.Raster(np.ones((4, 5, 3))))
    chunk = next(path for path in store.rglob("c/**/*") if path.is_file())
    chunk.rename(tmp_path / "secret")
    chunk.symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match=r"a.zarr: .* \(.* leads out of the store, which is not followed\)"):
        rasters.read(store)
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(ValueError, match=r"a.zarr: .* \(.* is not a regular file\)"):
        rasters.read(store)
    chunk.unlink()
    (tmp_path / "secret").rename(chunk)
    (store / "again").symlink_to(store / "cube")  # inside
    assert rasters.read(store).shape == (4, 5, 3)


@pytest.mark.parametrize("value", [[], "x", [1.0, 2.0], {"a": 1}, 0.0, "inf"])
def test_attributes_that_are_no_numbers_are_left_out_and_that_is_said(value, tmp_path):
    store = tmp_path / "a.zarr"
    rasters.write(store, rasters.Raster(np.ones((4, 5, 3))))
    path = store / "cube" / "zarr.json"
    metadata = json.loads(path.read_text())
    for name in ("scale_factor", "add_offset", "missing_value"):
        metadata["attributes"][name] = value
    path.write_text(json.dumps(metadata))
    found = rasters.read(store)
    assert found.scale is None
    assert any(note.startswith("the attribute scale_factor is left out") for note in found.source["notes"])


def test_a_group_that_holds_itself_is_not_walked_for_ever(tmp_path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_group("inner")["outer"] = file["/"]
    with pytest.raises(ValueError, match=r"a.nc: cannot be read as a NetCDF file \(.* under two names\)"):
        rasters.read(tmp_path / "a.nc")


def test_a_folder_that_is_no_store_is_never_replaced(tmp_path):
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "diary.txt").write_text("dear diary")
    with pytest.raises(OSError, match="exists and is not an output of this kind"):
        rasters.write(tmp_path / "mine.zarr", full_raster(np.float32), overwrite=True)
    assert (tmp_path / "mine.zarr" / "diary.txt").read_text() == "dear diary"


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_what_declares_more_than_the_limit_is_refused(suffix, tmp_path):
    rasters.write(tmp_path / f"a{suffix}", full_raster(np.float64))
    with pytest.raises(MemoryError, match="declares 24×20×7 values of float64"):
        rasters.read(tmp_path / f"a{suffix}", limit=1000)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".hdr", ".tif", ".nc", ".zarr"])
def test_units_names_and_tags_come_back_from_every_format(suffix, tmp_path):
    tags = {"FASTCCPD_OPTIONS": '{"a": [1, 2], "b": "x = {y}, ü"}'}
    known = {"scale": 1e-4, "offset": np.linspace(0.0, 1.0, 7), "names": [f"B{n}" for n in range(7)], "tags": tags}
    raster = full_raster(np.int16, **known)
    rasters.write(tmp_path / f"a{suffix}", raster)
    found = rasters.read(tmp_path / f"a{suffix}")
    np.testing.assert_allclose(found.scale, raster.scale, rtol=1e-12)
    np.testing.assert_allclose(found.offset, raster.offset, rtol=1e-12)
    assert (found.names, found.tags) == (raster.names, tags)


def test_a_cloud_optimised_geotiff_has_overviews_and_the_same_pixels(tmp_path):
    cube = np.random.default_rng(0).random((530, 600, 2)).astype(np.float32)
    rasters.write(tmp_path / "a.tif", full_raster(np.float32))
    rasters.write(
        tmp_path / "a.tif", rasters.Raster(cube, georeference=full_raster().georeference), cog=True, overwrite=True
    )
    with rasterio.open(tmp_path / "a.tif") as image:
        assert image.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert image.overviews(1) == [2, 4]
        small = image.read(1, out_shape=(265, 300))
    np.testing.assert_allclose(small, cube[:, :, 0].reshape(265, 2, 300, 2).mean(axis=(1, 3)), rtol=1e-5)
    np.testing.assert_array_equal(rasters.read(tmp_path / "a.tif").cube, cube)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tif"]
