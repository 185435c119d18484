"""The on-disk cache: private, hit by the second process, forgiving of torn files."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest
from fastccpd.kernels import disk_cache

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

PROBE = """
import json, numpy as np
import fastccpd.kernels as kernels
from fastccpd.kernels import jit
rng = np.random.default_rng(0)
factors = [rng.random((n, 9)) for n in (6, 5, 4)]
kernels.gram(factors[0])
grams = next(k for k in jit.KERNELS if k.__name__ == "grams")
nothing = jit.nearly_nothing
nothing.parallel(np.zeros(2)); nothing.serial(np.zeros(2))
print(json.dumps({
    "gram": float(kernels.gram(factors[0])[0, 0] - (factors[0][:, 0] ** 2).sum()),
    "hits": sum(grams.compiled.stats.cache_hits.values()),
    "shared_hits": [sum(nothing.compiled.stats.cache_hits.values()), jit._callbacks[-1].cache_hits],
    "directory": str(jit.CACHE_DIRECTORY),
}))
"""


def probe(base, **environment):
    settings = os.environ | {"NUMBA_CACHE_DIR": str(base)} | environment
    done = subprocess.run([sys.executable, "-c", PROBE], env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    base = tmp_path_factory.mktemp("cache")
    return base, probe(base)


def test_second_process_takes_its_kernels_from_the_cache(warm):
    base, first = warm
    second = probe(base)
    assert first["hits"] == 0
    assert second["hits"] == 1
    assert second["shared_hits"] == [1, 1]
    assert Path(second["directory"]).parent == base


def test_a_kernel_is_compiled_once_and_its_launcher_apart_from_it(warm):
    _, first = warm
    (kernel,) = Path(first["directory"]).rglob("*nearly_nothing*.nbc")
    (launcher,) = Path(first["directory"]).rglob("*launch_all*.nbc")
    assert [b"parallel_for" in file.read_bytes() for file in (kernel, launcher)] == [False, True]


def test_cache_directory_is_private_to_its_owner(warm):
    _, first = warm
    assert Path(first["directory"]).stat().st_mode & 0o077 == 0


def test_torn_cache_files_are_compiled_anew(warm):
    base, first = warm
    for file in Path(first["directory"]).rglob("*.nb?"):
        file.write_bytes(file.read_bytes()[:40])
    again = probe(base)
    assert again["hits"] == 0
    assert abs(again["gram"]) < 1e-12
    assert probe(base)["hits"] == 1


def test_processes_that_start_together_compile_each_routine_once(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda _: probe(tmp_path), range(3)))
    assert sorted(one["hits"] for one in together) == [0, 1, 1]
    assert [sum(one["shared_hits"][n] for one in together) for n in range(2)] == [2, 2]


def test_a_lock_that_is_left_behind_keeps_nobody_out(tmp_path, monkeypatch):
    held, wanted = (disk_cache._Turn(tmp_path / "routine.lock") for _ in range(2))
    monkeypatch.setattr(disk_cache, "_PATIENCE", 0.1)
    assert held.take()
    assert held.take(), "a compilation that was broken off left it to us"
    assert not wanted.take()
    held.give()
    assert wanted.take()
    wanted.give()
    assert not disk_cache._Turn(tmp_path / "no folder" / "routine.lock").take()


def test_cache_can_be_turned_off(tmp_path):
    assert probe(tmp_path, FASTCCPD_KERNEL_CACHE="0")["directory"] == "None"
    assert not list(tmp_path.iterdir())


def test_importing_the_kernels_leaves_the_users_cache_setting_alone():
    script = "import numba; before = numba.config.CACHE_DIR; import fastccpd; assert numba.config.CACHE_DIR == before"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


THEIRS = """
from numba import njit, prange
from fastccpd.kernels import compiled

@njit(parallel=True, cache=True)
def grams(stack, out):
    for n in prange(len(stack)):
        compiled.gram(stack[n], out[n])
"""
USE = """
import json, sys
import numpy as np
from fastccpd import kernels
from fastccpd.kernels import compiled
if sys.argv[1:]:
    compiled.prepare(sys.argv[1:])
import theirs
stack = np.random.default_rng(0).random((6, 9, 5))
out = np.empty((6, 5, 5))
theirs.grams(stack, out)
same = all((found == kernels.gram(U)).all() for found, U in zip(out, stack))
print(json.dumps({"same": bool(same), "hits": sum(theirs.grams.stats.cache_hits.values())}))
"""


def use(base, folder, *names):
    """Run the test package in a process of its own."""
    settings = os.environ | {"NUMBA_CACHE_DIR": str(base)}
    command = [sys.executable, "-c", USE, *names]
    return subprocess.run(command, env=settings, cwd=folder, capture_output=True, text=True, timeout=300)


def test_another_package_s_compiled_code_finds_ours_again_in_a_second_process(warm, tmp_path):
    base, _ = warm
    (tmp_path / "theirs.py").write_text(THEIRS, encoding="utf-8")
    first, second = (use(base, tmp_path) for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert json.loads(first.stdout) == {"same": True, "hits": 0}
    assert json.loads(second.stdout) == {"same": True, "hits": 1}
    # Their cache outlives ours, as in an image of a disk that holds the one and not the other.
    (base / "fastccpd-compiled.txt").unlink()
    orphan = use(base, tmp_path)
    assert orphan.returncode == 1
    assert "RuntimeError" in orphan.stderr
    assert "call fastccpd.kernels.compiled.prepare() before it" in orphan.stderr
    mended = use(base, tmp_path, "gram")
    assert json.loads(mended.stdout) == {"same": True, "hits": 1}, mended.stderr
    assert json.loads(use(base, tmp_path).stdout) == {"same": True, "hits": 1}, "it is remembered"
