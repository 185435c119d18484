"""The experiment of all scenes: what is run, and tables and pictures from rows alone."""

import csv
import json

import pytest

from fastccpd import experiments, plots
from fastccpd.cli import main
from fastccpd.experiments import figures, leaders, plans, rows, scene_figures, systems
from fastccpd.testing import scene_names


def row(scene, snr, system, rsnr, *, run=0, tuned=False, sam=3.0, **more):
    """A row with its R-SNR."""
    scores = {"rsnr": rsnr, "rmse": 0.1, "cc": 0.9, "sam": sam, "ergas": 2.0}
    about = {"schema": 1, "kind": "fusion", "package": "fastccpd", "version": "1", "machine": {}, "inputs": None}
    about |= {"scene": scene, "snr": snr, "run": run, "seed": run, "ratio": 4, "system": system, "method": system}
    about |= {"options": {"rank": 3}, "tuned": tuned, "metrics": scores, "seconds": 0.5, "peak_memory": 1000}
    return {**about, **more}


@pytest.fixture
def two_scenes():
    """Two scenes, two SNRs, three draws: FUSE wins tuned where there is no noise, a stranger at 5 dB of "b"."""
    found = []
    for run in range(3):
        found += [row("a", 5.0, "auto", 20.0 + run, run=run), row("a", 5.0, "scott", 10.0 + run, run=run)]
        found += [row("a", 5.0, "hysure", 12.0 + run, run=run), row("b", 5.0, "auto", 18.0, run=run)]
        found += [row("b", 5.0, "scott", 17.0, run=run, sam=2.0), row("b", 5.0, "stranger", 18.5, run=run, package="x")]
        found += [row("a", 5.0, "hysure", 19.0 + run, run=run, tuned=True, options={"rank": 7 + run})]
    found += [row("a", 5.0, "hysure", 15.0, tuned=True, options={"rank": 2})]
    found += [row("a", None, "auto", 40.0), row("a", None, "fuse-sylvester", 39.0), row("a", None, "tv-maps", 50.0)]
    found += [row("a", None, "fuse-sylvester", 42.5, tuned=True), row("a", None, "stereo", 0.0, error="no")]
    del found[-1]["metrics"]
    return found


class TestThePlan:
    def test_a_real_pair_has_noise_of_its_own_and_gets_none(self):
        published, *_ = plans._jobs(["moffett", "paris-pair"], ["gsa"], 1, None)
        tasks = [task for batch in published.batches for task in batch]
        levels = {scene: [task.snr for task in tasks if task.scene == scene] for scene in ("moffett", "paris-pair")}
        assert levels == {"moffett": list(experiments.SCENE_SNRS), "paris-pair": [None]}
        published, *_ = plans._jobs(["paris-pair"], ["gsa"], 1, (20.0,))
        assert [task.snr for batch in published.batches for task in batch] == [20.0]

    def test_has_all_scenes_all_snrs_and_all_systems(self):
        assert experiments.SCENE_SNRS == (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, None)
        published, *searches = plans._jobs(["moffett", "paris-pair"], systems.chosen(), 3, experiments.SCENE_SNRS, True)
        (tasks,) = [next(published.batches)]
        assert len(tasks) == 2 * len(systems.SYSTEMS) * (6 * 3 + 1) == len({task.identity() for task in tasks})
        tunable = sum(bool(system.grid()) for system in systems.SYSTEMS.values())
        assert len(searches) == 2 * 7 * tunable
        assert {(task.scene, task.ratio) for task in tasks} == {("moffett", 4), ("paris-pair", 3)}

    def test_takes_a_ratio_and_a_time_limit_for_all(self):
        (published,) = plans._jobs(["moffett"], ("scott",), 1, (5,), ratio=5, time_limit=2.0)
        (task,) = next(published.batches)
        assert (task.ratio, task.time_limit) == (5, 2.0)

    def test_a_short_search_is_the_beginning_of_a_long_one(self):
        def asked(most):
            (_, job) = plans._jobs(["moffett"], ("fuse-sylvester",), 1, (5,), True, most, filtered=False)
            found, batch = [], next(job.batches)
            while batch is not None:
                found += [task.identity() for task in batch]
                scores = [{"metrics": {"rsnr": -abs(task.options.get("rank", 6) - 3.0)}} for task in batch]
                try:
                    batch = job.batches.send(scores)
                except StopIteration:
                    batch = None
            return found, job.most

        (short, most), (long, _) = asked(6), asked(40)
        assert len(short) == 1 + 6
        assert most == 1 + 6
        assert set(short) < set(long)

    def test_every_scene_there_is_can_be_named(self):
        assert {"cave-toy", "enmap-potsdam", "san-francisco-pair", "paris-pair", "synthetic"} < set(scene_names())

    def test_a_scene_that_cannot_be_had_is_one_error(self):
        with pytest.raises(ValueError, match="name: got 'rome'"):
            experiments.scenes(["rome"])


