"""The schema of rows: what the page says, what the validator refuses, and what other packages write."""

import gzip
import json
import os
import re
import sys

import numpy as np
import pages
import pytest

from fastccpd import Degradation, experiments, fuse, methods, rows
from fastccpd.imaging import metrics, scenes
from fastccpd.testing import score_method, simulated

PAGE = "rows.md"

# As files of before there was a schema have them.
OLD = {
    "scene": "salinas-a",
    "snr": 5.0,
    "run": 3,
    "system": "scott",
    "method": "scott",
    "options": {"rank": [12, 12, 12]},
    "tuned": False,
    "band": None,
    "metrics": {"rsnr": 3.1, "rmse": 0.1, "cc": None, "sam": 30.0, "ergas": 9.0},
    "lee": {"rsnr": 8.1, "rmse": 0.1, "cc": 0.4, "sam": 20.0, "ergas": 9.0},
    "seconds": 0.5,
    "status": "DIRECT",
    "n_iter": 1,
    "cost": 2.0,
    "notes": [],
    "versions": {"fastccpd": "0.1.0", "numpy": "2.0"},
}
SPEED = {
    "schema": 1,
    "kind": "speed",
    "method": "mttkrp",
    "package": "fastccpd",
    "version": "0.1.0",
    "options": {},
    "seconds": 0.001,
    "machine": {"processor": "some"},
    "inputs": None,
    "benchmark": "mttkrp",
    "case": "80×84×6 R=30 float64",
    "baseline": "tensorly 0.9.0",
    "baseline_seconds": 0.004,
    "speedup": 4.0,
    "repeats": 30,
}


def repeated(hsi, msi, degradation, weight=1.0):
    return weight * np.repeat(np.repeat(hsi, 4, axis=0), 4, axis=1)


@pytest.fixture(scope="module")
def foreign():
    return score_method(repeated, snr=(20, None), draws=2, package="mine", version="0.1")


class TestThePage:
    def test_lists_exactly_the_fields_of_the_validator_with_what_is_needed(self):
        lines = re.findall(r"^\| `(\w+)`( [*°])? \| ([^|]+) \| [^|]+ \|$", pages.text_of(PAGE), flags=re.MULTILINE)
        marks = {name: mark.strip() for name, mark, _ in lines}
        assert {name: needed for name, _, needed in lines} == {
            field.name: field.value.needed for field in rows.FIELDS.values()
        }
        for field in rows.FIELDS.values():
            assert marks[field.name] == ("" if field.required and not field.outcome else "°" if field.outcome else "*")

    def test_puts_every_field_under_its_kind(self):
        parts = re.split(r"^### ", pages.text_of(PAGE), flags=re.MULTILINE)[1:]
        for kind, part in zip(("", "fusion", "speed"), parts):
            named = re.findall(r"^\| `(\w+)`", part, flags=re.MULTILINE)
            assert set(named) == {field.name for field in rows.FIELDS.values() if field.kind == kind}

    def test_names_the_version_that_is_written(self):
        assert f"the schema, version {rows.SCHEMA}." in pages.text_of(PAGE)

    @pytest.mark.parametrize("example", pages.examples_of(PAGE), ids=["fault", "own"])
    def test_has_examples_that_run(self, example):
        pages.run_example(example, PAGE)


