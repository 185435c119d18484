"""The expected error of a decomposition as an image, relative to the scene: what its rank is chosen by.

Stein's estimate is of the error in the two images that are given. The scene has many more values, and what a term adds
to the fit of noise is worse there than in the data. So variance and bias are estimated apart, each where it is seen.

**Variance.** Noise b, of the estimated size, moves the fit by t = J_u H⁻¹ J'W b to first order: one pass over drawn
noise for J'W b (its MTTKRPs), and conjugate gradients with the H that the solver has anyway. Everything else is small:
‖[[T, B, C]] + [[A, T, C]] + [[A, B, T]]‖² for the scene, and the same for what each image sees of it, are sums of
products of Gramians. An error of the model moves the fit as noise does, and is of the size of the residual where that
exceeds the noise. Gauss and Newton leave out the curvature of the residual: the fit of a term to noise is looser than
they say, where terms are superfluous 1.3 to 2 times (two scenes, 5 to 30 dB, 3 to 60 terms), and a term too many does
more harm than one too few. In a risk to choose ranks by their variance counts twice (docs/auto.md compares with two and
a half times). Where the error itself is asked for it counts one and a half times, which is what was measured.

**Bias.** With P J the change of an image by the fit, ‖Y − fit‖² = ‖b‖² − 2 ⟨b, P J b⟩ + ‖P J b‖² + bias² in the mean,
for each image. What the MSI shows of it is detail that is missing, what the HSI shows is spectra that are.

    risk = 2 variance / ‖scene‖² + bias_H² / ‖HSI‖² + bias_M² / ‖MSI‖²,

the norms those of the model. Degrees of freedom by counting parameters need no probe: docs/auto.md compares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..kernels import mttkrp_all
from ..model.types import Array
from ..solver.coupled_cpd import CoupledCPD
from ..solver.objective import Vector
from ..solver.pcg import steihaug
from ..solver.terms import Term

# Of the variance to first order: in a risk, and as it was measured.
CAUTIOUS, _MEASURED = 2.0, 1.5


@dataclass(frozen=True)
class ImageRisk:
    """An estimated error, as a part of the scene's energy.

    Attributes
    ----------
    variance : float
        By noise, or by the model's own error where that is larger.
    bias : tuple of float
        What is missing in each image, as a part of its energy.
    degrees_of_freedom : float
        Of the fit, by the same probe; between them 1 and the number of parameters for each term.
    """

    variance: float
    bias: tuple[float, ...]
    degrees_of_freedom: float

    @property
    def total(self) -> float:
        """The risk that ranks are compared by."""
        return CAUTIOUS * self.variance + sum(self.bias)

    @property
    def error(self) -> float:
        """The expected squared error of the image, as a part of the scene's energy."""
        return _MEASURED * self.variance + sum(self.bias)


# Conjugate gradients of the probe: beyond these the variance changes by less than its own spread.
_STEPS, _PRECISION = 60, 1e-2

# Noise is drawn in slabs of about this many numbers.
_SLAB = 1 << 18


def image_risk(objective: CoupledCPD, x: Vector, sigmas: Sequence[Array], seed: int = 0) -> ImageRisk:
    """The `ImageRisk` of a fit.

    Parameters
    ----------
    objective : CoupledCPD
        It is linearised at x.
    x : array
        A minimum of it.
    sigmas : one (bands,) array for each term
        The standard deviation of each band's noise, in the caller's units.
    seed : int
        Of the drawn noise: the same for ranks that are compared.

    Returns
    -------
    ImageRisk
        Variance and bias, as parts of the scene's energy.
    """
    objective.cost_and_gradient(x)
    modes = objective.modes
    parts = list(zip(objective.parametrisation, modes, strict=True))
    u = [phi.value(x[rows]) for phi, rows in parts]
    slopes = np.vstack([np.broadcast_to(phi.slope(x[rows]), x[rows].shape) for phi, rows in parts])
    views = [_View(term, u, sigma / objective.scale) for term, sigma in zip(objective.terms, sigmas, strict=True)]
    rng = np.random.default_rng(seed)
    push = sum(view.pushed(rng) for view in views)
    products = objective.hessp, objective.precondition
    limits = {"radius": np.inf, "max_iter": _STEPS, "rtol": _PRECISION, "walk": objective.walk()}
    step = steihaug(-slopes * push, *products, **limits)
    t = [(slopes * step.p)[rows] for rows in modes]
    own, spread = zip(*(view.followed(t) for view in views), strict=True)
    misfits = objective.misfits()
    left = sum(misfit / view.variance for misfit, view in zip(misfits, views, strict=True))
    free = sum(view.size - part / view.variance for part, view in zip(own, views, strict=True))
    excess = max(1.0, left / free) if free > 0.0 else 1.0
    bias = (
        max(misfit - view.energy + 2.0 * mine - moved, 0.0) / max(view.model, np.finfo(float).tiny)
        for misfit, view, mine, moved in zip(misfits, views, own, spread, strict=True)
    )
    scene = max(_inner(u, u), np.finfo(float).tiny)
    degrees = sum(part / view.variance for part, view in zip(own, views, strict=True))
    return ImageRisk(excess * _tangent_norm2(u, t) / scene, tuple(bias), float(degrees))


