"""Files to rasters and back: data to the bit, and what is known of them."""

import hashlib
import subprocess
import sys

import h5py
import numpy as np
import pytest
import rasterio
from raster_files import SHAPE, SUFFIXES, UTM, full_raster, mat5, same_grid, values, write_envi, write_mat73, write_tiff
from scipy.io import savemat

from fastccpd import rasters
from fastccpd.rasters import Georeference, Raster

BANDS = SHAPE[2]
FLOATS_AND_INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
NOT_IN = {".mat": {"f2"}, ".img": {"f2", "i1"}, ".tif": {"f2"}}


def round_trip(raster, path):
    rasters.write(path, raster)
    return rasters.read(path)


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.dtype.isnative
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


# --- round trips


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_raster_comes_back_with_all_that_its_format_carries(suffix, tmp_path):
    raster = full_raster(np.float32)
    path = tmp_path / f"scene{suffix}"
    found = round_trip(raster, path)
    assert_same_bits(found.cube, raster.cube)
    assert found.cube.flags.c_contiguous
    lost = rasters.lost_by(path, raster)
    assert lost == (("wavelengths", "fwhm", "nodata", "georeference", "bad_bands") if suffix == ".npy" else ())
    for name in ("wavelengths", "fwhm", "bad_bands"):
        if name in lost:
            assert getattr(found, name) is None
        else:
            np.testing.assert_array_equal(getattr(found, name), getattr(raster, name))
    if not lost:
        assert found.nodata == 7.0
        assert found.georeference.transform == raster.georeference.transform
        assert found.georeference.same_crs(raster.georeference)
    assert found.source["notes"] == ()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_raster_of_which_nothing_is_known_comes_back_so(suffix, tmp_path):
    found = round_trip(Raster(values(np.uint16)), tmp_path / f"scene{suffix}")
    assert_same_bits(found.cube, values(np.uint16))
    known = (found.wavelengths, found.fwhm, found.nodata, found.georeference, found.bad_bands)
    assert known == (None, None, None, None, None)


@pytest.mark.parametrize("dtype", FLOATS_AND_INTEGERS)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".img", ".tif"])
def test_every_dtype_comes_back_or_is_refused_before_anything_is_written(suffix, dtype, tmp_path):
    raster, path = Raster(values(dtype)), tmp_path / f"scene{suffix}"
    if dtype in NOT_IN.get(suffix, ()):
        with pytest.raises(ValueError, match=f"^{path}: .* has no {np.dtype(dtype).name}; it has .*float32"):
            rasters.write(path, raster)
        assert list(tmp_path.iterdir()) == []
    else:
        assert_same_bits(round_trip(raster, path).cube, raster.cube)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".img", ".bil", ".tif"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 3), (5, 1, 3), (5, 3, 1), (300, 270, 18)])
def test_every_shape_comes_back(suffix, shape, tmp_path):
    cube = values(np.int16, shape)
    assert_same_bits(round_trip(Raster(cube), tmp_path / f"scene{suffix}").cube, cube)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".img", ".bip", ".tif"])
@pytest.mark.parametrize("layout", ["F-order", "bands first", "every other", "read-only", "big-endian", "memmap"])
def test_the_layout_of_the_cube_does_not_show_in_the_file(suffix, layout, tmp_path):
    cube = values(np.float32)
    if layout == "F-order":
        given = np.asfortranarray(cube)
    elif layout == "bands first":
        given = np.moveaxis(np.moveaxis(cube, 2, 0).copy(), 0, 2)
    elif layout == "every other":
        given = np.repeat(cube, 2, axis=1)[:, ::2]
    elif layout == "read-only":
        given = cube.copy()
        given.flags.writeable = False
    elif layout == "big-endian":
        given = cube.astype(">f4")
    else:
        np.save(tmp_path / "given.npy", cube)
        given = np.load(tmp_path / "given.npy", mmap_mode="r")
    found = round_trip(Raster(given), tmp_path / f"scene{suffix}")
    assert_same_bits(found.cube, cube)
    assert type(found.cube) is np.ndarray


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".hdr", ".tif"])
@pytest.mark.parametrize("nodata", [np.nan, -9999.0, -3.4028234663852886e38, 0.1])
def test_nodata_comes_back(suffix, nodata, tmp_path):
    found = round_trip(full_raster(np.float32, nodata=nodata), tmp_path / f"scene{suffix}")
    # GDAL keeps it as the pixels are kept.
    np.testing.assert_equal(found.nodata, float(np.float32(nodata)) if suffix == ".tif" else nodata)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".hdr", ".tif"])
