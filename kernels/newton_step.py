"""A whole step of a truncated Newton method in one launch: conjugate gradients within a radius, from start to stop.

What `solver/pcg.py` does for any objective, here with the products of `coupled.py` and the turns of `conjugate.py`: on
small problems most of a step would be spent between launches. Every thread goes through the same loop and decides by
the same sums, which are kept for each product until the end: one that comes late finds every piece taken, and follows.
"""

import numpy as np
from numpy.typing import NDArray

from .conjugate import PIECE, turn_pieces
from .coupled import hessian_pieces
from .jit import device, exact, kernel
from .sharing import finish, take, wait
from .team import APART, in_rear
from .vectors import add_scaled, in_order, stride, turned_norms
from .views import flat, rows_of

_stride, _turned_norms = exact(stride), exact(turned_norms)

# Of a turn and the product after it, and of a turn alone.
_STAGES, _TURN = 5, 2


def room_for_stages(most: int) -> NDArray[np.int64]:
    """The counts of a step of at most so many products; they are zero before it."""
    return np.zeros((_TURN + _STAGES * most, APART), np.int64)


@kernel(uses_tiles=True)
def newton_step(team, radius, rtol, inputs, blocks, g, stages, t, T, X, L, parts, y, d, Hd, p, r, sums, squares, found):
    """Minimise g'p + p'H p / 2 within a radius by conjugate gradients.

    (),(),inputs of `hessian`,blocks,(n,R)->five (n,R),(most,ceil(n/ROWS_PER_SUM)),(most+1,groups),(3)
    blocks are groups, L, means of `turn_preconditioned`; scratch: `room_for_stages`, and as of `hessian`.
    p is the step, r = g + H p, and found are the products with H, at most as many as there is room for, ‖p‖² in the
    preconditioner's norm, and the decrease of the model.
    """
    scratch, vectors = (t, T, X, L, parts), (p, r, y, d)
    _walk(stages, in_rear(team), radius, rtol, inputs, blocks, g, scratch, vectors, Hd, sums, squares, found)


@device
def _walk(stages, from_back, radius, rtol, inputs, blocks, g, scratch, vectors, Hd, sums, squares, found):
    """What one thread does of `newton_step`."""
    p, r, _, d = vectors
    most, products, begins, ends = sums.shape[0], 0, True, False
    ry, before, alpha, target, dd, pp, pd, predicted = 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    # Each turn and each product are called for in one place: the compiler makes them parts of this function.
    while not ends:
        here = rows_of(stages, _STAGES * products, stages.shape[0])
        ry = turn_pieces(here, from_back, begins, g, alpha, before, *blocks, Hd, *vectors, squares[products])
        if begins:
            begins, target, dd = False, rtol * rtol * ry, ry
        else:
            pd, dd = _turned_norms(ry, before, alpha, pd, dd)
        if products == most or not ry > target:
            break
        hessian_pieces(rows_of(here, _TURN, here.shape[0]), from_back, inputs, d, *scratch, Hd, sums[products])
        wait(here[_TURN + 2], sums.shape[1])
        curvature = in_order(sums[products])
        products += 1
        before = ry
        alpha, ends, pp, predicted = _stride(ry, curvature, pp, pd, dd, predicted, radius)
        ends = ends or products == most
    if ends:
        _advance_pieces(stages[_STAGES * products], from_back, alpha, Hd, d, p, r)
    found[0], found[1], found[2] = products, pp, predicted


@device
def _advance_pieces(stage, from_back, alpha, Hd, d, p, r):
    """p += alpha d, r += alpha H d, unless alpha is zero."""
    flat_d, flat_Hd, flat_p, flat_r = flat(d), flat(Hd), flat(p), flat(r)
    pieces = (flat_d.shape[0] + PIECE - 1) // PIECE if alpha != 0.0 else 0
    piece = take(stage, pieces, from_back)
    while piece >= 0:
        first, stop = piece * PIECE, min(flat_d.shape[0], (piece + 1) * PIECE)
        add_scaled(alpha, flat_d, flat_p, first, stop)
        add_scaled(alpha, flat_Hd, flat_r, first, stop)
        finish(stage)
        piece = take(stage, pieces, from_back)
