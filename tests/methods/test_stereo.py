"""STEREO against dense least squares, on scenes it must recover, and at the published figures."""

import numpy as np
import pytest
from oracle import cp_jacobian, cp_tensor, khatri_rao, stacked_operator, unfold
from scenery import assert_memory_estimate_is_close, clean_indian_pines, noisy_salinas, rsnr, small_case

from fastccpd import Problem, Status
from fastccpd.imaging import metrics
from fastccpd.methods import get
from fastccpd.methods.stereo import Stereo


def solve(problem, seed=0, init=None, **options):
    return Stereo(**options).solve(problem, rng=np.random.default_rng(seed), init=init)


def noisy_problem(shape=(8, 12, 6), bands=3, seed=0, dtype=np.float64):
    _, hsi, msi, degradation = small_case(shape, bands, 3, seed, noise=0.1)
    return Problem(hsi.astype(dtype), msi.astype(dtype), degradation)


def operators(problem):
    return tuple(getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))


def random_factors(problem, rank, seed=5):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, rank)) for n in problem.sri_shape]


def dense_sweep(problem, factors, lam):
    """A, B and C in turn, each by least squares with the dense Jacobian of both images by it."""
    P1, P2, PM = operators(problem)
    I, J, K = problem.sri_shape
    factors, rank = list(factors), factors[0].shape[1]
    ends = np.cumsum([0, I * rank, J * rank, K * rank])
    data = np.concatenate([np.sqrt(lam) * problem.hsi.ravel(), problem.msi.ravel()])
    for mode in range(3):
        A, B, C = factors
        by_hsi = cp_jacobian([P1 @ A, P2 @ B, C]) @ stacked_operator(P1, P2, np.eye(K), rank)
        by_msi = cp_jacobian([A, B, PM @ C]) @ stacked_operator(np.eye(I), np.eye(J), PM, rank)
        system = np.vstack([np.sqrt(lam) * by_hsi, by_msi])[:, ends[mode] : ends[mode + 1]]
        factors[mode] = np.linalg.lstsq(system, data, rcond=None)[0].reshape(factors[mode].shape)
    return factors


def dense_cost(problem, factors, lam=1.0):
    P1, P2, PM = operators(problem)
    A, B, C = factors
    hsi, msi = cp_tensor(P1 @ A, P2 @ B, C) - problem.hsi, cp_tensor(A, B, PM @ C) - problem.msi
    return 0.5 * lam * np.sum(hsi**2) + 0.5 * np.sum(msi**2)


