"""Work that threads take as they come, instead of equal shares: beside another spinning pool one of them may be slow.

A kernel that shares its work is run by every thread of a team, with the same arguments. Each claims pieces of a stage
until none is left, and waits until all are done before it goes on to the next stage:

    for piece in pieces(team[0], count):
        ...
    wait(team[0], count)
    for piece in pieces(team[1], count):
        ...

What stands outside such loops every thread does for itself. How many threads there are need not be known: one alone
takes all, and one that comes late, or never, keeps nobody waiting, since only pieces that somebody has claimed are
waited for. So several stages need one launch, and no barrier but its end.

Who takes which piece is chance: a piece owns its rows, or its partial sum, which is added up in the order of pieces. So
bytes do not depend on it.
"""

import os

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import RefType, iternext_impl
from numba.extending import lower_builtin, models, register_model

from .jit import TEAM, device, intrinsic

_STAGES, _APART = TEAM

#: So many pieces are enough of work whose rows are small: neighbours then stay together.
PIECES = 32


@device
def alone():
    """The counts of a team of one, for kernels that are called from compiled code."""
    return np.zeros((_STAGES, _APART), np.int64)


class PiecesType(types.SimpleIteratorType):
    def __init__(self):
        super().__init__("Pieces", types.int64)


@register_model(PiecesType)
class _PiecesModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        counts, own = types.CPointer(types.int64), types.EphemeralPointer(types.int64)
        super().__init__(dmm, fe_type, [("claimed", counts), ("done", counts), ("count", types.int64), ("taken", own)])


def _place(context, b, kind, stage, n):
    data = context.make_array(kind)(context, b, stage).data
    return b.gep(data, [ir.Constant(ir.IntType(64), n)])


@intrinsic
def _pieces(context, stage, count):
    """Those numbers below `count` that this thread claims; asking for the next one says that the last one is done."""
    result = PiecesType()

    def codegen(context, b, signature, args):
        pieces = context.make_helper(b, result)
        pieces.claimed, pieces.done = (_place(context, b, signature.args[0], args[0], n) for n in range(2))
        pieces.count, zero = args[1], ir.Constant(ir.IntType(64), 0)
        pieces.taken = cgutils.alloca_once(b, zero.type)
        b.store(zero, pieces.taken)
        return pieces._getvalue()

    return result(stage, types.int64), codegen


@lower_builtin("iternext", PiecesType)
@iternext_impl(RefType.UNTRACKED)
def _next_piece(context, b, signature, args, result):
    pieces, one = context.make_helper(b, signature.args[0], args[0]), ir.Constant(ir.IntType(64), 1)
    b.atomic_rmw("add", pieces.done, b.load(pieces.taken), "seq_cst")
    b.store(one, pieces.taken)
    piece = b.atomic_rmw("add", pieces.claimed, one, "seq_cst")
    result.set_valid(b.icmp_signed("<", piece, pieces.count))
    result.yield_(piece)


@intrinsic
def _count_done(context, stage):
    def codegen(context, b, signature, args):
        return b.load_atomic(_place(context, b, signature.args[0], args[0], 1), "seq_cst", 8)

    return types.int64(stage), codegen


# What a thread does that has looked often enough: where cores are shared, another may need this one to go on.
_yield = types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else device(lambda: 0)
_LOOKS = 2000


@device
def _wait(stage, pieces):
    """Until all pieces of a stage are done."""
    looks = 0
    while _count_done(stage) < pieces:
        looks += 1
        if looks > _LOOKS:
            _yield()


def _plain_pieces(stage, count):
    while stage[0] < count:
        stage[0] += 1
        yield int(stage[0] - 1)
        stage[1] += 1


def _plain_wait(stage, pieces):
    assert stage[1] == pieces, "one thread has done all it claimed"


if numba.config.DISABLE_JIT:
    pieces, wait = _plain_pieces, _plain_wait
else:
    pieces, wait = _pieces, _wait
