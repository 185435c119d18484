"""NN-BTD against golden digits, against its definition with every operator a matrix, and at figures of Salinas."""

import asv_folder
import numpy as np
import pytest
from scenery import assert_memory_estimate_is_close, band_means, grid, noisy_salinas, sine_problem, small_case

from fastccpd import Degradation, Problem, Status, fuse
from fastccpd.imaging import metrics
from fastccpd.methods import get
from fastccpd.methods._beta_divergence import BetaFit
from fastccpd.methods._simplex_step import simplex_step
from fastccpd.methods.nn_btd_mu import NNBTDMU, _Iterates

twins = asv_folder.module("benchmarks.factored_methods")


def golden_start():
    r, i, l = grid(2, 6, 2)
    A = 1.0 + 0.5 * np.sin(1 + i + 2 * l + 3 * r)
    r, j, l = grid(2, 5, 2)
    B = 1.0 + 0.5 * np.cos(1 + 2 * j + l + 3 * r)
    k, r = grid(7, 2)
    return A, B, 1.0 + 0.5 * np.sin(2 + k + 2 * r)


def golden_iterates(**options):
    options = NNBTDMU(**{"rank": 2, "map_rank": 2, "warmup": 0} | options)
    iterates = _Iterates(sine_problem(), 1.0, options, *golden_start())
    iterates.begin(None)
    iterates.cost()
    return iterates


def f_of(iterates):
    """The cost without the constant that makes it positive."""
    return iterates.cost() + iterates.alpha * iterates.volume_of_nothing


@pytest.mark.parametrize(
    ("options", "digits"),
    [
        ({"normalise": "l2", "beta": 1.0}, (129.9851062, 30.32882607, 29.56976854, 27.34529968)),
        ({"normalise": "l2", "beta": 1.5}, (145.0906016, 42.92728388, 42.29675048, 40.41836225)),
        ({"normalise": "l2", "beta": 2.0}, (162.0815501, 59.31748441, 58.48767121, 57.21115531)),
        ({"minvol": 0.0, "beta": 1.0}, (31.87492199, 30.37551898, 29.57479911, 27.36169053)),
        ({"minvol": 0.0, "beta": 1.5}, (44.51913425, 42.96089154, 42.3000437, 40.43683521)),
        ({"minvol": 0.05, "beta": 1.0}, (-18.22422512, -24.97561795, -29.20611714, -31.49557063)),
    ],
)
def test_golden_digits(options, digits):
    iterates, found = golden_iterates(**options), []
    for n in range(1, 21):
        iterates.advance()
        f = f_of(iterates)
        found += [f] if n in (1, 2, 5, 20) else []
    np.testing.assert_allclose(found, digits, rtol=5e-10)


def divergence(y, x, beta):
    """From the definition."""
    y = np.maximum(y, np.finfo(float).eps if beta == 0.0 else 0.0)
    if beta == 1.0:
        return np.sum(np.where(y > 0.0, y * np.log(np.where(y > 0.0, y, 1.0) / x), 0.0) + x - y)
    if beta == 0.0:
        return np.sum(y / x - np.log(y / x) - 1.0)
    return np.sum(y**beta + (beta - 1.0) * x**beta - beta * y * x ** (beta - 1.0)) / (beta * (beta - 1.0))


def f_by_definition(problem, options, A, B, C, alpha):
    operators = problem.degradation
    P1, P2, PM = (P.toarray() for P in (operators.P1, operators.P2, operators.PM))
    scene = np.einsum("ril,rjl,kr->ijk", A, B, C)
    parts = [
        (problem.hsi, np.einsum("ai,bj,ijk->abk", P1, P2, scene), problem.hsi_valid, 1.0),
        (problem.msi, scene @ PM.T, problem.msi_valid, options.lam),
    ]
    f = alpha * np.linalg.slogdet(C.T @ C + options.delta * np.eye(C.shape[1]))[1]
    for data, model, valid, weight in parts:
        there = np.ones(data.shape, bool) if valid is None else valid
        f += weight * divergence(data[there], model[there], options.beta)
    return f


def odd_problem(seed=0, masked=False):
    """Sizes that no ratio divides, dense operators, noise below zero."""
    rng = np.random.default_rng(seed)
    P1, P2, PM = rng.random((4, 13)), rng.random((3, 10)), band_means(9, 4)
    hsi, msi = rng.normal(1.0, 0.6, (4, 3, 9)), rng.normal(1.0, 0.6, (13, 10, 4))
    gaps = {"hsi_valid": rng.random(hsi.shape) > 0.2, "msi_valid": rng.random(msi.shape) > 0.2} if masked else {}
    return Problem(hsi, msi, Degradation(P1, P2, PM), **gaps)


