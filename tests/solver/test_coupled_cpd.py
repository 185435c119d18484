"""The objective against dense Jacobians and by the slope of its Taylor error."""

from dataclasses import replace

import numba
import numpy as np
import oracle
import pytest
from fastccpd.kernels import jit
from scenery import band_means, blur, observe

from fastccpd import Degradation, Problem
from fastccpd.solver.coupled_cpd import CoupledCPD
from fastccpd.solver.pcg import steihaug
from fastccpd.solver.regularisers import Ridge
from fastccpd.solver.terms import Term

SHAPE, BANDS = (8, 12, 5), 3


def make(rank=3, seed=0, dtype=float, **options):
    """(objective, x, dense operators of each term)."""
    rng = np.random.default_rng(seed)
    P = blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], BANDS)
    scene = np.einsum("ir,jr,kr->ijk", *(rng.random((n, rank)) for n in SHAPE)) + 0.3 * rng.random(SHAPE)
    hsi, msi = observe(scene, *P)
    problem = Problem(hsi.astype(dtype), msi.astype(dtype), Degradation(*P))
    I, J, K = map(np.eye, SHAPE)
    operators = (P[0], P[1], K), (I, J, P[2])
    return CoupledCPD.of_problem(problem, rank, **options), rng.uniform(0.2, 1.2, (sum(SHAPE), rank)), operators


def per_mode(objective, x, function):
    """function(φ, part of x) of the three modes, stacked."""
    parts = zip(objective.parametrisation, objective.modes, strict=True)
    return np.vstack([function(phi, x[rows]) * np.ones_like(x[rows]) for phi, rows in parts])


def dense_parts(objective, x, operators):
    """Dense J'J by u over the data there are, the gradient by u, the slopes, all stacked row by row, and the cost."""
    u = per_mode(objective, x, lambda phi, part: phi.value(part))
    JtJ, gradient, cost = 0.0, 0.0, 0.0
    for term, P in zip(objective.terms, operators, strict=True):
        model, J = oracle.seen_tensor_and_jacobian(P, [u[rows] for rows in objective.modes])
        has = np.ones(model.shape, bool) if term.valid is None else term.valid
        residual, J = (model - term.tensor / objective.scale)[has], J[has.ravel()]
        cost += 0.5 * term.weight * np.sum(residual**2)
        gradient = gradient + term.weight * J.T @ residual
        JtJ = JtJ + term.weight * J.T @ J
    return JtJ, gradient, per_mode(objective, x, lambda phi, part: phi.slope(part)).ravel(), cost


