"""No verb overwrites what it reads, and no two of its outputs are one file; --force changes nothing about that."""

import os
from pathlib import Path

import numpy as np
import pytest
from pair_files import SHAPE, pair, write_pair

from fastccpd import rasters
from fastccpd.cli import main
from fastccpd.imaging import landsat, preset

QUICK = ["--method", "nn-ccpd-nls", "--rank", "3", "--max-iter", "2"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capsys, folder, *arguments):
    """The sentence of a refusal that leaves every file as it was."""
    before = contents(folder)
    capsys.readouterr()
    assert main([*map(str, arguments), "--force"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert contents(folder) == before
    return line.removeprefix("fastccpd: ")


class TestFuse:
    """Outputs: -o, --uncertainty, --report. Inputs: the images, --psf and --srf."""

    def refused(self, capsys, folder, hsi, msi, *arguments):
        srf = [] if "--srf" in arguments else ["--srf", "landsat"]
        return refused(capsys, folder, "fuse", hsi, msi, *arguments, *srf, *QUICK)

    def test_a_report_is_no_input(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        for page in (hsi, msi):
            sentence = self.refused(capsys, tmp_path, hsi, msi, "-o", tmp_path / "o.npz", "--report", page)
            assert sentence == f"--report: {page} is one of the inputs, which are never overwritten"

    def test_a_report_is_no_other_output(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        x = tmp_path / "x.npz"
        sentence = self.refused(capsys, tmp_path, hsi, msi, "-o", x, "--report", x)
        assert sentence == f"--report: {x} is the output too; another file is needed"
        written = ["-o", tmp_path / "o.npz", "--method", "nn-ccpd-auto", "--uncertainty", x, "--report", x]
        sentence = self.refused(capsys, tmp_path, hsi, msi, *written)
        assert sentence == f"--report: {x} is the file of --uncertainty too; another file is needed"

    @pytest.mark.parametrize(
        ("data", "header"), [("hsi.img", "hsi.img.hdr"), ("hsi", "hsi.hdr"), ("hsi.dat", "hsi.HDR")]
    )
    def test_an_envi_input_is_known_under_every_name_that_is_read(self, data, header, tmp_path, capsys):
        _, msi, _ = write_pair(tmp_path, "envi")
        os.rename(tmp_path / "hsi.img", tmp_path / "data")
        os.rename(tmp_path / "hsi.hdr", tmp_path / "header")
        os.rename(tmp_path / "data", tmp_path / data)
        os.rename(tmp_path / "header", tmp_path / header)
        assert rasters.read(tmp_path / data).shape[2] == SHAPE[2]
        for output in (header, "hsi.hdr", "hsi.img"):
            sentence = self.refused(capsys, tmp_path, tmp_path / data, msi, "-o", tmp_path / output)
            assert sentence.endswith("is one of the inputs, which are never overwritten")
        page = "--report", tmp_path / header
        sentence = self.refused(capsys, tmp_path, tmp_path / data, msi, "-o", tmp_path / "o.npz", *page)
        assert sentence.startswith(f"--report: {tmp_path / header} is one of the inputs")

    def test_what_gdal_keeps_beside_an_input_is_an_input(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path, "tif", georeferenced=True)
        page = Path(f"{hsi}.aux.xml")
        page.write_text("<PAMDataset></PAMDataset>")
        sentence = self.refused(capsys, tmp_path, hsi, msi, "-o", tmp_path / "o.npz", "--report", page)
        assert sentence.startswith(f"--report: {page} is one of the inputs")

    def test_operators_are_inputs(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        np.savez(tmp_path / "pm.npz", PM=landsat(SHAPE[2]).toarray())
        operators = preset("stereo", SHAPE)
        np.savez(tmp_path / "blur.npz", P1=operators.P1.toarray(), P2=operators.P2.toarray())
        for option, name in (("--srf", "pm.npz"), ("--srf", "pm.npz::PM"), ("--psf", "blur.npz")):
            output = tmp_path / name.partition("::")[0]
            sentence = self.refused(capsys, tmp_path, hsi, msi, "-o", output, option, tmp_path / name)
            assert sentence == f"-o: {output} is one of the inputs, which are never overwritten"

    @pytest.mark.parametrize("link", [os.symlink, os.link])
    def test_links_are_what_they_lead_to(self, link, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        link(hsi, tmp_path / "other.npz")
        sentence = self.refused(capsys, tmp_path, hsi, msi, "-o", tmp_path / "other.npz")
        assert sentence.endswith("is one of the inputs, which are never overwritten")

    def test_names_that_differ_in_case_only_are_one(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        sentence = self.refused(capsys, tmp_path, hsi, msi, "-o", tmp_path / "HSI.npz")
        assert sentence.endswith("is one of the inputs, which are never overwritten")
        outputs = "-o", tmp_path / "f.npz", "--report", tmp_path / "F.NPZ"
        assert "is the output too" in self.refused(capsys, tmp_path, hsi, msi, *outputs)


class TestSimulate:
    """Outputs: hsi, msi and truth. Inputs: the scene, --psf and --srf."""

    @pytest.mark.parametrize("name", ["hsi", "msi", "truth"])
    def test_the_scene_is_never_overwritten(self, name, tmp_path, capsys):
        truth, _, _ = pair()
        rasters.write(tmp_path / f"{name}.npz", truth)
        for scene in (tmp_path / f"{name}.npz", f"{tmp_path / name}.npz::cube"):
            sentence = refused(capsys, tmp_path, "simulate", scene, "-o", f"{tmp_path}/")
            assert sentence == f"-o: {tmp_path}/{name}.npz is one of the inputs, which are never overwritten"

    def test_operators_are_inputs(self, tmp_path, capsys):
        np.savez(tmp_path / "hsi.npz", PM=landsat(60).toarray())
        sentence = refused(
            capsys, tmp_path, "simulate", "synthetic", "-o", f"{tmp_path}/", "--srf", tmp_path / "hsi.npz"
        )
        assert sentence.startswith(f"-o: {tmp_path}/hsi.npz is one of the inputs")

    def test_two_outputs_that_a_link_makes_one_are_refused(self, tmp_path, capsys):
        (tmp_path / "hsi.npz").write_text("mine")
        os.symlink(tmp_path / "hsi.npz", tmp_path / "msi.npz")
        sentence = refused(capsys, tmp_path, "simulate", "synthetic", "-o", f"{tmp_path}/")
        assert sentence == f"-o: {tmp_path}/msi.npz is the output too; another file is needed"

    def test_the_files_of_a_known_scene_are_inputs(self, tmp_path, monkeypatch, capsys):
        folder = tmp_path / "moffett"
        folder.mkdir()
        (folder / "Moffett_vca.mat").write_text("the scene")
        os.symlink(folder / "Moffett_vca.mat", tmp_path / "hsi.npz")
        monkeypatch.setenv("FASTCCPD_DATA", str(tmp_path))
        sentence = refused(capsys, tmp_path, "simulate", "moffett", "-o", f"{tmp_path}/")
        assert sentence.startswith(f"-o: {tmp_path}/hsi.npz is one of the inputs")


def test_an_experiment_does_not_write_its_tables_over_its_rows(tmp_path, capsys):
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    os.symlink(tmp_path / "rows.jsonl", tmp_path / "rows.csv")
    before = contents(tmp_path)
    for more in ([], ["--redraw"]):
        assert main(["experiment", "snr", "--scene", "synthetic", "-o", str(tmp_path), *more]) == 2
        assert "rows.csv is the file of rows.jsonl too; another file is needed" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_demonstration_does_not_write_its_page_over_its_scene(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "moffett"
    folder.mkdir()
    (folder / "Moffett_vca.mat").write_text("the scene")
    os.symlink(folder / "Moffett_vca.mat", tmp_path / "report.html")
    monkeypatch.setenv("FASTCCPD_DATA", str(tmp_path))
    sentence = refused(capsys, tmp_path, "demo", "--scene", "moffett", "-o", tmp_path)
    assert sentence == f"-o: {tmp_path}/report.html is one of the inputs, which are never overwritten"
