"""One checked request for a fusion, and how it is carried out: prepared once, solved from every start, judged."""

import time
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np

from . import machine, methods
from .blas import one_blas_thread
from .estimation import DegradationEstimate, verdict_of
from .estimation.fit import shown_cost
from .estimation.noise import of_few_bands
from .estimation.once import kept_for
from .estimation.verdict import memory_of_verdict
from .model.checks import as_choice, as_count, as_number, is_finite, is_in_range
from .model.empty_bands import known_bands
from .model.problem import Maps
from .model.result import FusionResult, Status, Trace
from .model.verdict import Grade, Judged, Verdict
from .solver.regularisers import InKnownBands, Regulariser, as_regularisers

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


def run(
    request,
    problem,
    generators,
    seed,
    callback=None,
    estimated: DegradationEstimate | None = None,
    shared=None,
    judged: Judged | None = None,
):
    """The best result of one run for each generator, or with the mean of their images; the verdict on the pair.

    `estimated` is where the problem's operators come from, if nobody gave them; `shared` is what was found from the
    whole of a scene of which this is a part, for a method that `shares`; `judged` is the verdict on that whole.
    """
    chosen = request.method
    # A part of a scene shares the spectra of the whole, which has data of every band; moments of bands are no spectra.
    bands = None if shared is not None and chosen.shares else known_bands(problem)
    fitted = problem if bands is None else bands.problem
    for name in ("hsi_valid", "msi_valid"):
        if getattr(fitted, name) is not None and not chosen.takes_gaps:
            able = ", ".join(other for other in methods.names() if methods.get(other).takes_gaps)
            raise TypeError(f"{name}: {chosen.name!r} cannot leave data out; {able} can")
    known = {} if shared is None or bands is not None else {"shared": shared}
    check_memory(chosen, problem.hsi.shape, problem.msi.shape, problem.dtype, known)
    _check_rank(chosen, problem.sri_shape)
    chosen.check(fitted)
    began = time.perf_counter()

    def left():
        return None if request.time_limit is None else max(0.0, request.time_limit - (time.perf_counter() - began))

    extra = _with_bands_left_out(request, bands)
    solutions, costs = [], []
    verdict = Verdict(Grade.UNKNOWN, details="the images are not finite") if judged is None else judged.verdict
    with one_blas_thread() if chosen.same_bytes_on_any_threads else nullcontext(), kept_for(fitted):
        if is_in_range(problem.hsi) and is_in_range(problem.msi):
            verdict = verdict_of(fitted) if judged is None else verdict
            prepared = chosen.prepare(fitted, callback=callback, time_limit=left(), **known)
        else:
            prepared, generators = None, ()
        for rng in generators:
            solution = chosen.solve(prepared, rng=rng, callback=callback, time_limit=left(), **extra)
            costs.append(solution.cost)
            solution = _judged(solution, chosen, fitted)
            solutions.append(solution if bands is None else _with_all_bands(solution, bands, problem))
            if request.combine == "best":
                solutions = [_best(solutions)]
            # Maps are the same for every start.
            if not solution.status.goes_on_to_next_start or solution.shown == "maps":
                break
    solutions = [solution for solution in solutions if solution.shown != "maps"] or solutions
    best = _best(solutions) if solutions else _nothing(problem)
    provenance = _provenance(request, problem, numba.get_num_threads())
    stages = best.stages
    if estimated is not None:
        provenance["estimated"] = estimated.figures()
        stages = {"degradation": estimated, **stages}
    result = FusionResult(
        status=best.status,
        cost=best.cost,
        n_iter=best.n_iter,
        trace=best.trace,
        seconds=time.perf_counter() - began,
        method=chosen.name,
        options=chosen.options(),
        seed=seed,
        provenance=provenance,
        dtype=problem.dtype,
        known_factors=best.factors,
        **_image_of(best),
        start_costs=tuple(costs) or (best.cost,),
        maps=best.maps,
        uncertainty=_with_model_error(best.uncertainty, problem, verdict, judged),
        effective_rank=best.effective_rank,
        noise=best.noise,
        shown=best.shown,
        stages=stages,
        degradation=problem.degradation,
        verdict=verdict,
        decomposer=best.decomposer,
    )
    usable = [solution for solution in solutions if solution.status is not Status.NOT_FINITE]
    return _averaged(result, usable) if request.combine == "mean" and len(usable) > 1 else result


