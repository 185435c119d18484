"""`fastccpd fuse`, end to end on small files of every format."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pair_files import RATIO, SHAPE, SUFFIXES, grid, pair, write_pair
from scipy import io

import fastccpd
from fastccpd import rasters
from fastccpd.cli import main
from fastccpd.estimation import snr_db
from fastccpd.imaging import gaussian, landsat, preset
from fastccpd.rasters import gaps, operators
from fastccpd.report.figures import snr_name

QUICK = ["--rank", "3", "--max-iter", "3"]


def fuse(*arguments, srf=True):
    """Written in float64, unless a dtype is asked for: what is compared with Python must be whole."""
    whole = [] if {"--dtype", "--output-dtype"} & set(arguments) else ["--output-dtype", "float64"]
    return main(["fuse", *map(str, arguments), *QUICK, *whole, *(["--srf", "landsat"] if srf else [])])


def fused_json(capsys, *arguments, srf=True):
    code = fuse(*arguments, "--json", srf=srf)
    return code, json.loads(capsys.readouterr().out)


def refused(capsys, *arguments, srf=True):
    """The one line of a refusal."""
    capsys.readouterr()
    assert fuse(*arguments, srf=srf) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("fastccpd: ")
    return line.removeprefix("fastccpd: ")


def centred():
    """The operators of a pair that is georeferenced."""
    return fastccpd.Degradation(*gaussian(SHAPE[:2], RATIO, phase=1.5, boundary="reflect"), landsat(SHAPE[2]))


@pytest.mark.parametrize("form", SUFFIXES)
def test_every_format_gives_what_python_gives(form, tmp_path):
    hsi, msi, _ = write_pair(tmp_path, form)
    out = tmp_path / f"fused{SUFFIXES[form]}"
    assert fuse(hsi, msi, "-o", out, "--seed", 5) == 4
    _, h, m = pair()
    expected = fastccpd.fuse(h.cube, m.cube, preset("stereo", SHAPE), rank=3, max_iter=3, rng=5).sri
    found = rasters.read(out)
    np.testing.assert_array_equal(found.cube, expected)
    if form != "npy":
        np.testing.assert_allclose(found.wavelengths, h.wavelengths, rtol=1e-9)
        np.testing.assert_allclose(found.fwhm, h.fwhm, rtol=1e-9)


def test_what_the_format_of_the_output_cannot_carry_is_said(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path, georeferenced=True)
    _, told = fused_json(capsys, hsi, msi, "-o", tmp_path / "f.npy")
    lost = "is written without wavelengths, fwhm, georeference, tags, which this format cannot carry"
    assert told["warnings"] == [f"{tmp_path}/f.npy: {lost}"]


@pytest.mark.parametrize("form", ["npz", "mat", "envi", "tif"])
def test_the_output_takes_the_msi_grid_and_the_hsi_wavelengths(form, tmp_path, capsys):
    hsi, msi, truth = write_pair(tmp_path, form, georeferenced=True)
    out = tmp_path / f"fused{SUFFIXES[form]}"
    code, told = fused_json(capsys, hsi, msi, "-o", out)
    assert code == 4
    found = rasters.read(out)
    np.testing.assert_allclose(found.georeference.transform, truth.georeference.transform, rtol=1e-12)
    assert found.georeference.same_crs(truth.georeference)
    np.testing.assert_allclose(found.wavelengths, truth.wavelengths, rtol=1e-9)
    assert told["alignment"]["ratio_from"] == "georeferencing"
    sigma = told["blur"].pop("sigma")
    assert sigma == pytest.approx(4 / np.sqrt(8 * np.log(2)))
    assert told["blur"] == {"psf": "gaussian", "phase": 1.5, "boundary": "reflect", "kernel": 14, "assumed": True}
    assert "phase 1.5" in " ".join(told["notes"])
    assert told["warnings"] == []


def test_what_is_inferred_is_said(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path, "npy")
    fuse(hsi, msi, "-o", tmp_path / "fused.npz")
    told = capsys.readouterr().err
    for sentence in (
        "hsi: 6×5×36 float64, stored as (rows, columns, bands), the order taken where band_axis is not given",
        "the ratio is 4, by sizes",
        "the blur is taken to be the stereo convention, of σ 1.6",
        "MSI pixels; give --psf if that is not so",
    ):
        assert sentence in told


def test_quiet_says_nothing_but_why_it_stopped(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    out = tmp_path / "fused.npz"
    fuse(hsi, msi, "-o", out, "--quiet")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"fastccpd: not converged (stopped: the iteration limit is reached); the result is written to {out}\n"
    )


def test_a_converged_run_exits_with_zero(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    arguments = [
        "fuse",
        hsi,
        msi,
        "-o",
        str(tmp_path / "fused.npz"),
        "--srf",
        "landsat",
        "--rank",
        "2",
        "--tol",
        "0.05",
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "converged: the cost no longer changes" in printed.out
    assert "not converged" not in printed.err


def test_json_holds_everything_and_nothing_else_is_on_stdout(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    out = tmp_path / "fused.npz"
    method = "--method", "nn-ccpd-nls"
    code, told = fused_json(capsys, hsi, msi, "-o", out, *method, "--starts", 2, "--threads", 1)
    assert code == 4
    assert told["status"] == "max_iterations"
    assert told["converged"] is False
    assert told["interrupted"] is False
    assert told["n_iter"] == 3
    assert told["options"]["rank"] == 3
    assert len(told["start_costs"]) == 2
    assert told["cost"] == min(told["start_costs"])
    assert told["threads"] == 1
    assert told["files"]["hsi"]["sha256"] == rasters.sha256(hsi)
    assert told["files"]["hsi"]["shape"] == [6, 5, 36]
    assert told["files"]["output"] == {"path": str(out), "shape": list(SHAPE), "dtype": "float64"}
    assert {"fastccpd", "numpy", "scipy", "numba", "python"} <= set(told["versions"])
    found, (_, h, m) = rasters.read(out).cube, pair()
    degraded = fastccpd.imaging.degrade(found, preset("stereo", SHAPE))
    for name, image, seen in zip(("hsi", "msi"), (h.cube, m.cube), degraded, strict=True):
        expected = np.linalg.norm(image - seen) / np.linalg.norm(image)
        assert told["residuals"][name] == pytest.approx(expected, rel=1e-12)


def test_precision_is_that_of_the_data_or_as_asked(tmp_path):
    hsi, msi, _ = write_pair(tmp_path, dtype=np.float32)
    for n, (asked, expected) in enumerate([([], np.float32), (["--dtype", "float64"], np.float64)]):
        main(["fuse", str(hsi), str(msi), "-o", str(tmp_path / f"{n}.npz"), "--srf", "landsat", *QUICK, *asked])
        assert rasters.read(tmp_path / f"{n}.npz").dtype == expected


def test_counts_are_fused_in_double_precision(tmp_path):
    _, h, m = pair()
    for name, image in (("h", h), ("m", m)):
        rasters.write(tmp_path / f"{name}.tif", replace(image, cube=(1e4 * image.cube).clip(0).astype(np.uint16)))
    fuse(tmp_path / "h.tif", tmp_path / "m.tif", "-o", tmp_path / "f.tif")
    assert rasters.read(tmp_path / "f.tif").dtype == np.float64


def test_a_variable_is_picked_by_name_and_the_band_axis_by_number(tmp_path):
    _, h, m = pair()
    io.savemat(tmp_path / "all.mat", {"H": np.moveaxis(h.cube, 2, 0), "M": np.moveaxis(m.cube, 2, 0)})
    both = [f"{tmp_path}/all.mat::{name}" for name in "HM"]
    fuse(*both, "-o", tmp_path / "moved.npy", "--band-axis", 0)
    hsi, msi, _ = write_pair(tmp_path, "npz")
    fuse(hsi, msi, "-o", tmp_path / "plain.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "moved.npy"), np.load(tmp_path / "plain.npy"))


def test_the_band_axis_is_for_files_that_do_not_say_it_themselves(tmp_path):
    _, h, _ = pair()
    np.save(tmp_path / "h.npy", np.moveaxis(h.cube, 2, 0))
    _, msi, _ = write_pair(tmp_path, "tif")
    assert fuse(tmp_path / "h.npy", msi, "-o", tmp_path / "f.npy", "--band-axis", 0) == 4
    rasters.write(tmp_path / "m.bip", rasters.read(msi))
    assert fuse(tmp_path / "h.npy", tmp_path / "m.bip", "-o", tmp_path / "g.npy", "--band-axis", 0) == 4
    np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), np.load(tmp_path / "g.npy"))


def test_options_of_the_method_are_passed_on(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path)
    settings = ["--option", "step=dogleg", "--option", "ridge=0.5", "--option", 'nonnegative-modes=["bands"]']
    papers = ["--method", "nn-ccpd-nls", *settings]
    _, told = fused_json(capsys, hsi, msi, "-o", tmp_path / "f.npz", *papers, "--tol", 0.25)
    assert told["options"]["step"] == "dogleg"
    assert told["options"]["ridge"] == 0.5
    assert told["options"]["nonnegative_modes"] == ["bands"]
    assert told["options"]["ftol"] == 0.25
    arguments = [hsi, msi, "-o", str(tmp_path / "g.npz"), "--srf", "landsat", "--method", "scott", "--rank", "4,4,3"]
    assert main(["fuse", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["options"]["rank"] == [4, 4, 3]


def test_methods_of_the_fourier_domain_get_a_periodic_blur(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path, georeferenced=True)
    arguments = [
        hsi,
        msi,
        "-o",
        str(tmp_path / "f.npz"),
        "--srf",
        "landsat",
        "--method",
        "fuse-sylvester",
        "--rank",
        "3",
    ]
    assert main(["fuse", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blur"]["boundary"] == "periodic"


class TestOperators:
    """--psf, --srf and --bands."""

    @pytest.mark.parametrize("form", ["npy", "npz", "mat"])
    def test_a_matrix_in_a_file_is_the_response(self, form, tmp_path):
        hsi, msi, _ = write_pair(tmp_path)
        PM = landsat(SHAPE[2]).toarray()
        path = tmp_path / f"response.{form}"
        {
            "npy": lambda: np.save(path, PM),
            "npz": lambda: np.savez(path, other=np.ones(3), PM=PM),
            "mat": lambda: io.savemat(path, {"R": PM}),
        }[form]()
        fuse(hsi, msi, "-o", tmp_path / "by_matrix.npy", "--srf", path, srf=False)
        fuse(hsi, msi, "-o", tmp_path / "by_name.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "by_matrix.npy"), np.load(tmp_path / "by_name.npy"))

    def test_a_matrix_in_matlab_7_3_is_the_response(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        hsi, msi, _ = write_pair(tmp_path)
        with h5py.File(tmp_path / "r.mat", "w", userblock_size=512) as file:
            file["PM"] = landsat(SHAPE[2]).toarray().T
        with open(tmp_path / "r.mat", "r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
        fuse(hsi, msi, "-o", tmp_path / "by_matrix.npy", "--srf", tmp_path / "r.mat::PM", srf=False)
        fuse(hsi, msi, "-o", tmp_path / "by_name.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "by_matrix.npy"), np.load(tmp_path / "by_name.npy"))

    def test_groups_of_bands_are_the_response(self, tmp_path):
        hsi, msi, _ = write_pair(tmp_path)
        members = [row.nonzero()[0] + 1 for row in landsat(SHAPE[2]).toarray()]
        ranges = [f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0]) for group in members]
        ranges[-1] = "+".join(map(str, members[-1]))
        fuse(hsi, msi, "-o", tmp_path / "by_groups.npy", "--bands", ",".join(ranges), srf=False)
        fuse(hsi, msi, "-o", tmp_path / "by_name.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "by_groups.npy"), np.load(tmp_path / "by_name.npy"))

    def test_a_table_is_the_response_at_the_wavelengths_of_the_hsi(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        edges = [(450, 520), (520, 600), (630, 690), (760, 900), (1550, 1770), (2080, 2350)]
        rows = ["band,wavelength_nm,response", "far,3000,1", "far,3100,1"]
        rows += [f"B{n},{x},1" for n, (low, high) in enumerate(edges) for x in (low - 40, high + 40)]
        (tmp_path / "table.csv").write_text("\n".join(rows))
        sentence = refused(capsys, hsi, msi, "-o", tmp_path / "f.npy", "--srf", tmp_path / "table.csv", srf=False)
        assert "cover only 0 % of band far; " in sentence
        assert f"{tmp_path / 'table.csv'}::NAME,NAME picks bands of far, B0, B1" in sentence
        picked = f"{tmp_path / 'table.csv'}::B0,B1,B2,B3,B4,B5"
        assert fuse(hsi, msi, "-o", tmp_path / "f.npy", "--srf", picked, srf=False) == 4

    def test_a_table_needs_wavelengths(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "npy")
        (tmp_path / "table.csv").write_text("wavelength_nm,a\n400,1\n500,1\n")
        sentence = refused(capsys, hsi, msi, "-o", tmp_path / "f.npy", "--srf", tmp_path / "table.csv", srf=False)
        assert sentence.startswith(f"--srf: {tmp_path}/table.csv needs the wavelengths of the HSI's bands, which {hsi}")

    def test_operators_in_a_file_are_the_blur(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        degradation = preset("stereo", SHAPE)
        np.savez(tmp_path / "blur.npz", P1=degradation.P1.toarray(), P2=degradation.P2.toarray())
        fuse(hsi, msi, "-o", tmp_path / "by_file.npy", "--psf", tmp_path / "blur.npz")
        fuse(hsi, msi, "-o", tmp_path / "by_name.npy", "--psf", "stereo")
        np.testing.assert_array_equal(np.load(tmp_path / "by_file.npy"), np.load(tmp_path / "by_name.npy"))
        np.savez(tmp_path / "half.npz", P1=degradation.P1.toarray())
        sentence = refused(capsys, hsi, msi, "-o", tmp_path / "f.npy", "--psf", tmp_path / "half.npz")
        assert sentence == f"{tmp_path}/half.npz: holds P1; P2 is needed"

    def test_a_gaussian_is_what_its_settings_say(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        spec = "gaussian,sigma=1.5,taps=7,phase=2,boundary=zero"
        _, told = fused_json(capsys, hsi, msi, "-o", tmp_path / "f.npz", "--psf", spec)
        assert told["blur"] == {
            "psf": "gaussian",
            "phase": 2.0,
            "boundary": "zero",
            "sigma": 1.5,
            "kernel": 7,
            "assumed": False,
        }

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--psf", "box"], "--psf: got 'box'; stereo, scott, gaussian[,sigma=…"),
            (["--psf", "stereo,sigma=2"], "--psf: got 'stereo,sigma=2'"),
            (["--psf", "gaussian,width=2"], "--psf: got 'width=2' in 'gaussian,width=2'; sigma, taps, phase, boundary"),
            (["--psf", "gaussian,sigma=wide"], "--psf: got 'sigma=wide' in"),
            (["--psf", "gaussian,taps=4.5"], "--psf: got 'taps=4.5' in 'gaussian,taps=4.5'; a whole number is needed"),
            (["--psf", "gaussian,boundary=mirror"], "--psf: got boundary=mirror in"),
            (["--psf", "gaussian,phase=1,taps=4"], "kernel: got 4; an odd number of taps is needed"),
            (["--psf", "missing.npz"], "missing.npz: cannot be read (no such file"),
            (["--bands", "1-5,6-10"], "--bands: 1-5,6-10 describes 2 bands, but the MSI has 6; they must agree"),
            (["--bands", "1-99"], "--bands: got '1-99' in '1-99'; bands from 1 to 36, in order, are needed"),
            (["--bands", "0-3"], "--bands: got '0-3'"),
            (["--bands", "5-3"], "--bands: got '5-3'"),
            (["--bands", "a-b"], "--bands: got 'a-b' in 'a-b'; a band 7 or a range 6-12, counted from 1, is needed"),
            (["--bands", "3+2-4"], "--bands: got '3+2-4', which names a band twice"),
            (["--srf", "nonsense"], "--srf: got 'nonsense'; landsat, a FILE.csv, or a FILE.npy"),
            (["--srf", "missing.csv"], "[Errno 2] No such file or directory: 'missing.csv'"),
        ],
    )
    def test_what_cannot_be_an_operator_is_refused(self, arguments, sentence, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        srf = not {"--srf", "--bands"} & set(arguments) and bool(arguments)
        told = refused(capsys, hsi, msi, "-o", tmp_path / "f.npz", *arguments, srf=srf)
        assert told.startswith(sentence)
        assert not (tmp_path / "f.npz").exists()

    def test_a_matrix_of_the_wrong_size_is_refused(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        np.save(tmp_path / "r.npy", np.ones((6, 35)))
        sentence = refused(capsys, hsi, msi, "-o", tmp_path / "f.npz", "--srf", tmp_path / "r.npy", srf=False)
        assert sentence.endswith("holds shape (6, 35); a column for each of the HSI's 36 bands is needed")
        np.savez(tmp_path / "two.npz", a=np.ones((6, 36)), b=np.ones((6, 36)))
        sentence = refused(capsys, hsi, msi, "-o", tmp_path / "f.npz", "--srf", tmp_path / "two.npz", srf=False)
        assert sentence == f"{tmp_path}/two.npz: holds a, b; PM is needed"

    def test_nothing_pickled_is_loaded(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        np.savez(tmp_path / "bad.npz", PM=np.array([{"a": 1}], dtype=object))
        sentence = refused(capsys, hsi, msi, "-o", tmp_path / "f.npz", "--srf", tmp_path / "bad.npz", srf=False)
        assert "cannot be read as an npz" in sentence


class TestUncertainty:
    """The expected error of each pixel, in a file of its own."""

    @pytest.mark.parametrize("form", ["npz", "mat", "envi", "tif"])
    def test_it_is_an_image_of_one_band_on_the_grid_of_the_msi(self, form, tmp_path, capsys):
        hsi, msi, truth = write_pair(tmp_path, form, georeferenced=True)
        out, other = (tmp_path / f"{name}{SUFFIXES[form]}" for name in ("f", "u"))
        _, told = fused_json(capsys, hsi, msi, "-o", out, "--uncertainty", other, "--dtype", "float32")
        assert told["files"]["uncertainty"] == str(other)
        found = rasters.read(other)
        assert found.shape == (*SHAPE[:2], 1)
        assert found.dtype == np.float32
        assert found.wavelengths is None
        np.testing.assert_allclose(found.georeference.transform, truth.georeference.transform, rtol=1e-12)
        _, *images = pair(georeferenced=True, dtype=np.float32)
        expected = fastccpd.fuse(*(image.cube for image in images), centred(), rank=3, max_iter=3).uncertainty
        np.testing.assert_allclose(found.cube[:, :, 0], expected, rtol=1e-5)

    def test_pixels_without_data_are_marked_in_it_too(self, tmp_path, capsys):
        holed = TestGaps()
        paths = holed.holed(tmp_path)
        fused_json(capsys, *paths, "-o", tmp_path / "f.tif", "--uncertainty", tmp_path / "u.tif")
        found = rasters.read(tmp_path / "u.tif")
        np.testing.assert_array_equal(found.missing(), holed.marked())
        assert found.nodata == -9999.0

    def test_it_is_the_spread_of_starts_whose_mean_is_taken(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        several = ["--method", "nn-ccpd-nls", "--starts", 3, "--combine", "mean"]
        _, told = fused_json(capsys, hsi, msi, "-o", tmp_path / "f.npz", "--uncertainty", tmp_path / "u.npz", *several)
        assert told["combined"] == 3
        assert told["noise"] is None
        assert told["effective_rank"] is None
        _, h, m = pair()
        alike = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 3, "starts": 3, "combine": "mean"}
        expected = fastccpd.fuse(h.cube, m.cube, preset("stereo", SHAPE), **alike)
        np.testing.assert_array_equal(rasters.read(tmp_path / "f.npz").cube, expected.sri)
        np.testing.assert_array_equal(rasters.read(tmp_path / "u.npz").cube[:, :, 0], expected.uncertainty)

    def test_one_start_of_several_has_no_spread_and_says_so(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        several = ["--method", "nn-ccpd-nls", "--starts", 3, "--combine", "mean", "--time-limit", 0]
        _, told = fused_json(capsys, hsi, msi, "-o", tmp_path / "f.npz", "--uncertainty", tmp_path / "u.npz", *several)
        assert told["files"]["uncertainty"] is None
        assert f"{tmp_path}/u.npz: not written, for one start alone has no spread" in told["warnings"]
        assert not (tmp_path / "u.npz").exists()

    @pytest.mark.parametrize(
        ("method", "sentence"),
        [
            ("scott", "--uncertainty: scott tells none; --method tv-maps or auto is needed"),
            (
                "nn-ccpd-nls",
                "--uncertainty: nn-ccpd-nls tells none; --method tv-maps or auto, or several --starts with",
            ),
        ],
    )
    def test_a_method_that_tells_none_is_refused_before_any_work(self, method, sentence, tmp_path, capsys):
        out = ["no.npz", "no.npz", "-o", str(tmp_path / "f.npz"), "--uncertainty", str(tmp_path / "u.npz")]
        assert main(["fuse", *out, "--method", method, "--srf", "landsat"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"fastccpd: {sentence}")

    def test_it_needs_a_file_of_its_own(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "envi")
        out = hsi, msi, "-o", tmp_path / "f.hdr", "--uncertainty"
        assert refused(capsys, *out, tmp_path / "f.img") == (
            f"--uncertainty: {tmp_path}/f.img is the output too; another file is needed"
        )
        assert refused(capsys, *out, msi, "--force").startswith(f"--uncertainty: {msi} is one of the inputs")
        (tmp_path / "u.npz").write_text("mine")
        assert refused(capsys, *out, tmp_path / "u.npz").endswith("exists already; --force overwrites it")


def test_the_summary_has_noise_what_is_shown_rank_and_starts(tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path, snr=20.0)
    out = "-o", tmp_path / "f.npz", "--uncertainty", tmp_path / "u.npz"
    fuse(hsi, msi, *out)
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    found = {name: text.strip() for name, text in lines.items()}
    assert re.fullmatch(r"HSI (19|20|21)\.\d dB, MSI (18|19|20|21|22)\.\d dB", found["estimated SNR"])
    assert re.fullmatch(r"\d maps, weight \d.* of the noise.*", found["shown"])
    assert found["uncertainty"].startswith(f"{tmp_path}/u.npz, expected error 0.")
    fuse(hsi, msi, "-o", tmp_path / "m.npz", "--method", "nn-ccpd-auto", "--starts", 2, "--combine", "mean")
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["effective rank"].strip() == "3 of 3"
    assert re.fullmatch(r"2, final costs .* to .*; the image is the mean of 2", lines["starts"].strip())
    _, told = fused_json(capsys, hsi, msi, "-o", tmp_path / "g.npz", "--method", "nn-ccpd-auto", "--starts", 2)
    assert told["combined"] == 1
    assert told["effective_rank"] == 3
    assert told["noise"]["hsi"]["snr_db"] == pytest.approx(20.0, abs=1.0)
    assert len(told["noise"]["hsi"]["sigma"]) == SHAPE[2]
    assert len(told["noise"]["msi"]["sigma"]) == 6


def test_ratios_are_told_in_words_where_a_number_says_little():
    image = np.ones((3, 4, 2))
    assert snr_name(snr_db(image, np.full(2, 0.1))) == "20.0 dB"
    assert snr_name(snr_db(image, np.full(2, 0.9))) == "−6.3 dB"
    assert snr_name(snr_db(image, np.full(2, 1e-6))) == "above 50 dB (hardly any noise)"
    assert snr_name(snr_db(image, np.full(2, 1.0))) == "nothing but noise"
    image[0, 0] = np.nan
    assert snr_db(image, np.full(2, 0.1)) == pytest.approx(10 * np.log10(99.0))


class TestAlignment:
    """What is said of the two grids."""

    def test_a_sub_pixel_shift_is_reported(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True, down=5.0, right=5.0)
        on_msi = [hsi, msi, "--grid", "msi", "-o"]
        code, told = fused_json(
            capsys, *on_msi, tmp_path / "f.tif", "--report", tmp_path / "r.html", "--psf", "gaussian,phase=1.5"
        )
        assert code == 4
        sentence = "the HSI lies 0.50 MSI pixels down and 0.50 right of where the blur puts it"
        assert told["warnings"] == [f"{sentence}; a blur of phase 2 would fit better"]
        assert told["alignment"]["offset"] == pytest.approx([0.5, 0.5])
        assert sentence in (tmp_path / "r.html").read_text(encoding="utf-8")
        fuse(*on_msi, tmp_path / "g.tif", "--psf", "gaussian,phase=2")
        assert "warning" not in capsys.readouterr().err

    def test_on_the_grid_of_the_msi_the_assumed_blur_carries_the_offset(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True, down=3.0, right=-2.0)
        _, told = fused_json(capsys, hsi, msi, "--grid", "msi", "-o", tmp_path / "f.tif")
        assert told["blur"]["phase"] == pytest.approx([1.8, 1.3])
        assert told["warnings"] == []

    def test_a_shift_of_whole_pixels_is_cropped_and_another_ratio_refused(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True, down=30.0)
        code, told = fused_json(capsys, hsi, msi, "-o", tmp_path / "g.tif")
        assert code == 4
        assert told["files"]["output"]["shape"] == [20, 20, 36]
        assert told["alignment"]["resampled"] == {"hsi": 0.0, "msi": 0.0}
        assert refused(capsys, hsi, msi, "-o", tmp_path / "f.tif", "--ratio", 5).startswith("ratio: got 5, but by geo")
        assert not (tmp_path / "f.tif").exists()

    def test_a_shift_of_images_without_georeferencing_is_estimated(self, tmp_path, capsys):
        scene = fastccpd.imaging.scenes.synthetic((68, 56, 36)).cube
        hsi, _ = fastccpd.imaging.degrade(scene[2:66, 1:53], preset("stereo", (64, 52, 36)))
        _, msi = fastccpd.imaging.degrade(scene[:64, :52], preset("stereo", (64, 52, 36)))
        np.save(tmp_path / "h.npy", hsi)
        np.save(tmp_path / "m.npy", msi)
        _, told = fused_json(capsys, tmp_path / "h.npy", tmp_path / "m.npy", "-o", tmp_path / "f.npy")
        shift = told["alignment"]["shift"]
        assert shift["source"] == "images"
        np.testing.assert_allclose([shift["rows"], shift["columns"]], [2.0, 1.0], atol=0.2)
        assert told["warnings"][0].startswith("the HSI lies an estimated")


class TestGaps:
    """Pixels and bands without data."""

    def holed(self, folder, nodata=-9999.0, **settings):
        """A pair whose HSI lacks pixel (2, 3) in one band and whose MSI lacks pixel (0, 1)."""
        _, hsi, msi = pair(georeferenced=True, **settings)
        for image, pixel in ((hsi, (2, 3, 7)), (msi, (0, 1))):
            image.cube[pixel] = nodata
        paths = [str(folder / f"{name}.tif") for name in ("h", "m")]
        for path, image in zip(paths, (hsi, msi), strict=True):
            rasters.write(path, replace(image, nodata=nodata))
        return paths

    def marked(self):
        """The pixels of the result for which such a pair has no data."""
        missing = np.zeros(SHAPE[:2], bool)
        missing[0, 1] = missing[8:12, 12:16] = True
        return missing

    def expected(self, method="auto"):
        """What Python makes of the pair, its missing pixels masked."""
        _, hsi, msi = pair(georeferenced=True)
        valid = [np.ones(image.shape[:2], bool) for image in (hsi, msi)]
        valid[0][2, 3] = valid[1][0, 1] = False
        return fastccpd.fuse(
            hsi.cube, msi.cube, centred(), method=method, rank=3, max_iter=3, hsi_valid=valid[0], msi_valid=valid[1]
        )

    def test_nodata_is_refused_with_the_count_by_a_method_that_cannot_leave_it_out(self, tmp_path, capsys):
        sentence = refused(capsys, *self.holed(tmp_path), "-o", tmp_path / "f.tif", "--method", "stereo")
        assert sentence.startswith("hsi: 1 of 30 pixels are nodata and msi: 1 of 480 pixels are nodata; fill them with")
        assert "which stereo cannot" in sentence

    @pytest.mark.parametrize("nodata", [-9999.0, np.nan])
    @pytest.mark.parametrize("method", ["auto", "nn-ccpd-nls", "stereo"])
    def test_filled_pixels_are_marked_again(self, method, nodata, tmp_path, capsys):
        paths = self.holed(tmp_path, nodata)
        code, told = fused_json(capsys, *paths, "-o", tmp_path / "f.tif", "--fill-nodata", "--method", method)
        assert code == (0 if method == "stereo" else 4)
        assert told["nodata"] == {"hsi": 1, "msi": 1, "output": 17}
        fate = "filled from their neighbours, and marked again in the result"
        assert f"msi: 1 of 480 pixels are nodata; {fate}" in told["notes"]
        found, expected = rasters.read(tmp_path / "f.tif"), self.marked()
        np.testing.assert_array_equal(found.missing(), expected)
        np.testing.assert_equal(found.nodata, nodata)
        assert np.isfinite(found.cube[~expected]).all()

    @pytest.mark.parametrize("nodata", [-9999.0, np.nan])
    @pytest.mark.parametrize("method", ["auto", "nn-ccpd-nls", "uc-ccpd-nls"])
    def test_missing_pixels_have_no_part_in_the_result_and_are_marked_again(self, method, nodata, tmp_path, capsys):
        paths = self.holed(tmp_path, nodata)
        code, told = fused_json(capsys, *paths, "-o", tmp_path / "f.tif", "--method", method)
        assert code == 4
        assert told["nodata"] == {"hsi": 1, "msi": 1, "output": 17}
        fate = "they have no part in the result, where they are marked again"
        assert f"hsi: 1 of 30 pixels are nodata; {fate}" in told["notes"]
        assert f"msi: 1 of 480 pixels are nodata; {fate}" in told["notes"]
        found, missing = rasters.read(tmp_path / "f.tif"), self.marked()
        np.testing.assert_array_equal(found.missing(), missing)
        np.testing.assert_equal(found.nodata, nodata)
        np.testing.assert_array_equal(found.cube[~missing], self.expected(method).sri[~missing])

    def test_what_the_method_puts_into_gaps_is_kept_when_asked_for(self, tmp_path, capsys):
        paths = self.holed(tmp_path)
        out = tmp_path / "f.tif", "--uncertainty", tmp_path / "u.tif", "--report", tmp_path / "r.html"
        _, told = fused_json(capsys, *paths, "-o", *out, "--keep-filled")
        assert told["nodata"] == {"hsi": 1, "msi": 1, "output": 0}
        assert "which keeps what the method puts there" in " ".join(told["notes"])
        found = rasters.read(tmp_path / "f.tif")
        assert found.nodata is None
        np.testing.assert_array_equal(found.cube, self.expected().sri)
        assert rasters.read(tmp_path / "u.tif").nodata is None
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "grey in pictures" not in page
        assert "Pixels without data have no part in it." in page
        _, told = fused_json(capsys, *paths, "-o", tmp_path / "g.tif", "--keep-filled", "--fill-nodata")
        assert told["nodata"]["output"] == 0
        assert "filled from their neighbours, and not marked in the result" in " ".join(told["notes"])

    @pytest.mark.parametrize("filled", [[], ["--fill-nodata"]])
    def test_residuals_and_noise_do_not_count_missing_pixels(self, filled, tmp_path, capsys):
        paths = self.holed(tmp_path)
        _, told = fused_json(capsys, *paths, "-o", tmp_path / "f.npz", "--keep-filled", *filled)
        seen = fastccpd.imaging.degrade(rasters.read(tmp_path / "f.npz").cube, centred())
        for name, path, image in zip(("hsi", "msi"), paths, seen, strict=True):
            raster = rasters.read(path)
            there = ~raster.missing()
            expected = np.linalg.norm((raster.cube - image)[there]) / np.linalg.norm(raster.cube[there])
            assert told["residuals"][name] == pytest.approx(expected, rel=1e-9)
            noise, power = told["noise"][name], np.mean(raster.cube[there] ** 2)
            expected = 10 * np.log10(power / np.mean(np.square(noise["sigma"])) - 1)
            assert noise["snr_db"] == pytest.approx(expected, rel=1e-9)

    def test_a_gap_is_filled_by_its_nearest_pixel_with_data(self):
        rng = np.random.default_rng(0)
        raster = rasters.Raster(rng.random((5, 4, 3)))
        missing = np.zeros((5, 4), bool)
        missing[1:, 1:] = missing[0, 3] = True
        filled = gaps.filled(raster, missing).cube
        np.testing.assert_array_equal(filled[~missing], raster.cube[~missing])
        np.testing.assert_array_equal(filled[1, 2], raster.cube[0, 2])
        np.testing.assert_array_equal(filled[3, 1], raster.cube[3, 0])
        np.testing.assert_array_equal(filled[0, 3], raster.cube[0, 2])

    def test_a_declared_value_that_occurs_is_not_used_as_a_mark(self):
        missing = np.eye(4, 3, dtype=bool)
        for cube, declared, expected in (
            (np.zeros((4, 3, 2)), 0.0, np.nan),
            (np.ones((4, 3, 2)), 0.0, 0.0),
            (np.ones((4, 3, 2), np.float32), None, np.nan),
        ):
            marked, value = gaps.marked(cube, missing, declared)
            np.testing.assert_equal(value, expected)
            np.testing.assert_array_equal(marked[missing], expected)
            np.testing.assert_array_equal(marked[~missing], cube[~missing])
            assert marked.dtype == cube.dtype

    def test_the_footprint_of_a_missing_hsi_pixel_is_missing(self):
        coarse, fine = np.zeros((3, 2), bool), np.zeros((3 * RATIO, 2 * RATIO), bool)
        coarse[1, 0] = fine[0, 7] = True
        mask = gaps.fine_mask(coarse, fine, RATIO)
        assert mask.sum() == RATIO**2 + 1
        assert mask[4:8, 0:4].all()
        assert mask[0, 7]

    def test_bad_bands_are_left_out(self, tmp_path, capsys):
        _, hsi, msi = pair()
        bad = np.isin(np.arange(SHAPE[2]), (5, 20))
        spoiled = hsi.cube.copy()
        spoiled[:, :, bad] = np.nan
        rasters.write(tmp_path / "h.hdr", replace(hsi, cube=spoiled, bad_bands=bad))
        rasters.write(tmp_path / "m.hdr", msi)
        np.save(tmp_path / "pm.npy", landsat(SHAPE[2]).toarray())
        both = tmp_path / "h.hdr", tmp_path / "m.hdr"
        _, told = fused_json(capsys, *both, "-o", tmp_path / "f.hdr", "--srf", tmp_path / "pm.npy", srf=False)
        assert told["bands_left_out"] == [6, 21]
        said = "hsi: 2 of 36 bands are marked as bad and left out: 6 (700 nm), 21 (1600 nm)"
        assert any(said in note for note in told["notes"])
        found = rasters.read(tmp_path / "f.hdr")
        assert found.shape[2] == SHAPE[2]
        np.testing.assert_allclose(found.wavelengths, hsi.wavelengths)
        np.testing.assert_array_equal(found.bad_bands, bad)
        np.testing.assert_array_equal(np.isnan(found.cube).all(axis=(0, 1)), bad)
        np.testing.assert_array_equal(np.isnan(found.cube).any(axis=(0, 1)), bad)
        sentence = refused(capsys, *both, "-o", tmp_path / "g.hdr", "--bands", "1,2,3,4,6,7", srf=False)
        assert sentence.startswith("--bands: MSI band 5 sees bad HSI bands only")

    def test_rows_of_the_response_keep_their_sums(self, tmp_path):
        np.save(tmp_path / "pm.npy", np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 1.0]]))
        scene = rasters.Raster(np.ones((4, 3, 3)))
        kept = operators.response(
            str(tmp_path / "pm.npy"), None, scene, np.array([True, False, True]), "scene"
        ).toarray()
        np.testing.assert_allclose(kept, [[2 / 3, 1 / 3], [0.0, 2.0]])


class TestRefusals:
    """One line, exit code 2, nothing written."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--rank", "0"], "rank: got 0; a whole number of at least 1"),
            (["--method", "nn-cpd"], "method: got 'nn-cpd'; did you mean 'nn-ccpd-nls'?"),
            (["--method", "hysure", "--tol", "1e-3"], "--tol: hysure has no tolerance to stop at"),
            (["--option", "speed=3"], "speed: 'auto' cannot use this option"),
            (["--starts", "0"], "starts: got 0"),
            (["--seed", "-1"], "--seed: got -1; a whole number of at least 0 is needed"),
            (["--threads", "0"], "threads: got 0"),
            (["--time-limit", "nan"], "time_limit: got nan"),
            (["--ratio", "0"], "ratio: got 0"),
            (["--ratio", "3"], "msi: 24 rows, but 3 times the HSI's 6 are 18; they must agree"),
            (["--band-axis", "1"], "msi: its 24 rows and 6 columns are"),
        ],
    )
    def test_a_wrong_option_gets_its_sentence(self, arguments, sentence, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        quick = [] if "--rank" in arguments else ["--rank", "3"]
        command = ["fuse", hsi, msi, "-o", str(tmp_path / "f.npz"), "--srf", "landsat", *quick, *arguments]
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"fastccpd: {sentence}")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["hsi.npz", "msi.npz"]

    def test_an_existing_output_is_refused_without_force(self, tmp_path, capsys):
        hsi, msi = TestGaps().holed(tmp_path)
        out, page = tmp_path / "f.npz", tmp_path / "r.html"
        out.write_text("mine")
        assert refused(capsys, hsi, msi, "-o", out) == f"{out}: exists already; --force overwrites it"
        assert out.read_text() == "mine"
        page.write_text("mine")
        assert refused(capsys, hsi, msi, "-o", tmp_path / "g.npz", "--report", page).startswith(
            f"{page}: exists already"
        )
        assert fuse(hsi, msi, "-o", out, "--report", page, "--force", "--fill-nodata") == 4
        assert rasters.read(out).shape == SHAPE
        assert "Fusion report" in page.read_text(encoding="utf-8")

    def test_an_input_is_never_overwritten(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        before = Path(msi).read_bytes()
        for path in (msi, tmp_path / "." / "msi.npz"):
            assert refused(capsys, hsi, f"{msi}::cube", "-o", path, "--force").endswith("which are never overwritten")
        assert Path(msi).read_bytes() == before

    def test_an_envi_input_is_known_by_either_of_its_files(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "envi")
        for path in ("msi.hdr", "msi.img", "hsi.bip"):
            sentence = refused(capsys, hsi, msi, "-o", tmp_path / path, "--force")
            assert sentence == f"-o: {tmp_path / path} is one of the inputs, which are never overwritten"

    def test_what_cannot_be_read_or_written_gets_its_sentence(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        out = tmp_path / "f.npz"
        assert refused(capsys, tmp_path / "no.npz", msi, "-o", out).startswith(
            f"{tmp_path}/no.npz: cannot be read (no such"
        )
        assert refused(capsys, hsi, tmp_path, "-o", out).startswith(f"{tmp_path}: is a folder")
        (tmp_path / "torn.npz").write_bytes(Path(msi).read_bytes()[:3000])
        assert refused(capsys, hsi, tmp_path / "torn.npz", "-o", out).startswith(
            f"{tmp_path}/torn.npz: cannot be read as"
        )
        (tmp_path / "empty.tif").touch()
        assert refused(capsys, hsi, tmp_path / "empty.tif", "-o", out) == f"{tmp_path}/empty.tif: is empty"
        assert refused(capsys, hsi, msi, "-o", tmp_path / "f.png").startswith(
            f"{tmp_path}/f.png: got the suffix '.png'"
        )
        assert "there is no folder" in refused(capsys, hsi, msi, "-o", tmp_path / "no" / "f.npz")
        assert "there is no folder" in refused(capsys, hsi, msi, "-o", out, "--report", tmp_path / "no" / "r.html")
        assert not out.exists()

    def test_an_image_without_any_data_is_refused(self, tmp_path, capsys):
        _, hsi, msi = pair()
        rasters.write(tmp_path / "h.npz", replace(hsi, cube=np.full_like(hsi.cube, np.nan)))
        rasters.write(tmp_path / "m.npz", msi)
        sentence = refused(capsys, tmp_path / "h.npz", tmp_path / "m.npz", "-o", tmp_path / "f.npz", "--fill-nodata")
        assert sentence == "hsi: 30 of 30 pixels are nodata; some data are needed"
        for method in ("auto", "stereo"):
            arguments = tmp_path / "h.npz", tmp_path / "m.npz", "-o", tmp_path / "f.npz", "--method", method
            assert refused(capsys, *arguments) == sentence

    def test_infinite_values_are_refused_by_the_image_that_has_them(self, tmp_path, capsys):
        _, hsi, msi = pair()
        msi.cube[3, 4, 2] = np.inf
        rasters.write(tmp_path / "h.npz", hsi)
        rasters.write(tmp_path / "m.npz", msi)
        sentence = refused(capsys, tmp_path / "h.npz", tmp_path / "m.npz", "-o", tmp_path / "f.npz")
        assert sentence.startswith("msi: holds NaN or infinite values (1 in rows 0 to 23)")

    def test_different_ground_is_refused(self, tmp_path, capsys):
        _, hsi, msi = pair(georeferenced=True)
        rasters.write(tmp_path / "h.npz", replace(hsi, georeference=grid(40.0, down=5000.0)))
        rasters.write(tmp_path / "m.npz", msi)
        sentence = refused(capsys, tmp_path / "h.npz", tmp_path / "m.npz", "-o", tmp_path / "f.npz")
        assert sentence.startswith("hsi: no whole pixel of it lies on the MSI; it covers x 600000 to 600200, y 4594760")
        assert sentence.endswith("and the MSI x 600000 to 600200, y 4599760 to 4600000 in WGS 84 / UTM zone 33N")


def test_a_package_that_is_not_installed_is_named_with_its_extra(tmp_path):
    hsi, msi, _ = write_pair(tmp_path)
    script = (
        "import sys; sys.modules['matplotlib'] = sys.modules['rasterio'] = None;"
        "from fastccpd.cli import main;"
        f"print(main(['fuse', {hsi!r}, {msi!r}, '-o', 'f.npz', '--report', 'r.html']));"
        f"print(main(['info', {str(tmp_path / 'x.tif')!r}]))"
    )
    (tmp_path / "x.tif").write_bytes(b"II*\0" + bytes(100))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(Path(fastccpd.__file__).parents[1])},
    )
    assert done.stdout.split() == ["2", "2"]
    first, second = done.stderr.splitlines()
    assert first == 'fastccpd: --report needs matplotlib; pip install "fastccpd[plot]"'
    assert 'rasterio; pip install "fastccpd[io]"' in second
