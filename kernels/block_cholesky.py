"""Many small Cholesky factorisations at once: one R x R block for each row of a factor.

Blocks are interleaved: entry (r, s) of LANES blocks lies side by side, so that every scalar step of the textbook
algorithm is one vector instruction, whatever R is (`lanes.py`). While they are factored, at offset (r R + s) LANES;
kept are the lower triangles alone, row after row, (groups, triangle(R)*LANES), with reciprocal pivots on the diagonal.
A group that has fewer rows is filled up with identity blocks.
Rows may come in several stacks, such as the three factors of a model: no group straddles two of them, and `groups`
(groups, 3) has the first row of each group, how many there are, and the number of its stack.

A preconditioner's factors may be kept in float32: M = L L' with the rounded L is still exactly symmetric and positive
definite, and solving is bound by reading L. For its range's sake each block is first divided by its mean diagonal.

A pivot that is not positive (a row that no data see) gives a zero in place of its reciprocal: the solve leaves that
coordinate at zero instead of dividing by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import aligned, as_real, check_out, deliver, readonly
from .jit import device, kernel, scratch
from .lanes import LANES, fill, load, multiply, multiply_add, negate, reciprocal_root, store

# Columns whose sums stay in registers together: more would spill.
_COLUMNS = 4


@device
def _four_entries(L, R, r, s):
    """L[r, s:s+4] of a row below the diagonal block at s, in registers from the first product to the last."""
    row, at = r * R * LANES, (r * R + s) * LANES
    c0, c1, c2, c3 = s * R * LANES, (s + 1) * R * LANES, (s + 2) * R * LANES, (s + 3) * R * LANES
    a0, a1 = load(L, at), load(L, at + LANES)
    a2, a3 = load(L, at + 2 * LANES), load(L, at + 3 * LANES)
    for k in range(0, s * LANES, LANES):
        x = negate(load(L, row + k))
        a0 = multiply_add(x, load(L, c0 + k), a0)
        a1 = multiply_add(x, load(L, c1 + k), a1)
        a2 = multiply_add(x, load(L, c2 + k), a2)
        a3 = multiply_add(x, load(L, c3 + k), a3)
    k = s * LANES
    x = multiply(a0, load(L, c0 + k))
    store(L, at, x)
    x = negate(x)
    a1 = multiply_add(x, load(L, c1 + k), a1)
    a2 = multiply_add(x, load(L, c2 + k), a2)
    a3 = multiply_add(x, load(L, c3 + k), a3)
    k += LANES
    x = multiply(a1, load(L, c1 + k))
    store(L, at + LANES, x)
    x = negate(x)
    a2 = multiply_add(x, load(L, c2 + k), a2)
    a3 = multiply_add(x, load(L, c3 + k), a3)
    k += LANES
    x = multiply(a2, load(L, c2 + k))
    store(L, at + 2 * LANES, x)
    a3 = multiply_add(negate(x), load(L, c3 + k), a3)
    store(L, at + 3 * LANES, multiply(a3, load(L, c3 + k + LANES)))


@device
def _one_entry(L, R, r, s):
    """L[r, s] from the entries to its left; on the diagonal, the reciprocal pivot."""
    row, column = r * R * LANES, s * R * LANES
    even, odd = load(L, row + s * LANES), fill(0.0)
    for k in range(0, (s - s % 2) * LANES, 2 * LANES):
        even = multiply_add(negate(load(L, row + k)), load(L, column + k), even)
        odd = multiply_add(negate(load(L, row + k + LANES)), load(L, column + k + LANES), odd)
    if s % 2:
        k = (s - 1) * LANES
        odd = multiply_add(negate(load(L, row + k)), load(L, column + k), odd)
    total = multiply_add(fill(1.0), even, odd)
    if r == s:
        store(L, row + s * LANES, reciprocal_root(total))
    else:
        store(L, row + s * LANES, multiply(total, load(L, column + s * LANES)))


@device
def _factor(L, R):
    """In place: the lower triangle of L becomes the Cholesky factor, its diagonal the reciprocal pivots."""
    for s in range(0, R, _COLUMNS):
        stop = min(R, s + _COLUMNS)
        for r in range(s, stop):
            for column in range(s, r + 1):
                _one_entry(L, R, r, column)
        # Below the diagonal block there are rows only if it is whole.
        for r in range(stop, R):
            _four_entries(L, R, r, s)


def triangle(rows: int) -> int:
    """How many entries the first rows of a lower triangle have."""
    return rows * (rows + 1) // 2


_triangle = device(triangle)


@device
def _keep(work, R, L):
    """Round the lower triangle into its place."""
    for r in range(R):
        for s in range(r + 1):
            store(L, (_triangle(r) + s) * LANES, load(work, (r * R + s) * LANES))


@kernel
def factor_scaled_blocks(groups, coefficients, Q, slope, diagonal, damping, L, means):
    """Assemble and factor the blocks of a preconditioner.

    (groups,3),(n,T),(T,stacks,R',R'),(n,R),(n,R),()->(groups,triangle(R)*LANES),(groups*LANES)
    block_i = D_i (sum_t coefficients[i,t] Q[t,stack]) D_i + diag(diagonal_i), D_i = diag(slope_i); means = its mean
    diagonal, L L' = block / mean + damping I. Of Q the leading R x R entries count.
    """
    R, T = slope.shape[1], Q.shape[0]
    for group in prange(L.shape[0]):
        first, filled, stack = groups[group, 0], groups[group, 1], groups[group, 2]
        shares = np.zeros(T * LANES)
        slopes = np.zeros(R * LANES)
        diagonals = np.ones(R * LANES)
        work = scratch(R, R * LANES, slope).reshape(-1)
        for n in range(filled):
            for t in range(T):
                shares[t * LANES + n] = coefficients[first + n, t]
            for r in range(R):
                slopes[r * LANES + n] = slope[first + n, r]
                diagonals[r * LANES + n] = diagonal[first + n, r]
        # The mean diagonals first: sum_r slope_r^2 (sum_t c_t Q_t[r,r]) + diagonal_r.
        for n in range(LANES):
            trace = 0.0
            for r in range(R):
                weight = 0.0
                for t in range(T):
                    weight += shares[t * LANES + n] * Q[t, stack, r, r]
                trace += slopes[r * LANES + n] ** 2 * weight + diagonals[r * LANES + n]
            mean = trace / R if trace > 0.0 else 1.0
            means[group * LANES + n] = mean
            root = 1.0 / np.sqrt(mean)
            for r in range(R):
                slopes[r * LANES + n] *= root
                diagonals[r * LANES + n] = diagonals[r * LANES + n] / mean + damping
        for r in range(R):
            for s in range(r + 1):
                total = fill(0.0)
                for t in range(T):
                    total = multiply_add(load(shares, t * LANES), fill(Q[t, stack, r, s]), total)
                total = multiply(multiply(total, load(slopes, r * LANES)), load(slopes, s * LANES))
                if s == r:
                    total = multiply_add(fill(1.0), load(diagonals, r * LANES), total)
                store(work, (r * R + s) * LANES, total)
        _factor(work, R)
        _keep(work, R, L[group])


@kernel
def factor_blocks(blocks, L):
    """Cholesky factors of symmetric blocks.

    (n,R,R)->(groups,triangle(R)*LANES)
    L L' = block, interleaved; reciprocal pivots on the diagonal.
    """
    rows, R = blocks.shape[0], blocks.shape[1]
    for group in prange(L.shape[0]):
        work = scratch(R, R * LANES, blocks).reshape(-1)
        for n in range(LANES):
            i = group * LANES + n
            for r in range(R):
                for s in range(r + 1):
                    work[(r * R + s) * LANES + n] = blocks[i, r, s] if i < rows else np.float64(r == s)
        _factor(work, R)
        _keep(work, R, L[group])


@kernel
def solve_blocks(groups, L, means, b, x):
    """Solve with every block.

    (groups,3),(groups,triangle(R)*LANES),(groups*LANES),(n,R)->(n,R)
    x_i = (means_i L_i L_i')^-1 b_i.
    """
    R = b.shape[1]
    for group in prange(L.shape[0]):
        y = scratch(R, LANES, b).reshape(-1)
        y[:] = 0
        factor = L[group]
        first, filled = groups[group, 0], groups[group, 1]
        for n in range(filled):
            share = 1.0 / means[group * LANES + n]
            for r in range(R):
                y[r * LANES + n] = b[first + n, r] * share
        for r in range(R):
            # Two sums, so that each multiply-add need not wait for the one before.
            even, odd = load(y, r * LANES), fill(0.0)
            row = _triangle(r) * LANES
            for s in range(0, (r - r % 2) * LANES, 2 * LANES):
                even = multiply_add(negate(load(factor, row + s)), load(y, s), even)
                odd = multiply_add(negate(load(factor, row + s + LANES)), load(y, s + LANES), odd)
            if r % 2:
                odd = multiply_add(negate(load(factor, row + (r - 1) * LANES)), load(y, (r - 1) * LANES), odd)
            total = multiply_add(fill(1.0), even, odd)
            store(y, r * LANES, multiply(total, load(factor, row + r * LANES)))
        for r in range(R - 1, -1, -1):
            row = _triangle(r) * LANES
            found = multiply(load(y, r * LANES), load(factor, row + r * LANES))
            store(y, r * LANES, found)
            minus = negate(found)
            for s in range(0, r * LANES, LANES):
                store(y, s, multiply_add(minus, load(factor, row + s), load(y, s)))
        for n in range(filled):
            for r in range(R):
                x[first + n, r] = y[r * LANES + n]


def groups_of(stacks: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The groups of stacks with so many rows each, and a mean of one for each of their blocks."""
    groups, first = [], 0
    for stack, rows in enumerate(stacks):
        groups += [(first + n, min(LANES, rows - n), stack) for n in range(0, rows, LANES)]
        first += rows
    return readonly(np.array(groups, dtype=np.int64)), np.ones(len(groups) * LANES)


def room(groups: NDArray[np.int64], rank: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Room for the factors of all groups."""
    return aligned((len(groups), triangle(rank) * LANES), dtype)


@dataclass(frozen=True, eq=False)
class Factored:
    """The Cholesky factors of n blocks of size R, interleaved, as `block_solve` wants them; `shape` is (n, R)."""

    shape: tuple[int, int]
    L: np.ndarray


def block_cholesky(blocks: ArrayLike) -> Factored:
    """Factor n symmetric positive definite R x R blocks, given as (n, R, R); the result is for `block_solve`."""
    blocks = as_real(blocks, "blocks", "(n, R, R)")
    n, rank = blocks.shape[:2]
    if blocks.shape[2] != rank:
        raise ValueError(f"blocks: got shape {blocks.shape}; (n, R, R) is needed")
    L = room(groups_of([n])[0], rank)
    factor_blocks(readonly(np.ascontiguousarray(blocks, np.float64)), L, work=n * rank**3 / 3)
    return Factored((n, rank), L)


def block_solve(factored: Factored, rhs: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Solve for every row of `rhs` (n, R) with its own block, factored by `block_cholesky`; in float64."""
    if not isinstance(factored, Factored):
        raise TypeError(f"factored: got {type(factored).__name__}; what block_cholesky returns is needed")
    rhs = as_real(rhs, "rhs", "(n, R)")
    if rhs.shape != factored.shape:
        n, rank = factored.shape
        raise ValueError(f"rhs: got shape {rhs.shape}; a row for each of the {n} blocks and {rank} columns are needed")
    check_out(out, rhs.shape)
    x = np.empty(rhs.shape)
    groups, ones = groups_of([len(rhs)])
    b = readonly(np.ascontiguousarray(rhs, np.float64))
    solve_blocks(groups, readonly(factored.L), readonly(ones), b, x, work=2.0 * rhs.size * rhs.shape[1])
    return deliver(x, out)