VARIANTS = [
    {},
    {"parametrisation": "identity"},
    {"parametrisation": ("square", "identity", "square")},
    {"weights": (0.3, 2.0)},
    {"scale": 7.5},
    {"regularisers": (Ridge(0.7),)},
    {"regularisers": (Ridge(0.2), oracle.Pull(0.4))},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("rank", [1, 3])
def test_cost_and_gradient_match_the_dense_model(options, rank):
    objective, x, P = make(rank, **options)
    _, by_u, slope, cost = dense_parts(objective, x, P)
    u = per_mode(objective, x, lambda phi, part: phi.value(part))
    by_x = np.zeros(x.size)
    for term in objective.regularisers:
        point = x if term.space == "latent" else u
        cost += term.value(point)
        if term.space == "latent":
            by_x += term.gradient(point).ravel()
        else:
            by_u = by_u + term.gradient(point).ravel()
    f, g = objective.cost_and_gradient(x)
    assert f == pytest.approx(cost, rel=1e-12)
    np.testing.assert_allclose(g.ravel(), slope * by_u + by_x, rtol=1e-10, atol=1e-10 * np.abs(g).max())


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("curvature", ["gauss-newton", "positive"])
def test_hessp_matches_the_dense_hessian(options, curvature):
    objective, x, P = make(curvature=curvature, **options)
    objective.cost_and_gradient(x)
    JtJ, by_u, slope, _ = dense_parts(objective, x, P)
    u = per_mode(objective, x, lambda phi, part: phi.value(part))
    latent = np.zeros(x.size)
    for term in objective.regularisers:
        if term.space == "latent":
            latent += term.weight
        else:
            JtJ = JtJ + term.weight * np.eye(x.size)
            by_u = by_u + term.gradient(u).ravel()
    second = per_mode(objective, x, lambda phi, part: phi.second()).ravel()
    H = slope[:, None] * JtJ * slope + np.diag(latent)
    if curvature == "positive":
        H += np.diag(np.maximum(second * by_u, 0.0))
    ours = np.column_stack([objective.hessp(e.reshape(x.shape)).ravel() for e in np.eye(x.size)])
    np.testing.assert_allclose(ours, H, atol=1e-12 * np.abs(H).max())
    np.testing.assert_allclose(ours, ours.T, atol=1e-13 * np.abs(H).max())
    assert np.linalg.eigvalsh(ours).min() > -1e-10 * np.abs(H).max()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gauss_newton_has_two_null_directions_for_each_component(rank):
    objective, x, _ = make(rank, curvature="gauss-newton")
    objective.cost_and_gradient(x)
    H = np.column_stack([objective.hessp(e.reshape(x.shape)).ravel() for e in np.eye(x.size)])
    eigenvalues = np.linalg.eigvalsh(H)
    assert np.sum(eigenvalues < 1e-10 * eigenvalues.max()) == 2 * rank


@pytest.mark.parametrize("parametrisation", ["square", "identity"])
def test_gradient_is_exact_by_the_slope_of_its_taylor_error(parametrisation):
    for seed in range(5):
        objective, x, _ = make(seed=seed, parametrisation=parametrisation)
        d = np.random.default_rng(seed + 50).standard_normal(x.shape)
        assert oracle.taylor_slope(objective, x, d) == pytest.approx(2.0, abs=0.1)


def test_precondition_inverts_the_damped_blocks():
    objective, x, P = make()
    objective.cost_and_gradient(x)
    JtJ, by_u, slope, _ = dense_parts(objective, x, P)
    rank = objective.rank
    r = np.random.default_rng(3).standard_normal(x.shape)
    y = objective.precondition(r)
    for row in (0, 9, 24):
        # The block keeps P'P's diagonal only, which is what couples an entry to itself.
        block = slice(row * rank, (row + 1) * rank)
        M = slope[block, None] * JtJ[block, block] * slope[block] + np.diag(np.maximum(2 * by_u[block], 0.0))
        M += 0.1 * np.trace(M) / rank * np.eye(rank)
        np.testing.assert_allclose(y[row], np.linalg.solve(M, r[row]), rtol=2e-5, atol=1e-6 * np.abs(y[row]).max())


def test_precondition_is_symmetric_and_positive_definite():
    objective, x, _ = make()
    objective.cost_and_gradient(x)
    M = np.column_stack([objective.precondition(e.reshape(x.shape)).ravel() for e in np.eye(x.size)])
    np.testing.assert_allclose(M, M.T, atol=1e-12 * np.abs(M).max())
    assert np.linalg.eigvalsh(M).min() > 0


@pytest.mark.parametrize("radius", [0.2, np.inf])
@pytest.mark.parametrize("max_iter", [0, 1, 7])
def test_its_own_walk_takes_the_steps_of_the_plain_one(radius, max_iter):
    objective, x, _ = make()
    _, g = objective.cost_and_gradient(x)
    limits = {"radius": radius, "max_iter": max_iter, "rtol": 1e-3}
    plain = steihaug(g, objective.hessp, objective.precondition, **limits)
    for _ in range(2):  # its vectors are used again
        own = steihaug(g, objective.hessp, objective.precondition, **limits, walk=objective.walk())
        assert own.products == plain.products
        np.testing.assert_allclose(own.p, plain.p, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(own.r - g, objective.hessp(own.p), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose((own.length, own.predicted), (plain.length, plain.predicted), rtol=1e-9)
    kept = own.p.copy()
    objective.walk().begin(g)
    assert (own.p == kept).all(), "a step is the caller's own"


class StepByStep:
    """A walk whose `whole` is missing."""

    def __init__(self, walk):
        for name in ("begin", "curvature", "advance", "turn", "step"):
            setattr(self, name, getattr(walk, name))


@pytest.mark.parametrize("rank", [3, 9])
@pytest.mark.parametrize("radius", [1e-3, 0.3, 2.0, np.inf])
def test_all_of_cg_in_one_launch_is_cg_step_by_step_to_the_byte(rank, radius):
    objective, x, _ = make(rank)
    _, g = objective.cost_and_gradient(x)
    walk = objective.walk()
    for max_iter, rtol in ((0, 0.3), (1, 0.3), (7, 1e-3), (30, 0.3), (30, 1e-6)):
        limits = {"radius": radius, "max_iter": max_iter, "rtol": rtol}
        slow = steihaug(g, objective.hessp, objective.precondition, **limits, walk=StepByStep(walk))
        serial = steihaug(g, objective.hessp, objective.precondition, **limits, walk=walk)
        with jit.sharing_all_work() as shared:
            parallel = steihaug(g, objective.hessp, objective.precondition, **limits, walk=walk)
        threads = 1 if numba.config.DISABLE_JIT else numba.get_num_threads()
        assert shared.launches == (1 if threads > 1 else 0)
        for fast in (serial, parallel):
            assert (fast.products, fast.length, fast.predicted) == (slow.products, slow.length, slow.predicted)
            assert fast.p.tobytes() == slow.p.tobytes()
            assert fast.r.tobytes() == slow.r.tobytes()


def test_cg_that_may_take_long_goes_step_by_step(monkeypatch):
    objective, x, _ = make()
    _, g = objective.cost_and_gradient(x)
    limits = {"radius": np.inf, "max_iter": 5, "rtol": 1e-6}
    pulses = []
    for longest, looks in ((np.inf, 1), (0.0, 6)):
        monkeypatch.setattr("fastccpd.solver.block_walk.LONGEST_LAUNCH", longest)
        pulses.clear()
        looking = {"walk": objective.walk(), "pulse": lambda: pulses.append(1)}
        steihaug(g, objective.hessp, objective.precondition, **limits, **looking)
        assert len(pulses) == looks


def test_regularisers_take_part_in_cg_by_the_plain_walk():
    assert make(regularisers=[Ridge(0.1)])[0].walk() is None


def test_cost_does_not_disturb_the_linearisation_point():
    objective, x, _ = make()
    z = np.ones_like(x)
    objective.cost_and_gradient(x)
    before = objective.hessp(z), objective.precondition(z)
    objective.cost(2.0 * x)
    after = objective.hessp(z), objective.precondition(z)
    assert [b.tobytes() for b in before] == [a.tobytes() for a in after]


def test_reruns_give_the_same_bytes_in_any_order_of_calls():
    objective, x, _ = make()
    first = objective.cost_and_gradient(x)
    objective.cost(1.5 * x)
    objective.cost(x)
    again = objective.cost_and_gradient(x)
    fresh = make()[0].cost_and_gradient(x)
    for other in (again, fresh):
        assert other[0] == first[0]
        assert other[1].tobytes() == first[1].tobytes()


def test_cost_keeps_its_digits_where_the_fit_is_nearly_exact():
    rng = np.random.default_rng(0)
    P = blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], BANDS)
    x = rng.uniform(0.2, 1.2, (sum(SHAPE), 2))
    scene = np.einsum("ir,jr,kr->ijk", *np.split(x**2, np.cumsum(SHAPE[:2])))
    hsi, msi = observe(scene, *P)
    objective = CoupledCPD.of_problem(Problem(hsi + 1e-9, msi, Degradation(*P)), 2)
    assert objective.cost(x) == pytest.approx(0.5 * hsi.size * 1e-18, rel=1e-4)


def test_float32_cost_is_good_to_single_precision():
    double, x, _ = make()
    single, _, _ = make(dtype=np.float32)
    assert single.cost(x) == pytest.approx(double.cost(x), rel=1e-6)
    _, g64 = double.cost_and_gradient(x)
    _, g32 = single.cost_and_gradient(x)
    np.testing.assert_allclose(g32, g64, atol=3e-6 * np.abs(g64).max())


def test_release_lifts_entries_that_are_trapped_at_zero():
    rng = np.random.default_rng(1)
    P = blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], BANDS)
    x = rng.uniform(0.5, 1.0, (sum(SHAPE), 2))
    hsi, msi = observe(np.einsum("ir,jr,kr->ijk", *np.split(x**2, np.cumsum(SHAPE[:2]))), *P)
    objective = CoupledCPD.of_problem(Problem(hsi, msi, Degradation(*P)), 2)
    trapped = x.copy()
    trapped[3, 1] = 1e-9
    f, g = objective.cost_and_gradient(trapped)
    assert abs(g[3, 1]) < 1e-7 * np.abs(g).max()
    lifted = objective.release(trapped)
    assert objective.cost(lifted) < 0.5 * f
    assert lifted[3, 1] > 0.1
    objective.cost_and_gradient(x)
    assert objective.release(x) is None


