"""What the non-negative and the unconstrained coupled CPD share: start, solve, report."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..estimation import Noise, fit_rank_path, image_risk, noise_of, ranks_for, signal_basis
from ..estimation.chain import Chain
from ..estimation.decomposition import misfits
from ..estimation.image_risk import ImageRisk, foreseen_risk
from ..estimation.rank_path import effective_rank, likely_spectra
from ..estimation.unseen_spectra import with_likely_spectra
from ..kernels.block_cholesky import triangle
from ..kernels.mttkrp import scratch_numbers
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

# Where the rank is to be found, fits of more terms than this end the sooner the more they are: on the path in
# proportion, and by the square where the chosen rank is fitted to the end. An iteration costs more there, and what is
# left to gain are spectra that the HSI does not see: likely ones are better than fitted ones.
_HASTY = 25


@dataclass(frozen=True, kw_only=True)
class CoupledNLS(Compiled, Rules):
    """Coupled CP decomposition by nonlinear least squares, with the trust-region solver of `fastccpd.solver`.

    Parameters
    ----------
    rank : int or "auto"
        The number R of rank-one terms. "auto" goes along a path of ranks, each begun where the one before ended, and
        takes the one of least estimated error; `result.stages["rank"]` says what was tried.
    compress : int, "auto" or None
        Fit the HSI in an orthonormal basis of so many of its spectra: less work, less noise. "auto" takes as many as
        are above the noise, and leaves an HSI with gaps as it is. None: the HSI as it is.
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

    rank: int | str = 30
    compress: int | str | None = None
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
        set_fields(self, subspace_rank=as_count(self.subspace_rank, "subspace_rank"))
        set_fields(self, rank=count_or_auto(self.rank, "rank"))
        if self.compress is not None:
            set_fields(self, compress=count_or_auto(self.compress, "compress"))
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

    def prepare(self, problem: Any, *, callback: Callback | None = None, time_limit: float | None = None) -> Any:
        if isinstance(problem, _Prepared):
            return problem
        compress = self.compress if problem.hsi_valid is None or self.compress != "auto" else None
        if compress is not None and problem.hsi_valid is not None:
            raise ValueError(
                f"compress: got {compress} beside hsi_valid, but pixels with gaps have no whole spectra; "
                "None or 'auto' is needed"
            )
        noise = noise_of(problem) if self.rank == "auto" or compress is not None else None
        if noise is None or compress is None:
            return _Prepared(problem, noise)
        count = None if isinstance(compress, str) else as_count(compress, "compress", most=problem.hsi.shape[2])
        return _Prepared(problem, noise, signal_basis(noise, count))

    def solve(
        self,
        problem: Any,
        *,
        rng: np.random.Generator,
        callback: Callback | None = None,
        time_limit: float | None = None,
        init: Iterable[ArrayLike] | None = None,
        regularisers: Sequence[Regulariser] = (),
    ) -> Solution:
        prepared = self.prepare(problem)
        problem, scale = prepared.problem, own_scale(prepared.problem)
        priors = (*self._regularisers(problem), *as_regularisers(regularisers))

        rank = 1 if isinstance(self.rank, str) else self.rank
        how = self.parametrisation, self.curvature, priors, self.weights, scale, prepared.basis
        objective = CoupledCPD.of_problem(problem, rank, *how)
        if isinstance(self.rank, str):  # "auto"
            # In a basis of few spectra noise is hardly seen, and the risk would take terms that only fit it.
            whole = objective if prepared.basis is None else CoupledCPD.of_problem(problem, rank, *how[:-1])
            return self._along_ranks(prepared, objective.at_rank, whole.at_rank, rng, callback, time_limit, init)
        if init is None:
            x0 = random_start(problem, self.rank, self.parametrisation, rng)
        else:
            x0 = given_start(init, problem, self.rank, self.parametrisation, scale)
        state = minimize(objective, x0, self._solver_options(time_limit), callback, pulse=callback)
        trace = Trace(**vars(state.trace))
        trace.cost = [cost * scale**2 for cost in trace.cost]
        return Solution(
            status=cast(Status, state.status),  # a run that has ended says why
            cost=state.cost * scale**2,
            n_iter=state.n_iter,
            trace=trace,
            factors=objective.factors(state.x),
        )

    def _along_ranks(self, prepared, objective_of, whole_of, rng, callback, time_limit, init):
        """The solution at the rank of least risk, brought to its end from where the path left it."""
        problem, noise, options = prepared.problem, prepared.noise, self._solver_options(None)
        start = None
        if init is not None:
            factors = tuple(init) if isinstance(init, Iterable) and not isinstance(init, str) else init
            rank = np.shape(factors[0])[-1] if isinstance(factors, tuple) and factors and np.ndim(factors[0]) else 1
            start = given_start(factors, problem, max(1, rank), self.parametrisation, own_scale(problem))
            rng = np.random.default_rng(0)  # a given start is where all begins
        watching = Chain("decomposition", callback, time_limit)
        sigmas = noise.hsi_floored, noise.msi_floored

        risks: dict[int, ImageRisk] = {}

        def risk_of(objective, x):
            judged = objective if prepared.basis is None else whole_of(objective.rank)
            risks[objective.rank] = image_risk(judged, x, sigmas)
            return risks[objective.rank].total

        chain = Chain("rank", callback, time_limit)
        how = {"rng": rng, "options": options, "start": start, "chain": chain}
        how |= {"spectra": likely_spectra(problem, noise), "hasty": _HASTY}
        how |= {"foreseen": partial(foreseen_risk, risks)}
        path, x = fit_rank_path(problem, objective_of, risk_of, **how)
        ended = not path.status.goes_on_to_next_start  # somebody, or the clock, has called a halt
        if ended or path.at_end:
            # At the end of the path no noise limits the fit yet: to fit the model's own error more closely would only
            # move what the images do not see.
            options = replace(options, max_iter=0)
        options = replace(options, ftol=options.ftol * max(1.0, path.rank / _HASTY) ** 2)
        if ended:
            watching = Chain("decomposition")
        objective = objective_of(path.rank)
        state = watching.fit(objective, x, options, objective.scale)
        factors, status = objective.factors(state.x), cast(Status, state.status)
        if not ended and status.goes_on_to_next_start and self.max_iter > 0:
            left = misfits(problem, factors)[0] / problem.sizes[0]
            factors = with_likely_spectra(problem, noise, factors, left)
            watching.trace.cost[-1] = 0.5 * float(np.dot(self.weights, misfits(problem, factors)))
        return Solution(
            status=path.status if options.max_iter == 0 and status.goes_on_to_next_start else status,
            cost=watching.trace.cost[-1],
            n_iter=watching.n_iter,
            trace=watching.trace,
            factors=factors,
            effective_rank=effective_rank(factors),
            noise=(noise.hsi, noise.msi),
            risk=path.risk,
            stages={"noise": noise, "rank": path},
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
        rank = ranks_for(hsi_shape, msi_shape)[-1] if isinstance(self.rank, str) else self.rank
        width = padded(rank, dtype)
        # x, g, d, products, the trial point, slopes, diagonals; p and r of this step, the last and one that failed
        vectors = 21 * n * rank
        points = 2 * (n * rank + (n + 2 * m) * width + 12 * width**2)
        products = (2 * m + 5 * n) * width + 12 * width**2
        partial_sums = sum(scratch_numbers(shape, width) for shape in (hsi_shape, msi_shape))
        blocks = (n + 24) * triangle(rank) // 2 + 16 * rank**2
        singles = m * width if dtype == np.float32 else 0
        # The slab in which norms are summed is gone before the first vector is made.
        slab = min(max(math.prod(hsi_shape), math.prod(msi_shape)), SLAB)
        needed = 8 * (points + products + partial_sums + singles + max(vectors + blocks, slab))
        if self.rank == "auto" or self.compress is not None:
            needed += self._memory_of_noise(hsi_shape, msi_shape)
        if self.rank == "auto":
            needed += 8 * (6 * n * rank + 4 * rank**2 + 3 * slab)  # the best x so far, and the probe
        if self.rank == "auto" and self.compress is not None:
            # What judges a rank, beside what fits it.
            needed += 8 * (points + products + partial_sums + singles + blocks)
        if self.compress is not None:
            bands = hsi_shape[2] if isinstance(self.compress, str) else min(self.compress, hsi_shape[2])
            needed += np.dtype(dtype).itemsize * hsi_shape[0] * hsi_shape[1] * bands + 8 * (
                3 * slab + 4 * bands * width
            )
        return needed

    @staticmethod
    def _memory_of_noise(hsi_shape, msi_shape):
        """What `noise_of` takes: the HSI's pixels in float64, second differences of the MSI, matrices of bands."""
        return 8 * (3 * math.prod(hsi_shape) + 6 * math.prod(msi_shape) + 12 * hsi_shape[2] ** 2)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A problem, and what of it is found once, whatever the number of starts."""

    problem: Problem
    noise: Noise | None = None
    basis: np.ndarray | None = None


def count_or_auto(value: Any, name: str) -> int | str:
    """`value` as a whole number of at least 1, or "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise TypeError(f"{name}: got {value!r}; a whole number of at least 1 or 'auto' is needed")
        return value
    return as_count(value, name)


def _numbers(values, name, needed, count):
    """As many numbers of at least zero, as a tuple."""
    if not isinstance(values, tuple | list | np.ndarray):
        raise TypeError(f"{name}: got {values!r}; {needed} are needed")
    if len(values) != count:
        raise ValueError(f"{name}: got {len(values)} numbers; {needed} are needed")
    return tuple(as_number(value, f"{name}[{n}]") for n, value in enumerate(values))
