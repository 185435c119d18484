"""With nothing but numpy, scipy and numba: what works does, and what needs an extra says which, before any work."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

NEEDED_ALWAYS = ("numpy", "scipy", "numba", "llvmlite")
EVERY_VERB = """
import contextlib, io, json, sys
from fastccpd.cli import main

for line in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line.split())
    print(json.dumps([line, code, out.getvalue(), err.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with what `pip install fastccpd` brings and nothing else, as links to what is installed here."""
    folder = tmp_path_factory.mktemp("packages")
    for name in NEEDED_ALWAYS:
        for file in metadata.files(name):
            top = folder / file.parts[0]
            if ".." not in file.parts and not top.exists():
                top.symlink_to(metadata.distribution(name).locate_file(file.parts[0]))
    return folder


def bare(script, *arguments, packages, folder):
    """What a script prints in a process of its own that finds these packages and ours alone."""
    environment = {name: value for name, value in os.environ.items() if name != "FASTCCPD_DATA"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(packages)])
    command = [sys.executable, "-S", "-c", script, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


FUSE = "fuse pair/hsi.npz pair/msi.npz --psf stereo --srf landsat"
WORKING = [
    "info",
    "methods",
    "methods hysure",
    "simulate synthetic:16x12x40 --snr 25 --psf stereo --format npz -o pair/",
    "info pair/hsi.npz pair/msi.npz --scan",
    f"{FUSE} -o fused.npz --uncertainty error.npy",
    f"{FUSE} --method nn-ccpd-nls --rank 2 -o factors.npy",
    f"{FUSE} --method gsa -o fused.mat",
    f"{FUSE} --method gsa --tile 8 -o tiles.npy",
    "score fused.npz pair/truth.npz --ratio 4",
    "batch pairs.csv -o out/{name}.npz --psf stereo --srf landsat --method gsa --jobs 1 --page out/page.html",
    "experiment snr --scene synthetic --methods gsa --runs 1 --snr 10 --workers 1",
    "dashboard fastccpd-snr/rows.jsonl -o board.html",
]
NEEDED = {
    f"{FUSE} -o fused.tif": ("writing GeoTIFF", "rasterio", "io"),
    f"{FUSE} -o fused.hdr": ("writing ENVI", "spectral", "io"),
    f"{FUSE} -o fused.nc": ("writing NetCDF", "h5netcdf", "netcdf"),
    f"{FUSE} -o fused.zarr": ("writing Zarr", "zarr", "zarr"),
    f"{FUSE} --tile 8 -o fused.tif": ("writing GeoTIFF", "rasterio", "io"),
    f"{FUSE} --report page.html -o other.npz": ("--report", "matplotlib", "plot"),
    f"{FUSE} --tile 8 --scheduler tcp://127.0.0.1:9 -o other.npy": ("a scheduler", "dask.distributed", "scale"),
    "info real.tif": ("real.tif: GeoTIFF", "rasterio", "io"),
}


@pytest.fixture(scope="module")
def said(packages, tmp_path_factory):
    """(exit code, stdout, stderr) of every command above, and the folder in which they ran, in this order."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "pairs.csv").write_text("name,hsi,msi\na,pair/hsi.npz,pair/msi.npz\n")
    (folder / "real.tif").write_bytes(b"II*\0" + bytes(60))
    lines = bare(EVERY_VERB, *WORKING, *NEEDED, packages=packages, folder=folder).splitlines()
    return {line: (code, out, err) for line, code, out, err in map(json.loads, lines)}, folder


@pytest.mark.parametrize("command", WORKING)
def test_what_needs_no_extra_works(said, command):
    code, out, err = said[0][command]
    assert code == 0, err
    assert out


@pytest.mark.parametrize("command", NEEDED)
def test_what_needs_an_extra_names_it_in_one_line_before_any_work(said, command):
    what, package, extra = NEEDED[command]
    code, out, err = said[0][command]
    assert (code, out) == (2, "")
    assert err == f'fastccpd: {what} needs {package}; pip install "fastccpd[{extra}]"\n'


def test_tables_are_written_where_pictures_cannot_be(said):
    answers, folder = said
    assert {path.name for path in (folder / "fastccpd-snr").iterdir()} == {"rows.jsonl", "rows.csv", "medians.md"}
    (command,) = (line for line in WORKING if line.startswith("experiment"))
    assert 'pictures need matplotlib; pip install "fastccpd[plot]"' in answers[command][2]
    assert "png" not in answers[command][1]


def test_nothing_is_left_of_what_was_refused(said):
    _, folder = said
    assert not {path.name for path in folder.iterdir()} & {"fused.tif", "fused.nc", "fused.zarr", "page.html"}


def test_what_is_missing_is_listed_with_the_extra_that_brings_it(said):
    lines = dict(line.split(maxsplit=1) for line in said[0]["info"][1].splitlines() if "not installed" in line)
    assert lines["rasterio"] == 'not installed; pip install "fastccpd[io]"'
    assert lines["zarr"] == 'not installed; pip install "fastccpd[zarr]"'
    assert lines["xarray"] == 'not installed; pip install "fastccpd[xarray]"'
    assert len(lines) >= 10


OPTIONAL = """
import numpy as np
from fastccpd import adapters, kernels, plots, rasters, solver, tiles
import fastccpd.xarray
from fastccpd.imaging import metrics, scenes

assert kernels.gram(np.eye(3)).trace() == 3
assert solver.CoupledCPD([solver.Term(np.ones((4, 3, 2)))], rank=1).shape == (9, 1)
image = np.random.default_rng(0).random((16, 16, 3)) + 1.0
scores = metrics.score(image + 0.1, image, 4)
assert "rsnr" in scores and "ssim" not in scores

def sentence(call):
    try:
        call()
    except (ImportError, FileNotFoundError) as error:
        print(str(error).replace(chr(10), " "))

def enter(context):
    with context:
        pass

sentence(lambda: plots.figure())
sentence(lambda: metrics.ssim(image, image))
sentence(lambda: enter(adapters.tensorly_on_fastccpd()))
sentence(lambda: adapters.pyttb_tensor(image))
sentence(lambda: fastccpd.xarray.fuse(image, image, None))
sentence(lambda: scenes.load("indian-pines"))
"""


def test_functions_that_need_a_package_say_which(packages, tmp_path):
    lines = bare(OPTIONAL, packages=packages, folder=tmp_path).splitlines()
    expected = ["matplotlib", "scikit-image", "tensorly", "pyttb", "xarray", "tensorly"]
    assert len(lines) == len(expected), lines
    for line, package in zip(lines, expected):
        assert package in line, line
