"""Compile every kernel ahead, so that the first fusion need not.

A kernel is compiled when it meets a dtype for the first time. So tiny fusions and a few calls of the public kernels, in
both precisions, compile the serial twins; the parallel twins, which tiny work never uses, are compiled for the same
signatures. All of it goes to the kernel cache, where later processes find it.
"""

import time
from dataclasses import dataclass

import numpy as np

from .. import kernels, methods
from ..api import fuse
from ..imaging import degrade, preset, scenes
from ..kernels import jit
from ..machine import kernel_cache


@dataclass(frozen=True)
class Warmup:
    """What was done: how many routines are compiled, how many of them now, in what time; and where they are kept."""

    routines: int
    compiled: int
    seconds: float
    cache: str | None


def run(progress=None):
    """Compile what is not in the cache yet, and load what is.

    Parameters
    ----------
    progress : callable(done, total), optional

    Returns
    -------
    Warmup
    """
    cache = kernel_cache()
    began = time.perf_counter()
    if not jit.COMPILED:
        return Warmup(0, 0, 0.0, cache)
    steps = [lambda dtype=dtype: _use_all(dtype) for dtype in (np.float64, np.float32)]
    steps += [lambda kernel=kernel: _compile_twin(kernel) for kernel in jit.KERNELS]
    for done, step in enumerate(steps):
        if progress is not None:
            progress(done, len(steps))
        step()
    if progress is not None:
        progress(len(steps), len(steps))
    twins = {id(twin): twin for kernel in jit.KERNELS for twin in (kernel.serial, kernel.parallel)}.values()
    loaded = sum(sum(twin.stats.cache_hits.values()) for twin in twins)
    routines = sum(len(twin.signatures) for twin in twins)
    return Warmup(routines, routines - loaded, time.perf_counter() - began, cache)


def _use_all(dtype):
    """Call every kernel with this dtype, as the package calls it."""
    scene = scenes.synthetic((24, 20, 36)).cube
    degradation = preset("stereo", scene.shape)
    hsi, msi = (image.astype(dtype) for image in degrade(scene, degradation))
    for method in (methods.get(name) for name in methods.names()):
        if method.uses_kernels:
            small = {name: n for name, n in (("rank", 3), ("max_iter", 2)) if name in method.option_names()}
            _ = fuse(hsi, msi, degradation, method=method(**small)).sri
    factors = [np.ones((n, 3), dtype) for n in hsi.shape]
    kernels.mttkrp(hsi, factors, 0)
    kernels.mttkrp_all(hsi, factors)
    kernels.hadamard_gram(factors)
    kernels.jtj_apply(factors, factors)
    kernels.residual_norm2(hsi, factors)
    kernels.operator_apply(degradation.P1, np.ones((scene.shape[0], 3), dtype))
    jit.nearly_nothing(np.zeros(2))


def _compile_twin(kernel):
    for signature in kernel.serial.signatures:
        kernel.parallel.compile(signature)
