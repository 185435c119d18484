"""What regressions at coarse pixels say of fine ones (estimation/unseen_maps.py): those of the two that are most alike.

Eight fine pixels of a row are a vector, and each coarse pixel around is compared with all of them. Distances are
float32; what is predicted is summed in float64.
"""

import numpy as np

from .jit import inlined, kernel
from .lanes import LANES, fill, fill_as, if_less, load, load_as, multiply_add, store, subtract
from .map_steps import GUARD
from .scratch import borrow, give_back
from .team import part_of


@inlined
def _two_nearest(here, at, W, features, known, rows, columns, apart, numbers):
    """The squares and places in a window of the two known coarse pixels there that are most like each of eight."""
    d = features.shape[2]
    least = second = fill_as(np.inf, here)
    nearest = next_to_it = fill_as(-1.0, here)
    for k in range(rows[0], rows[1]):
        for m in range(columns[0], columns[1]):
            if known[k, m]:
                total = fill_as(0.0, here)
                for n in range(d):
                    change = subtract(load_as(here, n * W + at, here), fill_as(features[k, m, n], here))
                    total = multiply_add(change, change, total)
                number = fill_as((k - rows[0]) * (columns[1] - columns[0]) + m - columns[0], here)
                next_to_it = if_less(total, least, nearest, if_less(total, second, number, next_to_it))
                second = if_less(total, least, least, if_less(total, second, total, second))
                nearest = if_less(total, least, number, nearest)
                least = if_less(total, least, total, least)
    store(apart, 0, least)
    store(apart, LANES, second)
    store(numbers, 0, nearest)
    store(numbers, LANES, next_to_it)


@kernel
def predict_maps(
    team, first, last, shape, Z, mix, place, along, windows, blocks, middle, features, known, models, which, out
):
    """Predict some maps of the fine pixels of some rows by the regressions of coarse pixels.

    (),(),(3),(S),(P,m),(2),(I+J),(I,2),(B,4),(m+2),(I1,J1,m+2),(I1,J1),(I1,J1,m+3,n),(n)->(S)
    A fine pixel is x = (mix' z, place_1 u, place_2 v), `along` the coordinates u of all rows, then v of all columns.
    Of the known coarse pixels in its window (of rows: windows[i]; of columns: the last two numbers of the block, of
    which the first two say which fine columns it has) the two with the least |x - middle - features|² predict
    models[0] + x' models[1:], weighted by one over that. Where there is none, `out` is left as it is.
    """
    I, P, W = shape
    d, count = features.shape[2], which.shape[0]
    seen = d - 2
    exact, here = borrow(d * (W + LANES), mix), borrow(d * (W + LANES), features)
    apart, numbers, found = borrow(2 * LANES, features), borrow(2 * LANES, features), borrow(count, mix)
    stride = W + LANES
    for n in range(d * stride):
        exact[n], here[n] = 0.0, 0.0
    for row in part_of(team, last - first):
        i = first + row
        for n in range(seen):
            for j in range(0, W, LANES):
                total = fill(0.0)
                for p in range(P):
                    total = multiply_add(fill(mix[p, n]), load(Z, GUARD + (i * P + p) * W + j), total)
                store(exact, n * stride + j, total)
                store(here, n * stride + j, subtract(total, fill(middle[n])))
        for j in range(blocks[blocks.shape[0] - 1, 1]):
            exact[seen * stride + j], exact[(seen + 1) * stride + j] = place[0] * along[i], place[1] * along[I + j]
            for n in range(seen, d):
                here[n * stride + j] = exact[n * stride + j] - middle[n]
        for block in range(blocks.shape[0]):
            start, stop, columns = blocks[block, 0], blocks[block, 1], blocks[block, 2:]
            width = columns[1] - columns[0]
            for j in range(start, stop, LANES):
                _two_nearest(here, j, stride, features, known, windows[i], columns, apart, numbers)
                for lane in range(min(LANES, stop - j)):
                    if numbers[lane] < 0.0:
                        continue
                    for n in range(count):
                        found[n] = 0.0
                    total = 0.0
                    for one in range(2):
                        number = np.int64(numbers[one * LANES + lane])
                        if number >= 0:
                            weight = 1.0 / max(np.float64(apart[one * LANES + lane]), 1e-30)
                            model = models[windows[i, 0] + number // width, columns[0] + number % width]
                            total += weight
                            for n in range(count):
                                found[n] += weight * model[0, n]
                            for k in range(d):
                                by = weight * exact[k * stride + j + lane]
                                for n in range(count):
                                    found[n] += by * model[1 + k, n]
                    for n in range(count):
                        out[GUARD + (i * P + which[n]) * W + j + lane] = found[n] / total
    give_back(exact)
    give_back(here)
    give_back(apart)
    give_back(numbers)
    give_back(found)
