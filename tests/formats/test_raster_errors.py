"""Files that are not what they seem: each gets one sentence with its path, before it takes any memory."""

import os
import re
import struct
import tracemalloc
import zipfile

import h5py
import numpy as np
import pytest
import rasterio
import rasterio.shutil
from raster_files import SHAPE, full_raster, mat5, values, write_envi, write_mat73, write_tiff
from scipy.io import savemat

from fastccpd import rasters
from fastccpd.formats import Raster

REFUSALS = (ValueError, OSError, MemoryError)
BUILT_IN = {ValueError, OSError, FileNotFoundError, IsADirectoryError, PermissionError, MemoryError}


def refusal(path, **options):
    """The one sentence with which a file is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(REFUSALS) as refused:
            rasters.read(path, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert type(refused.value) in BUILT_IN
    message = str(refused.value)
    assert "\n" not in message
    assert peak < 8e6
    return message


def files_of_every_kind(folder):
    """A good file of each format, by the format's name."""
    for name, suffix in (("npy", "npy"), ("npz", "npz"), ("mat", "mat"), ("envi", "hdr"), ("geotiff", "tif")):
        rasters.write(folder / f"{name}.{suffix}", full_raster(np.float32))
    write_mat73(folder / "mat73.mat", {"cube": values(np.float32)})
    paths = {path.stem: path for path in folder.iterdir() if path.suffix != ".img"}
    return paths | {"envi data": folder / "envi.img"}


# --- no file, or no file of the kind


def test_a_file_that_cannot_be_opened_is_said_to_be_so(tmp_path):
    for suffix in ("npy", "npz", "mat", "hdr", "img", "tif", "xyz"):
        path = tmp_path / f"nothing.{suffix}"
        with pytest.raises(FileNotFoundError, match=rf"^{path}: cannot be read \(no such file or directory\)$"):
            rasters.read(path)
        path.mkdir()
        with pytest.raises(IsADirectoryError, match=f"^{path}: is a folder; a file is needed$"):
            rasters.read(path)
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(OSError, match="pipe.npy: is not a regular file$"):
        rasters.read(tmp_path / "pipe.npy")
    (tmp_path / "dangling.npy").symlink_to(tmp_path / "gone.npy")
    with pytest.raises(FileNotFoundError, match="dangling.npy: cannot be read"):
        rasters.read(tmp_path / "dangling.npy")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_said_to_be_so(tmp_path):
    np.save(tmp_path / "scene.npy", values())
    (tmp_path / "scene.npy").chmod(0)
    with pytest.raises(PermissionError, match="scene.npy: cannot be read"):
        rasters.read(tmp_path / "scene.npy")


@pytest.mark.parametrize("path", ["", "a\0b.npy", 5, None, "x" * 300 + ".npy"])
def test_what_is_no_name_of_a_file_is_refused(path):
    with pytest.raises((TypeError, ValueError, OSError), match="^(path: got|x+.npy: cannot be read)"):
        rasters.read(path)


def test_a_suffix_of_no_format_is_refused_with_those_that_are(tmp_path):
    for name in ("scene.jpg", "scene"):
        (tmp_path / name).write_bytes(b"something")
        assert re.search(r"got the suffix '(.jpg)?'; .npy, .npz, .mat, .hdr, ", refusal(tmp_path / name))


@pytest.mark.parametrize("suffix", ["npy", "npz", "mat", "hdr", "tif"])
def test_an_empty_file_is_said_to_be_empty(suffix, tmp_path):
    path = tmp_path / f"scene.{suffix}"
    path.write_bytes(b"")
    (tmp_path / "scene.img").write_bytes(b"1234")
    assert refusal(path) == f"{path}: is empty"


def test_a_file_under_the_suffix_of_another_format_is_said_to_be_what_it_is(tmp_path):
    kinds = {
        "npy": "an npy file",
        "npz": "an npz (zip) file",
        "geotiff": "a TIFF file",
        "envi": "an ENVI header",
        "mat": "a MAT file of version 5 or later",
        "mat73": "a MAT file of version 5 or later",
        "envi data": "nothing known",
    }
    suffixes = {"npy": "npy", "npz": "npz", "geotiff": "tif", "envi": "hdr", "mat": "mat"}
    paths = files_of_every_kind(tmp_path)
    (tmp_path / "renamed.img").write_bytes(b"1234")
    for name, kind in kinds.items():
        for pretended, suffix in suffixes.items():
            if not name.startswith(pretended) or name == "envi data":
                renamed = tmp_path / f"renamed.{suffix}"
                renamed.write_bytes(paths[name].read_bytes())
                message = refusal(renamed)
                assert message == f"{renamed}: is not {kinds[pretended]}; by its first bytes it is {kind}"


