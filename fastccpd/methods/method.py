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

Options are checked in `__post_init__`. What does not depend on a random start may be made in `prepare`, once, however
many starts there are: `solve` is then given what it returned. What else `fuse` may pass is what the class says it can
use.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike

from ..estimation.moments import SceneBands
from ..model.checks import set_fields
from ..model.problem import Factors, Maps, Problem
from ..model.result import Status, Trace
from ..model.types import Callback, Renderable

_REGISTRY: dict[str, type["Method"]] = {}

# What glibc's allocator keeps at most of freed blocks: twice the largest size (32 MB) that comes from its heap.
_KEPT_BY_ALLOCATOR = 1 << 26


@dataclass(frozen=True)
class Solution:
    """What `solve` returns: maps, factors or a rendered image, and how it went; costs are in the caller's units.

    Attributes
    ----------
    status : Status
        Why the fit ended.
    cost : float
        Of what is shown.
    n_iter : int
        How many iterations were made.
    trace : Trace
        The cost after each iteration.
    factors : Factors or None
        A, B and C, of methods that have them.
    image : array, Renderable or None
        The image of methods without maps and factors; one that takes long to be made is made when it is asked for.
    maps : Maps or None
        The image is rendered from the maps, if there are any, and else from the factors.
    uncertainty : (I, J) array or None
        The expected error of each pixel, root mean square over bands.
    effective_rank : int or None
        How many terms of the factors are not pruned.
    noise : (hsi, msi) or None
        The standard deviation of each band, of methods that estimate it.
    risk : float or None
        An estimate of its error, by which the best of several starts is chosen; None: by the cost.
    shown : "maps", "factors" or "image"
        What the image is; maps do not depend on the start, so no further one is made.
    stages : dict
        Results of the method's stages by name, if it has any.
    decomposer : callable(callback=, time_limit=) -> Decomposition, optional
        Makes the factors of maps when they are asked for.
    """

    status: Status
    cost: float
    n_iter: int
    trace: Trace
    factors: Factors | None = None
    image: np.ndarray | Renderable | None = None
    maps: Maps | None = None
    uncertainty: np.ndarray | None = None
    effective_rank: int | None = None
    noise: tuple[np.ndarray, np.ndarray] | None = None
    risk: float | None = None
    shown: str = ""
    stages: dict[str, Any] = field(default_factory=dict)
    decomposer: Callable[..., Any] | None = None

    def __post_init__(self):
        if not self.shown:
            parts = (self.maps, "maps"), (self.image, "image"), (self.factors, "factors")
            set_fields(self, shown=next((name for part, name in parts if part is not None), "image"))


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
    # Whether P1 and P2 must be one periodic blur.
    needs_periodic_blur: ClassVar[bool] = False
    # Whether it runs compiled kernels, which a warm-up has to compile.
    uses_kernels: ClassVar[bool] = False
    # Whether it gives the same bytes on any number of threads: BLAS, which does not, is then held at one.
    same_bytes_on_any_threads: ClassVar[bool] = False
    # What takes most of its memory in a large scene.
    memory_is_for: ClassVar[str] = "the rendered result"
    # Whether a part of a scene is fused with what was found from the whole: `prepare` takes it as `shared`.
    shares: ClassVar[bool] = False
    # Whether a part of a scene is fused with what is known of all of its bands, as those methods are that derive from
    # `SharesBands`.
    shares_bands: ClassVar[bool] = False
    # How many fine pixels a tile's window has at least along each side, where what is alike is looked for all over it:
    # small tiles overlap by more.
    least_window: ClassVar[int] = 0
    # Whether its image is neither maps, factors nor a mixture, and is made when it is asked for: tiles keep its pixels.
    keeps_pixels: ClassVar[bool] = False
    # Whether it tells the expected error of each pixel.
    tells_uncertainty: ClassVar[bool] = False

    def for_part(self, share: float) -> "Method":
        """The method for a part of a scene: options that count what the whole scene has count what the part has.

        Parameters
        ----------
        share : float
            Of the scene's pixels, those of the part.

        Returns
        -------
        Method
            By default the method itself.
        """
        return self

    def check(self, problem: Problem) -> None:
        """Refuse, in one sentence and before any work, a problem that `solve` cannot solve with these options."""

    def prepare(self, problem: Any, *, callback: Callback | None = None, time_limit: float | None = None) -> Any:
        """What every start begins with, made once: by default the problem itself."""
        return problem

    def solve(
        self, problem: Any, *, rng: Generator, callback: Callback | None = None, time_limit: float | None = None
    ) -> Solution:
        """Fuse a problem, from one start.

        Parameters
        ----------
        problem : object
            What `prepare` returned.
        rng : numpy.random.Generator
            Draws the start.
        callback : callable(Progress) -> bool, optional
            Called several times a second; True stops the run.
        time_limit : float, optional
            Seconds.

        Returns
        -------
        Solution
        """
        raise NotImplementedError(f"{type(self).__name__} has no solve")

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        """An upper bound on the bytes `solve` allocates; an image it returns counts, one rendered later does not."""
        raise NotImplementedError(f"{type(self).__name__} has no memory_needed")

    def options(self) -> dict[str, Any]:
        """The options as plain values, enough to make the method again."""
        return asdict(self)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of its options: its own first, then those of its bases."""

        def distance(name):
            return max(n for n, base in enumerate(cls.__mro__) if name in getattr(base, "__dataclass_fields__", ()))

        return tuple(sorted((f.name for f in fields(cls)), key=distance))


@dataclass(frozen=True, kw_only=True)
class SharesBands(Method):
    """The base of the methods that fuse a part of a scene with what all of it says of its bands.

    Their `solve` is given a problem, or a problem and the `SceneBands` of the scene.
    """

    shares_bands: ClassVar[bool] = True

    def prepare(
        self,
        problem: Any,
        *,
        callback: Callback | None = None,
        time_limit: float | None = None,
        shared: SceneBands | None = None,
    ) -> Problem | tuple[Problem, SceneBands]:
        """The problem; of a part of a scene also what is known of the bands of all of it."""
        return problem if shared is None else (problem, shared)


@dataclass(frozen=True, kw_only=True)
class Compiled(Method):
    """The base of the methods that are made of our kernels: bytes that do not depend on threads, and gaps."""

    takes_gaps: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True
    same_bytes_on_any_threads: ClassVar[bool] = True


M = TypeVar("M", bound=Method)


def memory_of_phases(*phases: int) -> int:
    """Bytes of phases that follow each other: the largest, and what the allocator keeps of the others.

    Three quarters of the others, up to a limit, are above what was kept in all runs that were measured.
    """
    return max(phases) + min(3 * (sum(phases) - max(phases)) // 4, _KEPT_BY_ALLOCATOR)


def register(name: str) -> Callable[[type[M]], type[M]]:
    """Make a method known under a name: a decorator of its class.

    Parameters
    ----------
    name : str
        What `fuse` then takes as `method`.

    Returns
    -------
    callable(class) -> class
    """

    def add(cls):
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return add


def names() -> tuple[str, ...]:
    """The names that `fuse` takes as `method`."""
    return tuple(_REGISTRY)


def get(name: str) -> type[Method]:
    """The class of a method.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    type
    """
    if not isinstance(name, str):
        raise TypeError(f"method: got {name!r}; a name or a Method is needed, one of {', '.join(names())}")
    if name not in _REGISTRY:
        close = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"method: got {name!r}; {hint}known are {', '.join(names())}")
    return _REGISTRY[name]


def make(name: str, options: Mapping[str, Any]) -> Method:
    """A method with its options set.

    Parameters
    ----------
    name : str
        One of `names()`.
    options : dict
        By name. An unknown one is a TypeError that lists those that there are.

    Returns
    -------
    Method
    """
    cls = get(name)
    unknown = sorted(set(options) - set(cls.option_names()))
    if unknown:
        close = difflib.get_close_matches(unknown[0], cls.option_names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise TypeError(f"{unknown[0]}: {name!r} cannot use this option; {hint}it has {', '.join(cls.option_names())}")
    return cls(**options)
