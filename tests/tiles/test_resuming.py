"""Whatever ends a run, it goes on: with the same bytes, and with nothing done twice but what was in flight."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
from tiled_scenes import small_pair

from fastccpd.tiles import fuse_tiles, run
from fastccpd.tiles.state import discard

HOW = {"tile": 32, "method": "tv-maps"}

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[2])
from tiled_scenes import small_pair
from fastccpd.tiles import fuse_tiles
_, hsi, msi, degradation = small_pair()
print("begun", flush=True)
fuse_tiles(hsi, msi, degradation, tile=32, method="tv-maps", workers=1, folder=sys.argv[1], resume=True)
"""


@pytest.fixture(scope="module")
def unbroken():
    _, hsi, msi, degradation = small_pair()
    with fuse_tiles(hsi, msi, degradation, workers=0, **HOW) as fused:
        return fused.sri.tobytes()


def started(folder):
    tests = os.path.dirname(os.path.dirname(__file__))
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), tests], stdout=subprocess.PIPE)


def finished_tiles(folder):
    return sorted(path.name for path in folder.glob("tile-*.npz"))


def wait_for(condition, process, seconds=120):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        if process.poll() is not None:
            break
        time.sleep(0.005)


@pytest.mark.parametrize("moment", ["first pass", "first tile", "third tile"])
def test_a_kill_loses_at_most_the_tiles_in_flight(moment, tmp_path, unbroken):
    folder = tmp_path / "state"
    process = started(folder)
    wait = {
        "first pass": lambda: (folder / "state.json").exists(),
        "first tile": lambda: (folder / "plan.json").exists(),
        "third tile": lambda: len(finished_tiles(folder)) >= 2,
    }
    wait_for(wait[moment], process)
    process.kill()
    process.communicate()
    before = {name: (folder / name).stat().st_mtime_ns for name in finished_tiles(folder)}
    _, hsi, msi, degradation = small_pair()
    with fuse_tiles(hsi, msi, degradation, workers=0, folder=folder, resume=True, **HOW) as fused:
        assert fused.sri.tobytes() == unbroken
    after = {name: (folder / name).stat().st_mtime_ns for name in before}
    assert after == before


def test_ctrl_c_is_answered_within_a_second_and_leaves_what_can_be_resumed(tmp_path, unbroken):
    psutil = pytest.importorskip("psutil")
    folder = tmp_path / "state"
    process = started(folder)
    wait_for(lambda: (folder / "plan.json").exists(), process)
    watched = psutil.Process(process.pid)
    used = [sum(watched.cpu_times()[:2])]
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    while process.poll() is None:
        with suppress(psutil.Error):
            used.append(sum(watched.cpu_times()[:2]))
        time.sleep(0.005)
    assert time.monotonic() - began < 5.0  # one second, on a machine that has nothing else to do:
    assert max(used) - used[0] < 0.8
    process.stdout.close()
    _, hsi, msi, degradation = small_pair()
    with fuse_tiles(hsi, msi, degradation, workers=0, folder=folder, resume=True, **HOW) as fused:
        assert fused.sri.tobytes() == unbroken


@pytest.fixture
def finished(tmp_path):
    _, hsi, msi, degradation = small_pair()
    fuse_tiles(hsi, msi, degradation, workers=0, folder=tmp_path / "state", **HOW).close()
    return tmp_path / "state"


def resumed(folder, **change):
    _, hsi, msi, degradation = small_pair()
    how = {"hsi": hsi, "msi": msi, "degradation": degradation, "workers": 0, "folder": folder, "resume": True} | HOW
    return fuse_tiles(**(how | change))


