"""The side-by-side runner: its counts, its tables, its files. That it runs, not how fast."""

import json
import os

import asv_folder
import numpy as np
import pytest

from fastccpd import dashboard, kernels, rows

compare = asv_folder.module("compare")
counting = asv_folder.module("counting")
measuring = asv_folder.module("measuring")
genten = asv_folder.module("benchmarks.genten")
pairs = asv_folder.module("benchmarks.pairs")
rivals = asv_folder.module("benchmarks.rivals")
sections = asv_folder.module("sections")
profile = asv_folder.module("sections.profile")
roofline = asv_folder.module("sections.roofline")
maps = asv_folder.module("sections.maps")

LIMITS = measuring.Limits(flops=1e11, bytes=2.5e10)


def test_an_mttkrp_counts_four_flops_an_entry_and_rank_and_reads_the_tensor_once():
    Y, factors = np.ones((6, 5, 4)), [np.ones((n, 3)) for n in (6, 5, 4)]
    ((kernel, args, _),) = counting.launches_of(lambda: kernels.mttkrp_all(Y, factors))
    counted = counting.count(kernel, args, rank=3)
    assert (counted.part, counted.shape, counted.flops) == ("MTTKRP", "6×5×4", 4.0 * 6 * 5 * 4 * 3)
    assert Y.nbytes < counted.bytes < 10 * Y.nbytes


def test_every_kernel_of_an_iteration_is_counted():
    size = (16, 12, 10, 4, 3)
    for point in roofline._points(size):
        assert point["flops"] > 0.0, point
        assert point["bytes"] > 0.0, point


def test_a_kernel_that_is_not_in_the_table_is_timed_all_the_same():
    ((kernel, args, _),) = counting.launches_of(lambda: kernels.gram(np.ones((4, 3))))
    assert counting.count(kernel, args, rank=3) == ("grams", "", 0.0, 0.0)


OPTIONS = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 5}


def test_a_profile_accounts_for_the_whole_run():
    table = profile._profile_of("small", pairs.smooth_pair((24, 20, 16, 4, 3)), OPTIONS, LIMITS)
    parts = table.numbers["parts"]
    steps = "CG: H z, preconditioner, vectors"
    assert {steps, "CG vectors", "gradient", "MTTKRP, 24×20×4", "rest"} <= set(parts)
    assert parts[steps]["calls"] > 0
    assert parts[steps]["flops"] > 0.0
    assert sum(part["seconds"] for part in parts.values()) == pytest.approx(table.numbers["seconds"])
    assert all(part["seconds"] >= 0.0 for part in parts.values())
    assert parts["MTTKRP, 24×20×4"]["flops"] == parts["MTTKRP, 24×20×4"]["calls"] * 4 * 24 * 20 * 4 * 3
    assert len({len(row) for row in [table.head, *table.rows]}) == 1


def test_the_maps_are_profiled_under_the_roof_and_as_they_grow():
    table = maps.profile_of((24, 20, 40), LIMITS)
    parts = table.numbers["parts"]
    passes = {"maps, blur and energy", "maps, step", "maps, direction", "maps, aggregates", "maps, weights of edges"}
    assert passes | {"rest"} <= set(parts)
    assert sum(part["seconds"] for part in parts.values()) == pytest.approx(table.numbers["seconds"])
    assert {"noise", "subspace", "tv-maps"} <= set(table.numbers["stages"])
    assert len({len(row) for row in [table.head, *table.rows]}) == 1
    (held,) = maps.memory_of([(24, 20, 40)]).numbers.values()
    assert held["stack"] == 4 * 24 * 20 * held["maps"] < held["peak"]
    points = maps.roofline_of((16,), 3, LIMITS).numbers["points"]
    assert passes - {"maps, weights of edges"} == {point["kernel"] for point in points}
    assert all(min(point["flops"], point["bytes"], point["seconds"]) > 0.0 for point in points)
    grown = maps.growth((16, 24), (2, 3)).numbers
    assert len(grown["pixels"]["seconds"]) == len(grown["maps"]["seconds"]) == 2
    assert maps.threads_of(16, 2).rows[0][0] == "16×16×2"


def test_the_limit_is_that_of_the_slower_of_arithmetic_and_memory():
    assert LIMITS.least_seconds(1e11, 1.0) == 1.0
    assert LIMITS.least_seconds(1.0, 5e10) == 2.0


def test_ways_take_turns():
    calls = []
    ways = {name: lambda name=name: calls.append(name) for name in "ab"}
    times = measuring.least_times(ways, rounds=3)
    bursts = "".join(calls).replace("aaaaa", "A").replace("bbbbb", "B")
    assert bursts.endswith("ABABAB")
    assert set(times) == set(ways)


def test_a_child_prints_json_with_its_own_environment():
    script = "import json, os, sys; print(json.dumps([os.environ['COLOUR'], sys.argv[1]]))"
    assert measuring.child(script, 3, COLOUR="red") == ["red", "3"]
    assert "COLOUR" not in os.environ


