"""
A plain non-negative CPD by Gauss-Newton
========================================

The solver knows no images. One tensor alone is a `CoupledCPD` of one term.
"""

import numpy as np

from fastccpd import kernels, plots
from fastccpd.solver import CoupledCPD, Options, Term, minimize

rng = np.random.default_rng(0)
true = [rng.random((n, 4)) ** 3 for n in (30, 28, 26)]
tensor = kernels.reconstruct(true) + 0.01 * rng.standard_normal((30, 28, 26))

objective = CoupledCPD([Term(tensor)], rank=4)
minimize(objective, rng.random(objective.shape), Options(max_iter=2))  # kernels are compiled before anything is timed
state = minimize(objective, rng.random(objective.shape), Options(ftol=1e-8))
print(state.status, f"after {len(state.trace) - 1} iterations, cost {state.cost:.4g}")

# %%
# The cost against iterations and seconds:

figure = plots.convergence(state.trace)
