"""A trust-region method for least squares, ignorant of what x means.

At x with cost f and gradient g the model is m(p) = g'p + ½ p'H p. A step rule minimises it within a radius:

    "steihaug"  truncated PCG stopped at the boundary, the radius in the preconditioner's norm (`pcg.py`); it spends CG
                steps only where the model is trusted
    "dogleg"    the paper's: from the Cauchy point towards the truncated PCG-Newton point, Euclidean radius

The step is taken if it achieves more than `eta` of the predicted decrease, ρ = (f − f(x+p)) / −m(p). The radius follows
Nocedal & Wright, chapter 4: ρ > ¾ at a step p widens it to 2‖p‖ ("steihaug": 1.5‖p‖), ρ < ¼ shrinks it to ‖p‖/4. A
trial cost that is not finite counts as ρ = −∞.

Where "steihaug" has failed, the next trial is a quarter of the same step, which costs no product with H and is a
direction of descent still (Nocedal & Yuan 1998 combine trust region and line search so). Beside CG anew within the
smaller radius, and radii widened by 2, runs to the default stop took 0.55 to 0.97 of the products with H to mean costs
within 0.03 %, or lower (six noisy scenes, five starts each; Salinas at 30 dB 1.5, to costs 0.7 % lower).

What an objective is, says `objective.py`.

The run's whole memory is its `State`: stop, look at it, pickle it, go on; ten iterations and ten more are twenty, byte
for byte.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.vectors import dot
from ..model.checks import as_choice, as_count, as_number, check_members, set_fields
from ..model.result import Status, Trace
from .dogleg import dogleg
from .objective import Objective
from .pcg import Step, shortened, steihaug
from .walk import PlainWalk

STEPS = ("steihaug", "dogleg")

# By how much a step that went as predicted widens the radius.
_WIDER = {"steihaug": 1.5, "dogleg": 2.0}

IDLE_ITERATIONS = 5

# Seconds between two calls of the callback within one iteration.
_PULSE = 0.1

# The squares of larger ones would leave the range of a float.
_LARGEST_RADIUS = 1e100

# A first radius below this part of the default makes steps so short that they look like convergence.
_SMALLEST_RADIUS = 1e-3


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How to step and when to stop: each default with its reason.

    Parameters
    ----------
    step : str
        "steihaug" needs many times fewer Hessian products than "dogleg" (the paper's rule).
    max_iter : int
        Outer iterations; 400 outlast the stopping rules below on every scene tried (100 to 340 were needed).
    gtol : float
        Stop at ‖g‖ ≤ gtol ‖g₀‖; small, because the cost settles first.
    ftol : float
        Stop when five iterations in a row gain less than ftol of the cost each; less than any metric sees. One such
        iteration proves nothing: the radius may just have shrunk, or the path may cross a plateau.
    xtol : float
        Stop when a step is shorter than xtol of x: rounding decides from there on.
    radius0 : float, optional
        First radius; None is the length of the preconditioned gradient (steihaug), 0.3 ‖x₀‖ (dogleg). Less than a
        thousandth of that is refused: steps so short look like convergence.
    eta : float
        Least ρ of an accepted step, below 1; tiny, since any true decrease is progress.
    pcg_max_iter : int
        CG steps at most; beyond 30 the directions have lost their conjugacy.
    pcg_rtol : float
        The largest forcing term, below 1; 0.3 takes half the H products of 0.1 to the same cost on noisy scenes. Late,
        it falls as 2 sqrt(‖g‖/‖g₀‖), for fast final convergence where the model fits exactly.
    """

    step: str = "steihaug"
    max_iter: int = 400
    gtol: float = 1e-12
    ftol: float = 1e-4
    xtol: float = 1e-10
    radius0: float | None = None
    eta: float = 1e-4
    pcg_max_iter: int = 30
    pcg_rtol: float = 0.3

    def __post_init__(self):
        as_choice(self.step, "step", STEPS)
        # Plain numbers, whatever was given: options go through JSON.
        set_fields(self, max_iter=as_count(self.max_iter, "max_iter", least=0))
        set_fields(self, pcg_max_iter=as_count(self.pcg_max_iter, "pcg_max_iter"))
        for name in ("gtol", "ftol", "xtol"):
            set_fields(self, **{name: as_number(getattr(self, name), name)})
        # From one on no step is good enough, or every step is: a run would end where it began.
        for name in ("eta", "pcg_rtol"):
            set_fields(self, **{name: as_number(getattr(self, name), name, below=1.0)})
        if self.radius0 is not None:
            set_fields(self, radius0=as_number(self.radius0, "radius0", above=True, below=_LARGEST_RADIUS))


