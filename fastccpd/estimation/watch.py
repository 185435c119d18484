"""How a stage is watched: its trace, its callback, its time limit."""

import threading
import time

from ..model.result import Progress, Status, Trace
from ..model.types import Callback

# Seconds between two calls of the callback within one iteration.
_PULSE = 0.1


class Stopped(Exception):
    """The callback or the clock has ended a stage; `status` says which."""

    def __init__(self, status: Status):
        super().__init__(str(status))
        self.status = status


class Watch:
    """The trace of one stage, shown to the callback after each iteration and, in long ones, ten times a second.

    It belongs to the thread that makes it, and the callback is called there alone. Others that work for it may call
    `pulse`, by which they learn of a halt.

    Parameters
    ----------
    stage : str
        Its name, for `Progress.stage`.
    callback : callable(Progress) -> bool, optional
    time_limit : float, optional
        Seconds from now.
    """

    def __init__(self, stage: str, callback: Callback | None = None, time_limit: float | None = None):
        self.stage, self.trace = stage, Trace()
        self._callback, self._limit = callback, time_limit
        self._began = self._shown = time.perf_counter()
        self._thread, self._halt = threading.get_ident(), None

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def iteration(self, cost: float, cg_iterations: int) -> None:
        """An iteration is done: into the trace, and to the callback."""
        self.trace.append_cost(cost, cg_iterations, self.seconds)
        self._show()
        self._look_at_the_clock()

    def pulse(self) -> None:
        """To be called often: shows progress, and raises `Stopped` where somebody, or the clock, has called a halt."""
        if threading.get_ident() != self._thread:
            if self._halt is not None:
                raise Stopped(self._halt)
            return
        if time.perf_counter() - self._shown >= _PULSE:
            self._show()
        self._look_at_the_clock()

    def _show(self):
        self._shown = time.perf_counter()
        if self._callback is None:
            return
        trace = self.trace
        if not len(trace):  # nothing is fitted yet
            trace = Trace()
            trace.append_cost(float("nan"), 0, self.seconds)
        if self._callback(Progress(len(trace) - 1, trace.cost[-1], self.seconds, trace, self.stage)):
            self._stop(Status.CALLBACK)

    def _look_at_the_clock(self):
        if self._limit is not None and self.seconds >= self._limit:
            self._stop(Status.TIME_LIMIT)

    def _stop(self, status):
        self._halt = status
        raise Stopped(status)