class TestTheValidator:
    def test_takes_what_is_right(self, foreign):
        for row in (*foreign, SPEED, OLD):
            assert rows.fault(json.loads(json.dumps(row))) is None

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"snr": "high"}, 'snr: got "high"; a finite number, or null is needed'),
            ({"snr": True}, "snr: got true; a finite number, or null is needed"),
            ({"seconds": -1}, "seconds: got -1; a number of at least 0 is needed"),
            ({"seconds": float("nan")}, "seconds: got NaN; a number of at least 0 is needed"),
            ({"run": 1.5}, "run: got 1.5; a whole number of at least 0 is needed"),
            ({"tuned": "no"}, 'tuned: got "no"; true or false is needed'),
            ({"options": [1]}, "options: got [1]; an object is needed"),
            ({"metrics": {"rsnr": "9"}}, 'metrics: got {"rsnr": "9"}; an object of names and finite numbers or nulls'),
            ({"kind": "other"}, 'kind: got "other"; "fusion" or "speed" is needed'),
            ({"schema": 2}, "schema: got 2; at most 1 is known here, so a newer version is needed"),
            ({"schema": "1"}, 'schema: got "1"; a whole number of at least 1 is needed'),
            ({"inputs": "xyz"}, 'inputs: got "xyz"; 16 hexadecimal digits, or null is needed'),
            ({"n_iter": -1}, "n_iter: got -1; a whole number of at least 0, or null is needed"),
            ({"package": "x" * 100, "version": 3}, "version: got 3; a text that is not empty is needed"),
        ],
    )
    def test_says_which_field_is_wrong(self, foreign, change, sentence):
        assert rows.fault({**foreign[0], **change}).startswith(sentence)

    @pytest.mark.parametrize("name", [field.name for field in rows.FIELDS.values() if field.required])
    def test_misses_every_field_that_is_needed(self, foreign, name):
        row = dict(SPEED if rows.FIELDS[name].kind == "speed" else foreign[0])
        del row[name]
        # Without a version a row is taken for an old one, of which less is asked.
        assert name == "schema" or rows.fault(row).startswith(f"{name}: is missing; ")

    def test_asks_no_outcome_of_a_run_that_failed(self, foreign):
        row = {name: value for name, value in foreign[0].items() if name not in ("seconds", "metrics", "peak_memory")}
        assert rows.fault(row).startswith("seconds: is missing")
        assert rows.fault({**row, "error": "no"}) is None

    def test_names_the_lines_of_a_file_and_reads_the_others(self, foreign, tmp_path):
        bad = {**foreign[0], "snr": "high"}
        lines = [json.dumps(foreign[0]), json.dumps(bad), "", "no row", json.dumps(SPEED), json.dumps(OLD), '{"torn']
        for path, content in (
            (tmp_path / "rows.jsonl", "\n".join(lines).encode()),
            (tmp_path / "rows.jsonl.gz", gzip.compress("\n".join(lines).encode())),
        ):
            path.write_bytes(content)
            found, faults = rows.read(path)
            assert faults == rows.validate(path)
            assert faults == [
                f'{path}: line 2: snr: got "high"; a finite number, or null is needed',
                f"{path}: line 4: not JSON; one object a line is needed",
            ]
            assert found[:2] == [json.loads(json.dumps(foreign[0])), SPEED]
            assert found[2] == {**OLD, **{name: found[2][name] for name in found[2] if name not in OLD}}

    def test_a_torn_archive_is_one_sentence(self, tmp_path):
        path = tmp_path / "rows.jsonl.gz"
        path.write_bytes(gzip.compress(b"{}" * 1000)[:-9])
        with pytest.raises(ValueError, match=r"rows.jsonl.gz: is not a whole gzip file"):
            rows.validate(path)

    @pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
    def test_more_than_memory_holds_is_not_read(self, name, tmp_path, monkeypatch):
        monkeypatch.setattr(rows, "_MOST_BYTES", 10_000)
        lines, path = b"\n" * 10_001, tmp_path / name
        path.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
        with pytest.raises(ValueError, match=f"{name}: holds more than 10000 bytes of rows"):
            rows.read(path)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes in folders")
    def test_a_pipe_is_refused_and_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "rows.jsonl")
        with pytest.raises(OSError, match=r"rows.jsonl: is no regular file; rows are needed"):
            rows.read(tmp_path / "rows.jsonl")

    def test_rows_of_before_get_what_they_lack(self):
        row = rows.upgraded(OLD)
        assert (row["schema"], row["kind"], row["package"], row["version"]) == (1, "fusion", "fastccpd", "0.1.0")
        assert (row["seed"], row["ratio"], row["machine"], row["inputs"]) == (3, 4, {}, None)
        assert rows.upgraded(row) is row

    def test_experiments_read_rows_of_before_and_no_rows_of_speed(self, tmp_path):
        path = tmp_path / "rows.jsonl"
        path.write_text(json.dumps(OLD) + "\n")
        assert experiments.medians(experiments.read(path), "snr")[5.0, "scott", False]["rsnr"] == 3.1
        path.write_text(json.dumps(SPEED) + "\n")
        with pytest.raises(ValueError, match=r'line 1 is no row \(kind: got "speed"; "fusion" is needed\)'):
            experiments.read(path)


