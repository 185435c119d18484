"""The dashboard: what it makes of rows and of asv's results, that rows stay text, and a hand on it in a browser."""

import gzip
import json
import os
import re

import numpy as np
import pytest
from browser import needs_browser, opened

from fastccpd import cli, dashboard, rows
from fastccpd.dashboard.board import board
from fastccpd.dashboard.history import history
from fastccpd.dashboard.steps import steps

HOSTILE = "</script><script>document.title='taken'</script><img src=http://127.0.0.1:9/a onerror=alert(1)>&\u2028\""


def fusion(system="auto", scene="salinas-a", snr=20.0, run=0, rsnr=30.0, seconds=1.0, tuned=False, **more):
    about = {"kind": "fusion", "method": system, "options": {"rank": 5}, "seconds": seconds, "inputs": None}
    place = {"scene": scene, "snr": snr, "run": run, "seed": run, "ratio": 4, "system": system, "tuned": tuned}
    scores = {"rsnr": rsnr, "sam": 2.0, "ergas": 3.0}
    row = {
        **rows.written_by("fastccpd", "0.1.0"),
        **about,
        **place,
        "metrics": scores,
        "peak_memory": 5_000_000,
        **more,
    }
    assert rows.fault(row) is None
    return row


def speed(case="80x84x6 R=30", baseline="tensorly 0.10.0", seconds=0.001, baseline_seconds=0.008, **more):
    about = {"kind": "speed", "method": "mttkrp_all", "options": {}, "inputs": None, "benchmark": "three MTTKRPs"}
    times = {"seconds": seconds, "baseline_seconds": baseline_seconds, "speedup": baseline_seconds / seconds}
    row = {**rows.written_by("fastccpd", "0.1.0"), **about, "case": case, "baseline": baseline, **times, **more}
    assert rows.fault(row) is None
    return row


def result_of_asv(number, values, repeats, name="kernels.MTTKRP.time_three_modes"):
    """A result file of asv 0.6 for one benchmark with one parameter."""
    columns = ["result", "params", "version", "started_at", "duration"]
    columns += [f"stats_{name}" for name in ("ci_99_a", "ci_99_b", "q_25", "q_75", "number", "repeat")]
    never = [float("inf")] * len(values)
    parameters = [[f"'{n}x{n}'" for n in range(len(values))]]
    spread = [[0.99 * value for value in values], [1.01 * value for value in values]]
    entry = [values, parameters, "v1", 0, 1.0, never, never, *spread, [1] * len(values), repeats]
    return {
        "commit_hash": f"{number:08x}" + 32 * "0",
        "env_name": "existing",
        "date": 1_700_000_000_000 + 86_400_000 * number,
        "params": {"machine": "box", "cpu": "a processor", "num_cpu": "2"},
        "python": "3.11",
        "env_vars": {"NUMBA_NUM_THREADS": "2"},
        "result_columns": columns,
        "results": {name: entry},
        "version": 2,
    }


def write_asv(folder, series, repeats=None):
    """A folder as asv leaves it: of each commit the values of a benchmark."""
    (folder / "box").mkdir(parents=True)
    (folder / "box" / "machine.json").write_text("{}", encoding="utf-8")
    (folder / "benchmarks.json").write_text(json.dumps({"version": 2}), encoding="utf-8")
    for number, values in enumerate(series):
        counts = [10] * len(values) if repeats is None else repeats[number]
        text = json.dumps(result_of_asv(number, values, counts))
        (folder / "box" / f"{number}.json").write_text(text, encoding="utf-8")
    return folder


def write_rows(path, found):
    text = "".join(json.dumps(row) + "\n" for row in found).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def numbers_of(page):
    return json.loads(re.search('<script type="application/json" id="numbers">(.*?)</script>', page, re.S)[1])


# What it is made of


def test_several_files_are_read_each_run_once_and_a_bad_row_is_named(tmp_path):
    first = write_rows(tmp_path / "a.jsonl", [fusion(), fusion(run=1), {"schema": 1, "kind": "fast"}])
    second = write_rows(tmp_path / "b.jsonl.gz", [fusion(rsnr=31.0), fusion("theirs", package="theirs", version="2")])
    read = dashboard.read([first, second, first])
    assert len(read.rows) == 3
    assert read.rows[0]["metrics"]["rsnr"] == 31.0, "of the same run the later row counts"
    assert read.faults == [f'{first}: line 3: kind: got "fast"; "fusion" or "speed" is needed']
    assert "line 3: kind: got &quot;fast&quot;" in dashboard.page(read)


