"""What checks are made of: brief runs, comparisons, and the sentence that a failed check is."""

import functools
import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..api import fuse
from .cases import small_case, small_instance

# Enough iterations to see a method at work where its optimum is not the question.
_A_FEW = 4


def checked(function):
    """Make `function(method object)` a check: it takes a name or a class too, and its failure names both."""

    @functools.wraps(function)
    def check(method, **settings):
        method = small_instance(method)
        try:
            function(method, **settings)
        except AssertionError as failure:
            failure.args = (f"{name_of(method)}: {function.__name__}: {failure}",)
            raise

    return check


def name_of(method):
    """The name a method is registered under, else that of its class."""
    return method.name or type(method).__name__


def require(condition, sentence):
    """Fail with this sentence unless the condition holds."""
    # Not an assert statement: the suite must also work under python -O.
    if not condition:
        raise AssertionError(sentence)


def briefly(method, iterations=_A_FEW):
    """`method` with few iterations, if it has that option."""
    limit = getattr(method, "max_iter", None)
    return replace(method, max_iter=min(limit, iterations)) if isinstance(limit, int) else method


def run(method, case=None, **arguments):
    """The result of a brief run on `case`; its image is finite."""
    hsi, msi, degradation = case or small_case()
    result = fuse(hsi, msi, degradation, method=briefly(method), **arguments)
    require(np.isfinite(result.sri).all(), "the image holds NaN or infinite values")
    return result


def same_bytes(one, other):
    """Whether two results have the same image and cost, to the last bit."""
    return one.sri.tobytes() == other.sri.tobytes() and one.cost == other.cost


def distance(estimate, reference):
    """‖estimate − reference‖ / ‖reference‖."""
    size = np.linalg.norm(reference)
    return float(np.linalg.norm(estimate - reference) / (size if size > 0.0 else 1.0))


@contextmanager
def unless_refused(what):
    """A method may refuse what it cannot express: a ValueError that begins with an argument's name, nothing else."""
    try:
        yield
    except ValueError as refusal:
        named = re.match(r"\w+(\[\w+\])?: \S", str(refusal))
        require(named, f"{what} is refused, but the message does not begin with the argument: {refusal}")
