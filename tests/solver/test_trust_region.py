"""The solver alone, on problems without tensors."""

import copy
import pickle

import numpy as np
import pytest

from fastccpd.model.result import Status
from fastccpd.solver.dogleg import dogleg
from fastccpd.solver.objective import Objective
from fastccpd.solver.pcg import boundary, shortened, steihaug
from fastccpd.solver.trust_region import Options, State, minimize, next_radius

STEPS = pytest.mark.parametrize("step", ["steihaug", "dogleg"])


class LeastSquares:
    """½‖r(x)‖² with a dense Jacobian; the preconditioner is the damped diagonal."""

    def __init__(self, residual, jacobian):
        self.residual, self.jacobian = residual, jacobian

    def cost(self, x):
        r = self.residual(x)
        return float(0.5 * r @ r)

    def cost_and_gradient(self, x):
        r, self.J = self.residual(x), self.jacobian(x)
        self.diagonal = np.sum(self.J**2, axis=0)
        self.diagonal += 1e-3 * self.diagonal.mean() + 1e-300
        return float(0.5 * r @ r), self.J.T @ r

    def hessp(self, z):
        return self.J.T @ (self.J @ z)

    def precondition(self, r):
        return r / self.diagonal


def quadratic(n=12, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n + 3, n))
    if rank is not None:
        A = A[:, :rank] @ rng.standard_normal((rank, n))
    b = rng.standard_normal(n + 3)
    return LeastSquares(lambda x: A @ x - b, lambda x: A), A, b


def rosenbrock():
    return LeastSquares(
        lambda x: np.array([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]]),
        lambda x: np.array([[-20.0 * x[0], 10.0], [-1.0, 0.0]]),
    )


@STEPS
def test_a_quadratic_is_solved(step):
    objective, A, b = quadratic()
    state = minimize(objective, np.ones(12), Options(step=step, ftol=0.0, pcg_rtol=1e-10))
    np.testing.assert_allclose(state.x, np.linalg.lstsq(A, b, rcond=None)[0], atol=1e-8)
    assert state.status.converged


@STEPS
def test_a_singular_hessian_is_survived(step):
    objective, A, b = quadratic(rank=5)
    state = minimize(objective, np.ones(12), Options(step=step, ftol=0.0))
    best = np.linalg.lstsq(A, b, rcond=None)[0]
    assert state.cost == pytest.approx(0.5 * np.sum((A @ best - b) ** 2), rel=1e-9)


@STEPS
def test_rosenbrock_is_solved(step):
    state = minimize(rosenbrock(), np.array([-1.2, 1.0]), Options(step=step, ftol=0.0, gtol=1e-12))
    np.testing.assert_allclose(state.x, [1.0, 1.0], atol=1e-8)
    assert state.status.converged


@STEPS
def test_a_start_at_the_optimum_stays_there(step):
    objective, A, b = quadratic()
    best = np.linalg.lstsq(A, b, rcond=None)[0]
    state = minimize(objective, best, Options(step=step))
    assert state.status.converged
    np.testing.assert_allclose(state.x, best, atol=1e-12)
    zero = LeastSquares(lambda x: np.zeros(3), lambda x: np.zeros((3, 2)))
    assert minimize(zero, np.ones(2), Options(step=step)).status is Status.GRADIENT_SMALL


@STEPS
def test_cost_never_rises_and_the_radius_stays_positive(step):
    for seed in range(10):
        start = np.random.default_rng(seed).uniform(-3, 3, 2)
        trace = minimize(rosenbrock(), start, Options(step=step)).trace
        assert (np.diff(trace.cost) <= 0).all()
        assert all(0 < radius < np.inf for radius in trace.radius)
        assert len(trace.cost) == len(trace.rho) == len(trace.cg_iterations) == len(trace.seconds)


@STEPS
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_trial_cost_that_is_not_finite_shrinks_the_radius(step, bad):
    objective = rosenbrock()
    plain, calls = objective.cost, []

    def cost(x):
        calls.append(1)
        return bad if len(calls) in (1, 2, 5) else plain(x)

    objective.cost = cost
    state = minimize(objective, np.array([-1.2, 1.0]), Options(step=step, ftol=0.0))
    trace = state.trace
    for k in (1, 2, 5):
        assert trace.rho[k] == -np.inf
        assert trace.radius[k] < trace.radius[k - 1]
        assert trace.cost[k] == trace.cost[k - 1]
    np.testing.assert_allclose(state.x, [1.0, 1.0], atol=1e-6)


