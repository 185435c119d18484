"""Many small Cholesky factorisations at once: one R x R block for each row of a factor.

Blocks are interleaved, (groups, R, R, LANES): entry (r, s) of LANES blocks lies side by side, so that every scalar step
of the textbook algorithm is one vector instruction, whatever R is. The last group is filled up with identity blocks.

A pivot that is not positive (a row that no data see) gives a zero in place of its reciprocal: the solve leaves that
coordinate at zero instead of dividing by it.
"""

import numpy as np
from numba import prange

from ._arrays import aligned, deliver, readonly
from ._jit import device, kernel

LANES = 8


@device
def _factor(L):
    """In place: the lower triangle of L becomes the Cholesky factor, its diagonal the reciprocal pivots."""
    R = L.shape[0]
    for k in range(R):
        for n in range(LANES):
            pivot = L[k, k, n]
            L[k, k, n] = 1.0 / np.sqrt(pivot) if pivot > 0.0 else 0.0
        for r in range(k + 1, R):
            for n in range(LANES):
                L[r, k, n] *= L[k, k, n]
            for s in range(k + 1, r + 1):
                for n in range(LANES):
                    L[r, s, n] -= L[r, k, n] * L[s, k, n]


@kernel
def factor_scaled_blocks(coefficients, Q, slope, diagonal, damping, L):
    """Assemble and factor the blocks of a preconditioner.

    (n,T),(T,R,R),(n,R),(n,R),()->(groups,R,R,LANES)
    block_i = D_i (sum_t coefficients[i,t] Q[t]) D_i + diag(diagonal_i), D_i = diag(slope_i), plus `damping` times the
    block's own mean diagonal on its diagonal.
    """
    rows, R = slope.shape
    for group in prange(L.shape[0]):
        first = group * LANES
        for n in range(LANES):
            i = first + n
            if i >= rows:
                for r in range(R):
                    L[group, r, : r + 1, n] = 0
                    L[group, r, r, n] = 1
                continue
            for r in range(R):
                for s in range(r + 1):
                    total = 0.0
                    for t in range(Q.shape[0]):
                        total += coefficients[i, t] * Q[t, r, s]
                    L[group, r, s, n] = slope[i, r] * total * slope[i, s]
                L[group, r, r, n] += diagonal[i, r]
            trace = 0.0
            for r in range(R):
                trace += L[group, r, r, n]
            for r in range(R):
                L[group, r, r, n] += damping * trace / R
        _factor(L[group])


@kernel
def factor_blocks(blocks, L):
    """Cholesky factors of symmetric blocks.

    (n,R,R)->(groups,R,R,LANES)
    L L' = block, interleaved; reciprocal pivots on the diagonal.
    """
    rows, R = blocks.shape[0], blocks.shape[1]
    for group in prange(L.shape[0]):
        for n in range(LANES):
            i = group * LANES + n
            for r in range(R):
                for s in range(r + 1):
                    L[group, r, s, n] = blocks[i, r, s] if i < rows else np.float64(r == s)
        _factor(L[group])


@kernel
def solve_blocks(L, b, x):
    """Solve with every block.

    (groups,R,R,LANES),(n,R)->(n,R)
    x_i = (L_i L_i')^-1 b_i.
    """
    rows, R = b.shape
    for group in prange(L.shape[0]):
        y = np.zeros((R, LANES), L.dtype)
        first = group * LANES
        filled = min(LANES, rows - first)
        for n in range(filled):
            for r in range(R):
                y[r, n] = b[first + n, r]
        for r in range(R):
            for n in range(LANES):
                y[r, n] *= L[group, r, r, n]
            for s in range(r + 1, R):
                for n in range(LANES):
                    y[s, n] -= L[group, s, r, n] * y[r, n]
        for r in range(R - 1, -1, -1):
            for n in range(LANES):
                y[r, n] *= L[group, r, r, n]
            for s in range(r):
                for n in range(LANES):
                    y[s, n] -= L[group, r, s, n] * y[r, n]
        for n in range(filled):
            for r in range(R):
                x[first + n, r] = y[r, n]


def interleaved(rows, rank, dtype=np.float64):
    """Room for the factors of `rows` blocks."""
    return aligned((-(-rows // LANES), rank, rank, LANES), dtype)


def block_cholesky(blocks):
    """Factor n symmetric positive definite R x R blocks, given as (n, R, R); the result is for `block_solve`."""
    blocks = np.asarray(blocks)
    if blocks.ndim != 3 or blocks.shape[1] != blocks.shape[2]:
        raise ValueError(f"blocks: got shape {blocks.shape}; (n, R, R) is needed")
    blocks = np.ascontiguousarray(blocks, dtype=np.result_type(blocks, np.float32))
    L = interleaved(blocks.shape[0], blocks.shape[1], blocks.dtype)
    factor_blocks(readonly(blocks), L, work=len(blocks) * blocks.shape[1] ** 3 / 3)
    return L


def block_solve(factored, rhs, out=None):
    """Solve for every row of `rhs` (n, R) with its own block, factored by `block_cholesky`."""
    rhs = np.asarray(rhs)
    groups, rank = factored.shape[:2]
    if rhs.ndim != 2 or rhs.shape[1] != rank or -(-rhs.shape[0] // LANES) != groups:
        raise ValueError(f"rhs: got shape {rhs.shape}; {rank} columns and at most {groups * LANES} rows are needed")
    x = np.empty(rhs.shape, factored.dtype)
    solve_blocks(readonly(factored), readonly(np.ascontiguousarray(rhs, factored.dtype)), x, work=2.0 * rhs.size * rank)
    return deliver(x, out)