@pytest.mark.parametrize(
    "georeference",
    [
        Georeference(None, (2.5, 0, 100, 0, -2.5, 200)),
        Georeference(rasterio.CRS.from_epsg(4326).to_wkt(), (1e-4, 0, 11.123456789012, 0, -1e-4, 48.1)),
        Georeference(rasterio.CRS.from_epsg(3035).to_wkt(), (20, 0, 4321000.5, 0, -20, 3210000.5)),
        Georeference(UTM, (30 * np.cos(0.4), 20 * np.sin(0.4), 5e5, 30 * np.sin(0.4), -20 * np.cos(0.4), 4.2e6)),
    ],
    ids=["no crs", "degrees", "Lambert", "rotated"],
)
def test_georeferences_come_back(suffix, georeference, tmp_path):
    raster = full_raster(georeference=georeference)
    path = tmp_path / f"scene{suffix}"
    assert rasters.lost_by(path, raster) == ()
    assert same_grid(round_trip(raster, path).georeference, georeference)


def test_what_a_format_cannot_carry_is_named_and_left_out(tmp_path):
    mirrored, turned = (Georeference(UTM, (a, 0, 5e5, 0, 30, 4.2e6)) for a in (30, -30))
    raster = full_raster(np.uint8, georeference=mirrored, nodata=-9999)
    assert rasters.lost_by("scene.hdr", full_raster(georeference=turned)) == ("georeference",)
    assert rasters.lost_by("scene.hdr", raster) == ("georeference",)
    assert rasters.lost_by("scene.tif", raster) == ("nodata",)
    assert rasters.lost_by("scene.mat", raster) == ()
    assert round_trip(raster, tmp_path / "scene.hdr").georeference is None
    found = round_trip(raster, tmp_path / "scene.tif")
    assert found.nodata is None
    assert same_grid(found.georeference, mirrored)
    nowhere = Raster(values(), georeference=Georeference(None, (1, 0, 0, 0, 1, 0)), nodata=np.inf)
    assert rasters.lost_by("scene.tif", nowhere) == ("nodata", "georeference")
    assert round_trip(nowhere, tmp_path / "nowhere.tif").georeference is None


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".hdr", ".tif"])
@pytest.mark.parametrize("missing", ["wavelengths", "fwhm"])
def test_centres_and_widths_come_back_without_one_another(suffix, missing, tmp_path):
    raster = full_raster(**{missing: None})
    found = round_trip(raster, tmp_path / f"scene{suffix}")
    other = {"wavelengths": "fwhm", "fwhm": "wavelengths"}[missing]
    assert getattr(found, missing) is None
    np.testing.assert_array_equal(getattr(found, other), getattr(raster, other))


# --- what is told of a file


def test_the_source_tells_what_was_found(tmp_path):
    path = tmp_path / "scene.npz"
    source = round_trip(full_raster(), path).source
    assert source["path"] == str(path)
    assert source["format"] == "npz"
    assert source["variable"] == "cube"
    assert source["stored_shape"] == SHAPE
    assert source["band_axis"] == 2
    assert "(rows, columns, bands)" in source["layout"]
    assert source["bytes"] == path.stat().st_size
    assert source["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest() == rasters.sha256(path)


def test_the_source_of_envi_names_both_files(tmp_path):
    source = round_trip(full_raster(), tmp_path / "scene.hdr").source
    assert source["path"] == str(tmp_path / "scene.img")
    assert source["header_path"] == str(tmp_path / "scene.hdr")
    assert source["sha256"] == rasters.sha256(tmp_path / "scene.img")
    assert source["header_sha256"] == rasters.sha256(tmp_path / "scene.hdr")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_header_is_the_raster_without_its_data(suffix, tmp_path):
    path = tmp_path / f"scene{suffix}"
    raster = round_trip(full_raster(np.int32), path)
    header = rasters.header(path)
    assert (header.shape, header.dtype, header.nodata) == (raster.shape, raster.dtype, raster.nodata)
    for name in ("wavelengths", "fwhm", "bad_bands"):
        np.testing.assert_array_equal(getattr(header, name), getattr(raster, name))
    expected = {name: value for name, value in raster.source.items() if name != "header_sha256"}
    assert header.source == expected | {"sha256": None}
    if raster.georeference is not None:
        assert header.georeference.transform == raster.georeference.transform


def test_formats_lists_the_suffixes():
    assert rasters.FORMATS["envi"] == (".hdr", ".img", ".dat", ".bsq", ".bil", ".bip", ".raw")
    assert set(rasters.FORMATS) == {"npy", "npz", "mat", "envi", "geotiff", "netcdf", "zarr"}


# --- axes


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("band_axis", "words"),
    [(0, "(bands, rows, columns)"), (1, "(rows, bands, columns)"), (-1, "(rows, columns, bands)")],
)
def test_the_band_axis_is_the_one_that_is_said(suffix, order, band_axis, words, tmp_path):
    cube = values(np.float32)
    lying = np.array(np.moveaxis(cube, 2, band_axis), order=order)
    path = tmp_path / f"scene{suffix}"
    if suffix == ".npy":
        np.save(path, lying)
    elif suffix == ".npz":
        np.savez_compressed(path, scene=lying)
    else:
        savemat(path, {"scene": lying})
    found = rasters.read(path, band_axis=band_axis)
    assert_same_bits(found.cube, cube)
    assert f"stored as {words}, as band_axis={band_axis % 3} says" in found.source["layout"]
    assert found.source["stored_shape"] == lying.shape


