"""What a fusion method is: its options, and a `solve`.

A method is a frozen, keyword-only dataclass deriving from `Method` and registered under a name:

    @register("my-method")
    @dataclass(frozen=True, kw_only=True)
    class MyMethod(Method):
        '''One line. Cite the paper.'''
        rank: int = 30

        def solve(self, problem, *, rng, callback=None, time_limit=None):
            ...
            return Solution(status=..., cost=..., n_iter=..., trace=..., image=...)

Options are checked in `__post_init__`. What else `fuse` may pass is what the class says it can use.
"""

import difflib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

import numpy as np

from ..model.problem import Factors, Maps
from ..model.result import Status, Trace

_REGISTRY: dict[str, type["Method"]] = {}


@dataclass(frozen=True)
class Solution:
    """What `solve` returns: maps, factors or a rendered image, and how it went; costs are in data units.

    The image is rendered from the maps, if there are any, and else from the factors.
    """

    status: Status
    cost: float
    n_iter: int
    trace: Trace
    factors: Factors | None = None
    image: np.ndarray | None = None
    maps: Maps | None = None
    uncertainty: np.ndarray | None = None
    effective_rank: int | None = None
    noise: tuple[np.ndarray, np.ndarray] | None = None


@dataclass
class Progress:
    """What a callback sees of a method that is not run by the trust-region solver."""

    n_iter: int
    cost: float
    seconds: float
    trace: Trace


@dataclass(frozen=True, kw_only=True)
class Method:
    """The base of every method."""

    name: ClassVar[str] = ""
    nonnegative: ClassVar[bool] = False
    # Whether the result depends on a random start (so that `starts` and `init` make sense).
    has_starts: ClassVar[bool] = False
    takes_init: ClassVar[bool] = False
    # Whether its cost can have further terms, the caller's `regularisers`.
    takes_regularisers: ClassVar[bool] = False
    # Whether it can leave out data that are not valid.
    takes_gaps: ClassVar[bool] = False
    # Whether it tells the expected error of each pixel.
    tells_uncertainty: ClassVar[bool] = False

    def solve(self, problem, *, rng: np.random.Generator, callback: Callable | None = None, time_limit=None):
        raise NotImplementedError(f"{type(self).__name__} has no solve")

    def memory_needed(self, hsi_shape, msi_shape, dtype) -> int:
        """An upper bound on the bytes `solve` allocates; an image it returns counts, one rendered later does not."""
        raise NotImplementedError(f"{type(self).__name__} has no memory_needed")

    def options(self):
        """The options as plain values, enough to make the method again."""
        return asdict(self)

    @classmethod
    def option_names(cls):
        return tuple(f.name for f in fields(cls))


def register(name):
    """Class decorator: make a method known under `name`."""

    def add(cls):
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return add


def names():
    """The names that `fuse` takes as `method`."""
    return tuple(_REGISTRY)


def get(name):
    """The class of the method called `name`."""
    if not isinstance(name, str):
        raise TypeError(f"method: got {name!r}; a name or a Method is needed, one of {', '.join(names())}")
    if name not in _REGISTRY:
        close = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"method: got {name!r}; {hint}known are {', '.join(names())}")
    return _REGISTRY[name]


def make(name, options):
    """The method called `name` with `options`; an unknown option is a TypeError that lists the valid ones."""
    cls = get(name)
    unknown = sorted(set(options) - set(cls.option_names()))
    if unknown:
        close = difflib.get_close_matches(unknown[0], cls.option_names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise TypeError(f"{unknown[0]}: {name!r} cannot use this option; {hint}it has {', '.join(cls.option_names())}")
    return cls(**options)
