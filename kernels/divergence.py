"""Weights of the β-divergence for β = 3/2, contracted at once: nothing of the size of an image is ever stored.

With an image Y and its model X = C S, both (bands, pixels), the weights are W⁺ = √X and W⁻ = Y / √X, which a model of
non-negative factors is multiplied by:

    pull_to_pixels    C'W⁻ and C'W⁺
    pull_to_bands     W⁻ S' and W⁺ S'
    update_factors    C and S multiplied by what these give, in turn, again and again

A tile of two bands by sixteen pixels stays in registers from the model to its weights, and pulls add up in registers
again (`lanes.py`). Bands and spectra come in twos and pixels in sixteens: what is beyond the last is filled up with
zeros, which add nothing.
"""

import numpy as np
from numpy.typing import NDArray

from .arrays import readonly
from .jit import LEAST_PARALLEL_WORK, device, kernel
from .lanes import LANES, add, fill, inverse_root, load, multiply, multiply_add, store, subtract, total_of_lanes
from .scratch import borrow, give_back
from .team import alone, part_of

#: Bands, spectra and pixels that are worked on at once.
BANDS, SPECTRA, PIXELS = 2, 2, 2 * LANES

#: Pixels of a block; in a sum over bands each has a cost of its own, so that their sum does not depend on threads.
BLOCK = 4 * PIXELS

# Of a block in a sum over pixels: the weights of two bands stay in the first cache.
_LONG = 16 * PIXELS

# Bands whose weights are kept, of a block of pixels, in the first cache.
_KEPT = 16

# What models begin with: it changes none that is not zero, and of a model that is zero the weights are finite.
_LEAST = 1e-290

# Flops of the weights of a number, beside those of the model and the pulls.
_FLOPS_OF_WEIGHTS = 20


