"""Whole solvers: seconds from the same start to the same cost.

The cost is 1 % above the best of five starts after 400 iterations; medians of five starts. The paper's algorithm is
given 200 iterations in NumPy, and ours the time to the cost it has then: once with the budget of fifteen CG steps that
it is described with, once with our forcing term, which serves it well. BLAS at one thread, its best for matrices this
small.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from fastccpd.solver.coupled_cpd import CoupledCPD

from ..benchmarks import solvers as rivals
from ..benchmarks.pairs import start_of
from ..measuring import Table, speed

_PATIENCE = 60.0
_HEAD = [
    "time to a cost",
    "same algorithm in NumPy",
    "L-BFGS on our kernels",
    "`least_squares`, trf + lsmr",
    "paper's algorithm in NumPy, 15 CG steps",
    "the same with our forcing term",
]


def solvers():
    """Needs the real scenes, in the folder that FASTCCPD_DATA names."""
    rows, numbers, speeds = [], {}, []
    for name, (scene, snr, rank) in rivals.CASES.items():
        problem = rivals.problem_of(scene, snr)
        with threadpool_limits(1, user_api="blas"):
            times, against_paper = _to_the_target(problem, rank), _to_the_papers_cost(problem, rank)
        numbers[name] = {"seconds": times, "paper": against_paper}
        medians = {way: float(np.median(seconds)) for way, seconds in times.items()}
        best_lbfgs = min(seconds for way, seconds in medians.items() if way.startswith("l-bfgs"))
        rivals_seconds = {"NumPy": medians["numpy"], "L-BFGS": best_lbfgs}
        speeds += [speed("time to a cost", name, rival, medians["ours"], s) for rival, s in rivals_seconds.items()]
        slow = medians["least_squares"] / medians["ours"]
        rows.append(
            [
                name,
                f"{medians['numpy'] / medians['ours']:.1f}×",
                f"{best_lbfgs / medians['ours']:.1f}×",
                f"{'over ' if medians['least_squares'] >= _PATIENCE else ''}{slow:.0f}×",
                *(
                    f"{np.median([run['its seconds'] / run['our seconds'] for run in runs]):.0f}×"
                    for runs in against_paper.values()
                ),
            ]
        )
    yield Table("solvers", _HEAD, rows, numbers, tuple(speeds))


def _to_the_target(problem, rank):
    """{way: seconds of each start}."""
    target = 1.01 * rivals.best_cost(problem, rank)
    starts = [start_of(problem.sri_shape, rank, seed) for seed in range(5)]

    def lbfgs(pairs):
        return lambda x0: rivals.lbfgs(CoupledCPD.of_problem(problem, rank), x0, target, pairs)[0]

    ways = {
        "ours": lambda x0: rivals.trust_region(CoupledCPD.of_problem(problem, rank), x0, target)[0],
        "numpy": lambda x0: rivals.trust_region(rivals.NumpyCoupledCPD(problem, rank), x0, target)[0],
        **{f"l-bfgs, {pairs} pairs": lbfgs(pairs) for pairs in (5, 10, 20)},
    }
    ways["ours"](starts[0])
    times = {name: [] for name in ways}
    for x0 in starts:
        for name, way in ways.items():
            times[name].append(way(x0))
    return {**times, "least_squares": [rivals.least_squares(problem, starts[0], target, patience=_PATIENCE)]}


def _to_the_papers_cost(problem, rank):
    """{variant: its seconds, its cost, our seconds to that, for three starts}."""
    found = {variant: [] for variant in rivals.PAPERS_CG}
    for seed in range(3):
        x0 = start_of(problem.sri_shape, rank, seed)
        for variant, options in rivals.PAPERS_CG.items():
            seconds, cost = rivals.cost_of_the_papers_algorithm(problem, rank, x0, **options)
            own = rivals.trust_region(CoupledCPD.of_problem(problem, rank), x0, cost)[0]
            found[variant].append({"its seconds": seconds, "its cost": cost, "our seconds": own})
    return found
