"""Work that threads take as they come, instead of equal shares: beside another spinning pool one of them may be slow.

Within one launch each thread of the team (`team.py`) claims pieces of a stage until none is left, and waits until all
are done before it goes on to the next stage:

    piece = claim(stages[0])
    while piece < pieces:
        ...
        piece = done(stages[0])
    wait(stages[0], pieces)
    ...

or takes them from its end of the stage by `take` and counts them by `finish`, so that it meets the same rows again in
the next one. The number of threads need not be known: one alone takes all, and a thread that comes late, or never,
keeps nobody waiting, since only pieces that somebody has claimed are waited for. So several stages need one launch, and
no barrier but its end. The counts of a stage, `team[2][n]`, are zero before: how many pieces are claimed, done, taken
from the front and taken from the back.

Who takes which piece is chance: a piece owns its rows, or its partial sum, which is added up in the order of pieces. So
bytes do not depend on it.
"""

import os

import numba
from llvmlite import ir
from numba import types

from .jit import device, intrinsic

_ONE = ir.Constant(ir.IntType(64), 1)


def _place(context, b, signature, args, n):
    data = context.make_array(signature.args[0])(context, b, args[0]).data
    return b.gep(data, [ir.Constant(ir.IntType(64), n)])


@intrinsic
def _claim(context, stage):
    """The next piece of a stage: a number that no other thread gets."""

    def codegen(context, b, signature, args):
        return b.atomic_rmw("add", _place(context, b, signature, args, 0), _ONE, "seq_cst")

    return types.int64(stage), codegen


@intrinsic
def _done(context, stage):
    """Count a piece as done, and claim the next one."""

    def codegen(context, b, signature, args):
        b.atomic_rmw("add", _place(context, b, signature, args, 1), _ONE, "seq_cst")
        return b.atomic_rmw("add", _place(context, b, signature, args, 0), _ONE, "seq_cst")

    return types.int64(stage), codegen


def _counting(n):
    """Count at place n of a stage: what stood there before."""

    def count(context, stage):
        def codegen(context, b, signature, args):
            return b.atomic_rmw("add", _place(context, b, signature, args, n), _ONE, "seq_cst")

        return types.int64(stage), codegen

    return count


_finish, _from_front, _from_back = (intrinsic(_counting(n)) for n in (1, 2, 3))


@intrinsic
def _count_done(context, stage):
    def codegen(context, b, signature, args):
        return b.load_atomic(_place(context, b, signature, args, 1), "seq_cst", 8)

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


def _plain_counting(n):
    def count(stage):
        stage[n] += 1
        return stage[n] - 1

    return count


_plain_claim = _plain_counting(0)


def _plain_done(stage):
    stage[1] += 1
    return _plain_claim(stage)


def _plain_wait(stage, pieces):
    assert stage[1] == pieces, "one thread has done all it claimed"


if numba.config.DISABLE_JIT:
    claim, done, wait = _plain_claim, _plain_done, _plain_wait
    finish, _front, _back = (_plain_counting(n) for n in (1, 2, 3))
else:
    claim, done, wait = _claim, _done, _wait
    finish, _front, _back = _finish, _from_front, _from_back


@device
def take(stage, pieces, from_back):
    """The next piece of a stage, from the one end or from the other; −1 where none is left. `finish` counts it as done.

    Threads that keep to their ends meet the same rows stage after stage, which are then in their own caches.
    """
    if claim(stage) >= pieces:
        return -1
    return pieces - 1 - _back(stage) if from_back else _front(stage)
