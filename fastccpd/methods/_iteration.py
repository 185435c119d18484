"""The loop around an iterative method that is not run by the trust-region solver, and the end of a direct one."""

import time
from dataclasses import dataclass

from ..estimation.watch import Stopped, Watch
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


def run_watched(iterates, *, max_iter, callback=None, time_limit=None, settled=None):
    """Like `run`, for a method whose beginning or whose iterations take long.

    `iterates` has `begin(pulse)`, `advance(pulse)` and `cost()`, which is that of the image so far, also before
    `begin` is done. Both call `pulse()` often, and are left by an exception where the callback or the clock says stop:
    what they leave then is the image of the last whole iteration. `settled()` says whether another one is worth while.
    """
    watch, status = Watch("", callback, time_limit), Status.FINISHED if settled is None else Status.MAX_ITERATIONS
    try:
        iterates.begin(watch.pulse)
        watch.iteration(iterates.cost(), 0)
        for _ in range(max_iter):
            iterates.advance(watch.pulse)
            watch.iteration(iterates.cost(), 0)
            if settled is not None and settled():
                status = Status.STEP_SMALL
                break
    except Stopped as stopped:
        status = stopped.status
    if not len(watch.trace):
        watch.trace.append_cost(iterates.cost(), 0, watch.seconds)
    return Outcome(status, watch.trace.cost[-1], len(watch.trace) - 1, watch.trace)


def finished(image, cost, began, callback):
    """The `Solution` of a method without iterations, shown to the callback once."""
    trace, seconds = Trace(), time.perf_counter() - began
    trace.append_cost(cost, 0, seconds)
    if callback is not None:
        callback(Progress(n_iter=0, cost=cost, seconds=seconds, trace=trace))
    return Solution(status=Status.FINISHED, cost=cost, n_iter=0, trace=trace, image=image)
