"""Where the solver begins: the scene's own unit, random factors, or the caller's."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..model.problem import Problem
from .objective import Vector
from .parametrisation import per_mode

# A given start is lifted to this part of its factor's mean: at x = 0 a squared parameter has no gradient.
_LIFT = 1e-4


def own_scale(problem: Problem) -> float:
    """The scene's own unit: the root mean square of the MSI (of the HSI, where the MSI is dark)."""
    for image in (problem.msi, problem.hsi):
        flat = image.reshape(image.shape[0], -1)
        rms = np.sqrt(np.mean([np.einsum("i,i->", row, row, dtype=np.float64) for row in flat]) / flat.shape[1])
        if 0.0 < rms < np.inf:
            return float(rms)
    return 1.0


def random_start(problem: Problem, rank: int, parametrisation: str | Sequence[str], rng: np.random.Generator) -> Vector:
    """Factors uniform in (0, 1], then scaled so that the model's MSI is as large as the data's, 1 in their own unit."""
    I, J, K = problem.sri_shape
    # 1 - [0, 1) is (0, 1]: never zero, where a squared parameter would stay.
    A, B, C = (1.0 - rng.random((n, rank)) for n in (I, J, K))
    V = problem.degradation.PM @ C
    # Not by BLAS, whose bits depend on its thread count.
    of_A, of_B, of_V = (np.einsum("nr,ns->rs", U, U) for U in (A, B, V))
    model = np.sqrt((of_A * of_B * of_V).sum() / problem.msi.size)
    grow = (1.0 / model) ** (1.0 / 3.0) if model > 0.0 else 1.0
    return _stack([A * grow, B * grow, C * grow], parametrisation)


def given_start(
    init: Iterable[ArrayLike], problem: Problem, rank: int, parametrisation: str | Sequence[str], scale: float
) -> Vector:
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
