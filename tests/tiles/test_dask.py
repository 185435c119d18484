"""On a cluster: the same bytes as here, also where a worker is lost half way."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tiled_scenes import small_pair

from fastccpd.tiles import fuse_tiles

distributed = pytest.importorskip("distributed")
# What libraries of a cluster warn of while it is started and ended is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

HOW = {"tile": 32, "method": "tv-maps"}


@pytest.fixture(scope="module")
def expected():
    _, hsi, msi, degradation = small_pair()
    with fuse_tiles(hsi, msi, degradation, workers=0, **HOW) as fused:
        return fused.sri.tobytes()


def test_a_lost_worker_s_tiles_are_done_again(tmp_path, expected):
    """Two processes; one of them is killed after the second tile."""
    _, hsi, msi, degradation = small_pair()
    np.save(tmp_path / "msi.npy", msi)
    mapped = np.load(tmp_path / "msi.npy", mmap_mode="r")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings, host="127.0.0.1") as cluster, distributed.Client(cluster) as client:
        processes = list(client.run(os.getpid).values())
        killed = []

        def progress(entry):
            if entry.done == 2 and not killed:
                os.kill(processes[0], signal.SIGKILL)
                killed.append(processes[0])

        with fuse_tiles(hsi, mapped, degradation, client=client, progress=progress, **HOW) as fused:
            assert fused.sri.tobytes() == expected
        assert killed == processes[:1]


@pytest.fixture
def scheduler(tmp_path):
    """The address of a scheduler that was started by its own command, with one worker."""
    commands = "dask_scheduler", "dask_worker"
    begun = []

    def start(name, *arguments):
        command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments]
        begun.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path))
        return begun[-1]

    plain = "--host", "127.0.0.1", "--no-dashboard"
    process = start(commands[0], *plain, "--port", "0")
    address = next(found[0] for line in process.stderr if (found := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
    threading.Thread(target=process.stderr.read, daemon=True).start()
    worker = start(commands[1], address, *plain, "--nthreads", "1", "--no-nanny")
    threading.Thread(target=worker.stderr.read, daemon=True).start()
    with distributed.Client(address) as client:
        client.wait_for_workers(1, timeout=60)
    yield address
    for process in reversed(begun):
        process.terminate()
        process.wait(timeout=30)


def test_a_scheduler_of_its_own_is_reached_by_its_address(scheduler, expected):
    _, hsi, msi, degradation = small_pair()
    with fuse_tiles(hsi, msi, degradation, client=scheduler, **HOW) as fused:
        assert fused.sri.tobytes() == expected


def test_workers_that_were_started_in_another_folder_find_the_tiles(scheduler, expected, tmp_path, monkeypatch):
    _, hsi, msi, degradation = small_pair()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with fuse_tiles(hsi, msi, degradation, client=scheduler, folder="tiles", **HOW) as fused:
        assert fused.sri.tobytes() == expected
    assert len(list(Path("tiles").glob("tile-*.npz"))) == len(fused.plan)


def test_a_scheduler_that_is_not_there_is_one_sentence():
    _, hsi, msi, degradation = small_pair((64, 48, 36))
    began = time.monotonic()
    with pytest.raises(ConnectionError, match="scheduler: tcp://127.0.0.1:9 does not answer"):
        fuse_tiles(hsi, msi, degradation, client="tcp://127.0.0.1:9", method="gsa")
    assert time.monotonic() - began < 60