@pytest.mark.parametrize("lam", [1.0, 0.3])
@pytest.mark.parametrize("shape", [(8, 12, 6), (12, 8, 5)])
def test_a_sweep_equals_dense_least_squares_for_each_factor_in_turn(shape, lam):
    problem = noisy_problem(shape)
    init = random_factors(problem, 2)
    expected = dense_sweep(problem, dense_sweep(problem, init, lam), lam)
    solution = solve(problem, init=init, rank=2, max_iter=2, lam=lam)
    for found, reference in zip(solution.factors, expected):
        np.testing.assert_allclose(found, reference, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_cost_is_the_weighted_misfit_and_falls_with_every_sweep(lam):
    problem = noisy_problem((16, 12, 10))
    init = random_factors(problem, 4)
    solution = solve(problem, init=init, rank=4, max_iter=6, lam=lam)
    assert solution.status is Status.FINISHED
    assert solution.n_iter == 6
    assert solution.trace.cost[0] == pytest.approx(dense_cost(problem, init, lam))
    assert solution.cost == solution.trace.cost[-1] == pytest.approx(dense_cost(problem, solution.factors, lam))
    assert np.all(np.diff(solution.trace.cost) < 0.0)


def test_the_start_takes_spectra_from_the_hsi_by_least_squares():
    problem = noisy_problem((16, 12, 10), bands=4)
    A, B, C = solve(problem, rank=3, max_iter=0).factors
    P1, P2, _ = operators(problem)
    expected = np.linalg.lstsq(khatri_rao(P1 @ A, P2 @ B), unfold(problem.hsi, 2).T, rcond=None)[0].T
    np.testing.assert_allclose(C, expected, rtol=1e-8, atol=1e-10)


def test_the_start_is_a_decomposition_of_the_msi():
    problem = noisy_problem((16, 12, 10), bands=4)
    fits = []
    for start_iter in (0, 25):
        A, B, _ = solve(problem, rank=3, max_iter=0, start_iter=start_iter).factors
        basis = khatri_rao(A, B)
        pixels = unfold(problem.msi, 2).T
        fits.append(np.linalg.norm(pixels - basis @ np.linalg.lstsq(basis, pixels, rcond=None)[0]))
    noise = 0.1 * np.sqrt(problem.msi.size)
    assert fits[0] > 2.0 * noise
    assert fits[1] < noise


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_an_exactly_low_rank_scene_is_recovered(rank):
    scene, hsi, msi, degradation = small_case((24, 32, 30), 6, rank, seed=2)
    problem = Problem(hsi, msi, degradation)
    runs = [solve(problem, seed, rank=rank, start_iter=60) for seed in range(3)]
    assert min(rsnr(run.factors.render(), scene) for run in runs) > 120.0


def test_a_start_of_the_callers_own_is_used():
    scene, hsi, msi, degradation = small_case((16, 12, 10), 4, 2, seed=3)
    problem = Problem(hsi, msi, degradation)
    truth = solve(problem, rank=2, max_iter=40).factors
    again = solve(problem, init=truth, rank=2, max_iter=1)
    assert rsnr(again.factors.render(), scene) > 120.0
    assert again.trace.cost[0] == pytest.approx(dense_cost(problem, truth), abs=1e-12)
    with pytest.raises(ValueError, match=r"^init: got shapes"):
        solve(problem, init=truth, rank=3)


def test_float32_gives_nearly_the_float64_image():
    problem, single = (noisy_problem((24, 20, 30), 5, dtype=dtype) for dtype in (np.float64, np.float32))
    init = random_factors(problem, 3)
    images = [solve(p, init=init, rank=3, max_iter=3).factors.render() for p in (problem, single)]
    assert rsnr(images[1], images[0]) > 80.0


@pytest.mark.parametrize("rank", [7, 40])
def test_a_rank_beyond_what_the_images_determine_stays_finite_and_fits(rank):
    problem = noisy_problem((8, 12, 6), bands=2)
    solution = solve(problem, rank=rank)
    assert np.isfinite(solution.factors.render()).all()
    assert solution.cost <= solution.trace.cost[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 0}, r"^rank: got 0"),
        ({"max_iter": -1}, r"^max_iter: got -1"),
        ({"start_iter": -1}, r"^start_iter: got -1"),
        ({"lam": 0.0}, r"^lam: got 0.0"),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Stereo(**options)


def test_it_is_registered_with_the_published_defaults():
    assert get("stereo") is Stereo
    assert Stereo().options() == {"rank": 30, "max_iter": 10, "lam": 1.0, "start_iter": 25}


@pytest.mark.parametrize("rank", [30, 60])
def test_memory_estimate_is_close(rank):
    problem = noisy_problem((64, 96, 60), 4)
    method = Stereo(rank=rank, max_iter=2, start_iter=2)
    assert_memory_estimate_is_close(method, problem)


@pytest.mark.scenes
def test_published_figure_on_indian_pines(data_folder):
    cube, problem = clean_indian_pines(data_folder)
    found = [metrics.rsnr(solve(problem, seed, rank=50, max_iter=9).factors.render(), cube) for seed in range(3)]
    assert np.median(found) > 26.93 - 0.5


@pytest.mark.scenes
def test_published_figures_on_noisy_salinas(data_folder):
    found = {1: [], 10: []}
    for draw, (cube, problem, _) in enumerate(noisy_salinas(data_folder)):
        for sweeps, figures in found.items():
            figures.append(metrics.rsnr(solve(problem, draw, max_iter=sweeps).factors.render(), cube))
    assert np.median(found[1]) > 3.4 - 3.0
    assert np.median(found[10]) > -2.8 - 3.0
    assert np.median(found[10]) < np.median(found[1])