class TestTheTables:
    def test_a_cell_has_medians_and_the_setting_of_the_first_draw(self, two_scenes):
        cells = leaders.standings(two_scenes)
        assert list(cells) == [("a", 5.0), ("a", None), ("b", 5.0)]
        entry = cells["a", 5.0]["hysure", True]
        assert (entry["rsnr"], entry["runs"], entry["options"]) == (20.0, 3, {"rank": 7})
        assert (entry["seconds"], entry["peak_memory"]) == (0.5, 1000)
        assert cells["a", 5.0]["hysure", False]["rsnr"] == 13.0
        assert ("stereo", False) not in cells["a", None]

    def test_the_best_rival_is_none_of_ours(self, two_scenes):
        cells = leaders.standings(two_scenes)
        assert leaders.best_rival(cells["a", None], tuned=False) == ("fuse-sylvester", 39.0)
        assert leaders.best_rival(cells["a", None], tuned=True) == ("fuse-sylvester", 42.5)
        assert leaders.best_rival(cells["a", 5.0], tuned=False) == ("hysure", 13.0)
        # One that has nothing to tune, or was not tuned, counts as it is.
        assert leaders.best_rival(cells["b", 5.0], tuned=True) == ("stranger", 18.5)
        assert leaders.best_rival(cells["b", 5.0], tuned=True, metric="sam") == ("scott", 2.0)
        assert leaders.best_rival({}, tuned=True) is None

    def test_the_page_says_who_wins_where_and_by_how_much(self, two_scenes):
        page = leaders.report(two_scenes)
        lines = page.splitlines()
        at = lines.index("| **a** | auto | 21.0 | 40.0 |")
        assert lines[at + 1 : at + 4] == [
            "|  | best rival, published | HySure 13.0 | FUSE 39.0 |",
            "|  | best rival, tuned* | HySure 20.0 | FUSE 42.5 |",
            "|  | auto better than it by | +1.0 | -2.5 |",
        ]
        assert "|  | best rival, tuned* | stranger 18.5 | – |" in lines
        assert "| stranger | 1 | 0 | – | 1 | – | +0.5 | – | 0.5 |" in lines
        assert "| FUSE | 1 | 1 | 1 | 0 | 1 | -1.0 | +2.5 | 0.5 |" in lines
        assert figures.UPPER_BOUND in page
        assert "## b" in lines
        assert "| UC-C-Tucker | 11.0 | – |" in lines

    def test_every_cell_in_which_a_rival_is_better_is_named(self, two_scenes):
        where = "FUSE* on a (no noise) by 2.50 dB; stranger on b (at 5 dB) by 0.50 dB."
        sentence = f"In R-SNR a rival is better than auto in 2 of 3 cells: {where}"
        assert sentence in leaders.report(two_scenes).splitlines()
        assert sentence in leaders.winners(two_scenes).splitlines()
        alone = leaders.standings([row("a", 5.0, "auto", 20.0), row("a", 5.0, "scott", 10.0)])
        assert leaders.where_beaten(alone).startswith("In R-SNR no rival is better than auto in any cell")

    def test_the_csv_has_a_line_for_each_system_of_each_cell(self, two_scenes, tmp_path):
        leaders.write_standings(tmp_path / "standings.csv", two_scenes)
        with open(tmp_path / "standings.csv", newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == sum(map(len, leaders.standings(two_scenes).values()))
        (line,) = (line for line in lines if (line["system"], line["tuned"]) == ("fuse-sylvester", "True"))
        assert (line["snr"], float(line["rsnr_minus_auto"]), json.loads(line["options"])) == (
            "no noise",
            2.5,
            {"rank": 3},
        )

    def test_another_ratio_is_another_scene(self, two_scenes):
        (unusual,) = leaders.by_scene([row("a", 5.0, "scott", 1.0, ratio=8)])
        assert unusual == "a, ratio 8"
        old = row("a", 5.0, "scott", 1.0)
        del old["ratio"]
        assert list(leaders.by_scene([old])) == ["a"]

    def test_medians_and_curves_take_rows_without_noise(self, two_scenes):
        pytest.importorskip("matplotlib")
        of_scene = leaders.by_scene(two_scenes)["a"]
        assert "| R-SNR (dB), no filter | 5 dB | no noise |" in figures.text_table(of_scene, "snr", filters=(False,))
        panel = figures.curves(of_scene, "snr").axes[0]
        assert [text.get_text() for text in panel.get_xticklabels()] == ["5", "no noise"]
        lines = {line.get_label(): line for line in panel.get_lines()}
        assert list(lines["auto"].get_xdata()) == [5.0, 15.0]


class TestThePictures:
    def test_the_overview_has_a_panel_for_each_scene(self, two_scenes):
        pytest.importorskip("matplotlib")
        figure = scene_figures.overview(two_scenes)
        assert [panel.get_title() for panel in figure.axes] == ["a", "b"]
        lines = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].get_lines()}
        assert lines == {
            "auto": [21.0, 40.0],
            "best rival, published": [13.0, 39.0],
            "best rival, tuned*": [20.0, 42.5],
        }
        assert figures.UPPER_BOUND in figure.get_suptitle()
        assert figure.get_figwidth() <= plots.PAGE_WIDTH

    def test_the_gains_name_the_rival_in_each_cell(self, two_scenes):
        pytest.importorskip("matplotlib")
        (panel,) = scene_figures.gains(two_scenes).axes
        assert {text.get_text() for text in panel.texts} == {"+1.0\nHySure", "-2.5\nFUSE", "-0.5\nstranger"}
        assert [text.get_text() for text in panel.get_yticklabels()] == ["a", "b"]


