"""Many small Cholesky factorisations at once: one R x R block for each row of a factor.

Blocks are interleaved: entry (r, s) of LANES blocks lies side by side, so that every scalar step of the textbook
algorithm is one vector instruction, whatever R is (`lanes.py`). Lower triangles are kept and factored in place, row
after row, (groups, triangle(R)*LANES), with reciprocal pivots on the diagonal. Four columns are done at a time: their
diagonal block, then the rows below it by twos, so that eight sums hide each other's latency.
A group that has fewer rows is filled up with identity blocks.
Rows may come in several stacks, such as the three factors of a model: no group straddles two of them, and `groups`
(groups, 3) has the first row of each group, how many there are, and the number of its stack.

A preconditioner may be factored and kept in float32: M = L L' with a rounded L is still exactly symmetric and positive
definite, the damping keeps its pivots far above rounding, and solving is bound by reading L. For its range's sake each
block is first divided by its mean diagonal.

A pivot that is not positive (a row that no data see) gives a zero in place of its reciprocal: the solve leaves that
coordinate at zero instead of dividing by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import aligned, as_real, check_out, deliver, readonly
from .jit import device, kernel
from .lanes import LANES, add, fill, fill_as, load, load_as, multiply, multiply_add, negate, reciprocal_root, store
from .scratch import borrow, give_back
from .team import part_of


def triangle(rows: int) -> int:
    """How many entries the first rows of a lower triangle have."""
    return rows * (rows + 1) // 2


_triangle = device(triangle)


@device
def _corner(L, s):
    """The diagonal block of the rows and columns s to s+3: ten sums in registers, then its own factorisation."""
    r0, r1, r2, r3 = _triangle(s), _triangle(s + 1), _triangle(s + 2), _triangle(s + 3)
    r0, r1, r2, r3 = r0 * LANES, r1 * LANES, r2 * LANES, r3 * LANES
    at, one, two, three = s * LANES, (s + 1) * LANES, (s + 2) * LANES, (s + 3) * LANES
    a00, a10, a11 = load_as(L, r0 + at, L), load_as(L, r1 + at, L), load_as(L, r1 + one, L)
    a20, a21, a22 = load_as(L, r2 + at, L), load_as(L, r2 + one, L), load_as(L, r2 + two, L)
    a30, a31 = load_as(L, r3 + at, L), load_as(L, r3 + one, L)
    a32, a33 = load_as(L, r3 + two, L), load_as(L, r3 + three, L)
    for k in range(0, s * LANES, LANES):
        x0, x1, x2, x3 = load_as(L, r0 + k, L), load_as(L, r1 + k, L), load_as(L, r2 + k, L), load_as(L, r3 + k, L)
        y0, y1, y2, y3 = negate(x0), negate(x1), negate(x2), negate(x3)
        a00, a10, a20, a30 = (
            multiply_add(y0, x0, a00), multiply_add(y0, x1, a10), multiply_add(y0, x2, a20), multiply_add(y0, x3, a30)
        )  # fmt: skip
        a11, a21, a31 = multiply_add(y1, x1, a11), multiply_add(y1, x2, a21), multiply_add(y1, x3, a31)
        a22, a32, a33 = multiply_add(y2, x2, a22), multiply_add(y2, x3, a32), multiply_add(y3, x3, a33)
    p0 = reciprocal_root(a00)
    x1, x2, x3 = multiply(a10, p0), multiply(a20, p0), multiply(a30, p0)
    store(L, r0 + at, p0)
    store(L, r1 + at, x1)
    store(L, r2 + at, x2)
    store(L, r3 + at, x3)
    p1 = reciprocal_root(multiply_add(negate(x1), x1, a11))
    y2, y3 = multiply(multiply_add(negate(x1), x2, a21), p1), multiply(multiply_add(negate(x1), x3, a31), p1)
    store(L, r1 + one, p1)
    store(L, r2 + one, y2)
    store(L, r3 + one, y3)
    p2 = reciprocal_root(multiply_add(negate(y2), y2, multiply_add(negate(x2), x2, a22)))
    z3 = multiply(multiply_add(negate(y2), y3, multiply_add(negate(x2), x3, a32)), p2)
    store(L, r2 + two, p2)
    store(L, r3 + two, z3)
    left = multiply_add(negate(y3), y3, multiply_add(negate(x3), x3, a33))
    store(L, r3 + three, reciprocal_root(multiply_add(negate(z3), z3, left)))


@device
def _finish_row(L, row, s, a0, a1, a2, a3):
    """Four sums of a row below the diagonal block at s become its entries there."""
    at = s * LANES
    r1, r2, r3 = _triangle(s + 1) * LANES + at, _triangle(s + 2) * LANES + at, _triangle(s + 3) * LANES + at
    x0 = multiply(a0, load_as(L, _triangle(s) * LANES + at, L))
    y0 = negate(x0)
    x1 = multiply(multiply_add(y0, load_as(L, r1, L), a1), load_as(L, r1 + LANES, L))
    y1 = negate(x1)
    a2 = multiply_add(y1, load_as(L, r2 + LANES, L), multiply_add(y0, load_as(L, r2, L), a2))
    x2 = multiply(a2, load_as(L, r2 + 2 * LANES, L))
    a3 = multiply_add(y1, load_as(L, r3 + LANES, L), multiply_add(y0, load_as(L, r3, L), a3))
    a3 = multiply_add(negate(x2), load_as(L, r3 + 2 * LANES, L), a3)
    store(L, row + at, x0)
    store(L, row + at + LANES, x1)
    store(L, row + at + 2 * LANES, x2)
    store(L, row + at + 3 * LANES, multiply(a3, load_as(L, r3 + 3 * LANES, L)))


@device
def _two_rows(L, r, s):
    """L[r:r+2, s:s+4] below the diagonal block at s: eight sums in registers from the first product to the last."""
    row, next_row, at = _triangle(r) * LANES, _triangle(r + 1) * LANES, s * LANES
    c0, c1, c2, c3 = _triangle(s), _triangle(s + 1), _triangle(s + 2), _triangle(s + 3)
    c0, c1, c2, c3 = c0 * LANES, c1 * LANES, c2 * LANES, c3 * LANES
    a0, a1 = load_as(L, row + at, L), load_as(L, row + at + LANES, L)
    a2, a3 = load_as(L, row + at + 2 * LANES, L), load_as(L, row + at + 3 * LANES, L)
    b0, b1 = load_as(L, next_row + at, L), load_as(L, next_row + at + LANES, L)
    b2, b3 = load_as(L, next_row + at + 2 * LANES, L), load_as(L, next_row + at + 3 * LANES, L)
    for k in range(0, s * LANES, LANES):
        x, y = negate(load_as(L, row + k, L)), negate(load_as(L, next_row + k, L))
        column = load_as(L, c0 + k, L)
        a0, b0 = multiply_add(x, column, a0), multiply_add(y, column, b0)
        column = load_as(L, c1 + k, L)
        a1, b1 = multiply_add(x, column, a1), multiply_add(y, column, b1)
        column = load_as(L, c2 + k, L)
        a2, b2 = multiply_add(x, column, a2), multiply_add(y, column, b2)
        column = load_as(L, c3 + k, L)
        a3, b3 = multiply_add(x, column, a3), multiply_add(y, column, b3)
    _finish_row(L, row, s, a0, a1, a2, a3)
    _finish_row(L, next_row, s, b0, b1, b2, b3)


@device
def _entry(L, r, s):
    """L[r, s] from the entries to its left; on the diagonal, the reciprocal pivot."""
    row, column = _triangle(r) * LANES, _triangle(s) * LANES
    even, odd = load_as(L, row + s * LANES, L), fill_as(0.0, L)
    for k in range(0, (s - s % 2) * LANES, 2 * LANES):
        even = multiply_add(negate(load_as(L, row + k, L)), load_as(L, column + k, L), even)
        odd = multiply_add(negate(load_as(L, row + k + LANES, L)), load_as(L, column + k + LANES, L), odd)
    if s % 2:
        k = (s - 1) * LANES
        odd = multiply_add(negate(load_as(L, row + k, L)), load_as(L, column + k, L), odd)
    total = add(even, odd)
    if r == s:
        store(L, row + s * LANES, reciprocal_root(total))
    else:
        store(L, row + s * LANES, multiply(total, load_as(L, column + s * LANES, L)))


@device
def _factor(L, R):
    """In place: a lower triangle becomes its Cholesky factor, the diagonal its reciprocal pivots; in L's own dtype."""
    whole = R - R % 4
    for s in range(0, whole, 4):
        _corner(L, s)
        for r in range(s + 4, R - 1, 2):
            _two_rows(L, r, s)
        if (R - s) % 2:
            for column in range(s, s + 4):
                _entry(L, R - 1, column)
    for r in range(whole, R):
        for s in range(whole, r + 1):
            _entry(L, r, s)


