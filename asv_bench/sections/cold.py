"""What a new process waits for: imports, the first fusion with and without compiled kernels in the cache, `warmup`."""

import tempfile

from ..measuring import Table, child, speed

_REPEATS = 5

# The default, which at this size needs the kernels of maps alone, and the decomposition.
_METHODS = "auto", "nn-ccpd-nls"

_IMPORT = """
import json, sys, time
began = time.perf_counter()
__import__(sys.argv[1])
print(json.dumps(time.perf_counter() - began))
"""

_FUSE = """
import json, sys, time
began = time.perf_counter()
import numpy as np
import fastccpd
from fastccpd.imaging import degrade, preset
cube = np.random.default_rng(0).random((80, 84, 204))
degradation = preset("stereo", cube.shape)
hsi, msi = degrade(cube, degradation)
chosen = {"method": sys.argv[1], "max_iter": 10}
ready = time.perf_counter()
fastccpd.fuse(hsi, msi, degradation, **chosen)
first = time.perf_counter()
fastccpd.fuse(hsi, msi, degradation, **chosen)
second = time.perf_counter()
fastccpd.fuse(hsi.astype(np.float32), msi.astype(np.float32), degradation, **chosen)
single = time.perf_counter() - second
print(json.dumps({"first": first - ready, "second": second - first, "all": first - began, "float32": single}))
"""

_WARMUP = """
import json
from fastccpd.cli import compiling as warmup
done = warmup.run()
print(json.dumps({"seconds": done.seconds, "compiled": done.compiled, "routines": done.routines}))
"""


def cold():
    """Each in processes of its own, with a cache in a temporary folder; the least of several."""
    imports = {name: [] for name in ("numba", "fastccpd")}
    empty, warm, ahead = {name: [] for name in _METHODS}, [], []
    for name, runs in 2 * tuple(empty.items()):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(child(_FUSE, name, NUMBA_CACHE_DIR=folder))
    with tempfile.TemporaryDirectory() as folder:
        ahead.append(child(_WARMUP, NUMBA_CACHE_DIR=folder))
        for _ in range(_REPEATS):
            warm.append(child(_FUSE, _METHODS[0], NUMBA_CACHE_DIR=folder))
            for name, seconds in imports.items():
                seconds.append(child(_IMPORT, name, NUMBA_CACHE_DIR=folder))
    numba, own = min(imports["numba"]), min(imports["fastccpd"])
    more = min(run["first"] - run["second"] for run in warm)
    rows = [
        ["`import fastccpd`", f"{own:.2f} s", f"{own / numba:.2f}× `import numba` ({numba:.2f} s)"],
        [
            "first `fuse`, kernels in the cache",
            f"{min(run['first'] for run in warm):.2f} s",
            f"{more:.2f} s more than the second",
        ],
        *(
            [
                f"import and first `fuse` by `{name}`, empty cache",
                f"{min(run['all'] for run in runs):.1f} s",
                f"then the first of float32 images {min(run['float32'] for run in runs):.1f} s",
            ]
            for name, runs in empty.items()
        ),
        ["`fastccpd warmup`, empty cache", f"{ahead[0]['seconds']:.1f} s", f"{ahead[0]['compiled']} routines"],
    ]
    numbers = {"imports": imports, "empty cache": empty, "warm cache": warm, "warmup": ahead}
    speeds = speed("import", "import fastccpd", "import numba", own, numba)
    yield Table("cold", ["in a new process", "time", ""], rows, numbers, (speeds,))
