"""The objective: one CP model of a scene, seen by several tensors, each through operators of its own.

    f(x) = Σ_t ½ w_t ‖Y_t/s − [[U_t]]‖² + regularisers

u = φ(x) stacks the factors A, B, C. Each tensor sees it through one block-diagonal operator, U_t = P_t u. Fusion has
two of them, the hyperspectral and the multispectral image,

    U_H = (P1 A, P2 B, C) = P_H u        U_M = (A, B, PM C) = P_M u,

and all are treated alike. With S_n = U_n'U_n, Q_n the Hadamard product of the two other S, M_n the MTTKRP of Y:

    ∇_u f  = Σ w P' (U_n Q_n − M_n/s)               ∇_x f = φ'(x) * ∇_u f
    H z    = φ'(x) * Σ w P' L(P t) + curvature,     t = φ'(x) * z,  L = J'J of one tensor (kernels/jtj.py)

`curvature` "positive" adds diag(max(φ''(x) ∇_u f, 0)) to the Gauss-Newton matrix: the cheap part of the true Hessian
that keeps it positive semidefinite and pulls parameters towards zero, where plain Gauss-Newton's step explodes.

`scale` s expresses the scene in units of its own size, so that x, steps and regularisers do not depend on whether the
data are reflectances or sensor counts; no scaled copy of the data is made.
"""

import copy
import weakref
from collections.abc import Sequence

import numpy as np

from ..kernels.arrays import aligned, readonly
from ..kernels.block_cholesky import factor_scaled_blocks, groups_of, room, solve_blocks
from ..kernels.coupled import Operators, gradient, see, turns_of
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.simd import padded
from ..model.checks import as_choice, as_count, as_number
from ..model.problem import Factors, Problem
from .block_walk import BlockWalk
from .misfit import Misfit
from .objective import Vector
from .parametrisation import per_mode
from .regularisers import Regulariser, as_regularisers
from .terms import Term, scene_shape_of, terms_of

CURVATURES = ("positive", "gauss-newton")

# A tenth of each block's mean diagonal: 1e-2 to 1 all work, and this was the most reliable.
BLOCK_DAMPING = 0.1

# An entry is trapped if its Newton step would multiply it by more than the reciprocal of this.
_TRAPPED = 1e-2

# What regularisers of the factors add to the gradient, where there are none.
_NO_ROWS = readonly(np.empty((0, 0)))

# A cost that overflows is infinite, which the solver knows how to treat: no warning is due.
_QUIET = np.errstate(over="ignore", invalid="ignore")


