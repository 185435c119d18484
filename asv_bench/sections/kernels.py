"""Kernels against what else computes the same sums, each rival at its best BLAS thread count."""

import numpy as np

from fastccpd import kernels as ours

from ..benchmarks import rivals
from ..measuring import Table, blas_threads, least_times

_RIVALS = [way for way in rivals.THREE_MODES if way != "fastccpd"]


def kernels():
    """All three MTTKRPs of a tensor; one Hessian product of the coupled objective."""
    numbers, rows = {}, []
    for name, shape in rivals.SHAPES.items():
        times = numbers[name] = _three_modes(shape, np.float64, rivals.THREE_MODES)
        own = times["fastccpd"]
        times["fastccpd, float32"] = _three_modes(shape, np.float32, ["fastccpd"])["fastccpd"]
        rows.append(
            [
                name,
                f"{4.0 * np.prod(shape, dtype=float) / own / 1e9:.0f}",
                *(f"{times[rival] / own:.1f}×" for rival in _RIVALS),
                f"{own / times['fastccpd, float32']:.1f}×",
            ]
        )
    yield Table("mttkrp", ["shape", "GFLOP/s", *_RIVALS, "float32 over float64"], rows, numbers)

    numbers = {name: _hessian_product(*case) for name, case in rivals.HESSP_SHAPES.items()}
    rows = [[name, f"{times['numpy'] / times['ours']:.1f}×"] for name, times in numbers.items()]
    yield Table("hessp", ["H z", "NumPy, BLAS at one thread"], rows, numbers)


def single():
    """MTTKRP in one mode at a time, as other packages ask for it."""
    numbers, rows = {}, []
    for name, shape in rivals.SHAPES.items():
        Y, factors = rivals.tensor_and_factors(shape)
        numbers[name] = [_one_mode(Y, factors, mode) for mode in range(3)]
        rows.append([name, *(f"{times['tensorly'] / times['ours']:.1f}×" for times in numbers[name])])
    yield Table("single", ["tensorly, one mode", "mode 0", "mode 1", "mode 2"], rows, numbers)


def _three_modes(shape, dtype, names):
    case = rivals.tensor_and_factors(shape, dtype)
    ways = {name: rivals.THREE_MODES[name](*case) for name in names}
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
