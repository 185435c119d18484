"""CNMF against its definition, written out plainly, at the known digits, with gaps, and on the scenes."""

from dataclasses import replace

import numpy as np
import pytest
from asv_folder import module
from rival_scenes import rivals_golden, rivals_scene
from scenery import assert_memory_estimate_is_close, band_means, blur, observe, rsnr
from scipy import stats

from fastccpd import Degradation, Problem, Status, fuse
from fastccpd.blas import one_blas_thread
from fastccpd.estimation.watch import Watch
from fastccpd.imaging import degrade, gaussian, metrics
from fastccpd.methods import CNMF, get
from fastccpd.methods._nmf import ByProducts, BySums
from fastccpd.methods._upsampling import upsampling
from fastccpd.methods.cnmf import Unmixing, virtual_dimensionality

plain = module("benchmarks.plain")


@pytest.fixture(autouse=True)
def _one_thread():
    """As `fuse` does it: many small products are slow on several threads of a busy machine."""
    with one_blas_thread():
        yield


def problem_of(shape=(20, 24, 12), bands=5, boundary="periodic", noise=0.01, dtype=np.float64):
    rng = np.random.default_rng(0)
    degradation = Degradation(*gaussian(shape[:2], 4, kernel=9, boundary=boundary), band_means(shape[2], bands))
    scene = rng.dirichlet(np.ones(3), shape[:2]) @ (0.1 + rng.random((3, shape[2])))
    hsi, msi = (image + noise * rng.standard_normal(image.shape) for image in degrade(scene, degradation))
    return scene, Problem(hsi.astype(dtype), msi.astype(dtype), degradation)


def unmixed(problem, W, **options):
    """All phases from given spectra."""
    unmixing = Unmixing(problem, CNMF(**options))
    unmixing.begin(W)
    unmixing.run(Watch(""))
    return unmixing


def test_golden_digits():
    k, r = np.ogrid[:7, :3]
    found = unmixed(rivals_golden(), 1.0 + 0.5 * np.sin(2 + k + 2 * r), max_iter=50, scale=1.0)
    image = found.image(found.abundances(), np.float64).render()
    assert found.delta == pytest.approx(0.07671442613, rel=1e-9)
    assert found.hsi.cost == pytest.approx(0.03926580852, rel=1e-5)
    assert found.msi.cost == pytest.approx(10.33508735, rel=1e-5)
    assert np.sum(image**2) == pytest.approx(7173.300107, rel=1e-5)
    assert image[0, 0, 0] == pytest.approx(2.300658581, rel=1e-5)


@pytest.mark.parametrize(("bands", "boundary"), [(5, "periodic"), (3, "periodic"), (4, "reflect"), (1, "reflect")])
@pytest.mark.parametrize("tol", [1e-8, 1e-3])
def test_image_is_that_of_the_definition(bands, boundary, tol):
    _, problem = problem_of((20, 22, 12) if boundary == "reflect" else (20, 24, 12), bands, boundary)
    W = 0.1 + np.random.default_rng(1).random((12, 4))
    unmixing = unmixed(problem, W, max_iter=30, tol=tol, scale=1.0)
    found = unmixing.image(unmixing.abundances(), np.float64).render()
    np.testing.assert_allclose(found, plain.cnmf(problem, W, updates=30, tol=tol), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("delta", [0.0, 0.3])
def test_both_ways_to_the_updates_agree_and_lower_the_cost(delta):
    rng = np.random.default_rng(0)
    X, W, A = rng.random((4000, 9)), rng.random((9, 11)), rng.random((4000, 11))
    ways = BySums(X, W, A, delta), ByProducts(X, W, A, delta)
    for update in ("update_abundances", "update_spectra", "update_spectra", "update_abundances", "update_abundances"):
        for way in ways:
            before = penalised(X, way.W, way.A, delta)
            getattr(way, update)()
            if update == "update_abundances":
                assert penalised(X, way.W, way.A, delta) < before
            assert way.cost == pytest.approx(np.sum((X - way.A @ way.W.T) ** 2), rel=1e-10)
    for name in ("W", "A"):
        np.testing.assert_allclose(*(getattr(way, name) for way in ways), rtol=1e-9)


def penalised(X, W, A, delta):
    return np.sum((X - A @ W.T) ** 2) + delta**2 * np.sum((1.0 - A.sum(axis=1)) ** 2)


def test_the_cost_of_a_near_fit_keeps_its_digits():
    rng = np.random.default_rng(0)
    W, A = rng.random((20, 4)), rng.random((50, 4))
    X = A @ W.T + 1e-7 * rng.random((50, 20))
    factors = BySums(X, W, A, 0.0)
    for _ in range(3):
        factors.update_abundances()
        assert factors.cost == pytest.approx(np.sum((X - factors.A @ factors.W.T) ** 2), rel=1e-12)


def test_zeros_stay_zeros_and_are_no_trouble():
    rng = np.random.default_rng(0)
    X, W, A = rng.random((50, 4)), rng.random((4, 3)), rng.random((50, 3))
    X[:5], A[:10], W[:, 1] = 0.0, 0.0, 0.0
    for way in (BySums(X, W, A, 0.0), ByProducts(X, W, A, 0.0)):
        way.update_abundances()
        way.update_spectra()
        assert np.isfinite(way.A).all()
        assert not way.A[:10].any()
        assert not way.W[:, 1].any()


@pytest.mark.parametrize("way", [BySums, ByProducts])
def test_taking_back_an_update_leaves_nothing_of_it(way):
    rng = np.random.default_rng(0)
    X, W, A = rng.random((60, 9)), rng.random((9, 4)), rng.random((60, 4))
    straight, back = way(X, W, A, 0.1), way(X, W, A.copy(), 0.1)
    straight.update_abundances()
    back.update_abundances()
    before = back.W, back.A, back.cost
    back.update_spectra()
    back.update_abundances()
    back.take_back(*before)
    for factors in (straight, back):
        factors.update_spectra()
        factors.update_abundances()
    np.testing.assert_allclose(back.A, straight.A, rtol=1e-12)
    assert back.cost == pytest.approx(straight.cost, rel=1e-12)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 10.0])