@kernel
def factor_scaled_blocks(team, groups, coefficients, Q, slope, diagonal, damping, L, means):
    """Assemble and factor the blocks of a preconditioner.

    (groups,3),(n,T),(T,stacks,R',R'),(n,R),(n,R),()->(groups,triangle(R)*LANES),(groups*LANES)
    block_i = D_i (sum_t coefficients[i,t] Q[t,stack]) D_i + diag(diagonal_i), D_i = diag(slope_i); means = its mean
    diagonal, L L' = block / mean + damping I. Of Q the leading R x R entries count.
    """
    R, T = slope.shape[1], Q.shape[0]
    shares, slopes, diagonals = borrow(T * LANES, means), borrow(R * LANES, means), borrow(R * LANES, means)
    roots = borrow(LANES, means)
    for group in part_of(team, L.shape[0]):
        first, filled, stack = groups[group, 0], groups[group, 1], groups[group, 2]
        block = L[group]
        for t in range(T):
            store(shares, t * LANES, fill(0.0))
        for r in range(R):
            store(slopes, r * LANES, fill(0.0))
            store(diagonals, r * LANES, fill(1.0))
        for n in range(filled):
            for t in range(T):
                shares[t * LANES + n] = coefficients[first + n, t]
            for r in range(R):
                slopes[r * LANES + n] = slope[first + n, r]
                diagonals[r * LANES + n] = diagonal[first + n, r]
        # The mean diagonals first: sum_r slope_r^2 (sum_t c_t Q_t[r,r]) + diagonal_r.
        trace = fill(0.0)
        for r in range(R):
            weight, slopes_r = fill(0.0), load(slopes, r * LANES)
            for t in range(T):
                weight = multiply_add(load(shares, t * LANES), fill(Q[t, stack, r, r]), weight)
            trace = multiply_add(multiply(slopes_r, slopes_r), weight, add(load(diagonals, r * LANES), trace))
        store(roots, 0, trace)
        for n in range(LANES):
            mean = roots[n] / R if roots[n] > 0.0 else 1.0
            means[group * LANES + n], roots[n] = mean, 1.0 / np.sqrt(mean)
        root = load(roots, 0)
        for r in range(R):
            store(slopes, r * LANES, multiply(load(slopes, r * LANES), root))
            part = multiply(multiply(load(diagonals, r * LANES), root), root)
            store(diagonals, r * LANES, add(part, fill(damping)))
        for r in range(R):
            for s in range(r + 1):
                total = fill(0.0)
                for t in range(T):
                    total = multiply_add(load(shares, t * LANES), fill(Q[t, stack, r, s]), total)
                total = multiply(multiply(total, load(slopes, r * LANES)), load(slopes, s * LANES))
                if s == r:
                    total = add(load(diagonals, r * LANES), total)
                store(block, (_triangle(r) + s) * LANES, total)
        _factor(block, R)
    give_back(shares)
    give_back(slopes)
    give_back(diagonals)
    give_back(roots)


