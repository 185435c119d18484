"""STEREO: the coupled CP decomposition by alternating least squares, without a sign constraint.

    f(A, B, C) = ½ λ ‖H − [[A~, B~, C]]‖² + ½ ‖M − [[A, B, C~]]‖²,      A~ = P1 A,  B~ = P2 B,  C~ = PM C

is quadratic in each factor. With * the Hadamard product and M_n the MTTKRP of an image along mode n, the normal
equations of one factor are

    A:  λ P1'P1 A K_H + A K_M = λ P1' M_0(H) + M_0(M),      K_H = (C'C) * (B~'B~),  K_M = (C~'C~) * (B'B)
    B:  alike with P2
    C:  λ C K_H + PM'PM C K_M = λ M_2(H) + PM' M_2(M),      K_H = (A~'A~) * (B~'B~),  K_M = (A'A) * (B'B)

P'P = Q diag(s) Q' is diagonalised once; in the rotated unknown Q'A every row has an R×R system of its own,
λ s_i K_H + K_M (λ K_H + s_k K_M for C), which a batch of Cholesky factorisations solves.

All of it is done in the scene's own unit s: M_n are those of H/s and M/s, and s is put into C at the end.

The start ("TenRec") decomposes the MSI alone, which gives A, B and C~, and takes C from the HSI by least squares.
Noise is fitted as sweeps go on: to stop after a few is the method's only regularisation.
"""

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..kernels import block_cholesky, block_solve, mttkrp, residual_norm2
from ..kernels.mttkrp import scratch_numbers
from ..kernels.simd import padded
from ..model.checks import as_count, as_number, set_fields
from ..model.degradation import Degradation
from ..model.problem import Factors, Problem
from ..model.result import Progress, Status
from ..solver.coupled_cpd import CoupledCPD
from ..solver.trust_region import Options, minimize
from ._ccpd_nls import CoupledNLS, given_start, own_scale, random_start
from ._iteration import run
from .method import Method, Solution, memory_of_phases, register

# Eigenvalues of the start's Gramian below this part of the largest are rounding, and their directions are left out.
_RANK_TOLERANCE = 1e-13

# Operators of extreme weights may overflow, which shows in the result: no warning is due.
_QUIET = np.errstate(over="ignore", invalid="ignore")


@register("stereo")
@dataclass(frozen=True, kw_only=True)
class Stereo(Method):
    """Unconstrained coupled CPD by alternating least squares (UC-C-CPD-ALS).

    To stop after a few sweeps is its only regularisation: noise is fitted as they go on.

    Parameters
    ----------
    rank : int
        The number R of rank-one terms.
    max_iter : int
        Sweeps over A, B and C; published demonstrations stop after 1 to 15.
    lam : float
        Weight of the HSI's misfit; that of the MSI has weight 1.
    start_iter : int
        Nonlinear least-squares iterations spent on the CPD of the MSI that it starts from.

    Notes
    -----
    The cost is the method's own, ½ lam ‖hsi − model‖² + ½ ‖msi − model‖².

    References
    ----------
    .. [1] Charilaos I. Kanatsoulis, Xiao Fu, Nicholas D. Sidiropoulos, Wing-Kin Ma: Hyperspectral Super-Resolution: A
       Coupled Tensor Factorization Approach. IEEE Transactions on Signal Processing 66(24), 6503-6517, 2018.
    """

    rank: int = 30
    max_iter: int = 10
    lam: float = 1.0
    start_iter: int = 25

    has_starts: ClassVar[bool] = True
    takes_init: ClassVar[bool] = True
    uses_kernels: ClassVar[bool] = True
    memory_is_for: ClassVar[str] = "factors in float64"

    def __post_init__(self):
        set_fields(self, rank=as_count(self.rank, "rank"))
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))
        set_fields(self, start_iter=as_count(self.start_iter, "start_iter", least=0))
        set_fields(self, lam=as_number(self.lam, "lam", above=True))

    @_QUIET
    def solve(self, problem, *, rng, callback=None, time_limit=None, init=None):
        began = time.perf_counter()
        I, J, _ = problem.sri_shape
        scale, stopped = own_scale(problem), []
        if init is None:
            A, B = self._spatial_factors_of_msi(problem, rng, time_limit, callback, stopped)
            C = _spectra_from_hsi(problem, A, B, scale)
        else:
            A, B, C = np.split(given_start(init, problem, self.rank, "identity", scale), [I, I + J])
        sweep = _Sweep(problem, self.lam, scale)

        factors = [A, B, C]

        def advance():
            factors[:] = sweep(*factors)

        limits = {"max_iter": 0 if stopped else self.max_iter, "began": began, "time_limit": time_limit}
        outcome = run(advance, lambda: sweep.cost(*factors), callback=callback, **limits)
        if stopped:
            outcome = replace(outcome, status=Status.CALLBACK)
        A, B, C = factors
        return Solution(**vars(outcome), factors=Factors(A, B, C * scale))

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        sri_shape = *msi_shape[:2], hsi_shape[2]
        n, longest, width = sum(sri_shape), max(sri_shape), padded(self.rank, dtype)
        nothing = 1, 1, msi_shape[2]
        start = CoupledNLS(rank=self.rank).memory_needed(nothing, msi_shape, dtype)
        # The start decomposes the MSI alone: it has no Gramians of an HSI, nor sums.
        start -= 8 * (18 * width**2 + scratch_numbers(nothing, width))
        bases = sum(m * m for m in sri_shape) + longest**2
        blocks = (2 * longest + 8) * self.rank**2
        products = sum(sum(shape) * width + scratch_numbers(shape, width) for shape in (hsi_shape, msi_shape))
        # A factor's right-hand side is done before its blocks are made.
        return memory_of_phases(start, 8 * (bases + max(blocks, products))) + 8 * 6 * n * self.rank

    def _spatial_factors_of_msi(self, problem, rng, time_limit, callback, stopped):
        """A and B of a CPD of the MSI alone, from a random start; `stopped` has entries if the callback ended it."""
        I, J, bands = problem.msi.shape
        # The coupled objective of a problem whose HSI is one dark pixel without weight: C is then the MSI's own C~.
        row, column = (sparse.csr_array(np.full((1, n), 1.0 / n)) for n in (I, J))
        degradation = Degradation(row, column, sparse.eye_array(bands, format="csr"))
        alone = Problem(np.zeros((1, 1, bands), problem.dtype), problem.msi, degradation, check_finite=False)
        scale = own_scale(alone)
        objective = CoupledCPD.of_problem(alone, self.rank, "identity", weights=(0.0, 1.0), scale=scale)
        A, B, C = np.split(random_start(problem, self.rank, "identity", rng), [I, I + J])
        options = Options(max_iter=self.start_iter, ftol=0.0, max_seconds=time_limit)

        def look(state):
            progress = Progress(state.n_iter, state.cost * scale**2, state.seconds, state.trace, "start")
            if callback is not None and callback(progress):
                stopped.append(progress)
            return bool(stopped)

        state = minimize(objective, np.vstack([A, B, problem.degradation.PM @ C]), options, look)
        A, B, _ = objective.factors(state.x)
        return A, B


