"""Compile every kernel ahead, so that the first fusion need not.

A kernel is compiled when it meets a dtype for the first time. So tiny fusions and a few calls of the public kernels, in
both precisions, compile all of them. They go to the kernel cache, where later processes find them.

Numba compiles on one core. So several processes share the tasks: what one of them compiles the others find in the
cache, and two that need the same routine at once do not compile it twice (`kernels/disk_cache.py`).
"""

import time
from concurrent.futures import as_completed
from dataclasses import dataclass

import numpy as np

from .. import kernels, methods
from ..api import fuse
from ..imaging import degrade, preset, scenes
from ..kernels import jit
from ..machine import kernel_cache
from ..model.problem import Problem
from ..solver.coupled_cpd import CoupledCPD
from ..workers import Crew, worker_count

# More processes than this would wait for each other's routines.
_MOST_PROCESSES = 4


@dataclass(frozen=True)
class Warmup:
    """What was done: how many routines are compiled, how many of them now, in what time; and where they are kept."""

    routines: int
    compiled: int
    seconds: float
    cache: str | None


def run(progress=None):
    """Compile what is not in the cache yet.

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
    tasks, ready = _tasks(), {}
    for done, found in enumerate(_performed(tasks, in_processes=cache is not None)):
        # One process may have loaded what another has compiled.
        for routine, compiled in found.items():
            ready[routine] = ready.get(routine, False) or compiled
        if progress is not None:
            progress(done + 1, len(tasks))
    return Warmup(len(ready), sum(ready.values()), time.perf_counter() - began, cache)


def _tasks():
    """(dtype, method or None for the public kernels), such that neighbours have little to compile in common."""
    names = [name for name in methods.names() if methods.get(name).uses_kernels]
    whole = [(dtype, name) for dtype in ("float64", "float32") for name in (methods.DEFAULT, None, *names)]
    half = (len(whole) + 1) // 2
    return [whole[n // 2 + half * (n % 2)] for n in range(len(whole))]


def _performed(tasks, in_processes):
    """What each task has found to be compiled, as they end."""
    processes = min(_MOST_PROCESSES, worker_count(None)) if in_processes else 1
    if processes == 1:
        yield from map(perform, tasks)
        return
    with Crew(f"{__name__}:{perform.__name__}", processes) as crew:
        for future in as_completed([crew.submit(task) for task in tasks]):
            yield future.result()


def perform(task):
    """{(kernel, signature): whether it was compiled by this process} after one of the tasks.

    Parameters
    ----------
    task : (str, str or None)
        A dtype and the name of a method, or None for the public kernels.

    Returns
    -------
    dict
    """
    dtype, name = task
    scene = scenes.synthetic((24, 20, 36)).cube
    degradation = preset("stereo", scene.shape)
    hsi, msi = (image.astype(dtype) for image in degrade(scene, degradation))
    if name is None:
        _use_public_kernels(hsi, degradation.P1)
        _use_steps(Problem(hsi, msi, degradation))
    else:
        method = methods.get(name)
        small = {option: n for option, n in (("rank", 3), ("max_iter", 2)) if option in method.option_names()}
        _ = fuse(hsi, msi, degradation, method=method(**small)).sri
    ready = {}
    for kernel in jit.KERNELS:
        for signature in kernel.compiled.signatures:
            ready[kernel.__name__, str(signature)] = signature not in kernel.compiled.stats.cache_hits
    return ready


def _use_public_kernels(tensor, matrix):
    """Call what no fusion calls, with the tensor's dtype."""
    factors = [np.ones((n, 3), tensor.dtype) for n in tensor.shape]
    kernels.mttkrp(tensor, factors, 0)
    kernels.mttkrp_all(tensor, factors)
    kernels.hadamard_gram(factors)
    kernels.jtj_apply(factors, factors)
    kernels.residual_norm2(tensor, factors)
    kernels.operator_apply(matrix, np.ones((matrix.shape[1], 3), tensor.dtype))
    jit.threading_layer()  # by a launch


def _use_steps(problem):
    """Call what only fusions of large scenes call: CG step by step."""
    objective = CoupledCPD.of_problem(problem, 3)
    _, g = objective.cost_and_gradient(np.ones(objective.shape))
    walk = objective.walk()
    before = walk.begin(objective.hessp(objective.precondition(g)))
    walk.turn(before / walk.curvature(), before)
    walk.advance(0.0)
