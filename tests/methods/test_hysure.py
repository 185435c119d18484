"""HySure against a dense ADMM written from the definition, at every phase, and at the published figures."""

import numpy as np
import pytest
from scenery import assert_memory_estimate_is_close, band_means, blur, clean_indian_pines, noisy_salinas, observe, rsnr

from fastccpd import Degradation, Problem, Status, testing
from fastccpd.imaging import metrics
from fastccpd.methods.hysure import HySure, vertices


def spectral_scene(shape=(16, 20, 10), materials=3, seed=0):
    """A cube of low spectral rank and of full rank in space."""
    rng = np.random.default_rng(seed)
    return rng.random((*shape[:2], materials)) @ rng.random((materials, shape[2]))


def problem_of(scene, ratio=4, phases=(3, 1), bands=4, noise=0.0, dtype=np.float64):
    rng = np.random.default_rng(99)
    P1, P2 = (blur(n, ratio, phase) for n, phase in zip(scene.shape, phases))
    PM = band_means(scene.shape[2], bands)
    hsi, msi = (image + noise * rng.standard_normal(image.shape) for image in observe(scene, P1, P2, PM))
    return Problem(hsi.astype(dtype), msi.astype(dtype), Degradation(P1, P2, PM))


def operators(problem):
    return tuple(getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))


def circulant(P):
    """The blur before decimation: row i is row 0 of P shifted by i."""
    return np.array([np.roll(P[0], i) for i in range(P.shape[1])])