@dataclass(frozen=True, kw_only=True)
class Options(Rules):
    """The rules of a run, and its time.

    Parameters
    ----------
    max_seconds : float, optional
        When to stop.
    **rules
        As of `Rules`.
    """

    max_seconds: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.max_seconds is not None:
            as_number(self.max_seconds, "max_seconds", finite=False)


@dataclass
class State:
    """Where a run stands, and all that is needed to go on.

    Attributes
    ----------
    x : array
        The best point so far, float64.
    cost : float
        f(x).
    radius : float
        Of the trust region.
    first_gradient_norm : float
        ‖g₀‖, which `gtol` refers to.
    n_iter, n_cost, n_gradient, n_hessp : int
        Iterations, trial costs, gradients and Hessian products so far.
    n_idle : int
        Iterations in a row that gained less than `ftol`.
    failed : Step or None
        The last step, if it failed: a part of it is tried next.
    settled : Status or None
        Why further steps lead nowhere, found by the last step.
    seconds : float
    status : Status or None
        Why the run ended; None while it may go on.
    trace : Trace
        One entry for the start and one for each iteration.
    """

    x: np.ndarray
    cost: float = np.nan
    radius: float = np.nan
    first_gradient_norm: float = np.nan
    n_iter: int = 0
    n_cost: int = 0
    n_gradient: int = 0
    n_hessp: int = 0
    n_idle: int = 0
    failed: Step | None = None
    settled: Status | None = None
    seconds: float = 0.0
    status: Status | None = None
    trace: Trace = field(default_factory=Trace)


def minimize(
    objective: Objective,
    x0: ArrayLike | State,
    options: Options | None = None,
    callback: Callable[[State], bool | None] | None = None,
    pulse: Callable[[State], bool | None] | None = None,
) -> State:
    """Minimise `objective` from x0, an array or the `State` of an earlier run.

    Parameters
    ----------
    objective : Objective
        `release` may be missing.
    x0 : array or State
        A State is continued (in place of a copy) for up to `max_iter` more iterations.
    options : Options, optional
    callback : callable(state) -> bool, optional
        Called at the start and after every iteration; True stops the run.
    pulse : callable(state) -> bool, optional
        Called ten times a second in iterations that take that long; True stops the run where it was before this one.

    Returns
    -------
    State
        Not converging is a status, never an exception.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.solver import Objective, minimize
    >>> class Bowl(Objective):
    ...     def cost(self, x):
    ...         return 0.5 * float(np.sum((x - 3.0) ** 2))
    ...     def cost_and_gradient(self, x):
    ...         return self.cost(x), x - 3.0
    ...     def hessp(self, z):
    ...         return z
    ...     def precondition(self, r):
    ...         return r
    >>> minimize(Bowl(), np.zeros(4)).x
    array([3., 3., 3., 3.])
    """
    check_members(objective, "objective", ("cost", "cost_and_gradient", "hessp", "precondition"))
    options = Options() if options is None else options
    if not isinstance(options, Options):
        raise TypeError(f"options: got {type(options).__name__}; a fastccpd.solver.Options is needed")
    for name, given in (("callback", callback), ("pulse", pulse)):
        if given is not None and not callable(given):
            raise TypeError(f"{name}: got {given!r}; a function of the state, or None, is needed")
    state = x0 if isinstance(x0, State) else State(_as_start(x0))
    state.status = None
    before, started = state.seconds, time.perf_counter()

    f, g = objective.cost_and_gradient(state.x)
    norm, size = math.sqrt(dot(g, g)), dot(state.x, state.x)
    if not state.trace:
        state.cost, state.first_gradient_norm, state.n_gradient = f, norm, 1
        state.radius = _first_radius(objective, state.x, g, options)
        if options.radius0 is not None and np.isfinite(norm):
            _check_radius(options.radius0, objective, state.x, g, options.step)
        _record(state, norm, rho=np.nan, cg_iterations=0)
    if not (math.isfinite(f) and math.isfinite(norm)):
        state.status = Status.NOT_FINITE
        return state

    last, shown = state.n_iter + options.max_iter, started

    def look():
        nonlocal shown
        now = time.perf_counter()
        if now - shown >= _PULSE:
            state.seconds, shown = before + now - started, now
            if pulse is not None and pulse(state):
                raise _Halted(Status.CALLBACK)
            if options.max_seconds is not None and state.seconds >= options.max_seconds:
                raise _Halted(Status.TIME_LIMIT)

    while True:
        shown = time.perf_counter()
        state.seconds, released = before + shown - started, None
        converged = Status.GRADIENT_SMALL if norm <= options.gtol * state.first_gradient_norm else state.settled
        if callback is not None and callback(state):
            state.status = Status.CALLBACK
        elif state.n_iter >= last:
            state.status = converged or Status.MAX_ITERATIONS
        elif options.max_seconds is not None and state.seconds >= options.max_seconds:
            state.status = converged or Status.TIME_LIMIT
        elif converged:
            released = objective.release(state.x) if hasattr(objective, "release") else None
            if released is None or state.cost - objective.cost(released) <= options.ftol * state.cost:
                state.status = converged
        if state.status is not None:
            return state

        before_step = state.x
        if released is not None:
            state.x, state.settled, state.n_idle, state.failed, rho, products = released, None, 0, None, np.nan, 0
            f, g = objective.cost_and_gradient(state.x)
            state.radius = _first_radius(objective, state.x, g, options)
            state.first_gradient_norm = max(state.first_gradient_norm, np.sqrt(dot(g, g)))
        else:
            try:
                step = _find_step(objective, g, state, norm, options, look)
            except _Halted as halted:
                state.status = halted.args[0]
                return state
            trial = state.x + step.p
            f_trial = objective.cost(trial)
            rho, products = _ratio(state.cost, f_trial, step.predicted), step.products
            state.n_cost += 1
            state.n_hessp += products
            gain = state.cost - f_trial if rho > options.eta else step.predicted
            state.n_idle = state.n_idle + 1 if gain <= options.ftol * state.cost else 0
            state.settled = _settled(state, step, size, options)
            state.radius = next_radius(state.radius, rho, step.length, _WIDER[options.step])
            state.failed = None if rho > options.eta or options.step == "dogleg" else step
            if rho > options.eta:
                state.x = trial
                f, g = objective.cost_and_gradient(trial)
                state.n_gradient += 1
        if state.x is not before_step:
            state.cost, norm, size = f, math.sqrt(dot(g, g)), dot(state.x, state.x)
        state.n_iter += 1
        state.seconds = before + time.perf_counter() - started
        _record(state, norm, rho=float(rho), cg_iterations=products)


