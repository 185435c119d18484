"""The objective: one CP model of the scene, seen by two images through their operators.

    f(x) = ½ w_H ‖Y_H/s − [[U]]‖² + ½ w_M ‖Y_M/s − [[V]]‖² + regularisers

u = φ(x) stacks the factors A, B, C. Each image sees it through one block-diagonal operator,

    U = (P1 A, P2 B, C) = P_H u        V = (A, B, PM C) = P_M u,

so both are treated alike. With S_n = U_n'U_n, Q_n the Hadamard product of the two other S, M_n the MTTKRP of Y:

    ∇_u f  = Σ w P' (U_n Q_n − M_n/s)               ∇_x f = φ'(x) * ∇_u f
    H z    = φ'(x) * Σ w P' L(P t) + curvature,     t = φ'(x) * z,  L = J'J of one tensor (kernels/jtj.py)

`curvature` "positive" adds diag(max(φ''(x) ∇_u f, 0)) to the Gauss-Newton matrix: the cheap part of the true Hessian
that keeps it positive semidefinite and pulls parameters towards zero, where plain Gauss-Newton's step explodes.

The cost costs nothing beside the MTTKRPs: ‖Y − [[U]]‖² = ‖Y‖² − 2 Σ M_0*U_0 + 1'(S_0*S_1*S_2)1. That expansion cancels
when the fit is close, so below a threshold (always, for float32) the residual is streamed instead.

`scale` s expresses the scene in units of its own size, so that x, steps and regularisers do not depend on whether the
data are reflectances or sensor counts; no scaled copy of the data is made.
"""

import numpy as np

from ..kernels._arrays import aligned, readonly
from ..kernels._jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels._simd import padded
from ..kernels.block_cholesky import factor_scaled_blocks, groups_of, room, solve_blocks
from ..kernels.coupled import Operators, gradient, hessian, see
from ..kernels.mttkrp import Scratch, mttkrp_into
from ..kernels.reconstruct import residual_norm2_of, transposed
from ..kernels.vectors import dot
from ..model.checks import as_choice, as_count, as_number
from ..model.problem import Factors, Problem
from .parametrisation import per_mode

CURVATURES = ("positive", "gauss-newton")

# A tenth of each block's mean diagonal: 1e-2 to 1 all work, and this was the most reliable.
BLOCK_DAMPING = 0.1

# The norm of an image is summed in slabs of about this many numbers.
SLAB = 1 << 18

# An entry is trapped if its Newton step would multiply it by more than the reciprocal of this.
_TRAPPED = 1e-2

# Pixels with missing data whose model is rendered together.
_GAPS_AT_ONCE = 4096

# The expansion of the cost is trusted while it keeps this many relative digits.
_COST_DIGITS = 1e-11


# A cost that overflows is infinite, which the solver knows how to treat: no warning is due.
_QUIET = np.errstate(over="ignore", invalid="ignore")


