"""`fastccpd batch`: many pairs, of which a bad one is a line and not an end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pair_files import write_pair
from tiled_scenes import small_pair

import fastccpd
from fastccpd import imaging, rasters
from fastccpd.cli import main
from fastccpd.cli.batch_task import key_of
from fastccpd.cli.manifest import Row, absolute, rows_of
from fastccpd.imaging import metrics
from fastccpd.model.files import lock
from fastccpd.model.verdict import Grade
from fastccpd.tiles import FusedTiles
from fastccpd.tiles import run as tiles_run
from fastccpd.tiles.crews import Hands, done_in_any_order

QUICK = ("--method", "gsa", "--srf", "landsat", "--quiet")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A folder with three good pairs and one whose HSI is no image; a truth."""
    folder = tmp_path_factory.mktemp("pairs")
    hsi, msi, truth = write_pair(folder, georeferenced=True)
    for name in ("alpha", "beta", "gamma"):
        shutil.copy(hsi, folder / f"{name}_hsi.npz")
        shutil.copy(msi, folder / f"{name}_msi.npz")
    rasters.write(folder / "truth.npz", truth)
    (folder / "torn_hsi.npz").write_bytes(b"PK\x03\x04 torn")
    shutil.copy(msi, folder / "torn_msi.npz")
    return folder


@pytest.fixture
def manifest(pairs, tmp_path):
    """The same as CSV, by absolute paths."""
    lines = ["hsi,msi,name,truth,method,ridge"]
    for name in ("alpha", "torn", "beta", "gamma"):
        truth = pairs / "truth.npz" if name == "beta" else ""
        ridge = "0.5" if name == "gamma" else ""
        lines.append(f"{pairs / name}_hsi.npz,{pairs / name}_msi.npz,{name},{truth},,{ridge}")
    path = tmp_path / "list.csv"
    path.write_text("\n".join(lines))
    return path


def run(*arguments):
    return main(["batch", *map(str, arguments)])


def lines_of(path):
    return {line["name"]: line for line in map(json.loads, Path(path).read_text().splitlines())}


def test_a_bad_pair_is_a_line_and_not_an_end(manifest, tmp_path, capsys):
    out = tmp_path / "out"
    code = run(manifest, "-o", f"{out}/{{name}}.npz", *QUICK, "--jobs", 2, "--json", "--page", tmp_path / "page.html")
    assert code == 6
    printed = capsys.readouterr()
    assert printed.err.endswith("1 of 4 pairs failed; " + f"{out}/results.jsonl says why\n")
    lines = lines_of(out / "results.jsonl")
    assert {name: line["status"] for name, line in lines.items()} == {
        "alpha": "done",
        "beta": "done",
        "gamma": "done",
        "torn": "failed",
    }
    assert lines["torn"]["error"].startswith("ValueError: ")
    assert "torn_hsi.npz" in lines["torn"]["verdict"]
    assert lines["beta"]["metrics"]["rsnr"] > 10.0
    assert lines["beta"]["verdict"].startswith(tuple(grade.value for grade in Grade))
    assert lines["beta"]["reason"].startswith("finished")
    assert lines["alpha"]["metrics"] is None
    assert len(lines["alpha"]["sha256"]["output"]) == 64
    assert lines["alpha"]["sha256"]["hsi"] == lines["beta"]["sha256"]["hsi"]
    assert lines["gamma"]["sha256"]["output"] != lines["alpha"]["sha256"]["output"]
    assert sorted(path.name for path in out.glob("*.npz")) == ["alpha.npz", "beta.npz", "gamma.npz"]
    shown = [json.loads(line) for line in printed.out.splitlines()]
    assert {line["name"] for line in shown} == set(lines)
    assert all("thumbnail" not in line for line in shown)
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") == 4  # three thumbnails and the icon
    assert "torn" in page

    # What is as `fuse` gives it.
    single = tmp_path / "single.npz"
    row = rows_of(manifest, None, "{name}", {})[0]
    assert main(["fuse", row.hsi, row.msi, "-o", str(single), *QUICK]) == 0
    assert rasters.read(single).cube.tobytes() == rasters.read(out / "alpha.npz").cube.tobytes()