def test_a_file_of_plain_hdf5_is_no_mat_file(tmp_path):
    with h5py.File(tmp_path / "scene.mat", "w") as file:
        file["cube"] = values()
    assert "the variable cube is of no MATLAB class" in refusal(tmp_path / "scene.mat")


# --- shapes and dtypes


@pytest.mark.parametrize("shape", [(), (5,), (4, 5), (2, 3, 4, 5), (3, 0, 4)])
def test_what_has_not_three_axes_is_refused_with_its_shape(shape, tmp_path):
    array = np.zeros(shape)
    np.save(tmp_path / "scene.npy", array)
    np.savez(tmp_path / "scene.npz", scene=array)
    assert f"has shape {shape}; three axes" in refusal(tmp_path / "scene.npy")
    assert f"has shape {shape}; three axes" in refusal(tmp_path / "scene.npz", variable="scene")
    if len(shape) != 3:
        assert f"holds no array with three axes, but scene {shape} float64" in refusal(tmp_path / "scene.npz")


def test_a_matrix_in_a_mat_file_is_refused_with_its_shape(tmp_path):
    savemat(tmp_path / "five.mat", {"scene": np.zeros((4, 5))})
    write_mat73(tmp_path / "seven.mat", {"scene": np.zeros((4, 5))})
    for name in ("five.mat", "seven.mat"):
        assert "holds no array with three axes, but scene (4, 5) float64" in refusal(tmp_path / name)


@pytest.mark.parametrize("dtype", ["c8", "c16", "?", "S3", "U2", "M8[s]", [("a", "f4")]])
def test_what_is_no_real_number_is_refused(dtype, tmp_path):
    array = np.zeros(SHAPE, dtype)
    np.save(tmp_path / "scene.npy", array)
    np.savez(tmp_path / "scene.npz", scene=array)
    for suffix in (".npy", ".npz"):
        assert "real integers or floats of at most 64 bits are needed" in refusal(tmp_path / f"scene{suffix}")


def test_long_doubles_are_refused(tmp_path):
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("a long double is a double here")
    np.save(tmp_path / "scene.npy", np.zeros(SHAPE, np.longdouble))
    assert "at most 64 bits" in refusal(tmp_path / "scene.npy")


@pytest.mark.parametrize("version", ["five", "seven"])
def test_what_is_no_real_number_in_a_mat_file_is_refused(version, tmp_path):
    path = tmp_path / "scene.mat"
    variables = {"flags": np.ones(SHAPE, bool), "waves": values() + 1j}
    if version == "five":
        savemat(path, variables | {"cells": np.full((2, 3, 4), "a", object), "settings": {"a": 1}})
        words = {"flags": "bool", "waves": "complex128", "cells": "cell", "settings": "struct"}
    else:
        with h5py.File(path, "w") as file:
            for name, data, kind in (
                ("flags", variables["flags"].astype(np.uint8), "logical"),
                ("waves", variables["waves"].view([("real", "f8"), ("imag", "f8")]).reshape(SHAPE), "double"),
            ):
                file.create_dataset(name, data=data.T).attrs["MATLAB_class"] = np.bytes_(kind)
            cells = file.create_dataset("cells", (4, 3, 2), h5py.ref_dtype)
            cells[...] = file["flags"].ref
            cells.attrs["MATLAB_class"] = np.bytes_("cell")
            file.create_group("settings").attrs["MATLAB_class"] = np.bytes_("struct")
        words = {"flags": "bool", "waves": "complex", "cells": "cell", "settings": "struct"}
    for name, word in words.items():
        message = refusal(path, variable=name)
        assert message.startswith(f"{path}: the variable {name} is {word}")
        assert "real integers or floats" in message


