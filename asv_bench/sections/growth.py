"""How time and memory grow: with threads, with pixels and bands, with the size of the scene, with many scenes."""

import itertools

import numba
import numpy as np

import fastccpd
from fastccpd import Problem
from fastccpd.solver.coupled_cpd import CoupledCPD
from fastccpd.solver.trust_region import Options, minimize

from ..benchmarks import pairs, solvers
from ..measuring import Table, child, least_times, speed

_ROWS_COLUMNS_BANDS = [(256, 256, 100), (512, 512, 100), (1024, 1024, 100), (2048, 2048, 100)]
_BANDS = [(512, 512, 50), (512, 512, 100), (512, 512, 200), (512, 512, 400)]
_FEW, _RANK = 8, 30


def threads():
    """Iterations of the solver on all threads, against one."""
    most = numba.config.NUMBA_NUM_THREADS
    *_, large_rank = pairs.LARGE
    cases = {
        "Salinas R=30, 60 iterations": (lambda: solvers.problem_of("salinas-a", 5.0), 30, 60),
        "Indian Pines R=30, 60 iterations": (lambda: solvers.problem_of("indian-pines", 30.0), 30, 60),
        "256x256x200 / 1024x1024x8 R=64, 10 iterations": (_large, large_rank, 10),
    }
    numbers = {}
    for name, (problem_of, rank, iterations) in cases.items():
        problem = problem_of()
        x0, options = pairs.start_of(problem.sri_shape, rank), Options(max_iter=iterations, ftol=0.0)

        def run(count, problem=problem, rank=rank, x0=x0, options=options):
            numba.set_num_threads(count)
            minimize(CoupledCPD.of_problem(problem, rank), x0, options)

        ways = {str(count): lambda count=count, run=run: run(count) for count in sorted({1, most})}
        try:
            numbers[name] = least_times(ways, 5)
        finally:
            numba.set_num_threads(most)
    rows = [
        [name, f"{times['1']:.3f}", f"{times[str(most)]:.3f}", f"{times['1'] / times[str(most)]:.2f}×"]
        for name, times in numbers.items()
    ]
    speeds = [speed("threads", name, "one thread", times[str(most)], times["1"]) for name, times in numbers.items()]
    yield Table("threads", ["seconds", "one thread", f"{most} threads", "gain"], rows, numbers, tuple(speeds))


def _large():
    return Problem(*pairs.smooth_pair(pairs.LARGE))


def scaling():
    """One iteration's work (a pass over the data, the gradient, the preconditioner, four CG steps) as scenes grow."""
    numbers, rows = {}, []
    for axis, shapes in (("pixels", _ROWS_COLUMNS_BANDS), ("bands", _BANDS)):
        seconds = [_iteration(shape) for shape in shapes]
        sizes = [shape[0] * shape[1] if axis == "pixels" else shape[2] for shape in shapes]
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        numbers[axis] = {"shapes": shapes, "seconds": seconds, "exponent": slope}
        listed = ", ".join(f"{'×'.join(map(str, s))}: {1e3 * t:.1f} ms" for s, t in zip(shapes, seconds))
        rows.append([axis, listed, f"{slope:.2f}"])
    yield Table("scaling", [f"R={_RANK}, {_FEW} multispectral bands", "one iteration", "exponent"], rows, numbers)


def _iteration(shape):
    objective = CoupledCPD.of_problem(Problem(*pairs.smooth_pair((*shape, _FEW, _RANK))), _RANK)
    # Three points in turn: the objective remembers its passes at the last two.
    points = itertools.cycle([pairs.start_of(shape, _RANK, seed) for seed in range(3)])

    def iterate():
        _, z = objective.cost_and_gradient(next(points))
        for _ in range(4):
            z = objective.hessp(objective.precondition(z))
            z /= np.abs(z).max()

    return least_times({"iteration": iterate}, 4)["iteration"]


_PEAK = """
import json, sys
from pathlib import Path
import numpy as np
import fastccpd
from fastccpd.imaging import preset, response_from_groups
rows, columns, bands, few, rank = map(int, sys.argv[1:])
PM = response_from_groups([slice(n * bands // few, (n + 1) * bands // few) for n in range(few)], bands)

def resident(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))

def pair(rows, columns):
    degradation = preset("stereo", (rows, columns, bands), PM)
    shapes = (rows // 4, columns // 4, bands), (rows, columns, few)
    return *(np.random.default_rng(0).random(shape) for shape in shapes), degradation

chosen = {"method": "nn-ccpd-nls", "rank": rank}
fastccpd.fuse(*pair(128, 128), max_iter=2, **chosen)
large = pair(rows, columns)
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
fastccpd.fuse(*large, max_iter=4, **chosen)
print(json.dumps({"peak": resident("VmHWM") - before, "inputs": sum(image.nbytes for image in large[:2]),
                  "resident before": before, "estimate": fastccpd.memory_needed(*large[:2], **chosen)}))
"""


def memory():
    """What a fusion adds to the resident memory of its process, beside imports, compiled kernels and the images."""
    numbers = child(_PEAK, *pairs.LARGE)
    megabytes = [f"{numbers[name] / 1e6:.0f} MB" for name in ("inputs", "peak", "estimate")]
    rows = [["256x256x200 / 1024x1024x8 R=64", *megabytes]]
    yield Table("memory", ["float64", "images", "peak beside them", "`memory_needed`"], rows, numbers)


def many():
    """Sixty-four fusions by `fuse_many`, its start included, and one after the other on all threads or on one."""
    if not hasattr(fastccpd, "fuse_many"):
        return
    cases = [pairs.smooth_pair((80, 84, 204, 6, 30), 20.0, seed) for seed in range(64)]
    chosen = {"method": "nn-ccpd-nls", "rank": 30}
    ways = {
        "all threads": lambda: [fastccpd.fuse(*case, **chosen) for case in cases],
        "one thread": lambda: [fastccpd.fuse(*case, threads=1, **chosen) for case in cases],
        "`fuse_many`": lambda: list(fastccpd.fuse_many([case[:2] for case in cases], cases[0][2], **chosen)),
    }
    times = least_times(ways, 1)
    gain = min(times["all threads"], times["one thread"]) / times["`fuse_many`"]
    rows = [["20x21x204 / 80x84x6 R=30", *(f"{len(cases) / times[way]:.1f}" for way in ways), f"{gain:.2f}×"]]
    one_by_one = min(times["all threads"], times["one thread"])
    speeds = speed("64 fusions", rows[0][0], "one after the other", times["`fuse_many`"], one_by_one)
    yield Table("many", ["64 fusions, a second", *ways, "gain"], rows, times, (speeds,))