def test_virtual_dimensionality_is_that_of_its_definition(noise):
    rng = np.random.default_rng(0)
    pixels = rng.dirichlet(np.ones(4), 300) @ rng.random((4, 30)) + noise * rng.standard_normal((300, 30))
    correlation = sorted(np.linalg.eigvalsh(pixels.T @ pixels / 300), reverse=True)
    covariance = sorted(np.linalg.eigvalsh(np.cov(pixels.T, bias=True)), reverse=True)
    above = [
        r - c > -stats.norm.ppf(0.05, scale=np.sqrt(2.0 * (r**2 + c**2) / 300)) for r, c in zip(correlation, covariance)
    ]
    assert virtual_dimensionality(pixels) == sum(above)


def test_rounding_is_no_dimension():
    rng = np.random.default_rng(0)
    assert 1 <= virtual_dimensionality(rng.dirichlet(np.ones(4), 300) @ rng.random((4, 30))) <= 4


def test_the_number_of_spectra_is_that_of_the_data_and_never_above_the_hsi():
    _, problem = problem_of()
    assert CNMF(max_iter=1).solve(problem, rng=np.random.default_rng(0)).image.render().shape == (20, 24, 12)
    with pytest.raises(ValueError, match=r"^rank: got 13; at most 12 is possible with this HSI"):
        CNMF(rank=13).check(problem)


