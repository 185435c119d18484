"""
tensorly on our kernels
=======================

`fastccpd.adapters.tensorly_on_fastccpd` lets tensorly's CP decompositions use our MTTKRP, with the same result to
rounding.
"""

import numpy as np
import tensorly as tl
from tensorly.decomposition import parafac

from fastccpd import plots
from fastccpd.adapters import tensorly_on_fastccpd

rng = np.random.default_rng(0)
factors = [rng.random((n, 5)) for n in (60, 50, 40)]
tensor = np.einsum("ir,jr,kr->ijk", *factors) + 0.05 * rng.standard_normal((60, 50, 40))


def errors():
    """The error after each sweep, as tensorly reports it."""
    options = {"rank": 5, "n_iter_max": 40, "init": "random", "random_state": 0, "tol": 1e-12}
    return parafac(tl.tensor(tensor), return_errors=True, **options)[1]


plain = errors()
with tensorly_on_fastccpd():
    ours = errors()
print(f"largest difference of the two curves: {max(abs(a - b) for a, b in zip(plain, ours)):.1e}")

# %%
# Two curves, one on the other:

figure, [[axes]] = plots.figure(height=3.0)
wide = axes.plot(plain, linewidth=4, alpha=0.4)
thin = axes.plot(ours, linestyle="--", color="black")
plots.log_axis(axes, plain)
plots.label(axes, x="sweep", y="relative error")
plots.legend(figure, wide + thin, ["tensorly", "tensorly on fastccpd's kernels"])
