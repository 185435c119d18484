"""The solver's run over one objective after the other: seen from outside, one run whose iterations are counted on."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..model.result import Progress, Status, Trace
from ..model.types import Callback
from ..solver.objective import Objective, Vector
from ..solver.trust_region import Options, State, minimize

# A fit that must reach a cost is given up where so many times the gain of its last iterations would not lead there.
_ITERATIONS, _TIMES = 10, 5.0


class Chain:
    """Several fits in a row, with one trace, one callback and one clock.

    Parameters
    ----------
    stage, callback, time_limit
        As of `Watch`; the time is that of all fits together.

    Attributes
    ----------
    trace : Trace
        Over all fits, in the caller's units.
    """

    def __init__(self, stage: str, callback: Callback | None = None, time_limit: float | None = None):
        self.stage, self.trace = stage, Trace()
        self._callback, self._limit = callback, time_limit
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the chain was made."""
        return time.perf_counter() - self._began

    @property
    def left(self) -> float | None:
        """Seconds until the time limit, None without one."""
        return None if self._limit is None else max(0.0, self._limit - self.seconds)

    @property
    def n_iter(self) -> int:
        """Iterations of all fits."""
        return max(0, len(self.trace) - 1)

    def fit(
        self, objective: Objective, x0: Vector, options: Options, scale: float, needed: float | None = None
    ) -> State:
        """The solver's state at the end of one more fit; costs are in units of scale².

        Of a fit that is of use only below the cost `needed`, the end is where it cannot be hoped to get there.
        """
        costs: list[float] = []

        def ends(state):
            if self._shows(state, scale**2):
                return True
            costs.append(state.cost)
            return needed is not None and hopeless(costs, needed)

        state = minimize(objective, x0, replace(options, max_seconds=self.left), ends, self._shows_again)
        if state.status is Status.CALLBACK and needed is not None and hopeless(costs, needed):
            state.status = Status.COST_SETTLED
        return state

    def _shows(self, state, unit):
        if state.n_iter == 0 and len(self.trace):
            return False  # where one objective begins, the one before has ended: that is no iteration
        entry = {column: entries[-1] for column, entries in vars(state.trace).items()}
        entry |= {"cost": state.cost * unit, "seconds": self.seconds}
        self.trace.append(**entry)
        return self._shows_again(state)

    def _shows_again(self, state):
        """What the last iteration came to; an iteration may take long."""
        if self._callback is None:
            return False
        return self._callback(Progress(self.n_iter, self.trace.cost[-1], self.seconds, self.trace, self.stage))


def hopeless(costs: Sequence[float], needed: float) -> bool:
    """Whether a cost that has fallen like this, by parts of itself, would take too long to fall to `needed`."""
    if len(costs) <= _ITERATIONS or not costs[-1] > max(needed, 0.0):
        return False
    if not needed > 0.0:
        return True
    return bool(np.log(costs[-1] / needed) > _TIMES * np.log(costs[-1 - _ITERATIONS] / costs[-1]))
