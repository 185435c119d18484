"""BLAS at one thread: for those who need it, while they need it, and the same bytes from any number of threads."""

import json
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fastccpd.blas import one_blas_thread


def counts():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two():
    np.linalg.eigh(np.eye(2))
    with threadpool_limits(limits=2, user_api="blas"):
        if set(counts()) != {2}:
            pytest.skip("this BLAS has no threads")
        yield


def test_the_pools_are_held_at_one_and_then_put_back(two):
    with one_blas_thread():
        assert set(counts()) == {1}
        with one_blas_thread():
            assert set(counts()) == {1}
        assert set(counts()) == {1}
    assert set(counts()) == {2}


def test_an_error_puts_them_back_too(two):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert set(counts()) == {2}


def test_the_last_of_several_puts_them_back(two):
    inside, first_may_leave, first_left = threading.Event(), threading.Event(), threading.Event()

    def first():
        with one_blas_thread():
            inside.set()
            first_may_leave.wait(10)
        first_left.set()

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with one_blas_thread():
        first_may_leave.set()
        first_left.wait(10)
        thread.join()
        assert set(counts()) == {1}
    assert set(counts()) == {2}


SCRIPT = """
import hashlib, json, sys
import numpy as np
import fastccpd
from fastccpd.imaging import add_noise, degrade, preset, scenes
cube = scenes.synthetic((96, 88, 210), rng=1).cube
degradation = preset("stereo", cube.shape)
found = {}
for snr in (10.0, 40.0):
    rng = np.random.default_rng(0)
    images = [add_noise(image, snr, rng) for image in degrade(cube, degradation)]
    for method in ("auto", "tv-maps", "nn-ccpd-auto", "nn-ccpd-nls"):
        options = {} if method == "tv-maps" else {"rank": 6, "max_iter": 20}
        result = fastccpd.fuse(*images, degradation, method=method, **options)
        found[f"{method} {snr}"] = hashlib.sha256(result.sri.tobytes()).hexdigest(), result.cost
print(json.dumps(found))
"""


def test_the_bytes_do_not_depend_on_the_threads_of_blas(monkeypatch):
    found = []
    for threads in ("1", "2"):
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
            monkeypatch.setenv(name, threads)
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
