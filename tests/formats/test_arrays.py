"""Named arrays of a file, and what is refused before it is read, for every caller."""

import os
import pickle
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from pair_files import SHAPE, write_pair
from raster_files import mat5, values, write_envi, write_mat73
from scipy import io

import fastccpd
from fastccpd import formats
from fastccpd.cli import main
from fastccpd.imaging import landsat, preset, scenes

PM = landsat(SHAPE[2]).toarray()
ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([[1, 2]], np.int16), "c": np.array([[True, False]])}


def fuse(hsi, msi, *arguments):
    options = "-o", Path(hsi).parent / "f.npz", "--method", "nn-ccpd-nls", "--rank", "3", "--max-iter", "2"
    return ["fuse", *map(str, (hsi, msi, *options, *arguments))]


def refusal(capsys, command):
    capsys.readouterr()
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("fastccpd: ")


def in_a_process(command, folder):
    """Exit code and stderr of a command that might crash."""
    environment = os.environ | {"PYTHONPATH": str(Path(fastccpd.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "fastccpd", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stderr


def with_a_long_header(path, name, bytes_there=1 << 26):
    """An npz file of some kB whose array has a header that declares 1e9 bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as member:
        member.write(b"\x93NUMPY\x02\x00" + (10**9).to_bytes(4, "little"))
        for _ in range(bytes_there >> 20):
            member.write(b" " * (1 << 20))
    assert path.stat().st_size < 1 << 20


@pytest.mark.parametrize("form", ["npz", "mat", "mat73"])
def test_arrays_are_read_by_their_names(form, tmp_path):
    path = tmp_path / f"file.{form[:3]}"
    write = {"npz": lambda p, a: np.savez(p, **a), "mat": io.savemat, "mat73": write_mat73}[form]
    write(path, ARRAYS)
    found = formats.read_arrays(path)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
    assert list(formats.read_arrays(path, ["b"])) == ["b"]
    assert formats.arrays_in(path)["a"].shape == (2, 3)
    with pytest.raises(ValueError, match=r"file\.\w+: holds a, b, c; d is needed"):
        formats.read_arrays(path, ["a", "d"])


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_one_array_of_an_npy_file_has_no_name(order, tmp_path):
    array = np.asarray(ARRAYS["a"], dtype=">f4", order=order)
    np.save(tmp_path / "a.npy", array)
    found = formats.read_arrays(tmp_path / "a.npy")
    assert list(found) == [""]
    assert found[""].dtype == np.dtype("=f4")
    np.testing.assert_array_equal(found[""], array)


def test_what_is_no_number_is_left_out_or_refused_by_name(tmp_path):
    np.savez(tmp_path / "x.npz", text=np.array("word"), objects=np.array([{}], dtype=object), z=np.ones(2) + 1j, a=1.0)
    assert list(formats.read_arrays(tmp_path / "x.npz")) == ["a"]
    for name, what in (("text", "str"), ("objects", "Python objects, which are never loaded"), ("z", "complex128")):
        with pytest.raises(ValueError, match=rf"x.npz: cannot be read as .* \({name} is .*{what}"):
            formats.read_arrays(tmp_path / "x.npz", [name])


def test_more_than_the_limit_is_refused_before_it_is_read(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((1000, 1000)), b=np.zeros((1000, 1000)))
    with pytest.raises(MemoryError, match=r"x.npz: declares .*16.0 MB, but the limit is 10.0 MB"):
        formats.read_arrays(tmp_path / "x.npz", limit=10**7)
    assert list(formats.read_arrays(tmp_path / "x.npz", ["b"], limit=10**7)) == ["b"]


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "x.txt").write_text("1 2 3")
    with pytest.raises(ValueError, match=r"x.txt: got the suffix '.txt'; .npy, .npz or .mat is needed"):
        formats.read_arrays(tmp_path / "x.txt")


def test_a_damaged_type_in_a_mat_file_does_not_crash(tmp_path):
    """The library that reads them ends the process over a type that it does not know."""
    hsi, msi, _ = write_pair(tmp_path)
    (tmp_path / "pm.mat").write_bytes(mat5("PM", PM.shape, PM.T.tobytes(), stored=77))
    code, stderr = in_a_process(fuse(hsi, msi, "--srf", tmp_path / "pm.mat"), tmp_path)
    assert code == 2
    assert "pm.mat: cannot be read as a MAT file" in stderr


def test_a_damaged_type_in_a_known_scene_does_not_crash(tmp_path):
    (tmp_path / "moffett").mkdir()
    cube = np.ones((50, 50, 189))
    (tmp_path / "moffett/Moffett_vca.mat").write_bytes(mat5("data", cube.shape, cube.tobytes(), stored=77))
    script = f"from fastccpd.imaging import scenes; scenes.load('moffett', {str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Moffett_vca.mat: cannot be read as a MAT file" in done.stderr


def test_a_known_scene_of_a_wrong_kind_is_refused(tmp_path):
    (tmp_path / "moffett").mkdir()
    (tmp_path / "moffett/Moffett_vca.mat").write_bytes(b"no such thing")
    with pytest.raises(ValueError, match="Moffett_vca.mat: is not a MAT file"):
        scenes.load("moffett", tmp_path)


@pytest.mark.parametrize("what", ["hsi", "--srf", "--psf"])
def test_an_array_with_a_header_beyond_measure_is_refused_before_it_is_read(what, tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    bad = tmp_path / "bad.npz"
    with_a_long_header(bad, {"hsi": "cube", "--srf": "PM", "--psf": "P1"}[what])
    command = fuse(bad, msi, "--srf", "landsat") if what == "hsi" else fuse(hsi, msi, what, bad)
    command += ["--srf", "landsat"] if what == "--psf" else []
    tracemalloc.start()
    try:
        assert "bad.npz: cannot be read as an npz (zip) file (a header of 1000000000 bytes" in refusal(capsys, command)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_an_archive_that_numpy_would_not_write_is_refused(tmp_path):
    """Of these compressions Python unpacks whole blocks, however small the piece that is asked for."""
    np.save(tmp_path / "cube.npy", values())
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.write(tmp_path / "cube.npy", "cube.npy")
    with pytest.raises(ValueError, match=r"x.npz: cannot be read as .*cube.npy is neither stored nor deflated"):
        formats.read(tmp_path / "x.npz")


@pytest.mark.parametrize("link", [h5py.ExternalLink("other.mat", "PM"), h5py.SoftLink("/PM")])
def test_links_in_hdf5_are_not_followed(link, tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    write_mat73(tmp_path / "other.mat", {"PM": PM})
    write_mat73(tmp_path / "pm.mat", {"X": PM[0]})
    with h5py.File(tmp_path / "pm.mat", "r+") as file:
        file["R"] = link
    sentence = refusal(capsys, fuse(hsi, msi, "--srf", f"{tmp_path / 'pm.mat'}::R"))
    assert sentence == f"{tmp_path / 'pm.mat'}: holds X; R is needed"


def test_data_of_hdf5_in_other_files_are_not_read(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    (tmp_path / "raw").write_bytes(PM.tobytes())
    with h5py.File(tmp_path / "pm.mat", "w") as file:
        raw = [(str(tmp_path / "raw"), 0, PM.nbytes)]
        file.create_dataset("PM", PM.T.shape, "f8", external=raw).attrs["MATLAB_class"] = np.bytes_("double")
    sentence = refusal(capsys, fuse(hsi, msi, "--srf", tmp_path / "pm.mat"))
    assert "pm.mat: cannot be read as" in sentence
    assert "kept in another file" in sentence


@pytest.mark.parametrize("line", ["1,\n", "a = {\n", "x\n"])
def test_an_envi_header_of_millions_of_lines_gets_its_answer(line, tmp_path):
    header = write_envi(tmp_path / "scene.img", values())
    with open(header, "a") as file:
        file.write("wavelength = {\n" + line * 2_000_000)
    began = time.perf_counter()
    with pytest.raises(ValueError, match="scene.hdr: has .* lines, too many for a header of text"):
        formats.read(header)
    assert time.perf_counter() - began < 2.0


def test_an_envi_header_with_many_values_is_read_in_time(tmp_path):
    bands = 4000
    cube = np.ones((1, 2, bands), np.float32)
    lists = {name: "{\n" + ",\n".join(["500"] * bands) + "}" for name in ("wavelength", "fwhm", "band_names")}
    header = write_envi(tmp_path / "scene.img", cube, **lists)
    began = time.perf_counter()
    assert formats.read(header).wavelengths.shape == (bands,)
    assert time.perf_counter() - began < 2.0


def test_a_matrix_that_does_not_fit_is_refused_by_its_header(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    np.savez_compressed(tmp_path / "pm.npz", PM=np.zeros((3000, 3000)))
    tracemalloc.start()
    try:
        sentence = refusal(capsys, fuse(hsi, msi, "--srf", tmp_path / "pm.npz"))
        assert "holds shape (3000, 3000); a column for each of the HSI's 36 bands is needed" in sentence
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_a_table_that_is_no_regular_file_is_refused(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    sentence = refusal(capsys, fuse(hsi, msi, "--srf", tmp_path / "pipe.csv"))
    assert sentence == f"{tmp_path / 'pipe.csv'}: is not a regular file"
    with open(tmp_path / "long.csv", "wb") as file:
        file.truncate(10**9)
    sentence = refusal(capsys, fuse(hsi, msi, "--srf", tmp_path / "long.csv"))
    assert sentence == f"{tmp_path / 'long.csv'}: has 1000000000 bytes, too many for a table of text"


def test_the_blur_of_a_file_is_that_of_its_matrices(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    operators = preset("stereo", SHAPE)
    np.savez_compressed(tmp_path / "blur.npz", P1=operators.P1.toarray(), P2=operators.P2.toarray().astype(">f4"))
    assert main(fuse(hsi, msi, "--srf", "landsat", "--psf", tmp_path / "blur.npz")) == 4


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", [">f4", "<i2"])
def test_a_part_of_an_npy_file_is_read_without_the_rest(order, axis, dtype, tmp_path):
    stored = np.arange(7 * 9 * 5).reshape(7, 9, 5).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", stored)
    source = pickle.loads(pickle.dumps(formats.windows(tmp_path / "a.npy", band_axis=axis)))
    assert source.by_parts
    part = source.read(slice(1, 4), slice(2, 5))
    np.testing.assert_array_equal(part, np.moveaxis(stored, 2 if axis is None else axis, 2)[1:4, 2:5])
    assert type(part) is np.ndarray  # and no mapping of the file
    assert part.flags.owndata