def random_iterates(problem, seed=1, **options):
    rng = np.random.default_rng(seed)
    options = NNBTDMU(**{"rank": 3, "map_rank": (2, 3, 1)} | options)
    rows, columns, bands = problem.sri_shape
    factors = rng.random((3, rows, 3)), rng.random((3, columns, 3)), rng.random((bands, 3))
    iterates = _Iterates(problem, 1.0, options, *factors)
    iterates.begin(None)
    return iterates


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("minvol", [0.0, 0.3])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_f_is_that_of_the_definition_and_never_rises(beta, minvol, masked):
    problem = odd_problem(masked=masked)
    iterates = random_iterates(problem, beta=beta, minvol=minvol, warmup=3, lam=0.7)
    costs = [iterates.cost()]
    for _ in range(40):
        iterates.advance()
        costs.append(iterates.cost())
        f = f_by_definition(problem, iterates.options, iterates.A, iterates.B, iterates.C, iterates.alpha)
        assert f_of(iterates) == pytest.approx(f, rel=1e-10)
        np.testing.assert_allclose(iterates.C.sum(axis=0), 1.0, atol=1e-9)
        assert min(X.min() for X in (iterates.A[1], iterates.B[1], iterates.C)) >= np.finfo(float).eps
        assert not iterates.A[2, :, 1:].any()
    assert (iterates.alpha > 0.0) == (minvol > 0.0)
    for part in (costs[:3], costs[3:]):  # the volume joins after the third
        assert np.all(np.diff(part) <= 1e-9 * np.abs(part[:-1]))
    assert costs[-1] < costs[3]


def test_many_blocks_give_what_one_gives(monkeypatch):
    problem = odd_problem(masked=True)
    costs = []
    for block in (1 << 15, 50):
        monkeypatch.setattr("fastccpd.methods._beta_divergence._BLOCK", block)
        iterates = random_iterates(problem)
        for _ in range(3):
            cost = iterates.cost()
            iterates.advance()
        costs.append(cost)
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
def test_the_simplex_step_solves_its_equations(beta):
    rng = np.random.default_rng(3)
    C = rng.dirichlet(np.ones(8), 3).T
    q, p = rng.random((8, 3)), rng.random((8, 3))
    q[2, 0] = 0.0
    alpha, delta = 0.4, 0.01
    t = simplex_step(C, q, p, beta, alpha, delta) / C
    Y = np.linalg.inv(C.T @ C + delta * np.eye(3))
    e, d = (0.0, beta - 2.0) if beta < 1.0 else (beta - 1.0, beta - 2.0) if beta <= 2.0 else (beta - 1.0, 0.0)
    side = 2 * alpha * (C @ np.abs(Y)) * t + p * t**e - q * t**d - 4 * alpha * (C @ np.maximum(-Y, 0.0))
    inside = C * t > 10 * np.finfo(float).eps
    for column, those in zip(side.T, inside.T):
        assert np.ptp(column[those]) < 1e-7 * np.abs(column[those]).max()  # −μ, the same for all
        assert np.all(column[~those] >= column[those].max())
    np.testing.assert_allclose((C * t).sum(axis=0), 1.0, atol=1e-9)


@pytest.mark.parametrize("beta", [1.0, 1.5, 2.0])
def test_a_map_of_low_rank_is_factored(beta):
    rng = np.random.default_rng(0)
    X = rng.random((12, 2)) @ rng.random((2, 9))
    A, B = rng.random((12, 2)), rng.random((9, 2))
    BetaFit(X.T[None], 1.0, beta).factor(A, B, 1e-16, 500, 1e-10, lambda: None)
    assert np.linalg.norm(X - A @ B.T) < 0.01 * np.linalg.norm(X)


def test_l2_gives_the_spectra_unit_norms_and_no_volume():
    iterates = random_iterates(odd_problem(), normalise="l2", minvol=1.0, warmup=0)
    iterates.cost()
    iterates.advance()
    np.testing.assert_allclose(np.linalg.norm(iterates.C, axis=0), 1.0)
    assert iterates.alpha == 0.0


def test_factors_are_the_image_and_absent_materials_are_not_counted():
    _, hsi, msi, degradation = small_case(noise=0.02)
    result = fuse(hsi, msi, degradation, method="nn-btd-mu", rank=3, map_rank=(2, 1, 3), max_iter=30)
    assert result.factors.rank == 6
    np.testing.assert_allclose(result.factors.render(), result.sri, rtol=1e-9)
    assert result.effective_rank == 3
    iterates = golden_iterates()
    iterates.A[1] *= 1e-3
    assert iterates.norms()[1] < 0.01 * iterates.norms()[0]


