"""Memory that ends in the middle: the k-th large allocation fails, and nothing but a MemoryError comes of it.

Arrays that NumPy makes in C cannot be made to fail one by one: for them the address space of a process is limited, a
little less narrowly each time.
"""

import itertools
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
import pytest
from pair_files import write_pair

from fastccpd import fuse
from fastccpd.cli import main
from fastccpd.testing import small_case, small_instance
from fastccpd.testing.running import briefly

METHODS = ("auto", "nn-ccpd-nls", "hysure", "nssr")
MAKERS = ("empty", "zeros", "ones", "full", "array", "ascontiguousarray", "empty_like", "zeros_like", "concatenate")

# Bytes; the MSI of the small scene has a hundred times as many.
LARGE = 1 << 9


@contextmanager
def failing(monkeypatch, k):
    """The k-th large array that is asked for by a name of `MAKERS` cannot be had; yields how many were asked for."""
    asked, count = [0], threading.Lock()

    def wrapped(make):
        def maker(*arguments, **options):
            array = make(*arguments, **options)
            if array.nbytes >= LARGE:
                with count:
                    asked[0] += 1
                    if asked[0] == k:
                        raise MemoryError(f"Unable to allocate {array.nbytes} bytes")
            return array

        return maker

    with monkeypatch.context() as patched:
        for name in MAKERS:
            patched.setattr(np, name, wrapped(getattr(np, name)))
        yield asked


def places():
    """1, 2, … 8, then every fifth more: what comes late is a loop."""
    yield from range(1, 9)
    k = 8.0
    while True:
        k *= 1.25
        yield int(k)


@pytest.mark.parametrize("name", METHODS)
def test_every_allocation_of_a_fusion_may_fail(name, monkeypatch):
    case, method = small_case(noise=0.05), briefly(small_instance(name), 3)
    hsi, msi, _ = case
    threads, expected = numba.get_num_threads(), fuse(*case, method=method).sri.tobytes()
    before = hsi.tobytes(), msi.tobytes()
    failures = 0
    for k in places():
        with failing(monkeypatch, k) as asked:
            try:
                fuse(*case, method=method).sri  # noqa: B018 - it is rendered when asked for
            except MemoryError:
                failures += 1
        if asked[0] < k:
            break
        assert asked[0] == k, "the failure was passed over"
    assert failures >= 8
    assert (hsi.tobytes(), msi.tobytes()) == before
    assert numba.get_num_threads() == threads
    assert fuse(*case, method=method).sri.tobytes() == expected


def test_the_command_line_leaves_nothing_behind(monkeypatch, tmp_path, capsys):
    hsi, msi, _ = write_pair(tmp_path, dtype=np.float32)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    output = tmp_path / "f.npz"
    command = ["fuse", hsi, msi, "-o", str(output), "--srf", "landsat", "--method", "nn-ccpd-nls", "--rank", "3"]
    command += ["--max-iter", "3", "--quiet"]
    assert main(command) in (0, 4)  # kernels are compiled, which asks for arrays of its own
    output.unlink()
    capsys.readouterr()
    for k in itertools.islice(places(), 100):
        with failing(monkeypatch, k) as asked:
            code = main(command)
        if asked[0] < k:
            break
        (line,) = capsys.readouterr().err.splitlines()
        assert code == 2
        assert line.startswith("fastccpd: ")
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert k > 8
    assert output.exists()


NARROW = """
import resource, sys
import numpy as np, fastccpd
from fastccpd import machine
from fastccpd.testing import small_case, small_instance
from fastccpd.testing.running import briefly

method = briefly(small_instance(sys.argv[1]), 2)
case = small_case((96, 96, 48), (4, 4), 4, noise=0.05)
expected = fastccpd.fuse(*case, method=method).sri.tobytes()
machine.available_memory = lambda: None  # else it would be refused before it begins
before = case[0].tobytes(), case[1].tobytes()
failed = 0
for megabytes in (0, 2, 5, 10, 20, 40):
    with open("/proc/self/statm") as figures:
        used = int(figures.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), resource.RLIM_INFINITY))
    try:
        fastccpd.fuse(*case, method=method).sri
    except MemoryError:
        failed += 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert (case[0].tobytes(), case[1].tobytes()) == before
assert fastccpd.fuse(*case, method=method).sri.tobytes() == expected
print(failed)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="for a system that says how much a process has")
@pytest.mark.parametrize("name", METHODS)
def test_a_process_that_runs_out_of_memory_goes_on(name):
    # What the first fusion freed goes back to the system: else the next ones may do with it, and nothing fails.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", NARROW, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0
