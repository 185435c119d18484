"""Tuning with the truth: what a search tries, what it finds, and that it goes on where it stopped."""

import itertools
import json

import pytest

from fastccpd import experiments, methods
from fastccpd.experiments import plans, rows, runner, systems, tuning
from fastccpd.experiments.systems import System

TUNABLE = [name for name, system in systems.SYSTEMS.items() if system.grid()]


def searched(system, score, most=tuning.MOST):
    """(the best setting, all settings that were tried) by a search that knows a score of every setting."""
    search, tried, scores = tuning.search(system, score(system.options), most), [], None
    while True:
        try:
            batch = search.send(scores)
        except StopIteration as end:
            return end.value, tried
        tried += batch
        scores = [score(options) for options in batch]


def bowl(system, target):
    """A score of settings that is best, and 0, where each knob has the value of `target` in its list."""

    def score(options):
        numbers = []
        for names, values in system.grid():
            now = [options.get(name, system.published(name)) for name in names]
            numbers.append(values.index(now[0]))
        return -sum((a - b) ** 2 for a, b in zip(numbers, target))

    return score


FOUR = System(
    "four",
    "hysure",
    {"rank": 6},
    knobs={"lambda_phi": (5e-5, 5e-4, 5e-3, 5e-2), "rank": (2, 4, 6, 8), "mu": (0.05, 0.5), "basis": ("vca", "svd")},
)


class TestASystem:
    @pytest.mark.parametrize("name", TUNABLE)
    def test_knobs_are_options_of_the_method_whose_published_value_is_among_theirs(self, name):
        system = systems.SYSTEMS[name]
        for options in system.settings():
            methods.make(system.method, options)
        walk = tuning._Walk(system, 0.0, 0)
        for names, values in (*system.grid(), *system.grid(steps=True)):
            assert len(set(values)) == len(values) >= 2, names
            published = system.changed(system.options, names, values[walk.number(names, values)])
            assert published == {**system.options, **{option: system.published(option) for option in names}}

    @pytest.mark.parametrize("name", TUNABLE)
    def test_steps_know_the_values_of_the_knobs_that_set_the_same_option(self, name):
        system = systems.SYSTEMS[name]
        steps = {names[0]: set(values) for names, values in system.grid(steps=True)}
        for names, values in system.grid():
            for place, option in enumerate(names if len(names) > 1 else ()):
                assert option not in steps or {value[place] for value in values} <= steps[option]

    @pytest.mark.parametrize("name", TUNABLE)
    def test_the_first_pass_and_some_rounds_fit_into_the_runs_there_are(self, name):
        assert len(systems.SYSTEMS[name].settings()) <= tuning.MOST - 8

    def test_a_knob_may_move_two_options_together_or_a_part_of_one(self):
        pair = System("pair", "hysure", knobs={("lambda_phi", "mu"): ((5e-4, 0.05), (1e-3, 0.5))})
        assert pair.settings() == [{"lambda_phi": 1e-3, "mu": 0.5}]
        part = System(
            "part", "scott", {"rank": (12, 12, 12)}, ((None, None, 2), (None, None, 12)), {"rank": ((3, 3, None),)}
        )
        assert part.settings() == [{"rank": (12, 12, 2)}, {"rank": (3, 3, 12)}]
        assert part.changed({"rank": (12, 12, 2)}, ("rank",), (3, 3, None)) == {"rank": (3, 3, 2)}

    def test_grids_are_as_wide_as_was_promised(self):
        hysure = systems.SYSTEMS["hysure"].knobs
        assert hysure["rank"] == (2, 4, 6, 8, 10, 13, 16, 20, 25)
        assert set(hysure["basis"]) == {"vca", "svd"}
        for weight in ("lambda_phi", "mu"):
            assert max(hysure[weight]) >= 1000 * min(hysure[weight])
        assert max(systems.SYSTEMS["fuse-sylvester"].knobs["rank"]) == 20
        if "nssr" in systems.SYSTEMS:
            assert (1e-4, 1e-4) in systems.SYSTEMS["nssr"].knobs["eta1", "eta2"]

    def test_a_published_value_outside_its_list_is_named(self):
        wrong = System("wrong", "hysure", {"rank": 6}, (2, 4))
        with pytest.raises(ValueError, match=r"knobs: rank of hysure lacks the published value \(6,\)"):
            next(tuning.search(wrong, 0.0))


