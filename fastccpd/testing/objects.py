"""Checks of the method object: its options, its documentation, its estimate of memory."""

import copy
import json
import pickle
import re
import tracemalloc
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np

from .. import methods
from ..methods import documentation
from ..model.problem import Problem
from .cases import small_case
from .running import briefly, checked, name_of, require, run, same_bytes

# What lies between a method's allocations and what tracemalloc sees of them: objects, not arrays.
_INTERPRETER_BYTES = 1 << 18


@checked
def check_default_construction(method):
    """A method is a frozen, keyword-only dataclass whose options all have defaults."""
    cls = type(method)
    require(is_dataclass(cls), "the class is not a dataclass")
    require(all(f.kw_only for f in fields(cls)), "its options are not keyword-only")
    require(cls() == cls(), "two objects with the default options are not equal")
    require(hash(method) == hash(replace(method)), "equal objects have different hashes")
    try:
        method.no_such_attribute = 1
    except FrozenInstanceError:
        return
    raise AssertionError("the object can be changed after it was made; use dataclass(frozen=True, kw_only=True)")


@checked
def check_options_round_trip_through_json(method):
    """What `options()` gives, sent through JSON, makes an equal method."""
    require(set(method.options()) == set(type(method).option_names()), "options() does not hold exactly the options")
    again = type(method)(**json.loads(json.dumps(method.options())))
    require(again == method, f"{again} came back for {method}")


@checked
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


@checked
def check_unknown_option_is_refused(method):
    """An option that the method does not have is a TypeError that lists those it has."""
    name = name_of(method)
    registered = name in methods.names() and methods.get(name) is type(method)
    try:
        methods.make(name, {"no_such_option": 1}) if registered else type(method)(no_such_option=1)
    except TypeError as refusal:
        missing = [option for option in type(method).option_names() if registered and option not in str(refusal)]
        require(not missing, f"the refusal of an unknown option does not list {missing}: {refusal}")
        require("no_such_option" in str(refusal), f"the refusal does not name the unknown option: {refusal}")
        return
    raise AssertionError("an unknown option is accepted")


@checked
def check_copies_are_equal(method):
    """Pickling and deep-copying give an equal method that does the same."""
    for copied, how in ((pickle.loads(pickle.dumps(method)), "pickled"), (copy.deepcopy(method), "deep-copied")):
        require(copied == method, f"the {how} method is not equal to the method")
        require(same_bytes(run(copied), run(method)), f"the {how} method gives another result")


@checked
def check_docstring_cites_its_paper(method):
    """The class has a docstring of its own with the authors and the title of the paper."""
    cls = type(method)
    text = " ".join((cls.__dict__.get("__doc__") or "").split())
    # A dataclass without a docstring is given its signature as one.
    require(text and not text.startswith(f"{cls.__name__}("), "the class has no docstring of its own")
    name = r"[^\W\d_a-z][\w.'’-]*(?: [\w.'’-]+){0,4}"
    cited = re.search(rf"{name}(?:,| and| &) {name}.*?[:.,;(] ?[\"“‘']?\w+(?: [\w-]+){{2,}}", text)
    require(cited, "the docstring cites no paper: authors separated by commas, then the title, are needed")


@checked
def check_options_are_documented(method):
    """The docstring of the class, or of a base, says of every option what it is and what it does."""
    for option in documentation.options(type(method)).values():
        needed = 'an entry "name : type" with an indented text under "Parameters" is needed'
        require(option.kind and option.text, f"the docstring says nothing of {option.name!r}; {needed}")


@checked
def check_memory_estimate(method):
    """`memory_needed` is a positive whole number, grows with the scene and bounds what `solve` allocates."""
    method = briefly(method, 2)
    hsi, msi, degradation = small_case((64, 96, 24))
    estimate = method.memory_needed(hsi.shape, msi.shape, hsi.dtype)
    require(isinstance(estimate, int | np.integer) and estimate > 0, f"memory_needed gives {estimate!r}")
    larger = method.memory_needed((64, 96, 48), (256, 384, 8), hsi.dtype)
    require(larger > estimate, f"a larger scene needs {larger} bytes, a smaller one {estimate}")
    problem = Problem(hsi, msi, degradation)
    method.solve(problem, rng=np.random.default_rng(0))  # what is made once, such as compiled code, is not counted
    tracemalloc.start()
    try:
        solution = method.solve(problem, rng=np.random.default_rng(0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    shown = {"image": [solution.image], "maps": [solution.maps and solution.maps.Z], "factors": solution.factors}
    arrays = [part for part in shown[solution.shown] if isinstance(part, np.ndarray)]
    allowed = estimate + sum(part.nbytes for part in arrays) + _INTERPRETER_BYTES
    require(peak <= allowed, f"solve allocated {peak} bytes at its peak, but {estimate} and the result were announced")
