"""The conformance suite: what every fusion method keeps to, as functions that another package can run on its own.

    from fastccpd.testing import CHECKS, check_method

    check_method(MyMethod)                                    # all of them; AssertionError says what is wrong

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_method(check):
        check(MyMethod(rank=3))

A check takes a method's name, its class or an object. Of the first two it makes an object that fits the scene
(`small_instance`); an object is taken as it is. The scene is 32×48×16, of three materials (so of CP rank 3) whose maps
and spectra are smooth and positive. The HSI is blurred periodically and decimated by 4, the MSI has 4 bands: that is
what every known method can express. Nothing here measures time.
"""

import copy
import functools
import hashlib
import json
import pickle
import re
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np

from .. import methods
from ..api import fuse
from ..imaging import degrade, gaussian, response_from_groups
from ..kernels._jit import sharing_all_work
from ..model.degradation import Degradation
from ..model.problem import Factors, Problem
from ..model.result import FusionResult, Status, Trace

__all__ = ["CHECKS", "check_method", "small_case", "small_instance"]

SHAPE, RATIOS, MSI_BANDS, MATERIALS = (32, 48, 16), (4, 4), 4, 3

# Enough iterations to see a method at work where its optimum is not the question.
_A_FEW = 4

# Centre of each material's bump along each axis, as a part of the axis; no two axes order the materials alike.
_CENTRES = ((0.2, 0.5, 0.8), (0.3, 0.75, 0.5), (0.85, 0.15, 0.5))
_WIDTHS = (0.12, 0.1, 0.18)

# What lies between a method's allocations and what tracemalloc sees of them: objects, not arrays.
_INTERPRETER_BYTES = 1 << 18

# Scenes in which one extent after the other is 1: (shape, ratios, MSI bands).
_SIZE_ONE = {
    "I = 1": ((1, 48, 16), (1, 4), 4),
    "J = 1": ((32, 1, 16), (4, 1), 4),
    "K = 1": ((32, 48, 1), (4, 4), 1),
    "I_H = 1": ((4, 48, 16), (4, 4), 4),
    "J_H = 1": ((32, 4, 16), (4, 4), 4),
    "K_M = 1": ((32, 48, 16), (4, 4), 1),
    "every extent 1": ((1, 1, 1), (1, 1), 1),
}

CHECKS: list[Callable] = []


def check_method(method, *, residual=0.05):
    """Run every check on `method`; AssertionError names the first that fails and says what is wrong.

    Parameters
    ----------
    method : str, Method class or Method
        An object is checked with its own options, which must suit a scene of 32×48×16 and three materials.
    residual : float
        The largest relative residual at which the images of a clean scene count as explained.

    Examples
    --------
    >>> from fastccpd.testing import check_method
    >>> check_method("uc-ccpd-nls")
    """
    for check in CHECKS:
        check(method, residual=residual) if check is check_clean_images_are_explained else check(method)


def small_instance(method):
    """A method object for the small scene: the default options, but no rank above the scene's three materials."""
    if isinstance(method, methods.Method):
        return method
    cls = methods.get(method) if isinstance(method, str) else method
    if not (isinstance(cls, type) and issubclass(cls, methods.Method)):
        raise TypeError(f"method: got {method!r}; a method's name, class or object is needed")
    instance = cls()
    rank = getattr(instance, "rank", None)
    if isinstance(rank, int):
        return replace(instance, rank=min(rank, MATERIALS))
    if isinstance(rank, tuple):
        return replace(instance, rank=tuple(min(r, MATERIALS) for r in rank))
    return instance


def small_case(shape=SHAPE, ratios=RATIOS, msi_bands=MSI_BANDS, noise=0.0):
    """(hsi, msi, degradation) of a scene of three smooth, positive materials; `noise` is a part of the signal's rms."""
    factors = []
    for n, centres in zip(shape, _CENTRES):
        places = (np.arange(n)[:, None] + 0.5) / n
        factors.append(0.1 + np.exp(-0.5 * ((places - centres) / np.array(_WIDTHS)) ** 2))
    sri = np.einsum("ir,jr,kr->ijk", *factors)
    P1, P2 = (gaussian((n, n), ratio)[0] for n, ratio in zip(shape, ratios))
    PM = response_from_groups(np.array_split(np.arange(shape[2]), msi_bands), shape[2])
    degradation = Degradation(P1, P2, PM)
    rng = np.random.default_rng(2024)
    images = (
        image + noise * np.sqrt(np.mean(image**2)) * rng.standard_normal(image.shape)
        for image in degrade(sri, degradation)
    )
    return (*images, degradation)


