"""
Convergence of both step rules
==============================

The paper's solver (dogleg steps, plain Gauss-Newton curvature) and the default one, from the same start.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, preset, scenes

rng = np.random.default_rng(4)
truth = scenes.synthetic((64, 60, 40), rng=rng).cube
degradation = preset("stereo", truth.shape)
hsi, msi = (add_noise(image, 20.0, rng) for image in degrade(truth, degradation))

solvers = {
    "steihaug, positive curvature (default)": {},
    "dogleg, Gauss-Newton (the paper)": {"step": "dogleg", "curvature": "gauss-newton"},
}
problem = {"hsi": hsi, "msi": msi, "degradation": degradation, "method": "nn-ccpd-nls", "rank": 15, "rng": 0}
fastccpd.fuse(**problem, max_iter=2)  # kernels are compiled before anything is timed
runs = {name: fastccpd.fuse(**problem, max_iter=100, **options) for name, options in solvers.items()}
for name, run in runs.items():
    print(f"{name}: cost {run.cost:.4g} after {run.n_iter} iterations, {run.status}")

# %%
# An iteration costs as many products with the Hessian as it takes steps of conjugate gradients. Counted by these, the
# default comes to the same cost far sooner.

figure, [[axes]] = plots.figure(height=3.2)
least = min(run.cost for run in runs.values())
costs = {name: np.array(run.trace.cost) / least for name, run in runs.items()}
lines = [
    axes.plot(1 + np.cumsum(run.trace.cg_iterations), costs[name], markevery=0.08, **plots.system_style(n))[0]
    for n, (name, run) in enumerate(runs.items())
]
axes.set(xscale="log", xlim=(5, None), ylim=(0.98, 4.0))
plots.log_axis(axes, [1.0, 4.0])
axes.grid(alpha=0.3)
plots.label(axes, x="1 + products with the Hessian", y="cost / least cost")
plots.legend(figure, lines, runs)
