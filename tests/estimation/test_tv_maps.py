"""Maps under total variation: the quadratic against dense matrices, the risk against the truth, the choice of λ."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numba
import numpy as np
import oracle
import pytest
from fastccpd.kernels import jit
from scenery import band_means, blur, noisy_salinas, observe
from scipy.stats import spearmanr
from small_maps import BANDS, SHAPE, P, begin, data_of, tiny

from fastccpd import Degradation, Problem, Status, threads
from fastccpd.estimation import fit_maps, map_path, noise_of, tv_maps, watch, windows
from fastccpd.estimation.map_system import MapSystem
from fastccpd.estimation.subspace import smoothed, spectra_of
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes


def map_scene(shape=(48, 40, 36), seed=0):
    """(maps, spectra): three maps of rectangles and a slope, and spectra with a step and a bulge."""
    rng = np.random.default_rng(seed)
    I, J, K = shape
    Z = np.zeros((I, J, 3))
    for p in range(3):
        for _ in range(4):
            i, j = rng.integers(0, I - 10), rng.integers(0, J - 10)
            Z[i : i + rng.integers(6, 20), j : j + rng.integers(6, 20), p] += rng.uniform(0.3, 1.0)
    Z[:, :, 0] += np.linspace(0.2, 0.6, I)[:, None]
    t = np.linspace(0, 1, K)
    return Z, np.stack([0.5 + 0.5 * (t > 0.4), np.exp(-((t - 0.3) ** 2) / 0.02), 0.3 + t], axis=1)


def observed(seed, sigma=0.1, shape=(48, 40, 36), bands=5):
    """(clean images, problem) of that scene with white noise."""
    operators = blur(shape[0]), blur(shape[1]), band_means(shape[2], bands)
    Z, S = map_scene(shape)
    clean = observe(Z @ S.T, *operators)
    rng = np.random.default_rng(seed)
    noisy = [image + sigma * rng.standard_normal(image.shape) for image in clean]
    return clean, Problem(*noisy, Degradation(*operators))


def known_noise(problem, sigma=0.1):
    return noise_of(problem, hsi=np.full(problem.hsi.shape[2], sigma), msi=np.full(problem.msi.shape[2], sigma))


def target_of(data):
    return data.layout.maps(data.target)


def misfit(data, Z):
    """χ² of (I, J, P) maps."""
    return data.misfit_and_cost(data.layout.stack(Z, np.float64))[0]


def product(data, Z, weights=0.0):
    """(H Z, Z'H Z) of (I, J, P) maps."""
    system, stack = MapSystem(data), data.layout.stack(Z, np.float64)
    system.weigh_all(weights)
    energy, _ = system.residual(stack, np.zeros_like(stack))
    return -data.layout.maps(system.r), energy


def disturbance(data, rng):
    """White noise on the data, as (I, J, P) maps see it."""
    stack = data.layout.zeros()
    data.disturb(lambda shape: partial(np.asarray, rng.standard_normal(shape)), stack)
    return data.layout.maps(stack)


GAPS = pytest.mark.parametrize("gaps", [False, True], ids=["complete", "with gaps"])


@GAPS
@pytest.mark.parametrize("maps", [1, 2, 5], ids="{} maps".format)
def test_misfit_target_and_product_match_the_dense_model(gaps, maps):
    data, model, y = tiny(gaps, maps=maps)
    Z = np.random.default_rng(1).standard_normal((*SHAPE[:2], maps))
    assert data.size == len(y)
    assert misfit(data, Z) == pytest.approx(np.sum((y - model @ Z.ravel()) ** 2), rel=1e-12)
    target = target_of(data)
    np.testing.assert_allclose(target.ravel(), model.T @ y, rtol=1e-10, atol=1e-10 * np.abs(target).max())
    weights = np.random.default_rng(2).random(SHAPE[:2])
    reference = dense_product(model, Z, weights)
    found, energy = product(data, Z, weights)
    np.testing.assert_allclose(found, reference, atol=3e-7 * np.abs(reference).max())  # residuals are float32
    assert energy == pytest.approx(np.sum(Z * reference), rel=1e-6)


def dense_product(model, Z, weights):
    """H Z by the dense model."""
    nothing, one_kind = np.zeros((1, Z.shape[2], Z.shape[2])), np.zeros(SHAPE[:2], int)
    return (model.T @ (model @ Z.ravel())).reshape(Z.shape) + oracle.curvature(Z, one_kind, nothing, weights)


@GAPS
def test_the_hessian_is_symmetric_and_has_no_negative_eigenvalue(gaps):
    data, _, _ = tiny(gaps)
    weights = np.random.default_rng(2).random(SHAPE[:2])
    shape = (*SHAPE[:2], P)
    H = np.stack([product(data, unit.reshape(shape), weights)[0].ravel() for unit in np.eye(np.prod(shape))])
    np.testing.assert_allclose(H, H.T, atol=1e-6 * np.abs(H).max())
    assert np.linalg.eigvalsh(H).min() > -1e-6 * np.abs(H).max()


@GAPS
@pytest.mark.parametrize("shape", [(8, 12, 7), (20, 4, 7)], ids="{0[0]} x {0[1]}".format)
def test_the_system_is_solved(gaps, shape):
    data, model, _ = tiny(gaps, shape=shape)
    rng = np.random.default_rng(2)
    weights, b = rng.random(shape[:2]), rng.standard_normal((*shape[:2], P))
    system, x = MapSystem(data), data.layout.zeros()
    system.weigh_all(weights)
    _, ry = system.residual(x, data.layout.stack(b))
    fallen = system.solve(x, ry, 200, 1e-6)
    nothing, one_kind = np.zeros((1, P, P)), np.zeros(shape[:2], int)
    steps = [oracle.curvature(u.reshape(b.shape), one_kind, nothing, weights).ravel() for u in np.eye(b.size)]
    solution = np.linalg.solve(model.T @ model + np.stack(steps), b.ravel())
    np.testing.assert_allclose(data.layout.maps(x).ravel(), solution, atol=1e-4 * np.abs(solution).max())
    assert fallen == pytest.approx(0.5 * b.ravel() @ solution, rel=1e-5)


@GAPS
def test_product_minus_target_is_the_gradient_by_differences(gaps):
    data, _, _ = tiny(gaps)
    Z, direction = np.random.default_rng(3).standard_normal((2, *SHAPE[:2], P))
    slope = np.sum((product(data, Z)[0] - target_of(data)) * direction)
    for h in (1.0, 1e-2):  # exact for a quadratic, whatever the step
        change = 0.5 * (misfit(data, Z + h * direction) - misfit(data, Z - h * direction)) / (2 * h)
        assert change == pytest.approx(slope, rel=1e-5)


@GAPS
def test_the_disturbance_is_white_noise_on_the_data(gaps):
    data, model, _ = tiny(gaps)
    rng = np.random.default_rng(4)
    draws = np.array([disturbance(data, rng).ravel() for _ in range(3000)])
    covariance = model.T @ model
    assert np.abs(draws.T @ draws / len(draws) - covariance).max() < 0.12 * np.abs(covariance).max()


def begun():
    """A path after its first smoothing, and the objective (Z, strength) that it lowers."""
    data, _, _ = tiny()

    def objective(Z, strength):
        rounding = min(map_path.ROUNDING * max(1.0, strength**-2.0), map_path.MOST_ROUNDING)
        prices = oracle.edge_price(oracle.steps(Z, rounding / data.unit), map_path.KNEE / data.unit)
        return 0.5 * misfit(data, Z) + strength * data.unit * prices.sum()

    path = begin(data)
    path.smooth(tv_maps.FIRST)
    return path, objective


def test_descent_lowers_the_objective_that_it_says_it_lowers():
    path, objective = begun()
    maps = path.data.layout.maps
    before = objective(maps(path.Z), 0.5)
    for _ in range(6):
        path.descend(0.5)
        now = objective(maps(path.Z), 0.5)
        assert now <= before * (1.0 + 1e-9)
        before = now
    rng = np.random.default_rng(5)
    for size in (1e-1, 1e-2):
        nearby = maps(path.Z) + size * rng.standard_normal((*SHAPE[:2], P))
        assert objective(nearby, 0.5) > now


def test_the_estimated_risk_is_the_true_one_for_given_spectra():
    sigma, estimated, true = 0.1, [], []
    for seed in range(20):
        clean, problem = observed(seed, sigma)
        sigmas = [np.full(image.shape[2], sigma) for image in clean]
        _, S = map_scene()
        data = data_of(problem, S / sigma, *sigmas)
        truth = data_of(Problem(*clean, problem.degradation), S / sigma, *sigmas)
        probe = data.layout.zeros()
        rng = np.random.default_rng(100 + seed)
        data.disturb(lambda shape, rng=rng: partial(np.asarray, rng.standard_normal(shape)), probe)
        paths = begin(data), begin(data, data.target + windows.DISTURBANCE * probe)
        for path in paths:
            path.smooth(tv_maps.FIRST)
            for strength in (1.6, 0.8):
                path.descend(strength)
        degrees = np.sum((paths[1].Z - paths[0].Z) * probe) / windows.DISTURBANCE
        estimated.append(data.misfit_and_cost(paths[0].Z)[0] - data.size + 2.0 * degrees)
        true.append(truth.misfit_and_cost(paths[0].Z)[0])
    assert np.mean(estimated) == pytest.approx(np.mean(true), rel=0.25)


def test_the_risk_that_fit_reports_is_the_true_one_but_for_the_part_of_the_spectra(monkeypatch):
    sigma, estimated, true = 0.1, [], []
    for seed in range(20):
        # A disturbance of its own each time: what one has by chance is not in the mean of twenty.
        probe = np.random.default_rng(100 + seed)
        monkeypatch.setattr(windows, "_noise", lambda rng, shape, probe=probe: probe.standard_normal(shape))
        clean, problem = observed(seed, sigma)
        fitted = fit_maps(problem, known_noise(problem, sigma))
        P1, P2, PM = (op.toarray() for op in (problem.degradation.P1, problem.degradation.P2, problem.degradation.PM))
        fit = observe(fitted.Z @ fitted.S.T, P1, P2, PM)
        true.append(sum(np.sum((a - b) ** 2) for a, b in zip(fit, clean)) / sigma**2)
        estimated.append(fitted.chi2 - sum(problem.sizes) + 2.0 * fitted.dof)
        assert fitted.risk == pytest.approx(max(estimated[-1] + 2.0 * fitted.S.size, fitted.dof))
    assert np.mean(estimated) == pytest.approx(np.mean(true), rel=0.25)


def test_spectra_freed_of_noise_are_closer_to_the_truth():
    Z, S = map_scene()
    coarse = observe(Z @ S.T, blur(48), blur(40), np.eye(36))[0]
    maps_there = observe(Z, blur(48), blur(40), np.eye(3))[0].reshape(-1, 3)
    raw, freed = [], []
    for seed in range(10):
        pixels = (coarse / 0.2 + np.random.default_rng(seed).standard_normal(coarse.shape)).reshape(-1, 36)
        U = np.linalg.svd(maps_there, full_matrices=False)[0]
        for Q, errors in ((np.linalg.qr(pixels.T @ U)[0], raw), (spectra_of(maps_there, pixels), freed)):
            errors.append(np.linalg.norm(S - Q @ (Q.T @ S)))
    assert np.mean(freed) < 0.9 * np.mean(raw)


@pytest.mark.parametrize("kind", ["steps", "slope", "constant", "noise alone"])
def test_total_variation_along_the_bands_never_adds_to_the_noise(kind):
    t = np.linspace(0, 1, 120)
    f = {"steps": 9.0 * np.floor(4 * t), "slope": 20.0 * t, "constant": 5.0 + 0 * t, "noise alone": 0 * t}[kind]
    noisy = np.stack([f + np.random.default_rng(n).standard_normal(120) for n in range(10)], axis=1)
    errors = np.sum((smoothed(noisy) - f[:, None]) ** 2, axis=0)
    np.testing.assert_array_equal(smoothed(noisy[:, 3:4]), smoothed(noisy)[:, 3:4])
    assert np.mean(errors) < (0.9 if kind == "slope" else 0.4) * 120


@pytest.mark.scenes
def test_the_chosen_strength_is_within_three_tenths_of_a_decibel_of_the_best(data_folder, monkeypatch):
    cube, problem, _ = next(noisy_salinas(data_folder))
    noise = noise_of(problem)

    def fitted():
        return fit_maps(problem, noise)

    def score(fit):
        return metrics.rsnr(np.maximum(fit.Z @ fit.S.T, 0.0), cube)

    chosen = fitted()
    others = []
    for steps in (-2, -1, 1, 2):
        strength = chosen.weight * tv_maps.STEP**steps
        monkeypatch.setattr(tv_maps, "STRONGEST", strength)
        monkeypatch.setattr(tv_maps, "WEAKEST", 0.99 * strength)
        others.append(fitted())
        assert others[-1].weight == strength
    assert score(chosen) >= max(map(score, others)) - 0.3


def test_a_fit_that_is_out_of_time_ends_at_the_first_strength():
    _, problem = observed(0)
    in_time = fit_maps(problem, known_noise(problem))
    late = fit_maps(problem, known_noise(problem), time_limit=0.0)
    assert late.weight == tv_maps.STRONGEST
    assert late.status is Status.TIME_LIMIT
    assert in_time.weight < tv_maps.STRONGEST
    assert np.isfinite(late.Z).all()


@pytest.mark.parametrize("large", [False, True], ids=["whole", "by windows"])
def test_a_fit_is_the_same_bytes_on_any_number_of_threads_and_leaves_its_inputs_alone(large, monkeypatch):
    monkeypatch.setattr(jit, "_LAUNCHES_WORTH", 0)
    monkeypatch.setattr(threads, "_NUMBERS", 5000)
    if large:
        small_windows(monkeypatch)
    _, problem = observed(0, shape=(96, 80, 36))
    noise = known_noise(problem)
    given = [a.tobytes() for a in (problem.hsi, problem.msi, noise.hsi, noise.msi)]
    before = numba.get_num_threads()
    try:
        results = []
        for count in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(count)
            results.append(fit_maps(problem, noise))
    finally:
        numba.set_num_threads(before)
    one, all_of_them = results
    for name in ("Z", "S", "expected_error"):
        assert getattr(one, name).tobytes() == getattr(all_of_them, name).tobytes()
    assert (one.risk, one.weight) == (all_of_them.risk, all_of_them.weight)
    assert [a.tobytes() for a in (problem.hsi, problem.msi, noise.hsi, noise.msi)] == given


def test_the_gain_of_a_reweighting_is_what_the_objective_falls_by_at_least():
    path, objective = begun()
    maps = path.data.layout.maps
    expected = objective(maps(path.Z), 0.5)
    path.reweight(0.5)
    before, predicted = path._solve()
    assert before == pytest.approx(expected, rel=1e-6)  # weights are float32
    assert 0.0 < predicted <= before - objective(maps(path.Z), 0.5) + 1e-6 * before


def test_steps_of_dark_pixels_are_dearer_by_the_brightness_around_them():
    data = begun()[0].data
    data.F = data.F.copy()
    Z = np.random.default_rng(2).standard_normal((*SHAPE[:2], data.F.shape[1])).astype(np.float32)
    Z[: SHAPE[0] // 2] *= 1e-3
    data.make_dark_steps_dearer(data.layout.stack(Z), 2.5)
    own = np.square(Z.astype(np.float64) @ data.F.T).mean(axis=2)
    around = np.zeros_like(own)
    for di, down in ((-1, 0.25), (0, 0.5), (1, 0.25)):
        for dj, across in ((-1, 0.25), (0, 0.5), (1, 0.25)):
            rows, columns = (np.clip(np.arange(n) + d, 0, n - 1) for n, d in zip(own.shape, (di, dj)))
            around += down * across * own[np.ix_(rows, columns)]
    expected = np.sqrt(1.0 + 0.1 / (around + 1e-3))
    np.testing.assert_allclose(data.layout.rows(data.dearer)[:, 0], expected, rtol=1e-5)
    assert expected[0].min() > 9.0


@GAPS
def test_the_cost_is_the_misfit_without_weights(gaps):
    rng = np.random.default_rng(0)
    operators = blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], BANDS)
    hsi, msi = observe(rng.random(SHAPE), *operators)
    valid = [rng.random(image.shape) > 0.3 if gaps else np.ones(image.shape, bool) for image in (hsi, msi)]
    sigma_H = rng.uniform(0.1, 0.4, SHAPE[2])
    problem = Problem(hsi, msi, Degradation(*operators), True, *valid)
    data = data_of(problem, rng.standard_normal((SHAPE[2], P)), sigma_H, rng.uniform(0.1, 0.4, BANDS))
    Z = rng.standard_normal((*SHAPE[:2], P))
    seen = observe(Z @ (sigma_H[:, None] * data.F).T, *operators)
    expected = sum(np.sum(((a - b) * has) ** 2) for a, b, has in zip(seen, (hsi, msi), valid))
    cost = data.misfit_and_cost(data.layout.stack(Z, np.float64))[1]
    assert cost == pytest.approx(0.5 * expected, rel=1e-12)


