"""What the non-negative and the unconstrained coupled CPD share: start, solve, report."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..kernels import gram
from ..kernels._simd import padded
from ..kernels.block_cholesky import triangle
from ..kernels.mttkrp import blocks_for
from ..model.checks import as_choice, as_count, as_number, set_fields
from ..model.result import Trace
from ..solver.coupled_cpd import CURVATURES, CoupledCPD
from ..solver.misfit import SLAB
from ..solver.parametrisation import per_mode
from ..solver.regularisers import Ridge, Smoothness, Subspace, as_regularisers
from ..solver.trust_region import Options, minimize
from .method import Method, Solution

# A given start is lifted to this part of its factor's mean: at x = 0 a squared parameter has no gradient.
_LIFT = 1e-4


@dataclass(frozen=True, kw_only=True)
class CoupledNLS(Method):
    """Coupled CP decomposition by nonlinear least squares; the options of `solver.trust_region.Options` are its own.

    rank : the number R of rank-one terms.
    curvature : "positive" adds the cheap positive part of the true Hessian, "gauss-newton" (the paper's) does not.
    ridge : weight of ½‖x‖², for data divided by the scene's scale; on squared parameters an L1 prior on the factors.
    smoothness : weights of ½‖DA‖², ½‖DB‖², ½‖DC‖², differences down the factors of rows, columns and bands.
    subspace : weight of ½‖(I − EE')C‖², with E the `subspace_rank` leading singular vectors of the HSI's spectra.
    weights : of the HSI's and of the MSI's misfit.
    """

    rank: int = 30
    step: str = Options.step
    curvature: str = "positive"
    ridge: float = 0.0
    smoothness: tuple[float, float, float] = (0.0, 0.0, 0.0)
    subspace: float = 0.0
    subspace_rank: int = 4
    weights: tuple[float, float] = (1.0, 1.0)
    max_iter: int = Options.max_iter
    gtol: float = Options.gtol
    ftol: float = Options.ftol
    xtol: float = Options.xtol
    radius0: float | None = Options.radius0
    eta: float = Options.eta
    pcg_max_iter: int = Options.pcg_max_iter
    pcg_rtol: float = Options.pcg_rtol

    has_starts: ClassVar[bool] = True
    takes_init: ClassVar[bool] = True
    takes_regularisers: ClassVar[bool] = True
    takes_gaps: ClassVar[bool] = True

    def __post_init__(self):
        self._solver_options(None)
        as_choice(self.curvature, "curvature", CURVATURES)
        # Plain numbers, whatever was given: options go through JSON.
        for name in ("rank", "subspace_rank", "max_iter", "pcg_max_iter"):
            set_fields(self, **{name: as_count(getattr(self, name), name, least=0 if name == "max_iter" else 1)})
        for name in ("ridge", "subspace", "gtol", "ftol", "xtol", "eta", "pcg_rtol"):
            set_fields(self, **{name: as_number(getattr(self, name), name)})
        if self.radius0 is not None:
            set_fields(self, radius0=as_number(self.radius0, "radius0", above=True))
        weights = _numbers(self.weights, "weights", "two numbers, for HSI and MSI,", 2)
        smoothness = _numbers(self.smoothness, "smoothness", "three numbers, for rows, columns and bands,", 3)
        if not any(weights):
            raise ValueError(f"weights: got {weights}; at least one above zero is needed")
        set_fields(self, weights=weights, smoothness=smoothness)

    def _solver_options(self, time_limit):
        shared = {name: getattr(self, name) for name in Options.__dataclass_fields__ if name != "max_seconds"}
        return Options(**shared, max_seconds=time_limit)

    @property
    def parametrisation(self):
        """One of the names of `solver.parametrisation`, or one for each mode."""
        return "identity"

    def solve(self, problem, *, rng, callback=None, time_limit=None, init=None, regularisers=()):
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
            status=state.status,
            cost=state.cost * scale**2,
            n_iter=state.n_iter,
            trace=trace,
            factors=objective.factors(state.x),
        )

    def _regularisers(self, problem):
        I, J, K = problem.sri_shape
        if self.ridge:
            yield Ridge(self.ridge)
        if any(self.smoothness):
            yield Smoothness(self.smoothness, (I, J, K))
        if self.subspace:
            pixels = problem.hsi.reshape(-1, K).astype(np.float64, copy=False)
            _, vectors = np.linalg.eigh(pixels.T @ pixels)
            yield Subspace(self.subspace, vectors[:, ::-1][:, : self.subspace_rank], slice(I + J, I + J + K))

    def memory_needed(self, hsi_shape, msi_shape, dtype):
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


def own_scale(problem):
    """The scene's own unit: the root mean square of the MSI (of the HSI, where the MSI is dark)."""
    for image in (problem.msi, problem.hsi):
        flat = image.reshape(image.shape[0], -1)
        rms = np.sqrt(np.mean([np.einsum("i,i->", row, row, dtype=np.float64) for row in flat]) / flat.shape[1])
        if 0.0 < rms < np.inf:
            return float(rms)
    return 1.0


def random_start(problem, rank, parametrisation, rng):
    """Factors uniform in (0, 1], then scaled so that the model's MSI is as large as the data's, 1 in their own unit."""
    I, J, K = problem.sri_shape
    # 1 - [0, 1) is (0, 1]: never zero, where a squared parameter would stay.
    A, B, C = (1.0 - rng.random((n, rank)) for n in (I, J, K))
    V = problem.degradation.PM @ C
    # Not by BLAS, whose bits depend on its thread count.
    model = np.sqrt((gram(A) * gram(B) * gram(V)).sum() / problem.msi.size)
    grow = (1.0 / model) ** (1.0 / 3.0) if model > 0.0 else 1.0
    return _stack([A * grow, B * grow, C * grow], parametrisation)


def given_start(init, problem, rank, parametrisation, scale):
    """The caller's factors, checked, copied, lifted off zero, in the objective's units."""
    try:
        factors = [] if isinstance(init, str) else [np.asarray(f) for f in init]
    except (TypeError, ValueError):
        raise TypeError(f"init: got {type(init).__name__}; Factors or three matrices are needed") from None
    if not factors:
        raise TypeError(f"init: got {type(init).__name__}; Factors or three matrices are needed")
    if any(f.dtype.kind not in "fiu" for f in factors):
        raise TypeError(f"init: got dtypes {[str(f.dtype) for f in factors]}; real numbers are needed")
    factors = [f.astype(np.float64) for f in factors]
    needed = [(n, rank) for n in problem.sri_shape]
    if [f.shape for f in factors] != needed:
        raise ValueError(f"init: got shapes {[f.shape for f in factors]}; {needed} are needed")
    for name, factor, phi in zip("ABC", factors, per_mode(parametrisation), strict=True):
        if not np.isfinite(factor).all():
            raise ValueError(f"init: {name} holds NaN or infinite values; finite ones are needed")
        if phi.nonnegative:
            if factor.min() < 0.0:
                raise ValueError(f"init: {name} holds negative values, but this method's factors are non-negative")
            if factor.max() == 0.0:
                raise ValueError(
                    f"init: {name} is all zeros, from which squares cannot grow; positive values are needed"
                )
            np.maximum(factor, _LIFT * factor.mean(), out=factor)
    factors[2] /= scale
    return _stack(factors, parametrisation)


def _stack(factors, parametrisation):
    return np.vstack([phi.inverse(f) for phi, f in zip(per_mode(parametrisation), factors, strict=True)])