def test_cost_is_the_misfit_of_the_image_and_iterations_are_those_of_the_msi():
    _, problem = problem_of()
    solution = CNMF(rank=3, max_iter=20, tol=0.0).solve(problem, rng=np.random.default_rng(0))
    operators = (getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
    seen = zip(observe(solution.image.render(), *operators), (problem.hsi, problem.msi))
    misfit = sum(0.5 * np.sum((model - np.maximum(data, 0.0)) ** 2) for model, data in seen)
    assert solution.cost == solution.trace.cost[-1] == pytest.approx(misfit, rel=1e-9)
    assert (solution.status, solution.n_iter) == (Status.FINISHED, 39)


def test_a_second_round_is_taken_only_if_both_misfits_fall():
    _, problem = problem_of()
    W = 0.1 + np.random.default_rng(1).random((12, 4))
    one, stubborn = (unmixed(problem, W, rounds=n, round_tol=0.99, max_iter=20) for n in (1, 2))
    np.testing.assert_array_equal(stubborn.msi.A, one.msi.A)
    eager = unmixed(problem, W, rounds=2, round_tol=0.0, max_iter=5)
    assert eager.msi.cost < unmixed(problem, W, max_iter=5).msi.cost


@pytest.mark.parametrize("which", ["hsi", "msi"])
def test_what_is_missing_has_no_part_in_the_result_and_costs_little(which):
    scene, problem = problem_of((32, 36, 12))
    valid = np.random.default_rng(0).random(getattr(problem, which).shape) > 0.1
    results = []
    for filling in (0.0, np.nan):
        given = {name: getattr(problem, name) for name in ("hsi", "msi")}
        given[which] = np.where(valid, given[which], filling)
        masked = {f"{which}_valid": valid}
        results.append(fuse(**given, degradation=problem.degradation, method="cnmf", rank=4, max_iter=50, **masked).sri)
    assert results[0].tobytes() == results[1].tobytes()
    whole = fuse(problem.hsi, problem.msi, problem.degradation, method="cnmf", rank=4, max_iter=50).sri
    assert rsnr(results[0], scene) > rsnr(whole, scene) - 1.5


def test_an_hsi_band_without_data_is_refused():
    """By the method itself; `fuse` gives it those that have some."""
    _, problem = problem_of()
    there = np.ones(12, bool)
    there[3] = False
    with pytest.raises(ValueError, match=r"^hsi_valid: band 4 has no data; 'cnmf' needs some of every band"):
        CNMF(rank=3).solve(replace(problem, hsi_valid=there), rng=np.random.default_rng(0))


def test_operators_with_negative_weights_are_refused():
    _, problem = problem_of()
    P1 = problem.degradation.P1.toarray()
    P1[0, 0] = -0.25
    degradation = Degradation(P1, problem.degradation.P2, problem.degradation.PM)
    with pytest.raises(ValueError, match=r"^degradation: got a weight of -0.25 in P1; weights of at least 0"):
        CNMF(rank=3).check(Problem(problem.hsi, problem.msi, degradation))


def test_a_clean_mixture_is_not_negative_and_far_above_the_interpolated_hsi():
    rng = np.random.default_rng(0)
    P = blur(32)
    maps = np.kron(np.eye(3)[rng.integers(0, 3, (2, 2))], np.ones((16, 16, 1)))  # blocks with pure pixels
    maps[::5, ::3] = 1.0 / 3.0
    scene = maps @ (0.1 + rng.random((3, 20)))
    degradation = Degradation(P, P, band_means(20, 6))
    problem = Problem(*degrade(scene, degradation), degradation)
    image = CNMF(rank=3).solve(problem, rng=np.random.default_rng(0)).image.render()
    assert image.min() >= 0.0
    assert rsnr(image, scene) > rsnr(upsampling(degradation).image(problem.hsi), scene) + 6.0


@pytest.mark.parametrize("name", ["rank", "max_iter", "rounds", "scale"])
def test_zero_is_refused_as(name):
    with pytest.raises(ValueError, match=rf"^{name}: got 0; "):
        CNMF(**{name: 0})


@pytest.mark.parametrize("name", ["tol", "round_tol"])
def test_a_tolerance_below_zero_is_refused_as(name):
    with pytest.raises(ValueError, match=rf"^{name}: got -1; "):
        CNMF(**{name: -1})
    assert get("cnmf") is CNMF


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(96, 64, 60), (128, 96, 16)])
def test_memory_estimate_is_close(shape, dtype):
    assert_memory_estimate_is_close(CNMF(max_iter=2), problem_of(shape, dtype=dtype)[1])


@pytest.mark.scenes
@pytest.mark.parametrize(("snr", "figures"), [(40.0, (38.18, 0.591)), (20.0, (19.89, 5.123))])
def test_figures_of_salinas(data_folder, snr, figures):
    cube, problem = rivals_scene(data_folder, "salinas-a", snr)
    image = fuse(problem.hsi, problem.msi, problem.degradation, method="cnmf").sri
    assert metrics.rsnr(image, cube) == pytest.approx(figures[0], abs=0.3)
    assert metrics.sam(image, cube) == pytest.approx(figures[1], rel=0.03)


def test_an_update_that_is_interrupted_leaves_the_factors_as_they_were():
    rng = np.random.default_rng(3)
    X, W, A = rng.random((50, 4)), rng.random((4, 3)), rng.random((50, 3))
    halted, whole = (ByProducts(X, W, A.copy(), 0.1) for _ in range(2))
    for factors in (halted, whole):
        factors.update_abundances()
    before = halted.A.copy(), halted.cost

    def stop():
        raise KeyboardInterrupt

    halted.pulse = stop
    with pytest.raises(KeyboardInterrupt):
        halted.update_abundances()
    np.testing.assert_array_equal(halted.A, before[0])
    assert halted.cost == before[1]
    halted.pulse = lambda: None
    for factors in (halted, whole):
        factors.update_abundances()
        factors.update_spectra()
    np.testing.assert_allclose(halted.A, whole.A, rtol=1e-13)
    assert halted.cost == pytest.approx(whole.cost, rel=1e-12)
