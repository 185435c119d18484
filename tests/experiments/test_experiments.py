"""Experiments: rows that do not depend on how they were made, medians, and pictures from rows alone."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from fastccpd import experiments, fuse, plots
from fastccpd.cli import main
from fastccpd.experiments import figures, measuring, plans, rows, runner, systems
from fastccpd.experiments.measuring import Task
from fastccpd.imaging import add_noise, degrade, lee, metrics, preset, scenes

ROOT = Path(__file__).parents[2]
QUICK = ("fuse-sylvester", "scott")


def without_times(found):
    measured = ("seconds", "cpu_seconds", "peak_memory")
    return [{name: value for name, value in row.items() if name not in measured} for row in found]


@pytest.fixture(scope="module")
def few_rows():
    """Two systems, two runs, three SNRs of the synthetic scene, with the grid of one of them."""
    found = experiments.snr("synthetic", QUICK, runs=2, snr=(0, 5, 10))
    settings = systems.SYSTEMS["scott"].settings()[:3]
    tasks = [
        Task("synthetic", 5.0, run, "scott", "scott", setting, tuned=True) for run in (0, 1) for setting in settings
    ]
    return found + runner.run([runner.listed(tasks)])


def test_a_row_is_what_a_user_would_measure():
    task = Task("synthetic", 5.0, 3, "fuse-sylvester", "fuse-sylvester", {"rank": 4})
    row = measuring.measure(task)
    cube = scenes.synthetic((80, 84, 64), rng=0).cube
    degradation = preset("stereo", cube.shape)
    rng = np.random.default_rng([3, 1005000])
    hsi, msi = (add_noise(image, 5.0, rng) for image in degrade(cube, degradation))
    image = fuse(hsi, msi, degradation, method="fuse-sylvester", rank=4, rng=3, threads=1).sri
    assert row["metrics"]["rsnr"] == pytest.approx(metrics.rsnr(image, cube), abs=1e-9)
    assert row["metrics"]["sam"] == pytest.approx(metrics.sam(image, cube), abs=1e-9)
    assert row["lee"]["rmse"] == pytest.approx(metrics.rmse(lee(image), cube), rel=1e-9)
    assert row["versions"]["numpy"] == np.__version__


def test_more_runs_than_anybody_means_are_refused_before_any_is_planned():
    with pytest.raises(ValueError, match=r"^runs: got 1000000000; .* at most 50000 is needed"):
        experiments.snr("synthetic", ("scott",), runs=10**9, snr=(0, 5))


def test_systems_share_the_noise_of_a_run_and_runs_differ():
    cost = {}
    for run in (0, 1):
        for rank in (4, 5):
            task = Task("synthetic", 5.0, run, "fuse-sylvester", "fuse-sylvester", {"rank": rank, "prior": "ml"})
            cost[run, rank] = measuring.measure(task)["cost"]
    # One more dimension on the same noise lowers the misfit by little; another noise moves it by more.
    assert cost[0, 5] <= cost[0, 4]
    assert cost[0, 4] != cost[1, 4]


def test_the_seven_systems_are_those_of_the_paper_whose_own_stands_twice_and_ours_is_last():
    methods = [system.method for system in systems.SYSTEMS.values()]
    assert methods[-3:] == ["nn-ccpd-auto", "tv-maps", "auto"]
    papers = [systems.SYSTEMS[name].method for name in systems.PAPER]
    assert len(set(papers)) == 7
    assert papers.count("nn-ccpd-nls") == 2
    assert systems.SYSTEMS["nn-ccpd-nls:paper"].options == {
        "rank": 30,
        "step": "dogleg",
        "curvature": "gauss-newton",
    }
    assert systems.SYSTEMS["scott"].options["rank"] == (12, 12, 12)
    assert set(systems.chosen(tensor_only=True)) >= {*systems.PAPER[2:], "nn-ccpd-auto", "auto"}
    for name, system in systems.SYSTEMS.items():
        assert bool(system.settings()) == (name not in systems.OWN), name


def test_a_name_may_carry_a_rank():
    assert systems.named("stereo@7").options["rank"] == 7
    assert systems.named("scott@7").options["rank"] == (7, 7, 7)
    assert systems.chosen(("hysure", "stereo"), ranks=(3, 4)) == ["hysure", "stereo@3", "stereo@4"]
    # Tuned at a given rank, all but the rank varies.
    assert {options["rank"] for options in systems.named("cbtd-apg@7").settings()} == {7}
    for wrong in ("stereo@", "stereo@0", "stereo@x", "hysure@3", "nothing"):
        with pytest.raises(ValueError, match="methods: got"):
            systems.named(wrong)


def test_a_plan_has_every_combination_once():
    tasks = plans.tasks("salinas-a", systems.chosen(), 50, range(11))
    assert len(tasks) == 50 * 11 * len(systems.SYSTEMS) == len({task.identity() for task in tasks})
    tasks = plans.tasks("indian-pines", systems.chosen(ranks=plans.RANKS, tensor_only=True), 2, (5,))
    tensor = sum(system.tensor for system in systems.SYSTEMS.values())
    assert len(tasks) == 2 * 8 * tensor == len({task.identity() for task in tasks})
    assert {task.options["rank"] for task in tasks if task.method == "scott"} == {(R, R, R) for R in range(10, 81, 10)}


def test_a_refusing_system_gives_a_row_with_its_sentence():
    row = measuring.measure(Task("synthetic", 5.0, 0, "scott", "scott", {"rank": -1}))
    assert "rank" in row["error"]
    assert "metrics" not in row


def test_rows_do_not_depend_on_the_number_of_processes(few_rows):
    again = experiments.snr("synthetic", QUICK, runs=2, snr=(0, 5, 10), workers=1)
    assert without_times(again) == without_times(few_rows[: len(again)])


def test_rows_in_a_file_are_not_computed_again(tmp_path):
    file = tmp_path / "rows.jsonl"
    counts = []
    first = experiments.snr("synthetic", ("scott",), runs=2, snr=(5,), file=file)
    second = experiments.snr(
        "synthetic", ("scott",), runs=3, snr=(5,), file=file, progress=lambda *count: counts.append(count)
    )
    assert counts == [(2, 3), (3, 3)]
    assert second[:2] == first
    assert rows.read(file) == json.loads(json.dumps(second))


def test_rows_of_before_the_schema_are_not_computed_again(tmp_path):
    file = tmp_path / "rows.jsonl"
    (row,) = experiments.snr("synthetic", ("scott",), runs=1, snr=(5,), file=file)
    new = ("schema", "kind", "package", "version", "machine", "inputs", "seed", "ratio", "peak_memory", "time_limit")
    old = {name: value for name, value in row.items() if name not in (*new, "threads")}
    file.write_text(json.dumps(old) + "\n")
    counts = []
    found = experiments.snr("synthetic", ("scott",), runs=1, snr=(5,), file=file, progress=lambda *c: counts.append(c))
    assert counts == [(1, 1)]
    assert found == [json.loads(json.dumps(old))]


def test_a_torn_last_line_is_dropped_and_a_broken_line_is_named(tmp_path):
    file = tmp_path / "rows.jsonl"
    first = experiments.snr("synthetic", ("scott",), runs=1, snr=(5,), file=file)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 2])
    assert len(rows.read(file)) == 1
    assert experiments.snr("synthetic", ("scott",), runs=1, snr=(5,), file=file) == json.loads(json.dumps(first))
    assert file.read_bytes() == whole
    file.write_bytes(b"no row\n" + whole)
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        experiments.snr("synthetic", ("scott",), runs=1, snr=(5,), file=file)


def test_a_file_takes_one_writer(tmp_path):
    pytest.importorskip("fcntl")
    file = tmp_path / "rows.jsonl"
    with rows.appending(file), pytest.raises(OSError, match="another experiment"), rows.appending(file):
        pass


def test_a_killed_experiment_resumes_to_the_same_rows(tmp_path):
    arguments = ["--scene", "synthetic", "--methods", "scott,fuse-sylvester,stereo", "--runs", "6", "--snr", "0,5"]
    command = [sys.executable, "-m", "fastccpd", "experiment", "snr", *arguments, "-o"]
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    process = subprocess.Popen([*command, str(killed)], cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    file = killed / "rows.jsonl"
    deadline = time.monotonic() + 120
    while not (file.exists() and file.read_bytes().count(b"\n") >= 3) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    survived = file.read_bytes().count(b"\n")
    assert 3 <= survived < 36
    for folder in (killed, unbroken):
        subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True, timeout=300)
    resumed = rows.read(file)
    assert without_times(resumed) == without_times(rows.read(unbroken / "rows.jsonl"))
    assert len(resumed) == 36


def test_the_command_takes_rows_of_files_and_draws_from_them(tmp_path, capsys):
    arguments = ["experiment", "snr", "--scene", "synthetic", "--methods", "scott,stereo", "--runs", "1", "--snr", "5"]
    first, second, third, kept = (tmp_path / name for name in ("first", "second", "third", "kept.jsonl.gz"))
    assert main([*arguments, "-o", str(first)]) == 0
    assert main(["experiment", "rows", str(first / "rows.jsonl"), "-o", str(kept)]) == 0
    assert main([*arguments, "--from", str(kept), "-o", str(second)]) == 0
    assert [row["seconds"] for row in rows.read(second / "rows.jsonl")] == [row["seconds"] for row in rows.read(kept)]
    drawn = ["experiment", "snr", "--redraw", "--from", str(kept), "-o", str(third)]
    assert main([*drawn, "--scene", "synthetic"]) == 0
    assert (third / "medians.md").read_bytes() == (first / "medians.md").read_bytes()
    assert not (third / "rows.jsonl").exists()
    assert "third: rows.csv, medians.md" in capsys.readouterr().out
    assert main([*drawn, "--scene", "moffett"]) == 2
    assert "kept.jsonl.gz: holds no rows" in capsys.readouterr().err


def test_a_worker_that_dies_is_reported(monkeypatch, tmp_path):
    starter = tmp_path / "dies"
    starter.write_text("#!/bin/sh\nexit 3\n")
    starter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(starter))
    with pytest.raises(ChildProcessError, match="exit code 3"):
        experiments.snr("synthetic", ("scott",), runs=1, snr=(5,))


def test_medians_are_those_of_the_definition(few_rows):
    for filtered, scores in ((False, "metrics"), (True, "lee")):
        table = rows.medians(few_rows, "snr", filtered)
        for level in (0.0, 5.0, 10.0):
            for system in QUICK:
                mine = [r for r in few_rows if (r["snr"], r["system"], r["tuned"]) == (level, system, False)]
                for metric in metrics.usual_names():
                    expected = median(row[scores][metric] for row in mine)
                    assert table[level, system, False][metric] == pytest.approx(expected)
                assert table[level, system, False]["runs"] == 2


def test_a_tuned_system_counts_with_its_best_setting_of_each_image(few_rows):
    table = rows.medians(few_rows, "snr")
    best = []
    for run in (0, 1):
        mine = [r for r in few_rows if (r["snr"], r["system"], r["run"]) == (5.0, "scott", run)]
        assert len(mine) == 4
        best.append(max(row["metrics"]["rsnr"] for row in mine))
    assert table[5.0, "scott", True]["rsnr"] == pytest.approx(median(best))
    assert (5.0, "fuse-sylvester", True) not in table


def test_medians_by_rank_keep_the_ranks_apart():
    found = experiments.rank("synthetic", ("scott", "stereo", "hysure"), runs=1, ranks=(2, 3), tuned=True)
    assert {row["system"] for row in found} == {"scott@2", "scott@3", "stereo@2", "stereo@3"}
    table = rows.medians(found, "rank")
    for R in (2, 3):
        mine = [row for row in found if row["system"] == f"stereo@{R}"]
        assert {row["options"]["rank"] for row in mine} == {R}
        assert table[R, "stereo", False]["rsnr"] == next(row for row in mine if not row["tuned"])["metrics"]["rsnr"]
        assert table[R, "stereo", True]["rsnr"] == max(row["metrics"]["rsnr"] for row in mine)
    text = figures.text_table(found, "rank")
    assert "| UC-C-CPD-ALS, tuned* |" in text


def test_csv_has_a_line_for_each_row(few_rows, tmp_path):
    rows.write_csv(tmp_path / "rows.csv", few_rows)
    with open(tmp_path / "rows.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(few_rows)
    assert float(lines[0]["rsnr"]) == few_rows[0]["metrics"]["rsnr"]
    assert float(lines[0]["lee_sam"]) == few_rows[0]["lee"]["sam"]


def test_curves_show_the_medians_and_say_what_tuned_means(few_rows):
    pytest.importorskip("matplotlib")
    figure = figures.curves(few_rows, "snr")
    table = rows.medians(few_rows, "snr")
    panel = figure.axes[0]
    lines = {line.get_label(): line for line in panel.get_lines()}
    expected = [table[level, "scott", False]["rsnr"] for level in (0.0, 5.0, 10.0)]
    np.testing.assert_allclose(lines["UC-C-Tucker"].get_ydata(), expected)
    assert "UC-C-Tucker, tuned*" in lines
    assert figures.UPPER_BOUND in figure.get_suptitle()
    for axes in figure.axes:
        for label in (axes.xaxis.label, axes.yaxis.label):
            assert label.get_text()
            assert label.get_fontsize() == plots.LABEL_SIZE
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(lines)
    assert figure.get_figwidth() <= plots.PAGE_WIDTH


def test_no_other_system_looks_like_ours():
    ours = figures._style("auto", False)
    for name in (*systems.SYSTEMS, *(f"stereo@{R}" for R in range(1, 10))):
        other = figures._style(name, False)
        if name != "auto":
            assert other["color"] != ours["color"]
            assert other["marker"] != ours["marker"]
            assert other.get("linewidth", 0.0) < ours["linewidth"]
    assert figures._style("auto@1", False) != ours


def test_bands_draws_one_column_a_system_from_the_file_alone(tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "rows.jsonl"
    experiments.bands("synthetic", QUICK, band=7, file=file)
    found = rows.read(file)
    truth = measuring.unpacked(found[0]["maps"]["truth"])
    cube = scenes.synthetic((80, 84, 64), rng=0).cube
    np.testing.assert_allclose(truth, cube[:, :, 6], rtol=1e-6)
    maps = {name: measuring.unpacked(packed) for name, packed in found[0]["maps"].items()}
    np.testing.assert_allclose(maps["band"] - maps["truth"], maps["residual"], atol=1e-6)
    found[0]["metrics"]["rsnr"] = -9.84
    figure = figures.bands(found)
    titles = [axes.get_title() for axes in figure.axes]
    assert sum("FUSE" in title for title in titles) == 1
    assert sum("UC-C-Tucker" in title for title in titles) == 1
    notes = [axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()]
    assert notes == ["R-SNR −9.8 dB", f"R-SNR {found[1]['metrics']['rsnr']:.1f} dB"]
    assert figure.get_suptitle() == "synthetic, SNR 5 dB, no filter"


def test_bands_refuses_a_band_the_scene_lacks():
    with pytest.raises(ValueError, match="band: got 65"):
        experiments.bands("synthetic", QUICK, band=65)


def test_an_unknown_system_is_refused():
    with pytest.raises(ValueError, match="methods: got 'hysur'"):
        experiments.snr("synthetic", ("hysur",))