def with_gaps(which, dtype=float, **options):
    """(objective, x, dense J'WJ by x, gradient by x, cost), a third of the chosen images' values missing."""
    complete, x, operators = make(dtype=dtype, **options)
    rng = np.random.default_rng(7)
    terms = []
    for name, term in zip(("hsi", "msi"), complete.terms, strict=True):
        valid = rng.random(term.tensor.shape) > (0.3 if name in which else -1.0)
        terms.append(replace(term, tensor=np.where(valid, term.tensor, np.nan), valid=valid))
    options.pop("weights", None)  # the terms have them
    objective = CoupledCPD(terms, complete.rank, **options)
    JtJ, by_u, slope, cost = dense_parts(objective, x, operators)
    return objective, x, slope[:, None] * JtJ * slope, slope * by_u, cost


GAPS = pytest.mark.parametrize("which", [("hsi",), ("msi",), ("hsi", "msi")], ids=" and ".join)


@GAPS
@pytest.mark.parametrize("options", VARIANTS[:5], ids=str)
def test_missing_data_have_no_part_in_cost_and_gradient(which, options):
    objective, x, _, gradient, cost = with_gaps(which, **options)
    for point in (2.0 * x, x):  # what an earlier point left in the gaps is gone
        f, g = objective.cost_and_gradient(point)
    assert f == pytest.approx(cost, rel=1e-12)
    np.testing.assert_allclose(g.ravel(), gradient, rtol=1e-10, atol=1e-10 * np.abs(gradient).max())


