"""The on-disk cache: private, hit by the second process, told apart by twin, forgiving of torn files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

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
    "hits": sum(grams.serial.stats.cache_hits.values()),
    "twin_hits": [sum(t.stats.cache_hits.values()) for t in (nothing.serial, nothing.parallel)],
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
    assert second["twin_hits"] == [1, 1]
    assert Path(second["directory"]).parent == base


def test_twins_keep_their_own_code_in_the_cache(warm):
    base, first = warm
    launches_threads = {}
    for twin in ("serial", "parallel"):
        (file,) = Path(first["directory"]).rglob(f"*nearly_nothing_{twin}*.nbc")
        launches_threads[twin] = b"parallel_for" in file.read_bytes()
    assert launches_threads == {"serial": False, "parallel": True}
    assert probe(base)["twin_hits"] == [1, 1]


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


def test_cache_can_be_turned_off(tmp_path):
    assert probe(tmp_path, FASTCCPD_KERNEL_CACHE="0")["directory"] == "None"
    assert not list(tmp_path.iterdir())


def test_importing_the_kernels_leaves_the_users_cache_setting_alone():
    script = "import numba; before = numba.config.CACHE_DIR; import fastccpd; assert numba.config.CACHE_DIR == before"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