@pytest.mark.parametrize(("interleave", "axis"), [("bsq", 0), ("bil", 1), ("bip", 2)])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_interleave_and_byte_order_of_envi_is_read(interleave, axis, order, tmp_path):
    cube = values(np.int16)
    header = write_envi(tmp_path / "scene.img", cube, interleave, order=order, offset=13)
    for band_axis in (None, axis, axis - 3):
        found = rasters.read(header, band_axis=band_axis)
        assert_same_bits(found.cube, cube)
    assert found.source["band_axis"] == axis
    assert f"interleave {interleave}" in found.source["layout"]
    with pytest.raises(ValueError, match=rf"^band_axis: got {(axis + 1) % 3}, but .*scene.hdr declares \(.*; leave"):
        rasters.read(header, band_axis=axis + 1 - 3 * (axis == 2))


@pytest.mark.parametrize(("interleave", "axis"), [("pixel", 2), ("band", 0)])
@pytest.mark.parametrize("options", [{}, {"compress": "lzw"}, {"tiled": True, "blockxsize": 16, "blockysize": 16}])
def test_every_interleave_of_geotiff_is_read(interleave, axis, options, tmp_path):
    cube = values(np.uint16, (70, 50, 20))
    write_tiff(tmp_path / "scene.tif", cube, interleave=interleave, **options)
    found = rasters.read(tmp_path / "scene.tif", band_axis=axis)
    assert_same_bits(found.cube, cube)
    assert f"{interleave} interleave" in found.source["layout"]
    with pytest.raises(ValueError, match="^band_axis: got 1, but .*scene.tif declares .*; leave band_axis out"):
        rasters.read(tmp_path / "scene.tif", band_axis=1)


def test_big_endian_files_become_native(tmp_path):
    cube = values(np.float64)
    np.save(tmp_path / "scene.npy", cube.astype(">f8"))
    np.savez(tmp_path / "scene.npz", cube=cube.astype(">f8"))
    write_mat73(tmp_path / "seven.mat", {"cube": cube.astype(">f8")})
    (tmp_path / "five.mat").write_bytes(mat5("cube", SHAPE, cube.astype(">f8").tobytes("F"), order=">"))
    write_tiff(tmp_path / "scene.tif", cube, endianness="BIG")
    for path in sorted(tmp_path.iterdir()):
        assert_same_bits(rasters.read(path).cube, cube)


# --- variables


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_the_variable_is_the_only_cube_or_the_one_called_so_or_the_one_said(suffix, tmp_path):
    first, second = values(np.float32), values(np.float32, (12, 10, 3))
    path = tmp_path / f"scene{suffix}"

    def save(**variables):
        np.savez(path, **variables) if suffix == ".npz" else savemat(path, variables)

    save(data=first, map=first[:, :, 0])
    found = rasters.read(path)
    assert_same_bits(found.cube, first)
    assert found.source["variable"] == "data"
    assert "the only one with three axes" in found.source["layout"]
    save(other=first, cube=second)
    assert_same_bits(rasters.read(path).cube, second)
    assert_same_bits(rasters.read(path, variable="other").cube, first)
    assert_same_bits(rasters.read(f"{path}::other").cube, first)
    save(hsi=second, msi=first)
    with pytest.raises(ValueError) as refusal:
        rasters.read(path)
    assert "hsi (12, 10, 3) float32, msi (24, 20, 7) float32; say which by variable=, or " in str(refusal.value)
    with pytest.raises(ValueError, match=f"^variable: got 'sri'; {path} holds hsi "):
        rasters.read(f"{path}::sri")
    with pytest.raises(ValueError, match="^variable: got 'hsi', but the path says 'msi'"):
        rasters.read(f"{path}::msi", variable="hsi")


