"""The kernels for other people's compiled code: call these from a function under `@njit`, also inside its `prange`.

    from fastccpd.kernels import compiled

    @njit(parallel=True, cache=True)
    def many(tensors, A, B, C, out):
        for n in prange(len(tensors)):
            compiled.mttkrp(tensors[n], A, B, C, 0, out[n])

Arguments are C-ordered arrays of one dtype, float32 or float64, outputs last, caller-allocated and overwritten; inputs
may be read-only. Anything else is a TypingError where the function is compiled, and shapes that do not fit are a
ValueError when it runs, before any work. Every call is serial, takes no lock and needs no GIL; its bytes are those of
the routine of the same name in `fastccpd.kernels`. Called from Python, the same names do the same through it.

`linking.py` says how it works, and what `prepare` is for.
"""

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from .block_cholesky import block_cholesky as _block_cholesky
from .block_cholesky import block_solve as _block_solve
from .gram import gram as _gram
from .gram import hadamard_gram as _hadamard_gram
from .jtj import jtj_apply as _jtj_apply
from .linking import check_dimensions, judge, prepare, routine
from .mttkrp import mttkrp as _mttkrp
from .mttkrp import mttkrp_all as _mttkrp_all
from .operators import operator_apply as _operator_apply
from .reconstruct import reconstruct as _reconstruct
from .reconstruct import residual_norm2 as _residual_norm2

__all__ = [
    "block_solve",
    "gram",
    "hadamard_gram",
    "jtj_apply",
    "mttkrp",
    "mttkrp_all",
    "operator_apply",
    "prepare",
    "reconstruct",
    "residual_norm2",
]


def mttkrp(tensor: NDArray, A: NDArray, B: NDArray, C: NDArray, mode: int, out: NDArray) -> None:
    """(I,J,K),(I,R),(J,R),(K,R),()->(I,R), (J,R) or (K,R): the MTTKRP along one mode."""
    _mttkrp(tensor, (A, B, C), mode, out)


@overload(mttkrp)
def _mttkrp_overload(tensor, A, B, C, mode, out):
    call = routine("mttkrp", (tensor, A, B, C), (out,))
    check_dimensions("mttkrp", (tensor, A, B, C, out), (3, 2, 2, 2, 2))

    def implementation(tensor, A, B, C, mode, out):
        I, J, K = tensor.shape
        R = A.shape[1]
        if mode < 0 or mode > 2:
            raise ValueError("mode: 0, 1 or 2 is needed")
        if A.shape[0] != I or B.shape != (J, R) or C.shape != (K, R) or out.shape != (tensor.shape[mode], R):
            raise ValueError("mttkrp: shapes (I, J, K), (I, R), (J, R), (K, R) and that of the mode are needed")
        place = out.ctypes.data
        data = (tensor.ctypes.data, A.ctypes.data, B.ctypes.data, C.ctypes.data)
        judge(call(I, J, K, R, 1 << mode, *data, place, place, place))

    return implementation


def mttkrp_all(tensor: NDArray, A: NDArray, B: NDArray, C: NDArray, M0: NDArray, M1: NDArray, M2: NDArray) -> None:
    """(I,J,K),(I,R),(J,R),(K,R)->(I,R),(J,R),(K,R): the MTTKRPs along all three modes, in one pass."""
    _mttkrp_all(tensor, (A, B, C), (M0, M1, M2))


@overload(mttkrp_all)
def _mttkrp_all_overload(tensor, A, B, C, M0, M1, M2):
    call = routine("mttkrp", (tensor, A, B, C), (M0, M1, M2))
    check_dimensions("mttkrp_all", (tensor, A, B, C, M0, M1, M2), (3, 2, 2, 2, 2, 2, 2))

    def implementation(tensor, A, B, C, M0, M1, M2):
        I, J, K = tensor.shape
        R = A.shape[1]
        inputs = A.shape[0] == I and B.shape == (J, R) and C.shape == (K, R)
        if not inputs or M0.shape != A.shape or M1.shape != B.shape or M2.shape != C.shape:
            raise ValueError(
                "mttkrp_all: shapes (I, J, K), (I, R), (J, R), (K, R), and the last three again are needed"
            )
        data = (tensor.ctypes.data, A.ctypes.data, B.ctypes.data, C.ctypes.data)
        judge(call(I, J, K, R, 7, *data, M0.ctypes.data, M1.ctypes.data, M2.ctypes.data))

    return implementation


def gram(U: NDArray, S: NDArray) -> None:
    """(n,R)->(R,R): S = U'U."""
    _gram(U, S)


@overload(gram)
def _gram_overload(U, S):
    call = routine("gram", (U,), (S,))
    check_dimensions("gram", (U, S), (2, 2))

    def implementation(U, S):
        n, R = U.shape
        if S.shape != (R, R):
            raise ValueError("gram: shapes (n, R) and (R, R) are needed")
        judge(call(n, R, U.ctypes.data, S.ctypes.data))

    return implementation


def hadamard_gram(A: NDArray, B: NDArray, C: NDArray, Q: NDArray) -> None:
    """(I,R),(J,R),(K,R)->(3,R,R): Q_n, the product of the Gramians of the two other factors."""
    _hadamard_gram((A, B, C), Q)