def test_a_start_that_is_not_finite_is_a_status():
    objective = LeastSquares(lambda x: np.full(2, np.nan), lambda x: np.eye(2))
    assert minimize(objective, np.zeros(2)).status is Status.NOT_FINITE


@STEPS
def test_ten_iterations_and_ten_more_are_twenty_byte_for_byte(step):
    start = np.array([-1.2, 1.0])
    whole = minimize(rosenbrock(), start, Options(step=step, max_iter=20, ftol=0.0, gtol=0.0, xtol=0.0))
    state = minimize(rosenbrock(), start, Options(step=step, max_iter=10, ftol=0.0, gtol=0.0, xtol=0.0))
    assert state.n_iter == 10
    state = minimize(rosenbrock(), copy.deepcopy(state), Options(step=step, max_iter=10, ftol=0.0, gtol=0.0, xtol=0.0))
    assert state.x.tobytes() == whole.x.tobytes()
    for name in ("cost", "radius", "n_iter", "n_cost", "n_gradient", "n_hessp", "n_idle", "first_gradient_norm"):
        assert getattr(state, name) == getattr(whole, name), name
    for column in ("cost", "gradient_norm", "radius", "rho", "cg_iterations"):
        np.testing.assert_array_equal(getattr(state.trace, column), getattr(whole.trace, column))


def test_the_callback_sees_every_iteration_and_can_stop():
    seen = []

    def callback(state):
        seen.append(state.n_iter)
        return state.n_iter == 3

    state = minimize(rosenbrock(), np.array([-1.2, 1.0]), callback=callback)
    assert seen == [0, 1, 2, 3]
    assert state.status is Status.CALLBACK
    assert len(state.trace) == state.n_iter + 1


@STEPS
def test_a_long_iteration_is_shown_and_can_be_stopped(step, monkeypatch):
    monkeypatch.setattr("fastccpd.solver.trust_region._PULSE", 0.0)
    shown = []

    def pulse(state):
        shown.append(state.n_iter)
        return state.n_iter == 2

    state = minimize(rosenbrock(), np.array([-1.2, 1.0]), Options(step=step), pulse=pulse)
    assert state.status is Status.CALLBACK
    assert state.n_iter == 2 == shown[-1]
    assert sorted(set(shown)) == [0, 1, 2]
    whole = minimize(rosenbrock(), np.array([-1.2, 1.0]), Options(step=step, max_iter=2))
    assert state.x.tobytes() == whole.x.tobytes()
    assert len(state.trace) == 3
    state = minimize(
        rosenbrock(), np.array([-1.2, 1.0]), Options(step=step, max_seconds=1e-9), callback=lambda _: False
    )
    assert state.status is Status.TIME_LIMIT


def test_limits_are_statuses():
    start = np.array([-1.2, 1.0])
    assert minimize(rosenbrock(), start, Options(max_iter=2)).status is Status.MAX_ITERATIONS
    assert minimize(rosenbrock(), start, Options(max_seconds=0.0)).status is Status.TIME_LIMIT
    assert minimize(rosenbrock(), start, Options(max_iter=0)).n_iter == 0


def test_a_released_point_is_gone_on_from():
    class Trapped(LeastSquares):
        """(x² − 1)² in one variable: x = 0 is stationary only because it is squared."""

        def release(self, x):
            return np.array([0.5]) if abs(x[0]) < 1e-3 else None

    objective = Trapped(lambda x: x**2 - 1.0, lambda x: np.diag(2.0 * x))
    state = minimize(objective, np.array([0.0]), Options(ftol=0.0))
    assert abs(state.x[0]) == pytest.approx(1.0, abs=1e-8)


def test_steihaug_matches_the_dense_newton_step_inside_a_wide_region():
    objective, A, _ = quadratic()
    _, g = objective.cost_and_gradient(np.ones(12))
    step = steihaug(g, objective.hessp, objective.precondition, radius=1e9, max_iter=100, rtol=1e-13)
    p = np.linalg.solve(A.T @ A, -g)
    np.testing.assert_allclose(step.p, p, atol=1e-9)
    np.testing.assert_allclose(step.r - g, A.T @ (A @ p), atol=1e-8)
    assert step.predicted == pytest.approx(-(g @ p + 0.5 * p @ A.T @ A @ p), rel=1e-10)
    assert step.length == pytest.approx(np.sqrt(p @ (objective.diagonal * p)), rel=1e-8)