class TestKeptRows:
    def test_are_small_and_are_the_rows(self, tmp_path, two_scenes):
        two_scenes[0] |= {"maps": {"band": {}}, "cost": 1.23456789, "options": {"weight": 0.123456789}}
        for name in ("kept.jsonl", "kept.jsonl.gz"):
            rows.pack(tmp_path / name, two_scenes)
            found = rows.read(tmp_path / name)
            assert "maps" not in found[0]
            assert (found[0]["cost"], found[0]["options"]) == (1.23457, {"weight": 0.123456789})
            assert found[1:] == two_scenes[1:]
        assert (tmp_path / "kept.jsonl.gz").stat().st_size < 0.1 * (tmp_path / "kept.jsonl").stat().st_size


# What is asked of the command, and what it answers.
WRONG = {
    "--snr none,5": "got 'none,5'",
    "--snr 5,200000,none": "got '5,200000'; from -100 to 300 dB are needed",
    "--methods hysur": "methods: got 'hysur'",
    "--scenes rome": "name: got 'rome'",
    "--from nowhere.jsonl": "nowhere.jsonl",
    "--redraw": "holds no rows",
    "--scenes synthetic --time-limit nan": "time_limit: got nan; a finite number of at least 0 is needed",
    "--scenes synthetic --tuning-runs 0": "tuning_runs: got 0; a whole number of at least 1 and at most 40 is needed",
    "--from .": ".: is a folder; rows are needed",
}


def test_a_system_that_was_tuned_in_one_cell_is_not_called_tuned_in_another(two_scenes):
    found = [*two_scenes, row("a", None, "hysure", 30.0)]
    cells = leaders.standings(found)
    assert ("hysure", True) in cells["a", 5.0]
    assert ("hysure", True) not in cells["a", None]
    assert "| HySure | 2 | 1 | 4 | 0 | 0 | -9.0 | -1.0 | 0.5 |" in leaders.winners(found).splitlines()


def test_draws_on_which_a_system_was_not_tuned_have_no_part_in_its_tuned_score():
    """Ten draws as published and one tuned: the median of all would hide what tuning gives."""
    found = [row("a", 5.0, "hysure", 10.0, run=run) for run in range(10)]
    found += [row("a", 5.0, "hysure", 20.0, tuned=True, options={"rank": 7})]
    entry = leaders.standings(found)["a", 5.0]["hysure", True]
    assert (entry["rsnr"], entry["runs"]) == (20.0, 1)