@overload(hadamard_gram)
def _hadamard_gram_overload(A, B, C, Q):
    call = routine("hadamard_gram", (A, B, C), (Q,))
    check_dimensions("hadamard_gram", (A, B, C, Q), (2, 2, 2, 3))

    def implementation(A, B, C, Q):
        I, R = A.shape
        J, K = B.shape[0], C.shape[0]
        if B.shape[1] != R or C.shape[1] != R or Q.shape != (3, R, R):
            raise ValueError("hadamard_gram: shapes (I, R), (J, R), (K, R) and (3, R, R) are needed")
        judge(call(I, J, K, R, A.ctypes.data, B.ctypes.data, C.ctypes.data, Q.ctypes.data))

    return implementation


def jtj_apply(
    A: NDArray, B: NDArray, C: NDArray, TA: NDArray, TB: NDArray, TC: NDArray, LA: NDArray, LB: NDArray, LC: NDArray
) -> None:
    """Factors and tangents (I,R),(J,R),(K,R) -> the same shapes: J'J t."""
    _jtj_apply((A, B, C), (TA, TB, TC), (LA, LB, LC))


@overload(jtj_apply)
def _jtj_apply_overload(A, B, C, TA, TB, TC, LA, LB, LC):
    call = routine("jtj_apply", (A, B, C, TA, TB, TC), (LA, LB, LC))
    check_dimensions("jtj_apply", (A, B, C, TA, TB, TC, LA, LB, LC), (2,) * 9)

    def implementation(A, B, C, TA, TB, TC, LA, LB, LC):
        (I, R), J, K = A.shape, B.shape[0], C.shape[0]
        same = B.shape[1] == R and C.shape[1] == R and TA.shape == A.shape and TB.shape == B.shape
        if not same or TC.shape != C.shape or LA.shape != A.shape or LB.shape != B.shape or LC.shape != C.shape:
            raise ValueError("jtj_apply: shapes (I, R), (J, R), (K, R), three times, are needed")
        data = (A.ctypes.data, B.ctypes.data, C.ctypes.data, TA.ctypes.data, TB.ctypes.data, TC.ctypes.data)
        judge(call(I, J, K, R, *data, LA.ctypes.data, LB.ctypes.data, LC.ctypes.data))

    return implementation


def reconstruct(A: NDArray, B: NDArray, C: NDArray, out: NDArray) -> None:
    """(I,R),(J,R),(K,R)->(I,J,K): [[A, B, C]]."""
    _reconstruct((A, B, C), out=out)


@overload(reconstruct)
def _reconstruct_overload(A, B, C, out):
    call = routine("reconstruct", (A, B, C), (out,))
    check_dimensions("reconstruct", (A, B, C, out), (2, 2, 2, 3))

    def implementation(A, B, C, out):
        (I, R), J, K = A.shape, B.shape[0], C.shape[0]
        if B.shape[1] != R or C.shape[1] != R or out.shape != (I, J, K):
            raise ValueError("reconstruct: shapes (I, R), (J, R), (K, R) and (I, J, K) are needed")
        judge(call(I, J, K, R, A.ctypes.data, B.ctypes.data, C.ctypes.data, out.ctypes.data))

    return implementation


def residual_norm2(tensor: NDArray, A: NDArray, B: NDArray, C: NDArray) -> float:
    """(I,J,K),(I,R),(J,R),(K,R)->(): ||Y - [[A, B, C]]||^2."""
    return _residual_norm2(tensor, (A, B, C))


@overload(residual_norm2)
def _residual_norm2_overload(tensor, A, B, C):
    call = routine("residual_norm2", (tensor, A, B, C), ())
    check_dimensions("residual_norm2", (tensor, A, B, C), (3, 2, 2, 2))

    def implementation(tensor, A, B, C):
        I, J, K = tensor.shape
        R = A.shape[1]
        if A.shape[0] != I or B.shape != (J, R) or C.shape != (K, R):
            raise ValueError("residual_norm2: shapes (I, J, K), (I, R), (J, R) and (K, R) are needed")
        total = np.zeros(1, np.float64)
        data = (tensor.ctypes.data, A.ctypes.data, B.ctypes.data, C.ctypes.data)
        judge(call(I, J, K, R, *data, total.ctypes.data))
        return total[0]  # which also keeps the array alive over the call

    return implementation


def operator_apply(P: NDArray, X: NDArray, out: NDArray) -> None:
    """(m,n),(n,R)->(m,R): P X of a dense P."""
    _operator_apply(P, X, out=out)


@overload(operator_apply)
def _operator_apply_overload(P, X, out):
    call = routine("operator_apply", (P, X), (out,))
    check_dimensions("operator_apply", (P, X, out), (2, 2, 2))

    def implementation(P, X, out):
        m, n = P.shape
        R = X.shape[1]
        if X.shape[0] != n or out.shape != (m, R):
            raise ValueError("operator_apply: shapes (m, n), (n, R) and (m, R) are needed")
        judge(call(m, n, R, P.ctypes.data, X.ctypes.data, out.ctypes.data))

    return implementation


def block_solve(blocks: NDArray, rhs: NDArray, x: NDArray) -> None:
    """(n,R,R),(n,R)->(n,R): n systems, each with its own symmetric positive definite block; in float64."""
    _block_solve(_block_cholesky(blocks), rhs, x)


@overload(block_solve)
def _block_solve_overload(blocks, rhs, x):
    call = routine("block_solve", (blocks, rhs), (x,))
    check_dimensions("block_solve", (blocks, rhs, x), (3, 2, 2))

    def implementation(blocks, rhs, x):
        n, R = rhs.shape
        if blocks.shape != (n, R, R) or x.shape != rhs.shape:
            raise ValueError("block_solve: shapes (n, R, R), (n, R) and (n, R) are needed")
        judge(call(n, R, blocks.ctypes.data, rhs.ctypes.data, x.ctypes.data))

    return implementation
