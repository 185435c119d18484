"""Outputs come into being whole or not at all."""

import os
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from raster_files import full_raster, values, write_envi

import fastccpd
from fastccpd import rasters
from fastccpd.formats import Raster

SUFFIXES = (".npy", ".npz", ".mat", ".hdr", ".img", ".tif")


def contents(folder):
    """Every file of a folder, hidden ones too, with its bytes."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --- what is refused before any work


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_exists_is_refused_unless_it_may_be_overwritten(suffix, tmp_path):
    path = tmp_path / f"scene{suffix}"
    rasters.check_target(path)
    rasters.write(path, Raster(values(np.float32)))
    before = contents(tmp_path)
    for refused in (rasters.check_target, lambda path: rasters.write(path, full_raster(np.int16))):
        with pytest.raises(FileExistsError, match=f"^{tmp_path}/scene.*: exists already; it is overwritten only on"):
            refused(path)
        assert contents(tmp_path) == before
    rasters.check_target(path, overwrite=True)
    rasters.write(path, full_raster(np.int16), overwrite=True)
    assert rasters.read(path).dtype == np.int16
    assert contents(tmp_path).keys() == before.keys()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("scene.jpg", ValueError, r"scene.jpg: got the suffix '.jpg'; one of .npy, .npz, .mat, .hdr, .* is needed"),
        ("scene", ValueError, r"scene: got the suffix ''; one of .npy"),
        ("nowhere/scene.npy", FileNotFoundError, r"scene.npy: cannot be written, for there is no folder .*nowhere"),
        ("nowhere/scene.hdr", FileNotFoundError, r"scene.img: cannot be written, for there is no folder .*nowhere"),
        ("folder.tif", OSError, r"folder.tif: exists and is not a regular file"),
        ("dangling.npy", FileNotFoundError, r"dangling.npy: cannot be written, for there is no folder .*gone"),
        ("", ValueError, r"path: got ''"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_any_work(name, kind, message, tmp_path):
    (tmp_path / "folder.tif").mkdir()
    (tmp_path / "dangling.npy").symlink_to(tmp_path / "gone" / "scene.npy")
    path = tmp_path / name if name else name
    for refused in (rasters.check_target, lambda path, overwrite: rasters.write(path, full_raster(), overwrite=True)):
        with pytest.raises(kind, match=message):
            refused(path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["dangling.npy", "folder.tif"]


def test_only_a_raster_is_written(tmp_path):
    with pytest.raises(TypeError, match="^raster: got ndarray; a Raster is needed"):
        rasters.write(tmp_path / "scene.npy", values())


def test_a_cube_too_large_for_a_mat_file_is_refused(tmp_path):
    # 2.4 GB that take no memory.
    cube = np.broadcast_to(np.zeros(()), (3000, 1000, 100))
    with pytest.raises(ValueError, match=rf"^{tmp_path}/scene.mat: cannot be written \(a MAT file holds at most 2"):
        rasters.write(tmp_path / "scene.mat", Raster(cube))
    assert contents(tmp_path) == {}


def test_a_coordinate_system_that_gdal_does_not_know_is_not_written_as_geotiff(tmp_path, capfd):
    raster = full_raster(georeference=rasters.Georeference("nonsense", (1, 0, 0, 0, -1, 0)))
    with pytest.raises(ValueError, match=rf"^{tmp_path}/scene.tif: cannot be written \(.*WKT"):
        rasters.write(tmp_path / "scene.tif", raster)
    assert contents(tmp_path) == {}
    assert capfd.readouterr().err == ""


# --- companions of a file


def test_a_link_stays_a_link_to_the_new_file(tmp_path):
    (tmp_path / "store").mkdir()
    rasters.write(tmp_path / "store" / "real.npy", Raster(values(np.float32)))
    (tmp_path / "link.npy").symlink_to(tmp_path / "store" / "real.npy")
    rasters.write(tmp_path / "link.npy", Raster(values(np.int16)), overwrite=True)
    assert (tmp_path / "link.npy").is_symlink()
    assert rasters.read(tmp_path / "store" / "real.npy").dtype == np.int16


@pytest.mark.parametrize("suffix", [".npy", ".mat", ".hdr", ".tif"])
def test_permissions_are_those_of_any_new_file_or_of_the_one_that_was_there(suffix, tmp_path):
    path = tmp_path / f"scene{suffix}"
    before = os.umask(0o027)
    try:
        rasters.write(path, full_raster())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    rasters.write(path, full_raster(), overwrite=True)
    if suffix != ".hdr":  # an old header is gone before new data take their place
        assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_what_gdal_keeps_beside_a_file_goes_with_the_file_it_describes(tmp_path):
    path = tmp_path / "scene.tif"
    rasters.write(path, full_raster())
    stale = tmp_path / "scene.tif.aux.xml"
    stale.write_text(
        '<PAMDataset><GeoTransform>1,1,0,1,0,-1</GeoTransform><PAMRasterBand band="1"><NoDataValue>99</NoDataValue>'
        "</PAMRasterBand></PAMDataset>"
    )
    path.unlink()
    with pytest.raises(FileExistsError, match="scene.tif.aux.xml: exists already"):
        rasters.write(path, full_raster())
    rasters.write(path, full_raster(), overwrite=True)
    assert sorted(contents(tmp_path)) == ["scene.tif"]
    assert rasters.read(path).georeference.transform == full_raster().georeference.transform


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_overviews_and_grid_of_an_earlier_file_are_not_those_of_the_new_one(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "scene.tif"
    old = Raster(np.full((64, 64, 1), 7.0, dtype=np.float32))
    rasters.write(path, old)
    with rasterio.Env(TIFF_USE_OVR=True), rasterio.open(path, "r+") as image:
        image.build_overviews([2, 4])
    assert (tmp_path / "scene.tif.ovr").exists()
    (tmp_path / "scene.tfw").write_text("10\n0\n0\n-10\n500\n900\n")
    other = tmp_path / "scene.wld"  # may be the grid of a scene.png
    other.write_text("")
    assert rasters.read(path).georeference is not None
    with pytest.raises(FileExistsError, match="exists already"):
        rasters.write(path, old)
    rasters.write(path, Raster(np.full((64, 64, 1), 1.0, dtype=np.float32)), overwrite=True)
    with rasterio.open(path) as image:
        assert image.overviews(1) == []
        assert image.read(1, out_shape=(16, 16)).max() == 1.0
    assert rasters.read(path).georeference is None
    assert sorted(contents(tmp_path)) == ["scene.tif", "scene.wld"]


def test_the_grid_of_a_geotiff_is_left_alone_by_a_namesake(tmp_path):
    grid = tmp_path / "scene.tfw"
    grid.write_text("10\n0\n0\n-10\n500\n900\n")
    rasters.write(tmp_path / "scene.npy", full_raster(), overwrite=True)
    rasters.write(tmp_path / "scene.img", full_raster(), overwrite=True)
    assert grid.exists()


def test_an_envi_pair_is_overwritten_under_the_names_it_has(tmp_path):
    write_envi(tmp_path / "scene.dat", values(np.float32))
    rasters.write(tmp_path / "scene.hdr", Raster(values(np.int16)), overwrite=True)
    assert sorted(contents(tmp_path)) == ["scene.dat", "scene.hdr"]
    (tmp_path / "scene.hdr").rename(tmp_path / "scene.dat.hdr")
    rasters.write(tmp_path / "scene.dat", Raster(values(np.uint8)), overwrite=True)
    assert sorted(contents(tmp_path)) == ["scene.dat", "scene.dat.hdr"]
    assert rasters.read(tmp_path / "scene.dat").dtype == np.uint8
    rasters.write(tmp_path / "other.img.hdr", Raster(values(np.uint8)))
    assert {"other.img", "other.img.hdr"} <= contents(tmp_path).keys()


def test_a_file_that_has_no_header_yet_is_not_taken_for_the_data_of_a_new_one(tmp_path):
    (tmp_path / "scene").write_bytes(b"something else")
    rasters.write(tmp_path / "scene.hdr", full_raster(), overwrite=True)
    assert (tmp_path / "scene").read_bytes() == b"something else"
    assert rasters.read(tmp_path / "scene.img").shape == full_raster().shape


# --- failures and interruptions


# Files may not grow beyond a few sizes, as on a disk that is full: the writes fail where the limit says.
FULL_DISK = """
import os, resource, signal, sys
import numpy as np
from fastccpd import rasters

