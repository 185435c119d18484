"""Checks of when a method ends, and of what its callback sees."""

import inspect
import sys
from dataclasses import replace

from ..methods import Method
from ..model.result import Status
from .running import checked, require, run, same_bytes


@checked
def check_one_iteration(method):
    """With max_iter=1 a method does at most one iteration and says why it ended."""
    if "max_iter" not in type(method).option_names():
        return
    result = run(replace(method, max_iter=1))
    require(result.n_iter <= 1, f"max_iter is 1, but n_iter is {result.n_iter}")
    ends = result.status is Status.MAX_ITERATIONS or result.status.converged
    require(ends, f"the run ended with: {result.status}")


@checked
def check_callback_sees_rising_iterations(method):
    """In each stage the callback sees rising iteration numbers, a cost, the time and the trace so far."""
    seen = []

    def look(state):
        seen.append((stage_of(state), state.n_iter, len(state.trace)))
        require(isinstance(state.cost, float) and state.seconds >= 0.0, "the callback sees no cost or no time")

    result = run(method, callback=look)
    require(seen, "the callback was never called")
    for stage in {stage for stage, *_ in seen}:
        numbers = [n_iter for name, n_iter, _ in seen if name == stage]
        # A long iteration may be shown several times.
        require(numbers == sorted(numbers), f"the callback saw the iterations {numbers}")
        require(set(numbers) == set(range(numbers[0], numbers[-1] + 1)), f"the callback missed some of {numbers}")
    last = [n_iter for stage, n_iter, _ in seen if stage == stage_shown(result)][-1]
    require(last == result.n_iter, f"the callback saw {last} as the last of {result.n_iter} iterations")
    require(all(entries == n_iter + 1 for _, n_iter, entries in seen), f"(n_iter, trace entries) were {seen}")
    require(same_bytes(run(method), result), "a callback that does nothing changes the result")


@checked
def check_callback_can_stop(method):
    """A callback that returns True ends the run there, with that status and what was reached."""
    numbers = {}  # in their order; a long iteration may be shown several times
    whole = run(method, callback=lambda state: numbers.update({(stage_of(state), state.n_iter): None}))
    shown, last = stage_shown(whole), min(2, whole.n_iter)
    calls = {}

    def stop(state):
        calls[stage_of(state), state.n_iter] = None
        return stage_of(state) == shown and state.n_iter >= last

    result = run(method, callback=stop)
    expected = list(numbers)[: list(numbers).index((shown, last)) + 1]
    require(list(calls) == expected, f"told to stop at {last}, the method went on: {list(calls)}")
    require(result.n_iter == last, f"told to stop at iteration {last}, the result is that of {result.n_iter}")
    if len(numbers) > len(expected):
        require(result.status is Status.CALLBACK, f"the callback stopped the run, but its status is: {result.status}")


def stage_of(state):
    """The stage that a callback is called from; empty for a method that has but one."""
    return getattr(state, "stage", "")


def stage_shown(result):
    """The stage whose iterations a result counts."""
    return {"maps": "tv-maps", "factors": "decomposition"}[result.shown] if result.stages else ""


@checked
def check_error_in_callback_passes(method):
    """An exception in the callback reaches the caller and leaves nothing behind."""
    expected = run(method)
    for error in (ZeroDivisionError, KeyboardInterrupt):

        def fail(state, error=error):
            raise error

        try:
            run(method, callback=fail)
        except error:
            require(same_bytes(run(method), expected), f"after {error.__name__} in a callback the result is another")
        else:
            raise AssertionError(f"{error.__name__} in a callback is swallowed")


@checked
def check_stop_in_every_stage(method):
    """A callback that returns True in any stage ends it there, with a finite image, and that status if it shows it."""
    stages = {}
    whole = run(method, callback=lambda state: stages.setdefault(stage_of(state)))
    for stage in stages:
        calls = []

        def stop(state, calls=calls, stage=stage):
            calls.append(stage_of(state))
            return stage_of(state) == stage

        result = run(method, callback=stop)
        require(calls.count(stage) == 1, f"told to stop in the stage {stage!r}, the method went on: {calls}")
        # Without iterations there is nothing to stop, and what an earlier stage has finished may be what is shown.
        ended = result.status is Status.CALLBACK or whole.n_iter == 0 or stage_shown(result) != stage
        require(ended, f"stopped in the stage {stage!r}, the status is: {result.status}")


@checked
def check_ctrl_c_passes_wherever_it_comes(method):
    """KeyboardInterrupt raised anywhere in the method's work reaches the caller, and leaves nothing behind."""
    expected, calls = run(method), _Interrupter()
    with calls:
        run(method)
    for part in (0.05, 0.25, 0.5, 0.75, 0.95):
        interrupter = _Interrupter(int(part * calls.count))
        try:
            with interrupter:
                run(method)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError(f"Ctrl-C after {part:.0%} of the work is swallowed")
        require(same_bytes(run(method), expected), f"after a Ctrl-C at {part:.0%} of the work the result is another")


class _Interrupter:
    """Counts the functions that methods, and what they are made of, call in a block; the `at`-th is interrupted."""

    def __init__(self, at=None):
        self.count, self._at = 0, at

    def __enter__(self):
        self._before = sys.getprofile()
        sys.setprofile(self._look)
        return self

    def __exit__(self, *error):
        sys.setprofile(self._before)

    def _look(self, frame, event, argument):
        # Python itself drops what is raised in a generator that is being closed, whoever has made it.
        if event != "call" or frame.f_code.co_flags & inspect.CO_GENERATOR or not self._is_of_method(frame):
            return
        self.count += 1
        if self.count == self._at:
            raise KeyboardInterrupt

    def _is_of_method(self, frame):
        """Whether a frame is inside `solve` or `prepare`, which may be those of another package."""
        while frame is not None:
            if frame.f_code.co_name in ("solve", "prepare") and isinstance(frame.f_locals.get("self"), Method):
                return True
            frame = frame.f_back
        return False


@checked
def check_time_limit(method):
    """A time limit of zero ends the run at the first occasion; one that is never reached changes nothing."""
    whole = run(method)
    limited = run(method, time_limit=0.0)
    require(limited.n_iter <= 1, f"with no time at all, {limited.n_iter} iterations were done")
    if whole.n_iter > 1:
        require(limited.status is Status.TIME_LIMIT, f"the time was up, but the status is: {limited.status}")
    require(same_bytes(run(method, time_limit=1e6), whole), "a time limit that is not reached changes the result")
