"""SC-LL1 against its definition, its gradients by the slope of the Taylor error, and at the published figure."""

import numpy as np
import pytest
from scenery import assert_memory_estimate_is_close, band_means, blur, noisy_salinas, observe, rsnr, small_case

from fastccpd import Degradation, Problem, Status
from fastccpd.imaging import metrics
from fastccpd.methods.cbtd_apg import CBTDAPG, _Objective

# Weights at which no term of the cost is small beside the others.
STRONG = {"eta": 0.7, "theta": 0.4, "lam": 0.9, "tau": 0.3, "eps": 0.05, "p": 0.6, "q": 0.8}

SHAPES = [(8, 12, 7), (12, 8, 7)]


def noisy_problem(shape=(8, 12, 7), bands=3, seed=0, dtype=np.float64):
    _, hsi, msi, degradation = small_case(shape, bands, 3, seed, noise=0.1)
    return Problem(hsi.astype(dtype), msi.astype(dtype), degradation)


def point(problem, rank=2, seed=1):
    rng = np.random.default_rng(seed)
    rows, columns, bands = problem.sri_shape
    return rng.standard_normal((rank, rows, columns)), rng.standard_normal((bands, rank))


class Dense:
    """f, its gradients and the steps they allow, from the definition: pixels row by row, every operator a matrix."""

    def __init__(self, problem, scale, options):
        self.options = options
        P1, P2, self.PM = (getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
        (I, J, K), self.shape = problem.sri_shape, problem.sri_shape[:2]
        self.P = np.kron(P1, P2)
        self.H, self.M = problem.hsi.reshape(-1, K) / scale, problem.msi.reshape(I * J, -1) / scale
        differences = [np.diff(np.eye(n), axis=0) for n in (I, J)]
        self.D = [np.kron(differences[0], np.eye(J)), np.kron(np.eye(I), differences[1])]

    def power(self, S_r, exponent):
        X = S_r.reshape(self.shape)
        values, vectors = np.linalg.eigh(X @ X.T + self.options.tau * np.eye(self.shape[0]))
        return (vectors * values**exponent) @ vectors.T

    def cost(self, S, C):
        o = self.options
        low_rank = sum(np.trace(self.power(s, o.p / 2)) for s in S.T)
        edges = sum(np.sum(((D @ S) ** 2 + o.eps) ** (o.q / 2)) for D in self.D)
        misfit = np.sum((self.H - self.P @ S @ C.T) ** 2) + np.sum((self.M - S @ C.T @ self.PM.T) ** 2)
        return 0.5 * misfit + 0.5 * o.lam * np.sum(C**2) + o.eta * low_rank + o.theta * edges

    def spectral_step(self, S, C):
        o, PM, seen = self.options, self.PM, self.P @ S
        gradient = (C @ seen.T - self.H.T) @ seen + PM.T @ (PM @ C @ S.T - self.M.T) @ S + o.lam * C
        return C - gradient / (norm2(seen) + norm2(PM) * norm2(S) + o.lam)

    def spatial_step(self, S, C):
        o, C_M = self.options, self.PM @ C
        gradient = self.P.T @ (self.P @ S @ C.T - self.H) @ C + (S @ C_M.T - self.M) @ C_M
        matrices = [self.power(s, o.p / 2 - 1) for s in S.T]
        low_rank = [(W @ s.reshape(self.shape)).ravel() for W, s in zip(matrices, S.T)]
        gradient += o.p * o.eta * np.stack(low_rank, axis=1)
        L = norm2(C) * norm2(self.P) + norm2(C_M)
        L += o.p * o.eta * max(np.linalg.norm(W, 2) for W in matrices)
        for D in self.D:
            weights = ((D @ S) ** 2 + o.eps) ** (o.q / 2 - 1)
            gradient += o.q * o.theta * D.T @ (weights * (D @ S))
            L += o.q * o.theta * 4.0 * weights.max()
        return S - gradient / L


def norm2(X):
    return np.linalg.norm(X, 2) ** 2


def in_columns(S):
    """(R, I, J) maps as the (IJ, R) matrix."""
    return S.reshape(len(S), -1).T


@pytest.mark.parametrize("shape", SHAPES)
def test_cost_equals_its_definition(shape):
    problem, options = noisy_problem(shape), CBTDAPG(rank=2, **STRONG)
    objective, dense = _Objective(problem, 1.7, options), Dense(problem, 1.7, options)
    S, C = point(problem)
    assert objective.cost(S, C, objective.see(S)) == pytest.approx(dense.cost(in_columns(S), C), rel=1e-12)


def taylor_slope(f, gradient, x, direction):
    """The slope of log |f(x + h z) − f(x) − h <g, z>| over log h: 2 for a true gradient, 1 for a wrong one."""
    steps = np.logspace(-1.5, -4.5, 13)
    errors = [abs(f(x + h * direction) - f(x) - h * np.vdot(gradient, direction)) for h in steps]
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_pass_the_taylor_test(shape, seed):
    problem = noisy_problem(shape)
    objective = _Objective(problem, 1.7, CBTDAPG(rank=2, **STRONG))
    S, C = point(problem, seed=seed)
    along_S, along_C = point(problem, seed=seed + 100)
    by_C, _ = objective.spectral_gradient(C, S, objective.see(S))
    by_S, _ = objective.spatial_gradient(S, C, objective.see(S))
    slope = taylor_slope(lambda C: objective.cost(S, C, objective.see(S)), by_C, C, along_C)
    assert slope == pytest.approx(2.0, abs=0.1)
    slope = taylor_slope(lambda S: objective.cost(S, C, objective.see(S)), by_S, S, along_S)
    assert slope == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_of_one_over_the_bound_always_descends_enough(shape, strength):
    problem = noisy_problem(shape)
    options = {**STRONG, "eta": strength * STRONG["eta"], "theta": strength * STRONG["theta"]}
    objective = _Objective(problem, 1.0, CBTDAPG(rank=2, **options))
    for seed in range(5):
        S, C = point(problem, seed=seed)
        before = objective.cost(S, C, objective.see(S))
        g, L = objective.spectral_gradient(C, S, objective.see(S))
        after = objective.cost(S, C - g / L, objective.see(S))
        assert after <= before - np.vdot(g, g) / (2.0 * L) + 1e-12 * before
        g, L = objective.spatial_gradient(S, C, objective.see(S))
        moved = S - g / L
        assert objective.cost(moved, C, objective.see(moved)) <= before - np.vdot(g, g) / (2.0 * L) + 1e-12 * before


def test_iterations_equal_the_definition():
    problem, scale = noisy_problem(), 1.7
    options = CBTDAPG(rank=2, max_iter=6, tol=0.0, scale=scale)
    solution = options.solve(problem, rng=np.random.default_rng(8))

    dense, rng = Dense(problem, scale, options), np.random.default_rng(8)
    rows, columns, bands = problem.sri_shape
    S = before_S = in_columns(rng.random((2, rows, columns)))
    C = before_C = rng.random((bands, 2))
    t, costs = 1.0, [dense.cost(S, C)]
    for _ in range(6):
        t_next = (1 + np.sqrt(1 + 4 * t**2)) / 2
        beta, t = (t - 1) / t_next, t_next
        C, before_C = np.maximum(dense.spectral_step(S, C + beta * (C - before_C)), 0), C
        S, before_S = np.maximum(dense.spatial_step(S + beta * (S - before_S), C), 0), S
        costs.append(dense.cost(S, C))
    expected = scale * (S @ C.T).reshape(problem.sri_shape)
    np.testing.assert_allclose(solution.image.render(), expected, rtol=1e-10)
    np.testing.assert_allclose(solution.trace.cost, scale**2 * np.array(costs), rtol=1e-10)
    assert solution.cost == solution.trace.cost[-1]


def test_it_stops_when_the_cost_settles_or_at_the_limit():
    problem = noisy_problem()
    settled = CBTDAPG(rank=2, tol=1e-2).solve(problem, rng=np.random.default_rng(0))
    assert settled.status is Status.COST_SETTLED
    changes = np.abs(np.diff(settled.trace.cost)) / settled.trace.cost[:-1]
    assert changes[-1] <= 1e-2 < changes[:-1].min()
    limited = CBTDAPG(rank=2, tol=0.0, max_iter=5).solve(problem, rng=np.random.default_rng(0))
    assert limited.status is Status.MAX_ITERATIONS
    assert limited.n_iter == 5


def test_a_clean_scene_of_few_materials_is_found():
    rng = np.random.default_rng(4)
    shape, places = (32, 24, 20), np.linspace(0, 1, 20)[:, None]
    spectra = 0.2 + np.exp(-(((places - np.array([0.2, 0.5, 0.8])) / 0.2) ** 2))
    maps = np.kron(rng.random((8, 6, 3)) ** 3, np.ones((4, 4, 1)))
    scene = maps @ spectra.T
    P1, P2, PM = blur(shape[0]), blur(shape[1]), band_means(20, 4)
    problem = Problem(*observe(scene, P1, P2, PM), Degradation(P1, P2, PM))
    image = CBTDAPG(rank=3).solve(problem, rng=np.random.default_rng(0)).image.render()
    assert image.min() >= 0.0
    assert rsnr(image, scene) > 20.0


def test_scale_is_the_unit_in_which_the_weights_count():
    problem = noisy_problem()
    larger = Problem(1000.0 * problem.hsi, 1000.0 * problem.msi, problem.degradation)
    plain = CBTDAPG(rank=2, max_iter=5, scale=1.0).solve(problem, rng=np.random.default_rng(0))
    scaled = CBTDAPG(rank=2, max_iter=5, scale=1000.0).solve(larger, rng=np.random.default_rng(0))
    np.testing.assert_allclose(scaled.image.render(), 1000.0 * plain.image.render(), rtol=1e-10)
    assert scaled.cost == pytest.approx(1e6 * plain.cost)
    default = CBTDAPG(rank=2, max_iter=5).solve(problem, rng=np.random.default_rng(0))
    named = CBTDAPG(rank=2, max_iter=5, scale=np.quantile(problem.msi, 0.999))
    np.testing.assert_array_equal(
        default.image.render(), named.solve(problem, rng=np.random.default_rng(0)).image.render()
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 0}, r"^rank: got 0"),
        ({"p": 0.0}, r"^p: got 0.0"),
        ({"q": 2.5}, r"^q: got 2.5; a number of at most 2"),
        ({"tau": 0.0}, r"^tau: got 0.0"),
        ({"eps": -1.0}, r"^eps: got -1.0"),
        ({"eta": -1.0}, r"^eta: got -1.0"),
        ({"scale": 0.0}, r"^scale: got 0.0"),
        ({"max_iter": -1}, r"^max_iter: got -1"),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        CBTDAPG(**options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_estimate_is_close(dtype):
    problem = noisy_problem((96, 64, 20), 4, dtype=dtype)
    method = CBTDAPG(max_iter=2)
    assert_memory_estimate_is_close(method, problem)


@pytest.mark.scenes
def test_published_figure_on_noisy_salinas(data_folder):
    found = []
    for cube, problem, rng in noisy_salinas(data_folder, draws=2):
        found.append(metrics.rsnr(CBTDAPG().solve(problem, rng=rng).image.render(), cube))
    assert np.median(found) > 6.8 - 3.0


def test_a_stop_inside_an_iteration_is_heard_and_leaves_the_last_whole_one(monkeypatch):
    monkeypatch.setattr("fastccpd.estimation.watch._PULSE", 0.0)
    problem, options, seen = noisy_problem(), {"rank": 2, "tol": 0.0}, []

    def stop(state):
        seen.append(state.n_iter)
        return seen.count(2) == 5

    stopped = CBTDAPG(**options, max_iter=9).solve(problem, rng=np.random.default_rng(0), callback=stop)
    whole = CBTDAPG(**options, max_iter=2).solve(problem, rng=np.random.default_rng(0))
    assert stopped.status is Status.CALLBACK
    assert (stopped.n_iter, stopped.cost) == (2, whole.cost)
    assert np.array_equal(stopped.image.render(), whole.image.render())
    # One for C; for each map one in the gradient and one in the cost; two directions of edges in both.
    assert seen.count(1) == 1 + 1 + 2 * options["rank"] + 2 * 2