def test_a_name_with_colons_is_a_name_where_there_is_such_a_file(tmp_path):
    path = tmp_path / "odd::name.npy"
    assert_same_bits(round_trip(Raster(values()), path).cube, values())


def test_variables_that_do_not_fit_are_left_out_and_said(tmp_path):
    np.savez(
        tmp_path / "scene.npz",
        msi=values(),
        wavelengths=np.arange(36.0),
        fwhm=np.full(BANDS, -1.0),
        transform=np.zeros(6),
        crs=np.array(["a", "b"]),
        nodata=np.array([None]),
    )
    found = rasters.read(tmp_path / "scene.npz")
    known = (found.wavelengths, found.fwhm, found.nodata, found.georeference)
    assert known == (None, None, None, None)
    for name in ("wavelengths, (36,) float64", "nodata", "crs", "transform", "fwhm"):
        assert any(name in note for note in found.source["notes"]), name


def test_doubles_that_matlab_keeps_as_bytes_are_doubles(tmp_path):
    cube = values(np.uint8)
    path = tmp_path / "scene.mat"
    for compressed in (False, True):
        path.write_bytes(mat5("scene", SHAPE, cube.tobytes("F"), stored=2, compressed=compressed))
        assert_same_bits(rasters.read(path).cube, cube.astype(np.float64))


@pytest.mark.parametrize("userblock", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u2", "u1"])
def test_version_7_3_of_mat_is_read_in_the_order_of_matlab(userblock, dtype, tmp_path):
    raster = full_raster(dtype)
    variables = {
        "scene": raster.cube,
        "wavelengths": raster.wavelengths[None],
        "fwhm": raster.fwhm[:, None],
        "crs": UTM,
        "transform": np.array([raster.georeference.transform]),
        "bad_bands": raster.bad_bands[None],
        "nodata": np.array([[7.0]]),
    }
    write_mat73(tmp_path / "scene.mat", variables, userblock)
    found = rasters.read(tmp_path / "scene.mat")
    assert_same_bits(found.cube, raster.cube)
    np.testing.assert_array_equal(found.wavelengths, raster.wavelengths)
    np.testing.assert_array_equal(found.fwhm, raster.fwhm)
    np.testing.assert_array_equal(found.bad_bands, raster.bad_bands)
    assert found.nodata == 7.0
    assert found.georeference.transform == raster.georeference.transform
    assert found.georeference.crs == UTM
    assert found.source["stored_shape"] == SHAPE
    first = rasters.read(tmp_path / "scene.mat", band_axis=0)
    assert_same_bits(first.cube, np.ascontiguousarray(np.moveaxis(raster.cube, 0, 2)))


def test_version_7_3_of_mat_is_read_where_it_is_chunked_and_compressed(tmp_path):
    cube = values(np.float32)
    with h5py.File(tmp_path / "scene.mat", "w") as file:
        dataset = file.create_dataset("scene", data=cube.T, chunks=(3, 7, 5), compression="gzip", shuffle=True)
        dataset.attrs["MATLAB_class"] = np.bytes_("single")
        file.create_group("settings").attrs["MATLAB_class"] = np.bytes_("struct")
        file.create_group("#refs#")
    assert_same_bits(rasters.read(tmp_path / "scene.mat").cube, cube)


# --- ENVI


@pytest.mark.parametrize("data", ["scene.img", "scene.dat", "scene.raw", "scene.bsq", "scene", "scene.IMG"])
def test_either_file_of_an_envi_pair_may_be_named(data, tmp_path):
    header = write_envi(tmp_path / data, values(np.float32))
    for path in (header, tmp_path / data, str(header)):
        assert_same_bits(rasters.read(path).cube, values(np.float32))


def test_a_header_named_after_the_whole_data_file_is_found(tmp_path):
    for data in ("scene_v1.2_rfl", "scene.img"):
        header = write_envi(tmp_path / data, values(np.float32))
        header = header.rename(tmp_path / f"{data}.hdr")
        for path in (header, tmp_path / data):
            assert_same_bits(rasters.read(path).cube, values(np.float32))


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("Nanometers", 1.0), ("nm", 1.0), ("Micrometers", 1e3), ("um", 1e3), ("Millimeters", 1e6), ("Angstroms", 0.1)],
)
def test_wavelengths_of_envi_become_nanometres(unit, factor, tmp_path):
    centres, widths = np.linspace(450.5, 2400.5, BANDS) / factor, np.full(BANDS, 10.0) / factor
    write_envi(
        tmp_path / "scene.img",
        values(),
        wavelength=f"{{{', '.join(map(repr, centres.tolist()))}}}",
        fwhm=f"{{{', '.join(map(repr, widths.tolist()))}}}",
        wavelength_units=unit,
    )
    found = rasters.read(tmp_path / "scene.img")
    np.testing.assert_allclose(found.wavelengths, centres * factor, rtol=1e-15)
    np.testing.assert_allclose(found.fwhm, 10.0, rtol=1e-12)
    assert found.source["notes"] == ()


