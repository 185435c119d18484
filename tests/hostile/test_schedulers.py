"""`fuse` under other packages' schedulers and threading layers, and a cold start of many processes at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BEGINNING = """
import hashlib
import fastccpd
from fastccpd.testing import small_case

def fused(seed):
    case = small_case((32, 48, 16 + seed), noise=0.05)
    return hashlib.sha256(fastccpd.fuse(*case, method="nn-ccpd-nls", rank=3, max_iter=5).sri.tobytes()).hexdigest()
"""

SCRIPTS = {
    "joblib": """
from joblib import Parallel, delayed
print(Parallel(n_jobs=2, backend="loky")(delayed(fused)(seed) for seed in range(6)) == list(map(fused, range(6))))
""",
    "joblib threads": """
from joblib import Parallel, delayed
print(Parallel(n_jobs=4, backend="threading")(delayed(fused)(seed) for seed in range(6)) == list(map(fused, range(6))))
""",
    "distributed": """
if __name__ == "__main__":
    from distributed import Client, LocalCluster
    for settings in ({"processes": False, "threads_per_worker": 4, "n_workers": 1}, {"n_workers": 2}):
        with LocalCluster(dashboard_address=None, **settings) as cluster, Client(cluster) as client:
            found = client.gather(client.map(fused, range(6), pure=False))
            assert found == list(map(fused, range(6))), settings
    print(True)
""",
    "tbb": """
import threading
from fastccpd import machine
from fastccpd.kernels import jit
expected, found = list(map(fused, range(6))), {}
with jit.sharing_all_work() as shared:
    threads = [threading.Thread(target=lambda seed=seed: found.update({seed: fused(seed)})) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert machine.threading_layer()[1] == "tbb", machine.threading_layer()
assert shared.launches > 0
print([found[seed] for seed in range(6)] == expected)
""",
}
ENVIRONMENTS = {
    # Where pip puts its library, the loader does not look.
    "tbb": {"NUMBA_THREADING_LAYER": "tbb", "LD_LIBRARY_PATH": str(Path(sys.prefix) / "lib")},
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_fusions_under_a_scheduler_are_those_of_a_loop(name, tmp_path):
    # A file of its own: processes that are spawned import it.
    script = tmp_path / "script.py"
    script.write_text(BEGINNING + SCRIPTS[name])
    environment = os.environ | ENVIRONMENTS.get(name, {})
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=180)
    if re.search("No module named '(joblib|distributed)'|No threading layer could be loaded", done.stderr):
        pytest.skip(f"{name} is not installed")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


COLD = """
import numpy as np
from fastccpd import kernels
print(kernels.gram(np.arange(12.0).reshape(6, 2)).tolist())
"""


def test_six_processes_may_fill_an_empty_cache_at_once(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COLD]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for process in started:
        out, err = process.communicate(timeout=180)
        assert (process.returncode, err) == (0, "")
        assert out == "[[220.0, 250.0], [250.0, 286.0]]\n"
    assert any(tmp_path.rglob("*.nbi"))
