"""Multiplicative updates of the abundances of many pixels in few bands: one pass over them, eight pixels side by side.

    A ← A * (W X) / (W Y),          then Y ← W'A,          cost = ‖X − Y‖²

with bands, or spectra, as rows and pixels as columns. A block of pixels stays in the cache from its X and old Y to its
new Y and cost, and what an abundance is multiplied by stays in registers (`lanes.py`). Pixels beyond the last are
filled up with zeros, which stay zeros.
"""

import numpy as np
from numpy.typing import NDArray

from .arrays import readonly
from .jit import LEAST_PARALLEL_WORK, device, kernel
from .lanes import LANES, fill, inverse, load, multiply, multiply_add, store, subtract, total_of_lanes
from .scratch import borrow, give_back
from .team import part_of

#: Spectra that are worked on at once.
SPECTRA = 4

#: Pixels of a block: each has a cost of its own, so that their sum does not depend on threads.
BLOCK = 8 * LANES

# What denominators begin with: it changes none that is not zero, and 0/0 is 0.
_LEAST = 1e-100


def whole_lanes(pixels: int) -> int:
    """`pixels` rounded up to whole lanes."""
    return -(-pixels // LANES) * LANES


@device
def _multiply_lanes(W, r, x, y, z, bands, A, new, at, n):
    """The abundances of four spectra from r on for the lanes at pixel n, `at` in the block; they are added to z."""
    w0, w1, w2, w3 = W[r], W[r + 1], W[r + 2], W[r + 3]
    up0, up1, up2, up3 = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    down0, down1, down2, down3 = fill(_LEAST), fill(_LEAST), fill(_LEAST), fill(_LEAST)
    for b in range(bands):
        seen, model = load(x, b * BLOCK + at), load(y, b * BLOCK + at)
        up0, down0 = multiply_add(fill(w0[b]), seen, up0), multiply_add(fill(w0[b]), model, down0)
        up1, down1 = multiply_add(fill(w1[b]), seen, up1), multiply_add(fill(w1[b]), model, down1)
        up2, down2 = multiply_add(fill(w2[b]), seen, up2), multiply_add(fill(w2[b]), model, down2)
        up3, down3 = multiply_add(fill(w3[b]), seen, up3), multiply_add(fill(w3[b]), model, down3)
    a0 = multiply(load(A[r], n), multiply(up0, inverse(down0)))
    a1 = multiply(load(A[r + 1], n), multiply(up1, inverse(down1)))
    a2 = multiply(load(A[r + 2], n), multiply(up2, inverse(down2)))
    a3 = multiply(load(A[r + 3], n), multiply(up3, inverse(down3)))
    store(new[r], n, a0)
    store(new[r + 1], n, a1)
    store(new[r + 2], n, a2)
    store(new[r + 3], n, a3)
    for b in range(bands):
        place = b * BLOCK + at
        model = multiply_add(fill(w0[b]), a0, multiply_add(fill(w1[b]), a1, load(z, place)))
        store(z, place, multiply_add(fill(w2[b]), a2, multiply_add(fill(w3[b]), a3, model)))


@kernel
def multiply_abundances(team, X, W, A, first, last, Y, new, costs):
    """The update of blocks `first` to `last` − 1; the cost leaves out the last band.

    (bands,N),(R,bands),(R,N)->(bands,N),(R,N),(blocks)
    N is a whole number of lanes; Y is that of A before, and that of `new` afterwards.
    """
    bands, size = X.shape[0], X.shape[0] * BLOCK
    work = borrow(3 * size, X)
    x, y, z = work[:size], work[size : 2 * size], work[2 * size :]
    for block in part_of(team, last - first):
        start = (first + block) * BLOCK
        width = min(BLOCK, X.shape[1] - start)
        for b in range(bands):
            for at in range(0, width, LANES):
                place = b * BLOCK + at
                store(x, place, load(X[b], start + at))
                store(y, place, load(Y[b], start + at))
                store(z, place, fill(0.0))
        for r in range(0, A.shape[0], SPECTRA):
            for at in range(0, width, LANES):
                _multiply_lanes(W, r, x, y, z, bands, A, new, at, start + at)
        total = fill(0.0)
        for b in range(bands):
            for at in range(0, width, LANES):
                model = load(z, b * BLOCK + at)
                store(Y[b], start + at, model)
                if b < bands - 1:
                    apart = subtract(model, load(x, b * BLOCK + at))
                    total = multiply_add(apart, apart, total)
        costs[first + block] = total_of_lanes(total)
    give_back(work)


def multiply_all(
    X: NDArray[np.float64],
    W: NDArray[np.float64],
    A: NDArray[np.float64],
    blocks: range,
    Y: NDArray[np.float64],
    new: NDArray[np.float64],
    costs: NDArray[np.float64],
) -> None:
    """`multiply_abundances` of some blocks, on several threads where it pays; `new` is another array than A."""
    work = 6.0 * W.size * BLOCK * len(blocks)
    bounds = blocks.start, blocks.stop
    multiply_abundances(
        readonly(X), readonly(W), readonly(A), *bounds, Y, new, costs, work=work, least=LEAST_PARALLEL_WORK
    )