def _with_bands_left_out(request, bands):
    """What a method takes beside the problem, without the bands that the HSI has no data of."""
    init, regularisers = request.init, request.regularisers
    if bands is not None:
        regularisers = tuple(InKnownBands(regulariser, bands.weights) for regulariser in regularisers)
        init = _start_in_bands(init, bands.known)
    taken = {"init": init} if request.method.takes_init else {}
    return taken | ({"regularisers": regularisers} if request.method.takes_regularisers else {})


def _start_in_bands(init, known):
    """The caller's factors in the known bands; what is not three factors is left for the method to refuse."""
    try:
        A, B, C = init
        return (A, B, np.asarray(C)[known]) if np.shape(C)[:1] == known.shape else (A, B, C)
    except (TypeError, ValueError):
        return init


def _with_all_bands(solution, bands, problem):
    """A solution found without the bands that have no data, of the whole scene; noise and subspace stay as found."""
    ways = {"factors": bands.whole_factors, "maps": bands.whole_maps, "image": bands.whole_image}
    parts = {name: way(part) for name, way in ways.items() if (part := getattr(solution, name)) is not None}
    if solution.noise is not None:
        msi = solution.noise[1] if bands.seen.all() else of_few_bands(problem.msi, problem.msi_valid)
        msi[bands.seen] = solution.noise[1]
        parts["noise"] = bands.weights @ solution.noise[0], msi
    if solution.decomposer is not None:
        maps = bands.whole_maps(solution.decomposer.maps)
        parts["decomposer"] = replace(solution.decomposer, maps=maps, degradation=problem.degradation)
    stages = dict(solution.stages)
    fit, found = stages.get("tv-maps"), stages.get("decomposition")
    if fit is not None:
        spectrum = fit.expected_spectrum
        spectrum = None if spectrum is None else bands.weights @ spectrum
        stages["tv-maps"] = replace(fit, S=bands.weights @ fit.S, expected_spectrum=spectrum)
    if found is not None:
        stages["decomposition"] = replace(found, factors=bands.whole_factors(found.factors))
    return replace(solution, stages=stages, **parts)


def _with_model_error(uncertainty, problem, verdict, judged):
    """The expected error with what the images disagree about, which no method can put in its right place."""
    if uncertainty is None or verdict.grade not in (Grade.MODEL_ERROR, Grade.DISAGREE):
        return uncertainty
    size = float(np.sqrt(np.mean(np.square(problem.hsi, dtype=np.float64)))) if judged is None else judged.size
    return np.hypot(uncertainty, min(verdict.beyond, 1.0) * size)


def _best(solutions):
    """The one of lowest risk, or cost, among those that are finite, if any is; the first of equal ones.

    Factors are shown only where their risk is lower than that of the maps, so they come before a start that shows maps.
    """
    usable = [solution for solution in solutions if solution.status is not Status.NOT_FINITE] or solutions
    by_risk = [solution for solution in usable if solution.shown != "maps"] or usable
    return min(by_risk, key=lambda solution: solution.cost if solution.risk is None else solution.risk)


def _image_of(solution):
    """What a result knows of the image of a solution that shows neither maps nor factors."""
    return {"image" if isinstance(solution.image, np.ndarray) else "source": solution.image}


def _judged(solution, method, problem):
    """`solution`; not finite in any of its parts, or worse than a dark image, it has no other status."""
    parts = [part for part in (solution.image, solution.maps, *(solution.factors or ())) if part is not None]
    if not (np.isfinite(solution.cost) and all(_is_finite(part, problem.dtype) for part in parts)):
        return replace(solution, status=Status.NOT_FINITE)
    if solution.status.converged and _is_worse_than_dark(solution, method, problem):
        return replace(solution, status=Status.WORSE_THAN_DARK)
    return solution


