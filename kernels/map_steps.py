"""Conjugate gradients on stacks of maps, every step four passes: what the maps of a scene are solved with.

The system is that of P maps on an I × J grid,

    H = share ⊗ diag(a) + D'wD ⊗ 1 + P'P ⊗ G,     P = P1 ⊗ P2,

a pixelwise term, weighted differences that all maps share, and a blur of the maps mixed by a P × P matrix G. (Pixels
that are exceptions add E_k − diag(a) of their own kind k; so do coarse ones to G.)

**Layout.** A stack is one-dimensional: `GUARD` zeros, then for each row of pixels the P maps one after the other, each
W = J numbers padded with zeros to a multiple of eight, then `GUARD` zeros again. A plane is a stack of one map. So
eight pixels of one map are a vector, no loop has a rest, and the next number to the left and right is always there to
be read: beyond the border its weight is zero.

**Preconditioner.** The diagonal of H on the grid, own + share a + coverage g with `own` the weights of a pixel's
differences and g the diagonal of G, plus that of H on aggregates of 2 × 2, 4 × 4, … pixels (Bramble,
Pasciak, Xu: Parallel multilevel preconditioners, 1990): y = Σ_l R_l diag(R_l'H R_l)⁻¹ R_l' r, R_l constant on
aggregates. A sum, so <r, y> is one of sums over levels, and costs no pass of its own. The levels from the first
aggregates on lie one behind the other in one array; `levels` has a row (start, rows, width) for each.

**Edges.** D Z holds the differences of a pixel to the next row and to the next column of all P maps at once (none
beyond the border), so that the maps share their edges. A step of length y = sqrt(|D Z|² + rounding²) costs

    p(y) = 2 knee (sqrt(1 + y/knee) − 1):

total variation, p = y, for steps well below the knee, and only the root of a step well above it, for an edge is an
edge however high. Where Z is known roughly, p is bounded by a square, w |D Z|²/2 + constant with w = p'(y)/y =
1 / (y sqrt(1 + y/knee)): p is concave in y².

**Passes.** Arithmetic is that of the direction d, float32 or float64; sums are float64.

    turn_maps       d = y + β d
    blur_maps       what d'Hd is, and P2'G P d, which `advance_maps` still multiplies by P1'
    advance_maps    Z += α d,  r −= α H d,  R_1' r,  <r, y> on the grid
    correct_maps    y on all aggregates, <r, y> on them
"""

import numpy as np

from .jit import inlined, kernel
from .lanes import (
    LANES,
    add,
    fill,
    fill_as,
    load,
    load_as,
    load_twice,
    multiply,
    multiply_add,
    reciprocal,
    store,
    store_pairs,
    store_transposed,
    subtract,
    total_of_lanes,
    widen,
)
from .scratch import borrow, give_back
from .sharing import claim, done, wait
from .team import part_of

#: Numbers before and behind a stack that may be read, and are zero.
GUARD = 16

#: Numbers of a row that are summed up in the arithmetic of the direction, before the sum goes on in float64.
RUN = 16 * LANES


@inlined
def _differences(d, at, before, after, below, right, place, W):
    """D'wD d at eight pixels of one map; the rows before and after are so far away, none where they are not there."""
    here = load_as(d, at, d)
    above = place - (W if before > 0 else 0)
    total = multiply(load_as(below, above, d), subtract(here, load_as(d, at - before, d)))
    total = multiply_add(load_as(below, place, d), subtract(here, load_as(d, at + after, d)), total)
    total = multiply_add(load_as(right, place - 1, d), subtract(here, load_as(d, at - 1, d)), total)
    return multiply_add(load_as(right, place, d), subtract(here, load_as(d, at + 1, d)), total)


@inlined
def _inverse(own, share, coverage, a, g, place, like):
    """1 / (own + share a + coverage g) at eight pixels, one over the diagonal of H; zero where there is nothing."""
    diagonal = multiply_add(load_as(share, place, like), a, load_as(own, place, like))
    return reciprocal(multiply_add(load_as(coverage, place, like), g, diagonal))


