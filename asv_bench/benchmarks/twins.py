"""GSA, CNMF and LTMR beside the same in plain NumPy, in one process, by CPU seconds of one thread. Run by asv."""

import time

import numba
import numpy as np

from fastccpd import Problem
from fastccpd.blas import one_blas_thread
from fastccpd.methods import CNMF, GSA, LTMR
from fastccpd.methods.cnmf import Unmixing
from fastccpd.methods.ltmr import ADMM

from . import plain
from .fusion import observed


def _gsa(problem):
    return lambda: GSA().solve(problem), lambda: plain.gsa(problem)


def _cnmf(problem):
    method = CNMF(rank=30, scale=1.0)
    W = method.vertices(Unmixing(problem, method), np.random.default_rng(0))
    return lambda: method.solve(problem, rng=np.random.default_rng(0)), lambda: plain.cnmf(problem, W)


def _ltmr(problem):
    method = LTMR(max_iter=20, scale=1.0)
    admm = ADMM(problem, method, np.random.default_rng(0))
    admm.begin(lambda: None)
    labels = admm.labels
    return (
        lambda: method.solve(problem, rng=np.random.default_rng(0)),
        lambda: plain.ltmr(problem, labels, method),
    )


_PAIRS = {"gsa": _gsa, "cnmf": _cnmf, "ltmr": _ltmr}


class Twins:
    """Each beside its twin, on scenes of the size of Salinas and of Indian Pines at 40 dB."""

    params = (tuple(_PAIRS), ("80x84x204", "144x144x200"))
    param_names = ("method", "scene")
    timeout = 300

    def setup(self, method, scene):
        shape = tuple(map(int, scene.split("x")))
        self.ours, self.plain = _PAIRS[method](Problem(*observed(shape, snr=40.0)[1:]))
        self.ours()

    def track_times_as_fast(self, method, scene):
        """The twin's seconds over ours."""
        before = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            with one_blas_thread():
                seconds = [min(_cpu_seconds(run) for _ in range(3)) for run in (self.ours, self.plain)]
        finally:
            numba.set_num_threads(before)
        return seconds[1] / seconds[0]

    track_times_as_fast.unit = "times"


def _cpu_seconds(run):
    started = time.process_time()
    run()
    return time.process_time() - started
