"""Processors that are not here: the kernels' code compiles for them, and tiles keep to their vectors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "arm64-apple-darwin"])
def test_tiles_and_kernels_compile_for_arm64_with_fused_vector_instructions(triple):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CPU_NAME": "generic", "FASTCCPD_KERNEL_CACHE": "0"}
    command = [sys.executable, str(Path(__file__).with_name("other_processors.py")), triple, "gram"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert rows["grams"]["bytes"] > 1000
    # Ten tiles of up to four rows by three vectors of four, each row's products for two registers of two float64.
    assert rows["tiles 0"]["fused"] > 100