def test_wavelengths_in_the_names_of_envi_s_bands_are_read(tmp_path):
    centres = np.linspace(450.5, 2400.5, BANDS)
    names = ", ".join(f"band {n} ({centre / 1e3:.4f} Micrometers)" for n, centre in enumerate(centres, 1))
    write_envi(tmp_path / "scene.img", values(), band_names=f"{{{names}}}")
    found = rasters.read(tmp_path / "scene.img")
    np.testing.assert_allclose(found.wavelengths, np.round(centres, 1), atol=0.051)
    assert found.names == tuple(f"band {n}" for n in range(1, BANDS + 1))


@pytest.mark.parametrize("unit", [None, "Unknown"])
@pytest.mark.parametrize(("scale", "taken"), [(1e-3, "micrometres"), (1.0, "nanometres")])
def test_wavelengths_without_a_unit_are_taken_by_their_size_and_that_is_said(unit, scale, taken, tmp_path):
    centres = np.linspace(450.5, 2400.5, BANDS)
    fields = {"wavelength": f"{{{', '.join(str(centre * scale) for centre in centres)}}}", "wavelength_units": unit}
    write_envi(tmp_path / "scene.img", values(), **fields)
    found = rasters.read(tmp_path / "scene.img")
    np.testing.assert_allclose(found.wavelengths, centres, rtol=1e-12)
    assert len(found.source["notes"]) == 1
    assert found.source["notes"][0].endswith(f"have no unit and are taken to be in {taken}")


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_small_wavelengths_among_named_arrays_are_taken_for_micrometres_and_that_is_said(suffix, tmp_path):
    centres, path = np.linspace(0.45, 2.4, BANDS), tmp_path / f"scene{suffix}"
    variables = {"cube": values(), "wavelengths": centres}
    np.savez(path, **variables) if suffix == ".npz" else savemat(path, variables)
    found = rasters.read(path)
    np.testing.assert_allclose(found.wavelengths, 1e3 * centres)
    assert "micrometres" in found.source["notes"][0]


@pytest.mark.parametrize("unit", ["Wavenumber", "GHz", "Index"])
def test_a_unit_that_is_no_length_leaves_the_wavelengths_out_and_that_is_said(unit, tmp_path):
    write_envi(tmp_path / "scene.img", values(), wavelength="{1,2,3,4,5,6,7}", wavelength_units=unit)
    found = rasters.read(tmp_path / "scene.img")
    assert found.wavelengths is None
    assert unit in found.source["notes"][0]