def _check(function):
    """Collect `function` in CHECKS, and let it take a name or a class too."""

    @functools.wraps(function)
    def check(method, **settings):
        method = small_instance(method)
        try:
            function(method, **settings)
        except AssertionError as failure:
            failure.args = (f"{_name(method)}: {function.__name__}: {failure}",)
            raise

    CHECKS.append(check)
    return check


def _name(method):
    return method.name or type(method).__name__


def _require(condition, sentence):
    # Not an assert statement: the suite must also work under python -O.
    if not condition:
        raise AssertionError(sentence)


def _briefly(method, iterations=_A_FEW):
    """`method` with few iterations, if it has that option."""
    limit = getattr(method, "max_iter", None)
    return replace(method, max_iter=min(limit, iterations)) if isinstance(limit, int) else method


def _run(method, case=None, **arguments):
    """The result of a brief run on `case`; its image is finite."""
    result = fuse(*(case or small_case()), method=_briefly(method), **arguments)
    _require(np.isfinite(result.sri).all(), "the image holds NaN or infinite values")
    return result


def _same_bytes(one, other):
    return one.sri.tobytes() == other.sri.tobytes() and one.cost == other.cost


def _apart(estimate, reference):
    """‖estimate − reference‖ / ‖reference‖."""
    size = np.linalg.norm(reference)
    return float(np.linalg.norm(estimate - reference) / (size if size > 0.0 else 1.0))


@contextmanager
def _unless_refused(what):
    """A method may refuse what it cannot express: a ValueError that begins with an argument's name, nothing else."""
    try:
        yield
    except ValueError as refusal:
        _require(re.match(r"\w+(\[\w+\])?: \S", str(refusal)),
                 f"{what} is refused, but the message does not begin with the argument: {refusal}")  # fmt: skip


# ---- the method object


@_check
def check_default_construction(method):
    """A method is a frozen, keyword-only dataclass whose options all have defaults."""
    cls = type(method)
    _require(is_dataclass(cls), "the class is not a dataclass")
    _require(all(f.kw_only for f in fields(cls)), "its options are not keyword-only")
    _require(cls() == cls(), "two objects with the default options are not equal")
    _require(hash(method) == hash(replace(method)), "equal objects have different hashes")
    try:
        method.no_such_attribute = 1
    except FrozenInstanceError:
        return
    raise AssertionError("the object can be changed after it was made; use dataclass(frozen=True, kw_only=True)")


@_check
def check_options_round_trip_through_json(method):
    """What `options()` gives, sent through JSON, makes an equal method."""
    _require(set(method.options()) == set(type(method).option_names()), "options() does not hold exactly the options")
    again = type(method)(**json.loads(json.dumps(method.options())))
    _require(again == method, f"{again} came back for {method}")


@_check
def check_options_may_be_numpy_scalars(method):
    """Options given as NumPy scalars become plain numbers, so that they survive JSON too."""
    kinds = {int: np.int64, float: np.float32}

    def wrapped(value):
        if isinstance(value, tuple):
            return tuple(map(wrapped, value))
        return kinds[type(value)](value) if type(value) in kinds else value

    made = type(method)(**{name: wrapped(value) for name, value in method.options().items()})
    for name, value in made.options().items():
        try:
            json.dumps(value)
        except TypeError:
            raise AssertionError(f"{name}: {value!r} was kept as {type(value).__name__}; make it a number") from None