def test_steihaug_stops_on_the_boundary_in_the_preconditioners_norm():
    objective, A, _ = quadratic()
    _, g = objective.cost_and_gradient(np.ones(12))
    for radius in (0.01, 0.5, 2.0):
        step = steihaug(g, objective.hessp, objective.precondition, radius=radius, max_iter=100, rtol=1e-13)
        length = np.sqrt(step.p @ (objective.diagonal * step.p))
        assert length <= radius * (1 + 1e-9)
        assert step.length == pytest.approx(length, rel=1e-9)
        cauchy = -radius * (g / objective.diagonal) / np.sqrt(g @ (g / objective.diagonal))
        H = A.T @ A
        taus = np.linspace(0.0, 1.0, 101)
        best = max(-(t * g @ cauchy + 0.5 * t * t * cauchy @ H @ cauchy) for t in taus)
        assert step.predicted >= best * (1 - 1e-6)


def test_steihaug_follows_a_direction_without_curvature_to_the_boundary():
    g = np.array([1.0, 0.0])
    step = steihaug(g, lambda z: np.zeros(2), lambda r: r, radius=3.0, max_iter=10, rtol=0.1)
    np.testing.assert_allclose(step.p, [-3.0, 0.0])
    assert step.predicted == pytest.approx(3.0)


def test_dogleg_stays_in_its_region_and_beats_the_cauchy_point():
    objective, A, _ = quadratic()
    _, g = objective.cost_and_gradient(np.ones(12))
    H = A.T @ A
    alpha = (g @ g) / (g @ H @ g)
    for radius in (1e-3, 0.3, 1.0, 50.0):
        step = dogleg(g, objective.hessp, objective.precondition, radius=radius, max_iter=50, rtol=1e-10)
        assert np.linalg.norm(step.p) <= radius * (1 + 1e-12)
        cauchy = -min(alpha, radius / np.linalg.norm(g)) * g
        assert step.predicted >= -(g @ cauchy + 0.5 * cauchy @ H @ cauchy) * (1 - 1e-12)
        assert step.predicted == pytest.approx(-(g @ step.p + 0.5 * step.p @ H @ step.p), rel=1e-9)


def test_boundary_finds_the_positive_root():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, d = rng.standard_normal((2, 5))
        radius = np.linalg.norm(p) * rng.uniform(1.0, 3.0)
        tau = boundary(p @ p, p @ d, d @ d, radius)
        assert tau >= 0
        assert np.linalg.norm(p + tau * d) == pytest.approx(radius, rel=1e-12)


def test_a_part_of_a_failed_step_is_tried_next_at_no_product():
    objective, start = rosenbrock(), np.array([-1.2, 1.0])
    state = minimize(objective, start, Options(ftol=0.0))
    failed = [k for k, rho in enumerate(state.trace.rho[:-1]) if rho <= 1e-4]
    assert failed, "the valley is curved"
    assert all(state.trace.cg_iterations[k + 1] == 0 for k in failed)
    assert all(state.trace.cost[k] >= state.trace.cost[k + 1] for k in range(state.n_iter))
    # The failed step is part of the state: a run that is broken off there goes on as if it had not been.
    halted = minimize(objective, start, Options(ftol=0.0), callback=lambda state: state.failed is not None)
    went_on = minimize(objective, pickle.loads(pickle.dumps(halted)), Options(ftol=0.0))
    assert halted.status is Status.CALLBACK
    assert went_on.x.tobytes() == state.x.tobytes()
    assert went_on.trace.rho[1:] == state.trace.rho[1:]


def test_a_shortened_step_predicts_what_the_model_says():
    objective, A, _ = quadratic()
    _, g = objective.cost_and_gradient(np.ones(12))
    step = steihaug(g, objective.hessp, objective.precondition, radius=1e9, max_iter=3, rtol=1e-13)
    part = shortened(step, g, 0.3 * step.length)
    np.testing.assert_allclose(part.p, 0.3 * step.p, rtol=1e-14)
    np.testing.assert_allclose(part.r, g + A.T @ (A @ part.p), atol=1e-9)
    assert part.predicted == pytest.approx(-(g @ part.p + 0.5 * part.p @ A.T @ A @ part.p), rel=1e-10)
    assert (part.length, part.products) == (pytest.approx(0.3 * step.length), 0)
    assert shortened(step, g, 2.0 * step.length).length == step.length


