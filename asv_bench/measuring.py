"""Clocks for a noisy machine, the machine's limits, and tables of what was measured."""

import json
import os
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from fastccpd import rows
from fastccpd.machine import own_version, processor

_ROOT = Path(__file__).resolve().parents[1]
_BURST = 5
_LONG = 0.1

# Threads of BLAS and of OpenMP spin on their cores after a call, those of OpenBLAS for 2^26 cycles unless it is told
# otherwise, some 20 ms; after this many seconds they sleep.
_ASLEEP = 0.05


class Table(NamedTuple):
    """What a section yields: rows to print below their head, all numbers for the JSON file, rows of docs/rows.md."""

    name: str
    head: list[str]
    rows: list[list[str]]
    numbers: Any
    speeds: tuple[dict[str, Any], ...] = ()

    def __str__(self):
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def of_several_runs(tables):
    """One table of several runs: in each cell the median, and from where to where the runs lie; rows of all of them."""
    first = tables[0]
    cells = [[_of_runs(texts) for texts in zip(*lines)] for lines in zip(*(table.rows for table in tables))]
    numbers = [table.numbers for table in tables]
    return Table(first.name, first.head, cells, numbers, tuple(row for table in tables for row in table.speeds))


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _of_runs(texts):
    """A cell of several runs: "18.0×" and "17.2×" and "18.4×" are "18.0 (17.2–18.4)×"."""
    found = [_NUMBER.match(text) for text in texts]
    if len(set(texts)) == 1 or not all(found):
        return texts[0]
    values = sorted((match[0] for match in found), key=float)
    rest = texts[0][found[0].end() :]
    return f"{values[len(values) // 2]} ({values[0]}–{values[-1]}){rest}"


def speed(benchmark, case, baseline, seconds, baseline_seconds, **more):
    """A row of docs/rows.md: ours beside a baseline, in one run."""
    times = {"seconds": float(seconds), "baseline_seconds": float(baseline_seconds)}
    return {
        **rows.written_by("fastccpd", own_version()),
        "kind": "speed",
        "method": "fastccpd",
        "options": {},
        "inputs": None,
        "benchmark": benchmark,
        "case": case,
        "baseline": baseline,
        **times,
        "speedup": times["baseline_seconds"] / times["seconds"],
        "threads": numba.config.NUMBA_NUM_THREADS,
        "versions": {name: number for name, number in machine()["versions"].items() if number},
        **more,
    }


def least_times(ways, rounds, threads=(1,)):
    """{name: least seconds}; the ways take turns, burst after burst, at each BLAS thread count.

    In a burst each way finds its own data in the cache, and a busy moment of the machine meets them all. What takes
    long needs no bursts. Before each burst the threads of the way before have time to go to sleep: each is measured as
    if it were alone, ours and the rivals alike (`in_company` is for the other case).
    """
    best = dict.fromkeys(ways, np.inf)
    for way in ways.values():  # compiled, if need be
        way()
    for count in threads:
        with threadpool_limits(count, user_api="blas"):
            bursts = {name: _BURST if seconds_of(way) < _LONG else 1 for name, way in ways.items()}
            for _ in range(rounds):
                for name, way in ways.items():
                    time.sleep(_ASLEEP if len(ways) > 1 else 0.0)
                    best[name] = min(best[name], *(seconds_of(way) for _ in range(bursts[name])))
    return best


def seconds_of(way):
    """Wall-clock seconds of one call; what runs in another process takes its own time."""
    if hasattr(way, "seconds"):
        return way.seconds()
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def in_company(way, seconds=0.5, size=384):
    """Mean seconds of calls right after a DGEMM on all BLAS threads, whose pool then still spins on its cores.

    That is how a kernel is called from another package's loop. The product itself is not timed. The mean, since some
    calls wait for a core and others do not.
    """
    X, times = np.ones((size, size)), []
    way()
    with threadpool_limits(max(blas_threads()), user_api="blas"):
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            np.matmul(X, X)
            times.append(seconds_of(way))
    return float(np.mean(times))


def blas_threads():
    """Every BLAS thread count there is: a rival is taken at its best."""
    return range(1, cores() + 1)


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@numba.njit(parallel=True)
def _triad(a, b, c):
    for i in numba.prange(a.shape[0]):
        a[i] = b[i] + 3.0 * c[i]


class Limits(NamedTuple):
    """What the machine can do at most, measured: float64 flops and bytes of memory a second."""

    flops: float
    bytes: float

    @classmethod
    def measured(cls, size=2048, length=8_000_000):
        """By a large DGEMM at its best thread count, and by STREAM's triad on arrays far larger than the caches."""
        X, Y, Z = np.ones((size, size)), np.ones((size, size)), np.empty((size, size))
        gemm = least_times({"gemm": lambda: np.matmul(X, Y, out=Z)}, 6, blas_threads())["gemm"]
        a, b, c = (np.ones(length) for _ in range(3))
        triad = least_times({"triad": lambda: _triad(a, b, c)}, 4)["triad"]
        return cls(2.0 * size**3 / gemm, 3.0 * a.nbytes / triad)

    def least_seconds(self, flops, moved):
        """The roofline: no faster than the arithmetic, nor than the memory, allows."""
        return max(flops / self.flops, moved / self.bytes)

    def __str__(self):
        return f"{self.flops / 1e9:.0f} GFLOP/s (DGEMM) and {self.bytes / 1e9:.1f} GB/s (triad)"


def child(script, *arguments, **environment):
    """What a new Python process with this script prints, as JSON; it runs where this package is found."""
    settings = {**os.environ, "PYTHONPATH": str(_ROOT), **environment}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env=settings, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def machine():
    """The processor, its cores, and the versions of all that takes part."""
    names = ("fastccpd", "numpy", "scipy", "numba", "llvmlite", "tensorly", "pyttb", "pygenten")
    return {
        "processor": processor(),
        "cores": cores(),
        "numba threads": numba.config.NUMBA_NUM_THREADS,
        "wait policy": os.environ.get("OMP_WAIT_POLICY", "unset"),
        "blas": sorted(
            {
                f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
                for pool in threadpool_info()
                if pool["user_api"] == "blas"
            }
        ),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in names}},
    }


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