def test_a_header_of_envi_is_understood_in_full(tmp_path):
    write_envi(
        tmp_path / "scene.img",
        values(np.float32),
        wavelength="{400,\n 500,600, 700,\n 800, 900, 1000}",
        Wavelength_Units="nanometers",
        bbl="{1, 0, 1, 1, 0, 1, 1}",
        data_ignore_value="-9999.0",
        map_info="{UTM, 1.5, 2.5, 500015, 4199960, 30, 20, 33, North, WGS-84, units=Meters}",
        description="{two lines,\n and a = sign}",
        reflectance_scale_factor=10000,
    )
    found = rasters.read(tmp_path / "scene.img")
    np.testing.assert_array_equal(found.wavelengths, np.arange(400.0, 1001.0, 100.0))
    np.testing.assert_array_equal(found.bad_bands, np.array([0, 1, 0, 0, 1, 0, 0], bool))
    assert found.nodata == -9999.0
    # The reference pixel is the centre of the first column and of the second row.
    assert found.georeference.transform == (30.0, 0.0, 500000.0, 0.0, -20.0, 4199990.0)
    assert found.georeference.same_crs(Georeference(UTM, (1, 0, 0, 0, 1, 0)))
    np.testing.assert_allclose(found.scale, 1e-4)
    assert found.source["notes"] == ()


@pytest.mark.parametrize("angle", [0, 30, -10.5, 90])
def test_map_info_means_what_gdal_takes_it_to_mean(angle, tmp_path):
    # For square pixels and the first pixel as the reference, where there can be no doubt.
    rotation = f", rotation={angle}" if angle else ""
    info = f"{{UTM, 1, 1, 500000.5, 4200000.5, 30, 30, 33, North, WGS-84, units=Meters{rotation}}}"
    write_envi(tmp_path / "scene.img", values(np.float32), map_info=info)
    found = rasters.read(tmp_path / "scene.img")
    with rasterio.open(tmp_path / "scene.img", driver="ENVI") as image:
        np.testing.assert_allclose(found.georeference.transform, tuple(image.transform)[:6], rtol=1e-12, atol=1e-9)


def test_an_envi_pair_that_is_written_is_the_same_to_gdal(tmp_path):
    raster = full_raster(np.float32)
    rasters.write(tmp_path / "scene.hdr", raster)
    with rasterio.open(tmp_path / "scene.img", driver="ENVI") as image:
        np.testing.assert_array_equal(np.moveaxis(image.read(), 0, 2), raster.cube)
        assert tuple(image.transform)[:6] == raster.georeference.transform
        assert image.crs == rasterio.CRS.from_wkt(UTM)
        assert image.nodata == 7.0
        centres = [float(image.tags(band, ns="IMAGERY")["CENTRAL_WAVELENGTH_UM"]) for band in image.indexes]
    np.testing.assert_allclose(centres, raster.wavelengths / 1e3, atol=1e-3)


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ("{Arbitrary, 1, 1, 0, 0, 1, 1, 0, North}", "arbitrary"),
        ("{UTM, 1, 1, 5e5, 4.2e6, 30, 30, 33, North, WGS-84, rotation=180.0}", "has two meanings"),
    ],
)
def test_a_map_info_that_does_not_say_where_is_left_out_and_that_is_said(info, why, tmp_path):
    write_envi(tmp_path / "scene.img", values(), map_info=info)
    found = rasters.read(tmp_path / "scene.img")
    assert found.georeference is None
    assert why in found.source["notes"][0]


