"""The kernel tests again in other modes: as plain Python, and with bounds checking on the serial twins."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK), reason="this is such a run")
@pytest.mark.parametrize(
    "mode",
    [{"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_BOUNDSCHECK": "1", "NUMBA_NUM_THREADS": "1"}],
    ids=["plain Python", "bounds checked"],
)
def test_kernels_agree_with_the_oracle(mode):
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--benchmark-disable"]
    files = [str(HERE / "test_against_oracle.py"), str(HERE / "test_twins.py")]
    root = HERE.parents[1]
    done = subprocess.run(
        [*command, *files], env=os.environ | mode, cwd=root, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