folder = sys.argv[1]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cube = np.random.default_rng(0).random((70, 60, 9)).astype(np.float32)
new = rasters.Raster(cube, wavelengths=np.arange(400.0, 409.0))
for suffix in sys.argv[2:]:
    path = f"{folder}/scene{suffix}"
    rasters.write(path, new)
    data = path.replace(".hdr", ".img")
    whole = os.path.getsize(data)
    rasters.write(path, rasters.Raster(cube[:5, :4]), overwrite=True)
    before = {name: open(f"{folder}/{name}", "rb").read() for name in os.listdir(folder)}
    for limit in (0, 1000, whole // 2, whole - 2000, whole - 300, whole - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            rasters.write(path, new, overwrite=True)
            print(f"{suffix} written within {limit} of {whole} bytes")
        except OSError as error:
            if type(error) is not OSError or "cannot be written" not in str(error) or "\\n" in str(error):
                print(suffix, limit, repr(error))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after = {name: open(f"{folder}/{name}", "rb").read() for name in os.listdir(folder)}
        if after != before:
            print(suffix, limit, "left", sorted(after))
"""


FULL = """
import os, resource, shutil, sys
import numpy as np
from fastccpd import formats
cube = np.random.default_rng(0).random((64, 64, 20)).astype("f4")
streamed = formats.Raster(formats.placeholder((64, 64, 20), "f4"))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
try:
    formats.write("o.zarr", formats.Raster(cube))
    print("written")
except OSError as error:
    print(error)
for suffix in formats.STREAMED:
    os.mkdir("tiles")
    try:
        with formats.stream(f"s{suffix}", streamed, "tiles") as out:
            out.write(slice(0, 64), slice(0, 64), cube)
        print("written")
    except OSError as error:
        print(error)
    while os.path.exists("tiles"):  # zarr's threads may still be about another chunk
        shutil.rmtree("tiles", ignore_errors=True)
"""


@pytest.mark.parametrize("limit", [5_000, 150_000])
def test_on_a_full_disk_what_is_written_in_pieces_is_one_sentence_and_leaves_nothing(limit, tmp_path):
    env = os.environ | {"PYTHONPATH": str(Path(fastccpd.__file__).parents[1])}
    command = [sys.executable, "-c", FULL, str(limit)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    names = ["o.zarr", "s.tif", "s.tiff", "s.zarr", "s.npy"]
    said = done.stdout.splitlines()
    assert [line.partition(": cannot be written (")[0].rpartition("/")[2] for line in said] == names
    assert "exception" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    command = [sys.executable, "-c", FULL_DISK, tmp_path, ".npy", ".npz", ".mat", ".hdr", ".tif", ".nc"]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout == ""


WITH_THREADS = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@pytest.mark.parametrize("beginning", ["", WITH_THREADS], ids=["alone", "beside another thread"])
def test_on_a_full_disk_libtiff_prints_nothing(beginning, tmp_path):
    command = [sys.executable, "-c", beginning + FULL_DISK, tmp_path, ".tif"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


ENDLESS = """
import itertools, sys
import numpy as np
from fastccpd import rasters

path = sys.argv[1]
cubes = [np.full((150, 140, 30), value, np.float32) for value in (1, 2)]
try:
    for cube in itertools.cycle(cubes):
        rasters.write(path, rasters.Raster(cube), overwrite=True)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("suffix", [".npy", ".tif"])
def test_a_program_interrupted_as_it_writes_leaves_one_whole_file(suffix, tmp_path):
    path = tmp_path / f"scene{suffix}"
    with subprocess.Popen([sys.executable, "-c", ENDLESS, path], stdout=subprocess.PIPE, text=True) as program:
        while not path.exists() and program.poll() is None:
            time.sleep(0.01)
        time.sleep(0.1)
        program.send_signal(signal.SIGINT)
        try:
            said, _ = program.communicate(timeout=60)
        finally:
            program.kill()  # else one that did not hear it would be waited for without end
    assert said == "interrupted\n"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    cube = rasters.read(path).cube
    assert cube.shape == (150, 140, 30)
    assert (cube == cube[0, 0, 0]).all()


# --- memory


@pytest.mark.parametrize(
    ("suffix", "copies"),
    [(".npy", 0.1), (".npz", 0.5), (".mat", 1.2), (".img", 0.5), (".bil", 0.5), (".bip", 0.5), (".tif", 0.5)],
)
def test_a_large_cube_is_written_with_at_most_one_copy(suffix, copies, tmp_path, monkeypatch):
    monkeypatch.setattr("fastccpd.formats.axes._STRETCH", 1 << 20)
    raster = Raster(np.zeros((600, 500, 40), np.float32))
    rasters.write(tmp_path / f"warm{suffix}", Raster(values()))
    tracemalloc.start()
    try:
        rasters.write(tmp_path / f"scene{suffix}", raster)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < copies * raster.cube.nbytes