def test_envi_is_read_and_written_without_rasterio(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rasterio", None)
    raster = full_raster()
    found = round_trip(raster, tmp_path / "scene.hdr")
    assert found.georeference.crs == UTM
    assert found.georeference.transform == raster.georeference.transform
    info = "{UTM, 1, 1, 500000, 4200000, 30, 30, 33, North, WGS-84, units=Meters}"
    write_envi(tmp_path / "other.img", values(), map_info=info)
    found = rasters.read(tmp_path / "other.img")
    assert found.georeference.crs is None
    assert "only rasterio can" in found.source["notes"][0]
    assert found.georeference.same_crs(raster.georeference) is None
    other = Georeference("another", raster.georeference.transform)
    assert other.same_crs(raster.georeference) is None


def test_a_coordinate_system_that_gdal_does_not_know_is_kept_as_it_is(tmp_path, capfd):
    fields = {"map_info": "{Mars, 1, 1, 0, 0, 2, 2}", "coordinate_system_string": '{MARS["Olympus", 1]}'}
    write_envi(tmp_path / "scene.img", values(), **fields)
    found = rasters.read(tmp_path / "scene.img")
    assert found.georeference.crs == 'MARS["Olympus",1]'
    assert "GDAL says" in found.source["notes"][0]
    again = round_trip(found, tmp_path / "again.hdr")
    assert again.georeference.crs == found.georeference.crs
    assert again.georeference.same_crs(full_raster().georeference) is None
    assert capfd.readouterr().err == ""


# --- GeoTIFF


def test_plain_tags_with_a_unit_come_before_the_imagery_domain(tmp_path):
    exact, rounded = np.linspace(401.29, 1000.1, BANDS), np.linspace(401.3, 1000.0, BANDS)
    tags = [{"wavelength": repr(float(nm)), "Wavelength_Units": "Nanometers"} for nm in exact]
    imagery = [{"CENTRAL_WAVELENGTH_UM": f"{nm / 1e3:.4f}", "FWHM_UM": "0.0101"} for nm in rounded]
    write_tiff(tmp_path / "both.tif", values(np.float32), tags=tags, imagery=imagery)
    np.testing.assert_array_equal(rasters.read(tmp_path / "both.tif").wavelengths, exact)
    unitless = [{"wavelength": tag["wavelength"]} for tag in tags]
    write_tiff(tmp_path / "imagery.tif", values(np.float32), tags=unitless, imagery=imagery)
    found = rasters.read(tmp_path / "imagery.tif")
    np.testing.assert_allclose(found.wavelengths, rounded, atol=0.051)
    np.testing.assert_allclose(found.fwhm, 10.1)
    write_tiff(tmp_path / "plain.tif", values(np.float32), tags=unitless, descriptions=["name"] * BANDS)
    found = rasters.read(tmp_path / "plain.tif")
    np.testing.assert_array_equal(found.wavelengths, exact)
    assert "taken to be in nanometres" in found.source["notes"][0]


def test_wavelengths_of_some_bands_are_left_out_and_that_is_said(tmp_path):
    tags = [{"wavelength": "500"}] * (BANDS - 2) + [{}, {"wavelength": "red"}]
    write_tiff(tmp_path / "scene.tif", values(np.float32), tags=tags)
    found = rasters.read(tmp_path / "scene.tif")
    assert found.wavelengths is None
    assert "wavelength is left out" in found.source["notes"][0]


def test_what_is_written_as_geotiff_is_found_by_gdal(tmp_path):
    raster = full_raster(np.float32)
    rasters.write(tmp_path / "scene.tif", raster)
    with rasterio.open(tmp_path / "scene.tif") as image:
        assert image.profile["tiled"]
        assert image.profile["compress"] == "deflate"
        assert image.crs == rasterio.CRS.from_wkt(UTM)
        assert image.nodata == 7.0
        assert image.descriptions == (None,) * BANDS
        for band in image.indexes:
            found = image.tags(band, ns="IMAGERY")
            assert float(found["CENTRAL_WAVELENGTH_UM"]) == pytest.approx(raster.wavelengths[band - 1] / 1e3)
            assert float(found["FWHM_UM"]) == pytest.approx(raster.fwhm[band - 1] / 1e3)
            assert image.tags(band)["wavelength_units"] == "Nanometers"
    assert [path.name for path in tmp_path.iterdir()] == ["scene.tif"]


def test_masks_and_control_points_of_a_geotiff_are_said_to_be_left_out_and_scales_are_kept(tmp_path):
    point = rasterio.control.GroundControlPoint(row=0, col=0, x=11.0, y=48.0)
    with rasterio.open(
        tmp_path / "scene.tif",
        "w",
        driver="GTiff",
        width=20,
        height=24,
        count=2,
        dtype="uint8",
        gcps=[point] * 4,
        crs="EPSG:4326",
    ) as image:
        image.scales, image.offsets = (0.5, 0.5), (1.0, 1.0)
        image.write(values(np.uint8, (2, 24, 20)))
        image.write_mask(np.zeros((24, 20), bool))
    found = rasters.read(tmp_path / "scene.tif")
    assert found.georeference is None
    assert [any(word in note for note in found.source["notes"]) for word in ("control points", "mask")] == [True, True]
    np.testing.assert_array_equal(found.scale, [0.5, 0.5])
    np.testing.assert_array_equal(found.offset, [1.0, 1.0])


# --- missing pixels, and what a raster refuses


@pytest.mark.parametrize("nodata", [-9999.0, np.nan, None, 1e300])
def test_missing_pixels_are_those_with_nodata_or_nan_in_a_good_band(nodata):
    cube = values(np.float32)
    cube[3, 4, 1] = cube[5, 6, 2] = -9999.0
    cube[7, 8, 0] = np.nan
    raster = Raster(cube, nodata=nodata, bad_bands=np.arange(BANDS) == 1)
    expected = {(7, 8), (5, 6)} if nodata == -9999.0 else {(7, 8)}
    assert set(zip(*np.nonzero(raster.missing()))) == expected
    assert raster.missing().shape == SHAPE[:2]


@pytest.mark.parametrize("nodata", [0.0, -1.0, 0.5, 255.0, np.nan, np.inf, 1e300])
def test_integers_are_missing_only_where_they_can_be_nodata(nodata):
    cube = np.ones(SHAPE, np.uint8)
    cube[0, 1], cube[2, 3, 4] = 0, 255
    expected = {0.0: {(0, 1)}, 255.0: {(2, 3)}}.get(nodata, set())
    assert set(zip(*np.nonzero(Raster(cube, nodata=nodata).missing()))) == expected


def test_missing_pixels_are_found_beyond_the_first_block_of_rows():
    cube = np.zeros((700, 300, 90), np.int8)
    cube[650, 1, 2] = 5
    assert np.argwhere(Raster(cube, nodata=5).missing()).tolist() == [[650, 1]]


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        ({"wavelengths": [1.0, 2.0]}, ValueError, r"wavelengths: got shape \(2,\); one number for each of the 7 bands"),
        ({"wavelengths": ["a"] * 7}, ValueError, "wavelengths: got "),
        ({"fwhm": np.zeros(7)}, ValueError, "fwhm: holds values that are not finite and positive"),
        ({"bad_bands": np.zeros(7)}, ValueError, "bad_bands: got .* float64; one bool"),
        ({"nodata": "none"}, ValueError, "nodata: got 'none'"),
        ({"georeference": (1, 0, 0, 0, 1, 0)}, TypeError, "georeference: got tuple; a Georeference"),
    ],
)
def test_a_raster_refuses_what_does_not_fit_its_cube(changed, kind, message):
    with pytest.raises(kind, match=f"^{message}"):
        full_raster(**changed)


