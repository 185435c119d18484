"""Ratios of times, ours and the rivals interleaved in one run: `python asv_bench/compare.py [kernels] [solvers]`.

Kernels: each rival at its best BLAS thread count. The ways take turns in bursts, so that each finds its own data in the
cache and a busy moment of the machine meets them all; times are the least of all bursts.

Solvers: seconds from the same start to the same cost, 1 % above the best of five starts after 400 iterations; medians
of five starts. And to the cost that the paper's algorithm has after 200 iterations in NumPy. BLAS at one thread, which
is its best for matrices as small as these. Needs the real scenes (FASTCCPD_DATA).

Markdown goes to stdout, and with `--json FILE` all the numbers to a file.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks import rivals, solvers

from fastccpd.solver.coupled_cpd import CoupledCPD

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


def solver_rows(numbers):
    """One row a scene; the seconds of every way and start go into `numbers`."""
    for case, (_, _, rank) in solvers.CASES.items():
        problem = solvers.problem_of(case)
        target = 1.01 * solvers.best_cost(problem, rank)
        starts = [solvers.start_of(problem, rank, seed) for seed in range(5)]
        ways = {
            "ours": lambda x0, p=problem, r=rank, f=target: solvers.trust_region(CoupledCPD(p, r), x0, f)[0],
            "numpy": lambda x0, p=problem, r=rank, f=target: solvers.trust_region(solvers.NumpyCoupledCPD(p, r), x0, f)[
                0
            ],
            **{
                f"l-bfgs, {m} pairs": lambda x0, p=problem, r=rank, f=target, m=m: solvers.lbfgs(
                    CoupledCPD(p, r), x0, f, m
                )[0]
                for m in (5, 10, 20)
            },
        }
        with threadpool_limits(1, user_api="blas"):
            ways["ours"](starts[0])
            times = {name: [] for name in ways}
            for x0 in starts:
                for name, way in ways.items():
                    times[name].append(way(x0))
            times["least_squares (stopped after 60 s)"] = [
                solvers.least_squares(problem, starts[0], target, patience=60.0)
            ]
            paper = [solvers.cost_of_the_papers_algorithm(problem, rank, x0) for x0 in starts[:3]]
            to_paper = [
                solvers.trust_region(CoupledCPD(problem, rank), x0, cost)[0] for x0, (_, cost) in zip(starts, paper)
            ]
        numbers[case] = {**times, "paper's algorithm, 200 iterations": paper, "ours to its cost": to_paper}
        medians = {name: float(np.median(seconds)) for name, seconds in times.items()}
        best_lbfgs = min(seconds for name, seconds in medians.items() if name.startswith("l-bfgs"))
        against_paper = np.median([seconds / own for (seconds, _), own in zip(paper, to_paper)])
        ratios = [medians["numpy"], best_lbfgs, medians["least_squares (stopped after 60 s)"]]
        yield [case, *(f"{seconds / medians['ours']:.1f}×" for seconds in ratios), f"{against_paper:.0f}×"]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _printed(head, rows):
    """The rows as they were printed, by column."""
    rows = list(rows)
    print(table(head, rows), end="\n\n", flush=True)
    return [dict(zip(head, row)) for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["kernels", "solvers"], default=["kernels"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    numbers = {"machine": platform.processor(), "python": platform.python_version(), "numpy": np.__version__}
    if "kernels" in options.what:
        head = ["shape", "GFLOP/s", "tensorly", "Khatri-Rao + GEMM", "two bare GEMMs", "float32 over float64"]
        numbers["mttkrp"] = _printed(head, mttkrp_rows())
        numbers["hessp"] = _printed(["H z", "NumPy, BLAS at one thread"], hessp_rows())
    if "solvers" in options.what:
        head = ["time to a cost", "same algorithm in NumPy", "L-BFGS on our kernels", "least_squares, trf + lsmr",
                "paper's algorithm in NumPy"]  # fmt: skip
        seconds = numbers["seconds"] = {}
        numbers["solvers"] = _printed(head, solver_rows(seconds))
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