def test_a_folder_stands_for_what_is_in_it(tmp_path):
    write_rows(tmp_path / "a.jsonl.gz", [fusion()])
    write_asv(tmp_path / "results", [[0.1], [0.1]])
    read = dashboard.read([tmp_path])
    assert (len(read.rows), len(read.results), read.faults) == (1, 2, [])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="empty: holds neither rows"):
        dashboard.read([empty])


@pytest.mark.parametrize("text", ["{", "[1]", '{"commit_hash": 3}'])
def test_a_file_that_is_no_result_of_asv_is_named(tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    (sentence,) = dashboard.read([file]).faults
    assert sentence.startswith(f"{file}: ")
    assert "a result file of asv is needed" in sentence


@pytest.mark.parametrize(
    "harm",
    [
        {"results": {"b.time_x": [[1.0, 2.0], [["'a'"]]]}},
        {"results": {"b.time_x": [{"a": 1}, 5]}},
        {"date": "yesterday"},
        {"commit_hash": 5},
    ],
)
def test_a_result_of_another_form_is_left_out_and_the_rest_is_shown(harm):
    good, bad, faults = result_of_asv(0, [0.1], [5]), result_of_asv(1, [0.1], [5]) | harm, []
    found = history([{**good, "path": "good"}, {**bad, "path": "bad"}], {}, faults)
    assert [len(series["points"]) for series in found["series"]] == [1]
    assert len(faults) == 1
    assert faults[0].startswith("bad: ")


# The leaderboard


def test_numbers_beyond_all_floats_and_endless_parameters_are_left_out(tmp_path):
    good, large, dated = (result_of_asv(n, [1.0, 2.0], [10, 10]) for n in range(3))
    large["results"]["time_it"] = [10**400]
    many = [list(range(1000))] * 10
    large["results"]["time_all"] = [[1.0], many, *good["results"]["kernels.MTTKRP.time_three_modes"][2:]]
    dated["date"] = 10**400
    faults = []
    found = history([{**result, "path": "a.json"} for result in (good, large, dated)], {}, faults)
    assert {series["name"] for series in found["series"]} == {"kernels.MTTKRP.time_three_modes"}
    assert [text.partition(": ")[2] for text in faults] == [
        "its commit_hash, date or results are of another kind than asv's; left out",
        "time_all: is not laid out as asv's results are; left out",
    ]
    for wrong in ({"metrics": {"rsnr": 10**400}}, {"peak_memory": 10**400}, {"seconds": 10**400}):
        assert rows.fault({**fusion(), **wrong}) is not None
    fast = {"flops": 1e308, "bytes": 1e-308, "peak_flops": 1.0, "peak_bytes": 1.0}
    path = write_rows(tmp_path / "a.jsonl", [fusion(), speed(**fast)])
    assert (
        "Infinity"
        not in re.search("<script type=.application/json.*?</script>", dashboard.page(dashboard.read([path]))).group()
    )


def test_a_pipe_among_the_results_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(OSError, match="a.json: is no regular file"):
        dashboard.read([tmp_path])


def test_a_cell_has_the_median_of_its_draws_and_tuned_rows_are_apart():
    found = [fusion(run=n, rsnr=value, seconds=value) for n, value in enumerate((10.0, 30.0, 50.0))]
    found += [fusion("stereo", rsnr=20.0), fusion("stereo", rsnr=25.0, tuned=True, options={"rank": 9})]
    made = board(found)
    labels = [system["label"] for system in made["systems"]]
    entries = {(labels[entry[2]], entry[3]): entry[4:] for entry in made["entries"]}
    assert entries["auto", 0][:4] == [30.0, 2.0, 3.0, 30.0]
    assert entries["auto", 0][5] == 3
    assert entries["UC-C-CPD-ALS", 0][0] == 20.0
    assert entries["UC-C-CPD-ALS", 1][0] == 25.0
    assert made["options"][entries["UC-C-CPD-ALS", 1][6]] == "rank=9"


def test_the_processor_time_counts_where_a_row_has_it():
    made = board([fusion(seconds=9.0, cpu_seconds=2.0), fusion("gsa", seconds=3.0)])
    assert [entry[7] for entry in made["entries"]] == [2.0, 3.0]


def test_a_process_that_did_not_grow_has_no_memory_to_show():
    """It had been larger before: that a fusion needs nothing is not what it says."""
    entries = board([fusion("auto", peak_memory=0), fusion("hysure")])["entries"]
    assert [entry[8] for entry in entries] == [None, 5_000_000]


def test_packages_and_versions_are_not_mixed():
    found = [fusion(), fusion(rsnr=40.0, version="0.2.0"), fusion(rsnr=50.0, package="theirs", version="1")]
    made = board(found)
    scores = {made["systems"][entry[2]]["label"]: entry[4] for entry in made["entries"]}
    assert scores == {"auto (0.1.0)": 30.0, "auto (0.2.0)": 40.0, "auto": 50.0}


def test_of_several_versions_all_but_the_newest_in_a_cell_are_older():
    found = [fusion(version=version, rsnr=rsnr) for version, rsnr in (("0.10.0", 31.0), ("0.9.0", 30.0))]
    found += [fusion("gsa", version="0.9.0"), fusion(package="theirs", version="0.8.0")]
    made = board(found)
    older = [made["entries"][number] for number in made["older"]]
    assert [(made["systems"][entry[2]]["version"], entry[4]) for entry in older] == [("0.9.0", 30.0)]


def test_a_rank_is_another_one_where_the_system_is_there_as_published():
    made = board([fusion("stereo"), fusion("stereo@10"), fusion("scott@10"), fusion("theirs@10", package="theirs")])
    marks = {system["name"]: system["other_rank"] for system in made["systems"]}
    assert marks == {"stereo": False, "stereo@10": True, "scott@10": False, "theirs@10": False}


def test_a_system_that_always_failed_is_there_with_its_reason():
    failed = {name: value for name, value in fusion("gsa").items() if name not in ("metrics", "seconds")}
    made = board([fusion(), failed | {"error": "no bands"}])
    (entry,) = [entry for entry in made["entries"] if made["systems"][entry[2]]["name"] == "gsa"]
    assert entry[4:9] == [None] * 5
    assert entry[-1] == "no bands"


@pytest.mark.parametrize("name", ["stereo@many", "stereo@", "auto@-3", "Ω", "@"])
def test_foreign_names_and_scores_are_no_trouble(name):
    found = [fusion(name, metrics={"mine": 3.0}), fusion(name, tuned=True, metrics={"sam": None})]
    made = board(found)
    assert {entry[4] for entry in made["entries"]} == {None}
    dashboard.page(dashboard.Sources(found, [], {}, [], []))


# The history of speed


def test_a_step_is_found_where_it_is():
    rng = np.random.default_rng(0)
    level = np.repeat([8.0, 4.0, 6.0], 10)
    for noise in (0.0, 0.02, 0.05):
        found = steps(level * np.exp(rng.normal(0.0, noise, level.size)))
        assert [step.place for step in found] == [10, 20]
        assert [round(step.after / step.before, 1) for step in found] == [0.5, 1.5]


def test_noise_is_no_step():
    rng = np.random.default_rng(1)
    found = [steps(np.exp(rng.normal(0.0, scale, 40))) for scale in (0.01, 0.05, 0.2) for _ in range(40)]
    assert sum(map(len, found)) <= 6, "of 120 histories"


def test_one_value_that_no_other_confirms_is_no_step_and_the_last_may_be_one():
    assert steps([1.0, 1.0, 1.0, 50.0, 1.0, 1.0, 1.0]) == []
    assert [step.place for step in steps([1.0, 1.0, 1.0, 1.0, 2.0])] == [4]
    assert steps([1.0, 1.05]) == []
    assert [step.place for step in steps([1.0, 1.2])] == [1]
    assert steps([1.0, 1.2], [(0.8, 1.3), (0.9, 1.5)]) == [], "their own repeats differ by more"
    assert steps([1.0]) == steps([]) == []


def test_a_time_taken_once_is_marked_and_decides_nothing(tmp_path):
    series = [[0.008], [0.008], [4.9], [4.9], [0.008]]
    once = write_asv(tmp_path / "once", series, [[10], [10], [1], [1], [10]])
    repeated = write_asv(tmp_path / "repeated", series)
    found = {}
    for folder in (once, repeated):
        read = dashboard.read([folder])
        found[folder.name] = history(read.results, read.benchmarks, [])
    assert [point.single for point in found["once"]["series"][0]["points"]] == [False, False, True, True, False]
    assert found["once"]["steps"] == []
    assert [step[1] for step in found["repeated"]["steps"]] == [2, 4]


def test_of_two_values_of_a_commit_the_one_with_repeats_counts():
    pair = [{**result_of_asv(0, [value], [repeats]), "path": "x"} for value, repeats in ((0.008, 10), (4.9, 1))]
    for results in (pair, pair[::-1]):
        ((point,),) = [series["points"] for series in history(results, {}, [])["series"]]
        assert (point.value, point.single) == (0.008, False)


def test_a_memory_peak_is_measured_once_and_counts():
    results = [
        {**result_of_asv(n, [value], [1], "kernels.Memory.peakmem_three_modes"), "path": "x"}
        for n, value in enumerate((1e8, 1e8, 3e8, 3e8))
    ]
    found = history(results, {}, [])
    assert not any(point.single for point in found["series"][0]["points"])
    assert [step[1] for step in found["steps"]] == [2]


# Ratios and the roof


def test_ratios_stand_in_a_table_and_points_under_their_roof():
    under = {"flops": 1e9, "bytes": 1e8, "peak_flops": 1e11, "peak_bytes": 4e10}
    alone, beside = speed(repeats=5), speed(seconds=0.002, company="DGEMM on two threads")
    page = dashboard.page(dashboard.Sources([alone, beside, speed(seconds=0.02, **under)], [], {}, [], []))
    assert [len(roof["points"]) for roof in numbers_of(page)["roofs"]] == [1]
    assert numbers_of(page)["roofs"][0]["points"][0][2:4] == [10.0, 5e10]
    table = re.search('id="side-by-side".*?</table>', page, re.S)[0]
    assert re.findall(r'class="(better|worse)">([\d.]+)×', table) == [("better", "8.0"), ("better", "4.0")]
    assert "DGEMM on two threads" in table


# Whatever rows say is text


def hostile_sources():
    names = {"scene": HOSTILE, "package": HOSTILE, "version": HOSTILE, "options": {HOSTILE: HOSTILE}}
    found = [fusion(HOSTILE, method=HOSTILE, machine={"processor": HOSTILE, "cores": 2}, **names), fusion()]
    failed = {name: value for name, value in fusion("gsa").items() if name not in ("metrics", "seconds")}
    found += [failed | {"error": HOSTILE}, speed(case=HOSTILE, baseline=HOSTILE, benchmark=HOSTILE, method=HOSTILE)]
    results = [{**result_of_asv(n, [n + 1.0], [5], HOSTILE), "path": HOSTILE} for n in range(2)]
    for result in results:
        result["params"]["machine"] = HOSTILE
    return dashboard.Sources(found, results, {}, [HOSTILE], [])


def test_nothing_a_row_says_becomes_markup():
    page = dashboard.page(hostile_sources(), title=HOSTILE)
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert "default-src 'none'" in page
    assert "unsafe" not in page
    assert numbers_of(page)["board"]["scenes"][0] == HOSTILE, "and nothing of it is lost"
    svg = dashboard.badge([fusion(HOSTILE, rsnr=50.0), fusion()], HOSTILE)
    assert "<script" not in svg
    assert "<img" not in svg


# The badge


def test_the_badge_counts_cells_in_which_a_system_is_best():
    found = [fusion(snr=snr, rsnr=30.0) for snr in (10.0, 20.0, 30.0)]
    found += [fusion("gsa", snr=snr, rsnr=rsnr) for snr, rsnr in ((10.0, 29.0), (20.0, 31.0), (30.0, 29.0))]
    found += [fusion("stereo", snr=10.0, rsnr=99.0, tuned=True), fusion(scene="samson")]
    assert "auto: best R-SNR in 2 of 3" in dashboard.badge(found)
    assert "GSA: best R-SNR in 1 of 3" in dashboard.badge(found, "gsa")
    with pytest.raises(ValueError, match="system: got 'scott'; one that is compared in the rows is needed: auto, gsa"):
        dashboard.badge(found, "scott")
    theirs = [fusion(snr=snr, rsnr=99.0, package="theirs", version="2") for snr in (10.0, 20.0, 30.0)]
    assert "auto: best R-SNR in 0 of 3" in dashboard.badge(found + theirs), "their auto is another one"
    assert "best R-SNR in 3 of 3" in dashboard.badge(found + theirs, "auto of theirs")
    assert "8.0× tensorly 0.10.0" in dashboard.badge([speed()])
    with pytest.raises(ValueError, match="rows: none has a score"):
        dashboard.badge([])


# The command


def test_the_command_writes_a_page_and_a_badge(tmp_path, capsys, monkeypatch):
    file = write_rows(tmp_path / "a.jsonl", [fusion(), fusion("gsa", rsnr=3.0), {"schema": 9, "kind": "fusion"}])
    page, svg = tmp_path / "page.html", tmp_path / "badge.svg"
    assert cli.main(["dashboard", str(file), "-o", str(page), "--badge", str(svg), "--title", "Mine"]) == 0
    assert "<title>Mine</title>" in page.read_text(encoding="utf-8")
    assert svg.read_text(encoding="utf-8").startswith("<svg")
    assert "left out: " in capsys.readouterr().err
    assert cli.main(["dashboard", str(file), "-o", str(page)]) == 2
    assert "--force overwrites it" in capsys.readouterr().err
    assert cli.main(["dashboard", str(file), "-o", str(file), "--force"]) == 2
    assert "inputs, which are never overwritten" in capsys.readouterr().err
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3
    monkeypatch.chdir(tmp_path)
    assert cli.main(["dashboard"]) == 2
    assert "none is given" in capsys.readouterr().err
    write_asv(tmp_path / ".asv" / "results", [[0.1], [0.2]])
    assert cli.main(["dashboard", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == 2
    assert "History of speed" in (tmp_path / "fastccpd-dashboard.html").read_text(encoding="utf-8")


def test_the_command_names_what_asv_cannot_have_written(tmp_path, capsys):
    folder = write_asv(tmp_path / "asv", [[0.1], [0.2]])
    (folder / "box" / "0.json").write_text('{"commit_hash": 1, "date": "x", "results": []}', encoding="utf-8")
    assert cli.main(["dashboard", str(folder), "-o", str(tmp_path / "page.html"), "--json"]) == 0
    told = capsys.readouterr()
    assert "0.json: its commit_hash, date or results are of another kind than asv's; left out" in told.err
    assert json.loads(told.out)["left_out"] == 1


@pytest.mark.parametrize("content", ["", "\n", "nothing\nof it\n"])
def test_without_one_good_row_there_is_no_page(tmp_path, capsys, content):
    file = tmp_path / "a.jsonl"
    file.write_text(content, encoding="utf-8")
    assert cli.main(["dashboard", str(file), "-o", str(tmp_path / "x.html")]) == 2
    assert "hold no row that is right" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


# In a browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two scenes at two levels: "auto" is best, "gsa" quick, "stereo" neither, and better only where it is tuned."""
    folder = tmp_path_factory.mktemp("dashboard")
    found = []
    for scene in ("salinas-a", "samson"):
        for snr in (10.0, None):
            found += [fusion("auto", scene, snr, rsnr=30.0, seconds=8.0), fusion("gsa", scene, snr, rsnr=20.0)]
            found += [fusion("stereo", scene, snr, rsnr=19.0, seconds=4.0)]
            found += [fusion("stereo", scene, snr, rsnr=31.0, seconds=5.0, tuned=True)]
    under = {"flops": 1e9, "bytes": 1e8, "peak_flops": 1e11, "peak_bytes": 4e10}
    found += [speed(), speed(seconds=0.02, **under)]
    file = write_rows(folder / "a.jsonl.gz", found)
    asv = write_asv(folder / "asv", [[0.008, 0.1]] * 4 + [[0.004, 0.1]] * 4)
    path = folder / "page.html"
    path.write_text(dashboard.page([file, asv], "A test"), encoding="utf-8")
    return path


@pytest.fixture
def tab(page, tmp_path):
    with opened(tmp_path, page.as_uri()) as tab:
        yield tab
        assert tab.console == []
        assert tab.outside() == []


METHODS = (
    "[...document.querySelectorAll('[data-view=board] tbody tr')].map((row) => row.querySelector('th').textContent)"
)


@needs_browser
def test_a_click_sorts_and_another_turns_it_round(tab):
    assert tab.value(METHODS) == ["UC-C-CPD-ALS, tuned", "auto", "GSA", "UC-C-CPD-ALS"]
    tab.click("[data-view=board] button[data-key=seconds]")
    assert tab.value(METHODS) == ["GSA", "UC-C-CPD-ALS", "UC-C-CPD-ALS, tuned", "auto"]
    assert tab.value("document.querySelector('[data-view=board] th[aria-sort=ascending]').textContent") == "median time"
    tab.click("[data-view=board] button[data-key=seconds]")
    assert tab.value(METHODS)[0] == "auto"
    assert tab.value("document.activeElement.dataset.key") == "seconds", "the keyboard stays where it was"
    tab.key("Enter")
    assert tab.value(METHODS)[0] == "GSA"


@needs_browser
def test_filters_and_search_narrow_it_and_the_address_brings_it_back(tab, page):
    tab.choose("select[data-key=view]", "cells")
    assert len(tab.value(METHODS)) == 16
    tab.choose("select[data-key=scene]", "samson")
    tab.choose("select[data-key=snr]", "no noise")
    tab.choose("select[data-key=tuned]", "0")
    assert tab.value(METHODS) == ["auto", "GSA", "UC-C-CPD-ALS"]
    tab.key("/", "/")
    tab.type("CPD als")
    assert tab.value(METHODS) == ["UC-C-CPD-ALS"]
    assert tab.value("document.querySelector('[role=status]').textContent") == "1 entries"
    tab.click("[data-view=board] a.link")
    assert tab.value("document.querySelectorAll('tr.chosen').length") == 1
    address = tab.value("location.href")
    tab.visit(address)
    assert tab.value(METHODS) == ["UC-C-CPD-ALS"]
    assert tab.value("document.querySelectorAll('tr.chosen').length") == 1
    assert tab.value("document.querySelector('input[type=search]').value") == "CPD als"
    tab.visit(page.as_uri() + "#scene=nowhere&view=cells&sort=nothing&fs=x&m=y&b=z")
    assert tab.value(METHODS) == []


@needs_browser
def test_the_front_is_what_no_other_beats_in_both(tab):
    assert tab.value("document.querySelector('[data-front]').dataset.front") == "gsa auto"
    tab.choose("[data-view=tradeoff] select[data-key=m]", "sam")
    assert tab.value("document.querySelector('[data-front]').dataset.front") == "gsa", "all have the same angle"


@needs_browser
def test_pictures_begin_with_the_cell_that_has_the_most_to_show(tmp_path):
    found = [fusion("auto", "a", 10.0), fusion("auto", "a", 20.0), fusion("auto", "b", 30.0), fusion("gsa", "b", 30.0)]
    found += [fusion("stereo", "b", None)]
    path = tmp_path / "page.html"
    path.write_text(dashboard.page([write_rows(tmp_path / "rows.jsonl", found)], "A test"), encoding="utf-8")
    with opened(tmp_path, path.as_uri()) as tab:
        chosen = [
            tab.value(f"document.querySelector('[data-view=tradeoff] select[data-key={key}]').value")
            for key in ("fs", "fl")
        ]
        assert chosen == ["b", "30 dB"]


@needs_browser
@pytest.mark.parametrize("kind", ["asv", "speed"])
def test_a_page_without_fusions_shows_what_there_is(kind, tmp_path):
    if kind == "asv":
        given, view = write_asv(tmp_path / "asv", [[0.008]] * 4 + [[0.004]] * 4), "history"
    else:
        under = {"flops": 1e9, "bytes": 1e8, "peak_flops": 1e11, "peak_bytes": 4e10}
        given, view = write_rows(tmp_path / "a.jsonl", [speed(seconds=0.02, **under)]), "roofs"
    path = tmp_path / "page.html"
    path.write_text(dashboard.page([given]), encoding="utf-8")
    with opened(tmp_path, path.as_uri()) as tab:
        assert tab.value(f"document.querySelectorAll('[data-view={view}] svg').length") > 0
        assert tab.console == []


@needs_browser
def test_older_versions_and_other_ranks_come_when_they_are_asked_for(tmp_path):
    found = [fusion(version="0.2.0"), fusion(version="0.1.0", rsnr=29.0), fusion("stereo", rsnr=20.0)]
    found += [fusion("stereo@10", rsnr=22.0, version="0.2.0"), fusion("stereo", snr=10.0, rsnr=19.0, version="0.2.0")]
    path = tmp_path / "page.html"
    path.write_text(dashboard.page([write_rows(tmp_path / "rows.jsonl", found)], "A test"), encoding="utf-8")
    with opened(tmp_path, path.as_uri()) as tab:
        assert tab.value(METHODS) == ["auto", "UC-C-CPD-ALS"]
        last = "document.querySelector('[data-view=board] tbody tr:last-child').textContent"
        assert "0.1.0, 0.2.0" in tab.value(last), "its cells are of two versions"
        assert tab.value("document.querySelectorAll('[data-view=tradeoff] g[data-line]').length") == 2
        tab.choose("select[data-key=tuned]", "ranks")
        assert "UC-C-CPD-ALS, R=10" in tab.value(METHODS)
        tab.choose("select[data-key=tuned]", "")
        tab.choose("select[data-key=versions]", "all")
        names = {f"{name} ({version})" for name in ("auto", "UC-C-CPD-ALS") for version in ("0.1.0", "0.2.0")}
        assert set(tab.value(METHODS)) == names
        tab.visit(tab.value("location.href"))
        assert set(tab.value(METHODS)) == names, "the address says it"
        assert tab.console == []


@needs_browser
def test_a_page_of_thousands_of_cells_opens_and_prints(tmp_path):
    systems, names = ("auto", "hysure", "stereo", "scott", "gsa", "cnmf"), [f"scene {n}" for n in range(120)]
    found = [fusion(system, name, snr) for system in systems for name in names for snr in (0.0, 10.0, 20.0, 30.0, None)]
    path = tmp_path / "page.html"
    path.write_text(dashboard.page([write_rows(tmp_path / "rows.jsonl", found)], "Many"), encoding="utf-8")
    with opened(tmp_path, path.as_uri()) as tab:
        assert tab.value("document.querySelectorAll('[data-view=tradeoff] g[data-line]').length") == len(systems)
        tab.prefer("light", media="print")
        assert len(tab.tell("Page.printToPDF")["data"]) > 10_000


@needs_browser
def test_lines_go_and_come_at_a_press(tab):
    lines = "document.querySelectorAll('[data-view=curves] g[data-line]').length"
    assert tab.value(lines) == 3, "tuned ones are away at first"
    tab.click("[data-view=curves] .legend li:first-child button")
    assert tab.value(lines) == 2
    tab.click("[data-view=curves] .legend li:first-child button")
    assert tab.value(lines) == 3


@needs_browser
def test_the_history_marks_its_step(tab):
    assert tab.value("document.querySelectorAll('[data-view=history] .step').length") == 1
    row = tab.value("document.querySelector('[data-view=history] tbody tr').textContent")
    assert "00000004" in row
    assert "0.5×" in row
    assert tab.value("document.querySelectorAll('[data-view=roofs] .marker').length") >= 1


@needs_browser
def test_it_fits_a_narrow_screen_and_goes_dark_and_prints_light(tab, page):
    back = "getComputedStyle(document.body).backgroundColor"
    assert tab.value(back) == "rgb(255, 255, 255)"
    tab.prefer("dark")
    assert tab.value(back) == "rgb(20, 23, 26)"
    tab.click("#theme")
    assert tab.value(back) == "rgb(255, 255, 255)"
    tab.click("#theme")
    assert tab.value(back) == "rgb(20, 23, 26)"
    tab.prefer("dark", media="print")
    assert tab.value(back) == "rgb(255, 255, 255)"
    tab.prefer("light")
    tab.resize(360)
    tab.visit(page.as_uri())
    assert tab.value("document.documentElement.scrollWidth") <= 360


@needs_browser
def test_hostile_rows_stay_text_in_a_browser(tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(dashboard.page(hostile_sources(), "Safe"), encoding="utf-8")
    with opened(tmp_path, path.as_uri() + "#view=cells") as tab:
        assert tab.value("document.title") == "Safe"
        assert tab.value("document.querySelectorAll('img').length") == 0
        assert any(HOSTILE in name for name in tab.value(METHODS))
        assert tab.console == []
        assert tab.outside() == []
