"""Workers of this machine: how they start, and in what order and number they get their tasks."""

import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import contextmanager

import numpy as np
import pytest
from tiled_scenes import small_pair

from fastccpd import workers
from fastccpd.tiles import fuse_tiles, run
from fastccpd.tiles.crews import Hands, crew_of, done_in_any_order
from fastccpd.tiles.tasks import perform


def test_a_worker_imports_nothing_that_only_few_tasks_need():
    """Every worker waits for it: scipy.optimize alone, with what it brings, was a fifth of its start."""
    script = "import sys, fastccpd.tiles.tasks; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "scipy.sparse" in loaded
    needless = {"scipy.optimize", "scipy.spatial", "scipy.ndimage", "scipy.interpolate", "matplotlib", "rasterio"}
    assert not needless.intersection(loaded)


def test_workers_start_before_their_first_task(monkeypatch):
    started, start = [], workers._start
    monkeypatch.setattr(workers, "_start", lambda function: started.append(start(function)) or started[-1])
    with crew_of(3, soon=2) as crew:
        until = time.monotonic() + 60
        while len(started) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert len(started) == 2
        assert crew.submit(dict).result(timeout=60) == {}
    assert all(process.poll() is not None for process in started)


def test_a_worker_that_cannot_be_started_is_told_by_its_first_task(monkeypatch):
    def refused(_):
        raise OSError("no more processes")

    monkeypatch.setattr(workers, "_start", refused)
    with crew_of(1, soon=1) as crew, pytest.raises(OSError, match="no more processes"):
        crew.submit(dict).result(timeout=60)


@contextmanager
def cluster_of(count):
    """Hands that look like a cluster whose workers have no limit of memory."""

    def submit(task):
        future = Future()
        future.set_result(perform(task))
        return future

    yield Hands(submit, count)


@pytest.mark.parametrize(
    ("in_file", "how", "most"),
    [
        (True, {"workers": 2}, 4),
        (False, {"workers": 2}, 2),  # each would hold its pixels here
        (False, {"client": "a cluster"}, 14),
    ],
)
def test_the_largest_tiles_come_first_and_as_many_are_out_as_hide_the_way_to_a_worker(
    in_file, how, most, tmp_path, monkeypatch
):
    _, hsi, msi, degradation = small_pair((96, 80, 36))
    if in_file:
        for name, image in (("hsi", hsi), ("msi", msi)):
            np.save(tmp_path / f"{name}.npy", image)
        hsi, msi = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("hsi", "msi"))
    seen = []

    def recorded(crew, tasks, most):
        tasks = list(tasks)
        seen.append(([place for place, _ in tasks], most))
        return done_in_any_order(crew, tasks, most)

    def hands(workers, client=None, soon=0):
        return crew_of(0) if client is None else cluster_of(7)

    monkeypatch.setattr(run, "done_in_any_order", recorded)
    monkeypatch.setattr(run, "crew_of", hands)
    with fuse_tiles(hsi, msi, degradation, tile=32, method="gsa", **how) as fused:
        sizes = {place: fused.plan.pixels(place) for place in fused.plan.tiles()}
    [(order, out)] = seen
    assert sorted(order) == list(fused.plan.tiles())
    assert [sizes[place] for place in order] == sorted(sizes.values(), reverse=True)
    assert len(set(sizes.values())) > 1
    assert out == most