class CoupledCPD:
    """A coupled CP decomposition of one rank, as an objective for `minimize`.

    Parameters
    ----------
    terms : sequence of Term
        The tensors, one or more, and how they see the scene; `of_problem` makes them of a fusion problem.
    rank : int
        The number R of rank-one terms.
    parametrisation : str or three of them
        "square" (non-negative) or "identity", or one name for each of the three modes.
    curvature : str
        "positive" or "gauss-newton" (the paper's).
    regularisers : sequence of Regulariser
        Convex terms of x or of the factors that are added to the cost.
    scale : float
        The scene's unit: x describes the scene divided by it. `cost` is in units of scale², `factors` undoes it.

    Attributes
    ----------
    shape : (I+J+K, R)
        Of x, one float64 array.
    modes : three slices
        The rows of x that belong to A, B and C.

    Notes
    -----
    `cost_and_gradient` sets the linearisation point of `hessp` and `precondition`; `cost` does not disturb it, and its
    pass over the data is reused if the gradient is asked for at the same x next.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.solver import CoupledCPD, Term, minimize
    >>> rng = np.random.default_rng(0)
    >>> tensor = np.einsum("ir,jr,kr->ijk", *(rng.random((n, 2)) for n in (9, 8, 7)))
    >>> objective = CoupledCPD([Term(tensor)], rank=2)
    >>> state = minimize(objective, rng.random(objective.shape))
    >>> A, B, C = objective.factors(state.x)
    >>> bool(np.allclose(np.einsum("ir,jr,kr->ijk", A, B, C), tensor, atol=0.01))
    True
    """

    def __init__(
        self,
        terms: Sequence[Term],
        rank: int,
        parametrisation: str | Sequence[str] = "square",
        curvature: str = "positive",
        regularisers: Sequence[Regulariser] = (),
        scale: float = 1.0,
    ):
        if isinstance(terms, Term):
            raise TypeError("terms: got a single Term; a sequence of them is needed")
        self.terms = tuple(terms)
        I, J, K = scene_shape_of(self.terms)
        self.parametrisation = per_mode(parametrisation)
        self.curvature = as_choice(curvature, "curvature", CURVATURES)
        self.scale = as_number(scale, "scale", above=True)
        self.regularisers = as_regularisers(regularisers)

        self.modes = slice(0, I), slice(I, I + J), slice(I + J, I + J + K)
        nonnegative = [phi.nonnegative for phi in self.parametrisation]
        self._squared = readonly(np.repeat(nonnegative, [I, J, K]))
        self._bend = 1.0 if self.curvature == "positive" else 0.0
        # What each tensor sees of A, B and C; None is the identity.
        operators = [P for term in self.terms for P in term.operators]
        self._ahead = Operators.of(operators)
        self._back = Operators.of([None if P is None else P.T for P in operators])
        self._weights = readonly(np.array([term.weight for term in self.terms]))
        self._coverage = [_coverage(term) for term in self.terms]
        self._coverage_in = readonly(np.column_stack(self._coverage))
        self._misfits = [Misfit(term, self.scale) for term in self.terms]
        self._make_room(rank)

    def at_rank(self, rank: int) -> "CoupledCPD":
        """The same objective at another rank.

        What does not depend on the rank is shared: use one of them at a time.

        Parameters
        ----------
        rank : int

        Returns
        -------
        CoupledCPD
        """
        other = copy.copy(self)
        other._make_room(rank)
        return other

    def _make_room(self, rank):
        """All that depends on the rank."""
        self.rank = as_count(rank, "rank")
        I, J, K = (rows.stop - rows.start for rows in self.modes)
        self.shape = (I + J + K, self.rank)
        width = max(padded(self.rank, term.tensor.dtype) for term in self.terms)
        count, in_stack = len(self.terms), np.cumsum([0, *(n for term in self.terms for n in term.shape)])
        entries = np.diff(self._ahead.bounds[:, 0]) + np.diff(self._back.bounds[:, 0])
        turns = turns_of(6.0 * np.diff(in_stack) * width**2 + 2.0 * entries * width)
        self._rows = readonly(np.column_stack([[*count * [0, I, I + J], I + J + K], in_stack, [*turns, 0]]))
        seen = int(in_stack[-1])
        self._misfits = [
            misfit.placed(slice(int(in_stack[3 * n]), int(in_stack[3 * n + 3])), width)
            for n, misfit in enumerate(self._misfits)
        ]
        self._here, self._trial = (_Point(self.shape, count, seen, width) for _ in range(2))
        self._seen_tangent, self._lifted = (aligned((seen, width), np.float64) for _ in range(2))
        self._by_factors = aligned((self.shape[0], width), np.float64)
        self._tangent, self._parts = (aligned((count, self.shape[0], width), np.float64) for _ in range(2))
        self._slope, self._diagonal = (aligned(self.shape, np.float64) for _ in range(2))
        self._slope_in, self._diagonal_in = readonly(self._slope), readonly(self._diagonal)
        self._squares = aligned((count, 6, width, width), np.float64)
        self._hessp_work = 6.0 * seen * width**2
        # Of `see` and of `gradient`: the products, and numbers read and written, which count as four flops.
        self._look_work = 2.0 * seen * width**2 + 20.0 * self.shape[0] * self.rank
        self._blocks = None
        # By a weak reference: two that hold each other would keep their memory until they are collected.
        own = weakref.proxy(self)
        made = lambda: own._linearised(), lambda: own._factored()
        self._block_walk = BlockWalk(self.shape, *made, self._hessp_work)

    @classmethod
    def of_problem(
        cls,
        problem: Problem,
        rank: int,
        parametrisation: str | Sequence[str] = "square",
        curvature: str = "positive",
        regularisers: Sequence[Regulariser] = (),
        weights: Sequence[float] = (1.0, 1.0),
        scale: float = 1.0,
        basis: np.ndarray | None = None,
    ) -> "CoupledCPD":
        """The objective of a fusion problem: its HSI and its MSI are the two terms.

        Parameters
        ----------
        problem : Problem
        rank, parametrisation, curvature, regularisers, scale
            As of the class.
        weights : (w_H, w_M)
            Of the HSI's and of the MSI's misfit.
        basis : (K, p) array, optional
            Orthonormal spectra in which the HSI is fitted, as of `Term`.

        Returns
        -------
        CoupledCPD
        """
        return cls(terms_of(problem, weights, basis), rank, parametrisation, curvature, regularisers, scale)

    def cost(self, x: Vector) -> float:
        """f(x)."""
        x = self._as_point(x, "x")
        if not self._trial.is_at(x):
            self._evaluate(self._trial, x)
        return self._trial.cost

    @_QUIET
    def cost_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """(f(x), ∇f(x)); x becomes the linearisation point."""
        self.cost(x)
        self._here, self._trial = self._trial, self._here
        here, more, by_latent = self._here, _NO_ROWS, np.empty(self.shape)
        if priors := self._priors("factors"):
            parts = (prior.gradient(here.u[:, : self.rank]) for prior in priors)
            more = readonly(sum(parts, np.zeros(self.shape)))
        latent = self._squared, here.x_in, more, self._bend
        seen = self._weights, here.U_in, here.Q_in, here.M_in, self.scale, latent
        results = self._lifted, self._parts, self._by_factors, self._slope, self._diagonal, by_latent
        gradient(*self._back, self._rows, *seen, *results, work=self._look_work)
        for prior in self._priors("latent"):
            by_latent += prior.gradient(here.x)
        self._blocks_are_stale = True
        return here.cost, by_latent

    def hessp(self, z: Vector) -> Vector:
        """H z at the linearisation point."""
        self._check_linearised()
        z = self._as_point(z, "z")
        here, product = self._here, np.empty(self.shape)
        self._block_walk.product(np.array(z, np.float64, order="C"), product)
        for prior in self._priors("factors"):
            product += self._slope * prior.hessp(here.u[:, : self.rank], self._slope * z)
        for prior in self._priors("latent"):
            product += prior.hessp(here.x, z)
        return product

    def precondition(self, r: Vector) -> Vector:
        """M⁻¹ r: one damped R×R block of H for each row of x, factored once per linearisation point."""
        self._check_linearised()
        r, out = self._as_point(r, "r"), np.empty(self.shape)
        solve_blocks(*self._factored(), _vector(r), out, work=6.0 * out.size * self.rank, least=LEAST)
        return out

    def walk(self) -> BlockWalk | None:
        """CG with `hessp` and `precondition` in fewer passes; None where regularisers take part."""
        return None if self.regularisers else self._block_walk

    def release(self, x: Vector) -> Vector | None:
        """A better point than x, the linearisation point, if squared parameters are trapped at zero; else None.

        Where u = x² is nearly zero although the cost falls with it, the gradient 2x ∂f/∂u vanishes all the same: a
        false stationary point, which entries reach that first had to fall and later should have risen. Each of them is
        lifted towards its own Newton point −(∂f/∂u)/h, as far as the cost falls.
        """
        here = self._here
        lift = np.zeros(self.shape)
        for mode, (phi, rows) in enumerate(zip(self.parametrisation, self.modes, strict=True)):
            if phi.nonnegative:
                own = np.einsum("trr->tr", here.Q[:, mode])[:, : self.rank]
                h = sum(np.outer(seen[rows], q) for seen, q in zip(self._coverage, own, strict=True))
                fall = -self._by_factors[rows, : self.rank]
                newton = np.divide(fall, h, out=np.zeros_like(h), where=h > 0.0)
                lift[rows] = np.where(_TRAPPED * newton > here.u[rows, : self.rank], newton, 0.0)
        if not lift.any():
            return None
        for share in 0.5 ** np.arange(0, 12, 2):
            lifted = np.where(lift > 0.0, np.sqrt(np.square(x) + share * lift), x)
            if self.cost(lifted) < here.cost:
                return lifted
        return None

    def misfits(self) -> tuple[float, ...]:
        """‖Y_t/s − [[U_t]]‖² of each term at the linearisation point, without what a basis leaves out."""
        pairs = zip(self._here.misfits, self._misfits, strict=True)
        return tuple(max(0.0, misfit - term.left_out) for misfit, term in pairs)

    def factors(self, x: Vector) -> Factors:
        """The factors A, B, C of the scene in the caller's units: φ(x), the scale put into C."""
        x = self._as_point(x, "x")
        A, B, C = (np.array(phi.value(x[rows])) for phi, rows in zip(self.parametrisation, self.modes, strict=True))
        return Factors(A, B, C * self.scale)

    def _as_point(self, x, name):
        """x, if it is real and of the shape of all points: kernels do not look."""
        x = np.asarray(x)
        if x.shape != self.shape or x.dtype.kind not in "fiub":
            needed = f"a real array of shape {self.shape}, rows of all modes by terms, is needed"
            raise ValueError(f"{name}: got shape {x.shape} and dtype {x.dtype}; {needed}")
        return x

    def _check_linearised(self):
        if not self._here.misfits:
            raise ValueError("objective: it is linearised nowhere; cost_and_gradient(x) is needed first")

    def _priors(self, space):
        return [prior for prior in self.regularisers if prior.space == space]

    @_QUIET
    def _evaluate(self, point, x):
        """One pass over all tensors at x."""
        point.x[...] = x
        results = point.u, point.U, point.S, point.Q, point.sizes
        see(*self._ahead, self._rows, self._squared, point.x_in, *results, work=self._look_work)
        point.misfits = [misfit.at(point, n) for n, misfit in enumerate(self._misfits)]
        cost = sum(0.5 * term.weight * misfit for term, misfit in zip(self._misfits, point.misfits, strict=True))
        cost += sum(prior.value(point.x) for prior in self._priors("latent"))
        cost += sum(prior.value(point.u[:, : self.rank]) for prior in self._priors("factors"))
        point.cost = float(cost)

    def _linearised(self):
        """What H at the linearisation point, without the regularisers' part, is multiplied with: inputs, scratch."""
        here = self._here
        operators = (*self._ahead, *self._back, self._rows, self._weights)
        point = here.U_in, here.S_in, here.Q_in, self._slope_in, self._diagonal_in
        return (*operators, *point), (self._tangent, self._seen_tangent, self._squares, self._lifted, self._parts)

    def _factored(self):
        """The preconditioner's blocks at the linearisation point: (groups, factors, means)."""
        if self._blocks_are_stale:
            self._factor_blocks()
        return self._groups, self._blocks_in, self._means_in

    def _factor_blocks(self):
        if self._blocks is None:
            self._groups, self._means = groups_of([rows.stop - rows.start for rows in self.modes])
            self._blocks = room(self._groups, self.rank, np.float32)
            self._blocks_in, self._means_in = readonly(self._blocks), readonly(self._means)
        here, diagonal = self._here, self._diagonal
        for prior in self._priors("latent"):
            diagonal = diagonal + prior.diagonal(here.x)
        for prior in self._priors("factors"):
            diagonal = diagonal + np.square(self._slope) * prior.diagonal(here.u[:, : self.rank])
        parts = self._coverage_in, here.Q_in, self._slope_in, readonly(diagonal)
        sharing = {"work": 2.0 * self.shape[0] * self.rank**3, "least": LEAST}
        factor_scaled_blocks(self._groups, *parts, BLOCK_DAMPING, self._blocks, self._means, **sharing)
        self._blocks_are_stale = False


