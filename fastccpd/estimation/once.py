"""What is found from the images of a problem once, though several ask for it: the verdict, and the fusion after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..model.problem import Problem

_Found = TypeVar("_Found")

# Of each problem within its block: the functions that were asked, and what they found.
_kept: WeakKeyDictionary[Problem, dict[Any, Any]] = WeakKeyDictionary()


def once(find: Callable[[Problem], _Found]) -> Callable[[Problem], _Found]:
    """A function of a problem that is not computed again within `kept_for` it.

    Parameters
    ----------
    find : callable(Problem) -> anything
    """

    @wraps(find)
    def found(problem):
        results = _kept.get(problem)
        if results is None:
            return find(problem)
        if find not in results:
            results[find] = find(problem)
        return results[find]

    return found


@contextmanager
def kept_for(problem: Problem) -> Iterator[None]:
    """Within the block, what a function by `once` finds of a problem is kept: its images must not change meanwhile."""
    if problem in _kept:
        yield
        return
    _kept[problem] = {}
    try:
        yield
    finally:
        _kept.pop(problem, None)