@_check
def check_unknown_option_is_refused(method):
    """An option that the method does not have is a TypeError that lists those it has."""
    name = _name(method)
    registered = name in methods.names() and methods.get(name) is type(method)
    try:
        methods.make(name, {"no_such_option": 1}) if registered else type(method)(no_such_option=1)
    except TypeError as refusal:
        missing = [option for option in type(method).option_names() if registered and option not in str(refusal)]
        _require(not missing, f"the refusal of an unknown option does not list {missing}: {refusal}")
        _require("no_such_option" in str(refusal), f"the refusal does not name the unknown option: {refusal}")
        return
    raise AssertionError("an unknown option is accepted")


@_check
def check_copies_are_equal(method):
    """Pickling and deep-copying give an equal method that does the same."""
    for copied, how in ((pickle.loads(pickle.dumps(method)), "pickled"), (copy.deepcopy(method), "deep-copied")):
        _require(copied == method, f"the {how} method is not equal to the method")
        _require(_same_bytes(_run(copied), _run(method)), f"the {how} method gives another result")


@_check
def check_docstring_cites_its_paper(method):
    """The class has a docstring of its own with the authors and the title of the paper."""
    cls = type(method)
    text = " ".join((cls.__dict__.get("__doc__") or "").split())
    # A dataclass without a docstring is given its signature as one.
    _require(text and not text.startswith(f"{cls.__name__}("), "the class has no docstring of its own")
    name = r"[^\W\d_a-z][\w.'’-]*(?: [\w.'’-]+){0,4}"
    cited = re.search(rf"{name}(?:,| and| &) {name}.*?[:.,;(] ?[\"“‘']?\w+(?: [\w-]+){{2,}}", text)
    _require(cited, "the docstring cites no paper: authors separated by commas, then the title, are needed")


