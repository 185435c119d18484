"""fastccpd as a backend: other packages' decompositions on our kernels, and a plain non-negative CPD beside theirs."""

import numpy as np
from threadpoolctl import threadpool_limits

from fastccpd.adapters import pyttb_on_fastccpd, tensorly_on_fastccpd

from ..benchmarks import nonnegative as rivals
from ..measuring import Table, blas_threads, seconds_of, speed

_SHAPES = {
    "512x512x8 R=48": (512, 512, 8, 48),
    "128x128x200 R=48": (128, 128, 200, 48),
    "80x84x6 R=30": (80, 84, 6, 30),
}
_ITERATIONS = 5
_ROUNDS = 3


def backends():
    """Whole decompositions with and without the adapter: BLAS at one thread, or on all, whose pool spins beside us."""
    numbers, rows, speeds = {}, [], []
    for shape_name, (*shape, rank) in _SHAPES.items():
        tensor = np.random.default_rng(0).random(shape)
        for name, (decompose, context) in _decompositions(tensor, rank).items():
            case, line = f"{name}, {shape_name}", []
            for company, threads in (("alone", 1), ("company", max(blas_threads()))):
                with threadpool_limits(threads, user_api="blas"):
                    own, theirs = _in_turns(decompose, context)
                numbers[f"{case}, {company}"] = {"with": own, "without": theirs}
                more = {"company": f"BLAS on {threads} threads"} if company == "company" else {}
                speeds.append(speed("whole decompositions", case, "without the adapter", own, theirs, **more))
                line += [f"{theirs:.3f}", f"{own:.3f}", f"{theirs / own:.2f}×"]
            rows.append([case, *line])
    most = max(blas_threads())
    head = [f"{_ITERATIONS} iterations, seconds", "BLAS at 1: without", "with", "gain"]
    yield Table("backends", [*head, f"BLAS at {most}: without", "with", "gain"], rows, numbers, tuple(speeds))


def _in_turns(decompose, context):
    """The least seconds with the adapter and without, in turns."""
    own, theirs = [], []
    with context():
        decompose()
    for _ in range(_ROUNDS):
        theirs.append(seconds_of(decompose))
        with context():
            own.append(seconds_of(decompose))
    return min(own), min(theirs)


def _decompositions(tensor, rank):
    import pyttb
    from tensorly import decomposition

    settings = {"n_iter_max": _ITERATIONS, "init": "random", "random_state": 0}
    given = pyttb.tensor(tensor)
    rng = np.random.default_rng(1)
    start = pyttb.ktensor([rng.random((n, rank)) for n in tensor.shape])
    als = {"init": start, "maxiters": _ITERATIONS, "stoptol": 0.0, "printitn": 0}

    def constrained():
        options = settings | {"non_negative": True, "tol_outer": 0.0, "n_iter_max_inner": 10}
        return decomposition.constrained_parafac(tensor, rank, **options)

    def gcp():
        optimizer = pyttb.gcp.optimizers.LBFGSB(maxiter=_ITERATIONS)
        loss = pyttb.gcp.handles.Objectives.GAUSSIAN
        return pyttb.gcp_opt(given, rank, loss, optimizer, init=start.copy(), printitn=0)

    return {
        "tensorly parafac": (lambda: decomposition.parafac(tensor, rank, tol=0.0, **settings), tensorly_on_fastccpd),
        "tensorly HALS": (
            lambda: decomposition.non_negative_parafac_hals(tensor, rank, tol=0.0, **settings),
            tensorly_on_fastccpd,
        ),
        "tensorly constrained_parafac": (constrained, tensorly_on_fastccpd),
        "pyttb cp_als": (lambda: pyttb.cp_als(given, rank, **als), pyttb_on_fastccpd),
        "pyttb gcp_opt": (gcp, pyttb_on_fastccpd),
    }


def nonnegative(iterations=400):
    """Seconds and final costs of a plain non-negative CPD, from one start, each until it stops by itself."""
    numbers, rows, speeds = {}, [], []
    for name, (shape, rank) in rivals.CASES.items():
        tensor, start = rivals.tensor_of(shape, rank), rivals.start_of(shape, rank)
        rivals.ours(tensor, start, 3)
        with threadpool_limits(1, user_api="blas"):
            found = {way: run(tensor, start, iterations) for way, run in rivals.ways_here().items()}
        numbers[name] = {way: {"seconds": seconds, "cost": cost} for way, (seconds, cost) in found.items()}
        own_seconds, own_cost = found["fastccpd"]
        for way, (seconds, cost) in found.items():
            rows.append([name, way, f"{seconds:.3f}", f"{cost:.6g}", f"{cost / own_cost - 1.0:+.2%}"])
            if way != "fastccpd":
                about = {"notes": [f"final cost {cost:.6g}, ours {own_cost:.6g}"]}
                speeds.append(speed("non-negative CPD", name, way, own_seconds, seconds, **about))
    head = ["non-negative CPD", "way", "seconds", "final cost", "above ours"]
    yield Table("nonnegative", head, rows, numbers, tuple(speeds))