def test_damaged_files_are_made_anew_or_refused(finished, unbroken):
    tiles = finished_tiles(finished)
    whole = (finished / tiles[0]).read_bytes()
    (finished / tiles[0]).write_bytes(whole[: len(whole) // 3])
    flipped = bytearray((finished / tiles[3]).read_bytes())
    flipped[len(flipped) // 2] ^= 1
    (finished / tiles[3]).write_bytes(flipped)
    (finished / "first.npz").write_bytes(b"PK")
    with resumed(finished) as fused:
        assert fused.sri.tobytes() == unbroken
    plan = (finished / "plan.json").read_text()
    for damaged in ("{", "[]", '{"tile": 1e999}', plan.replace('"core": [0,', '"core": [1,', 1)):
        (finished / "plan.json").write_text(damaged)
        with pytest.raises(ValueError, match="plan.*; remove the folder to begin anew"):
            resumed(finished)
    (finished / "plan.json").write_text(plan)
    (finished / "state.json").write_text("{")
    with pytest.raises(ValueError, match=r"state.json: is damaged .*; remove the folder to begin anew"):
        resumed(finished)


def test_another_image_option_or_version_is_named(finished, monkeypatch):
    _, hsi, *_ = small_pair()
    changes = {
        "hsi": ({"hsi": hsi * np.float32(1.1)}, "hsi"),
        "method": ({"method": "gsa"}, "method"),
        "seed": ({"rng": 5}, "seed"),
        "max_iter": ({"max_iter": 7}, "options"),
        "dtype": ({"dtype": np.float64}, "dtype"),
        "uncertainty": ({"uncertainty": True}, "uncertainty"),
    }
    for change, name in changes.values():
        with pytest.raises(ValueError, match=f"was begun with another {name} "):
            resumed(finished, **change)
    with pytest.raises(ValueError, match="tile: got 48, but this run was begun with 32"):
        resumed(finished, tile=48)
    monkeypatch.setattr(run.machine, "own_version", lambda: "9.9")
    with pytest.raises(ValueError, match="was begun with another version"):
        resumed(finished)


def test_blocks_of_the_first_pass_are_those_that_the_run_was_begun_with(finished):
    """Sums over other blocks are rounded otherwise: on little memory the rest of a run would have other bytes."""
    assert json.loads((finished / "plan.json").read_text())["block"] == 512
    (finished / "block.json").write_text("128")
    (finished / "plan.json").unlink()
    with resumed(finished) as fused:
        assert fused.plan.block == 128
        assert fused.provenance["plan"]["block"] == 128
    (finished / "block.json").write_text("256")
    with pytest.raises(ValueError, match="its plan is not one of these images; remove the folder"):
        resumed(finished)
    (finished / "block.json").write_text("[]")
    with pytest.raises(ValueError, match=r"block.json: is damaged .*; remove the folder to begin anew"):
        resumed(finished)
    state = json.loads((finished / "state.json").read_text())
    (finished / "state.json").write_text(json.dumps(state | {"format": 3}))
    with pytest.raises(ValueError, match=r"was begun with another format \(3, now 4\); give the same, or remove"):
        resumed(finished)


def test_a_run_that_is_there_is_not_overwritten_unasked(finished, tmp_path):
    with pytest.raises(FileExistsError, match="holds a run that was not finished; resume it, or remove the folder"):
        resumed(finished, resume=False)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists and holds something else; another folder is needed"):
        resumed(other)
    assert (other / "thesis.txt").read_text() == "mine"


def test_what_others_keep_in_the_folder_of_a_run_stays(finished):
    (finished / "thesis.txt").write_text("mine")
    with resumed(finished) as fused:
        with pytest.raises(BlockingIOError, match="another process works here"):
            discard(finished)
        fused.temporary = True
    assert [path.name for path in finished.iterdir()] == ["thesis.txt"]
    discard(finished)
    assert (finished / "thesis.txt").read_text() == "mine"


def test_two_runs_in_one_folder_are_refused(finished):
    with resumed(finished), pytest.raises(BlockingIOError, match="another process works here"):
        resumed(finished)
    resumed(finished).close()


def test_a_temporary_folder_is_gone_in_the_end():
    _, hsi, msi, degradation = small_pair((64, 48, 36))
    with fuse_tiles(hsi, msi, degradation, tile=32, method="gsa", workers=0) as fused:
        folder = fused.state.folder
        assert folder.exists()
    assert not folder.exists()
