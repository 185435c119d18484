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
from scipy import sparse

from ..kernels._arrays import aligned, readonly
from ..kernels._simd import padded
from ..kernels.block_cholesky import factor_scaled_blocks, interleaved, solve_blocks
from ..kernels.gram import grams
from ..kernels.jtj import cp_gradient, jtj
from ..kernels.mttkrp import Scratch, mttkrp_into
from ..kernels.operators import csr_arrays, spmm, spmm_add
from ..kernels.reconstruct import residual_norm2_of, transposed
from ..model.checks import as_choice, as_count, as_number
from ..model.problem import Factors, Problem
from .parametrisation import per_mode

CURVATURES = ("positive", "gauss-newton")

# A tenth of each block's mean diagonal: 1e-2 to 1 all work, and this was the most reliable.
BLOCK_DAMPING = 0.1

# The expansion of the cost is trusted while it keeps this many relative digits.
_COST_DIGITS = 1e-11


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
        self.shape = (I + J + K, self.rank)
        self._width = padded(self.rank, problem.dtype)
        eye = sparse.eye_array
        self._images = (
            _Image(problem.hsi, (P1, P2, eye(K)), w_H, self.scale, self._width),
            _Image(problem.msi, (eye(I), eye(J), PM), w_M, self.scale, self._width),
        )
        self._here, self._trial = (_Point(self.shape, self._width, self._images) for _ in range(2))
        self._sum = aligned((self.shape[0], self._width), np.float64)
        self._tangent = aligned((self.shape[0], self._width), np.float64)
        self._coverage = np.ascontiguousarray(np.stack([image.coverage for image in self._images], axis=1))
        self._blocks = None
        self._tangent_in = readonly(self._tangent)

    def cost(self, x):
        """f(x)."""
        if not self._trial.is_at(x):
            self._evaluate(self._trial, x)
        return self._trial.cost

    def cost_and_gradient(self, x):
        """(f(x), ∇f(x)); x becomes the linearisation point."""
        self.cost(x)
        self._here, self._trial = self._trial, self._here
        here, rank = self._here, self.rank
        self._sum[...] = 0
        for image, view in zip(self._images, here.views, strict=True):
            cp_gradient(*view.modes, view.Q_in, view.M_in, self.scale, image.lifted)
            spmm_add(*image.backward, image.lifted_in, self._sum)
        by_factors = self._sum[:, :rank].copy()
        for term in self._terms("factors"):
            by_factors += term.gradient(here.u[:, :rank])
        self._slope = np.empty(self.shape)
        self._diagonal = np.zeros(self.shape)
        for phi, rows in zip(self.parametrisation, self.modes, strict=True):
            self._slope[rows] = phi.slope(here.x[rows])
            if self.curvature == "positive" and phi.second():
                np.maximum(phi.second() * by_factors[rows], 0.0, out=self._diagonal[rows])
        gradient = self._slope * by_factors
        for term in self._terms("latent"):
            gradient += term.gradient(here.x)
        self._blocks_are_stale = True
        return here.cost, gradient

    def hessp(self, z):
        """H z at the linearisation point."""
        rank = self.rank
        np.multiply(self._slope, z, out=self._tangent[:, :rank])
        self._sum[...] = 0
        for image, view in zip(self._images, self._here.views, strict=True):
            spmm(*image.forward, self._tangent_in, image.tangent)
            jtj(*view.modes, *image.tangent_modes, view.S_in, view.Q_in, image.X, *image.lifted_modes)
            spmm_add(*image.backward, image.lifted_in, self._sum)
        inner = self._sum[:, :rank]
        for term in self._terms("factors"):
            inner += term.hessp(self._here.u[:, :rank], self._tangent[:, :rank])
        product = self._slope * inner
        product += self._diagonal * z
        for term in self._terms("latent"):
            product += term.hessp(self._here.x, z)
        return product

    def precondition(self, r):
        """M⁻¹ r: one damped R×R block of H for each row of x, factored once per linearisation point."""
        if self._blocks_are_stale:
            self._factor_blocks()
        out = np.empty(self.shape)
        r = readonly(np.ascontiguousarray(r))
        for rows, blocks in zip(self.modes, self._blocks, strict=True):
            solve_blocks(readonly(blocks), r[rows], out[rows], work=2.0 * r[rows].size * self.rank)
        return out

    def factors(self, x):
        """The factors A, B, C of the scene in the caller's units: φ(x), the scale put into C."""
        A, B, C = (np.array(phi.value(x[rows])) for phi, rows in zip(self.parametrisation, self.modes, strict=True))
        return Factors(A, B, C * self.scale)

    def _terms(self, space):
        return [term for term in self.regularisers if term.space == space]

    def _evaluate(self, point, x):
        """One pass over both images at x."""
        point.x[...] = x
        for phi, rows in zip(self.parametrisation, self.modes, strict=True):
            point.u[rows, : self.rank] = phi.value(point.x[rows])
        cost = 0.0
        for image, view in zip(self._images, point.views, strict=True):
            spmm(*image.forward, point.u_in, view.U)
            cost += 0.5 * image.weight * image.misfit(view)
        cost += sum(term.value(point.x) for term in self._terms("latent"))
        cost += sum(term.value(point.u[:, : self.rank]) for term in self._terms("factors"))
        point.cost = float(cost)

    def _factor_blocks(self):
        if self._blocks is None:
            self._blocks = [interleaved(rows.stop - rows.start, self.rank) for rows in self.modes]
        rank, here = self.rank, self._here
        diagonal, inner = self._diagonal.copy(), np.zeros(self.shape)
        for term in self._terms("latent"):
            diagonal += term.diagonal(here.x)
        for term in self._terms("factors"):
            inner += term.diagonal(here.u[:, :rank])
        diagonal += np.square(self._slope) * inner
        for mode, (rows, blocks) in enumerate(zip(self.modes, self._blocks, strict=True)):
            Q = np.stack([view.Q[mode, :rank, :rank] for view in here.views])
            factor_scaled_blocks(
                readonly(self._coverage[rows]), readonly(Q), readonly(self._slope[rows]), readonly(diagonal[rows]),
                BLOCK_DAMPING, blocks, work=(rows.stop - rows.start) * rank**3,
            )  # fmt: skip
        self._blocks_are_stale = False