class CoupledCPD:
    """The NN-C-CPD objective of a problem at one rank.

    Parameters
    ----------
    problem : Problem
    rank : int
    parametrisation : "square" (non-negative) or "identity", or one name for each of the three modes
    curvature : "positive" or "gauss-newton" (the paper's)
    regularisers : sequence of Regulariser
    weights : (w_H, w_M)
    scale : float
        The scene's unit: x describes the scene divided by it. `cost` is in units of scale², `factors` undoes it.

    x is one (I+J+K, R) float64 array. `cost_and_gradient` sets the linearisation point of `hessp` and `precondition`;
    `cost` does not disturb it, and its pass over the data is reused if the gradient is asked for at the same x next.
    """

    def __init__(self, problem, rank, parametrisation="square", curvature="positive", regularisers=(),
                 weights=(1.0, 1.0), scale=1.0):  # fmt: skip
        if not isinstance(problem, Problem):
            raise TypeError(f"problem: got {type(problem).__name__}; a fastccpd.Problem is needed")
        self.problem = problem
        self.rank = as_count(rank, "rank")
        self.parametrisation = per_mode(parametrisation)
        self.curvature = as_choice(curvature, "curvature", CURVATURES)
        self.scale = as_number(scale, "scale", above=True)
        self.regularisers = tuple(regularisers)
        w_H, w_M = (as_number(w, f"weights[{n}]") for n, w in enumerate(weights))

        P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
        I, J, K = problem.sri_shape
        self.modes = slice(0, I), slice(I, I + J), slice(I + J, I + J + K)
        self._runs = _runs_of_one_kind(self.parametrisation, self.modes)
        self.shape = (I + J + K, self.rank)
        # What each image sees of A, B and C; None is the identity.
        self._ahead = Operators.of((P1, P2, None, None, None, PM))
        self._back = Operators.of((P1.T, P2.T, None, None, None, PM.T))
        self._weights = readonly(np.array([w_H, w_M]))
        self._coverage = _coverage((P1, P2, None), I, J, K, w_H), _coverage((None, None, PM), I, J, K, w_M)
        self._coverage_in = readonly(np.column_stack(self._coverage))

        width = padded(self.rank, problem.dtype)
        m_H, m_M = sum(problem.hsi.shape), sum(problem.msi.shape)
        self._images = (
            _Image(problem.hsi, problem.hsi_valid, w_H, self.scale, slice(0, m_H), width),
            _Image(problem.msi, problem.msi_valid, w_M, self.scale, slice(m_H, m_H + m_M), width),
        )
        in_u, in_stack = 2 * [0, I, I + J], np.cumsum([0, *problem.hsi.shape, *problem.msi.shape])
        self._rows = readonly(np.column_stack([[*in_u, I + J + K], in_stack]))
        self._here, self._trial = (_Point(self.shape, m_H + m_M, width) for _ in range(2))
        self._seen_tangent, self._lifted = (aligned((m_H + m_M, width), np.float64) for _ in range(2))
        self._tangent, self._by_factors = (aligned((self.shape[0], width), np.float64) for _ in range(2))
        self._parts = aligned((2, self.shape[0], width), np.float64)
        # Where nothing is written to the diagonal, it stays zero.
        self._slope, self._diagonal = (aligned(self.shape, np.float64) for _ in range(2))
        self._slope_in, self._diagonal_in = readonly(self._slope), readonly(self._diagonal)
        self._squares = aligned((2, 4, width, width), np.float64)
        self._hessp_work = 6.0 * (m_H + m_M) * width**2
        self._blocks = None

    def cost(self, x):
        """f(x)."""
        if not self._trial.is_at(x):
            self._evaluate(self._trial, x)
        return self._trial.cost

    @_QUIET
    def cost_and_gradient(self, x):
        """(f(x), ∇f(x)); x becomes the linearisation point."""
        self.cost(x)
        self._here, self._trial = self._trial, self._here
        here, rank = self._here, self.rank
        gradient(*self._back, self._rows, self._weights, here.U_in, here.Q_in, here.M_in, self.scale, self._lifted,
                 self._parts, self._by_factors, work=self._hessp_work / 3, least=LEAST)  # fmt: skip
        by_factors = self._by_factors[:, :rank]
        for term in self._terms("factors"):
            by_factors += term.gradient(here.u[:, :rank])
        for phi, rows in self._runs:
            self._slope[rows] = phi.slope(here.x[rows])
            if self.curvature == "positive" and phi.second():
                positive = np.maximum(by_factors[rows], 0.0, out=self._diagonal[rows])
                positive *= phi.second()
        by_latent = self._slope * by_factors
        for term in self._terms("latent"):
            by_latent += term.gradient(here.x)
        self._blocks_are_stale = True
        return here.cost, by_latent

    def hessp(self, z):
        """H z at the linearisation point."""
        here, product = self._here, np.empty(self.shape)
        hessian(*self._ahead, *self._back, self._rows, self._weights, here.U_in, here.S_in, here.Q_in, self._slope_in,
                self._diagonal_in, _vector(z), self._tangent, self._seen_tangent, self._squares, self._lifted,
                self._parts, product, work=self._hessp_work, least=LEAST)  # fmt: skip
        for term in self._terms("factors"):
            product += self._slope * term.hessp(here.u[:, : self.rank], self._slope * z)
        for term in self._terms("latent"):
            product += term.hessp(here.x, z)
        return product

    def precondition(self, r):
        """M⁻¹ r: one damped R×R block of H for each row of x, factored once per linearisation point."""
        if self._blocks_are_stale:
            self._factor_blocks()
        out = np.empty(self.shape)
        solve_blocks(self._groups, self._blocks_in, self._means_in, _vector(r), out,
                     work=6.0 * out.size * self.rank, least=LEAST)  # fmt: skip
        return out

    def release(self, x):
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

    def factors(self, x):
        """The factors A, B, C of the scene in the caller's units: φ(x), the scale put into C."""
        A, B, C = (np.array(phi.value(x[rows])) for phi, rows in zip(self.parametrisation, self.modes, strict=True))
        return Factors(A, B, C * self.scale)

    def _terms(self, space):
        return [term for term in self.regularisers if term.space == space]

    @_QUIET
    def _evaluate(self, point, x):
        """One pass over both images at x."""
        point.x[...] = x
        for phi, rows in self._runs:
            point.u[rows, : self.rank] = phi.value(point.x[rows])
        see(*self._ahead, self._rows, point.u_in, point.U, point.S, point.Q, work=self._hessp_work / 3,
            least=LEAST)  # fmt: skip
        cost = sum(0.5 * image.weight * image.misfit(point, n) for n, image in enumerate(self._images))
        cost += sum(term.value(point.x) for term in self._terms("latent"))
        cost += sum(term.value(point.u[:, : self.rank]) for term in self._terms("factors"))
        point.cost = float(cost)

    def _factor_blocks(self):
        if self._blocks is None:
            self._groups, self._means = groups_of([rows.stop - rows.start for rows in self.modes])
            self._blocks = room(self._groups, self.rank, np.float32)
            self._blocks_in, self._means_in = readonly(self._blocks), readonly(self._means)
        here, diagonal = self._here, self._diagonal
        for term in self._terms("latent"):
            diagonal = diagonal + term.diagonal(here.x)
        for term in self._terms("factors"):
            diagonal = diagonal + np.square(self._slope) * term.diagonal(here.u[:, : self.rank])
        factor_scaled_blocks(
            self._groups, self._coverage_in, here.Q_in, self._slope_in, readonly(diagonal), BLOCK_DAMPING,
            self._blocks, self._means, work=2.0 * self.shape[0] * self.rank**3, least=LEAST,
        )  # fmt: skip
        self._blocks_are_stale = False


