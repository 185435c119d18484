"""What a run leaves behind: why it stopped, how it went, and the image."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, cast

import numpy as np

from .degradation import Degradation
from .problem import Factors, Maps, as_part
from .types import Callback, Part, Path, Renderable
from .verdict import Grade, Verdict


class Status(Enum):
    """Why a run ended; the value is the sentence."""

    GRADIENT_SMALL = "converged: the gradient is small"
    COST_SETTLED = "converged: the cost no longer changes"
    STEP_SMALL = "converged: the step is small"
    FINISHED = "finished: the method has no iterations left to do"
    MAX_ITERATIONS = "stopped: the iteration limit is reached"
    TIME_LIMIT = "stopped: the time limit is reached"
    CALLBACK = "stopped: the callback asked for it"
    NOT_FINITE = "failed: the images, the cost or the result hold values that are not finite"
    WORSE_THAN_DARK = "failed: the image explains the data less than a dark one would"
    ERROR = "failed: an error ended it"

    @property
    def converged(self) -> bool:
        """Whether the run came to its own end."""
        return self in (Status.GRADIENT_SMALL, Status.COST_SETTLED, Status.STEP_SMALL, Status.FINISHED)

    @property
    def goes_on_to_next_start(self) -> bool:
        """Whether further random starts make sense: not after a callback or the clock has called a halt."""
        return self not in (Status.CALLBACK, Status.TIME_LIMIT)

    def __str__(self):
        return self.value


@dataclass
class Trace:
    """What is known of each iteration: one entry for the start, and one for each outer iteration.

    Attributes
    ----------
    cost : list of float
        That of the start, and after each iteration.
    gradient_norm, radius, rho : lists of float
        Of the trust region; NaN for what has none. rho is the decrease over the one that the model promised.
    cg_iterations : list of int
        Products with the Hessian that the iteration took.
    seconds : list of float
        Since the beginning.
    """

    cost: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    radius: list[float] = field(default_factory=list)
    rho: list[float] = field(default_factory=list)
    cg_iterations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def append(self, **entry: float) -> None:
        """An iteration, by the names of the attributes."""
        for column in fields(self):
            getattr(self, column.name).append(entry[column.name])

    def append_cost(self, cost: float, cg_iterations: int, seconds: float) -> None:
        """An iteration of something without gradient or trust region."""
        self.append(
            cost=cost,
            gradient_norm=float("nan"),
            radius=float("nan"),
            rho=float("nan"),
            cg_iterations=cg_iterations,
            seconds=seconds,
        )

    def __len__(self):
        return len(self.cost)


@dataclass
class Progress:
    """What a callback sees.

    Attributes
    ----------
    n_iter : int
        Iterations done, of this stage.
    cost : float
    seconds : float
    trace : Trace
        So far, of this stage.
    stage : str
        The stage of a method that has several: "tv-maps", "rank" or "decomposition", of "stereo" "start"; else empty.
    """

    n_iter: int
    cost: float
    seconds: float
    trace: Trace
    stage: str = ""


@dataclass(eq=False)
class FusionResult:
    """A fused scene and how it was made.

    Attributes
    ----------
    sri : (I, J, K) array
        The super-resolution image, rendered from the maps or the factors when first asked for.
    shown : "maps", "factors" or "image"
        What the image is rendered from; `status`, `converged`, `cost`, `n_iter` and `trace` are of that.
    factors : Factors or None
        A, B, C of the scene; None for methods that have none. Of an image that is shown as maps they are made when
        first asked for, which takes a while: `decompose` is the explicit form.
    known_factors : Factors or None
        Those that have been made already.
    maps : Maps or None
        If there are any, `sri` is rendered from them.
    uncertainty : (I, J) array or None
        Expected error of each pixel, root mean square over bands, in the caller's units; where several starts were
        combined by their mean and the method has nothing better, their spread.
    effective_rank : int or None
        Terms of the decomposition that are not pruned away, once it has been made.
    noise : (hsi, msi) or None
        Standard deviation of the noise of each band, as estimated.
    stages : dict
        The result of each stage of a method that has several, by name: for the default "noise", "subspace", "tv-maps",
        "decomposition" (where it was made) and "choice"; "degradation" where the operators were estimated.
    combined : int
        Of how many starts the image is the mean; all else is of the best one.
    status : Status
    converged : bool
    cost : float
        ½ ‖…‖² of the two images' misfit, in the caller's units, for the methods that minimise it.
    n_iter : int
    trace : Trace
        Of the winning start, in the caller's units.
    verdict : Verdict
        Whether the two images agree, given the operators: what to read first.
    start_costs : tuple of float
        The final cost of every start; their spread tells how far the start matters.
    seconds : float
    degradation : Degradation or None
        The operators that were used.
    method, options, seed, provenance
        What would make it again: the method's name, its options, the seed, and versions, threads, shapes.
    decomposer : callable or None
        What makes the factors of maps.
    dtype : numpy.dtype
        Of `sri`.
    image : array or None
        `sri`, once it has been rendered.
    source : Renderable or None
        What `sri` is rendered from where that is neither maps nor factors; let go of once it has been.
    """

    status: Status
    cost: float
    n_iter: int
    trace: Trace
    seconds: float
    method: str
    options: dict[str, Any]
    seed: Any
    provenance: dict[str, Any]
    dtype: np.dtype
    known_factors: Factors | None = None
    start_costs: tuple[float, ...] = ()
    image: np.ndarray | None = None
    source: Renderable | None = None
    maps: Maps | None = None
    uncertainty: np.ndarray | None = None
    effective_rank: int | None = None
    noise: tuple[np.ndarray, np.ndarray] | None = None
    combined: int = 1
    shown: str = "image"
    stages: dict[str, Any] = field(default_factory=dict)
    degradation: Degradation | None = None
    verdict: Verdict = field(default_factory=lambda: Verdict(Grade.UNKNOWN, details="nothing was compared"))
    decomposer: Callable[..., Any] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(I, J, K) of the image, without rendering it."""
        return (self._rendered_from if self.image is None else self.image).shape

    @property
    def sri(self) -> np.ndarray:
        """The image, rendered when first asked for."""
        if self.image is None:
            self.image, self.source = self.render(), None
        return self.image

    @property
    def _rendered_from(self) -> Renderable:
        return cast(Renderable, next(p for p in (self.source, self.maps, self.known_factors) if p is not None))

    @property
    def factors(self) -> Factors | None:
        """A, B and C, made when first asked for."""
        if self.known_factors is None and self.decomposer is not None:
            self.decompose()
        return self.known_factors

    def decompose(self, *, callback: Callback | None = None, time_limit: float | None = None) -> Factors | None:
        """The factors of this image: those that are known, or those that are made now, the same ones each time.

        Parameters
        ----------
        callback : callable(Progress) -> bool, optional
            Called after every iteration; True ends the decomposition.
        time_limit : float, optional
            Seconds.

        Returns
        -------
        Factors or None
            None for methods that have none. Factors of a decomposition that was ended early are not kept.
        """
        if self.known_factors is not None or self.decomposer is None:
            return self.known_factors
        found = self.decomposer(callback=callback, time_limit=time_limit)
        if found.status.goes_on_to_next_start:
            self.known_factors, self.effective_rank = found.factors, found.effective_rank
            self.stages = self.stages | {"decomposition": found}
        return found.factors

    @property
    def uncertainty_spectrum(self) -> np.ndarray | None:
        """The expected error of each band, root mean square over pixels, where the method tells it."""
        return getattr(self.stages.get("tv-maps"), "expected_spectrum", None) if self.shown == "maps" else None

    def render(self, rows: Part = None, cols: Part = None, bands: Part = None) -> np.ndarray:
        """A block of the super-resolution image.

        Parameters
        ----------
        rows, cols, bands : slice, index or array of indices, optional
            None for a whole axis; of a single index the axis stays, of length 1.
        """
        if self.image is None:
            return self._rendered_from.render(rows, cols, bands, dtype=self.dtype)
        block = self.image
        for axis, part in enumerate((rows, cols, bands)):
            block = block[(slice(None),) * axis + (as_part(part),)]
        return np.ascontiguousarray(block)

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write this result to an npz file that `fastccpd.load` reads: maps or factors rather than pixels.

        Parameters
        ----------
        path : path
        overwrite : bool
            False refuses a path where something is.
        """
        from .saving import save

        save(self, path, overwrite=overwrite)

    @property
    def converged(self) -> bool:
        return self.status.converged

    def __repr__(self):
        size = "×".join(map(str, self.shape)) + (f", mean of {self.combined} starts" if self.combined > 1 else "")
        figures = f"cost {self.cost:.6g}, {self.n_iter} iterations, {self.status}; {self.verdict.grade.value}"
        return f"<FusionResult {self.method}: {size}, {figures}>"


@dataclass(frozen=True, eq=False)
class FailedFusion:
    """What `fuse_many` gives in place of a result, with on_error="keep", where there is an error.

    It has a status, as results have, so that a list of both can be looked through.

    Attributes
    ----------
    error : Exception
        What `fuse_many` would have raised; its sentence names the pair.
    status : Status
        `Status.ERROR`.
    converged : bool
        False.

    Examples
    --------
    >>> import fastccpd
    >>> (failed,) = fastccpd.fuse_many(["no pair"], on_error="keep")
    >>> failed.converged, str(failed.error)
    (False, 'pairs[0]: got str; (hsi, msi) or (hsi, msi, degradation) is needed')
    """

    error: Exception
    status: Status = Status.ERROR

    @property
    def converged(self) -> bool:
        return self.status.converged

    def __repr__(self):
        return f"<FailedFusion {type(self.error).__name__}: {self.error}>"