class _Point:
    """Everything computed at one x, kept so that a trial point can become the linearisation point by a swap.

    u = φ(x); U, what the tensors see of it, stacked; Gramians S, their products Q; ‖[[U]]‖² of each; MTTKRPs M.
    """

    def __init__(self, shape, tensors, seen_rows, width):
        self.x = np.full(shape, np.nan)
        self.u = aligned((shape[0], width), np.float64)
        self.U, self.M = (aligned((seen_rows, width), np.float64) for _ in range(2))
        self.S, self.Q = (aligned((tensors, 3, width, width), np.float64) for _ in range(2))
        self.x_in, self.U_in, self.M_in = readonly(self.x), readonly(self.U), readonly(self.M)
        self.S_in, self.Q_in = readonly(self.S), readonly(self.Q)
        self.sizes = np.empty(tensors)
        self.cost, self.misfits = np.nan, []

    def is_at(self, x):
        # Most points differ in their first number.
        return self.x[0, 0] == x[0, 0] and np.array_equal(self.x, x)


def _vector(z):
    """z as the kernels want it: float64, C order, read-only."""
    return readonly(np.ascontiguousarray(z, dtype=np.float64))


def _coverage(term):
    """The diagonal of w P'P, mode after mode: how much of each row of x a tensor sees."""
    sizes = zip(term.operators, term.scene_shape, strict=True)
    parts = [np.ones(n) if P is None else np.asarray(P.multiply(P).sum(axis=0)).ravel() for P, n in sizes]
    return term.weight * np.concatenate(parts)
