"""The vector work of conjugate gradients, each step one pass: vectors of any shape, float64, ignorant of their meaning.

    dot       <a, b>
    advance   p += alpha d,  r += alpha Hd
    turn      d = beta d - y,  beta = <r, y> / before

Sums are taken over pieces of a fixed length, added in order: the same bits for any number of threads. (BLAS changes
its bits with its thread count.)
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from .jit import device, kernel
from .lanes import LANES, fill, load, multiply_add, negate, store, total_of_lanes
from .sharing import claim, done, wait
from .team import part_of
from .views import flat

PIECE = 8192

# One number read or written takes about as long as so many flops of a tile.
_FLOPS_PER_NUMBER = 4.0


@device
def _piece_dot(a, b, first, stop):
    """<a[first:stop], b[first:stop]>; four vectors of sums, so that no product waits for the one before."""
    s0, s1, s2, s3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    step = 4 * LANES
    whole = first + (stop - first) // step * step
    for n in range(first, whole, step):
        s0 = multiply_add(load(a, n), load(b, n), s0)
        s1 = multiply_add(load(a, n + LANES), load(b, n + LANES), s1)
        s2 = multiply_add(load(a, n + 2 * LANES), load(b, n + 2 * LANES), s2)
        s3 = multiply_add(load(a, n + 3 * LANES), load(b, n + 3 * LANES), s3)
    s0, s2 = multiply_add(fill(1.0), s0, s1), multiply_add(fill(1.0), s2, s3)
    total = total_of_lanes(multiply_add(fill(1.0), s0, s2))
    for n in range(whole, stop):
        total += a[n] * b[n]
    return total


@device
def dot_rows(a, b, first, stop):
    """<a[first:stop], b[first:stop]> of matrices."""
    width = a.shape[1]
    return _piece_dot(flat(a), flat(b), first * width, stop * width)


@device
def add_scaled(alpha, a, b, first, stop):
    """b[first:stop] += alpha a[first:stop]."""
    step, whole = fill(alpha), first + (stop - first) // LANES * LANES
    for n in range(first, whole, LANES):
        store(b, n, multiply_add(step, load(a, n), load(b, n)))
    for n in range(whole, stop):
        b[n] += alpha * a[n]


@kernel
def dot_pieces(team, a, b, sums):
    """Inner product, piece by piece.

    (n),(n)->(ceil(n / PIECE))
    sums[m] = sum of a * b over the m-th piece.
    """
    for piece in part_of(team, sums.shape[0]):
        sums[piece] = _piece_dot(a, b, piece * PIECE, min(a.shape[0], (piece + 1) * PIECE))


@kernel
def advance_along(team, alpha, d, Hd, p, r):
    """A step along d.

    (),(n),(n)->(n),(n)
    p += alpha d, r += alpha Hd.
    """
    for piece in part_of(team, (p.shape[0] + PIECE - 1) // PIECE):
        first, stop = piece * PIECE, min(p.shape[0], (piece + 1) * PIECE)
        add_scaled(alpha, d, p, first, stop)
        add_scaled(alpha, Hd, r, first, stop)


@kernel
def turn_direction(team, r, y, before, d, sums):
    """The next conjugate direction.

    (n),(n),()->(n),(ceil(n / PIECE))
    sums as in dot_pieces for r and y, d = (sum of sums / before) d - y.
    """
    stages, pieces = team[2], sums.shape[0]
    piece = claim(stages[0])
    while piece < pieces:
        sums[piece] = _piece_dot(r, y, piece * PIECE, min(r.shape[0], (piece + 1) * PIECE))
        piece = done(stages[0])
    wait(stages[0], pieces)
    beta = in_order(sums) / before
    for piece in part_of(team, pieces):
        next_direction(beta, y, d, piece * PIECE, min(d.shape[0], (piece + 1) * PIECE))


@device
def next_direction(beta, y, d, first, stop):
    """d[first:stop] = beta d[first:stop] - y[first:stop]."""
    share, whole = fill(beta), first + (stop - first) // LANES * LANES
    for n in range(first, whole, LANES):
        store(d, n, multiply_add(share, load(d, n), negate(load(y, n))))
    for n in range(whole, stop):
        d[n] = beta * d[n] - y[n]


def total_of(sums: Iterable[float]) -> float:
    """The sum of `sums`, from the first to the last (Python's own sum goes about it otherwise from 3.12 on)."""
    total = 0.0
    for part in sums:
        total += part
    return total


in_order = device(total_of)


def stride(
    ry: float, curvature: float, pp: float, pd: float, dd: float, predicted: float, radius: float
) -> tuple[float, bool, float, float]:
    """How far conjugate gradients go along d within ‖p‖ ≤ radius: (alpha, whether they end there, <p,p>, predicted).

    ry is <r, y>, curvature <d, H d>; pp, pd and dd are <p,p>, <p,d> and <d,d> in the norm of the radius, predicted is
    the decrease of the model up to here. Without curvature, and without a radius, alpha is zero.
    """
    alpha = ry / curvature if curvature > 0.0 else np.inf
    # Along a direction without curvature the model only falls: the way leads to the boundary, if there is one.
    ends = not alpha < np.inf or pp + alpha * (2.0 * pd + alpha * dd) >= radius * radius
    if ends:
        if radius == np.inf:
            return 0.0, True, pp, predicted
        missing = max(0.0, radius * radius - pp)
        root = np.sqrt(pd * pd + dd * missing)
        # Of the two forms of the root, the one that does not subtract like numbers.
        alpha = missing / (pd + root) if pd > 0.0 else (root - pd) / dd
    return alpha, ends, pp + alpha * (2.0 * pd + alpha * dd), predicted + alpha * (ry - 0.5 * alpha * curvature)


def turned_norms(ry: float, before: float, alpha: float, pd: float, dd: float) -> tuple[float, float]:
    """<p,d> and <d,d> after alpha d, and the turn to the next direction; `before` is the <r, y> before them."""
    beta = ry / before
    return beta * (pd + alpha * dd), ry + beta * beta * dd


def _flat(vector):
    """A vector as the kernels read it; a copy only if it is not float64 in C order."""
    flat = np.ascontiguousarray(vector, np.float64).reshape(-1)  # always a new view
    flat.flags.writeable = False
    return flat


def _room(vector):
    return np.empty(-(-vector.shape[0] // PIECE))


def dot(a: ArrayLike, b: ArrayLike) -> float:
    """<a, b>."""
    a, b = _flat(a), _flat(b)
    sums = _room(a)
    dot_pieces(a, b, sums, work=2 * _FLOPS_PER_NUMBER * a.shape[0], least=LEAST)
    return total_of(sums.tolist())


def advance(alpha: float, d: ArrayLike, Hd: ArrayLike, p: NDArray[np.float64], r: NDArray[np.float64]) -> None:
    """p += alpha d and r += alpha Hd, in place; p and r are float64 in C order."""
    work = 6 * _FLOPS_PER_NUMBER * p.size
    advance_along(float(alpha), _flat(d), _flat(Hd), p.reshape(-1), r.reshape(-1), work=work, least=LEAST)


def turn(r: ArrayLike, y: ArrayLike, before: float, d: NDArray[np.float64]) -> float:
    """d = beta d - y in place with beta = <r, y> / before; returns <r, y>. d is float64 in C order."""
    r, y = _flat(r), _flat(y)
    sums = _room(r)
    work = 5 * _FLOPS_PER_NUMBER * d.size
    turn_direction(r, y, float(before), d.reshape(-1), sums, work=work, least=LEAST)
    return total_of(sums.tolist())
