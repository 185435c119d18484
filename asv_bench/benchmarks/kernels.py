"""Kernels beside their rivals, so that the dashboard shows the ratio. Run by asv."""

import numpy as np
from threadpoolctl import threadpool_limits

from fastccpd import kernels

from . import genten, rivals


class MTTKRP:
    """All three modes of one tensor."""

    params = (list(rivals.SHAPES), list(rivals.THREE_MODES), ["float64", "float32"])
    param_names = ("shape", "way", "dtype")

    def setup(self, shape, way, dtype):
        case = rivals.tensor_and_factors(rivals.SHAPES[shape], np.dtype(dtype))
        self.call = rivals.THREE_MODES[way](*case)
        self.call()

    def time_three_modes(self, shape, way, dtype):
        self.call()


class Pygenten:
    """The same by pygenten, in a process of its own: the least of several, by that process's clock."""

    params = (list(rivals.SHAPES),)
    param_names = ("shape",)
    unit = "seconds"
    repeats = 20

    def setup(self, shape):
        if not genten.is_there():
            raise NotImplementedError("pygenten is not installed")
        self.child = genten.Child(*rivals.tensor_and_factors(rivals.SHAPES[shape]))
        self.child.seconds()

    def teardown(self, shape):
        del self.child

    def track_three_modes(self, shape):
        return min(self.child.seconds() for _ in range(self.repeats))


class OneMode:
    """One mode at a time, as other packages ask for it."""

    params = (list(rivals.SHAPES), [0, 1, 2], ["fastccpd", "tensorly"])
    param_names = ("shape", "mode", "way")

    def setup(self, shape, mode, way):
        self.case = rivals.tensor_and_factors(rivals.SHAPES[shape])
        self.call = {"fastccpd": kernels.mttkrp, "tensorly": rivals.tensorly_one_mode}[way]
        self.call(*self.case, mode)

    def time_mttkrp(self, shape, mode, way):
        self.call(*self.case, mode)


class HessianProduct:
    """H z of the coupled objective, NumPy's BLAS at one thread."""

    params = (list(rivals.HESSP_SHAPES), ["fastccpd", "numpy"])
    param_names = ("shape", "way")

    def setup(self, shape, way):
        objective, self.z = rivals.objective_at_a_point(*rivals.HESSP_SHAPES[shape])
        self.call = objective.hessp if way == "fastccpd" else rivals.numpy_hessp(objective)
        self.limits = threadpool_limits(1)
        self.call(self.z)

    def teardown(self, shape, way):
        self.limits.restore_original_limits()

    def time_product(self, shape, way):
        self.call(self.z)


class Memory:
    """Peak memory of all three modes where an explicit Khatri-Rao matrix would take 3.2 GB."""

    def setup(self):
        self.case = rivals.tensor_and_factors((2000, 2000, 6, 100))

    def peakmem_three_modes(self):
        kernels.mttkrp_all(*self.case)