@kernel
def factor_blocks(team, blocks, L):
    """Cholesky factors of symmetric blocks.

    (n,R,R)->(groups,triangle(R)*LANES)
    L L' = block, interleaved; reciprocal pivots on the diagonal.
    """
    rows, R = blocks.shape[0], blocks.shape[1]
    for group in part_of(team, L.shape[0]):
        work = L[group]
        for n in range(LANES):
            i = group * LANES + n
            for r in range(R):
                for s in range(r + 1):
                    work[(_triangle(r) + s) * LANES + n] = blocks[i, r, s] if i < rows else np.float64(r == s)
        _factor(work, R)


@device
def _solve_lower(L, R, y):
    """y = L^-1 y. Four rows at a time, whose sums hide each other's latency; then the rows that are left."""
    whole = R - R % 4
    for r in range(0, whole, 4):
        at, r0, r1, r2, r3 = r * LANES, _triangle(r), _triangle(r + 1), _triangle(r + 2), _triangle(r + 3)
        r0, r1, r2, r3 = r0 * LANES, r1 * LANES, r2 * LANES, r3 * LANES
        a, b, c, d = load(y, at), load(y, at + LANES), load(y, at + 2 * LANES), load(y, at + 3 * LANES)
        for s in range(0, at, LANES):
            x = negate(load(y, s))
            a, b = multiply_add(load(L, r0 + s), x, a), multiply_add(load(L, r1 + s), x, b)
            c, d = multiply_add(load(L, r2 + s), x, c), multiply_add(load(L, r3 + s), x, d)
        r0, r1, r2, r3 = r0 + at, r1 + at, r2 + at, r3 + at
        a = multiply(a, load(L, r0))
        x = negate(a)
        b = multiply(multiply_add(load(L, r1), x, b), load(L, r1 + LANES))
        c, d = multiply_add(load(L, r2), x, c), multiply_add(load(L, r3), x, d)
        x = negate(b)
        c = multiply(multiply_add(load(L, r2 + LANES), x, c), load(L, r2 + 2 * LANES))
        d = multiply_add(load(L, r3 + LANES), x, d)
        d = multiply(multiply_add(load(L, r3 + 2 * LANES), negate(c), d), load(L, r3 + 3 * LANES))
        store(y, at, a)
        store(y, at + LANES, b)
        store(y, at + 2 * LANES, c)
        store(y, at + 3 * LANES, d)
    for r in range(whole, R):
        row, a = _triangle(r) * LANES, load(y, r * LANES)
        for s in range(0, r * LANES, LANES):
            a = multiply_add(load(L, row + s), negate(load(y, s)), a)
        store(y, r * LANES, multiply(a, load(L, row + r * LANES)))