def _is_finite(part, dtype):
    """Whether all values are; those of an image that is not rendered yet by their bound, where that says enough."""
    if isinstance(part, np.ndarray):
        return is_finite(part)
    with np.errstate(over="ignore", invalid="ignore"):
        bound = part.bound()
        if bound <= np.finfo(dtype).max or not np.isfinite(bound):
            return bool(np.isfinite(bound))
        return is_finite(part.render(None, None, None, dtype))


def _is_worse_than_dark(solution, method, problem):
    """Whether an image of zeros has a lower cost: by the method's own, and if so by that of the image it shows."""
    energies = [np.einsum("ijk,ijk->", image, image, dtype=np.float64) for image in (problem.hsi, problem.msi)]
    # Data of nothing but zeros are in no unit: one is theirs, and rounding in it is no light.
    dark = 0.5 * np.dot(getattr(method, "weights", (1.0, 1.0)), energies) or np.finfo(np.float64).eps
    if solution.cost <= dark:
        return False
    image = solution.image
    if image is None:
        image = solution.factors.render() if solution.maps is None else solution.maps
    with np.errstate(over="ignore", invalid="ignore"):
        return not shown_cost(problem, image) <= 0.5 * sum(energies)


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
        parts = {"image": None, "source": None, "maps": solution.maps, "known_factors": solution.factors}
        image = replace(result, **parts | _image_of(solution)).sri
        change = image - mean
        mean += change / n
        squares += np.square(change).mean(axis=2) * ((n - 1) / n)
    spread = np.sqrt(squares / (len(solutions) - 1))
    uncertainty = spread if result.uncertainty is None else result.uncertainty
    mean = mean.astype(result.dtype)
    parts = {"image": mean, "source": None, "maps": None}
    return replace(result, **parts, uncertainty=uncertainty, combined=len(solutions), shown="image")


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


def generators_of_starts(generator, starts):
    """One generator for each start: those that `generator` spawns, but a copy of itself in place of the very first.

    So a seed gives what the method's own `solve` gives with it, a further call with the same Generator gives something
    else, and the numbers that the caller draws from it stay the same.
    """
    first, children = deepcopy(generator), generator.spawn(starts)
    is_very_first = generator.bit_generator.seed_seq.n_children_spawned == starts
    return [first, *children[1:]] if is_very_first else children


def with_verdict(needed, hsi_shape, msi_shape):
    """Bytes of a run: those of the method, or those of the verdict before it."""
    return max(needed, memory_of_verdict(hsi_shape, msi_shape))


def check_memory(method, hsi_shape, msi_shape, dtype, known):
    """Refuse what would take more memory than there is; `known` is what the method knows beside the shapes."""
    of_images = hsi_shape, msi_shape, dtype
    own = method.memory_needed(*of_images, **known)
    needed = with_verdict(own, *of_images[:2])
    available = machine.available_memory()
    if available is None or needed <= available:
        return
    large, smaller = method.memory_is_for, "scene"
    rank = getattr(method, "rank", None)
    if isinstance(rank, int) and replace(method, rank=1).memory_needed(*of_images) < 0.5 * own:
        large, smaller = f"the rank of {rank}", "rank"
    raise MemoryError(
        f"{method.name!r} with these options needs about {needed / 1e9:.1f} GB beside the images, most of it for "
        f"{large}, but {available / 1e9:.1f} GB are available; use a smaller {smaller}"
    )


def _check_rank(method, shape):
    """Refuse a rank above that of every scene of this shape; of a method's own default its `check` judges."""
    rank, default = (getattr(options, "rank", None) for options in (method, type(method)))
    if not isinstance(rank, int) or isinstance(default, tuple):
        return
    I, J, K = shape
    most = max(default if isinstance(default, int) else 1, min(I * J, I * K, J * K))
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
