"""Kernels against what else computes the same sums, each rival at its best BLAS thread count."""

import numpy as np

from fastccpd import kernels as ours

from ..benchmarks import rivals
from ..measuring import Table, blas_threads, in_company, least_times, speed

_WAYS = rivals.ways_here()
_RIVALS = [way for way in _WAYS if way != "fastccpd"]
_IN_SINGLE = "fastccpd, float32"


def kernels():
    """All three MTTKRPs of a tensor; one Hessian product of the coupled objective."""
    numbers = {name: _three_modes(shape) for name, shape in rivals.SHAPES.items()}
    rows, speeds = [], []
    # After all that is measured alone: kernels that have met a spinning pool rest for a while.
    for name, shape in rivals.SHAPES.items():
        times, own = numbers[name], numbers[name]["fastccpd"]
        speeds += [speed("three MTTKRPs", f"{name} float64", rival, own, times[rival]) for rival in _RIVALS]
        beside = times["fastccpd, right after BLAS"] = in_company(_WAYS["fastccpd"](*_case(shape)))
        rows.append(
            [
                name,
                f"{4.0 * np.prod(shape, dtype=float) / own / 1e9:.0f}",
                *(f"{times[rival] / own:.1f}×" for rival in _RIVALS),
                f"{own / times[_IN_SINGLE]:.1f}×",
                f"{100.0 * own / beside:.0f} %",
            ]
        )
    head = ["shape", "GFLOP/s", *_RIVALS, "float32 over float64", "rate right after BLAS"]
    yield Table("mttkrp", head, rows, numbers, tuple(speeds))

    numbers = {name: _hessian_product(*case) for name, case in rivals.HESSP_SHAPES.items()}
    rows = [[name, f"{times['numpy'] / times['ours']:.1f}×"] for name, times in numbers.items()]
    speeds = [speed("H z", name, "NumPy", times["ours"], times["numpy"]) for name, times in numbers.items()]
    yield Table("hessp", ["H z", "NumPy, BLAS at one thread"], rows, numbers, tuple(speeds))


def single():
    """MTTKRP in one mode at a time, as other packages ask for it."""
    numbers, rows = {}, []
    for name, shape in rivals.SHAPES.items():
        Y, factors = rivals.tensor_and_factors(shape)
        numbers[name] = [_one_mode(Y, factors, mode) for mode in range(3)]
        rows.append([name, *(f"{times['tensorly'] / times['ours']:.1f}×" for times in numbers[name])])
    speeds = [
        speed("one MTTKRP", f"{name}, mode {mode}", "tensorly", times["ours"], times["tensorly"])
        for name, modes in numbers.items()
        for mode, times in enumerate(modes)
    ]
    yield Table("single", ["tensorly, one mode", "mode 0", "mode 1", "mode 2"], rows, numbers, tuple(speeds))


def _case(shape, dtype=np.float64):
    return rivals.tensor_and_factors(shape, dtype)


def _three_modes(shape):
    case = _case(shape)
    ways = {name: way(*case) for name, way in _WAYS.items()}
    ways[_IN_SINGLE] = _WAYS["fastccpd"](*_case(shape, np.float32))
    return least_times(ways, _rounds(case[0], shape[3]), blas_threads())


def _one_mode(Y, factors, mode):
    ways = {
        "ours": lambda: ours.mttkrp(Y, factors, mode),
        "tensorly": lambda: rivals.tensorly_one_mode(Y, factors, mode),
    }
    return least_times(ways, _rounds(Y, factors[0].shape[1]), blas_threads())


def _rounds(Y, rank):
    return 3 if Y.size * rank > 1e8 else 40


def _hessian_product(shape, rank):
    objective, z = rivals.objective_at_a_point(shape, rank)
    by_numpy = rivals.numpy_hessp(objective)
    return least_times({"ours": lambda: objective.hessp(z), "numpy": lambda: by_numpy(z)}, 60)
