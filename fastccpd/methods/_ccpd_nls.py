"""What the non-negative and the unconstrained coupled CPD share: start, solve, report."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..kernels.block_cholesky import triangle
from ..kernels.mttkrp import blocks_for
from ..kernels.simd import padded
from ..model.checks import as_choice, as_count, as_number, set_fields
from ..model.problem import Problem
from ..model.result import Status, Trace
from ..model.types import Callback
from ..solver.coupled_cpd import CURVATURES, CoupledCPD
from ..solver.misfit import SLAB
from ..solver.regularisers import Regulariser, Ridge, Smoothness, Subspace, as_regularisers
from ..solver.starts import given_start, own_scale, random_start
from ..solver.trust_region import Options, Rules, minimize
from .method import Compiled, Solution


@dataclass(frozen=True, kw_only=True)
class CoupledNLS(Compiled, Rules):
    """Coupled CP decomposition by nonlinear least squares, with the trust-region solver of `fastccpd.solver`.

    Parameters
    ----------
    rank : int
        The number R of rank-one terms.
    curvature : {"positive", "gauss-newton"}
        "positive" adds the cheap positive part of the true Hessian, "gauss-newton" (the paper's) does not.
    ridge : float
        Weight of ½‖x‖², for data divided by the scene's scale; on squared parameters an L1 prior on the factors.
    smoothness : (float, float, float)
        Weights of ½‖DA‖², ½‖DB‖², ½‖DC‖², differences down the factors of rows, columns and bands.
    subspace : float
        Weight of ½‖(I − EE')C‖², with E the `subspace_rank` leading singular vectors of the HSI's spectra.
    subspace_rank : int
        How many singular vectors E has.
    weights : (float, float)
        Of the HSI's and of the MSI's misfit.
    **rules
        As of `fastccpd.solver.Rules`.
    """

    rank: int = 30
    curvature: str = "positive"
    ridge: float = 0.0
    smoothness: tuple[float, float, float] = (0.0, 0.0, 0.0)
    subspace: float = 0.0
    subspace_rank: int = 4
    weights: tuple[float, float] = (1.0, 1.0)

    has_starts: ClassVar[bool] = True
    takes_init: ClassVar[bool] = True
    takes_regularisers: ClassVar[bool] = True
    memory_is_for: ClassVar[str] = "factors in float64"

    def __post_init__(self):
        super().__post_init__()
        as_choice(self.curvature, "curvature", CURVATURES)
        for name in ("rank", "subspace_rank"):
            set_fields(self, **{name: as_count(getattr(self, name), name)})
        for name in ("ridge", "subspace"):
            set_fields(self, **{name: as_number(getattr(self, name), name)})
        weights = _numbers(self.weights, "weights", "two numbers, for HSI and MSI,", 2)
        smoothness = _numbers(self.smoothness, "smoothness", "three numbers, for rows, columns and bands,", 3)
        if not any(weights):
            raise ValueError(f"weights: got {weights}; at least one above zero is needed")
        set_fields(self, weights=weights, smoothness=smoothness)

    def _solver_options(self, time_limit):
        return Options(**{rule.name: getattr(self, rule.name) for rule in fields(Rules)}, max_seconds=time_limit)

    @property
    def parametrisation(self) -> str | tuple[str, ...]:
        """One of the names of `solver.parametrisation`, or one for each mode."""
        return "identity"

    def solve(
        self,
        problem: Problem,
        *,
        rng: np.random.Generator,
        callback: Callback | None = None,
        time_limit: float | None = None,
        init: Iterable[ArrayLike] | None = None,
        regularisers: Sequence[Regulariser] = (),
    ) -> Solution:
        scale = own_scale(problem)
        parametrisation = self.parametrisation
        priors = (*self._regularisers(problem), *as_regularisers(regularisers))
        objective = CoupledCPD.of_problem(
            problem, self.rank, parametrisation, self.curvature, priors, self.weights, scale
        )
        if init is None:
            x0 = random_start(problem, self.rank, parametrisation, rng)
        else:
            x0 = given_start(init, problem, self.rank, parametrisation, scale)
        state = minimize(objective, x0, self._solver_options(time_limit), callback)
        trace = Trace(**vars(state.trace))
        trace.cost = [cost * scale**2 for cost in trace.cost]
        return Solution(
            status=cast(Status, state.status),  # a run that has ended says why
            cost=state.cost * scale**2,
            n_iter=state.n_iter,
            trace=trace,
            factors=objective.factors(state.x),
        )

    def _regularisers(self, problem: Problem) -> Iterator[Regulariser]:
        I, J, K = problem.sri_shape
        if self.ridge:
            yield Ridge(self.ridge)
        if any(self.smoothness):
            yield Smoothness(self.smoothness, (I, J, K))
        if self.subspace:
            pixels = problem.hsi.reshape(-1, K).astype(np.float64, copy=False)
            _, vectors = np.linalg.eigh(pixels.T @ pixels)
            yield Subspace(self.subspace, vectors[:, ::-1][:, : self.subspace_rank], slice(I + J, I + J + K))

    def memory_needed(self, hsi_shape: Sequence[int], msi_shape: Sequence[int], dtype: DTypeLike) -> int:
        n, m = sum(msi_shape[:2]) + hsi_shape[2], sum(hsi_shape) + sum(msi_shape)
        width = padded(self.rank, dtype)
        vectors = 16 * n * self.rank  # x, g, p, r, d, their products, the trial point, slopes and diagonals
        points = 2 * (n * self.rank + (n + 2 * m) * width + 12 * width**2)
        products = (2 * m + 4 * n) * width + 8 * width**2
        partial_sums = sum(blocks_for(shape, width) * (shape[1] + shape[2]) * width for shape in (hsi_shape, msi_shape))
        blocks = (n + 24) * triangle(self.rank) // 2 + 16 * self.rank**2
        singles = m * width // 2 if dtype == np.float32 else 0
        # The slab in which norms are summed is gone before the first vector is made.
        slab = min(max(math.prod(hsi_shape), math.prod(msi_shape)), SLAB)
        return 8 * (points + products + partial_sums + singles + max(vectors + blocks, slab))


def _numbers(values, name, needed, count):
    """As many numbers of at least zero, as a tuple."""
    if not isinstance(values, tuple | list | np.ndarray):
        raise TypeError(f"{name}: got {values!r}; {needed} are needed")
    if len(values) != count:
        raise ValueError(f"{name}: got {len(values)} numbers; {needed} are needed")
    return tuple(as_number(value, f"{name}[{n}]") for n, value in enumerate(values))
