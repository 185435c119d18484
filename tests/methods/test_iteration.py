"""The loop whose beginning and iterations may be stopped from within."""

import pytest

from fastccpd import Status
from fastccpd.methods._iteration import run_watched


class Counting:
    """Iterates that halve their cost, and look up three times in each iteration and in the beginning."""

    def __init__(self):
        self.value, self.looks = 8.0, 0

    def begin(self, pulse):
        self._work(pulse)

    def advance(self, pulse):
        self._work(pulse)
        self.value /= 2.0

    def _work(self, pulse):
        for _ in range(3):
            self.looks += 1
            pulse()

    def cost(self):
        return self.value


def test_all_iterations_are_done_and_traced():
    outcome = run_watched(Counting(), max_iter=3)
    assert outcome.status is Status.FINISHED
    assert outcome.trace.cost == [8.0, 4.0, 2.0, 1.0]
    assert (outcome.n_iter, outcome.cost) == (3, 1.0)


def test_it_ends_when_the_iterates_have_settled_and_says_if_they_have_not():
    iterates = Counting()
    assert run_watched(iterates, max_iter=9, settled=lambda: iterates.value <= 2.0).status is Status.STEP_SMALL
    assert iterates.value == 2.0
    assert run_watched(Counting(), max_iter=2, settled=lambda: False).status is Status.MAX_ITERATIONS


def test_no_time_ends_it_in_the_beginning_with_one_entry_in_the_trace():
    iterates = Counting()
    outcome = run_watched(iterates, max_iter=3, time_limit=0.0)
    assert iterates.looks == 1
    assert (outcome.status, outcome.n_iter, outcome.trace.cost) == (Status.TIME_LIMIT, 0, [8.0])


def test_a_callback_sees_the_start_and_every_iteration_and_stops_it():
    seen = []
    outcome = run_watched(Counting(), max_iter=5, callback=lambda state: seen.append(state.n_iter) or state.n_iter == 2)
    assert seen == [0, 1, 2]
    assert (outcome.status, outcome.n_iter, outcome.cost) == (Status.CALLBACK, 2, 2.0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_other_exceptions_pass(error):
    def fail(state):
        raise error

    with pytest.raises(error):
        run_watched(Counting(), max_iter=5, callback=fail)