def test_a_weight_at_an_end_of_its_path_is_reported(monkeypatch):
    _, problem = observed(0)
    noise = known_noise(problem)
    inside = fit_maps(problem, noise)
    assert inside.at_end is None
    monkeypatch.setattr(tv_maps, "STRONGEST", 0.5 * inside.weight)
    assert fit_maps(problem, noise).at_end == "strongest"
    monkeypatch.undo()
    monkeypatch.setattr(tv_maps, "WEAKEST", 1.1 * inside.weight)
    assert fit_maps(problem, noise).at_end == "weakest"


def test_maps_that_are_still_changing_have_not_converged(monkeypatch):
    _, problem = observed(0)
    noise = known_noise(problem)
    fit = fit_maps(problem, noise)
    assert fit.change < tv_maps.SETTLED
    assert fit.status is Status.COST_SETTLED
    monkeypatch.setattr(tv_maps, "SETTLED", 0.1 * fit.change)
    further = fit_maps(problem, noise)
    assert further.status is Status.COST_SETTLED
    assert further.change < 0.1 * fit.change
    assert further.weight == fit.weight
    monkeypatch.setattr(tv_maps, "MOST_REWEIGHTINGS", 1)
    assert fit_maps(problem, noise).status is Status.MAX_ITERATIONS