def test_radius_widens_and_shrinks_as_the_model_deserves():
    assert next_radius(1.0, 0.9, 0.8, 2.0) == 1.6
    assert next_radius(5.0, 0.9, 0.8, 2.0) == 5.0
    assert next_radius(1.0, 0.5, 0.8, 2.0) == 1.0
    assert next_radius(1.0, 0.1, 0.8, 2.0) == 0.2
    assert next_radius(1.0, -np.inf, 0.0, 2.0) == 0.25


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"step": "newton"}, "step"),
        ({"max_iter": -1}, "max_iter"),
        ({"max_iter": 2.5}, "max_iter"),
        ({"max_iter": 10**400}, "max_iter"),
        ({"gtol": -1.0}, "gtol"),
        ({"ftol": float("nan")}, "ftol"),
        ({"radius0": 0.0}, "radius0"),
        ({"radius0": 1e300}, "radius0"),
        ({"pcg_max_iter": 0}, "pcg_max_iter"),
        ({"pcg_rtol": 1.0}, "pcg_rtol"),
        ({"pcg_rtol": 2.0}, "pcg_rtol"),
        ({"max_seconds": -1.0}, "max_seconds"),
        ({"max_seconds": 10**400}, "max_seconds"),
        ({"eta": "x"}, "eta"),
        ({"eta": 1.0}, "eta"),
    ],
)
def test_silly_options_are_named(options, name):
    with pytest.raises((ValueError, TypeError), match=f"^{name}: got"):
        Options(**options)


@STEPS
@pytest.mark.parametrize("radius0", [1e-300, 1e-30, 1e-9])
def test_a_first_radius_whose_steps_would_look_like_convergence_is_refused(step, radius0):
    with pytest.raises(ValueError, match=r"^radius0: got .*; at least .*, a thousandth of the default, is needed here"):
        minimize(rosenbrock(), np.array([-1.2, 1.0]), Options(step=step, radius0=radius0))


@STEPS
@pytest.mark.parametrize("part", [2e-3, 1.0, 1e6, 1e80])
def test_from_any_other_first_radius_the_optimum_is_found(step, part):
    start = np.array([-1.2, 1.0])
    default = minimize(rosenbrock(), start, Options(step=step, max_iter=0)).radius
    state = minimize(rosenbrock(), start, Options(step=step, radius0=part * default, ftol=1e-12))
    np.testing.assert_allclose(state.x, [1.0, 1.0], atol=1e-4)
    assert state.status.converged


def test_what_is_no_objective_is_told_what_it_lacks():
    class Lacking:
        cost = cost_and_gradient = hessp = len

    with pytest.raises(TypeError, match=r"^objective: got Lacking, which has no precondition\(\); cost, cost_and_gra"):
        minimize(Lacking(), np.ones(2))
    with pytest.raises(TypeError, match=r"^objective: got the class Lacking; an object of it is needed"):
        minimize(Lacking, np.ones(2))


def test_state_holds_the_whole_run():
    state = minimize(rosenbrock(), np.array([-1.2, 1.0]))
    assert isinstance(state, State)
    assert state.n_gradient == 1 + sum(rho > 1e-4 for rho in state.trace.rho[1:])
    assert state.n_hessp == sum(state.trace.cg_iterations)


@pytest.mark.parametrize(
    ("name", "given"),
    [("x0", np.ones(3, complex)), ("x0", "x"), ("x0", []), ("options", {"max_iter": 3}), ("callback", 3), ("pulse", 3)],
)
def test_what_is_no_start_no_options_and_no_function_is_refused(name, given):
    arguments = {"x0": np.zeros(3), "options": None} | {name: given}
    with pytest.raises((TypeError, ValueError), match=f"^{name}: got "):
        minimize(Bowl(), **arguments)


class Bowl(Objective):
    def cost(self, x):
        return 0.5 * float(np.sum((x - 3.0) ** 2))

    def cost_and_gradient(self, x):
        return self.cost(x), x - 3.0

    def hessp(self, z):
        return z

    def precondition(self, r):
        return r