@kernel
def turn_maps(team, shape, own, share, coverage, a, g, r, coarser, coarse_width, beta, d):
    """The next conjugate direction.

    (3),(L),(L),(L),(P),(P),(S),(S1),(),()->(S)
    d = r / (own + share a + coverage g) + what `coarser`, the first level of aggregates, adds, + beta d.
    """
    I, P, W = shape
    for i in part_of(team, I):
        before = fill_as(beta, d)
        for p in range(P):
            at, above = GUARD + (i * P + p) * W, GUARD + (i // 2 * P + p) * coarse_width
            by_msi, by_hsi = fill_as(a[p], d), fill_as(g[p], d)
            for j in range(0, W, LANES):
                inverse = _inverse(own, share, coverage, by_msi, by_hsi, GUARD + i * W + j, d)
                y = multiply_add(inverse, load_as(r, at + j, d), load_twice(coarser, above + j // 2, d))
                store(d, at + j, multiply_add(before, load_as(d, at + j, d), y))


@inlined
def _store_turned(block, at, apart, out, to, wide, count, like):
    """Eight vectors, so far apart, as columns, of which so many are stored, again so far apart."""
    store_transposed(
        out,
        to,
        wide,
        count,
        load_as(block, at, like),
        load_as(block, at + apart, like),
        load_as(block, at + 2 * apart, like),
        load_as(block, at + 3 * apart, like),
        load_as(block, at + 4 * apart, like),
        load_as(block, at + 5 * apart, like),
        load_as(block, at + 6 * apart, like),
        load_as(block, at + 7 * apart, like),
    )


@inlined
def _blur_rows(shape, d, columns, values, first, last, Q, rows, blurred):
    """P1 d of a coarse row, whose entries are given, as W pixels of Q maps, eight of them at a time."""
    _, P, W = shape
    apart = W + LANES  # a power of two would have all eight rows share a few places of the cache
    for q in range(0, Q, LANES):
        for n in range(min(LANES, P - q)):
            to = n * apart
            for j in range(0, W, LANES):
                store(rows, to + j, fill_as(0.0, d))
            for entry in range(first, last):
                at, value = GUARD + (columns[entry] * P + q + n) * W, fill_as(values[entry], d)
                for j in range(0, W, LANES):
                    store(rows, to + j, multiply_add(value, load_as(d, at + j, d), load_as(rows, to + j, d)))
        for j in range(0, W, LANES):
            _store_turned(rows, j, apart, blurred, j * Q + q, Q, LANES, d)


@inlined
def _multiply_rows(starts, columns, values, given, Q, out):
    """A sparse matrix times rows of Q numbers; two vectors of a row share what is read of the matrix."""
    paired = Q // (2 * LANES) * 2 * LANES
    for n in range(starts.shape[0] - 1):
        first, last = starts[n], starts[n + 1]
        for q in range(0, paired, 2 * LANES):
            t0 = t1 = fill_as(0.0, given)
            for entry in range(first, last):
                at, value = columns[entry] * Q + q, fill_as(values[entry], given)
                t0 = multiply_add(value, load_as(given, at, given), t0)
                t1 = multiply_add(value, load_as(given, at + LANES, given), t1)
            store(out, n * Q + q, t0)
            store(out, n * Q + q + LANES, t1)
        if paired < Q:
            total = fill_as(0.0, given)
            for entry in range(first, last):
                at = columns[entry] * Q + paired
                total = multiply_add(fill_as(values[entry], given), load_as(given, at, given), total)
            store(out, n * Q + paired, total)


@inlined
def _store_maps(pixels, Q, P, W, to, block, out):
    """W pixels of Q maps as P rows of a stack from the number `to` on, four vectors of each at a time."""
    for q in range(0, Q, LANES):
        for j in range(0, W, 4 * LANES):
            count = min(4 * LANES, W - j)
            for n in range(0, count, LANES):
                _store_turned(pixels, (j + n) * Q + q, Q, block, n, 4 * LANES, LANES, pixels)
            for p in range(min(LANES, P - q)):
                for n in range(0, count, LANES):
                    store(out, to + (q + p) * W + j + n, load_as(block, 4 * LANES * p + n, pixels))


@inlined
def _mix_four(coarse, first, G, P, Q, mixed):
    """G times four pixels of Q maps, which share what is read of G."""
    for q in range(0, Q, LANES):
        t0 = t1 = t2 = t3 = fill_as(0.0, coarse)
        for p in range(P):
            row, at = load_as(G, p * Q + q, coarse), first + p
            t0 = multiply_add(fill_as(coarse[at], coarse), row, t0)
            t1 = multiply_add(fill_as(coarse[at + Q], coarse), row, t1)
            t2 = multiply_add(fill_as(coarse[at + 2 * Q], coarse), row, t2)
            t3 = multiply_add(fill_as(coarse[at + 3 * Q], coarse), row, t3)
        at = first + q
        store(mixed, at, t0)
        store(mixed, at + Q, t1)
        store(mixed, at + 2 * Q, t2)
        store(mixed, at + 3 * Q, t3)


@kernel
def blur_maps(
    team, shape, d, a, ones, below, right, odd, extras, rows, columns, back, G, odd_coarse, extras_coarse, out, sums
):
    """Blur, mix, and half of the way back; and the energy d'Hd.

    (3),(S),(P),(L),(L),(L),(m),(k,P,P),csr,csr,csr,(P Q),(n),(l,P,P)->(T),(I1)
    out = the stack P2' G P2 P1 d of I1 rows; sums[i] = the part of d'Hd of the i-th coarse row, and of fine rows.
    G has its rows padded to a multiple of eight, Q.
    """
    I, P, W = shape
    row_starts, row_columns, row_values = rows
    column_starts, column_columns, column_values = columns
    back_starts, back_columns, back_values = back
    I1, J1, J = row_starts.shape[0] - 1, column_starts.shape[0] - 1, back_starts.shape[0] - 1
    up, Q = P * W, (P + LANES - 1) // LANES * LANES
    some = (J1 + 3) // 4 * 4  # coarse pixels are mixed four at a time
    blurred, coarse, mixed, gram = borrow(W * Q, d), borrow(some * Q, d), borrow(some * Q, d), borrow(P * Q, d)
    block = borrow(LANES * max(4 * LANES, W + LANES), d)
    for n in range(0, block.shape[0], LANES):
        store(block, n, fill_as(0.0, d))  # of maps that are not there, G has zeros too
    for n in range(0, P * Q, LANES):
        store(gram, n, load_as(G, n, d))
    for n in range(J1 * Q, some * Q, LANES):
        store(coarse, n, fill_as(0.0, d))
    for i1 in part_of(team, I1):
        # From here on a vector holds eight maps of one pixel: columns are what is summed over.
        _blur_rows(shape, d, row_columns, row_values, row_starts[i1], row_starts[i1 + 1], Q, block, blurred)
        starts, places, kinds = odd_coarse
        energy = fill(0.0)
        _multiply_rows(column_starts, column_columns, column_values, blurred, Q, coarse)
        for first in range(0, some * Q, 4 * Q):
            _mix_four(coarse, first, gram, P, Q, mixed)
        for entry in range(starts[i1], starts[i1 + 1]):
            at, extra = places[entry] * Q, extras_coarse[kinds[entry]]
            for p in range(P):
                for q in range(P):
                    mixed[at + p] += extra[p, q] * coarse[at + q]
        for n in range(0, J1 * Q, LANES):
            energy = multiply_add(load(coarse, n), load(mixed, n), energy)
        # What was blurred is done with, and its room is taken for the way back.
        _multiply_rows(back_starts, back_columns, back_values, mixed, Q, blurred)
        for n in range(J * Q, W * Q, LANES):
            store(blurred, n, fill_as(0.0, d))
        _store_maps(blurred, Q, P, W, GUARD + i1 * up, block, out)
        of_odd = 0.0
        starts, places, kinds = odd
        for i in range(i1 * I // I1, (i1 + 1) * I // I1):
            after = up if i + 1 < I else 0
            for p in range(P):
                at, own = GUARD + (i * P + p) * W, fill_as(a[p], d)
                for first in range(0, W, RUN):
                    # A short sum keeps its digits in float32.
                    total = fill_as(0.0, d)
                    for j in range(first, min(W, first + RUN), LANES):
                        here, place = load_as(d, at + j, d), GUARD + i * W + j
                        part = multiply(multiply(own, load_as(ones, place, d)), multiply(here, here))
                        step = subtract(here, load_as(d, at + after + j, d))
                        part = multiply_add(load_as(below, place, d), multiply(step, step), part)
                        step = subtract(here, load_as(d, at + 1 + j, d))
                        total = add(total, multiply_add(load_as(right, place, d), multiply(step, step), part))
                    energy = add(energy, widen(total))
            for entry in range(starts[i], starts[i + 1]):
                at, extra = GUARD + i * up + places[entry], extras[kinds[entry]]
                for p in range(P):
                    for q in range(P):
                        of_odd += d[at + p * W] * extra[p, q] * d[at + q * W]
        sums[i1] = of_odd + total_of_lanes(energy)
    give_back(blurred)
    give_back(coarse)
    give_back(mixed)
    give_back(gram)
    give_back(block)


@kernel
def advance_maps(
    team,
    shape,
    alpha,
    d,
    a,
    ones,
    below,
    right,
    odd,
    extras,
    back,
    blurred,
    own,
    share,
    coverage,
    g,
    coarse_width,
    Z,
    r,
    coarser,
    sums,
):
    """A step along d.

    (3),(),(S),(P),(L),(L),(L),(m),(k,P,P),csr,(T),(L),(L),(L),(P),()->(S),(S),(S1),(I2)
    Z += alpha d, if Z is not empty, r -= alpha H d, coarser = sums of r over 2 x 2 pixels, sums[i] = the part of
    r' r / (own + share a + coverage g) of two rows.
    """
    I, P, W = shape
    back_starts, back_columns, back_values = back
    starts, places, kinds = odd
    up, moves = P * W, Z.shape[0] > 0
    for pair in part_of(team, (I + 1) // 2):
        along, step, total = fill_as(alpha, Z), fill_as(-alpha, d), fill(0.0)
        for i in range(2 * pair, min(I, 2 * pair + 2)):
            before, after = up if i > 0 else 0, up if i + 1 < I else 0
            for entry in range(starts[i], starts[i + 1]):
                at, extra = GUARD + i * up + places[entry], extras[kinds[entry]]
                for p in range(P):
                    value = 0.0
                    for q in range(P):
                        value += extra[p, q] * d[at + q * W]
                    r[at + p * W] -= alpha * value
            for p in range(P):
                at, by_msi, by_hsi = GUARD + (i * P + p) * W, fill_as(a[p], d), fill_as(g[p], d)
                for first in range(0, W, RUN):
                    last, part = min(W, first + RUN), fill_as(0.0, d)
                    for entry in range(back_starts[i], back_starts[i + 1]):
                        value = fill_as(-alpha * back_values[entry], d)
                        seen = GUARD + back_columns[entry] * up + p * W
                        for j in range(first, last, LANES):
                            left = multiply_add(value, load_as(blurred, seen + j, d), load_as(r, at + j, d))
                            store(r, at + j, left)
                    for j in range(first, last, LANES):
                        here, place = load_as(d, at + j, d), GUARD + i * W + j
                        Hd = _differences(d, at + j, before, after, below, right, place, W)
                        Hd = multiply_add(multiply(by_msi, load_as(ones, place, d)), here, Hd)
                        left = multiply_add(step, Hd, load_as(r, at + j, d))
                        store(r, at + j, left)
                        if moves:
                            store(Z, at + j, multiply_add(along, load_as(d, at + j, Z), load_as(Z, at + j, Z)))
                        inverse = _inverse(own, share, coverage, by_msi, by_hsi, place, d)
                        part = multiply_add(multiply(left, left), inverse, part)
                    total = add(total, widen(part))
        for p in range(P):
            at, to = GUARD + (2 * pair * P + p) * W, GUARD + (pair * P + p) * coarse_width
            for j in range(0, W, LANES):
                both = load_as(r, at + j, r)
                if 2 * pair + 1 < I:
                    both = add(both, load_as(r, at + up + j, r))
                store_pairs(coarser, to + j // 2, both)
            coarser[to + W // 2 : to + coarse_width] = 0.0
        sums[pair] = total_of_lanes(total)


@kernel
def correct_maps(team, levels, maps, inverse, r, y, sums):
    """The preconditioner on all aggregates.

    (L,3),(),(M),(M)->(M),(N)
    r = its sums over aggregates from the second level on, y = inverse * r + what the next level adds, level by level;
    sums[n] = the part of r' inverse r of the n-th row of all levels. y may be r itself.
    """
    L, P = levels.shape[0], maps
    for level in range(1, L):
        start, rows, W = levels[level]
        before, rows_before, W_before = levels[level - 1]
        up = P * W_before
        stage = team[2][level - 1]
        i = claim(stage)
        while i < rows:
            for p in range(P):
                at, to = before + (2 * i * P + p) * W_before, start + (i * P + p) * W
                for j in range(0, W_before, LANES):
                    both = load_as(r, at + j, r)
                    if 2 * i + 1 < rows_before:
                        both = add(both, load_as(r, at + up + j, r))
                    store_pairs(r, to + j // 2, both)
                r[to + W_before // 2 : to + W] = 0.0
            i = done(stage)
        wait(stage, rows)
    finished = 0
    for back in range(L):
        level = L - 1 - back
        start, rows, W = levels[level]
        after, W_after = (levels[level + 1, 0], levels[level + 1, 2]) if back > 0 else (start, W)
        stage = team[2][L + back]
        i = claim(stage)
        while i < rows:
            total = fill(0.0)
            for p in range(P):
                at, above = start + (i * P + p) * W, after + (i // 2 * P + p) * W_after
                for j in range(0, W, LANES):
                    left = load_as(r, at + j, r)
                    value = multiply(left, load_as(inverse, at + j, r))
                    total = add(total, widen(multiply(value, left)))
                    if back > 0:
                        value = add(value, load_twice(y, above + j // 2, r))
                    store(y, at + j, value)
            sums[finished + i] = total_of_lanes(total)
            i = done(stage)
        wait(stage, rows)
        finished += rows


@kernel
def join_weights(team, rows, width, below, right, own, wide, joined_below, joined_right):
    """The weights of all differences that each pixel is part of, and those between aggregates of 2 x 2 pixels.

    (),(),(L),(L),()->(L),(L1),(L1)
    own = below + right + the same of the pixel above and of the one to the left, whose differences reach here. `wide`
    is the width of what is joined; padding is not written.
    """
    for pair in part_of(team, (rows + 1) // 2):
        for i in range(2 * pair, min(rows, 2 * pair + 2)):
            at = GUARD + i * width
            if i > 0:
                for n in range(at, at + width):
                    own[n] = below[n] + right[n] + below[n - width] + right[n - 1]
            else:
                for n in range(at, at + width):
                    own[n] = below[n] + right[n] + right[n - 1]
        first, to = GUARD + 2 * pair * width, GUARD + pair * wide
        second = first + width
        if 2 * pair + 1 < rows:
            for n in range(width // 2):
                joined_below[to + n] = below[second + 2 * n] + below[second + 2 * n + 1]
                joined_right[to + n] = right[first + 2 * n + 1] + right[second + 2 * n + 1]
        else:
            for n in range(width // 2):
                joined_below[to + n], joined_right[to + n] = 0.0, right[first + 2 * n + 1]


@kernel
def invert_diagonal(team, rows, maps, width, first, own, share, coverage, a, g, inverse):
    """One over the diagonal of H on aggregates; zero where there is nothing.

    (),(),(),(),(L),(L),(L),(P),(P)->(S)
    inverse = 1 / (own + share a + coverage g) from the number `first` on.
    """
    for i in part_of(team, rows):
        for p in range(maps):
            at, by_msi, by_hsi = first + (i * maps + p) * width, fill_as(a[p], inverse), fill_as(g[p], inverse)
            for j in range(0, width, LANES):
                store(inverse, at + j, _inverse(own, share, coverage, by_msi, by_hsi, GUARD + i * width + j, inverse))


@kernel
def reweight_maps(team, shape, columns, Z, dearer, weight, rounding, knee, below, right, rest):
    """The weights of the squares that bound `weight` times the price of edges, and what the squares leave of it.

    (3),(),(S),(L),(),(),()->(L),(L),(I)
    w = dearer weight / (y sqrt(1 + y/knee)), y² = |D Z|² + rounding², for each pixel; below = right = w, zero where
    there is no such neighbour; rest[i] = sum over a row of dearer weight p(y) - w |D Z|² / 2.
    """
    I, P, W = shape
    steps, up = borrow(columns, rest), P * W
    for i in part_of(team, I):
        for j in range(columns):
            steps[j] = 0.0
        for p in range(P):
            at = GUARD + (i * P + p) * W
            row, right_of = Z[at : at + columns], Z[at + 1 : at + columns]
            if i + 1 < I:
                under = Z[at + up : at + up + columns]
                for j in range(columns):
                    steps[j] += (np.float64(under[j]) - row[j]) ** 2
            for j in range(columns - 1):
                steps[j] += (np.float64(right_of[j]) - row[j]) ** 2
        total, place = 0.0, GUARD + i * W
        for j in range(columns):
            step = np.sqrt(steps[j] + rounding * rounding)
            root = np.sqrt(1.0 + step / knee)
            price = weight * dearer[place + j]
            own = price / (step * root)
            below[place + j] = own if i + 1 < I else 0.0
            right[place + j] = own if j + 1 < columns else 0.0
            total += 2.0 * price * knee * (root - 1.0) - 0.5 * own * steps[j]
        rest[i] = total
    give_back(steps)