def test_complex_values_of_envi_and_geotiff_are_refused(tmp_path):
    write_envi(tmp_path / "scene.img", np.ones(SHAPE, np.complex64))
    write_tiff(tmp_path / "scene.tif", np.ones(SHAPE, np.complex64))
    for name in ("scene.img", "scene.tif"):
        assert "the image is complex64; real integers or floats" in refusal(tmp_path / name)


# --- nothing runs, nothing else is followed


class Trap:
    """Leaves a mark if it is ever unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def test_pickled_content_is_refused_and_never_loaded(tmp_path):
    mark = tmp_path / "unpickled"
    trap = np.full(SHAPE, None, object)
    trap[0, 0, 0] = Trap(mark)
    np.save(tmp_path / "scene.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "scene.npz", cube=trap)
    np.savez(tmp_path / "beside.npz", cube=values(), nodata=trap[:1, 0, 0], wavelengths=np.full(SHAPE[2], Trap(mark)))
    for name in ("scene.npy", "scene.npz"):
        assert "holds Python objects, which are never loaded" in refusal(tmp_path / name)
    found = rasters.read(tmp_path / "beside.npz")
    assert found.nodata is None
    assert found.wavelengths is None
    assert len(found.source["notes"]) == 2
    assert not mark.exists()


def test_hdf5_that_leads_to_other_files_is_not_followed(tmp_path):
    write_mat73(tmp_path / "other.mat", {"cube": values()})
    with h5py.File(tmp_path / "scene.mat", "w") as file:
        file["linked"] = h5py.ExternalLink(str(tmp_path / "other.mat"), "/cube")
        file["soft"] = h5py.SoftLink("/linked")
    assert "holds no array with three axes, but nothing" in refusal(tmp_path / "scene.mat")
    layout = h5py.VirtualLayout((7, 20, 24), "f8")
    layout[...] = h5py.VirtualSource(tmp_path / "other.mat", "cube", (7, 20, 24))
    with h5py.File(tmp_path / "scene.mat", "w") as file:
        file.create_virtual_dataset("virtual", layout).attrs["MATLAB_class"] = np.bytes_("double")
        outside = file.create_dataset("outside", (7, 20, 24), "f8", external=[(str(tmp_path / "raw"), 0, 26880)])
        outside.attrs["MATLAB_class"] = np.bytes_("double")
    for name in ("virtual", "outside"):
        assert f"the variable {name} is kept in another file" in refusal(tmp_path / "scene.mat", variable=name)


def test_a_virtual_raster_under_the_suffix_of_geotiff_is_not_followed(tmp_path):
    write_tiff(tmp_path / "other.tif", values(np.float32))
    rasterio.shutil.copy(tmp_path / "other.tif", tmp_path / "scene.vrt", driver="VRT")
    path = (tmp_path / "scene.vrt").rename(tmp_path / "scene.tif")
    assert "by its first bytes it is nothing known" in refusal(path)


# --- sizes are checked before anything is read


def npy_bytes(header, data=b""):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (24, 20, 8), }", "bytes but declares .*; it is truncated"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (24, 20, 6), }", "its header does not fit"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-24, -20, 7), }", r"the shape \(-24, -20, 7\)"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 480, 7), }", r"the shape \(True, 480, 7\)"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999, 99999999), }", "it is truncated"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (24, 20, 7), }", "holds Python objects"),
        ("{'descr': '<f8', 'fortran_order': False}", "cannot be read as an npy file"),
        ("__import__('os').mkdir('unpickled')", "cannot be read as an npy file"),
    ],
)
def test_an_npy_header_that_lies_is_refused(header, message, tmp_path):
    path = tmp_path / "scene.npy"
    path.write_bytes(npy_bytes(header, values().tobytes()))
    assert re.search(message, refusal(path))


def test_an_npy_file_of_python_2_is_read(tmp_path):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (24L, 20L, 7L), }"
    (tmp_path / "scene.npy").write_bytes(npy_bytes(header, values().tobytes()))
    np.testing.assert_array_equal(rasters.read(tmp_path / "scene.npy").cube, values())


def test_an_npy_file_of_version_3_is_refused(tmp_path):
    content = npy_bytes("{}")
    (tmp_path / "scene.npy").write_bytes(content[:6] + b"\x03" + content[7:])
    assert "version 3.0 of the format, where 1.0 or 2.0 is needed" in refusal(tmp_path / "scene.npy")


def test_a_zip_bomb_is_refused_by_what_it_declares(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, cube=np.zeros((250, 200, 80)))
    assert path.stat().st_size < 1e5
    message = refusal(path, limit=10_000_000)
    assert message == f"{path}: declares 250×200×80 values of float64, 32.0 MB, but the limit is 10.0 MB"
    assert rasters.header(path).shape == (250, 200, 80)
    assert rasters.read(path, limit=32_000_000).shape == (250, 200, 80)


@pytest.mark.parametrize("claimed", [(24, 20, 6), (24, 20, 8), (2400, 2000, 700)])
def test_an_npz_member_that_is_not_as_long_as_its_header_says_is_refused(claimed, tmp_path):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {claimed}, }}"
    with zipfile.ZipFile(tmp_path / "scene.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cube.npy", npy_bytes(header, values().tobytes()))
    assert "the array cube has 27008 bytes but declares " in refusal(tmp_path / "scene.npz")


def test_an_npz_member_that_lies_in_the_directory_of_the_archive_too_is_refused(tmp_path):
    path = tmp_path / "scene.npz"
    content = npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (24, 20, 8), }", values().tobytes())
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cube.npy", content)
    declared = len(content) + 24 * 20 * 8
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", len(content)), struct.pack("<I", declared)))
    assert "cannot be read as an npz (zip) file" in refusal(path)


def test_an_npz_member_with_a_wrong_checksum_is_refused(tmp_path):
    path = tmp_path / "scene.npz"
    np.savez(path, cube=values())
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    assert "CRC" in refusal(path)


def test_an_npz_file_with_two_arrays_of_one_name_is_refused(tmp_path):
    content = npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (24, 20, 7), }", values().tobytes())
    with zipfile.ZipFile(tmp_path / "scene.npz", "w") as archive:
        archive.writestr("cube.npy", content)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("cube.npy", content)
    assert "holds two arrays called cube" in refusal(tmp_path / "scene.npz")


def test_a_mat_file_that_declares_more_than_it_may_is_refused(tmp_path):
    path = tmp_path / "scene.mat"
    path.write_bytes(mat5("cube", (250, 200, 80), bytes(32_000_000), compressed=True))
    assert path.stat().st_size < 1e5
    message = refusal(path, limit=10_000_000)
    assert message == f"{path}: declares 250×200×80 values of float64, 32.0 MB, but the limit is 10.0 MB"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"data": bytes(800)}, r"the variable cube of shape \(24, 20, 7\) declares 800 bytes of float64"),
        ({"data": bytes(10**7)}, r"the variable cube of shape \(24, 20, 7\) declares 10000000 bytes of float64"),
        ({"length": 200}, r"declares 26880 bytes of float64"),
        ({"stored": 60937}, r"the variable cube of class double has numbers of type 60937"),
        ({"kind": 9}, r"the variable cube of class uint8 has numbers of type 9"),
        ({"kind": 0x806}, r"the variable cube is complex128; real"),
        ({"kind": 0xA06}, r"the variable cube is complex128; real"),
        ({"kind": 99}, r"the variable cube is of class 99; real"),
        ({"shape": (24, 20, -7)}, r"of a negative size"),
        ({"shape": (24,)}, r"a variable without sizes"),
        ({"name": "x" * 5000}, r"an element that does not fit its place"),
    ],
)
def test_a_variable_of_a_mat_file_that_lies_is_refused(element, message, compressed, tmp_path):
    element = {"name": "cube", "shape": SHAPE, "data": values().tobytes("F")} | element
    (tmp_path / "scene.mat").write_bytes(mat5(**element, compressed=compressed))
    assert re.search(message, refusal(tmp_path / "scene.mat"))


def test_a_mat_file_with_two_variables_of_one_name_is_refused(tmp_path):
    path = tmp_path / "scene.mat"
    content = mat5("cube", SHAPE, values().tobytes("F"))
    path.write_bytes(content + content[128:])
    assert "the variable cube is there twice" in refusal(path)


def test_hdf5_that_declares_more_than_there_is_memory_is_refused(tmp_path):
    with h5py.File(tmp_path / "scene.mat", "w") as file:
        dataset = file.create_dataset("cube", (100, 10**6, 10**6), "f8", chunks=(1, 100, 100), compression="gzip")
        dataset.attrs["MATLAB_class"] = np.bytes_("double")
    assert "declares 1000000×1000000×100 values of float64" in refusal(tmp_path / "scene.mat")


def test_a_geotiff_that_declares_more_than_there_is_memory_is_refused(tmp_path):
    options = {"driver": "GTiff", "tiled": True, "compress": "deflate", "SPARSE_OK": True, "interleave": "band"}
    size = {"width": 200_000, "height": 100_000, "count": 9, "dtype": "float64"}
    with rasterio.open(tmp_path / "scene.tif", "w", transform=rasterio.Affine(2, 0, 0, 0, -2, 0), **options, **size):
        pass
    assert "declares 100000×200000×9 values of float64" in refusal(tmp_path / "scene.tif")


def test_a_geotiff_with_a_band_a_page_is_refused_with_their_number(tmp_path):
    for page in range(3):
        write_tiff(tmp_path / "scene.tif", values(np.uint8, (24, 20, 1)), APPEND_SUBDATASET=page > 0)
    assert "holds 3 pages; one image that has all the bands is needed" in refusal(tmp_path / "scene.tif")


# --- ENVI headers


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lines": 25}, r"scene.img: the file has 26880 bytes but declares 28000; it is truncated"),
        ({"lines": 23}, r"scene.img: the file has 26880 bytes but declares 25760; its header does not fit"),
        ({"bands": 10**12}, r"it is truncated"),
        ({"header_offset": 1}, r"has 26880 bytes but declares 26881"),
        ({"lines": -24, "samples": -20}, r"scene.hdr: got lines = -24; a whole number of at least 0 is needed"),
        ({"samples": 0}, r"scene.hdr: the image has shape \(7, 24, 0\); three axes, each at least 1 long"),
        ({"bands": "many"}, r"got bands = many; a whole number"),
        ({"bands": None}, r'scene.hdr: cannot be read as an ENVI header \(Mandatory parameter "bands" missing'),
        ({"code": 7}, r"got the data type 7; one of 1, 2, 3, 4, 5, 6, 9, 12, 13, 14, 15 is needed"),
        ({"byte_order": 2}, r"got the byte order 2; 0 or 1 is needed"),
        ({"interleave": "spiral"}, r"got the interleave 'spiral'; bsq, bil or bip is needed"),
        ({"file_type": "ENVI Spectral Library"}, r"describes a spectral library or compressed data"),
        ({"file_compression": 1}, r"describes a spectral library or compressed data"),
        ({"major_frame_offsets": "{5, 5}"}, r"frame offsets are not supported"),
        ({"wavelength": "{400, 500}"}, r"got 2 values of wavelength for 7 bands; they must agree"),
        ({"bbl": "{a, b, c, d, e, f, g}"}, r"got 'a' as bbl; a number is needed"),
        ({"data_ignore_value": "none"}, r"got 'none' as data ignore value; a number is needed"),
        ({"map_info": "{UTM, 1, 1}"}, r"got map info = .*; a projection and six numbers are needed"),
        ({"map_info": "{UTM, 1, 1, x, y, 30, 30}"}, r"got 'x' as map info; a number is needed"),
        ({"map_info": "{UTM, 1, 1, 0, 0, 0, 30}"}, r"got a map info without sense"),
        ({"wavelength": "{400, 500"}, r"cannot be read as an ENVI header"),
    ],
)
def test_an_envi_header_that_lies_is_refused(fields, message, tmp_path):
    changed = {name: value for name, value in fields.items() if name != "interleave"}
    header = write_envi(tmp_path / "scene.img", values(), **changed)
    if "interleave" in fields:
        header.write_text(header.read_text().replace("bsq", fields["interleave"]))
    assert re.search(message, refusal(header))


def test_an_envi_header_that_is_no_text_is_refused(tmp_path):
    header = write_envi(tmp_path / "scene.img", values())
    header.write_bytes(b"ENVI\n\xff\xfe\x00" + bytes(range(128, 256)))
    assert "scene.hdr: cannot be read as an ENVI header" in refusal(header)
    with open(header, "wb") as file:
        file.write(b"ENVI\n")
        file.truncate(1 << 25)
    assert "too many for a header of text" in refusal(header)


def test_an_envi_file_without_its_other_half_is_refused(tmp_path):
    header = write_envi(tmp_path / "scene.img", values())
    (tmp_path / "scene.dat").write_bytes(b"1234")
    assert "scene.dat, scene.img are beside this header; name the one that is meant" in refusal(header)
    (tmp_path / "scene.dat").unlink()
    (tmp_path / "scene.img").rename(tmp_path / "other.img")
    assert "scene.hdr: there are no data beside this header, such as scene.img" in refusal(header)
    assert "other.img: there is no ENVI header other.hdr beside it" in refusal(tmp_path / "other.img")


# --- options


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"band_axis": 3}, ValueError, "band_axis: got 3"),
        ({"band_axis": -4}, ValueError, "band_axis: got -4"),
        ({"band_axis": 1.0}, TypeError, "band_axis: got 1.0"),
        ({"limit": 0}, ValueError, "limit: got 0"),
        ({"limit": "1 GB"}, TypeError, "limit: got '1 GB'"),
        ({"variable": "cube"}, ValueError, "variable: got 'cube', but .*scene.npy holds one array without a name"),
    ],
)
def test_options_without_sense_are_refused(options, kind, message, tmp_path):
    np.save(tmp_path / "scene.npy", values())
    with pytest.raises(kind, match=f"^{message}"):
        rasters.read(tmp_path / "scene.npy", **options)


# --- damage of any kind


@pytest.mark.parametrize("name", ["npy", "npz", "mat", "mat73", "envi data", "geotiff"])
def test_a_truncated_file_is_refused_wherever_it_ends(name, tmp_path):
    path = files_of_every_kind(tmp_path)[name]
    content = path.read_bytes()
    lengths = {1, 7, 60, 130, 600, len(content) // 3, len(content) // 2, len(content) - 200, len(content) - 1}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        message = refusal(path)
        assert message.startswith(f"{path}: "), length


def test_a_compressed_mat_file_is_refused_wherever_it_ends(tmp_path):
    path = tmp_path / "scene.mat"
    savemat(path, {"first": 1.0, "cube": values(), "last": 2.0}, do_compression=True)
    content = path.read_bytes()
    for length in (130, 140, 200, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert refusal(path).startswith(f"{path}: "), length


@pytest.mark.parametrize("name", ["npy", "npz", "mat", "mat73", "envi", "geotiff"])
def test_a_file_with_changed_bytes_is_read_or_refused_but_never_anything_else(name, tmp_path, capfd):
    path = files_of_every_kind(tmp_path)[name]
    content = path.read_bytes()
    rng = np.random.default_rng(11)
    refusals = []
    for _ in range(60):
        damaged = np.frombuffer(content, np.uint8).copy()
        places = rng.integers(0, min(len(content), rng.choice([150, 1200, len(content)])), 3)
        damaged[places] = rng.integers(0, 256, 3)
        path.write_bytes(damaged.tobytes())
        try:
            found = rasters.read(path, limit=10_000_000)
        except REFUSALS as error:
            refusals.append(error)
        else:
            assert isinstance(found, Raster)
    assert len(refusals) > 5
    for error in refusals:
        assert type(error) in BUILT_IN
        assert "\n" not in str(error)
        assert str(tmp_path) in str(error)
    assert name == "geotiff" or capfd.readouterr().err == ""


@pytest.mark.parametrize("units", ["{a, b}", "{Nanometers, Micrometers}", "furlongs"])
def test_a_unit_of_wavelengths_that_is_no_length_is_noted(units, tmp_path):
    wavelength = "{" + ", ".join(map(str, range(400, 407))) + "}"
    header = write_envi(tmp_path / "scene.img", values(), wavelength=wavelength, wavelength_units=units)
    found = rasters.read(header)
    assert found.wavelengths is None
    assert any("wavelengths are left out: their unit is" in note for note in found.source["notes"])


@pytest.mark.parametrize("bad", ["nan", "-5", "inf", "0"])
def test_wavelengths_that_are_none_are_left_out_and_noted(bad, tmp_path):
    wavelength = "{" + ", ".join([bad, *map(str, range(401, 407))]) + "}"
    found = rasters.read(write_envi(tmp_path / "scene.img", values(), wavelength=wavelength))
    assert found.wavelengths is None
    assert "wavelengths are left out: some are not finite and positive" in found.source["notes"]