def _as_start(x0):
    x = np.array(x0)
    if x.dtype.kind not in "fiub" or not x.size:
        raise ValueError(f"x0: got shape {x.shape} and dtype {x.dtype}; a real array that is not empty is needed")
    return x.astype(np.float64)


class _Halted(Exception):
    """The callback or the clock has ended an iteration; its argument is the status."""


def _settled(state, step, size, options):
    """The reason why further steps like this one lead nowhere, or None; `size` is ‖x‖² before the step."""
    if dot(step.p, step.p) <= options.xtol**2 * size:
        return Status.STEP_SMALL
    if state.n_idle >= IDLE_ITERATIONS or step.predicted <= np.finfo(float).eps * abs(state.cost):
        return Status.COST_SETTLED
    return None


def _ratio(f, f_trial, predicted):
    """ρ, the decrease achieved over the decrease predicted; −∞ where either makes no sense."""
    return (f - f_trial) / predicted if math.isfinite(f_trial) and predicted > 0.0 else -math.inf


def next_radius(radius: float, rho: float, length: float, wider: float) -> float:
    """Widen after a step that went as predicted, shrink after one that did not."""
    if rho > 0.75:
        return max(radius, wider * length)
    if rho < 0.25:
        return 0.25 * min(radius, length) if length > 0.0 else 0.25 * radius
    return radius


def _first_radius(objective, x, g, options):
    if options.radius0 is not None:
        return float(options.radius0)
    return _default_radius(objective, x, g, options.step)


def _default_radius(objective, x, g, step):
    if step == "steihaug":
        return float(np.sqrt(max(0.0, _walk_of(objective).begin(g)))) or 1.0
    return 0.3 * float(np.sqrt(dot(x, x))) or 1.0


def _check_radius(radius0, objective, x, g, step):
    least = _SMALLEST_RADIUS * _default_radius(objective, x, g, step)
    if radius0 < least:
        raise ValueError(f"radius0: got {radius0!r}; at least {least:g}, a thousandth of the default, is needed here")


def _find_step(objective, g, state, norm, options, pulse):
    if state.failed is not None:
        return shortened(state.failed, g, state.radius)
    rule, rtol = dogleg, options.pcg_rtol
    if options.step == "steihaug":
        rule, rtol = steihaug, min(rtol, 2.0 * math.sqrt(norm / state.first_gradient_norm))
    limits = {"radius": state.radius, "max_iter": options.pcg_max_iter, "rtol": rtol}
    return rule(g, objective.hessp, objective.precondition, **limits, walk=_walk_of(objective), pulse=pulse)


def _walk_of(objective):
    """The objective's own way through CG, or the plain one."""
    walk = objective.walk() if hasattr(objective, "walk") else None
    return PlainWalk(objective.hessp, objective.precondition) if walk is None else walk


def _record(state, norm, *, rho, cg_iterations):
    state.trace.append(
        cost=state.cost,
        gradient_norm=float(norm),
        radius=state.radius,
        rho=rho,
        cg_iterations=cg_iterations,
        seconds=state.seconds,
    )