class TestASearch:
    @pytest.mark.parametrize("target", list(itertools.product((0, 3), (0, 3), (0, 1), (0, 1))))
    def test_finds_the_best_setting_where_knobs_do_not_interact(self, target):
        score = bowl(FOUR, target)
        best, tried = searched(FOUR, score)
        assert score(best) == 0
        assert len(tried) <= tuning.MOST
        keys = [json.dumps(options, sort_keys=True) for options in tried]
        assert len(set(keys)) == len(keys)
        assert json.dumps(FOUR.options, sort_keys=True) not in keys

    def test_the_published_setting_stays_where_nothing_is_better(self):
        best, tried = searched(FOUR, lambda options: 1.0 if options == FOUR.options else 0.0)
        assert best == FOUR.options
        assert len(tried) == 3 + 3 + 1 + 1

    def test_knobs_that_interact_are_followed_round_after_round(self):
        # Only together do they help, a step at a time: the first pass finds the first step alone.
        ladder = [(0.05, 6), (0.05, 8), (0.5, 8)]
        known = {value: number for number, value in enumerate(ladder)}

        def score(options):
            return known.get((options.get("mu", 0.05), options["rank"]), -1)

        swapped = System("swapped", "hysure", {"rank": 6}, knobs={"mu": (0.05, 0.5), "rank": (4, 6, 8)})
        best, _ = searched(swapped, score)
        assert best == {"rank": 8, "mu": 0.5}

    def test_walks_a_long_list_past_one_value_that_is_worse_and_not_past_two(self):
        ranks = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
        long = System("long", "hysure", {"rank": 6}, ranks)
        heights = {6: 0, 7: -1, 8: 1, 9: -5, 10: -5, 11: 99, 5: -1, 4: -2, 3: 99}
        best, tried = searched(long, lambda options: heights.get(options["rank"], -9))
        assert best == {"rank": 8}
        assert sorted(options["rank"] for options in tried) == [4, 5, 7, 8, 9, 10]
        flat = {**dict.fromkeys(ranks, -0.01), 12: 1.0, 6: 0.0}
        assert searched(long, lambda options: flat[options["rank"]])[0] == {"rank": 12}

    def test_never_takes_more_runs_than_it_may(self):
        for most in (0, 1, 5, 9):
            best, tried = searched(FOUR, bowl(FOUR, (3, 0, 1, 1)), most)
            assert len(tried) == most
            assert bowl(FOUR, (3, 0, 1, 1))(best) == max(map(bowl(FOUR, (3, 0, 1, 1)), [FOUR.options, *tried]))

    def test_steps_lead_away_from_a_knob_of_several_options_and_not_back_to_it(self):
        tied = System(
            "tied",
            "hysure",
            {"rank": 6},
            knobs={("lambda_phi", "mu"): ((5e-4, 0.05), (0.1, 0.5)), "rank": (4, 6)},
            steps={"mu": (0.05, 0.5, 1.0, 2.0)},
        )
        scores = {(5e-4, 0.05): 0, (0.1, 0.5): 1, (0.1, 1.0): 2, (0.1, 2.0): 3}

        def score(options):
            return scores.get((options.get("lambda_phi", 5e-4), options.get("mu", 0.05)), -1) + 0.1 * (
                options["rank"] == 4
            )

        best, tried = searched(tied, score)
        assert best == {"rank": 4, "lambda_phi": 0.1, "mu": 2.0}
        assert len(tried) < 9

    def test_a_setting_that_fails_is_never_the_best(self):
        best, _ = searched(FOUR, lambda options: float("-inf") if options["rank"] != 6 else 0.0)
        assert best["rank"] == 6


