"""One step of conjugate gradients with a preconditioner of small blocks, beside the product H d, in one launch.

    p += alpha d,   r += alpha H d,   y = M⁻¹ r,   d = beta d − y,   beta = <r, y> / before

Rows go group by group, those of the preconditioner (`block_cholesky.py`), through all of it but the last while they are
in the cache; <r, y> is summed group by group, in order.
"""

from .block_cholesky import solve_group
from .jit import device, kernel
from .sharing import finish, take, wait
from .team import in_rear
from .vectors import add_scaled, dot_rows, in_order, next_direction
from .views import flat

# Numbers of a direction that are turned at a time.
PIECE = 2048


@kernel
def turn_preconditioned(team, alpha, before, groups, L, means, Hd, p, r, y, d, sums):
    """Go on along d, and turn to the next conjugate direction.

    (),(),(groups,3),(groups,triangle(R)*LANES),(groups*LANES),(n,R)->(n,R),(n,R),(n,R),(n,R),(groups)
    p += alpha d, r += alpha Hd, y = M^-1 r, d = <r,y>/before d - y; sums[g] = <r,y> of the rows of group g.
    """
    turn_pieces(team[2], in_rear(team), False, Hd, alpha, before, groups, L, means, Hd, p, r, y, d, sums)


@device
def turn_pieces(stages, from_back, begins, g, alpha, before, groups, L, means, Hd, p, r, y, d, sums):
    """What one thread does of `turn_preconditioned`, in two stages; <r, y>.

    What begins has p = 0, r = g and d = −y, whatever stood there; else g does not count.
    """
    R = p.shape[1]
    flat_d, flat_Hd, flat_p, flat_r, flat_y = flat(d), flat(Hd), flat(p), flat(r), flat(y)
    pieces, blocks = (flat_d.shape[0] + PIECE - 1) // PIECE, L.shape[0]
    group = take(stages[0], blocks, from_back)
    while group >= 0:
        first, stop = groups[group, 0], groups[group, 0] + groups[group, 1]
        if begins:
            for i in range(first, stop):
                for k in range(R):
                    p[i, k], r[i, k], d[i, k] = 0.0, g[i, k], 0.0
        else:
            add_scaled(alpha, flat_d, flat_p, first * R, stop * R)
            add_scaled(alpha, flat_Hd, flat_r, first * R, stop * R)
        solve_group(groups, L, means, r, y, group)
        sums[group] = dot_rows(r, y, first, stop)
        finish(stages[0])
        group = take(stages[0], blocks, from_back)
    wait(stages[0], blocks)
    ry = in_order(sums)
    piece = take(stages[1], pieces, from_back)
    while piece >= 0:
        next_direction(ry / before, flat_y, flat_d, piece * PIECE, min(flat_d.shape[0], (piece + 1) * PIECE))
        finish(stages[1])
        piece = take(stages[1], pieces, from_back)
    wait(stages[1], pieces)
    return ry