@GAPS
def test_the_gradient_with_missing_data_is_exact_by_the_slope_of_its_taylor_error(which):
    objective, x, *_ = with_gaps(which)
    d = np.random.default_rng(50).standard_normal(x.shape)
    assert oracle.taylor_slope(objective, x, d) == pytest.approx(2.0, abs=0.1)


@GAPS
def test_hessp_bounds_the_gauss_newton_matrix_of_the_data_there_are(which):
    objective, x, JtJ, *_ = with_gaps(which, curvature="gauss-newton")
    objective.cost_and_gradient(x)
    H = np.column_stack([objective.hessp(e.reshape(x.shape)).ravel() for e in np.eye(x.size)])
    assert np.linalg.eigvalsh(H - JtJ).min() > -1e-10 * np.abs(H).max()
    assert np.abs(H - JtJ).max() > 0.01 * np.abs(H).max()


def test_float32_cost_with_missing_data_is_good_to_single_precision():
    double, x, *_ = with_gaps(("hsi", "msi"))
    single, *_ = with_gaps(("hsi", "msi"), dtype=np.float32)
    assert single.cost(x) == pytest.approx(double.cost(x), rel=1e-6)
    np.testing.assert_allclose(single.cost_and_gradient(x)[1], double.cost_and_gradient(x)[1], atol=1e-4)


