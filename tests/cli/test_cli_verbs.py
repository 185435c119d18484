"""The other verbs, and what all of them share: help, version, errors."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from fastccpd.kernels import jit
from pair_files import SHAPE, SUFFIXES, UTM_33, grid, pair, write_pair

import fastccpd
from fastccpd import imaging, methods, rasters
from fastccpd.cli import main
from fastccpd.imaging import scenes
from fastccpd.machine import EXTRAS

ROOT = Path(fastccpd.__file__).parents[1]
VERBS = ("demo", "fuse", "batch", "simulate", "score", "experiment", "info", "methods", "warmup")


def run(*arguments):
    return main([str(argument) for argument in arguments])


def told(capsys, *arguments):
    """What a verb prints as JSON."""
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *arguments):
    assert run(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("fastccpd: ")


def process(*arguments, **settings):
    command = [sys.executable, "-m", "fastccpd", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | settings.pop("env", {})
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, **settings)


class TestEverywhere:
    """What is the same for all verbs."""

    def test_no_verb_prints_the_help_and_exits_with_two(self, capsys):
        assert run() == 2
        printed = capsys.readouterr()
        assert all(f"\n    {verb}" in printed.out for verb in VERBS)
        assert printed.err == ""

    def test_the_version_is_printed(self, capsys):
        assert run("--version") == 0
        assert capsys.readouterr().out.startswith("fastccpd ")

    @pytest.mark.parametrize("verb", VERBS)
    def test_every_verb_has_help(self, verb, capsys):
        assert run(verb, "--help") == 0
        assert f"usage: fastccpd {verb}" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["fly"], "argument COMMAND: invalid choice: 'fly'"),
            (["fuse"], "the following arguments are required: HSI, MSI, -o/--output (see fastccpd fuse --help)"),
            (["fuse", "a", "b", "-o", "c", "--rank", "x"], "argument --rank: got 'x'; a whole number, three as in"),
            (["fuse", "a", "b", "-o", "c", "--option", "x"], "argument --option: got 'x'; NAME=VALUE is needed"),
            (
                ["fuse", "a", "b", "-o", "c", "--srf", "x", "--bands", "1"],
                "argument --bands: not allowed with argument",
            ),
            (["score", "a", "b"], "the following arguments are required: --ratio"),
            (["info", "--colour"], "unrecognized arguments: --colour"),
        ],
    )
    def test_bad_usage_is_one_line(self, arguments, sentence, capsys):
        assert refused(capsys, *arguments).startswith(sentence)

    def test_module_and_errors_work_in_a_process_of_their_own(self, tmp_path):
        done = process("score", "no.npy", "no.npy", "--ratio", 4, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == "fastccpd: no.npy: cannot be read (no such file or directory)\n"

    def test_a_closed_pipe_is_no_error(self, tmp_path):
        script = (
            "import sys; from fastccpd.cli import main;"
            "sys.stdin.read(1);"  # until the reader has gone
            "sys.exit(main(['methods', 'hysure']))"
        )
        reading, writing = os.pipe()
        child = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        os.close(writing)
        os.close(reading)
        _, errors = child.communicate("x", timeout=120)
        assert errors == ""
        assert child.returncode == 141

    def test_a_terminal_that_knows_ascii_only_is_no_error(self):
        done = process("methods", "nn-ccpd-nls", env={"PYTHONIOENCODING": "ascii"})
        assert done.returncode == 0
        assert done.stderr == ""

    def test_importing_the_package_imports_no_extra(self):
        script = (
            "import sys, fastccpd, fastccpd.cli;"
            "found = {'matplotlib', 'rich', 'spectral', 'rasterio', 'h5py', 'skimage', 'tensorly'} & set(sys.modules);"
            "sys.exit(', '.join(found) or 0)"
        )
        subprocess.run(
            [sys.executable, "-c", script], check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=120
        )

    def test_warnings_of_the_library_are_one_line(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        arguments = ["fuse", hsi, msi, "-o", tmp_path / "f.npz", "--srf", "landsat", "--quiet", "--method", "scott"]
        assert run(*arguments, "--rank", "12,12,12") == 0
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("fastccpd: warning: rank: ")


class TestSimulate:
    """A scene to a pair."""

    @pytest.mark.parametrize("form", SUFFIXES)
    def test_the_three_files_are_those_of_the_library(self, form, tmp_path, capsys):
        assert (
            run("simulate", "synthetic:24x20x36", "-o", f"{tmp_path}/out/", "--format", form, "--snr", 20, "--seed", 3)
            == 0
        )
        scene = scenes.synthetic(SHAPE, rng=3)
        rng = np.random.default_rng(3)
        clean = imaging.degrade(scene.cube, imaging.preset("stereo", SHAPE))
        expected = [*(imaging.add_noise(image, 20.0, rng) for image in clean), scene.cube]
        for name, cube in zip(("hsi", "msi", "truth"), expected, strict=True):
            found = rasters.read(tmp_path / "out" / f"{name}{SUFFIXES[form]}")
            np.testing.assert_array_equal(found.cube, cube)
            assert form == "npy" or found.wavelengths is not None
        assert "next   fastccpd fuse" in capsys.readouterr().out

    def test_the_pair_fuses_as_the_last_line_says(self, tmp_path, capsys):
        run(
            "simulate",
            "synthetic:24x20x36",
            "-o",
            tmp_path / "a",
            "--snr",
            40,
            "--psf",
            "scott",
            "--bands",
            "1-9,10-20",
        )
        command = capsys.readouterr().out.splitlines()[-1].split()
        assert command[:3] == ["next", "fastccpd", "fuse"]
        assert command[3] == str(tmp_path / "a-hsi.npz")
        arguments = [*command[2:], "--rank", "2", "--max-iter", "2", "--quiet"]
        arguments[arguments.index("-o") + 1] = str(tmp_path / "f.npz")
        assert run(*arguments) == 4
        assert rasters.read(tmp_path / "f.npz").shape == SHAPE

    @pytest.mark.parametrize("psf", [None, "stereo", "scott", "gaussian,phase=0.5"])
    def test_a_georeferenced_scene_gives_a_georeferenced_pair_that_agrees_with_its_blur(self, psf, tmp_path, capsys):
        truth, _, _ = pair(georeferenced=True)
        rasters.write(tmp_path / "scene.tif", truth)
        settings = [] if psf is None else ["--psf", psf]
        assert run("simulate", tmp_path / "scene.tif", "-o", tmp_path / "s", "--format", "tif", *settings) == 0
        capsys.readouterr()
        files = [tmp_path / f"s-{name}.tif" for name in ("hsi", "msi")]
        quick = ["--srf", "landsat", "--rank", 2, "--max-iter", 1, "--quiet", "--grid", "msi"]
        assert run("fuse", *files, "-o", tmp_path / "f.tif", *quick, *settings) == 4
        # An HSI that is moved beyond the MSI is cropped, and the blur of before is then said not to fit.
        cropped = psf in ("stereo", "gaussian,phase=0.5")
        assert ("warning" in capsys.readouterr().err) == cropped
        hsi, msi = (rasters.read(file) for file in files)
        assert msi.georeference.transform == truth.georeference.transform
        a, _, c, _, e, f = hsi.georeference.transform
        assert (a, e) == (40.0, -40.0)
        moved = {None: 0.0, "stereo": 15.0, "scott": -5.0, "gaussian,phase=0.5": -10.0}[psf]
        corner = grid(40.0, down=moved, right=moved).transform
        np.testing.assert_allclose((c, f), (corner[2], corner[5]), atol=1e-6)

    def test_the_msi_has_its_own_noise_where_asked(self, tmp_path):
        run("simulate", "synthetic:24x20x36", "-o", f"{tmp_path}/", "--snr", 10, "--snr-msi", "inf", "--quiet")
        _, clean = imaging.degrade(scenes.synthetic(SHAPE).cube, imaging.preset("stereo", SHAPE))
        np.testing.assert_array_equal(rasters.read(tmp_path / "msi.npz").cube, clean)

    def test_a_scene_is_cropped_to_multiples_of_the_ratio_and_says_so(self, tmp_path, capsys):
        truth, _, _ = pair(georeferenced=True)
        rasters.write(tmp_path / "scene.npz", truth)
        assert run("simulate", tmp_path / "scene.npz", "-o", tmp_path / "s", "--ratio", 7) == 0
        assert "the scene is cropped from 24×20 to 21×14 pixels, multiples of 7" in capsys.readouterr().err
        found = rasters.read(tmp_path / "s-truth.npz")
        np.testing.assert_array_equal(found.cube, truth.cube[:21, :14])
        assert rasters.read(tmp_path / "s-hsi.npz").shape == (3, 2, 36)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["atlantis"], "SCENE: got 'atlantis'; a file, synthetic, or one of salinas-a"),
            (["synthetic:20x20"], "SCENE: got 'synthetic:20x20'; synthetic or synthetic:ROWSxCOLSxBANDS is needed"),
            (["synthetics"], "SCENE: got 'synthetics'"),
            (["no.tif"], "no.tif: cannot be read (no such file"),
            (["synthetic:24x20x36", "--ratio", "30"], "--ratio: got 30, but the scene is 24×20×36; it must be larger"),
            (["synthetic:24x20x36", "--snr", "nan"], "--snr: got nan; a number of dB, or inf for no noise"),
            (["synthetic:24x20x36", "--seed", "-1"], "--seed: got -1"),
            (["synthetic:24x20x9"], "n_bands: got 9, too few for every Landsat band to see one"),
        ],
    )
    def test_what_cannot_be_simulated_is_refused(self, arguments, sentence, tmp_path, capsys):
        assert refused(capsys, "simulate", *arguments, "-o", tmp_path / "s", "--quiet").startswith(sentence)
        assert not list(tmp_path.iterdir())

    def test_existing_files_are_refused_without_force(self, tmp_path, capsys):
        (tmp_path / "truth.npz").write_text("mine")
        sentence = refused(capsys, "simulate", "synthetic:24x20x36", "-o", tmp_path, "--quiet")
        assert sentence == f"{tmp_path}/truth.npz: exists already; --force overwrites it"
        assert run("simulate", "synthetic:24x20x36", "-o", tmp_path, "--quiet", "--force") == 0

    def test_a_scene_with_gaps_is_refused_with_the_count(self, tmp_path, capsys):
        truth, _, _ = pair()
        truth.cube[3, 4, 5] = np.nan
        rasters.write(tmp_path / "scene.npz", truth)
        sentence = refused(capsys, "simulate", tmp_path / "scene.npz", "-o", tmp_path / "s", "--quiet")
        assert sentence.startswith(f"{tmp_path}/scene.npz: 1 of 480 pixels are nodata; a scene without gaps is needed")

    @pytest.mark.scenes
    def test_real_scenes_are_known_by_name(self, tmp_path, data_folder, capsys):
        assert run("simulate", "salinas-a", "-o", f"{tmp_path}/", "--format", "envi", "--snr", 20) == 0
        assert rasters.header(tmp_path / "hsi.hdr").shape == (20, 21, 204)


class TestScore:
    """An estimate against a reference."""

    def files(self, folder):
        truth, _, _ = pair()
        noisy = replace(truth, cube=imaging.add_noise(truth.cube, 25.0, 0))
        paths = folder / "estimate.npz", folder / "truth.tif"
        for path, image in zip(paths, (noisy, truth), strict=True):
            rasters.write(path, image)
        return *paths, noisy.cube, truth.cube

    def test_the_metrics_are_those_of_the_library(self, tmp_path, capsys):
        estimate, reference, noisy, truth = self.files(tmp_path)
        scores = told(capsys, "score", estimate, reference, "--ratio", 4, "--lee")["scores"]
        for name, cube in (("estimate", noisy), ("after a Lee filter", imaging.lee(noisy))):
            expected = imaging.score(cube, truth, 4)
            assert scores[name] == {key: value for key, value in expected.items() if key != "left_out"}

    def test_a_table_is_printed(self, tmp_path, capsys):
        estimate, reference, *_ = self.files(tmp_path)
        assert run("score", estimate, reference, "--ratio", 4) == 0
        head, row = capsys.readouterr().out.splitlines()
        assert head.split()[:3] == ["R-SNR", "(dB)", "RMSE"]
        assert row.startswith("estimate")
        assert float(row.split()[1]) == pytest.approx(25.0, abs=0.2)

    def test_pixels_without_data_are_left_out_and_said(self, tmp_path, capsys):
        estimate, reference, noisy, truth = self.files(tmp_path)
        noisy[2, 3] = -1.0
        rasters.write(estimate, rasters.Raster(noisy, nodata=-1.0), overwrite=True)
        found = told(capsys, "score", estimate, reference, "--ratio", 4)
        assert found["pixels"] == 479
        assert "1 of 480 pixels are nodata" in found["notes"][0]
        valid = np.ones(SHAPE[:2], bool)
        valid[2, 3] = False
        scores = found["scores"]["estimate"]
        assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((noisy[valid] - truth[valid]) ** 2)))
        assert "uiqi" not in scores
        assert "uiqi and ssim need whole images" in found["warnings"][0]

    def test_a_filter_does_not_spread_a_gap_into_its_neighbours(self, tmp_path, capsys):
        estimate, reference, noisy, truth = self.files(tmp_path)
        noisy[2, 3] = noisy[2, 4]
        expected = imaging.lee(noisy)
        noisy[2, 3] = np.nan
        rasters.write(estimate, rasters.Raster(noisy), overwrite=True)
        found = told(capsys, "score", estimate, reference, "--ratio", 4, "--lee")
        valid = np.ones(SHAPE[:2], bool)
        valid[2, 3] = False
        error = np.sqrt(np.mean((expected[valid] - truth[valid]) ** 2))
        # The gap is filled from one of its four nearest neighbours, whichever it is.
        assert found["scores"]["after a Lee filter"]["rmse"] == pytest.approx(error, rel=1e-2)

    def test_images_of_different_size_are_refused(self, tmp_path, capsys):
        estimate, *_ = self.files(tmp_path)
        np.save(tmp_path / "small.npy", np.ones((24, 19, 36)))
        sentence = refused(capsys, "score", estimate, tmp_path / "small.npy", "--ratio", 4)
        assert sentence == "estimate: 24×20×36, but the reference is 24×19×36; they must agree"


class TestInfo:
    """Files, alignment, machine."""

    def test_it_tells_what_is_in_the_files(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True, down=5.0)
        found = told(capsys, "info", hsi, msi, "--rank", 7)
        first, second = found["files"]
        assert first["shape"] == [6, 5, 36]
        assert first["wavelengths"] == [400.0, 2500.0]
        assert "UTM zone 33N" in first["crs"]
        assert "missing" not in first
        assert second["layout"].startswith("stored as (bands, rows, columns)")
        assert found["pair"]["ratio"] == 4
        assert found["pair"]["offset"] == pytest.approx([0.5, 0.0])
        assert found["pair"]["memory"]["work"] == fastccpd.memory_needed((5, 5, 36), (20, 20, 6), rank=7)
        assert found["pair"]["resampled"] == {"hsi": 0.0, "msi": 1.0}
        assert found["pair"]["notes"][0].startswith("the HSI is cropped from 6×5 to 5×5 pixels")
        assert found["machine"]["threads"] == numba.config.NUMBA_NUM_THREADS
        assert set(found["versions"]) >= {"fastccpd", "python", "numpy", "numba", *EXTRAS["io"]}

    def test_a_scan_counts_the_pixels_without_data(self, tmp_path, capsys):
        _, hsi, _ = pair()
        hsi.cube[1, 2, 3] = -5.0
        rasters.write(tmp_path / "h.hdr", replace(hsi, nodata=-5.0))
        (file,) = told(capsys, "info", tmp_path / "h.hdr", "--scan")["files"]
        assert file["missing"] == 1
        assert file["nodata"] == -5.0
        assert file["sha256"] == rasters.sha256(tmp_path / "h.img")

    def test_a_scan_counts_bands_without_data_apart_from_pixels(self, tmp_path, capsys):
        _, hsi, _ = pair(snr=20.0)
        hsi.cube[1, 2, 3] = hsi.cube[:, :, 5:7] = -5.0
        rasters.write(tmp_path / "h.hdr", replace(hsi, nodata=-5.0))
        (file,) = told(capsys, "info", tmp_path / "h.hdr", "--scan")["files"]
        assert (file["missing"], file["empty_bands"]) == (1, 2)
        assert file["snr_db"] == pytest.approx(20.0, abs=1.0)
        assert run("info", tmp_path / "h.hdr", "--scan") == 0
        assert f"without data   1 of 30 pixels, and 2 of {SHAPE[2]} bands" in capsys.readouterr().out

    def test_a_scan_estimates_the_noise_of_good_bands_and_pixels_with_data(self, tmp_path, capsys):
        _, hsi, msi = pair(snr=20.0)
        hsi.cube[1, 2, 3] = -5.0
        spoiled = hsi.cube.copy()
        spoiled[:, :, 5] = 1e6
        rasters.write(tmp_path / "h.hdr", replace(hsi, cube=spoiled, nodata=-5.0, bad_bands=np.arange(SHAPE[2]) == 5))
        rasters.write(tmp_path / "m.npz", msi)
        files = tmp_path / "h.hdr", tmp_path / "m.npz"
        first, second = told(capsys, "info", *files, "--scan")["files"]
        assert first["snr_db"] == pytest.approx(20.0, abs=1.0)
        assert second["snr_db"] == pytest.approx(20.0, abs=2.0)
        assert run("info", *files, "--scan") == 0
        assert f"estimated SNR  {first['snr_db']:.1f} dB" in capsys.readouterr().out
        assert "snr_db" not in told(capsys, "info", *files)["files"][0]
        assert run("info", *files) == 0
        assert "estimated SNR  --scan tells it" in capsys.readouterr().out

    def test_a_scan_of_what_has_no_noise_to_estimate_says_so(self, tmp_path, capsys):
        np.save(tmp_path / "empty.npy", np.full((4, 5, 3), np.nan))
        np.save(tmp_path / "infinite.npy", np.full((4, 5, 3), np.inf))
        for name in ("empty.npy", "infinite.npy"):
            assert told(capsys, "info", tmp_path / name, "--scan")["files"][0]["snr_db"] is None
            assert run("info", tmp_path / name, "--scan") == 0
            assert "estimated SNR  not known" in capsys.readouterr().out

    def test_images_that_do_not_belong_together_are_told_apart(self, tmp_path, capsys):
        np.save(tmp_path / "a.npy", np.ones((5, 4, 9)))
        np.save(tmp_path / "b.npy", np.ones((20, 15, 3)))
        assert run("info", tmp_path / "a.npy", tmp_path / "b.npy") == 0
        assert "cannot be fused: msi: its 20 rows and 15 columns are 4 and 3.75 times" in capsys.readouterr().out

    def test_the_text_names_grid_nodata_and_what_is_missing(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "envi", georeferenced=True)
        assert run("info", hsi, msi, "--scan") == 0
        printed = capsys.readouterr().out
        assert "first corner 600000, 4600000, pixels 40 by 40" in printed
        assert "0.00 MSI pixels down and 0.00 right of the MSI's" in printed
        assert "without data   0 of 30 pixels" in printed
        assert "kernel cache" in printed

    def test_every_package_of_an_extra_is_named(self, capsys):
        assert run("info") == 0
        lines = capsys.readouterr().out.splitlines()
        for package in ("rich", "matplotlib", "rasterio", "h5py", "spectral", "scikit-image", "tensorly"):
            (line,) = [line for line in lines if line.startswith(package)]
            assert line.split()[1][0].isdigit() or "not installed; pip install" in line


class TestMethods:
    """What there is to fuse with."""

    def test_every_method_is_listed_with_its_first_line(self, capsys):
        listed = told(capsys, "methods")
        assert set(listed) == set(methods.names())
        assert listed["hysure"] == "Subspace-based fusion with vector total variation."
        assert run("methods") == 0
        assert len(capsys.readouterr().out.splitlines()) == len(listed)

    @pytest.mark.parametrize("name", methods.names())
    def test_the_options_of_a_method_are_described(self, name, capsys):
        described = told(capsys, "methods", name)["options"]
        assert tuple(described) == methods.get(name).option_names()
        assert run("methods", name) == 0
        printed = capsys.readouterr().out
        assert all(f"\n  {option}=" in printed for option in described)

    @pytest.mark.parametrize("name", methods.names())
    def test_every_option_of_a_method_has_a_type_and_a_text(self, name, capsys):
        for option, known in told(capsys, "methods", name)["options"].items():
            kind, _, text = known["text"].partition(": ")
            assert kind, option
            assert text.endswith("."), option
        assert run("methods", name) == 0
        printed = capsys.readouterr().out
        for option in methods.get(name).option_names():
            after = printed.partition(f"\n  {option}=")[2].splitlines()[1]
            assert after.startswith("      "), option

    @pytest.mark.parametrize("name", methods.names())
    def test_the_paper_of_a_method_is_printed(self, name, capsys):
        assert run("methods", name) == 0
        assert "\nReferences:\n  [1] " in capsys.readouterr().out

    def test_documentation_comes_from_the_method_or_its_base(self, capsys):
        assert told(capsys, "methods", "hysure")["options"]["lambda_m"] == {
            "default": 1.0,
            "text": "float: Weight of the MSI's misfit.",
        }
        assert told(capsys, "methods", "nn-ccpd-nls")["options"]["xtol"]["text"].startswith(
            "float: Stop when a step is shorter"
        )

    def test_an_unknown_method_is_refused_with_the_known_ones(self, capsys):
        assert refused(capsys, "methods", "hysur").startswith("method: got 'hysur'; did you mean 'hysure'?")


@pytest.mark.skipif(jit.CACHE_DIRECTORY is None, reason="the kernel cache is turned off")
def test_after_a_warmup_nothing_is_compiled(tmp_path):
    """On a copy of the cache that the other tests have filled, so that not all has to be compiled once more."""
    cache = tmp_path / "cache"
    shutil.copytree(jit.CACHE_DIRECTORY, cache / jit.CACHE_DIRECTORY.name)
    environment = {"NUMBA_CACHE_DIR": str(cache), "FASTCCPD_DATA": ""}
    warm = process("warmup", "--json", env=environment, cwd=tmp_path)
    assert warm.returncode == 0, warm.stderr
    done = json.loads(warm.stdout)
    assert done["cache"].startswith(str(cache))
    assert done["routines"] > 20

    def files():
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}

    before = files()
    hsi, msi, _ = write_pair(tmp_path)
    fused = process("fuse", hsi, msi, "-o", "f.npz", "--srf", "landsat", "--max-iter", 2, env=environment, cwd=tmp_path)
    assert fused.returncode == 4, fused.stderr
    single = process(
        "fuse",
        hsi,
        msi,
        "-o",
        "g.npz",
        "--srf",
        "landsat",
        "--max-iter",
        2,
        "--dtype",
        "float32",
        env=environment,
        cwd=tmp_path,
    )
    assert single.returncode == 4, single.stderr
    assert files() == before


def test_utm_is_understood():
    # The fixture's coordinate system must be one for the tests above to say anything.
    crs = pytest.importorskip("rasterio.crs")
    assert crs.CRS.from_wkt(UTM_33).to_epsg() == 32633
