"""The kernels as compiled for older processors than this one: `python -m asv_bench.processors`.

Each processor is a process of its own with `NUMBA_CPU_NAME`; kernels are compiled first, then timed on one thread by
its CPU time, the least of several calls. "haswell" has AVX2 and fused multiply-adds, "generic" is any x86-64.
"""

import json
import os
import subprocess
import sys

PROCESSORS = (None, "haswell", "generic")

CHILD = """
import json, time
import numba, numpy as np
from fastccpd import kernels
from fastccpd.kernels.simd import VECTOR_BYTES

numba.set_num_threads(1)
rng = np.random.default_rng(0)

def least(call):
    call()
    taken = []
    for _ in range(7):
        began = time.thread_time()
        call()
        taken.append(time.thread_time() - began)
    return min(taken)

rows = {"bytes of a vector": VECTOR_BYTES}
for *shape, rank in ((512, 512, 8, 48), (128, 128, 200, 48), (20, 21, 204, 30)):
    tensor, factors = rng.random(shape), [rng.random((n, rank)) for n in shape]
    seconds = least(lambda: kernels.mttkrp_all(tensor, factors))
    rows["×".join(map(str, shape)) + f" R={rank}"] = 4e-9 * np.prod(shape) * rank / seconds
print(json.dumps(rows))
"""


def measured(processor):
    """GFLOP/s of three MTTKRPs by shape, as compiled for a processor; None: this one."""
    chosen = {} if processor is None else {"NUMBA_CPU_NAME": processor}
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, env={**os.environ, **chosen}, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    for processor in PROCESSORS:
        rows = measured(processor)
        print(processor or "this one", "; ".join(f"{name}: {value:.3g}" for name, value in rows.items()), flush=True)