def test_factors_are_in_the_callers_units():
    objective, x, _ = make(scale=10.0)
    A, B, C = objective.factors(x)
    np.testing.assert_allclose(C, 10.0 * x[20:] ** 2)
    assert (A >= 0).all()
    assert (B >= 0).all()


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("how", ["whole", "gaps", "basis"])
def test_another_rank_of_an_objective_is_a_new_objective_to_the_byte(how, dtype):
    rng = np.random.default_rng(3)
    first, _, _ = make(rank=2, dtype=dtype, scale=3.0)
    terms = list(first.terms)
    if how == "gaps":
        terms[0] = replace(terms[0], valid=rng.random(terms[0].tensor.shape) < 0.9)
    elif how == "basis":
        terms[0] = replace(terms[0], basis=np.linalg.qr(rng.standard_normal((SHAPE[2], 3)))[0])
    first = CoupledCPD(terms, 2, scale=3.0)
    x = rng.uniform(0.2, 1.2, (sum(SHAPE), 5))
    first.cost_and_gradient(x[:, :2])

    def all_of(objective):
        cost, gradient = objective.cost_and_gradient(x)
        return np.vstack([gradient, objective.hessp(x), objective.precondition(x), np.full_like(x, cost)]).tobytes()

    before = first.cost(0.9 * x[:, :2])
    other = first.at_rank(5)
    assert all_of(other) == all_of(CoupledCPD(terms, 5, scale=3.0))
    assert (first.rank, first.cost(1.1 * x[:, :2])) == (2, CoupledCPD(terms, 2, scale=3.0).cost(1.1 * x[:, :2]))
    assert first.cost(0.9 * x[:, :2]) == before
    with pytest.raises(ValueError, match="rank: got 0"):
        first.at_rank(0)


def test_silly_arguments_are_named():
    P = blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], BANDS)
    problem = Problem(*observe(np.ones(SHAPE), *P), Degradation(*P))
    for options, name in [
        ({"rank": 0}, "rank"),
        ({"parametrisation": "cube"}, "parametrisation"),
        ({"curvature": "none"}, "curvature"),
        ({"scale": 0.0}, "scale"),
        ({"weights": (1.0, -1.0)}, "weights"),
    ]:
        with pytest.raises(ValueError, match=f"^{name}"):
            CoupledCPD.of_problem(problem, **{"rank": 2, **options})


@pytest.mark.parametrize("shape", [(2, 2), (300, 3), (90,), ()])
def test_points_of_another_shape_are_refused_before_a_kernel_sees_them(shape):
    objective = CoupledCPD([Term(np.random.default_rng(0).random((12, 10, 8)))], rank=3)
    for name in ("hessp", "precondition"):
        with pytest.raises(ValueError, match="^objective: it is linearised nowhere; cost_and_gradient"):
            getattr(objective, name)(np.ones(objective.shape))
    objective.cost_and_gradient(np.ones(objective.shape))
    for name in ("cost", "cost_and_gradient", "hessp", "precondition", "factors"):
        with pytest.raises(ValueError, match=r"^[xzr]: got shape .* a real array of shape \(30, 3\)"):
            getattr(objective, name)(np.ones(shape))
    with pytest.raises(ValueError, match="^x: got shape .* and dtype complex128"):
        objective.cost(np.ones(objective.shape, complex))
    with pytest.raises(TypeError, match="^terms: got a single Term"):
        CoupledCPD(objective.terms[0], rank=3)