def test_images_that_disagree_are_told_by_the_exit_code_as_by_fuse(pairs, tmp_path, capsys):
    """Of a pair whole and of one in tiles, and again where nothing is left to do; a failed pair weighs more."""
    msi = rasters.read(pairs / "alpha_msi.npz")
    rasters.write(tmp_path / "bright.npz", replace(msi, cube=50.0 * msi.cube))
    rows = [(pairs / "alpha_hsi.npz", pairs / "alpha_msi.npz", "good", "")]
    rows += [(pairs / "alpha_hsi.npz", tmp_path / "bright.npz", f"bright{tile}", tile) for tile in ("", "32")]
    listed = tmp_path / "list.csv"
    listed.write_text("hsi,msi,name,tile\n" + "\n".join(",".join(map(str, row)) for row in rows))
    arguments = listed, "-o", f"{tmp_path}/out/{{name}}.npy", *QUICK, "--jobs", 1
    assert run(*arguments) == 5
    assert "the images of 2 of 3 pairs disagree; " in capsys.readouterr().err
    assert [line["disagrees"] for line in lines_of(tmp_path / "out" / "results.jsonl").values()] == [False, True, True]
    assert run(*arguments, "--resume") == 5
    listed.write_text(listed.read_text() + "\nnone,none,none,")
    assert run(*arguments, "--resume") == 6


def test_resuming_does_what_is_left_and_no_more(manifest, tmp_path):
    out = tmp_path / "out"
    arguments = manifest, "-o", f"{out}/{{name}}.npz", *QUICK, "--jobs", 1
    assert run(*arguments) == 6
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.npz")}
    with open(out / "results.jsonl", "a") as file:
        file.write('{"name": "torn by a ki')
    (out / "beta.npz").unlink()
    assert run(*arguments, "--resume") == 6
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.npz")}
    assert {name for name in after if after[name] == before[name]} == {"alpha.npz", "gamma.npz"}
    assert len((out / "results.jsonl").read_text().splitlines()) == 4


@pytest.fixture
def sizes(pairs, tmp_path):
    """A manifest of a small pair, the same in tiles, a torn one, and two that fit no small memory."""
    truth, hsi, msi, _ = small_pair((160, 160, 36), "reflect")
    for name, cube in (("truth", truth), ("hsi", hsi), ("msi", msi)):
        np.save(tmp_path / f"{name}.npy", cube.astype(np.float64))
    rows = {"small": ("alpha", None), "tiled": ("alpha", 12), "torn": ("torn", 12)}
    lines = [
        {"name": name, "hsi": f"{pairs / stem}_hsi.npz", "msi": f"{pairs / stem}_msi.npz", "tile": tile}
        for name, (stem, tile) in rows.items()
    ]
    lines[1]["truth"] = str(pairs / "truth.npz")
    large = {"hsi": "hsi.npy", "msi": "msi.npy"}
    lines = [
        large | {"name": "large", "truth": "truth.npy"},
        large | {"output": "out/whole.npz", "name": "whole"},
        *lines,
    ]
    path = tmp_path / "sizes.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_pairs_that_do_not_fit_or_ask_for_it_are_fused_in_tiles(sizes, pairs, tmp_path, monkeypatch):
    out = tmp_path / "out"
    arguments = sizes, "-o", f"{out}/{{name}}.tif", *QUICK, "--memory", "560M", "--jobs", 1
    assert run(*arguments, "--page", tmp_path / "page.html") == 6
    lines = lines_of(out / "results.jsonl")
    statuses = {name: line["status"] for name, line in lines.items()}
    assert statuses == dict.fromkeys(("small", "large", "tiled"), "done") | dict.fromkeys(("torn", "whole"), "failed")
    assert "tiles" not in lines["small"]
    assert lines["tiled"]["tiles"] == {"number": 4, "side": 12}
    assert lines["large"]["tiles"]["number"] > 1
    assert lines["large"].keys() - {"tiles"} == lines["small"].keys()
    assert lines["tiled"]["verdict"] == lines["small"]["verdict"]
    assert lines["tiled"]["sha256"]["hsi"] == lines["small"]["sha256"]["hsi"]
    assert "torn_hsi.npz" in lines["torn"]["verdict"]
    assert re.fullmatch(
        "memory: the images, gsa and the result need .* GB, and .* GB are allowed; tiles or more memory are needed; "
        "in tiles: .*whole.npz: is not written in tiles; one of .* is needed",
        lines["whole"]["verdict"],
    )
    assert sorted(path.name for path in out.iterdir()) == ["large.tif", "results.jsonl", "small.tif", "tiled.tif"]
    assert (tmp_path / "page.html").read_text().count("data:image/png;base64,") == 4

    # What `fuse` in tiles gives; and metrics as of the whole.
    single, alpha = tmp_path / "single.tif", [f"{pairs / 'alpha'}_{name}.npz" for name in ("hsi", "msi")]
    assert main(["fuse", *alpha, "-o", str(single), *QUICK, "--tile", "12", "--workers", "1"]) == 0
    made, truth = rasters.read(single).cube, rasters.read(pairs / "truth.npz").cube
    assert made.tobytes() == rasters.read(out / "tiled.tif").cube.tobytes()
    expected = imaging.score(made, truth, 4)
    assert lines["tiled"]["metrics"] == pytest.approx({name: expected[name] for name in metrics.usual_names()})

    # Killed before it was written, the large one goes on with the tiles that are there; what is done stays.
    large = (out / "large.tif").read_bytes()
    (out / "large.tif").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(FusedTiles, "write", killed)
        with pytest.raises(Killed):
            run(*arguments, "--resume")
    assert len(list((out / "large.tif.tiles").glob("tile-*"))) == lines["large"]["tiles"]["number"]
    before = {name: (out / name).stat().st_mtime_ns for name in ("small.tif", "tiled.tif")}
    with monkeypatch.context() as patch:
        patch.setattr(tiles_run, "Fuse", killed)  # of a tile that would be fused again
        assert run(*arguments, "--resume") == 6
    assert (out / "large.tif").read_bytes() == large
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert len(lines_of(out / "results.jsonl")) == 5