@pytest.mark.parametrize("cube", [np.zeros((3, 4)), np.zeros((3, 4, 0)), np.zeros((3, 4, 5), complex), None])
def test_a_raster_refuses_what_is_no_cube(cube):
    with pytest.raises((TypeError, ValueError), match="^cube: got "):
        Raster(cube)


@pytest.mark.parametrize("transform", [(1, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0), (1, 0, np.nan, 0, 1, 0), 5, "abcdef"])
def test_a_georeference_refuses_what_is_no_grid(transform):
    with pytest.raises(ValueError, match="^transform: got .*six finite numbers"):
        Georeference(None, transform)
    with pytest.raises(TypeError, match="^crs: got int"):
        Georeference(32633, (1, 0, 0, 0, 1, 0))


def test_one_coordinate_system_is_the_same_in_every_spelling():
    transform = (1, 0, 0, 0, -1, 0)
    esri = rasterio.CRS.from_wkt(UTM).to_wkt(version="WKT1_ESRI")
    assert esri != UTM
    assert Georeference(UTM, transform).same_crs(Georeference(esri, transform)) is True
    other = Georeference(rasterio.CRS.from_epsg(32634).to_wkt(), transform)
    assert other.same_crs(Georeference(UTM, transform)) is False
    assert other.same_crs(Georeference(None, transform)) is None


# --- packages


def test_no_optional_package_is_imported_before_a_file_needs_it(tmp_path):
    program = (
        "import sys, numpy as np; from fastccpd import rasters\n"
        f"rasters.read(rasters.write({str(tmp_path / 'a.npz')!r}, rasters.Raster(np.ones((4, 3, 2))))"
        f" or {str(tmp_path / 'a.npz')!r})\n"
        "print([name for name in ('rasterio', 'spectral', 'h5py', 'matplotlib', 'rich') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "modules", "suffix"),
    [
        ("rasterio", ["rasterio"], ".tif"),
        ("spectral", ["spectral", "spectral.io.envi"], ".hdr"),
        ("h5py", ["h5py"], ".mat"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it(
    package, modules, suffix, tmp_path, monkeypatch
):
    path = tmp_path / f"scene{suffix}"
    if package == "h5py":
        write_mat73(path, {"cube": values()})
    else:
        rasters.write(path, full_raster())
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=rf'^{path}: .* needs {package}; pip install "fastccpd\[io\]"$'):
        rasters.read(path)
    if package != "h5py":
        with pytest.raises(ModuleNotFoundError, match=rf"needs {package}; pip install"):
            rasters.write(path, full_raster(), overwrite=True)
