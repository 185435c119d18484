"""One iteration of the solver, part by part, and how it grows with pixels, bands and rank. Run by asv.

How it grows with threads is in asv's environments (NUMBA_NUM_THREADS).
"""

import itertools

import numpy as np

from fastccpd import Problem
from fastccpd.solver.coupled_cpd import CoupledCPD
from fastccpd.solver.trust_region import Options, minimize

from .pairs import LARGE, smooth_pair, start_of

_FEW = 8
_SCENES = {
    "80x84x204 R=30": (80, 84, 204, 6, 30),
    "144x144x200 R=60": (144, 144, 200, 6, 60),
    "1024x1024x200 R=64": LARGE,
}


class Parts:
    """What an iteration is made of: a pass over the data with the gradient, H z, the preconditioner."""

    params = (list(_SCENES),)
    param_names = ("scene",)
    timeout = 300

    def setup(self, name):
        *shape, _, rank = _SCENES[name]
        self.objective = CoupledCPD.of_problem(Problem(*smooth_pair(_SCENES[name])), rank)
        # Three points in turn: the objective remembers its passes at the last two.
        self.points = itertools.cycle([start_of(shape, rank, seed) for seed in range(3)])
        _, self.g = self.objective.cost_and_gradient(next(self.points))
        self.objective.hessp(self.objective.precondition(self.g))

    def time_cost_and_gradient(self, name):
        self.objective.cost_and_gradient(next(self.points))

    def time_hessian_product(self, name):
        self.objective.hessp(self.g)

    def time_precondition(self, name):
        self.objective.precondition(self.g)

    def time_gradient_and_new_preconditioner(self, name):
        self.objective.cost_and_gradient(next(self.points))
        self.objective.precondition(self.g)


class Compressed:
    """Two iterations on the large scene, the HSI as it is and in a basis of eight spectra."""

    params = (["whole", "in eight spectra"],)
    param_names = ("hsi",)
    timeout = 300

    def setup(self, kind):
        *shape, _, rank = LARGE
        hsi, msi, degradation = smooth_pair(LARGE)
        basis = None if kind == "whole" else np.linalg.qr(np.random.default_rng(0).standard_normal((shape[2], 8)))[0]
        self.objective = CoupledCPD.of_problem(Problem(hsi, msi, degradation), rank, basis=basis)
        self.x0 = start_of(shape, rank)
        minimize(self.objective, self.x0, Options(max_iter=1))

    def time_two_iterations(self, kind):
        minimize(self.objective, self.x0, Options(max_iter=2, ftol=0.0))


class _Solve:
    """Iterations of the solver on a scene of (rows and columns, bands, rank)."""

    timeout = 300
    iterations = 10

    def setup(self, number):
        side, bands, rank = self.size(number)
        self.problem = Problem(*smooth_pair((side, side, bands, _FEW, rank)))
        self.x0 = start_of((side, side, bands), rank)
        self.time_ten_iterations(number)

    def time_ten_iterations(self, number):
        objective = CoupledCPD.of_problem(self.problem, self.x0.shape[1])
        minimize(objective, self.x0, Options(max_iter=self.iterations, ftol=0.0))


class Pixels(_Solve):
    """Ten iterations, R=30, 100 bands."""

    params = ([128, 256, 512, 1024],)
    param_names = ("rows and columns",)

    def size(self, side):
        return side, 100, 30


class Bands(_Solve):
    """Ten iterations, R=30, 256 x 256 pixels."""

    params = ([50, 100, 200, 400],)
    param_names = ("bands",)

    def size(self, bands):
        return 256, bands, 30


class Rank(_Solve):
    """Ten iterations, 100 bands, 256 x 256 pixels."""

    params = ([10, 30, 60, 120],)
    param_names = ("rank",)

    def size(self, rank):
        return 256, 100, rank
