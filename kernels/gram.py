"""Gramians of factors, and the Hadamard products that replace a Khatri-Rao matrix's own Gramian.

S_n = U_n' U_n, and Q_n = the elementwise product of the two other S, which equals W_n' W_n for W_n the Khatri-Rao
product of the two other factors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import aligned, as_real, check_factors, check_out, deliver, pad
from .jit import device, kernel
from .simd import STORE, panel


@device
def gramian(U, S):
    """S = U'U."""
    panel(U, True, U, STORE, U[0], S, U, S[0])


@device
def hadamard(S, T, Q):
    """Q = S * T."""
    for r in range(Q.shape[0]):
        for s in range(Q.shape[1]):
            Q[r, s] = S[r, s] * T[r, s]


@device
def gramians(I, J, U, S, Q):
    """S and Q of three stacked factors."""
    gramian(U[:I], S[0])
    gramian(U[I : I + J], S[1])
    gramian(U[I + J :], S[2])
    hadamard(S[1], S[2], Q[0])
    hadamard(S[0], S[2], Q[1])
    hadamard(S[0], S[1], Q[2])


@kernel(uses_tiles=True)
def grams(I, J, U, S, Q):
    """Gramians of three stacked factors and their pairwise Hadamard products.

    (),(),(I+J+K,R)->(3,R,R),(3,R,R)
    S[n] = U_n' U_n; Q[0] = S[1]*S[2], Q[1] = S[0]*S[2], Q[2] = S[0]*S[1].
    """
    gramians(I, J, U, S, Q)


def gram(factor: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """The Gramian U'U of one factor.

    Parameters
    ----------
    factor : (n, R) array
    out : (R, R) array, optional

    Returns
    -------
    (R, R) array
    """
    factor = as_real(factor, "factor", "(n, R)")
    check_out(out, (factor.shape[1],) * 2)
    return deliver(_gram_stacks((factor,) * 3)[0][0], out)


def hadamard_gram(factors: Sequence[ArrayLike], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Q_n = Hadamard product of the Gramians of the two other factors, for all three n.

    Parameters
    ----------
    factors : three matrices (I, R), (J, R), (K, R)
    out : (3, R, R) array, optional

    Returns
    -------
    (3, R, R) array
    """
    factors = check_factors(factors)
    check_out(out, (3, *(factors[0].shape[1],) * 2))
    return deliver(_gram_stacks(factors)[1], out)


def _gram_stacks(factors):
    dtype = np.result_type(*factors, np.float32)
    rank = factors[0].shape[1]
    U = pad(np.concatenate(factors), dtype)
    S, Q = (aligned((3, U.shape[1], U.shape[1]), dtype) for _ in range(2))
    grams(len(factors[0]), len(factors[1]), U, S, Q)
    return S[:, :rank, :rank].copy(), Q[:, :rank, :rank].copy()