class _Image:
    """One image and its place in the stack of what the images see."""

    def __init__(self, tensor, valid, weight, scale, rows, width):
        self.gaps = None if valid is None else _Gaps(tensor, valid)
        self.tensor = readonly(tensor if valid is None else self.gaps.filled)
        self.weight, self.scale, self.rows = weight, scale, rows
        self.norm2 = _norm2(tensor) / scale**2
        self.scratch = Scratch(tensor.shape, width, tensor.dtype)
        self.bands = aligned((width, padded(tensor.shape[2], tensor.dtype)), tensor.dtype)
        self.single = None if tensor.dtype == np.float64 else aligned((rows.stop - rows.start, width), tensor.dtype)

    def misfit(self, point, n):
        """‖Y/s − [[U]]‖² for this, the n-th image, leaving its MTTKRPs in `point`."""
        U, M, (I, J, _) = point.U_in[self.rows], point.M[self.rows], self.tensor.shape
        if self.single is None:
            seen = U
        else:
            self.single[...] = U
            seen = readonly(self.single)
        A, B, C = seen[:I], seen[I : I + J], seen[I + J :]
        norm2 = self.norm2
        if self.gaps is not None:
            norm2 += self.gaps.fill(A, B, C * self.scale) / self.scale**2
        mttkrp_into(self.tensor, A, B, C, M, self.scratch, least=LEAST)
        overlap = dot(M[:I], U[:I]) / self.scale
        model2 = dot(point.S[n, 0], point.Q[n, 0])
        expanded = norm2 - 2.0 * overlap + model2
        if not np.isfinite(expanded):
            return np.inf
        if expanded * _COST_DIGITS > np.finfo(self.tensor.dtype).eps * max(norm2, model2):
            return expanded
        scaled = transposed(C * self.tensor.dtype.type(self.scale), self.tensor.dtype, out=self.bands)
        return residual_norm2_of(self.tensor, A, B, scaled) / self.scale**2