class Killed(BaseException):
    """What nothing catches."""


def killed(*_, **__):
    raise Killed


def test_a_row_cannot_say_what_is_the_batch_s(pairs, tmp_path):
    rows = [{"hsi": "alpha_hsi.npz", "msi": "alpha_msi.npz", "name": name, name: 2} for name in ("memory", "workers")]
    path = pairs / "own.jsonl"
    path.write_text("\n".join(json.dumps(row | tile) for row, tile in zip(rows, ({}, {"tile": 12}))))
    assert run(path, "-o", f"{tmp_path}/{{name}}.npy", *QUICK, "--jobs", 1) == 6
    for name, line in lines_of(tmp_path / "results.jsonl").items():
        assert line["verdict"] == f"{name}: is not for a pair of a batch; leave it out"


def test_little_memory_is_refused_before_any_work(manifest, tmp_path, capsys):
    assert run(manifest, "-o", f"{tmp_path}/{{name}}.npz", *QUICK, "--memory", "100M") == 2
    assert "memory: got 0.10 GB, but two processes alone take" in capsys.readouterr().err


def test_a_folder_and_a_pattern_are_a_manifest(pairs, tmp_path):
    rows = rows_of(pairs, ("{name}_hsi.npz", "{name}_msi.npz"), f"{tmp_path}/{{number}}-{{name}}.tif", {"rank": 3})
    assert [row.name for row in rows] == ["alpha", "beta", "gamma", "torn"]
    assert rows[1].output == f"{tmp_path}/2-beta.tif"
    assert rows[1].options == {"rank": 3}
    assert rows[1].hsi == str(pairs / "beta_hsi.npz")