@device
def _solve_upper(L, R, y):
    """y = L'^-1 y, from the last row to the first, in the same order the other way round."""
    whole = R - R % 4
    for r in range(R - 1, whole - 1, -1):
        a = load(y, r * LANES)
        for s in range(r + 1, R):
            a = multiply_add(load(L, (_triangle(s) + r) * LANES), negate(load(y, s * LANES)), a)
        store(y, r * LANES, multiply(a, load(L, (_triangle(r) + r) * LANES)))
    for r in range(whole - 4, -1, -4):
        at, row = r * LANES, (_triangle(r + 4) + r) * LANES
        a, b, c, d = load(y, at), load(y, at + LANES), load(y, at + 2 * LANES), load(y, at + 3 * LANES)
        for s in range(r + 4, R):
            x = negate(load(y, s * LANES))
            a, b = multiply_add(load(L, row), x, a), multiply_add(load(L, row + LANES), x, b)
            c, d = multiply_add(load(L, row + 2 * LANES), x, c), multiply_add(load(L, row + 3 * LANES), x, d)
            row += (s + 1) * LANES
        r0, r1, r2, r3 = _triangle(r) + r, _triangle(r + 1) + r, _triangle(r + 2) + r, _triangle(r + 3) + r
        r0, r1, r2, r3 = r0 * LANES, r1 * LANES, r2 * LANES, r3 * LANES
        d = multiply(d, load(L, r3 + 3 * LANES))
        x = negate(d)
        c = multiply(multiply_add(load(L, r3 + 2 * LANES), x, c), load(L, r2 + 2 * LANES))
        a, b = multiply_add(load(L, r3), x, a), multiply_add(load(L, r3 + LANES), x, b)
        x = negate(c)
        b = multiply(multiply_add(load(L, r2 + LANES), x, b), load(L, r1 + LANES))
        a = multiply_add(load(L, r2), x, a)
        a = multiply(multiply_add(load(L, r1), negate(b), a), load(L, r0))
        store(y, at, a)
        store(y, at + LANES, b)
        store(y, at + 2 * LANES, c)
        store(y, at + 3 * LANES, d)


@device
def solve_group(groups, L, means, rhs, x, group):
    """x_i = (means_i L_i L_i')^-1 rhs_i for the rows of one group."""
    R = rhs.shape[1]
    y = borrow(R * LANES, rhs)
    for n in range(R * LANES):
        y[n] = 0.0
    factor = L[group]
    first, filled = groups[group, 0], groups[group, 1]
    for n in range(filled):
        share = 1.0 / means[group * LANES + n]
        for r in range(R):
            y[r * LANES + n] = rhs[first + n, r] * share
    _solve_lower(factor, R, y)
    _solve_upper(factor, R, y)
    for n in range(filled):
        for r in range(R):
            x[first + n, r] = y[r * LANES + n]
    give_back(y)


@kernel
def solve_blocks(team, groups, L, means, b, x):
    """Solve with every block.

    (groups,3),(groups,triangle(R)*LANES),(groups*LANES),(n,R)->(n,R)
    x_i = (means_i L_i L_i')^-1 b_i.
    """
    for group in part_of(team, L.shape[0]):
        solve_group(groups, L, means, b, x, group)


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
    """Factor n symmetric positive definite R x R blocks.

    Parameters
    ----------
    blocks : (n, R, R) array

    Returns
    -------
    Factored
        For `block_solve`.
    """
    blocks = as_real(blocks, "blocks", "(n, R, R)")
    n, rank = blocks.shape[:2]
    if blocks.shape[2] != rank:
        raise ValueError(f"blocks: got shape {blocks.shape}; (n, R, R) is needed")
    L = room(groups_of([n])[0], rank)
    factor_blocks(readonly(np.ascontiguousarray(blocks, np.float64)), L, work=n * rank**3 / 3)
    return Factored((n, rank), L)


def block_solve(factored: Factored, rhs: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Solve for every right-hand side with its own block, in float64.

    Parameters
    ----------
    factored : Factored
        Of `block_cholesky`.
    rhs : (n, R) array
        A row for each block.
    out : (n, R) float64 array, optional

    Returns
    -------
    (n, R) float64 array
    """
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