def test_a_band_that_nothing_tells_of_is_kept_finite():
    _, hsi, msi, degradation = small_case(noise=0.02)
    PM = degradation.PM.toarray()
    PM[:, 7] = 0.0
    valid = np.arange(30) != 7
    options = {"method": "nn-btd-mu", "rank": 3, "map_rank": 3, "max_iter": 20}
    result = fuse(hsi, msi, Degradation(degradation.P1, degradation.P2, PM), hsi_valid=valid, **options)
    between = 0.5 * (result.sri[:, :, 6] + result.sri[:, :, 8])
    assert np.isfinite(result.sri).all()
    assert np.abs(result.sri[:, :, 7]).max() < 10.0 * between.max()


def test_it_stops_when_the_cost_settles_or_at_the_limit():
    _, hsi, msi, degradation = small_case(noise=0.05)
    problem = Problem(hsi, msi, degradation)
    options = {"rank": 3, "map_rank": 3, "warmup": 2}
    settled = NNBTDMU(**options, tol=1e-2).solve(problem, rng=np.random.default_rng(0))
    assert settled.status is Status.COST_SETTLED
    limited = NNBTDMU(**options, tol=0.0, max_iter=5).solve(problem, rng=np.random.default_rng(0))
    assert limited.status is Status.MAX_ITERATIONS
    assert limited.n_iter == 5


def test_the_time_limit_ends_the_start_too():
    _, hsi, msi, degradation = small_case((64, 64, 30))
    solution = NNBTDMU().solve(Problem(hsi, msi, degradation), rng=np.random.default_rng(0), time_limit=0.0)
    assert solution.status is Status.TIME_LIMIT
    assert solution.n_iter == 0
    np.testing.assert_allclose(solution.factors.render(), solution.image.render(), rtol=1e-9)


@pytest.mark.parametrize("name", ["P1", "P2", "PM"])
def test_negative_weights_are_refused(name):
    _, hsi, msi, degradation = small_case()
    operators = {other: getattr(degradation, other).toarray() for other in ("P1", "P2", "PM")}
    operators[name][0, 0] = -0.25
    with pytest.raises(ValueError, match=rf"^degradation: got a weight of -0.25 in {name}; weights of at least 0"):
        NNBTDMU(rank=2).check(Problem(hsi, msi, Degradation(**operators)))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 0}, r"^rank: got 0"),
        ({"map_rank": 0}, r"^map_rank: got 0"),
        ({"map_rank": (3, 0, 1), "rank": 3}, r"^map_rank\[1\]: got 0"),
        ({"map_rank": (3, 2)}, r"^map_rank: got 2 numbers; one, or as many as the rank of 6"),
        ({"beta": -1.0}, r"^beta: got -1.0"),
        ({"normalise": "l1"}, r"^normalise: got 'l1'; 'simplex' or 'l2'"),
        ({"minvol": -1.0}, r"^minvol: got -1.0"),
        ({"delta": 0.0}, r"^delta: got 0.0"),
        ({"warmup": -1}, r"^warmup: got -1"),
        ({"max_iter": -1}, r"^max_iter: got -1"),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        NNBTDMU(**options)


def test_more_materials_than_the_hsi_can_have_are_refused():
    _, hsi, msi, degradation = small_case((24, 20, 5), bands=3)
    with pytest.raises(ValueError, match=r"^rank: got 6; at most 5 is possible with this HSI"):
        NNBTDMU().check(Problem(hsi, msi, degradation))


def test_it_is_registered_with_its_defaults():
    defaults = {
        "rank": 6,
        "map_rank": 12,
        "beta": 1.5,
        "normalise": "simplex",
        "minvol": 1.0,
        "delta": 0.01,
        "warmup": 20,
        "lam": 1.0,
        "max_iter": 999,
        "tol": 1e-7,
    }
    assert get("nn-btd-mu")().options() == defaults


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_estimate_is_close(dtype):
    _, hsi, msi, degradation = small_case((96, 64, 40), noise=0.05)
    problem = Problem(hsi.astype(dtype), msi.astype(dtype), degradation)
    assert_memory_estimate_is_close(NNBTDMU(max_iter=2), problem)


@pytest.mark.scenes
def test_figures_on_noisy_salinas(data_folder):
    """Of the published form, after 20 updates and after 100."""
    cube, problem, _ = next(iter(noisy_salinas(data_folder)))
    for updates, figure in ((20, 10.15), (100, 10.49)):
        early = NNBTDMU(normalise="l2", max_iter=updates).solve(problem, rng=np.random.default_rng(0))
        assert metrics.rsnr(early.image.render(), cube) == pytest.approx(figure, abs=0.5)


def test_the_image_is_that_of_the_plain_twin():
    _, hsi, msi, degradation = small_case((16, 20, 12), bands=4, noise=0.05)
    problem = Problem(hsi, msi, degradation)
    options = NNBTDMU(rank=3, map_rank=2, normalise="l2", max_iter=10, tol=0.0)
    expected = twins.nn_btd_mu(problem, options, np.random.default_rng(4))
    image = options.solve(problem, rng=np.random.default_rng(4)).image.render()
    assert metrics.rsnr(image, expected) > 140.0
