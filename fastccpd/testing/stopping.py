"""Checks of when a method ends, and of what its callback sees."""

from dataclasses import replace

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
    """The callback sees rising iteration numbers up to the last, a cost, the time and the trace so far."""
    seen = []

    def look(state):
        seen.append((state.n_iter, len(state.trace)))
        require(isinstance(state.cost, float) and state.seconds >= 0.0, "the callback sees no cost or no time")

    result = run(method, callback=look)
    numbers = [n_iter for n_iter, _ in seen]
    require(numbers, "the callback was never called")
    require(numbers == sorted(set(numbers)), f"the callback saw the iterations {numbers}")
    require(numbers[-1] == result.n_iter, f"the callback saw {numbers[-1]} as the last of {result.n_iter} iterations")
    require(all(entries == n_iter + 1 for n_iter, entries in seen), f"(n_iter, trace entries) were {seen}")
    require(same_bytes(run(method), result), "a callback that does nothing changes the result")


@checked
def check_callback_can_stop(method):
    """A callback that returns True ends the run there, with that status and what was reached."""
    numbers = []
    last = min(2, run(method, callback=lambda state: numbers.append(state.n_iter)).n_iter)
    calls = []

    def stop(state):
        calls.append(state.n_iter)
        return state.n_iter >= last

    result = run(method, callback=stop)
    require(calls == [n for n in numbers if n <= last], f"told to stop at {last}, the method went on: {calls}")
    require(result.n_iter == last, f"told to stop at iteration {last}, the result is that of {result.n_iter}")
    if numbers[-1] > last:
        require(result.status is Status.CALLBACK, f"the callback stopped the run, but its status is: {result.status}")


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
def check_time_limit(method):
    """A time limit of zero ends the run at the first occasion; one that is never reached changes nothing."""
    whole = run(method)
    limited = run(method, time_limit=0.0)
    require(limited.n_iter <= 1, f"with no time at all, {limited.n_iter} iterations were done")
    if whole.n_iter > 1:
        require(limited.status is Status.TIME_LIMIT, f"the time was up, but the status is: {limited.status}")
    require(same_bytes(run(method, time_limit=1e6), whole), "a time limit that is not reached changes the result")
