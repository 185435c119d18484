"""One checked request for a fusion, and how it is carried out: prepared once, solved from every start, judged."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np

from . import machine, methods
from .blas import one_blas_thread
from .model.checks import as_choice, as_count, as_number, is_finite
from .model.problem import Maps
from .model.result import FusionResult, Status, Trace
from .solver.regularisers import Regulariser, as_regularisers

# The generators of all starts are made before the first begins, which for so many takes a twentieth of a second.
_MOST_STARTS = 1000


@dataclass(frozen=True)
class Request:
    """How to fuse, checked; the problem says what."""

    method: methods.Method
    starts: int
    init: Any
    time_limit: float | None
    combine: str
    regularisers: tuple[Regulariser, ...]


def checked_request(
    method,
    *,
    rank=None,
    max_iter=None,
    starts=1,
    init=None,
    time_limit=None,
    combine="best",
    regularisers=(),
    **options,
):
    chosen = method_of(method, options, rank=rank, max_iter=max_iter)
    starts = as_count(starts, "starts", most=_MOST_STARTS)
    if starts > 1 and not chosen.has_starts:
        raise TypeError(f"starts: {chosen.name!r} has no random start, so it cannot use more than one")
    if init is not None and not chosen.takes_init:
        raise TypeError(f"init: {chosen.name!r} cannot use a given start")
    if init is not None and starts > 1:
        raise ValueError(f"starts: got {starts} beside init; a given start is one start")
    regularisers = as_regularisers(regularisers)
    if regularisers and not chosen.takes_regularisers:
        able = ", ".join(other for other in methods.names() if methods.get(other).takes_regularisers)
        raise TypeError(f"regularisers: {chosen.name!r} cannot use them; {able} can")
    if time_limit is not None:
        time_limit = as_number(time_limit, "time_limit", finite=False)
    return Request(chosen, starts, init, time_limit, as_choice(combine, "combine", ("best", "mean")), regularisers)


def run(request, problem, generators, seed, callback=None):
    """The best result of one run for each generator, or with the mean of their images."""
    chosen = request.method
    for name in ("hsi_valid", "msi_valid"):
        if getattr(problem, name) is not None and not chosen.takes_gaps:
            able = ", ".join(other for other in methods.names() if methods.get(other).takes_gaps)
            raise TypeError(f"{name}: {chosen.name!r} cannot leave data out; {able} can")
    _check_memory(chosen, problem)
    _check_rank(chosen, problem.sri_shape)
    began = time.perf_counter()

    def left():
        return None if request.time_limit is None else max(0.0, request.time_limit - (time.perf_counter() - began))

    extra = {"init": request.init} if chosen.takes_init else {}
    extra |= {"regularisers": request.regularisers} if chosen.takes_regularisers else {}
    solutions, costs = [], []
    with one_blas_thread() if chosen.same_bytes_on_any_threads else nullcontext():
        if is_finite(problem.hsi) and is_finite(problem.msi):
            prepared = chosen.prepare(problem, callback=callback, time_limit=left())
        else:
            prepared, generators = None, ()
        for rng in generators:
            solution = chosen.solve(prepared, rng=rng, callback=callback, time_limit=left(), **extra)
            costs.append(solution.cost)
            solutions.append(_judged(solution))
            if request.combine == "best":
                solutions = [_best(solutions)]
            # Maps are the same for every start.
            if not solution.status.goes_on_to_next_start or solution.shown == "maps":
                break
    solutions = [solution for solution in solutions if solution.shown != "maps"] or solutions
    best = _best(solutions) if solutions else _nothing(problem)
    result = FusionResult(
        status=best.status,
        cost=best.cost,
        n_iter=best.n_iter,
        trace=best.trace,
        seconds=time.perf_counter() - began,
        method=chosen.name,
        options=chosen.options(),
        seed=seed,
        provenance=_provenance(request, problem, numba.get_num_threads()),
        dtype=problem.dtype,
        known_factors=best.factors,
        image=best.image,
        start_costs=tuple(costs) or (best.cost,),
        maps=best.maps,
        uncertainty=best.uncertainty,
        effective_rank=best.effective_rank,
        noise=best.noise,
        shown=best.shown,
        stages=best.stages,
        degradation=problem.degradation,
        decomposer=best.decomposer,
    )
    usable = [solution for solution in solutions if solution.status is not Status.NOT_FINITE]
    return _averaged(result, usable) if request.combine == "mean" and len(usable) > 1 else result


def _best(solutions):
    """The one of lowest cost among those that are finite, if any is; the first of equal ones.

    Factors are shown only where their risk is lower than that of the maps, so they come before a start that shows maps.
    """
    usable = [solution for solution in solutions if solution.status is not Status.NOT_FINITE] or solutions
    by_risk = [solution for solution in usable if solution.shown != "maps"] or usable
    return min(by_risk, key=lambda solution: solution.cost)


def _judged(solution):
    """`solution`; not finite in any of its parts, it has no other status."""
    parts = [solution.image, *(solution.factors or ())]
    if solution.maps is not None:
        parts += [solution.maps.Z, solution.maps.S]
    if np.isfinite(solution.cost) and all(is_finite(part) for part in parts if part is not None):
        return solution
    return replace(solution, status=Status.NOT_FINITE)


def _nothing(problem):
    """What can be made of images that are not finite, by any method."""
    I, J, K = problem.sri_shape
    trace = Trace()
    trace.append_cost(np.nan, 0, 0.0)
    maps = Maps(np.full((I, J, 1), np.nan), np.ones((K, 1)))
    return methods.Solution(status=Status.NOT_FINITE, cost=np.nan, n_iter=0, trace=trace, maps=maps)


def _averaged(result, solutions):
    """`result` with the mean image of all starts; their spread is its uncertainty where the method has none."""
    mean, squares = np.zeros(result.shape), np.zeros(result.shape[:2])
    for n, solution in enumerate(solutions, start=1):
        image = replace(result, image=solution.image, maps=solution.maps, known_factors=solution.factors).sri
        change = image - mean
        mean += change / n
        squares += np.square(change).mean(axis=2) * ((n - 1) / n)
    spread = np.sqrt(squares / (len(solutions) - 1))
    uncertainty = spread if result.uncertainty is None else result.uncertainty
    mean = mean.astype(result.dtype)
    return replace(result, image=mean, maps=None, uncertainty=uncertainty, combined=len(solutions), shown="image")


def method_of(method, options, **common):
    """The method object, with the common options that were given merged in."""
    given = {name: value for name, value in common.items() if value is not None}
    if isinstance(method, methods.Method):
        if options or given:
            names = ", ".join({**options, **given})
            raise TypeError(f"{names}: set the options on the method object itself, or give the method by name")
        return method
    return methods.make(method, {**options, **given})


def generator_of(rng):
    """A Generator, and what would make it again."""
    if isinstance(rng, np.random.Generator):
        return rng, rng.bit_generator.state
    seed = as_count(rng, "rng", least=0)
    return np.random.default_rng(seed), seed


def _check_memory(method, problem):
    of_images = problem.hsi.shape, problem.msi.shape, problem.dtype
    needed, available = method.memory_needed(*of_images), machine.available_memory()
    if available is None or needed <= available:
        return
    large, smaller = method.memory_is_for, "scene"
    rank = getattr(method, "rank", None)
    if isinstance(rank, int) and replace(method, rank=1).memory_needed(*of_images) < 0.5 * needed:
        large, smaller = f"the rank of {rank}", "rank"
    raise MemoryError(
        f"{method.name!r} with these options needs about {needed / 1e9:.1f} GB beside the images, most of it for "
        f"{large}, but {available / 1e9:.1f} GB are available; use a smaller {smaller}"
    )


def _check_rank(method, shape):
    """Refuse a rank above that of every scene of this shape; a method's own default is always taken."""
    rank, default = (getattr(options, "rank", None) for options in (method, type(method)))
    if not (isinstance(rank, int) and isinstance(default, int)):
        return
    I, J, K = shape
    most = max(default, min(I * J, I * K, J * K))
    if rank > most:
        raise ValueError(f"rank: got {rank}; at most {most} is needed, for no scene of {I}×{J}×{K} has a higher one")


def _provenance(request, problem, threads):
    return {
        "versions": machine.versions_in_use(),
        "threads": threads,
        "hsi_shape": problem.hsi.shape,
        "msi_shape": problem.msi.shape,
        "dtype": problem.dtype.name,
        "degradation": repr(problem.degradation),
        "regularisers": [type(regulariser).__name__ for regulariser in request.regularisers],
    }  # fmt: skip