def counted(**how):
    """Rows of a small experiment, and what its progress was."""
    counts = []
    how["progress"] = lambda *count: counts.append(count)
    return experiments.snr("synthetic", ("scott",), runs=2, snr=(5, 20), tuned=True, **how), counts


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    file = tmp_path_factory.mktemp("tuned") / "rows.jsonl"
    return counted(file=file)[0], file


class TestAnExperiment:
    def test_tunes_on_the_first_draw_and_runs_the_best_setting_on_the_others(self, found):
        made, _ = found
        for level in (5.0, 20.0):
            cell = [row for row in made if row["snr"] == level]
            first = [row for row in cell if row["run"] == 0]
            tuned = [row for row in first if row["tuned"] and "lee" not in row]
            assert len(systems.SYSTEMS["scott"].grid()) < len(tuned) <= tuning.MOST
            best = max(first, key=tuning.score_of)
            (other,) = (row for row in cell if row["run"] == 1 and row["tuned"])
            assert other["options"] == best["options"]
            table = rows.medians(made, "snr")
            assert table[level, "scott", True]["rsnr"] > table[level, "scott", False]["rsnr"] + 3.0

    def test_filters_the_best_setting_alone(self, found):
        made, _ = found
        for level in (5.0, 20.0):
            cell = [row for row in made if row["snr"] == level]
            best = max((row for row in cell if row["run"] == 0), key=tuning.score_of)
            filtered = [row for row in cell if row["tuned"] and "lee" in row]
            assert [(row["run"], row["options"]) for row in filtered] == [(0, best["options"]), (1, best["options"])]
            assert rows.medians(made, "snr", filtered=True)[level, "scott", True]["runs"] == 2

    def test_takes_no_more_runs_than_it_is_given(self, found):
        made, _ = found
        fewer = counted(known=made, tuning_runs=4)[0]
        cells = [[row for row in fewer if row["snr"] == level and row["tuned"]] for level in (5.0, 20.0)]
        assert [sum("lee" not in row for row in cell) for cell in cells] == [4, 4]
        with pytest.raises(ValueError, match="^tuning_runs: got 41; .*at most 40 is needed"):
            counted(tuning_runs=41)

    def test_shares_its_search_with_the_experiment_of_all_scenes(self, found):
        made, _ = found
        searched = [row for row in made if not (row["tuned"] and "lee" in row)]
        counts = []
        experiments.scenes(
            ("synthetic",), ("scott",), (5, 20), 1, known=searched, progress=lambda *count: counts.append(count)
        )
        (only,) = counts
        assert only[0] == only[1]

    def test_goes_on_where_it_stopped(self, found, tmp_path):
        made, file = found
        lines = file.read_text().splitlines()
        for kept in (len(lines), len(lines) - 3, 2):
            again = tmp_path / f"{kept}.jsonl"
            again.write_text("".join(f"{line}\n" for line in lines[:kept]))
            resumed, counts = counted(file=again)
            assert [row["metrics"] for row in resumed] == [row["metrics"] for row in made]
            assert len(counts) == len(lines) - kept + 1
            assert counts[-1] == (len(lines), len(lines))
            assert all(done <= total for done, total in counts)

    def test_goes_the_same_way_from_rows_that_are_kept(self, found, tmp_path):
        made, _ = found
        rows.pack(tmp_path / "kept.jsonl.gz", made)
        kept = rows.read(tmp_path / "kept.jsonl.gz")
        assert counted(known=kept) == (kept, [(len(made), len(made))])
        assert tuning.score_of({"metrics": {"rsnr": 19.23681}}) == tuning.score_of({"metrics": {"rsnr": 19.23684}})

    def test_takes_rows_of_other_files_for_its_own(self, found):
        made, _ = found
        assert counted(known=made) == (made, [(len(made), len(made))])


def test_a_task_that_two_jobs_ask_for_is_run_once():
    task = plans.tasks("synthetic", ("scott",), 1, (5,))
    seen = []
    found = runner.run([runner.listed(task), runner.listed(task)], progress=lambda *count: seen.append(count))
    assert len(found) == 1
    assert seen[-1] == (1, 1)