def points():
    """Kernels on scenes, as near to each other as they come."""
    rng = np.random.default_rng(0)
    for kernel in ("MTTKRP", "gradient", "H z", "preconditioner, solve"):
        for shape, rank in (("80×84×204", 30), ("144×144×200", 60), ("1024×1024×200", 64)):
            seen = f"{shape[:-3]}6" if kernel == "MTTKRP" else shape
            work = {"flops": 1e9, "bytes": 1e9 / rng.uniform(4.0, 20.0), "seconds": 1e9 / rng.uniform(4e10, 9e10)}
            yield {"kernel": kernel, "shape": seen, "rank": rank, **work}


def test_names_in_the_picture_cover_neither_each_other_nor_a_point():
    drawn = roofline.draw({"limits": LIMITS._asdict(), "points": list(points())})
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    renderer = drawn.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    centres = [axes.transData.transform(place) for line in axes.lines[1:] for place in line.get_xydata()]
    assert len(boxes) == 12 + 2, "every point has a name, and so have both limits"
    assert not any(box.count_overlaps(boxes[:n]) for n, box in enumerate(boxes))
    assert not any(box.contains(*centre) for box in boxes for centre in centres)


def test_everything_is_written_with_the_machine_and_the_versions(tmp_path, monkeypatch, capsys):
    numbers = {"limits": LIMITS._asdict(), "points": list(points())}
    table = measuring.Table("roofline", ["kernel", "GFLOP/s"], [["H z", "50"]], numbers)
    monkeypatch.setitem(sections.SECTIONS, "roofline", lambda: iter([table]))
    compare.main(["roofline", "--json", str(tmp_path / "all.json"), "--picture", str(tmp_path / "roof.png")])
    assert "| kernel | GFLOP/s |\n| --- | --- |\n| H z | 50 |" in capsys.readouterr().out
    written = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert written["tables"]["roofline"] == {"rows": [{"kernel": "H z", "GFLOP/s": "50"}], "numbers": numbers}
    assert written["machine"]["processor"]
    assert written["machine"]["versions"]["numpy"] == np.__version__
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")


def test_of_several_runs_the_table_has_medians_and_spreads():
    def run(took):
        row = measuring.speed("three MTTKRPs", "6×5×4", "tensorly", 1.0, took)
        return measuring.Table("a", ["shape", "tensorly", "cores"], [["6×5×4", f"{took:.1f}×", "2"]], took, (row,))

    table = measuring.of_several_runs([run(2.0), run(9.0), run(3.0)])
    assert table.rows == [["6×5×4", "3.0 (2.0–9.0)×", "2"]]
    assert table.numbers == [2.0, 9.0, 3.0]
    assert [row["speedup"] for row in table.speeds] == [2.0, 9.0, 3.0]


def test_several_runs_are_processes_of_their_own(tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    compare.main(["roofline", "--runs", "2", "--rows", str(file)])
    found, problems = rows.read(file)
    assert not problems
    assert len(found) == 2 * len({(row["benchmark"], row["case"]) for row in found})
    assert "| H z | 80×84×204 R=30 |" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--runs", "0"], ["--runs", "2", "--picture", "roof.png"]])
def test_runs_that_cannot_be_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        compare.main(words)
    assert "--runs: got" in capsys.readouterr().err


def test_an_unknown_section_is_refused_with_the_list_of_them(capsys):
    with pytest.raises(SystemExit):
        compare.main(["kernel"])
    assert "'roofline'" in capsys.readouterr().err


def test_ratios_are_written_as_rows_that_the_dashboard_reads(tmp_path, monkeypatch):
    def section():
        under = {"flops": 1e9, "bytes": 1e8, "peak_flops": LIMITS.flops, "peak_bytes": LIMITS.bytes}
        yield measuring.Table("a", [""], [], {}, (measuring.speed("three MTTKRPs", "6×5×4", "tensorly", 0.5, 2.0),))
        yield measuring.Table("b", [""], [], {}, (measuring.speed("H z", "6×5×4", "limit", 0.5, 0.1, **under),))

    monkeypatch.setitem(sections.SECTIONS, "kernels", section)
    file = tmp_path / "speed.jsonl"
    compare.main(["kernels", "--rows", str(file)])
    first, second = rows.read(file)[0]
    assert rows.validate(file) == []
    assert (first["speedup"], first["case"], second["peak_flops"]) == (4.0, "6×5×4", LIMITS.flops)
    assert "three MTTKRPs" in dashboard.page([file])


def test_a_way_in_another_process_takes_its_own_time():
    class Way:
        def __call__(self):
            raise AssertionError("its own clock was asked for")

        def seconds(self):
            return 0.25

    assert measuring.seconds_of(Way()) == 0.25


def test_a_call_in_company_follows_a_product_each_time():
    calls = []
    assert 0.0 < measuring.in_company(lambda: calls.append(1), seconds=0.01, size=8) < 0.01
    assert len(calls) > 2


@pytest.mark.skipif(not genten.is_there(), reason="pygenten is not installed")
def test_pygenten_answers_from_a_process_of_its_own(recwarn):
    case = rivals.tensor_and_factors((6, 5, 4, 3))
    child = genten.Child(*case)
    for result, reference in zip(child(), rivals.khatri_rao_gemm(*case), strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-12)
    assert 0.0 < child.seconds() < 10.0
    process = child._process
    del child
    assert process.returncode == 0
