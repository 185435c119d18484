"""
Three MTTKRPs in one pass
=========================

How many times longer a plain NumPy way takes than `kernels.mttkrp_all`: form the Khatri-Rao matrix and multiply, once
for each mode. Both have one thread and are measured by its CPU time, whatever else the machine does.
"""

import time

import numba
import numpy as np

from fastccpd import kernels, plots
from fastccpd.blas import one_blas_thread

rng = np.random.default_rng(0)
shapes = {"80×84×6": (80, 84, 6, 30), "128×128×100": (128, 128, 100, 48), "512×512×8": (512, 512, 8, 48)}


def by_khatri_rao(tensor, factors):
    """The textbook: unfold, form the Khatri-Rao product of the other factors, multiply."""
    out = []
    for mode in range(3):
        X, Y = (factors[n] for n in range(3) if n != mode)
        product = (X[:, None, :] * Y[None, :, :]).reshape(-1, X.shape[1])
        out.append(np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1) @ product)
    return out


def least_seconds(function, *arguments):
    """The best of five."""
    taken = []
    for _ in range(5):
        began = time.thread_time()
        function(*arguments)
        taken.append(time.thread_time() - began)
    return min(taken)


ratios, threads = {}, numba.get_num_threads()
numba.set_num_threads(1)
for name, (*shape, rank) in shapes.items():
    tensor, factors = rng.random(shape), [rng.random((n, rank)) for n in shape]
    kernels.mttkrp_all(tensor, factors)  # compiled before it is timed
    with one_blas_thread():
        textbook = least_seconds(by_khatri_rao, tensor, factors)
    ratios[name] = textbook / least_seconds(kernels.mttkrp_all, tensor, factors)
numba.set_num_threads(threads)

# %%
# Above one, the kernel is faster.

figure, [[axes]] = plots.figure(height=2.2)
bars = axes.barh(list(ratios), list(ratios.values()), color="#2b5c8a")
axes.bar_label(bars, fmt="%.1f×", padding=3)
axes.axvline(1.0, color="black", linewidth=0.8)
axes.margins(x=0.12)
plots.label(axes, x="time of Khatri-Rao + GEMM over time of mttkrp_all", y="shape")