def filled_up(count: int, unit: int) -> int:
    """`count` rounded up to whole units."""
    return -(-count // unit) * unit


@device
def _weigh(data, x, there, minus, plus, place):
    """The weights of a vector of an image and its model x; what the model adds to the divergence, over −2."""
    inverse = inverse_root(x)
    down = multiply(multiply(x, inverse), there)
    store(minus, place, multiply(data, inverse))
    store(plus, place, down)
    return multiply(down, multiply_add(fill(-1.0 / 3.0), x, data))


@device
def _weigh_tile(Y, valid, masked, C, S, k, n, minus, plus, place, apart):
    """The weights of two bands from k on and sixteen pixels from n on, those of the bands `apart`."""
    c, d, m = C[k], C[k + 1], n + LANES
    x0, x1, z0, z1 = fill(_LEAST), fill(_LEAST), fill(_LEAST), fill(_LEAST)
    for r in range(C.shape[1]):
        s, t = load(S[r], n), load(S[r], m)
        x0, x1 = multiply_add(fill(c[r]), s, x0), multiply_add(fill(c[r]), t, x1)
        z0, z1 = multiply_add(fill(d[r]), s, z0), multiply_add(fill(d[r]), t, z1)
    v0, v1, w0, w1 = fill(1.0), fill(1.0), fill(1.0), fill(1.0)
    if masked:
        v0, v1, w0, w1 = load(valid[k], n), load(valid[k], m), load(valid[k + 1], n), load(valid[k + 1], m)
    below = place + apart
    one = add(
        _weigh(load(Y[k], n), x0, v0, minus, plus, place), _weigh(load(Y[k], m), x1, v1, minus, plus, place + LANES)
    )
    two = add(
        _weigh(load(Y[k + 1], n), z0, w0, minus, plus, below),
        _weigh(load(Y[k + 1], m), z1, w1, minus, plus, below + LANES),
    )
    return add(one, two)


@device
def _four(array, at):
    """Four vectors side by side."""
    return load(array, at), load(array, at + LANES), load(array, at + 2 * LANES), load(array, at + 3 * LANES)


@device
def _keep_two(array, at, one, other):
    store(array, at, one)
    store(array, at + LANES, other)


@device
def _add_products(four, c, d, p, q):
    """Four sums, and the products of either of two vectors with either of two others."""
    return (
        multiply_add(c, p, four[0]),
        multiply_add(c, q, four[1]),
        multiply_add(d, p, four[2]),
        multiply_add(d, q, four[3]),
    )


@device
def _to_pixels(team, Y, valid, masked, C, S, up, down, costs):
    """As `pull_to_pixels`."""
    R, K = S.shape[0], Y.shape[0]
    work = borrow(2 * _KEPT * BLOCK, Y)
    minus, plus = work[: _KEPT * BLOCK], work[_KEPT * BLOCK :]
    for block in part_of(team, len(costs)):
        start = block * BLOCK
        width = min(BLOCK, Y.shape[1] - start)
        total = fill(0.0)
        for first in range(0, K, _KEPT):
            bands = min(_KEPT, K - first)
            for k in range(0, bands, BANDS):
                for at in range(0, width, PIXELS):
                    place = k * BLOCK + at
                    total = add(
                        total, _weigh_tile(Y, valid, masked, C, S, first + k, start + at, minus, plus, place, BLOCK)
                    )
            for r in range(0, R, SPECTRA):
                for at in range(0, width, PIXELS):
                    n, m = start + at, start + at + LANES
                    a = b = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
                    if first:
                        a = load(up[r], n), load(up[r], m), load(up[r + 1], n), load(up[r + 1], m)
                        b = load(down[r], n), load(down[r], m), load(down[r + 1], n), load(down[r + 1], m)
                    for k in range(bands):
                        place, c, d = k * BLOCK + at, fill(C[first + k, r]), fill(C[first + k, r + 1])
                        a = _add_products(a, c, d, load(minus, place), load(minus, place + LANES))
                        b = _add_products(b, c, d, load(plus, place), load(plus, place + LANES))
                    _keep_two(up[r], n, a[0], a[1])
                    _keep_two(up[r + 1], n, a[2], a[3])
                    _keep_two(down[r], n, b[0], b[1])
                    _keep_two(down[r + 1], n, b[2], b[3])
        costs[block] = -2.0 * total_of_lanes(total)
    give_back(work)


@device
def _to_bands(team, Y, valid, masked, C, S, up, down):
    """As `pull_to_bands`."""
    R, N = S.shape
    work = borrow(2 * BANDS * (_LONG + R * LANES), Y)
    minus, plus = work[: BANDS * _LONG], work[BANDS * _LONG : 2 * BANDS * _LONG]
    sums = work[2 * BANDS * _LONG :]  # for each band and spectrum a vector of W⁻ S' and one of W⁺ S'
    for group in part_of(team, Y.shape[0] // BANDS):
        first = group * BANDS
        for place in range(0, 2 * BANDS * R * LANES, LANES):
            store(sums, place, fill(0.0))
        for start in range(0, N, _LONG):
            width = min(_LONG, N - start)
            for at in range(0, width, PIXELS):
                _weigh_tile(Y, valid, masked, C, S, first, start + at, minus, plus, at, _LONG)
            for r in range(0, R, SPECTRA):
                here, there = 2 * r * LANES, 2 * (R + r) * LANES
                a, b = _four(sums, here), _four(sums, there)
                for at in range(0, width, LANES):
                    s, t = load(S[r], start + at), load(S[r + 1], start + at)
                    a = _add_products(a, s, t, load(minus, at), load(plus, at))
                    b = _add_products(b, s, t, load(minus, _LONG + at), load(plus, _LONG + at))
                _keep_two(sums, here, a[0], a[1])
                _keep_two(sums, here + 2 * LANES, a[2], a[3])
                _keep_two(sums, there, b[0], b[1])
                _keep_two(sums, there + 2 * LANES, b[2], b[3])
        for k in range(BANDS):
            for r in range(R):
                place = 2 * (k * R + r) * LANES
                up[first + k, r] = total_of_lanes(load(sums, place))
                down[first + k, r] = total_of_lanes(load(sums, place + LANES))
    give_back(work)


@device
def _multiply(factor, up, down, least):
    """A factor times a quotient, not below `least`; what is zero, around it, stays zero."""
    for i in range(factor.shape[0]):
        for j in range(factor.shape[1]):
            if factor[i, j] > 0.0 and down[i, j] > 0.0:
                factor[i, j] = max(factor[i, j] * (up[i, j] / down[i, j]), least)


@device
def _misfit(Y, C, S):
    """‖Y − C S‖²."""
    total = fill(0.0)
    for k in range(Y.shape[0]):
        for n in range(0, Y.shape[1], PIXELS):
            x, z = fill(0.0), fill(0.0)
            for r in range(C.shape[1]):
                c = fill(C[k, r])
                x, z = multiply_add(c, load(S[r], n), x), multiply_add(c, load(S[r], n + LANES), z)
            x, z = subtract(load(Y[k], n), x), subtract(load(Y[k], n + LANES), z)
            total = multiply_add(z, z, multiply_add(x, x, total))
    return total_of_lanes(total)


@kernel
def pull_to_pixels(team, Y, valid, masked, C, S, up, down, costs):
    """C'W⁻, C'W⁺, and of each block of pixels what the model adds to the divergence; `valid` counts if `masked` is 1.

    (K,N),(K,N),(K,R),(R,N)->(R,N),(R,N),(blocks)
    """
    _to_pixels(team, Y, valid, masked, C, S, up, down, costs)


@kernel
def pull_to_bands(team, Y, valid, masked, C, S, up, down):
    """W⁻ S' and W⁺ S'; `valid` counts if `masked` is 1.

    (K,N),(K,N),(K,R),(R,N)->(K,R),(K,R)
    """
    _to_bands(team, Y, valid, masked, C, S, up, down)


@kernel
def update_factors(Y, C, S, least, tolerance, for_C, for_S, costs, misfits):
    """Steps of C and S where they stand, until one lowers the squared misfit by at most `tolerance` of it.

    (K,N),(K,R),(R,N),(),()->(2,K,R),(2,R,N),(blocks),(steps+1)
    The first of the misfits is that of before; all after the last step are its own.
    """
    team = alone()
    for step in range(1, len(misfits)):
        before = misfits[step - 1]
        _to_bands(team, Y, Y, 0, C, S, for_C[0], for_C[1])
        _multiply(C, for_C[0], for_C[1], least)
        _to_pixels(team, Y, Y, 0, C, S, for_S[0], for_S[1], costs)
        _multiply(S, for_S[0], for_S[1], least)
        misfit = _misfit(Y, C, S)
        for further in range(step, len(misfits)):
            misfits[further] = misfit
        if misfit >= (1.0 - tolerance) * before:
            break


def by_pixel(
    Y: NDArray[np.float64],
    valid: NDArray[np.float64] | None,
    C: NDArray[np.float64],
    S: NDArray[np.float64],
    out: NDArray[np.float64],
) -> float:
    """`pull_to_pixels` into out (2, R, N), on several threads where it pays; what the model adds to the divergence."""
    costs = np.empty(_blocks(Y))
    pull_to_pixels(*_read(Y, valid, C, S), *out, costs, work=_flops(Y, S), least=LEAST_PARALLEL_WORK)
    return float(costs.sum())


def by_band(
    Y: NDArray[np.float64],
    valid: NDArray[np.float64] | None,
    C: NDArray[np.float64],
    S: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """`pull_to_bands` into out (2, K, R), on several threads where it pays."""
    pull_to_bands(*_read(Y, valid, C, S), *out, work=_flops(Y, S), least=LEAST_PARALLEL_WORK)


def in_turn(
    Y: NDArray[np.float64],
    C: NDArray[np.float64],
    S: NDArray[np.float64],
    least: float,
    tolerance: float,
    misfits: NDArray[np.float64],
) -> None:
    """`update_factors`, on one thread."""
    pulls = np.empty((2, *C.shape)), np.empty((2, *S.shape)), np.empty(_blocks(Y))
    update_factors(readonly(Y), C, S, least, tolerance, *pulls, misfits)


def _blocks(Y):
    return -(-Y.shape[1] // BLOCK)


def _read(Y, valid, C, S):
    """The kernels' inputs; without a mask Y stands in its place."""
    return readonly(Y), readonly(Y if valid is None else valid), int(valid is not None), readonly(C), readonly(S)


def _flops(Y, S):
    return Y.size * (6.0 * len(S) + _FLOPS_OF_WEIGHTS)