class TestTheHash:
    def test_tells_images_and_operators_apart_but_not_their_last_bits(self):
        case = simulated("synthetic", 20.0, 0)
        images = case.hsi, case.msi
        digest = rows.hash_of_inputs(*images, case.degradation)
        assert digest == rows.hash_of_inputs(*(image * (1 + 1e-15) for image in images), case.degradation)
        assert digest == rows.hash_of_inputs(*(np.asfortranarray(image) for image in images), case.degradation)
        assert digest != rows.hash_of_inputs(case.hsi, case.msi * 1.001, case.degradation)
        P1, P2, PM = case.degradation.P1, case.degradation.P2, case.degradation.PM
        assert digest != rows.hash_of_inputs(*images, Degradation(P1, P2, 2.0 * PM))
        assert digest != rows.hash_of_inputs(
            *(image for image in simulated("synthetic", 20.0, 1).hsi[:2]), case.degradation
        )

    def test_is_that_of_the_row(self, foreign):
        for row in foreign:
            case = simulated(row["scene"], row["snr"], row["run"], row["ratio"])
            assert row["inputs"] == rows.hash_of_inputs(case.hsi, case.msi, case.degradation)
        assert len({row["inputs"] for row in foreign}) == 3, "without noise all draws are one"


class TestScoreMethod:
    def test_a_function_is_scored_as_a_user_would(self, foreign):
        first = foreign[0]
        case = simulated("synthetic", 20.0, 0)
        assert first["metrics"]["rsnr"] == pytest.approx(metrics.rsnr(repeated(case.hsi, None, None), case.truth))
        assert (first["method"], first["system"], first["package"], first["version"]) == (
            *["repeated"] * 2,
            "mine",
            "0.1",
        )
        assert [(row["snr"], row["run"]) for row in foreign] == [(20.0, 0), (None, 0), (20.0, 1), (None, 1)]
        assert first["seconds"] > 0.0
        assert first["cpu_seconds"] > 0.0
        assert first["peak_memory"] is None or first["peak_memory"] >= 0

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts peaks anew")
    def test_peak_memory_counts_what_an_earlier_run_left_free(self):
        """The C library keeps a large heap for the next call, which then grows by nothing unless it is handed back."""

        def greedy(hsi, msi, degradation):
            kept = [np.ones(2**17) for _ in range(32)]  # 1 MB each
            return np.repeat(np.repeat(hsi, 4, axis=0), 4, axis=1) + 0.0 * len(kept)

        # One large array freed raises the size from which memory is mapped on its own: all that follows is heap.
        np.ones(3 * 2**20)
        found = score_method(greedy, ["synthetic"], snr=(20.0,), draws=3, package="mine", version="0.1")
        assert min(row["peak_memory"] for row in found) > 32e6

    @pytest.mark.parametrize("method", ["scott", methods.SCOTT, methods.SCOTT(rank=(4, 4, 3))], ids=str)
    def test_a_method_of_ours_is_given_by_name_class_or_object(self, method):
        own = isinstance(method, methods.Method)
        (row,) = score_method(method, snr=20, options=None if own else {"rank": (4, 4, 3)})
        case = simulated("synthetic", 20.0, 0)
        expected = fuse(case.hsi, case.msi, case.degradation, method="scott", rank=(4, 4, 3)).sri
        assert row["metrics"]["rsnr"] == pytest.approx(metrics.rsnr(expected, case.truth))
        assert (row["method"], row["package"], row["options"]["rank"]) == ("scott", "fastccpd", [4, 4, 3])
        assert rows.fault(row) is None

    def test_a_method_sees_the_images_of_an_experiment(self):
        (ours,) = experiments.snr("synthetic", ("fuse-sylvester",), runs=1, snr=(5,), workers=1)
        (row,) = score_method("fuse-sylvester", snr=5, options={"rank": 6})
        assert row["inputs"] == ours["inputs"]
        assert row["metrics"] == pytest.approx(ours["metrics"])
        assert rows.fault(ours) is None

    def test_options_seeds_and_names_reach_the_function_and_the_row(self):
        seen = []

        def mine(hsi, msi, degradation, *, weight, rng):
            seen.append((weight, rng))
            return repeated(hsi, msi, degradation, weight)

        found = score_method(mine, draws=2, options={"weight": 0.5}, name="halves", tuned=True)
        assert seen == [(0.5, 0), (0.5, 1)]
        for row in found:
            assert (row["system"], row["options"], row["tuned"]) == ("halves", {"weight": 0.5}, True)
            assert rows.fault(row) is None

    def test_what_fails_is_a_row_with_its_sentence(self):
        def refuses(hsi, msi, degradation):
            raise RuntimeError("out of luck")

        (row,) = score_method(refuses)
        assert row["error"] == "out of luck"
        assert rows.fault(row) is None
        (row,) = score_method(lambda hsi, msi, degradation: {}["band"], name="careless")
        assert row["error"] == "'band'"
        assert rows.fault(row) is None
        (row,) = score_method(lambda hsi, msi, degradation: hsi, name="coarse")
        assert "shape" in row["error"]
        assert rows.fault(row) is None

    def test_a_function_that_spoils_its_inputs_spoils_no_other_run(self):
        def spoils(hsi, msi, degradation):
            image = repeated(hsi, msi, degradation)
            hsi[:], msi[:] = 0.0, 0.0
            return image

        first, second = (score_method(spoils, snr=None)[0] for _ in range(2))
        assert first["metrics"] == second["metrics"]
        assert first["inputs"] == second["inputs"]

    def test_rows_are_added_to_a_file(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        found = score_method(repeated, draws=2, file=path) + score_method(repeated, snr=10, file=path)
        assert rows.read(path) == (json.loads(json.dumps(found)), [])

    def test_a_scene_of_one_s_own_will_do(self):
        scene = scenes.synthetic((24, 28, 40), rng=3)
        (row,) = score_method(repeated, scene)
        assert row["scene"] == "synthetic"
        assert row["metrics"]["rsnr"] > 0.0

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            ({"method": 3}, "method: got 3; a method's name, class or object, or a function, is needed"),
            ({"method": "scot"}, "method: got 'scot'; did you mean 'scott'"),
            ({"method": "scott", "options": {"rnak": 3}}, "rnak: 'scott' cannot use this option"),
            ({"method": methods.SCOTT(), "options": {"rank": 3}}, "options: got {'rank': 3} for a method object"),
            ({"method": repeated, "options": {"weight": 1j}}, "options: got {'weight': 1j}; what JSON can hold"),
            ({"method": repeated, "draws": 0}, "draws: got 0"),
            ({"method": repeated, "scene": "rome"}, "name: got 'rome'"),
        ],
    )
    def test_what_cannot_be_scored_is_refused(self, wrong, sentence):
        with pytest.raises((TypeError, ValueError)) as raised:
            score_method(**wrong)
        assert str(raised.value).startswith(sentence)

    @pytest.mark.scenes
    def test_a_real_pair_has_its_measured_msi_and_the_ratio_3(self):
        case = simulated("paris-pair", None, 0)
        pair = scenes.load_pair("paris")
        assert case.ratio == 3
        assert case.hsi.shape == (24, 24, 128)
        np.testing.assert_array_equal(case.msi, pair.msi)
        np.testing.assert_array_equal(case.truth, pair.reference)