@_check
def check_memory_estimate(method):
    """`memory_needed` is a positive whole number, grows with the scene and bounds what `solve` allocates."""
    method = _briefly(method, 2)
    hsi, msi, degradation = small_case((64, 96, 24))
    estimate = method.memory_needed(hsi.shape, msi.shape, hsi.dtype)
    _require(isinstance(estimate, int | np.integer) and estimate > 0, f"memory_needed gives {estimate!r}")
    larger = method.memory_needed((64, 96, 48), (256, 384, 8), hsi.dtype)
    _require(larger > estimate, f"a larger scene needs {larger} bytes, a smaller one {estimate}")
    problem = Problem(hsi, msi, degradation)
    method.solve(problem, rng=np.random.default_rng(0))  # what is made once, such as compiled code, is not counted
    tracemalloc.start()
    try:
        solution = method.solve(problem, rng=np.random.default_rng(0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    parts = [solution.image] if solution.image is not None else list(solution.factors)
    allowed = estimate + sum(part.nbytes for part in parts) + _INTERPRETER_BYTES
    _require(peak <= allowed, f"solve allocated {peak} bytes at its peak, but {estimate} and the result were announced")


# ---- the result


@_check
def check_result_fields(method):
    """`fuse` with the method object gives a complete FusionResult."""
    result = _run(method, rng=11)
    expected = {
        "status": Status, "cost": float, "n_iter": int, "trace": Trace, "seconds": float, "method": str,
        "options": dict, "seed": int, "provenance": dict, "start_costs": tuple, "sri": np.ndarray,
        "factors": Factors | None,
    }  # fmt: skip
    _require(isinstance(result, FusionResult), f"the result is a {type(result).__name__}")
    for name, kind in expected.items():
        value = getattr(result, name)
        _require(isinstance(value, kind), f"result.{name} is a {type(value).__name__}")
    _require(np.isfinite(result.cost) and result.cost >= 0.0, f"the cost is {result.cost}")
    _require(result.status is not Status.NOT_FINITE, f"the run ended with: {result.status}")
    _require(result.n_iter >= 0, f"n_iter is {result.n_iter}")
    _require(result.options == _briefly(method).options(), "result.options are not the method's")
    _require(result.seed == 11, f"the seed was 11, but the result says {result.seed}")
    _require(result.start_costs == (result.cost,), f"start_costs is {result.start_costs} at cost {result.cost}")


@_check
def check_image(method):
    """The image has the scene's shape and the data's dtype, is the caller's own, and its blocks are parts of it."""
    hsi, msi, degradation = small_case()
    result = _run(method, (hsi, msi, degradation))
    sri = result.sri
    _require(sri.shape == degradation.sri_shape, f"the image's shape is {sri.shape}, not {degradation.sri_shape}")
    _require(sri.dtype == np.float64, f"the image is {sri.dtype} for float64 data")
    _require(sri.flags.c_contiguous and sri.flags.writeable, "the image is not a writable array in C order")
    _require(not (np.shares_memory(sri, hsi) or np.shares_memory(sri, msi)), "the image shares memory with the data")
    block = result.render(slice(3, 7), slice(None), [0, 5])
    _require(_apart(block, sri[3:7][:, :, [0, 5]]) < 1e-12, "a rendered block is not that part of the image")
    if result.factors is not None:
        shape = result.factors.shape
        _require(shape == degradation.sri_shape, f"the factors' shape is {shape}, not {degradation.sri_shape}")


@_check
def check_nonnegative_where_promised(method):
    """A method that calls itself non-negative gives no negative value, whatever the noise."""
    lowest = _run(method, small_case(noise=1.0)).sri.min()
    _require(not method.nonnegative or lowest >= 0.0, f"the image holds {lowest} although the method is non-negative")


@_check
def check_trace(method):
    """The trace has one entry for the start and one for each iteration, in every column, and its clock goes forward."""
    result = _run(method)
    for column, entries in vars(result.trace).items():
        _require(len(entries) == result.n_iter + 1,
                 f"the trace has {len(entries)} entries of {column} after {result.n_iter} iterations")  # fmt: skip
    seconds = result.trace.seconds
    _require(all(a <= b for a, b in pairwise(seconds)), "the trace's seconds go back")


# ---- inputs


@_check
def check_inputs_are_unmodified(method):
    """Images, operators and options are the same after a run as before."""
    hsi, msi, degradation = small_case(noise=0.1)
    operators = [part for P in _matrices(degradation) for part in (P.data, P.indices, P.indptr)]
    watched = {"hsi": [hsi], "msi": [msi], "degradation": operators}
    before = {name: _digest(arrays) for name, arrays in watched.items()}
    options = copy.deepcopy(method.options())
    _run(method, (hsi, msi, degradation))
    for name, arrays in watched.items():
        _require(_digest(arrays) == before[name], f"{name} was modified")
    _require(method.options() == options, "the method's options were modified")


def _matrices(degradation):
    return degradation.P1, degradation.P2, degradation.PM


def _digest(arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@_check
def check_readonly_inputs(method):
    """Read-only images and operators give the same bytes."""
    hsi, msi, degradation = small_case()
    expected = _run(method, (hsi, msi, degradation))
    for array in (hsi, msi, *(P.data for P in _matrices(degradation))):
        array.flags.writeable = False
    _require(_same_bytes(_run(method, (hsi, msi, degradation)), expected), "read-only images give another result")


@_check
def check_memmap_inputs(method):
    """Images mapped from files, read-only or copy-on-write, give the same bytes and leave the files alone."""
    hsi, msi, degradation = small_case()
    expected = _run(method, (hsi, msi, degradation))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("hsi.npy", "msi.npy")]
        for file, image in zip(files, (hsi, msi)):
            np.save(file, image)
        before = [file.read_bytes() for file in files]
        for mode in ("r", "c"):
            mapped = [np.load(file, mmap_mode=mode) for file in files]
            result = _run(method, (*mapped, degradation))
            del mapped  # an open map cannot be deleted on every system
            _require(_same_bytes(result, expected), f"images mapped with mode {mode!r} give another result")
        _require([file.read_bytes() for file in files] == before, "a mapped file was modified")


@_check
def check_float32_is_kept(method):
    """float32 images give a float32 image; without a random start, nearly the one that float64 gives."""
    hsi, msi, degradation = small_case(noise=0.01)
    single = _run(method, (hsi.astype(np.float32), msi.astype(np.float32), degradation))
    _require(single.sri.dtype == np.float32, f"the image is {single.sri.dtype} for float32 data")
    if not method.has_starts:
        apart = _apart(single.sri, _run(method, (hsi, msi, degradation)).sri)
        _require(apart < 1e-3, f"float32 and float64 differ by {apart:.1e} of the image")


# ---- repeatability


@_check
def check_same_seed_gives_same_bytes(method):
    """A seed, or a Generator in one state, gives the same bytes each time and on any number of threads."""
    expected = _run(method, rng=5, threads=1)
    _require(
        _same_bytes(_run(method, rng=5, threads=1), expected), "the same seed gives another result the second time"
    )
    _require(
        _same_bytes(_run(replace(method), rng=5, threads=1), expected), "an equal method object gives another result"
    )
    _require(_same_bytes(_run(method, rng=np.random.default_rng(5)), expected), "a Generator gives another result")
    with sharing_all_work() as shared:
        _require(_same_bytes(_run(method, rng=5), expected), "several threads give another result than one")
    if getattr(method, "uses_kernels", False) and numba.get_num_threads() > 1 and not numba.config.DISABLE_JIT:
        _require(shared.launches > 0, "uses_kernels is True, but no kernel was launched on several threads")


@_check
def check_no_hidden_state(method):
    """What was fused in between, of another shape and dtype, does not show."""
    before = _run(method)
    hsi, msi, degradation = small_case((48, 32, 12), noise=0.3)
    _run(method, (hsi.astype(np.float32), msi.astype(np.float32), degradation), rng=9)
    _require(_same_bytes(_run(method), before), "the result depends on what was fused before")


@_check
def check_seed_matters_only_with_random_starts(method):
    """Another seed gives another result if the method has random starts, and the same bytes if it has none."""
    same = _same_bytes(_run(method, rng=1), _run(method, rng=2))
    _require(same != method.has_starts, f"has_starts is {method.has_starts}, but seeds 1 and 2 give "
             f"{'the same bytes' if same else 'different results'}")  # fmt: skip


@_check
def check_several_starts(method):
    """With random starts, the best of several wins; without, more than one is refused."""
    if not method.has_starts:
        try:
            _run(method, starts=2)
        except TypeError:
            return
        raise AssertionError("two starts are accepted by a method without a random start")
    result = _run(method, starts=2)
    costs = result.start_costs
    _require(len(costs) == 2 and result.cost == min(costs), f"the cost is {result.cost}, those of the starts {costs}")
    _require(costs[0] != costs[1], "both starts end at the very same cost: they did not start apart")


@_check
def check_given_start(method):
    """A start of the caller's own is gone on from, and checked; a method that cannot use one refuses it."""
    case = small_case(noise=0.1)
    first = _run(method, case)
    if not method.takes_init:
        try:
            _run(method, case, init=first.factors or Factors(*(np.ones((n, 1)) for n in first.sri.shape)))
        except TypeError:
            return
        raise AssertionError("a start is accepted by a method that says it cannot use one")
    _require(first.factors is not None, "the method takes factors as its start, but gives none")
    again = _run(method, case, init=first.factors)
    # Entries at zero are moved a little, so the first cost may be a little above the last one.
    _require(again.cost <= 1.01 * first.cost, f"from a result of cost {first.cost:.6g} it went to {again.cost:.6g}")
    other = _run(method, case, init=first.factors, rng=1)
    _require(_same_bytes(other, again), "beside a given start the seed still matters")
    cut = Factors(first.factors.A[:-1], first.factors.B, first.factors.C)
    try:
        _run(method, case, init=cut)
    except ValueError as refusal:
        _require(str(refusal).startswith("init: "), f"a start of the wrong shape is refused, but with: {refusal}")
        return
    raise AssertionError("a start of the wrong shape is accepted")


@_check
def check_settings_are_left_alone(method):
    """The global random state, NumPy's error handling, the warning filters and Numba's threads are as before."""

    def settings():
        state = np.random.get_state()  # noqa: NPY002 - the point is that nobody uses it
        return [(state[1].tobytes(), state[2:]), np.geterr(), list(warnings.filters), numba.get_num_threads()]

    _run(method)  # a first run may import what it needs
    before = settings()
    _run(method)
    names = ("the global random state", "NumPy's error handling", "the warning filters", "Numba's threads")
    changed = [name for name, old, new in zip(names, before, settings()) if old != new]
    _require(not changed, f"a run changes {', '.join(changed)}")


@_check
def check_concurrent_calls(method):
    """Runs side by side in several Python threads give what they give alone."""
    cases = [small_case(noise=noise) for noise in (0.0, 0.2)] * 2
    expected = [_run(method, case) for case in cases[:2]] * 2
    with ThreadPoolExecutor(len(cases)) as pool:
        results = list(pool.map(lambda case: _run(method, case), cases))
    _require(all(map(_same_bytes, results, expected)), "a run beside others gives another result")


# ---- stopping


@_check
def check_one_iteration(method):
    """With max_iter=1 a method does at most one iteration and says why it ended."""
    if "max_iter" not in type(method).option_names():
        return
    result = _run(replace(method, max_iter=1))
    _require(result.n_iter <= 1, f"max_iter is 1, but n_iter is {result.n_iter}")
    ends = result.status is Status.MAX_ITERATIONS or result.status.converged
    _require(ends, f"the run ended with: {result.status}")


@_check
def check_callback_sees_rising_iterations(method):
    """The callback sees rising iteration numbers up to the last, a cost, the time and the trace so far."""
    seen = []

    def look(state):
        seen.append((state.n_iter, len(state.trace)))
        _require(isinstance(state.cost, float) and state.seconds >= 0.0, "the callback sees no cost or no time")

    result = _run(method, callback=look)
    numbers = [n_iter for n_iter, _ in seen]
    _require(numbers, "the callback was never called")
    _require(numbers == sorted(set(numbers)), f"the callback saw the iterations {numbers}")
    _require(numbers[-1] == result.n_iter, f"the callback saw {numbers[-1]} as the last of {result.n_iter} iterations")
    _require(all(entries == n_iter + 1 for n_iter, entries in seen), f"(n_iter, trace entries) were {seen}")
    _require(_same_bytes(_run(method), result), "a callback that does nothing changes the result")


@_check
def check_callback_can_stop(method):
    """A callback that returns True ends the run there, with that status and what was reached."""
    numbers = []
    last = min(2, _run(method, callback=lambda state: numbers.append(state.n_iter)).n_iter)
    calls = []

    def stop(state):
        calls.append(state.n_iter)
        return state.n_iter >= last

    result = _run(method, callback=stop)
    _require(calls == [n for n in numbers if n <= last], f"told to stop at {last}, the method went on: {calls}")
    _require(result.n_iter == last, f"told to stop at iteration {last}, the result is that of {result.n_iter}")
    if numbers[-1] > last:
        _require(result.status is Status.CALLBACK, f"the callback stopped the run, but its status is: {result.status}")


@_check
def check_error_in_callback_passes(method):
    """An exception in the callback reaches the caller and leaves nothing behind."""
    expected = _run(method)
    for error in (ZeroDivisionError, KeyboardInterrupt):

        def fail(state, error=error):
            raise error

        try:
            _run(method, callback=fail)
        except error:
            _require(_same_bytes(_run(method), expected), f"after {error.__name__} in a callback the result is another")
        else:
            raise AssertionError(f"{error.__name__} in a callback is swallowed")


@_check
def check_time_limit(method):
    """A time limit of zero ends the run at the first occasion; one that is never reached changes nothing."""
    whole = _run(method)
    limited = _run(method, time_limit=0.0)
    _require(limited.n_iter <= 1, f"with no time at all, {limited.n_iter} iterations were done")
    if whole.n_iter > 1:
        _require(limited.status is Status.TIME_LIMIT, f"the time was up, but the status is: {limited.status}")
    _require(_same_bytes(_run(method, time_limit=1e6), whole), "a time limit that is not reached changes the result")


# ---- scenes


@_check
def check_size_one_axes(method):
    """Every extent may be 1: the method fuses, or says in one sentence (ValueError) that it cannot."""
    for what, (shape, ratios, msi_bands) in _SIZE_ONE.items():
        hsi, msi, degradation = small_case(shape, ratios, msi_bands)
        with _unless_refused(f"a scene with {what}"):
            sri = _run(method, (hsi, msi, degradation)).sri
            _require(sri.shape == shape, f"the image has shape {sri.shape} in a scene with {what}")


@_check
def check_rank_one(method):
    """A rank of 1 is a rank."""
    rank = getattr(method, "rank", None)
    if isinstance(rank, int | tuple):
        one = 1 if isinstance(rank, int) else (1,) * len(rank)
        with _unless_refused("a rank of 1"):
            _run(replace(method, rank=one))


@_check
def check_flat_and_dark_scenes(method):
    """Constant and all-zero images end in a finite image or a sentence, whatever has become singular."""
    hsi, msi, degradation = small_case()
    flat = [np.ones_like(image) for image in (hsi, msi)]
    dark = [np.zeros_like(image) for image in (hsi, msi)]
    cases = {
        "a flat scene": flat, "a dark scene": dark, "a dark MSI": [hsi, dark[1]], "a dark HSI": [dark[0], msi],
        "one lit pixel": [dark[0], np.where(np.arange(msi.size).reshape(msi.shape) == 0, 1.0, 0.0)],
    }  # fmt: skip
    for what, images in cases.items():
        # A method may warn that it cut off singular directions.
        with warnings.catch_warnings(), _unless_refused(what):
            warnings.simplefilter("ignore", UserWarning)
            _run(method, (*images, degradation))


@_check
def check_units_do_not_matter(method):
    """The same scene in other units, reflectances or sensor counts, gives the same image in those units."""
    hsi, msi, degradation = small_case(noise=0.05)
    expected = _run(method, (hsi, msi, degradation)).sri
    for unit in (2.0**12, 2.0**-12):
        apart = _apart(_run(method, (hsi * unit, msi * unit, degradation)).sri / unit, expected)
        _require(apart < 1e-6, f"data times {unit:g} change the image by {apart:.1e} of it")


@_check
def check_order_of_msi_bands_does_not_matter(method):
    """The MSI's bands, and the rows of PM with them, may come in any order."""
    hsi, msi, degradation = small_case(noise=0.05)
    order = np.arange(msi.shape[2])[::-1]
    shuffled = Degradation(degradation.P1, degradation.P2, degradation.PM[order])
    apart = _apart(
        _run(method, (hsi, msi[:, :, order], shuffled)).sri, _run(method, (hsi, msi, degradation)).sri
    )  # fmt: skip
    _require(apart < 1e-6, f"another order of the MSI's bands changes the image by {apart:.1e} of it")


@_check
def check_rows_and_columns_are_alike(method):
    """A transposed scene gives the transposed image, if no random start tells rows from columns."""
    if method.has_starts:
        return
    rank = getattr(method, "rank", None)
    turned = method
    if isinstance(rank, tuple) and len(rank) == 3:
        turned = replace(method, rank=(rank[1], rank[0], rank[2]))
    hsi, msi, degradation = small_case(noise=0.05)
    swapped = Degradation(degradation.P2, degradation.P1, degradation.PM)
    transposed = _run(turned, (hsi.swapaxes(0, 1), msi.swapaxes(0, 1), swapped)).sri
    apart = _apart(transposed.swapaxes(0, 1), _run(method, (hsi, msi, degradation)).sri)
    _require(apart < 1e-6, f"transposing the scene changes the image by {apart:.1e} of it")


@_check
def check_clean_images_are_explained(method, residual=0.05):
    """The image found from noiseless data, degraded, is those data up to `residual` of their norm."""
    hsi, msi, degradation = small_case()
    sri = fuse(hsi, msi, degradation, method=method).sri
    for name, seen, given in zip(("HSI", "MSI"), degrade(sri, degradation), (hsi, msi)):
        apart = _apart(seen, given)
        _require(apart <= residual, f"the degraded image misses the {name} by {apart:.1%}; {residual:.1%} are allowed")