def foreseen_risk(known: Mapping[int, ImageRisk], rank: int) -> float:
    """The risk that a further rank is likely to have: its variance grows as the rank, its bias goes on falling.

    Parameters
    ----------
    known : mapping
        The risks of ranks below it.
    rank : int

    Returns
    -------
    float
        By the two largest that are known; zero, where there are fewer.
    """
    if len(known) < 2:
        return 0.0
    before, last = sorted(known)[-2:]
    risk, (was, now) = known[last], (sum(known[n].bias) for n in (before, last))
    falls = min(now / was, 1.0) if was > 0.0 else 1.0
    steps = np.log(rank / last) / np.log(last / before)
    return CAUTIOUS * risk.variance * rank / last + now * falls**steps


class _View:
    """What one term sees of the factors and of their changes, and its noise."""

    def __init__(self, term: Term, u: Sequence[Array], sigma: Array):
        self._term, self._sigma = term, sigma
        self._U = self._seen(u)
        self.model = _inner(self._U, self._U)
        share = np.ones(term.tensor.shape[2]) if term.basis is None else np.square(term.basis).sum(axis=1)
        pixels = np.prod(term.tensor.shape[:2]) if term.valid is None else term.valid.sum(axis=(0, 1))
        self.energy = float(np.sum(pixels * share * np.square(sigma)))
        self.size = float(np.sum(pixels * share))
        self.variance = self.energy / self.size

    def _seen(self, u):
        seen = [part if P is None else P @ part for P, part in zip(self._term.operators, u, strict=True)]
        return seen if self._term.basis is None else [*seen[:2], self._term.basis.T @ seen[2]]

    def pushed(self, rng):
        """w P'M for the MTTKRPs M of drawn noise, which are kept."""
        term = self._term
        A, B, C = self._U
        self._M = [np.zeros_like(part) for part in self._U]
        rows = max(1, _SLAB // max(1, term.tensor[0].size))
        for i in range(0, len(term.tensor), rows):
            part = slice(i, min(i + rows, len(term.tensor)))
            noise = self._sigma * rng.standard_normal((part.stop - i, *term.tensor.shape[1:]))
            if term.valid is not None:
                noise *= term.valid[part]
            if term.basis is not None:
                noise = np.ascontiguousarray(noise @ term.basis)
            self._M[0][part], M1, M2 = mttkrp_all(noise, (A[part], B, C))
            self._M[1] += M1
            self._M[2] += M2
        M = self._M if term.basis is None else [*self._M[:2], term.basis @ self._M[2]]
        back = [part if P is None else P.T @ part for P, part in zip(term.operators, M, strict=True)]
        return term.weight * np.vstack(back)

    def followed(self, t):
        """(⟨noise, change⟩, ‖change‖²) for the change of this tensor with changes t of the factors."""
        T = self._seen(t)
        return sum(float(np.vdot(m, part)) for m, part in zip(self._M, T, strict=True)), _tangent_norm2(self._U, T)


def _inner(U, V):
    """⟨[[U]], [[V]]⟩."""
    return float(np.sum((U[0].T @ V[0]) * (U[1].T @ V[1]) * (U[2].T @ V[2])))


def _tangent_norm2(U, T):
    """‖[[T0, U1, U2]] + [[U0, T1, U2]] + [[U0, U1, T2]]‖²."""
    changed = [[T[n] if n == mode else U[n] for n in range(3)] for mode in range(3)]
    return max(0.0, sum(_inner(one, other) for one in changed for other in changed))
