"""Ratios of times, ours and the rivals interleaved in one run: `python asv_bench/compare.py` prints a Markdown table.

Each rival at its best BLAS thread count. The ways take turns in bursts, so that each finds its own data in the cache
and a busy moment of the machine meets them all; times are the least of all bursts.
"""

import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))
import rivals

_BURST = 5


def least_times(ways, rounds, threads=(1, 2)):
    """{name: least seconds}; the ways take turns, burst after burst, at each BLAS thread count."""
    best = dict.fromkeys(ways, np.inf)
    for count in threads:
        with threadpool_limits(count, user_api="blas"):
            for way in ways.values():
                way()
            for _ in range(rounds):
                for name, way in ways.items():
                    for _ in range(_BURST):
                        start = time.perf_counter()
                        way()
                        best[name] = min(best[name], time.perf_counter() - start)
    return best


def mttkrp_rows():
    for name, shape in rivals.SHAPES.items():
        times = {}
        for dtype in (np.float64, np.float32):
            case = rivals.tensor_and_factors(shape, dtype)
            gemms = rivals.TwoGemms(*case)
            ways = {
                "ours": lambda case=case: rivals.ours(*case),
                "tensorly": lambda case=case: rivals.tensorly_three_modes(*case),
                "khatri-rao + gemm": lambda case=case: rivals.khatri_rao_gemm(*case),
                "two gemms": lambda case=case, gemms=gemms: gemms(*case),
            }
            rounds = 4 if case[0].size * shape[3] > 1e8 else 40
            times[dtype] = least_times(ways, rounds)
        double, single = times[np.float64], times[np.float32]
        flops = 4 * np.prod(shape, dtype=float)
        yield [
            name, f"{flops / double['ours'] / 1e9:.0f}",
            *(f"{double[rival] / double['ours']:.1f}×" for rival in ("tensorly", "khatri-rao + gemm", "two gemms")),
            f"{double['ours'] / single['ours']:.1f}×",
        ]  # fmt: skip


def hessp_rows():
    for name, (shape, rank) in rivals.HESSP_SHAPES.items():
        objective, z = rivals.objective_at_a_point(shape, rank)
        by_numpy = rivals.numpy_hessp(objective)
        ways = {"ours": lambda o=objective, z=z: o.hessp(z), "numpy": lambda f=by_numpy, z=z: f(z)}
        times = least_times(ways, 60, threads=(1,))
        yield [name, f"{times['numpy'] / times['ours']:.1f}×"]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    head = ["shape", "GFLOP/s", "tensorly", "Khatri-Rao + GEMM", "two bare GEMMs", "float32 over float64"]
    print(table(head, mttkrp_rows()), flush=True)
    print()
    print(table(["H z", "NumPy, BLAS at one thread"], hessp_rows()))