def test_a_callback_is_asked_while_the_maps_are_fitted_and_ends_them(monkeypatch):
    _, problem = observed(0)
    monkeypatch.setattr("fastccpd.estimation.watch._PULSE", 0.0)
    seen = []

    def stop_at(count):
        seen.clear()

        def callback(state):
            seen.append(state)
            return len(seen) >= count

        return callback

    whole = fit_maps(problem, callback=stop_at(10**9))
    often = len(seen)
    assert often > 100
    assert {state.stage for state in seen} == {"tv-maps"}
    numbers = [state.n_iter for state in seen]
    assert numbers == sorted(numbers)
    for count in (1, often // 2, often - 1):
        early = fit_maps(problem, callback=stop_at(count))
        assert len(seen) == count
        assert early.status is Status.CALLBACK
        assert np.isfinite(early.Z).all()
        assert len(early.path) <= len(whole.path)


@pytest.mark.parametrize("snr", [5, 20, 40])
def test_the_expected_error_is_about_the_true_one(snr, data_folder):
    scene = scenes.load("salinas-a", data_folder).cube
    degradation = preset("stereo", scene.shape)
    rng = np.random.default_rng(0)
    images = [add_noise(image, float(snr), rng) for image in degrade(scene, degradation)]
    fitted = fit_maps(Problem(*images, degradation))
    wrong = np.maximum(fitted.Z @ fitted.S.T, 0.0) - scene
    size = np.sqrt(np.mean(np.square(wrong)))
    assert 0.7 < np.sqrt(np.mean(np.square(fitted.expected_error))) / size < 1.4
    assert 0.7 < np.sqrt(np.mean(np.square(fitted.expected_spectrum))) / size < 1.4
    by_pixel, by_band = (np.sqrt(np.mean(np.square(wrong), axis=axes)) for axes in (2, (0, 1)))
    assert spearmanr(fitted.expected_error.ravel(), by_pixel.ravel())[0] > 0.35
    assert np.corrcoef(fitted.expected_spectrum, by_band)[0, 1] > 0.6


def test_without_noise_the_weakest_weight_is_taken_and_with_noise_that_of_least_risk(monkeypatch):
    _, noisy = observed(0)
    fit = fit_maps(noisy, known_noise(noisy))
    assert fit.weight == pytest.approx(least_of_parabola(fit.path), rel=1e-9)
    _, clean = observed(0, sigma=0.0)
    fit = fit_maps(clean, noise_of(clean))
    assert fit.weight * tv_maps.STEP <= tv_maps.WEAKEST
    assert fit.at_end == "weakest"
    # Straight to it: what comes of it is what comes of the whole path.
    monkeypatch.setattr(tv_maps, "_NO_NOISE", 0.0)
    whole = fit_maps(clean, noise_of(clean))
    assert len(fit.path) == 1 < len(whole.path)
    assert fit.weight == whole.weight
    assert fit.dof == pytest.approx(whole.dof, rel=0.05)
    assert fit.chi2 == pytest.approx(whole.chi2, rel=0.1)
    np.testing.assert_allclose(fit.expected_error, whole.expected_error, rtol=0.3)


def test_no_risk_is_asked_for_where_maps_are_far_too_smooth_and_the_image_is_nearly_the_same(monkeypatch):
    _, problem = observed(0, sigma=0.01)
    noise = known_noise(problem, 0.01)
    monkeypatch.setattr(tv_maps, "TOO_SMOOTH", np.inf)
    whole = fit_maps(problem, noise)
    monkeypatch.setattr(tv_maps, "TOO_SMOOTH", np.mean([step[1] for step in whole.path[:2]]) / sum(problem.sizes))
    fit = fit_maps(problem, noise)
    assert len(probed(fit.path)) < len(probed(whole.path)) == len(whole.path)
    assert abs(np.log(fit.weight / whole.weight)) < -0.5 * np.log(tv_maps.STEP)
    one, other = (each.Z @ each.S.T for each in (fit, whole))
    assert np.linalg.norm(one - other) < 0.01 * np.linalg.norm(other)
    assert fit.dof == pytest.approx(whole.dof, rel=0.2)
    assert not np.isnan(fit_maps(problem, noise, max_iter=1).risk)


def probed(path):
    """The λ whose risk was estimated."""
    return [step for step in path if not np.isnan(step[3])]


def least_of_parabola(path):
    """λ where the parabola over log λ through the least risk and those beside it is least."""
    weights, _, _, risks = np.array(probed(path)).T
    least = int(risks.argmin())
    beside = slice(least - 1, least + 2)
    square, slope, _ = np.polyfit(np.log(weights[beside]), risks[beside], 2)
    return np.exp(-0.5 * slope / square)


def test_the_weight_of_least_risk_lies_between_those_of_a_path_unless_an_end_or_a_gap_is_next_to_it():
    weights, parabola = 2.0 * 0.6 ** np.arange(5), lambda x: (x - 2.3) ** 2 - 7.0
    risks = parabola(np.arange(5.0))
    assert map_path.weight_of_least_risk(weights, risks) == pytest.approx(2.0 * 0.6**2.3)
    for cut in (slice(2, None), slice(None, 3)):
        assert map_path.weight_of_least_risk(weights[cut], risks[cut]) == weights[2]
    risks[1] = np.nan
    assert map_path.weight_of_least_risk(weights, risks) == weights[2]
    assert map_path.weight_of_least_risk(weights, np.ones(5)) == weights[0]
    assert map_path.weight_of_least_risk([3.0], [1.0]) == 3.0


def small_windows(monkeypatch):
    """Take any scene for a large one, and small windows of it."""
    monkeypatch.setattr(windows, "LARGE", 1000)
    monkeypatch.setattr(windows, "SIDE", 16)


def test_windows_are_spread_over_a_large_scene_and_see_it_as_the_whole_does(monkeypatch):
    _, problem = observed(0, sigma=0.0, shape=(96, 80, 36))
    assert not windows.windows_of(problem)
    small_windows(monkeypatch)
    scene = np.einsum("ijp,kp->ijk", *map_scene((96, 80, 36)))
    found = windows.windows_of(problem)
    assert len(found) == 9
    assert {(rows.start * 3 // 96, columns.start * 3 // 80) for rows, columns, _ in found} == set(np.ndindex(3, 3))
    for rows, columns, part in found:
        assert part.sri_shape[:2] == (rows.stop - rows.start, columns.stop - columns.start)
        for seen, given in zip(degrade(scene[rows, columns], part.degradation), (part.hsi, part.msi)):
            np.testing.assert_allclose(given, seen, atol=1e-12)


def test_windows_are_fitted_on_threads_but_the_callback_is_called_by_the_one_that_waits(monkeypatch):
    small_windows(monkeypatch)
    monkeypatch.setattr(threads, "_PULSE", 0.0)
    monkeypatch.setattr(watch, "_PULSE", 0.0)
    _, problem = observed(0, shape=(96, 80, 36))
    fitting, calling = set(), []

    class Probed(windows.Probed):
        def descend(self, weight, **how):
            fitting.add(threading.get_ident())
            return super().descend(weight, **how)

    def callback(progress):
        calling.append(threading.get_ident())
        return bool(fitting)

    monkeypatch.setattr(tv_maps, "Probed", Probed)
    fit = fit_maps(problem, known_noise(problem), callback=callback)
    assert fit.status is Status.CALLBACK
    assert set(calling) == {threading.get_ident()}
    if numba.get_num_threads() > 1:
        assert fitting
        assert threading.get_ident() not in fitting


def test_a_halt_is_told_to_all_threads_that_work_for_a_stage():
    watched = watch.Watch("stage", callback=lambda progress: True, time_limit=0.0)
    with ThreadPoolExecutor(1) as other:
        other.submit(watched.pulse).result()
        with pytest.raises(watch.Stopped):
            watched.pulse()
        assert isinstance(other.submit(watched.pulse).exception(), watch.Stopped)


def test_windows_that_lack_data_are_left_out_and_most_of_them_leave_all_to_the_whole(monkeypatch):
    small_windows(monkeypatch)
    _, problem = observed(0, shape=(96, 80, 36))
    for rows, expected in ((32, 6), (64, 0)):
        valid = np.arange(96)[:, None] >= np.full(80, rows)
        given = Problem(problem.hsi, problem.msi, problem.degradation, msi_valid=valid)
        assert len(windows.windows_of(given)) == expected


def test_a_large_scene_has_the_weight_of_its_windows_and_nearly_the_same_image(monkeypatch):
    _, problem = observed(0, shape=(96, 80, 36))
    noise = known_noise(problem)
    whole = fit_maps(problem, noise)
    small_windows(monkeypatch)
    monkeypatch.setattr(windows, "SIDE", 24)
    fit = fit_maps(problem, noise)
    assert abs(np.log(fit.weight / whole.weight)) < -1.01 * np.log(tv_maps.STEP)
    assert (fit.status, len(fit.trace)) == (Status.COST_SETTLED, 1)
    assert fit.dof == pytest.approx(whole.dof, rel=0.3)
    assert fit.risk == max(fit.chi2 - sum(problem.sizes) + 2.0 * (fit.dof + fit.S.size), fit.dof)
    assert fit.weight == pytest.approx(least_of_parabola(fit.path), rel=1e-9)
    assert fit.expected_error is not None
    scene = np.einsum("ijp,kp->ijk", *map_scene((96, 80, 36)))
    errors = [np.linalg.norm(each.Z @ each.S.T - scene) for each in (fit, whole)]
    assert errors[0] < 1.05 * errors[1]
    assert fit_maps(problem, noise, max_iter=0).status is Status.MAX_ITERATIONS
    stopped = fit_maps(problem, noise, callback=lambda state: True)
    assert stopped.status is Status.CALLBACK
    assert np.isfinite(stopped.Z).all()
