"""What a run leaves behind: why it stopped, how it went, and the image."""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

import numpy as np

from .problem import Factors, Maps, as_part


class Status(Enum):
    """Why a run ended; the value is the sentence."""

    GRADIENT_SMALL = "converged: the gradient is small"
    COST_SETTLED = "converged: the cost no longer changes"
    STEP_SMALL = "converged: the step is small"
    FINISHED = "finished: the method has no iterations left to do"
    MAX_ITERATIONS = "stopped: the iteration limit is reached"
    TIME_LIMIT = "stopped: the time limit is reached"
    CALLBACK = "stopped: the callback asked for it"
    NOT_FINITE = "failed: the cost is not finite at the starting point"

    @property
    def converged(self):
        return self in (Status.GRADIENT_SMALL, Status.COST_SETTLED, Status.STEP_SMALL, Status.FINISHED)

    @property
    def goes_on_to_next_start(self):
        """Whether further random starts make sense: not after a callback or the clock has called a halt."""
        return self not in (Status.CALLBACK, Status.TIME_LIMIT)

    def __str__(self):
        return self.value


@dataclass
class Trace:
    """One entry for the start and one for each outer iteration."""

    cost: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    radius: list[float] = field(default_factory=list)
    rho: list[float] = field(default_factory=list)
    cg_iterations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def append(self, **entry):
        for column in fields(self):
            getattr(self, column.name).append(entry[column.name])

    def __len__(self):
        return len(self.cost)


@dataclass(eq=False)
class FusionResult:
    """A fused scene and how it was made.

    Attributes
    ----------
    sri : (I, J, K) array
        The super-resolution image, rendered from the maps or the factors when first asked for.
    factors : Factors or None
        None for methods that have none.
    maps : Maps or None
        If there are any, `sri` is rendered from them, and the factors are their decomposition.
    uncertainty : (I, J) array or None
        Expected error of each pixel, root mean square over bands, in the caller's units; where several starts were
        combined by their mean and the method has nothing better, their spread.
    effective_rank : int or None
        Terms of the decomposition that are not pruned away.
    noise : (hsi, msi) or None
        Standard deviation of the noise of each band, as estimated.
    combined : int
        Of how many starts the image is the mean; all else is of the best one.
    status : Status
    converged : bool
    cost : float
        In the caller's units.
    n_iter : int
    trace : Trace
        Of the winning start, in the caller's units.
    start_costs : tuple of float
        The final cost of every start; their spread tells how far the start matters.
    seconds : float
    method, options, seed, provenance
        What would make it again: the method's name, its options, the seed, and versions, threads, shapes.
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
    factors: Factors | None = None
    start_costs: tuple[float, ...] = ()
    image: np.ndarray | None = None
    maps: Maps | None = None
    uncertainty: np.ndarray | None = None
    effective_rank: int | None = None
    noise: tuple[np.ndarray, np.ndarray] | None = None
    combined: int = 1

    @property
    def shape(self):
        """(I, J, K) of the image, without rendering it."""
        return next(part.shape for part in (self.image, self.maps, self.factors) if part is not None)

    @property
    def sri(self):
        if self.image is None:
            self.image = self.render()
        return self.image

    def render(self, rows=None, cols=None, bands=None):
        """A block of the super-resolution image: slices, indices or index arrays, None for a whole axis."""
        if self.image is None:
            source = self.maps if self.maps is not None else self.factors
            return source.render(rows, cols, bands, dtype=self.dtype)
        block = self.image
        for axis, part in enumerate((rows, cols, bands)):
            block = block[(slice(None),) * axis + (as_part(part),)]
        return np.ascontiguousarray(block)

    @property
    def converged(self):
        return self.status.converged

    def __repr__(self):
        size = "×".join(map(str, self.shape)) + (f", mean of {self.combined} starts" if self.combined > 1 else "")
        return f"<FusionResult {self.method}: {size}, cost {self.cost:.6g}, {self.n_iter} iterations, {self.status}>"
