"""The loop around an iterative method that is not run by the trust-region solver, and the end of a direct one."""

import time
from dataclasses import dataclass

from ..model.result import Progress, Status, Trace
from .method import Solution


@dataclass(frozen=True)
class Outcome:
    """How a loop ended."""

    status: Status
    cost: float
    n_iter: int
    trace: Trace


def run(advance, cost, *, max_iter, began, callback=None, time_limit=None, tol=None):
    """Call `advance()` until a limit, the callback, or a relative change of `cost()` of at most `tol` says stop.

    Without `tol` the number of iterations is part of the method, which is finished when all of them are done.
    """
    trace, n_iter = Trace(), 0
    while True:
        now, seconds = cost(), time.perf_counter() - began
        trace.append_cost(now, 0, seconds)
        status = None
        if n_iter and callback is not None and callback(Progress(n_iter, now, seconds, trace)):
            status = Status.CALLBACK
        elif n_iter and tol is not None and abs(trace.cost[-2] - now) <= tol * trace.cost[-2]:
            status = Status.COST_SETTLED
        elif n_iter >= max_iter:
            status = Status.FINISHED if tol is None else Status.MAX_ITERATIONS
        elif time_limit is not None and seconds >= time_limit:
            status = Status.TIME_LIMIT
        if status is not None:
            return Outcome(status, now, n_iter, trace)
        advance()
        n_iter += 1


def finished(image, cost, began, callback):
    """The `Solution` of a method without iterations, shown to the callback once."""
    trace, seconds = Trace(), time.perf_counter() - began
    trace.append_cost(cost, 0, seconds)
    if callback is not None:
        callback(Progress(n_iter=0, cost=cost, seconds=seconds, trace=trace))
    return Solution(status=Status.FINISHED, cost=cost, n_iter=0, trace=trace, image=image)
