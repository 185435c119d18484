"""The demonstration: from Python and from the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastccpd
from fastccpd.cli import demonstration as demo
from fastccpd.cli import main
from fastccpd.imaging import metrics, scenes

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(fastccpd.__file__).parents[1])}


@pytest.fixture(scope="module")
def shown():
    return demo.run("synthetic", snr_db=25.0, seed=0, rank=20, rivals=("fuse-sylvester", "scott"))


def test_it_compares_the_result_with_the_scene_and_with_rivals(shown):
    assert list(shown.rows) == ["result (auto)", "fuse-sylvester", "scott", demo.SPLINES]
    assert shown.rows["result (auto)"]["rsnr"] == metrics.rsnr(shown.result.sri, shown.scene.cube)
    assert shown.rows["result (auto)"]["rsnr"] > shown.rows[demo.SPLINES]["rsnr"] + 2.0
    assert shown.hsi.shape == (24, 20, 60)
    assert shown.notes == ()


def test_splines_lie_where_the_blur_puts_the_pixels():
    rows, columns = np.meshgrid(np.arange(48), np.arange(40), indexing="ij")
    smooth = (np.sin(2 * np.pi * rows / 48) + np.cos(2 * np.pi * columns / 40))[:, :, None]
    # Without a blur, the stereo convention keeps fine pixels 3, 7, 11, …
    np.testing.assert_allclose(demo.larger(smooth[3::4, 3::4], (48, 40)), smooth, atol=2e-3)


def test_progress_is_shown_for_every_fusion():
    labels = []

    class Shown:
        def __init__(self, label, max_iter):
            labels.append(label)

        def __enter__(self):
            return lambda state: False

        def __exit__(self, *_):
            return None

    demo.run("synthetic", rank=2, rivals=("scott",), show=Shown)
    assert labels == ["auto", "auto", "scott"]


REFUSED = {
    "--rank 0": "rank: got 0",
    "--snr nan": "snr_db: got nan",
    "--seed -1": "seed: got -1",
    "--scene atlantis": "name: got 'atlantis'; known are salinas-a",
    "--rivals scot": "method: got 'scot'; did you mean 'scott'?",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_cannot_be_shown_is_refused_in_one_line(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", *arguments.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fastccpd: {REFUSED[arguments]}")
    assert not list(tmp_path.iterdir())


def test_a_report_of_somebody_else_is_refused_without_force(tmp_path, capsys):
    (tmp_path / "report.html").write_text("mine")
    assert main(["demo", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"fastccpd: {tmp_path}/report.html: exists already; --force overwrites it\n"


def run_demo(folder, before=""):
    """In a process of its own, where there is no real scene and no matplotlib."""
    script = (
        f"import sys; sys.modules['tensorly'] = None; {before}\nfrom fastccpd.cli import main\n"
        "sys.exit(main(['demo', '--rank', '20', '--rivals', 'scott']))"
    )
    command = [sys.executable, "-c", script]
    environment = {name: value for name, value in ENVIRONMENT.items() if name != scenes.FOLDER_VARIABLE}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_without_anything_else_installed_it_still_shows_a_table(tmp_path):
    done = run_demo(tmp_path, before="sys.modules['matplotlib'] = sys.modules['rich'] = None")
    assert done.returncode == 0, done.stderr
    assert 'the report needs matplotlib; pip install "fastccpd[plot]"' in done.stderr
    assert 'pip install "fastccpd[demo]" brings it; this one is synthetic' in done.stderr
    assert not list(tmp_path.iterdir())
    assert "\nverdict: the images agree" in done.stdout
    assert re.search(r"\nerror of a pixel: [\d.]+ expected, [\d.]+ true", done.stdout)
    rows = {line[:21].strip(): line[21:].split() for line in done.stdout.splitlines()}
    assert float(rows["result (auto)"][0]) > float(rows["HSI, cubic splines"][0])


def test_it_replaces_its_own_report(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    page = tmp_path / "fastccpd-demo" / "report.html"
    page.parent.mkdir()
    page.write_text("an older one")
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--scene", "synthetic", "--rank", "2", "--rivals", "scott", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scene"] == "synthetic"
    assert told["report"] == "fastccpd-demo/report.html"
    assert set(told["scores"]) == {"result (auto)", "scott", demo.SPLINES}
    assert told["verdict"]["grade"] == "agree"
    assert 0.3 < told["expected_error"] / told["true_error"] < 3.0
    text = page.read_text(encoding="utf-8")
    assert "Demonstration: synthetic" in text
    assert "Uncertainty</h2>" in text
    assert told["verdict"]["sentence"] in text
    assert all(name in text for name in told["scores"])


@pytest.mark.scenes
def test_a_real_scene_is_taken_where_there_is_one(data_folder):
    shown = demo.run(rank=2, rivals=())
    assert shown.scene.provenance["name"] == "indian-pines"
    assert shown.scene.cube.shape == (144, 144, 200)
    assert shown.notes == ()
