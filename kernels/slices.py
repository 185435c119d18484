"""Many small complex matrices at once, with their singular values lowered: the slices of clusters of patches.

A cluster of n patches with p maps each has one (n, p) matrix T for each frequency. With squares λ of singular values,

    T becomes f(T T*) T, or T f(T*T), whichever Gramian is smaller;   f(λ) = (1 + sqrt(1 − t/λ))/2 for λ > t, else 0.

The Gramian is diagonalised by Jacobi's rotations, cyclic, until all that is off the diagonal is rounding: LANES
frequencies go through the same steps side by side (`lanes.py`), so that a rotation is a few vector instructions a row.
Frequencies beyond the last are filled up with zeros.
"""

import numpy as np
from numpy.typing import NDArray

from .arrays import readonly
from .jit import LEAST_PARALLEL_WORK, device, kernel
from .lanes import LANES, fill, load, multiply, multiply_add, negate, reciprocal_root, store
from .scratch import borrow, give_back
from .team import part_of

# What is off the diagonal is rounding at this part of the trace; rotations converge quadratically, in 5 to 8 sweeps.
_ROUNDING = 1e-15
_SWEEPS = 30

# Its square is a number still.
_TINY = 1e-150


def whole_lanes(frequencies: int) -> int:
    """`frequencies` rounded up to whole lanes."""
    return -(-frequencies // LANES) * LANES


@device
def _gramian(X, first, n, f, wide, Gr, Gi):
    """T T* or T*T of the lanes at frequency f: entry (a, b) lies at (a m + b) LANES."""
    p, F = X.shape[1], X.shape[2] // 2
    m, depth = (n, p) if wide else (p, n)
    for a in range(m):
        for b in range(a + 1):
            re, im = fill(0.0), fill(0.0)
            for k in range(depth):
                x = X[first + a, k] if wide else X[first + k, b]
                y = X[first + b, k] if wide else X[first + k, a]
                xr, xi, yr, yi = load(x, f), load(x, F + f), load(y, f), load(y, F + f)
                re = multiply_add(xr, yr, multiply_add(xi, yi, re))
                im = multiply_add(xi, yr, multiply_add(negate(xr), yi, im))
            store(Gr, (a * m + b) * LANES, re)
            store(Gi, (a * m + b) * LANES, im)
            store(Gr, (b * m + a) * LANES, re)
            store(Gi, (b * m + a) * LANES, negate(im))


@device
def _is_diagonal(Gr, Gi, m):
    for lane in range(LANES):
        trace, off = 0.0, 0.0
        for a in range(m):
            trace += Gr[(a * m + a) * LANES + lane]
            for b in range(a):
                at = (a * m + b) * LANES + lane
                off += Gr[at] * Gr[at] + Gi[at] * Gi[at]
        if off > (_ROUNDING * trace) ** 2:
            return False
    return True


@device
def _rotation(Gr, Gi, m, i, j):
    """c and σ of the rotation A, B → c A − σ B, σ* A + c B of two columns that makes g = G[i, j] zero.

    With half the difference d of the two diagonal entries, r = sqrt(d² + |g|²) and w = |d| + r:
    c = w / sqrt(w² + |g|²), σ = sign(d) g* / sqrt(w² + |g|²); the diagonal entries move apart by r − |d| each.
    """
    at, back = (i * m + j) * LANES, (j * m + i) * LANES
    ii, jj = (i * m + i) * LANES, (j * m + j) * LANES
    gr, gi, a, b = load(Gr, at), load(Gi, at), load(Gr, ii), load(Gr, jj)
    d = multiply(fill(0.5), multiply_add(fill(-1.0), a, b))
    q, d2 = multiply_add(gr, gr, multiply(gi, gi)), multiply(d, d)
    sign = multiply(d, reciprocal_root(d2))
    size = multiply(sign, d)
    sign = multiply_add(negate(sign), sign, multiply_add(fill(1.0), sign, fill(1.0)))  # 1 where d is zero
    r2 = multiply_add(fill(1.0), d2, q)
    r = multiply(r2, reciprocal_root(r2))
    w = multiply_add(fill(1.0), size, multiply_add(fill(1.0), r, fill(_TINY)))  # no 0/0
    k = reciprocal_root(multiply_add(w, w, q))
    apart = multiply(sign, multiply_add(fill(-1.0), size, r))
    store(Gr, ii, multiply_add(fill(-1.0), apart, a))
    store(Gr, jj, multiply_add(fill(1.0), apart, b))
    for place in (at, back):
        store(Gr, place, fill(0.0))
        store(Gi, place, fill(0.0))
    k_signed = multiply(sign, k)
    return multiply(w, k), multiply(k_signed, gr), negate(multiply(k_signed, gi))


@device
def _turn(Ar, Ai, left, right, c, sr, si):
    """Rotate two entries of a row; the new values are returned too."""
    ar, ai, br, bi = load(Ar, left), load(Ai, left), load(Ar, right), load(Ai, right)
    xr = multiply_add(c, ar, multiply_add(negate(sr), br, multiply(si, bi)))
    xi = multiply_add(c, ai, negate(multiply_add(sr, bi, multiply(si, br))))
    yr = multiply_add(c, br, multiply_add(sr, ar, multiply(si, ai)))
    yi = multiply_add(c, bi, multiply_add(sr, ai, negate(multiply(si, ar))))
    store(Ar, left, xr)
    store(Ai, left, xi)
    store(Ar, right, yr)
    store(Ai, right, yi)
    return xr, xi, yr, yi


@device
def _diagonalise(Gr, Gi, Vr, Vi, m):
    """Jacobi's rotations: the diagonal of G becomes the eigenvalues, the columns of V the eigenvectors."""
    for a in range(m):
        for b in range(m):
            store(Vr, (a * m + b) * LANES, fill(1.0 if a == b else 0.0))
            store(Vi, (a * m + b) * LANES, fill(0.0))
    for _ in range(_SWEEPS):
        if _is_diagonal(Gr, Gi, m):
            break
        for i in range(m):
            for j in range(i + 1, m):
                c, sr, si = _rotation(Gr, Gi, m, i, j)
                for k in range(m):
                    row = k * m * LANES
                    _turn(Vr, Vi, row + i * LANES, row + j * LANES, c, sr, si)
                    if k != i and k != j:
                        xr, xi, yr, yi = _turn(Gr, Gi, row + i * LANES, row + j * LANES, c, sr, si)
                        store(Gr, (i * m + k) * LANES, xr)
                        store(Gi, (i * m + k) * LANES, negate(xi))
                        store(Gr, (j * m + k) * LANES, yr)
                        store(Gi, (j * m + k) * LANES, negate(yi))


@device
def _function(Gr, Gi, Vr, Vi, m, threshold):
    """V f(λ) V* in place of G, whose diagonal is λ; `Vr`, `Vi` stay."""
    for k in range(m):
        for lane in range(LANES):
            square = Gr[(k * m + k) * LANES + lane]
            kept = square > threshold
            part = 1.0 - threshold / (square if kept else 1.0)
            Gi[k * LANES + lane] = 0.5 + 0.5 * np.sqrt(max(part, 0.0)) if kept else 0.0
    # The first row of Gi has f(λ) now: it is written last.
    for a in range(m - 1, -1, -1):
        for b in range(a + 1):
            re, im = fill(0.0), fill(0.0)
            for k in range(m):
                weight = load(Gi, k * LANES)
                xr, xi = load(Vr, (a * m + k) * LANES), load(Vi, (a * m + k) * LANES)
                yr, yi = load(Vr, (b * m + k) * LANES), load(Vi, (b * m + k) * LANES)
                re = multiply_add(weight, multiply_add(xr, yr, multiply(xi, yi)), re)
                im = multiply_add(weight, multiply_add(xi, yr, multiply(negate(xr), yi)), im)
            store(Gr, (a * m + b) * LANES, re)
            store(Gr, (b * m + a) * LANES, re)
            if a > 0:
                store(Gi, (a * m + b) * LANES, im)
    for b in range(m):
        for a in range(b):
            store(Gi, (a * m + b) * LANES, negate(load(Gi, (b * m + a) * LANES)))
    store(Gi, 0, fill(0.0))


@device
def _apply(X, first, n, f, wide, Mr, Mi, out):
    """M T or T M."""
    p, F = X.shape[1], X.shape[2] // 2
    m = n if wide else p
    for i in range(n):
        for r in range(p):
            re, im = fill(0.0), fill(0.0)
            for k in range(m):
                x = X[first + k, r] if wide else X[first + i, k]
                at = (i * m + k) * LANES if wide else (k * m + r) * LANES
                xr, xi, mr, mi = load(x, f), load(x, F + f), load(Mr, at), load(Mi, at)
                re = multiply_add(mr, xr, multiply_add(negate(mi), xi, re))
                im = multiply_add(mr, xi, multiply_add(mi, xr, im))
            y = out[first + i, r]
            store(y, f, re)
            store(y, F + f, im)


@kernel
def shrink_slices(team, X, firsts, threshold, out):
    """The slices of every cluster with lower singular values.

    (n,p,2F),(clusters+1),()->(n,p,2F)
    Patches firsts[c] to firsts[c+1] are cluster c; X has the real parts of F frequencies, then the imaginary ones; F is
    a whole number of lanes. A squared singular value of at most `threshold` becomes zero.
    """
    p, F = X.shape[1], X.shape[2] // 2
    blocks = F // LANES
    for place in part_of(team, (len(firsts) - 1) * blocks):
        cluster, f = place // blocks, place % blocks * LANES
        first, n = firsts[cluster], firsts[cluster + 1] - firsts[cluster]
        wide = n <= p
        m = n if wide else p
        size = m * m * LANES
        work = borrow(4 * size, X)
        Gr, Gi, Vr, Vi = work[:size], work[size : 2 * size], work[2 * size : 3 * size], work[3 * size :]
        _gramian(X, first, n, f, wide, Gr, Gi)
        _diagonalise(Gr, Gi, Vr, Vi, m)
        _function(Gr, Gi, Vr, Vi, m, threshold)
        _apply(X, first, n, f, wide, Gr, Gi, out)
        give_back(work)


def shrink(X: NDArray[np.float64], firsts: NDArray[np.int64], threshold: float, out: NDArray[np.float64]) -> None:
    """`shrink_slices`, on several threads where it pays; `out` is another array than X."""
    sizes = np.diff(firsts)
    p, m = X.shape[1], np.minimum(sizes, X.shape[1])
    work = float(np.sum(4.0 * X.shape[2] * m * m * (2.0 * np.maximum(sizes, p) + 12.0 * m)))
    shrink_slices(readonly(X), readonly(firsts), threshold, out, work=work, least=LEAST_PARALLEL_WORK)
