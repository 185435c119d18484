"""`fuse_many` with bad pairs, dead workers and a script that ends in the middle."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scenery import small_case

from fastccpd import FailedFusion, FusionResult, Status, fuse, fuse_many, workers

QUICK = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 5}


@pytest.fixture(scope="module", name="degradation")
def the_degradation():
    return small_case()[3]


@pytest.fixture(scope="module", name="pairs")
def four_pairs():
    return [small_case(noise=0.02, seed=seed)[1:3] for seed in range(4)]


def test_a_bad_pair_is_kept_in_its_place(pairs, degradation):
    hsi, msi = pairs[1]
    given = [pairs[0], (hsi, msi[:, :-1]), "no pair", pairs[2]]
    calls = []
    results = list(
        fuse_many(given, degradation, workers=2, on_error="keep", progress=lambda *call: calls.append(call), **QUICK)
    )
    assert [type(result) for result in results] == [FusionResult, FailedFusion, FailedFusion, FusionResult]
    assert calls == [(n, 4) for n in range(1, 5)]
    assert results[3].sri.tobytes() == fuse(*pairs[2], degradation, **QUICK).sri.tobytes()
    shorter, foreign = results[1:3]
    assert isinstance(shorter.error, ValueError)
    assert str(shorter.error).startswith("pairs[1]: msi: 19 columns")
    assert isinstance(foreign.error, TypeError)
    assert not shorter.converged
    assert shorter.status is Status.ERROR
    assert not Status.ERROR.converged
    assert "pairs[1]: msi: 19 columns" in repr(shorter)


def test_what_fails_inside_a_worker_is_kept_too(pairs, degradation):
    init = [np.ones((2, 3))] * 3
    (failed,) = fuse_many(pairs[:1], degradation, workers=1, on_error="keep", init=init, **QUICK)
    assert isinstance(failed, FailedFusion)
    assert str(failed.error).startswith("pairs[0]: init: got shapes")


def test_errors_are_raised_unless_they_are_asked_to_be_kept(pairs, degradation):
    with pytest.raises(TypeError, match=r"^pairs\[0\]: "):
        list(fuse_many([None], degradation, on_error="raise", **QUICK))


@pytest.mark.parametrize("wrong", ["ignore", None, True])
def test_other_ways_with_errors_are_refused(wrong, degradation):
    with pytest.raises(ValueError, match=r"^on_error: got .*; 'raise' or 'keep' is needed"):
        fuse_many([], degradation, on_error=wrong)


def test_what_the_pairs_themselves_raise_is_never_kept(pairs, degradation):
    def torn():
        yield pairs[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(fuse_many(torn(), degradation, workers=1, on_error="keep", **QUICK))


def test_after_a_worker_is_killed_another_takes_its_place(pairs, degradation, monkeypatch):
    started, start = [], workers._start
    monkeypatch.setattr(workers, "_start", lambda function: started.append(start(function)) or started[-1])
    results = fuse_many(itertools.cycle(pairs), degradation, workers=1, on_error="keep", **QUICK)
    next(results)
    started[0].kill()
    after = list(itertools.islice(results, 4))
    results.close()
    failed = [result for result in after if isinstance(result, FailedFusion)]
    assert len(failed) == 1
    assert isinstance(failed[0].error, ChildProcessError)
    assert len(started) == 2


SCRIPT = """
import itertools, os, sys, time
from fastccpd import Degradation, fuse_many, workers
from scenery import small_case

start = workers._start
def record(function):
    process = start(function)
    print(process.pid, flush=True)
    return process
workers._start = record

_, hsi, msi, degradation = small_case((96, 96, 64), noise=0.05)
options = {"method": "nn-ccpd-nls", "rank": 40, "ftol": 0.0, "max_iter": 100_000}
results = fuse_many(itertools.repeat((hsi, msi)), degradation, workers=2, time_limit=2.0, **options)
next(results)
print("leaving", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes are looked for as POSIX does")
def test_a_script_that_ends_with_an_open_iterator_leaves_at_once_with_its_workers():
    # Each pair takes two seconds, and four are under way.
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])}
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tests.parent,
    )
    pids = []
    for line in script.stdout:
        if line.strip() == "leaving":
            break
        pids.append(int(line))
    began = time.perf_counter()
    _, errors = script.communicate(timeout=60)
    assert script.returncode == 0, errors
    assert errors == ""
    assert time.perf_counter() - began < 1.5
    assert len(pids) == 2
    assert not [pid for pid in pids if _runs(pid)]


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    os.kill(pid, signal.SIGKILL)
    return True
