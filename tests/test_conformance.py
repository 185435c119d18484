"""Every registered method keeps to the suite of `fastccpd.testing`, and the suite catches those that do not."""

import importlib
import pkgutil
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import fastccpd
from fastccpd import testing
from fastccpd.methods import Method, Progress, Solution
from fastccpd.model.checks import as_count
from fastccpd.model.result import Status, Trace
from fastccpd.testing.cases import MATERIALS


@pytest.mark.parametrize("check", testing.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", fastccpd.methods.names())
def test_method_keeps_to(name, check):
    check(name)


def test_every_check_function_is_collected():
    written = {name for name in vars(testing) if name.startswith("check_") and name != "check_method"}
    assert {check.__name__ for check in testing.CHECKS} == written
    modules = (
        importlib.import_module(f"fastccpd.testing.{file.name}") for file in pkgutil.iter_modules(testing.__path__)
    )
    assert written == {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert all(check.__doc__ for check in testing.CHECKS)


def test_small_instance_keeps_objects_and_shrinks_ranks():
    method = fastccpd.methods.NNCCPDNLS(rank=7)
    assert testing.small_instance(method) is method
    assert testing.small_instance("nn-ccpd-nls").rank == MATERIALS
    assert testing.small_instance(fastccpd.methods.NNCCPDNLS) == testing.small_instance("nn-ccpd-nls")
    with pytest.raises(TypeError, match=r"^method: got 3"):
        testing.small_instance(3)


@dataclass(frozen=True, kw_only=True)
class Upsampled(Method):
    """Repeats every pixel of the HSI, then fits the MSI's brightness: the least that passes for a method.

    Parameters
    ----------
    steps : int
        How often it looks at what it has done.

    References
    ----------
    .. [1] A. Nobody, B. Noone: On Doing Nearly Nothing. Journal of Null Results, 1999.
    """

    steps: int = 3

    def __post_init__(self):
        object.__setattr__(self, "steps", as_count(self.steps, "steps"))

    def solve(self, problem, *, rng, callback=None, time_limit=None):
        image, trace = self._image(problem), Trace()
        status = Status.FINISHED
        cost = float(self._cost(image, problem))
        for n_iter in range(self.steps + 1):
            trace.append(cost=cost, gradient_norm=np.nan, radius=np.nan, rho=np.nan, cg_iterations=0, seconds=0.0)
            if callback is not None and callback(Progress(n_iter, cost, 0.0, trace)):
                status = Status.CALLBACK
                break
            if time_limit is not None and time_limit <= 0.0:
                status = Status.TIME_LIMIT
                break
        return Solution(status=status, cost=cost, n_iter=n_iter, trace=trace, image=image)

    def _image(self, problem):
        hsi, msi, PM = (np.asarray(part, dtype=np.float64) for part in (problem.hsi, problem.msi, self._PM(problem)))
        up = np.kron(hsi, np.ones((msi.shape[0] // hsi.shape[0], msi.shape[1] // hsi.shape[1], 1)))
        return (up + (msi - up @ PM.T) @ np.linalg.pinv(PM).T).astype(problem.dtype)

    def _PM(self, problem):
        return problem.degradation.PM.toarray()

    def _cost(self, image, problem):
        return 0.5 * np.square(problem.msi - image @ self._PM(problem).T, dtype=np.float64).sum()

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        return 8 * (5 * msi_shape[0] * msi_shape[1] * hsi_shape[2] + 3 * int(np.prod(msi_shape)))


def test_a_small_honest_method_passes():
    testing.check_method(Upsampled, residual=0.2)


def broken(**members):
    """Upsampled with one promise broken."""
    return dataclass(frozen=True, kw_only=True)(
        type("Broken", (Upsampled,), {"__doc__": Upsampled.__doc__, "__module__": __name__, **members})
    )


def writes_into_its_input(self, problem, **arguments):
    problem.msi.flags.writeable = True
    problem.msi[0, 0, 0] += 1.0
    return Upsampled.solve(self, problem, **arguments)


def remembers(self, problem, **arguments):
    type(self).calls += 1
    solution = Upsampled.solve(self, problem, **arguments)
    solution.image[0, 0, 0] += type(self).calls
    return solution


def sums_by_threads(self, problem):
    """Another image where a launch with little work is parallel, as of a sum in as many parts as there are threads."""
    from fastccpd.kernels import jit

    shared = jit.SharedWork()
    jit.nearly_nothing(np.zeros(2), work=1)
    return Upsampled._image(self, problem) * (1 + 1e-15 * shared.launches)


def uses_the_seed(self, problem, *, rng, **arguments):
    solution = Upsampled.solve(self, problem, rng=rng, **arguments)
    solution.image[...] += rng.random()
    return solution


def uses_the_global_seed(self, problem, **arguments):
    np.random.random()  # noqa: NPY002 - what the check must notice
    return Upsampled.solve(self, problem, **arguments)


def swallows(self, problem, *, callback=None, **arguments):
    def quiet(state):
        try:
            return callback(state)
        except (ZeroDivisionError, KeyboardInterrupt):
            return False

    return Upsampled.solve(self, problem, callback=callback and quiet, **arguments)


def never_calls_back(self, problem, *, callback=None, **arguments):
    return Upsampled.solve(self, problem, **arguments)


def goes_on(self, problem, *, callback=None, **arguments):
    def deaf(state):
        callback(state)

    return Upsampled.solve(self, problem, callback=callback and deaf, **arguments)


def stops_without_a_word(self, problem, **arguments):
    solution = Upsampled.solve(self, problem, **arguments)
    return replace(solution, status=Status.FINISHED)


def ignores_the_clock(self, problem, *, time_limit=None, **arguments):
    return Upsampled.solve(self, problem, **arguments)


def forgets_the_start(self, problem, **arguments):
    solution = Upsampled.solve(self, problem, **arguments)
    del solution.trace.cost[0]
    return solution


def doubles_precision(self, problem, **arguments):
    solution = Upsampled.solve(self, problem, **arguments)
    object.__setattr__(solution, "image", solution.image.astype(np.float64))
    return solution


def adds_a_constant(self, problem):
    return Upsampled._image(self, problem) + problem.dtype.type(0.5)


def adds_a_trifle(self, problem):
    return Upsampled._image(self, problem) + problem.dtype.type(1e-15)


def counts_in_its_dtype(self, image, problem):
    with np.errstate(over="ignore"):
        return np.square(image).sum()


def sees_the_first_band(self, problem):
    return Upsampled._image(self, problem) * (1 + 1e-3 * problem.msi[:, :, :1] / problem.msi.max())


def favours_rows(self, problem):
    return Upsampled._image(self, problem) * np.linspace(0.99, 1.0, problem.sri_shape[0])[:, None, None]


def indexes_out(self, problem):
    return Upsampled._image(self, problem) + 0 * problem.hsi[1, 1, 1]


def divides(self, problem):
    with np.errstate(all="ignore"):
        return Upsampled._image(self, problem) * (problem.msi.max() / problem.msi.max())


def overflows_where_weights_are_large(self, problem, **arguments):
    solution = Upsampled.solve(self, problem, **arguments)
    if problem.degradation.PM.data.max() > 1e20:
        # Finite each, but not their product.
        factors = fastccpd.Factors(*(np.full((n, 1), 1e150) for n in problem.sri_shape))
        return Solution(status=Status.COST_SETTLED, cost=1.0, n_iter=0, trace=solution.trace, factors=factors)
    return solution


def believes_in_zeros(self, problem):
    return Upsampled._image(self, problem) * (0.5 if problem.hsi_valid is not None else 1.0)


def shrugs(self, problem, **arguments):
    try:
        return Upsampled.solve(self, problem, **arguments)
    except KeyboardInterrupt:
        return Upsampled.solve(self, problem, **arguments)


def forgets_after_an_interrupt(self, problem, **arguments):
    try:
        return Upsampled.solve(self, problem, **arguments)
    except KeyboardInterrupt:
        type(self)._image = adds_a_constant
        raise


def grows(self, problem, **arguments):
    hoard = np.ones(10_000_000)
    solution = Upsampled.solve(self, problem, **arguments)
    return solution if hoard.all() else None


@pytest.mark.parametrize(
    ("check", "members", "sentence"),
    [
        ("inputs_are_unmodified", {"solve": writes_into_its_input}, "msi was modified"),
        ("no_hidden_state", {"solve": remembers, "calls": 0}, "what was fused before"),
        ("same_seed_gives_same_bytes", {"solve": remembers, "calls": 0}, "second time"),
        ("same_seed_gives_same_bytes", {"_image": sums_by_threads}, "several threads give another"),
        ("same_seed_gives_same_bytes", {"uses_kernels": True}, "no kernel was launched on several threads"),
        ("seed_matters_only_with_random_starts", {"solve": uses_the_seed}, "has_starts is False"),
        ("seed_matters_only_with_random_starts", {"has_starts": True}, "the same bytes"),
        ("several_starts", {"has_starts": True}, "did not start apart"),
        ("settings_are_left_alone", {"solve": uses_the_global_seed}, "global random state"),
        ("error_in_callback_passes", {"solve": swallows}, "is swallowed"),
        ("callback_sees_rising_iterations", {"solve": never_calls_back}, "never called"),
        ("callback_can_stop", {"solve": goes_on}, "went on"),
        ("stop_in_every_stage", {"solve": goes_on}, "went on"),
        ("stop_in_every_stage", {"solve": stops_without_a_word}, "the status is: finished"),
        ("ctrl_c_passes_wherever_it_comes", {"solve": shrugs}, "is swallowed"),
        ("ctrl_c_passes_wherever_it_comes", {"solve": forgets_after_an_interrupt}, "the result is another"),
        ("weights_far_from_one", {"solve": overflows_where_weights_are_large}, "PM times 1e\\+29: the image is not"),
        ("time_limit", {"solve": ignores_the_clock}, "with no time at all, 3 iterations"),
        ("trace", {"solve": forgets_the_start}, "3 entries of cost after 3"),
        ("float32_is_kept", {"solve": doubles_precision}, "float64 for float32"),
        ("nonnegative_where_promised", {"nonnegative": True}, "although the method is non-negative"),
        ("units_do_not_matter", {"_image": adds_a_constant}, "change the image"),
        ("units_far_from_one", {"_image": adds_a_trifle}, "float32 data times 1e-20 end with: failed"),
        ("units_far_from_one", {"_cost": counts_in_its_dtype}, "float32 data times 1e\\+20 have a cost of inf"),
        ("order_of_msi_bands_does_not_matter", {"_image": sees_the_first_band}, "another order"),
        ("rows_and_columns_are_alike", {"_image": favours_rows}, "transposing"),
        ("flat_and_dark_scenes", {"_image": divides}, "NaN or infinite"),
        ("memory_estimate", {"solve": grows}, "were announced"),
        ("memory_estimate", {"memory_needed": lambda self, *shapes: -1}, "memory_needed gives -1"),
        ("clean_images_are_explained", {"_image": adds_a_constant}, "misses the HSI"),
        ("docstring_cites_its_paper", {"__doc__": "Very good. Use it for everything you have."}, "cites no paper"),
        ("docstring_cites_its_paper", {"__doc__": None}, "no docstring"),
        ("options_are_documented", {"__annotations__": {"more": int}, "more": 1}, "says nothing of 'more'"),
        ("options_may_be_numpy_scalars", {"__post_init__": lambda self: None}, "steps: np.int64"),
        ("options_round_trip_through_json", {"options": lambda self: {}}, "exactly the options"),
    ],
)
def test_the_suite_notices(check, members, sentence):
    with pytest.raises(AssertionError, match=sentence):
        getattr(testing, f"check_{check}")(broken(**members))


def test_the_suite_notices_bands_without_data_that_are_believed(monkeypatch):
    """No method is given them: so it is the fusion that is broken here."""
    monkeypatch.setattr("fastccpd.fusion.known_bands", lambda problem: None)
    method = broken(takes_gaps=True, _image=believes_in_zeros)
    with pytest.raises(AssertionError, match="where bands \\[0\\] are masked"):
        testing.check_a_masked_band_costs_no_more_than_a_removed_one(method)


def test_the_suite_notices_a_class_that_is_not_frozen():
    class Undecorated(Upsampled):
        pass

    with pytest.raises(AssertionError, match="can be changed after it was made"):
        testing.check_default_construction(Undecorated)


def test_a_refusal_must_name_an_argument_and_other_errors_pass_through():
    with pytest.raises(IndexError):
        testing.check_size_one_axes(broken(_image=indexes_out))

    def mumbles(self, problem):
        raise ValueError("cannot do this")

    with pytest.raises(AssertionError, match="does not begin with the argument"):
        testing.check_size_one_axes(broken(_image=mumbles))


def test_check_method_names_the_method_and_the_check():
    with pytest.raises(AssertionError, match=r"^Broken: check_clean_images_are_explained: .*20\.0% are allowed"):
        testing.check_clean_images_are_explained(broken(_image=adds_a_constant), residual=0.2)


@pytest.mark.parametrize("name", fastccpd.methods.names())
def test_options_of_a_name_that_nobody_registered_are_refused_by_its_class(name):
    class Unregistered(type(testing.small_instance(name))):
        name: ClassVar[str] = ""

    testing.check_unknown_option_is_refused(Unregistered)