def _spectra_from_hsi(problem, A, B, scale):
    """The C that fits the HSI best in the least-squares sense, of least norm where A and B do not determine it."""
    A, B = problem.degradation.P1 @ A, problem.degradation.P2 @ B
    bands = problem.hsi.shape[2]
    products = mttkrp(problem.hsi, (A, B, np.zeros((bands, A.shape[1]))), 2).astype(np.float64) / scale
    values, vectors = np.linalg.eigh((A.T @ A) * (B.T @ B))
    kept = values > _RANK_TOLERANCE * max(values[-1], 0.0)
    return (products @ vectors[:, kept] / values[kept]) @ vectors[:, kept].T


class _Sweep:
    """One pass of alternating least squares over A, B and C, and the cost it lowers."""

    def __init__(self, problem, lam, scale):
        self.hsi, self.msi, self.lam, self.scale = problem.hsi, problem.msi, lam, scale
        self.P1, self.P2, self.PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
        self.rows, self.columns, self.bands = (_diagonalised(P) for P in (self.P1, self.P2, self.PM))

    def __call__(self, A, B, C):
        lam, P1, P2, PM = self.lam, self.P1, self.P2, self.PM
        U, V = [P1 @ A, P2 @ B, C], [A, B, PM @ C]

        s, Q = self.rows
        rhs = lam * (P1.T @ self._products(self.hsi, U, 0)) + self._products(self.msi, V, 0)
        A = _solve_rows(Q, lam * s, _gramian(U[1], U[2]), np.ones_like(s), _gramian(V[1], V[2]), rhs)
        U[0], V[0] = P1 @ A, A

        s, Q = self.columns
        rhs = lam * (P2.T @ self._products(self.hsi, U, 1)) + self._products(self.msi, V, 1)
        B = _solve_rows(Q, lam * s, _gramian(U[0], U[2]), np.ones_like(s), _gramian(V[0], V[2]), rhs)
        U[1], V[1] = P2 @ B, B

        s, Q = self.bands
        rhs = lam * self._products(self.hsi, U, 2) + PM.T @ self._products(self.msi, V, 2)
        C = _solve_rows(Q, np.full_like(s, lam), _gramian(U[0], U[1]), s, _gramian(V[0], V[1]), rhs)
        return A, B, C

    def _products(self, image, factors, mode):
        """The MTTKRP of an image in the scene's own unit."""
        return mttkrp(image, factors, mode) / self.scale

    def cost(self, A, B, C):
        C = C * self.scale
        hsi_misfit = residual_norm2(self.hsi, (self.P1 @ A, self.P2 @ B, C))
        return 0.5 * self.lam * hsi_misfit + 0.5 * residual_norm2(self.msi, (A, B, self.PM @ C))


def _diagonalised(P):
    """(s, Q) with P'P = Q diag(s) Q'."""
    s, Q = np.linalg.eigh((P.T @ P).toarray())
    return np.maximum(s, 0.0), Q


def _gramian(X, Y):
    """The Gramian of the Khatri-Rao product of X and Y."""
    return (X.T @ X) * (Y.T @ Y)


def _solve_rows(Q, a, K_H, b, K_M, rhs):
    """The factor F whose rotated rows solve (Q'F)_i (a_i K_H + b_i K_M) = (Q' rhs)_i."""
    blocks = np.multiply.outer(a, K_H)
    blocks += np.multiply.outer(b, K_M)
    return Q @ block_solve(block_cholesky(blocks), Q.T @ rhs)