class _Image:
    """One image, its block-diagonal operator, and the room its products need."""

    def __init__(self, tensor, operators, weight, scale, width):
        P = sparse.block_diag(operators, format="csr")
        self.tensor = readonly(tensor)
        self.weight, self.scale = weight, scale
        self.forward, self.backward = csr_arrays(P), csr_arrays((weight * P.T).tocsr())
        # The diagonal of w P'P: how much of each row of x this image sees.
        self.coverage = weight * np.asarray(P.multiply(P).sum(axis=0)).ravel()
        self.norm2 = _norm2(tensor) / scale**2
        self.tangent, self.lifted = aligned((P.shape[0], width), np.float64), aligned((P.shape[0], width), np.float64)
        self.lifted_in = readonly(self.lifted)
        self.tangent_modes = [readonly(part) for part in self.split(self.tangent)]
        self.lifted_modes = self.split(self.lifted)
        self.X = aligned((4, width, width), np.float64)
        self.scratch = Scratch(tensor.shape, width, tensor.dtype)
        self.bands = aligned((width, padded(tensor.shape[2], tensor.dtype)), tensor.dtype)
        self.single = None if tensor.dtype == np.float64 else aligned((P.shape[0], width), tensor.dtype)

    def split(self, stack):
        I, J, _ = self.tensor.shape
        return stack[:I], stack[I : I + J], stack[I + J :]

    def misfit(self, view):
        """‖Y/s − [[U]]‖², leaving Gramians and MTTKRPs in `view`."""
        grams(*view.modes, view.S, view.Q)
        if self.single is None:
            factors = view.modes
        else:
            self.single[...] = view.U
            factors = [readonly(part) for part in self.split(self.single)]
        mttkrp_into(self.tensor, *factors, view.M, self.scratch)
        I = self.tensor.shape[0]
        overlap = np.einsum("ij,ij->", view.M[:I], view.U[:I]) / self.scale
        model2 = np.einsum("ij,ij->", view.S[0], view.Q[0])
        expanded = self.norm2 - 2.0 * overlap + model2
        if not np.isfinite(expanded):
            return np.inf
        if expanded * _COST_DIGITS > np.finfo(self.tensor.dtype).eps * max(self.norm2, model2):
            return expanded
        A, B, C = factors
        scaled = transposed(C * self.tensor.dtype.type(self.scale), self.tensor.dtype, out=self.bands)
        return residual_norm2_of(self.tensor, A, B, scaled) / self.scale**2


class _Point:
    """Everything computed at one x, kept so that a trial point can become the linearisation point by a swap."""

    def __init__(self, shape, width, images):
        self.x = np.full(shape, np.nan)
        self.u = aligned((shape[0], width), np.float64)
        self.u_in = readonly(self.u)
        self.views = [_View(image, width) for image in images]
        self.cost = np.nan

    def is_at(self, x):
        return np.array_equal(self.x, x)


class _View:
    """The model as one image sees it: factors U = P u, Gramians S, their products Q, MTTKRPs M."""

    def __init__(self, image, width):
        self.U, self.M = (aligned((sum(image.tensor.shape), width), np.float64) for _ in range(2))
        self.S, self.Q = (aligned((3, width, width), np.float64) for _ in range(2))
        self.M_in, self.S_in, self.Q_in = readonly(self.M), readonly(self.S), readonly(self.Q)
        self.modes = [readonly(part) for part in image.split(self.U)]


def _norm2(tensor):
    """‖tensor‖² in float64, a slab at a time."""
    slab = max(1, (1 << 22) // max(1, tensor[0].size))
    sums = [np.square(tensor[i : i + slab], dtype=np.float64).sum() for i in range(0, len(tensor), slab)]
    return float(np.sum(sums))