def test_json_lines_have_defaults_and_relative_paths(pairs):
    path = pairs / "list.jsonl"
    entries = [
        {"defaults": {"srf": "landsat", "rank": [3, 3, 2]}},
        {"hsi": "alpha_hsi.npz", "msi": "alpha_msi.npz"},
        {"hsi": "beta_hsi.npz::cube", "msi": "beta_msi.npz", "rank": 4, "output": "b.tif"},
    ]
    path.write_text("\n".join(map(json.dumps, entries)))
    first, second = rows_of(path, None, "out/{name}.tif", {"srf": "other", "method": "scott"})
    assert first.options == {"srf": "landsat", "rank": [3, 3, 2], "method": "scott"}
    assert first.output == "out/alpha_hsi.tif"
    assert second.hsi == str(pairs / "beta_hsi.npz") + "::cube"
    assert second.options["rank"] == 4
    assert second.output == str(pairs / "b.tif")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_manifest_may_have_a_mark_other_ends_of_lines_spaces_and_any_script(mark, end, kind, tmp_path):
    entries = [
        {"hsi": "é tilé/h 1.tif", "msi": "m,1.tif", "name": "東京 1", "tile": 64},
        {"hsi": "b.tif", "msi": "c.tif"},
    ]
    if kind == "csv":
        lines = ["hsi, msi ,name,tile", 'é tilé/h 1.tif,"m,1.tif",東京 1,64', "b.tif,c.tif,,", ""]
    else:
        lines = [*map(json.dumps, entries), ""]
    path = tmp_path / f"a.{kind}"
    path.write_bytes((mark + end.join(lines)).encode())
    first, second = rows_of(path, None, "out/{name}.tif", {})
    assert (first.hsi, first.msi) == (str(tmp_path / "é tilé/h 1.tif"), str(tmp_path / "m,1.tif"))
    assert (first.output, first.options) == ("out/東京 1.tif", {"tile": 64})
    assert (second.name, second.options) == ("b", {})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "msi\nx.tif", "pair 1: has no hsi; the path of an image is needed"),
        ("a.csv", "hsi,msi\na,b,c,d", "line 2 has more cells than the head line"),
        ("a.csv", "hsi,msi\n", "holds no pairs; some are needed"),
        ("a.csv", "hsi,msi\na.tif,b.tif\na.tif,c.tif", "pairs 1 and 2 would both be .*; {number} or {name} tells"),
        ("a.jsonl", "{", "line 1 is no JSON; one object for each pair is needed"),
        ("a.jsonl", "[1]", "line 1 is list; an object is needed"),
        ("a.jsonl", '{"hsi": 3, "msi": "b"}', "pair 1: has no hsi"),
        ("a.jsonl", '{"hsi": "a", "msi": "b", "output": 5}', "pair 1: got 5 as output; a text is needed"),
        ("a.jsonl", '{"hsi": "a", "msi": "b", "truth": [1]}', r"pair 1: got \[1\] as truth; a text is needed"),
        ("a.jsonl", '{"hsi": "a", "msi": "b", "name": "a\\u0000b"}', "the name of a file is needed"),
        ("a.jsonl", '{"hsi": "a", "msi": "b", "name": "a\\ud800b"}', "the name of a file is needed"),
        ("a.csv", "hsi,msi,\na,b,3", "its head line has a column without a name, or two of one name"),
        ("a.csv", "hsi,hsi,msi\na,b,c", "its head line has a column without a name, or two of one name"),
    ],
)
def test_a_manifest_that_is_none_is_refused_before_any_work(name, content, message, tmp_path, capsys):
    (tmp_path / name).write_text(content)
    assert run(tmp_path / name, "-o", f"{tmp_path}/{{name}}.tif", *QUICK) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)


