"""`fastccpd fuse` in tiles: asked for, or by itself; resumed; interrupted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tiled_scenes import small_pair

import fastccpd
from fastccpd import rasters
from fastccpd.cli import main
from fastccpd.rasters import tiling

PLAIN = ("--srf", "landsat", "--method", "tv-maps", "--psf", "gaussian,phase=1.5,boundary=reflect")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene")
    _, hsi, msi, _ = small_pair(kind="reflect")
    wavelengths = np.linspace(400.0, 2500.0, 36)
    msi = msi.copy()
    msi[:9, :11] = -9.0
    rasters.write(folder / "hsi.tif", rasters.Raster(hsi, wavelengths=wavelengths))
    rasters.write(folder / "msi.tif", rasters.Raster(msi, nodata=-9.0))
    return str(folder / "hsi.tif"), str(folder / "msi.tif")


def run(files, out, *arguments):
    return main(["fuse", *files, "-o", str(out), *PLAIN, *map(str, arguments)])


def test_tiles_give_what_the_whole_gives(files, tmp_path, capsys):
    whole, tiled = tmp_path / "whole.tif", tmp_path / "tiled.tif"
    assert run(files, whole, "--quiet") == 0
    capsys.readouterr()
    assert run(files, tiled, "--tile", 40, "--workers", 0, "--json", "--uncertainty", tmp_path / "error.tif") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tiles"]["number"] == 6
    assert told["nodata"]["output"] == 99
    first, second = rasters.read(whole), rasters.read(tiled)
    assert second.dtype == first.dtype
    np.testing.assert_allclose(second.wavelengths, first.wavelengths)
    np.testing.assert_array_equal(second.missing(), first.missing())
    has = ~first.missing()
    apart = np.linalg.norm(first.cube[has] - second.cube[has]) / np.linalg.norm(first.cube[has])
    assert apart < 0.01
    plan = json.loads(second.tags["FASTCCPD_PLAN"])
    assert plan["tile"] == 40
    assert rasters.read(tmp_path / "error.tif").shape == (96, 80, 1)
    assert not tiling.folder_of(tiled).exists()


@pytest.mark.parametrize("name", ["out.tif", "cog.tif", "out.zarr", "out.npy"])
def test_every_streamed_format_holds_the_same_numbers(name, files, tmp_path):
    cog = ["--cog"] if name.startswith("cog") else []
    quick = "--tile", 48, "--workers", 0, "--quiet", "--method", "gsa"
    _, hsi, msi, _ = small_pair(kind="reflect")
    paths = [str(tmp_path / f"{name}.npy") for name in ("hsi", "msi")]
    for path, cube in zip(paths, (hsi, msi)):
        np.save(path, cube)
    assert run(paths, tmp_path / name, *quick, *cog) == 0
    assert run(paths, tmp_path / "expected.npy", *quick) == 0
    np.testing.assert_array_equal(rasters.read(tmp_path / name).cube, np.load(tmp_path / "expected.npy"))


def test_a_scene_that_does_not_fit_is_fused_in_tiles_by_itself(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tiling.machine, "available_memory", lambda: 11_000_000)
    assert run(files, tmp_path / "out.tif") == 2
    assert "memory: got 0.01 GB, but two processes alone take" in capsys.readouterr().err
    monkeypatch.setattr(tiling.machine, "available_memory", lambda: 8_000_000_000)
    monkeypatch.setattr("fastccpd.cli.tiles.asks_for_tiles", lambda _: False)
    monkeypatch.setattr("fastccpd.cli.tiles.needs_tiles", lambda *_: True)
    assert run(files, tmp_path / "other.tif", "--json", "--workers", 0) == 0
    assert json.loads(capsys.readouterr().out)["tiles"]["number"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tile", 4), "tile: got 4"),
        (("--tile", 40, "--report", "no/such/folder/page.html"), "no/such/folder"),
        (("--memory", "lots"), "argument --memory: got 'lots'; a number of bytes, as in 4G or 500M, is needed"),
        (("--memory", "50M"), "memory: got 0.05 GB, but two processes alone take 0.55 GB; more is needed"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, message, files, tmp_path, capsys):
    assert run(files, tmp_path / "out.tif", *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out.tif").exists()


def test_beginning_anew_removes_no_folder_that_holds_an_input_or_anything_else(files, tmp_path, capsys):
    out = tmp_path / "out.tif"
    folder = tiling.folder_of(out)
    folder.mkdir()
    moved = [shutil.copy(file, folder) for file in files]
    (folder / "state.json").write_text("{}")
    for how in ("--force", "--resume"):
        assert run(moved, out, "--tile", 40, how) == 2
        assert "the tiles: " in (line := capsys.readouterr().err)
        assert "holds one of the inputs, which are never overwritten" in line
    (folder / "state.json").unlink()
    assert run(files, out, "--tile", 40, "--workers", 0, "--force") == 2
    assert "exists and holds something else" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["hsi.tif", "msi.tif"]


def test_a_store_that_holds_an_input_is_not_replaced(files, tmp_path, capsys):
    store = tmp_path / "out.zarr"
    rasters.write(store, rasters.Raster(np.ones((4, 4, 3))))
    inside = [shutil.copy(file, store) for file in files]
    for how in ((), ("--tile", 40)):
        assert run(inside, store, *how, "--force") == 2
        assert f"-o: {store} holds one of the inputs, which are never overwritten" in capsys.readouterr().err
    assert all(os.path.exists(file) for file in inside)


@pytest.mark.parametrize("most", [1 << 27, 60_000])
def test_a_report_is_made_of_a_part_of_the_pixels(most, files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fastccpd.tiles.preview._BYTES", most)
    whole, page = tmp_path / "whole.tif", tmp_path / "page.html"
    assert run(files, whole, "--json") == 0
    expected = json.loads(capsys.readouterr().out)
    how = "--tile", 40, "--workers", 0, "--json", "--uncertainty", tmp_path / "error.tif"
    assert run(files, tmp_path / "tiled.tif", *how, "--report", page) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"]["report"] == str(page)
    assert told["verdict"] == expected["verdict"]
    for name in ("hsi", "msi"):  # of all pixels, whichever are shown
        assert told["residuals"][name] == pytest.approx(expected["residuals"][name], rel=0.02)
    text = page.read_text()
    for part in ("96×80×36", "the images agree", "fused in 6 tiles of 40", "Estimated SNR", "Uncertainty", "tv-maps"):
        assert part in text, part
    assert ("every 5. row" in text) == (most == 60_000)
    assert "Convergence" not in text
    assert run(files, tmp_path / "other.tif", "--tile", 40, "--report", page) == 2
    assert "--force" in capsys.readouterr().err


def test_images_that_disagree_are_written_and_exit_with_5(tmp_path, capsys):
    _, hsi, msi, _ = small_pair(kind="reflect")
    paths = [str(tmp_path / name) for name in ("hsi.npy", "msi.npy")]
    for path, cube in zip(paths, (hsi, 50 * msi)):
        np.save(path, cube)
    assert run(paths, tmp_path / "out.npy", "--method", "gsa", "--tile", 48, "--workers", 0, "--json") == 5
    said = capsys.readouterr()
    assert json.loads(said.out)["verdict"]["cause"] == "scale"
    assert "the images disagree: the MSI is" in said.err
    assert (tmp_path / "out.npy").exists()


def test_the_blur_is_moved_by_the_shift_as_in_the_whole(tmp_path, capsys):
    _, hsi, msi, _ = small_pair((160, 128, 36), kind="reflect")
    paths = [str(tmp_path / name) for name in ("hsi.npy", "msi.npy")]
    for path, cube in zip(paths, (hsi, np.roll(msi, 2, axis=0))):
        np.save(path, cube)
    found = {}
    for name, how in (("whole", ()), ("tiled", ("--tile", 64, "--workers", 0)), ("left", ("--tile", 64, "--no-align"))):
        code = run(paths, tmp_path / f"{name}.npy", "--method", "gsa", "--json", *how)
        found[name] = code, json.loads(capsys.readouterr().out)
    assert found["tiled"][0] == found["whole"][0] == 0
    np.testing.assert_allclose(found["tiled"][1]["alignment"]["blur_moved"], (2.0, 0.0), atol=0.1)
    np.testing.assert_allclose(
        found["tiled"][1]["alignment"]["blur_moved"], found["whole"][1]["alignment"]["blur_moved"]
    )
    assert found["left"][0] == 5
    assert found["left"][1]["alignment"]["blur_moved"] is None


@pytest.mark.parametrize("psf", ["auto", "gaussian,sigma=1.7,phase=1.5"])
def test_msi_bands_that_no_response_explains_are_left_out_of_tiles_too(psf, tmp_path, capsys):
    _, hsi, msi, _ = small_pair((160, 128, 36), kind="reflect")
    rows, columns = np.indices(msi.shape[:2])
    strange = (1.0 + np.sin(0.05 * rows + 0.0004 * columns**2)).astype(msi.dtype) * msi.mean()
    paths = [str(tmp_path / name) for name in ("hsi.npy", "msi.npy")]
    for path, cube in zip(paths, (hsi, np.dstack([msi[:, :, :3], strange, msi[:, :, 3:]]))):
        np.save(path, cube)
    out = str(tmp_path / "out.tif")
    command = ["fuse", *paths, "-o", out, "--method", "tv-maps", "--max-iter", "20", "--tile", "64", "--workers", "0"]
    assert main([*command, "--psf", psf, "--srf", "auto"]) in (0, 4)
    assert "1 of 7 bands are no combination of the HSI's bands and left out: 4 of" in capsys.readouterr().err
    operators = json.loads(rasters.read(out).tags["FASTCCPD_OPERATORS"])
    assert len(operators["response"]) == 6


def relative(first, second):
    """How far two files are from each other, and that both lack the same pixels."""
    first, second = rasters.read(first), rasters.read(second)
    np.testing.assert_array_equal(second.missing(), first.missing())
    has = ~first.missing()
    return np.linalg.norm(first.cube[has] - second.cube[has]) / np.linalg.norm(first.cube[has])


@pytest.mark.parametrize("side", [768, 64])
def test_operators_and_units_are_estimated_in_tiles_as_in_the_whole(side, tmp_path, capsys, monkeypatch):
    """A window of the scene where that is smaller than it."""
    monkeypatch.setattr("fastccpd.rasters.tile_estimates._SIDES", (side,))
    _, hsi, msi, _ = small_pair((160, 128, 36), kind="reflect")
    hsi = hsi.copy()
    hsi[14:26, 10:22] = np.nan  # the middle, so that another window is looked at
    rasters.write(tmp_path / "hsi.tif", rasters.Raster(hsi, nodata=np.nan))
    rasters.write(tmp_path / "msi.tif", rasters.Raster(np.float32(1e4) * msi + np.float32(500.0)))
    files = [str(tmp_path / name) for name in ("hsi.tif", "msi.tif")]
    how = "--srf", "landsat", "--psf", "auto", "--match-values", "--method", "tv-maps", "--json"
    assert main(["fuse", *files, "-o", str(tmp_path / "whole.tif"), *how]) in (0, 5)
    capsys.readouterr()
    assert main(["fuse", *files, "-o", str(tmp_path / "tiled.tif"), *how, "--tile", "64", "--workers", "0"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["blur"]["psf"] == "auto"
    assert any("the MSI is brought to the HSI's units" in note for note in told["notes"])
    assert relative(tmp_path / "whole.tif", tmp_path / "tiled.tif") < (0.01 if side == 768 else 0.03)


def test_tiles_are_moved_to_the_place_of_the_hsi_as_the_whole_is(files, tmp_path, capsys):
    how = "--psf", "gaussian,phase=2.1,boundary=reflect", "--place", "hsi", "--method", "gsa", "--fill-nodata", "--json"
    by = []
    for name, tiles in (("whole.tif", ()), ("tiled.tif", ("--tile", 48, "--workers", 0))):
        assert run(files, tmp_path / name, *how, *tiles) in (0, 5)
        by.append(json.loads(capsys.readouterr().out)["alignment"]["result_moved"])
    np.testing.assert_allclose(by, [(-0.6, -0.6)] * 2, atol=0.05)
    assert relative(tmp_path / "whole.tif", tmp_path / "tiled.tif") < 0.05
    assert rasters.read(tmp_path / "tiled.tif").missing().sum() == 10 * 12  # of 9 by 11, a row and a column more


def test_the_response_alone_is_estimated_in_tiles(files, tmp_path, capsys):
    how = "--srf", "auto", "--psf", PLAIN[-1], "--method", "tv-maps", "--quiet"
    assert main(["fuse", *files, "-o", str(tmp_path / "whole.tif"), *how]) in (0, 5)
    assert main(["fuse", *files, "-o", str(tmp_path / "tiled.tif"), *how, "--tile", "48", "--workers", "0"]) == 0
    assert relative(tmp_path / "whole.tif", tmp_path / "tiled.tif") < 0.01


def test_gaps_are_filled_in_tiles_for_methods_that_leave_out_nothing(files, tmp_path, capsys):
    how = "--method", "gsa", "--quiet"
    assert run(files, tmp_path / "whole.tif", *how, "--fill-nodata") == 0
    assert run(files, tmp_path / "tiled.tif", *how, "--fill-nodata", "--tile", 48, "--workers", 0) == 0
    assert relative(tmp_path / "whole.tif", tmp_path / "tiled.tif") < 0.05
    assert run(files, tmp_path / "not.tif", *how, "--tile", 48, "--workers", 0) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "gsa" in line
    assert "--fill-nodata" in line


def test_a_run_that_was_killed_after_its_output_was_written_is_resumed(files, tmp_path, monkeypatch):
    """Of the two files that are written the first is in its place; one that was there before is not replaced."""
    out, error = tmp_path / "out.tif", tmp_path / "error.tif"
    how = "--tile", 48, "--workers", 0, "--quiet", "--uncertainty", error

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fastccpd.rasters.tiling.map_raster", killed)
        assert run(files, out, *how) == 130
    written = out.read_bytes()
    assert not error.exists()
    error.write_bytes(b"mine")
    os.utime(error, (1.0, 1.0))
    assert run(files, out, *how, "--resume") == 2
    assert error.read_bytes() == b"mine"
    error.unlink()
    assert run(files, out, *how, "--resume") == 0
    assert out.read_bytes() == written
    assert error.exists()


def test_formats_that_are_not_streamed_are_named(files, tmp_path, capsys):
    assert run(files, tmp_path / "out.mat", "--tile", 40) == 2
    assert "out.mat: is not written in tiles; one of .tif, .tiff, .zarr, .npy is needed" in capsys.readouterr().err


def test_ctrl_c_leaves_tiles_and_resume_gives_the_same_bytes(files, tmp_path):
    unbroken, broken = tmp_path / "unbroken.tif", tmp_path / "broken.tif"
    assert run(files, unbroken, "--tile", 32, "--workers", 0, "--quiet") == 0
    root = str(Path(fastccpd.__file__).parents[1])
    command = [sys.executable, "-m", "fastccpd", "fuse", *files, "-o", str(broken), *PLAIN, "--tile", "32"]
    process = subprocess.Popen(
        [*command, "--workers", "1"], stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}
    )
    folder = tiling.folder_of(broken)
    while not list(folder.glob("tile-*.npz")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.endswith(f"kept in {folder}, and the same command with --resume goes on\n")
    assert not broken.exists()
    assert run(files, broken, "--tile", 32) == 2  # neither resumed nor thrown away unasked
    assert run(files, broken, "--tile", 32, "--workers", 0, "--quiet", "--resume") == 0
    # All but the paths, which stand in neither.
    assert broken.read_bytes() == unbroken.read_bytes()