def dense_admm(problem, E, scale, options, iterations):
    """The published iteration with every variable whole and every operator a matrix; pixels row by row."""
    P1, P2, PM = operators(problem)
    (I, J, K), p, mu = problem.sri_shape, E.shape[1], options.mu
    B = np.kron(circulant(P1), circulant(P2)).T
    shifts = [np.roll(np.eye(n), 1, axis=1) - np.eye(n) for n in (I, J)]
    Dv, Dh = np.kron(shifts[0], np.eye(J)).T, np.kron(np.eye(I), shifts[1]).T
    sampled = np.zeros((I, J), bool)
    sampled[:: I // len(P1), :: J // len(P2)] = True
    sampled = sampled.ravel()
    H, M = problem.hsi.reshape(-1, K).T / scale, problem.msi.reshape(I * J, -1).T / scale
    F = PM @ E

    V, D = ([np.zeros((p, I * J)) for _ in range(4)] for _ in range(2))
    normal = B @ B.T + np.eye(I * J) + Dh @ Dh.T + Dv @ Dv.T
    for _ in range(iterations):
        rhs = sum((v + d) @ S.T for v, d, S in zip(V, D, (B, np.eye(I * J), Dh, Dv)))
        X = np.linalg.solve(normal, rhs.T).T
        split = [X @ B, X, X @ Dh, X @ Dv]
        Y = [x - d for x, d in zip(split, D)]
        V[0] = Y[0].copy()
        V[0][:, sampled] = np.linalg.solve(E.T @ E + mu * np.eye(p), E.T @ H + mu * Y[0][:, sampled])
        ridge = options.lambda_m * F.T @ F + mu * np.eye(p)
        V[1] = np.linalg.solve(ridge, options.lambda_m * F.T @ M + mu * Y[1])
        norms = np.sqrt(np.sum(Y[2] ** 2 + Y[3] ** 2, axis=0))
        norms[norms == 0.0] = 1.0
        shrink = np.maximum(norms - options.lambda_phi / mu, 0.0) / norms
        V[2], V[3] = shrink * Y[2], shrink * Y[3]
        D = [d - (x - v) for d, x, v in zip(D, split, V)]
    return scale * (E @ X).T.reshape(I, J, K)


@pytest.mark.parametrize(("shape", "ratio", "phases"), [((12, 16, 9), 4, (3, 1)), ((15, 9, 7), 3, (0, 2))])
@pytest.mark.parametrize(("lambda_phi", "lambda_m"), [(0.0, 1.0), (0.01, 1.0), (0.3, 0.4)])
def test_iterations_equal_the_published_ones(shape, ratio, phases, lambda_phi, lambda_m):
    problem = problem_of(spectral_scene(shape), ratio, phases, noise=0.05)
    options = HySure(rank=3, lambda_phi=lambda_phi, lambda_m=lambda_m, max_iter=8, scale=1.7)
    E = vertices(problem.hsi.reshape(-1, shape[2]) / 1.7, 3)
    # From zeros the first X is zero: an iteration here begins where the published one has its first X.
    expected = dense_admm(problem, E, 1.7, options, iterations=9)
    np.testing.assert_allclose(options.solve(problem).image.render(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("phase", range(4))
def test_a_clean_scene_of_low_spectral_rank_is_recovered_at_every_phase(phase):
    scene = spectral_scene((16, 20, 10))
    problem = problem_of(scene, phases=(phase, (phase + 1) % 4))
    image = HySure(rank=3, lambda_phi=0.0, mu=1e-5, max_iter=2000).solve(problem).image.render()
    assert rsnr(image, scene) > 130.0


def test_more_iterations_approach_the_optimum_of_the_definition():
    problem = problem_of(spectral_scene((12, 16, 9)), noise=0.05)
    P1, P2, PM = operators(problem)
    basis = np.linalg.svd(problem.hsi.reshape(-1, 9), full_matrices=False)[2][:3].T

    def objective(image):
        X = image @ basis
        along, across = np.roll(X, -1, 1) - X, np.roll(X, -1, 0) - X
        hsi, msi = observe(image, P1, P2, PM)
        variation = np.sum(np.sqrt(np.sum(along**2 + across**2, axis=2)))
        return 0.5 * np.sum((hsi - problem.hsi) ** 2) + 0.5 * np.sum((msi - problem.msi) ** 2) + 0.05 * variation

    def run(iterations, mu=0.05):
        options = HySure(rank=3, basis="svd", lambda_phi=0.05, mu=mu, max_iter=iterations, scale=1.0)
        return options.solve(problem).image.render()

    optimum = run(2000)
    assert objective(run(5)) > objective(run(50)) > objective(optimum)
    # Another penalty takes another path to the same place, and no neighbour is better.
    assert rsnr(run(2000, mu=0.2), optimum) > 60.0
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = 1e-2 * rng.standard_normal((12, 16, 3)) @ basis.T
        assert objective(optimum + step) > objective(optimum)


def test_vertices_of_a_simplex_are_found():
    rng = np.random.default_rng(3)
    spectra = rng.random((4, 12))
    pixels = np.vstack([rng.dirichlet(np.full(4, 0.5), 200) @ spectra, spectra])
    found = vertices(pixels, 4).T
    nearest = np.abs(found[:, None] - spectra).max(axis=2)
    assert sorted(nearest.argmin(axis=1)) == [0, 1, 2, 3]
    assert nearest.min(axis=1).max() < 1e-12


def test_vertices_are_noisy_pixels_projected_on_their_subspace():
    rng = np.random.default_rng(3)
    pixels = rng.random((300, 3)) @ rng.random((3, 12)) + 0.1 * rng.standard_normal((300, 12))
    mean = pixels.mean(axis=0)
    axes = np.linalg.svd(pixels - mean, full_matrices=False)[2][:2]
    projected = mean + (pixels - mean) @ axes.T @ axes
    for vertex in vertices(pixels, 3).T:
        assert np.abs(projected - vertex).max(axis=1).min() < 1e-12
        assert np.abs(pixels - vertex).max(axis=1).min() > 1e-2


def test_vertices_do_not_depend_on_the_order_of_the_pixels():
    rng = np.random.default_rng(3)
    pixels = rng.random((100, 9))
    found, turned = (vertices(p, 4) for p in (pixels, pixels[::-1]))
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(turned, axis=1), atol=1e-12)


def test_flat_pixels_have_vertices():
    np.testing.assert_allclose(vertices(np.full((20, 5), 0.3), 3), 0.3)


@pytest.mark.parametrize("basis", ["vca", "svd"])
def test_spectra_of_the_image_lie_in_the_subspace_of_the_hsi(basis):
    problem = problem_of(spectral_scene(materials=5), noise=0.02)
    image = HySure(rank=4, basis=basis, max_iter=5).solve(problem).image.render().reshape(-1, 10)
    assert np.linalg.matrix_rank(image, tol=1e-9 * np.linalg.norm(image, 2)) == 4
    pixels = problem.hsi.reshape(-1, 10)
    if basis == "svd":
        span = np.linalg.svd(pixels, full_matrices=False)[2][:4]
    else:
        axes = np.linalg.svd(pixels - pixels.mean(axis=0), full_matrices=False)[2][:3]
        span = np.linalg.qr(np.vstack([pixels.mean(axis=0), axes]).T)[0].T
    assert np.linalg.norm(image - image @ span.T @ span) < 1e-9 * np.linalg.norm(image)


@pytest.mark.parametrize("basis", ["vca", "svd"])
def test_cost_is_the_misfit_of_the_image(basis):
    problem = problem_of(spectral_scene(materials=5), noise=0.05)
    solution = HySure(rank=4, basis=basis, max_iter=7).solve(problem)
    hsi, msi = observe(solution.image.render(), *operators(problem))
    misfit = 0.5 * np.sum((hsi - problem.hsi) ** 2) + 0.5 * np.sum((msi - problem.msi) ** 2)
    assert solution.cost == solution.trace.cost[-1] == pytest.approx(misfit, rel=1e-10)
    assert solution.trace.cost[0] == pytest.approx(0.5 * np.sum(problem.hsi**2) + 0.5 * np.sum(problem.msi**2))
    assert solution.status is Status.FINISHED
    assert solution.n_iter == 7


def test_scale_is_the_unit_in_which_the_weights_count():
    problem = problem_of(spectral_scene(), noise=0.05)
    larger = Problem(1000.0 * problem.hsi, 1000.0 * problem.msi, problem.degradation)
    plain = HySure(rank=3, max_iter=20, scale=1.0).solve(problem)
    scaled = HySure(rank=3, max_iter=20, scale=1000.0).solve(larger)
    np.testing.assert_allclose(scaled.image.render(), 1000.0 * plain.image.render(), rtol=1e-8)
    named = HySure(rank=3, max_iter=20, scale=np.quantile(problem.msi, 0.999))
    np.testing.assert_array_equal(
        HySure(rank=3, max_iter=20).solve(problem).image.render(), named.solve(problem).image.render()
    )


def test_a_degradation_that_is_no_periodic_blur_is_refused():
    problem = problem_of(spectral_scene())
    P1, P2, PM = operators(problem)
    P1[-1] = 0.0
    P1[-1, -4:] = 0.25
    with pytest.raises(ValueError, match=r"^degradation: row 3 of P1"):
        HySure(rank=3).solve(Problem(problem.hsi, problem.msi, Degradation(P1, P2, PM)))


def test_a_subspace_beyond_the_bands_is_refused():
    problem = problem_of(spectral_scene())
    with pytest.raises(ValueError, match=r"^rank: got 11; at most 10"):
        HySure(rank=11).check(problem)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 0}, r"^rank: got 0"),
        ({"basis": "pca"}, r"^basis: got 'pca'; 'vca' or 'svd'"),
        ({"lambda_m": -1.0}, r"^lambda_m: got -1.0"),
        ({"lambda_phi": -1.0}, r"^lambda_phi: got -1.0"),
        ({"mu": 0.0}, r"^mu: got 0.0"),
        ({"scale": 0.0}, r"^scale: got 0.0"),
        ({"max_iter": -1}, r"^max_iter: got -1"),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        HySure(**options)