class _Gaps:
    """Data that are missing, filled with the model at every x: there the residual, and so the gradient, is zero.

    The Gauss-Newton matrix stays that of complete data, Gramians and all. It is an upper bound of the true one, so that
    steps are cautious, and cost and gradient are exact.
    """

    def __init__(self, tensor, valid):
        self.filled = tensor.copy()
        pixels = np.flatnonzero(~valid.all(axis=2))
        self._rows, self._columns = np.unravel_index(pixels, tensor.shape[:2])
        self._missing = ~valid.reshape(-1, tensor.shape[2])[pixels]

    def fill(self, A, B, C):
        """Put the model where there are no data; the sum of its squares."""
        total = 0.0
        for n in range(0, len(self._rows), _GAPS_AT_ONCE):
            part = slice(n, n + _GAPS_AT_ONCE)
            rows, columns, missing = self._rows[part], self._columns[part], self._missing[part]
            model = np.where(missing, np.einsum("nr,kr->nk", A[rows] * B[columns], C), 0.0)
            self.filled[rows, columns] = np.where(missing, model, self.filled[rows, columns])
            total += float(np.square(model, dtype=np.float64).sum())
        return total


class _Point:
    """Everything computed at one x, kept so that a trial point can become the linearisation point by a swap.

    u = φ(x); U, what the images see of it, stacked; Gramians S, their products Q; MTTKRPs M.
    """

    def __init__(self, shape, seen_rows, width):
        self.x = np.full(shape, np.nan)
        self.u = aligned((shape[0], width), np.float64)
        self.U, self.M = (aligned((seen_rows, width), np.float64) for _ in range(2))
        self.S, self.Q = (aligned((2, 3, width, width), np.float64) for _ in range(2))
        self.u_in, self.U_in, self.M_in = readonly(self.u), readonly(self.U), readonly(self.M)
        self.S_in, self.Q_in = readonly(self.S), readonly(self.Q)
        self.cost = np.nan

    def is_at(self, x):
        return np.array_equal(self.x, x)


def _runs_of_one_kind(parametrisation, modes):
    """(φ, rows) for each run of modes that share φ: usually all three, in one."""
    runs = []
    for phi, rows in zip(parametrisation, modes, strict=True):
        if runs and runs[-1][0] == phi:
            rows = slice(runs.pop()[1].start, rows.stop)
        runs.append((phi, rows))
    return runs


def _vector(z):
    """z as the kernels want it: float64, C order, read-only."""
    return readonly(np.ascontiguousarray(z, dtype=np.float64))


def _coverage(operators, I, J, K, weight):
    """The diagonal of w P'P, mode after mode: how much of each row of x an image sees."""
    parts = (np.ones(n) if P is None else np.asarray(P.multiply(P).sum(axis=0)).ravel()
             for P, n in zip(operators, (I, J, K), strict=True))  # fmt: skip
    return weight * np.concatenate(list(parts))


def _norm2(tensor):
    """‖tensor‖² in float64, a slab at a time."""
    slab = max(1, SLAB // max(1, tensor[0].size))
    sums = [np.square(tensor[i : i + slab], dtype=np.float64).sum() for i in range(0, len(tensor), slab)]
    return float(np.sum(sums))