def test_inputs_are_never_outputs_and_results_are_not_overwritten(manifest, pairs, tmp_path, capsys):
    assert run(manifest, "-o", f"{pairs}/{{name}}_hsi.npz", *QUICK, "--force") == 2
    assert "is one of the inputs, which are never overwritten" in capsys.readouterr().err
    (tmp_path / "results.jsonl").write_text("mine")
    assert run(manifest, "-o", f"{tmp_path}/{{name}}.npz", *QUICK) == 2
    assert "results.jsonl: exists already; --resume goes on with it" in capsys.readouterr().err
    assert run(manifest, "-o", f"{tmp_path}/{{nome}}.npz", *QUICK) == 2
    assert "-o: got {nome} in" in capsys.readouterr().err
    assert run(pairs, "-o", f"{tmp_path}/{{name}}.npz", *QUICK) == 2
    assert "is a folder; --pattern HSI MSI says which files in it are pairs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "arguments", "message"),
    [
        ({}, ("--results", "{m}"), "--results: .* is one of the inputs"),
        ({}, ("--results", "{hsi}"), "--results: .* is one of the inputs"),
        ({}, ("--results", "{hsi}", "--resume"), "--results: .* is one of the inputs"),
        ({}, ("--page", "{msi}"), "--page: .* is one of the inputs"),
        ({}, ("--page", "{m}"), "--page: .* is one of the inputs"),
        ({}, ("--page", "{out}"), "--page: .* is the output too"),
        ({}, ("--results", "{out}"), "--results: .* is the output too"),
        ({}, ("--results", "{page}", "--page", "{page}"), "--page: .* is the file of --results too"),
        ({"output": "m.npz"}, (), "-o: .* is one of the inputs"),
        ({"srf": "a.npz"}, ("-o", "a.npz"), "-o: .* is one of the inputs"),
        ({"hsi_mask": "mask.npz::3"}, ("-o", "mask.npz"), "-o: .* is one of the inputs"),
        ({"uncertainty": "{msi}"}, (), "uncertainty: .* is one of the inputs"),
        ({"uncertainty": "{out}"}, (), "uncertainty: .* is the output too"),
        ({"output": "a.hdr"}, ("--results", "{folder}/a.img"), "--results: .* is the output too"),
    ],
)
def test_nothing_that_any_pair_reads_is_written(row, arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {name: str(tmp_path / f"{name}.npz") for name in ("hsi", "msi", "out", "m", "page")}
    names["folder"] = str(tmp_path)
    entry = {"hsi": "hsi.npz", "msi": "msi.npz"} | {key: value.format(**names) for key, value in row.items()}
    lines = [{"hsi": "hsi.npz", "msi": "msi.npz", "output": "other.npz"}, entry]
    if "output" not in row and "-o" not in arguments:
        entry["output"] = "out.npz"
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, lines)))
    os.link("m.jsonl", names["m"])
    for name in ("hsi", "msi", "mask", "a"):
        (tmp_path / f"{name}.npz").write_text(name)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    given = [text.format(**names) for text in arguments]
    assert run("m.jsonl", *([] if "-o" in given else ["-o", "{name}.npz"]), *given, *QUICK, "--force") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_results_are_a_regular_file_of_a_batch(manifest, tmp_path, capsys):
    for name in ("folder", "pipe", "thesis.txt"):
        path = tmp_path / name
        path.mkdir() if name == "folder" else os.mkfifo(path) if name == "pipe" else path.write_text("mine\n")
        how = "--resume" if name == "thesis.txt" else "--force"
        assert run(manifest, "-o", f"{tmp_path}/out/{{name}}.npz", *QUICK, "--results", path, how) == 2
        (line,) = capsys.readouterr().err.splitlines()
        needed = "line 1 is none of a batch's" if name == "thesis.txt" else "exists and is not a regular file"
        assert f"{path}: {needed}" in line
    assert (tmp_path / "thesis.txt").read_text() == "mine\n"


def test_two_batches_do_not_share_their_results(manifest, tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    with open(path, "a") as file:
        assert lock(file)
        for how in ("--resume", "--force"):
            assert run(manifest, "-o", f"{tmp_path}/{{name}}.npz", *QUICK, how) == 2
            assert f"{path}: another batch writes it" in capsys.readouterr().err


def test_a_pair_that_ends_its_worker_is_a_line_too(tmp_path):
    def submit(task):
        future = Future()
        future.set_exception(ChildProcessError("gone")) if task == "bad" else future.set_result(task)
        return future

    tasks = [(name, lambda name=name: name) for name in ("good", "bad", "better")]
    found = dict(done_in_any_order(Hands(submit, 1), tasks, 2, lambda key, error: f"{key}: {error}"))
    assert found == {"good": "good", "better": "better", "bad": "bad: task bad: its worker was lost 3 times (gone)"}


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_a_name_is_never_that_of_another_folder(name, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text(json.dumps({"hsi": "h.tif", "msi": "m.tif", "name": name}))
    assert run(tmp_path / "a.jsonl", "-o", f"{tmp_path}/out/{{name}}/x.tif", *QUICK) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{{name}} becomes {name!r}, which is no name of a file" in line


def test_names_of_a_manifest_lead_to_no_other_folder(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"hsi": "h.tif", "msi": "m.tif", "name": "../../etc/passwd"}))
    (row,) = rows_of(tmp_path / "a.jsonl", None, f"{tmp_path}/{{name}}.tif", {})
    assert Path(row.output).parent == tmp_path