class TestTheCommand:
    ARGUMENTS = ("--scenes", "synthetic", "--methods", "scott,fuse-sylvester,auto", "--snr", "20,none", "--draws", "1")

    def test_runs_resumes_from_a_file_and_draws(self, tmp_path, capsys):
        pytest.importorskip("matplotlib")
        first, second, kept = tmp_path / "first", tmp_path / "second", tmp_path / "kept.jsonl.gz"
        assert main(["experiment", "scenes", *self.ARGUMENTS, "--published", "-o", str(first)]) == 0
        names = {"rows.jsonl", "rows.csv", "standings.csv", "standings.md", "scenes.png", "gains.png"}
        assert {path.name for path in first.iterdir()} == names
        assert "## Who wins where" in capsys.readouterr().out
        stranger = {**row("synthetic", 20.0, "stranger", 99.0), "package": "x"}
        (tmp_path / "x.jsonl").write_text(json.dumps(stranger) + "\n")
        assert main(["experiment", "rows", str(first / "rows.jsonl"), "-o", str(kept)]) == 0
        files = ["--from", str(kept), str(tmp_path / "x.jsonl")]
        assert main(["experiment", "scenes", *self.ARGUMENTS, "--published", *files, "-o", str(second)]) == 0
        assert "stranger 99.0" in capsys.readouterr().out
        assert [found["seconds"] for found in experiments.read(second / "rows.jsonl")] == [
            found["seconds"] for found in experiments.read(kept)
        ], "none is computed again"
        (second / "scenes.png").unlink()
        assert main(["experiment", "scenes", "--redraw", "-o", str(second)]) == 0
        assert (second / "scenes.png").exists()
        assert "stranger" not in capsys.readouterr().out

    def test_rows_are_described_joined_and_bad_ones_named(self, tmp_path, capsys):
        good, bad = row("a", 5.0, "scott", 3.0), {**row("a", 6.0, "scott", 3.0), "run": -1}
        (tmp_path / "one.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
        (tmp_path / "two.jsonl").write_text(f"{json.dumps(good)}\n")
        files = [str(tmp_path / name) for name in ("one.jsonl", "two.jsonl")]
        assert main(["experiment", "rows", *files, "-o", str(tmp_path / "all.jsonl.gz")]) == 2
        said = capsys.readouterr()
        assert said.err == (
            f"fastccpd: warning: left out: {files[0]}: line 2: run: got -1; a whole number of at least 0 is needed\n"
        )
        assert said.out.splitlines()[-1].endswith("all.jsonl.gz: 1 rows")
        assert rows.read(tmp_path / "all.jsonl.gz") == [good]
        assert main(["experiment", "rows", files[1]]) == 0

    @pytest.mark.parametrize("arguments", WRONG)
    def test_what_is_wrong_is_one_sentence(self, arguments, tmp_path, capsys):
        assert main(["experiment", "scenes", "-o", str(tmp_path / "out"), *arguments.split()]) == 2
        said = capsys.readouterr().err
        assert WRONG[arguments] in said
        assert said.count("\n") == 1

    def test_rows_that_all_failed_are_one_sentence(self, tmp_path, capsys):
        failed = {**row("a", 5.0, "scott", 3.0), "error": "it would not"}
        del failed["metrics"]
        for kind in ("scenes", "snr"):
            (tmp_path / "rows.jsonl").write_text(json.dumps(failed) + "\n")
            assert main(["experiment", kind, "--redraw", "-o", str(tmp_path)]) == 2
            said = capsys.readouterr().err
            assert said.endswith("rows.jsonl: all rows failed, the first (scott): it would not\n")
            assert said.count("\n") == 1

    def test_nothing_is_written_over_the_rows_it_reads(self, tmp_path, capsys):
        (tmp_path / "rows.csv").write_text(json.dumps(row("a", 5.0, "scott", 3.0)) + "\n")
        arguments = ["--redraw", "--from", str(tmp_path / "rows.csv"), "-o", str(tmp_path)]
        assert main(["experiment", "scenes", *arguments]) == 2
        assert "rows.csv is one of the inputs, which are never overwritten" in capsys.readouterr().err