def test_the_svd_basis_keeps_to_the_suite_too():
    testing.check_method(HySure(basis="svd", rank=3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_estimate_is_close(dtype):
    problem = problem_of(spectral_scene((96, 64, 20), 6), noise=0.05, dtype=dtype)
    method = HySure(max_iter=2)
    assert_memory_estimate_is_close(method, problem)


@pytest.mark.scenes
def test_published_figure_on_indian_pines(data_folder):
    cube, problem = clean_indian_pines(data_folder)
    # In counts the total variation is inert, which is how the figure was published.
    assert metrics.rsnr(HySure(rank=16, scale=1.0).solve(problem).image.render(), cube) > 29.86 - 0.5
    assert metrics.rsnr(HySure(rank=16).solve(problem).image.render(), cube) > 30.1 - 0.5


@pytest.mark.scenes
def test_published_figures_on_noisy_salinas(data_folder):
    figures = {(5e-4, 1.0): 0.7, (5e-4, None): 0.7, (5e-2, 1.0): 14.8, (5e-2, None): 14.8}
    found = {options: [] for options in figures}
    for cube, problem, _ in noisy_salinas(data_folder, draws=2):
        for (lambda_phi, scale), values in found.items():
            image = HySure(lambda_phi=lambda_phi, scale=scale).solve(problem).image.render()
            values.append(metrics.rsnr(image, cube))
    for options, figure in figures.items():
        assert np.median(found[options]) > figure - 3.0