def test_ctrl_c_says_how_to_go_on(pairs, tmp_path):
    entry = {"hsi": "alpha_hsi.npz", "msi": "alpha_msi.npz"}
    manifest = pairs / "many.jsonl"
    manifest.write_text("\n".join(json.dumps(entry | {"name": f"n{k}"}) for k in range(400)))
    command = [sys.executable, "-m", "fastccpd", "batch", str(manifest), "-o", f"{tmp_path}/{{name}}.npz", *QUICK]
    root = str(Path(fastccpd.__file__).parents[1])
    process = subprocess.Popen(
        [*command, "--jobs", "1"], stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}
    )
    while not (tmp_path / "results.jsonl").exists() or not (tmp_path / "results.jsonl").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.endswith("and the same command with --resume goes on\n")


@pytest.mark.filterwarnings("ignore")  # what libraries of a cluster warn of while it is started and ended is not ours
def test_a_cluster_fuses_a_batch_as_this_machine_does(manifest, pairs, tmp_path, monkeypatch):
    """Its workers were started in another folder, and paths are relative."""
    distributed = pytest.importorskip("distributed")
    here, there = tmp_path / "here", tmp_path / "there"
    head, first, *others = manifest.read_text().splitlines()
    text = "\n".join([f"{head},tile", f"{first},12", *(f"{line}," for line in others)])
    manifest.write_text(text.replace(str(pairs), os.path.relpath(pairs, tmp_path)))
    assert run(manifest, "-o", f"{here}/{{name}}.npy", *QUICK, "--jobs", 1) == 6
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings, host="127.0.0.1") as cluster:
        how = "--scheduler", cluster.scheduler_address
        monkeypatch.chdir(tmp_path)
        assert run(manifest.name, "-o", "there/{name}.npy", *QUICK, *how) == 6
        assert run(manifest.name, "-o", "there/{name}.npy", *QUICK, *how, "--resume") == 6
    found = [lines_of(folder / "results.jsonl") for folder in (here, there)]
    assert found[0].keys() == found[1].keys()
    for name, line in found[0].items():
        assert found[1][name]["status"] == line["status"]
        assert found[1][name].get("sha256") == line.get("sha256")
        assert found[1][name]["verdict"] == line["verdict"]
        assert found[1][name].get("tiles") == line.get("tiles")
    assert found[1]["alpha"]["tiles"]["number"] == 4


def test_a_row_is_the_same_by_relative_and_by_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("response.csv").touch()
    options = {
        "srf": "response.csv::B2",
        "psf": "gaussian,sigma=1.5",
        "hsi_mask": "mask.tif::3",
        "rank": 4,
        "grid": "hsi",
    }
    row = Row(1, "name", "in/hsi.npz::cube", "msi.tif", "out.tif", None, options)
    found = absolute(row)
    assert found.hsi == f"{tmp_path}/in/hsi.npz::cube"
    assert (found.msi, found.output, found.truth) == (f"{tmp_path}/msi.tif", f"{tmp_path}/out.tif", None)
    changed = {"srf": f"{tmp_path}/response.csv::B2", "hsi_mask": f"{tmp_path}/mask.tif::3"}
    assert found.options == options | changed
    assert absolute(found) == found
    assert key_of(row) == key_of(found)


def test_a_scheduler_that_does_not_answer_is_one_line(manifest, tmp_path, capsys):
    pytest.importorskip("distributed")
    code = run(manifest, "-o", f"{tmp_path}/out/{{name}}.npz", *QUICK, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "scheduler: tcp://127.0.0.1:9 does not answer" in line
