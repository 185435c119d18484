"""FUSE and the circular blur it works with: against dense least squares, at every phase, and on real scenes."""

import numpy as np
import pytest
from scenery import assert_memory_estimate_is_close, band_means, blur, median_on_noisy_salinas, observe
from scipy import ndimage

from fastccpd import Degradation, Problem, Status, fuse
from fastccpd.imaging import degrade, gaussian, metrics, preset, scenes
from fastccpd.methods._circular import centroid, circular_blur, ratio_and_taps
from fastccpd.methods.fuse_sylvester import FUSESylvester


def noisy_problem(shape=(12, 16, 9), ratio=4, phases=(3, 1), bands=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    P1, P2 = (blur(n, ratio, phase) for n, phase in zip(shape, phases))
    PM = band_means(shape[2], bands)
    hsi, msi = observe(rng.random(shape) + np.linspace(0, 3, shape[2]), P1, P2, PM)
    hsi, msi = (image + 0.1 * rng.standard_normal(image.shape) for image in (hsi, msi))
    return Problem(hsi.astype(dtype), msi.astype(dtype), Degradation(P1, P2, PM))


def operators(problem):
    return tuple(getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))


def splined(cube, ratio, centres):
    """`cube` at the fine pixels by periodic cubic B-splines, pixel (a, b) sitting at centres + (a, b) * ratio."""
    places = [(np.arange(n * ratio) - centre) / ratio for n, centre in zip(cube.shape, centres)]
    grid = np.meshgrid(*places, indexing="ij")
    bands = [ndimage.map_coordinates(band, grid, order=3, mode="grid-wrap") for band in np.moveaxis(cube, 2, 0)]
    return np.stack(bands, axis=2)


def dense_fuse(problem, rank, precision=None, scale=None, ratio=4, centres=None):
    """The minimiser by one dense least-squares system; the least-norm one, in units of √λ, without a prior."""
    P1, P2, PM = operators(problem)
    I, J, K = problem.sri_shape
    pixels = problem.hsi.reshape(-1, K)
    values, vectors = np.linalg.eigh(pixels.T @ pixels / len(pixels))
    E = vectors[:, -rank:] * np.sqrt(values[-rank:])
    rows = [np.kron(np.kron(P1, P2), E), np.kron(np.eye(I * J), PM @ E)]
    data = [problem.hsi.ravel(), problem.msi.ravel()]
    if precision is not None:
        mean = splined(problem.hsi, ratio, centres) @ np.linalg.pinv(E).T
        # Data divided by `scale` have E divided by it: in the units of the data, the precision is scale² as large.
        rows.append(np.sqrt(precision) * scale * np.eye(I * J * rank))
        data.append(np.sqrt(precision) * scale * mean.ravel())
    system, data = np.vstack(rows), np.concatenate(data)
    if precision is None:
        coefficients = np.linalg.lstsq(system, data, rcond=1e-12)[0]
    else:
        coefficients = np.linalg.solve(system.T @ system, system.T @ data)
    return coefficients.reshape(I, J, rank) @ E.T


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_without_a_prior_it_is_the_least_squares_image_in_the_subspace(rank):
    problem = noisy_problem((6, 10, 9), ratio=2, phases=(1, 0))
    image = FUSESylvester(rank=rank, prior="ml").solve(problem).image.render()
    np.testing.assert_allclose(image, dense_fuse(problem, rank), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("rank", "bands"), [(5, 2), (7, 4), (3, 1)])
def test_without_a_prior_what_neither_image_sees_is_of_least_norm(rank, bands):
    problem = noisy_problem((6, 10, 9), ratio=2, phases=(1, 0), bands=bands)
    image = FUSESylvester(rank=rank, prior="ml").solve(problem).image.render()
    np.testing.assert_allclose(image, dense_fuse(problem, rank), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("ratio", "phases"), [(4, (3, 1)), (4, (0, 2)), (2, (1, 0))])
@pytest.mark.parametrize(("rank", "precision", "scale"), [(3, 1e-3, 2.5), (7, 0.5, 1.0), (4, 30.0, 0.2)])
def test_gaussian_prior_pulls_towards_the_interpolated_hsi(ratio, phases, rank, precision, scale):
    problem = noisy_problem(ratio=ratio, phases=phases, bands=3)
    image = FUSESylvester(rank=rank, precision=precision, scale=scale).solve(problem).image.render()
    expected = dense_fuse(problem, rank, precision, scale, ratio, centres=phases)
    np.testing.assert_allclose(image, expected, rtol=0, atol=1e-9)


def test_an_overwhelming_prior_gives_the_interpolated_hsi():
    problem = noisy_problem()
    image = FUSESylvester(rank=9, precision=1e12, scale=1.0).solve(problem).image.render()
    np.testing.assert_allclose(image, splined(problem.hsi, 4, (3, 1)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 7000.0])
@pytest.mark.parametrize("spectra", [1, 4, 6])
@pytest.mark.parametrize(("ratio", "phase"), [(d, phase) for d in (2, 3, 4) for phase in range(d)])
def test_a_clean_scene_of_few_spectra_is_recovered_at_every_phase(ratio, phase, spectra, scale):
    rng = np.random.default_rng(10 * ratio + phase)
    I, J, K = 6 * ratio, 8 * ratio, 30
    scene = scale * rng.random((I, J, spectra)) @ rng.random((spectra, K))
    P1, P2, PM = blur(I, ratio, phase), blur(J, ratio, ratio - 1 - phase), band_means(K, 6)
    problem = Problem(*observe(scene, P1, P2, PM), Degradation(P1, P2, PM))
    assert metrics.rsnr(FUSESylvester(prior="ml").solve(problem).image.render(), scene) > 200


def test_scale_is_what_the_data_are_divided_by():
    problem = noisy_problem()
    counts = Problem(problem.hsi * 50, problem.msi * 50, problem.degradation)
    expected = FUSESylvester(scale=2.0).solve(problem).image.render()
    np.testing.assert_allclose(
        FUSESylvester(scale=100.0).solve(counts).image.render() / 50, expected, rtol=0, atol=1e-12
    )
    assert np.abs(FUSESylvester(scale=2.0).solve(counts).image.render() / 50 - expected).max() > 1e-4


def test_default_scale_is_the_quantile_of_the_msi_or_else_of_the_hsi():
    problem = noisy_problem()
    top = float(np.quantile(problem.msi, 0.999))
    assert np.array_equal(
        FUSESylvester().solve(problem).image.render(), FUSESylvester(scale=top).solve(problem).image.render()
    )
    dark = Problem(problem.hsi, -np.abs(problem.msi), problem.degradation)
    top = float(np.quantile(problem.hsi, 0.999))
    assert np.array_equal(
        FUSESylvester().solve(dark).image.render(), FUSESylvester(scale=top).solve(dark).image.render()
    )


def test_a_dark_hsi_gives_a_dark_scene():
    problem = noisy_problem()
    for prior in ("gaussian", "ml"):
        method = FUSESylvester(rank=3, prior=prior)
        image = method.solve(
            Problem(np.zeros_like(problem.hsi), np.zeros_like(problem.msi), problem.degradation)
        ).image.render()
        assert not image.any()


@pytest.mark.parametrize("prior", ["gaussian", "ml"])
def test_cost_is_that_of_the_image_and_the_callback_sees_it_once(prior):
    problem, seen = noisy_problem(), []
    solution = FUSESylvester(rank=4, prior=prior).solve(problem, callback=seen.append)
    hsi, msi = observe(solution.image.render(), *operators(problem))
    expected = 0.5 * np.sum((hsi - problem.hsi) ** 2) + 0.5 * np.sum((msi - problem.msi) ** 2)
    assert solution.cost == pytest.approx(expected, rel=1e-12)
    assert (solution.status, solution.n_iter, len(solution.trace)) == (Status.FINISHED, 0, 1)
    assert [progress.cost for progress in seen] == [solution.cost]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", [FUSESylvester(), FUSESylvester(prior="ml"), FUSESylvester(rank=20)])
def test_memory_estimate_is_close_above_what_is_allocated(method, dtype):
    problem = noisy_problem((64, 76, 40), dtype=dtype)
    assert_memory_estimate_is_close(method, problem)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"rank": 0}, ValueError, "rank: got 0"),
        ({"prior": "flat"}, ValueError, "prior: got 'flat'; 'gaussian' or 'ml' is needed"),
        ({"precision": 0.0}, ValueError, "precision: got 0"),
        ({"scale": 0.0}, ValueError, "scale: got 0"),
        ({"scale": "max"}, TypeError, "scale: got 'max'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, error, sentence):
    with pytest.raises(error, match=f"^{sentence}"):
        FUSESylvester(**options)


def test_a_rank_beyond_the_hsi_is_refused():
    problem = noisy_problem()
    with pytest.raises(ValueError, match=r"^rank: got 10; at most 9 is possible with this HSI"):
        fuse(problem.hsi, problem.msi, problem.degradation, method="fuse-sylvester", rank=10)


@pytest.mark.parametrize(
    ("rows", "columns"), [((24, 4), (20, 2)), ((9, 3), (12, 4)), ((8, 4), (4, 4)), ((5, 1), (6, 6))]
)
def test_circular_blur_is_the_operators_in_the_fourier_domain(rows, columns):
    x = np.random.default_rng(0).standard_normal((rows[0], columns[0]))
    for phases in np.ndindex(rows[1], columns[1]):
        P1, P2 = blur(*rows, phases[0]), blur(*columns, phases[1])
        circular = circular_blur(Degradation(P1, P2, np.ones((1, 2))))
        blurred = np.fft.ifft2(np.fft.fft2(x) * circular.transfer)
        assert circular.ratio == (rows[1], columns[1])
        np.testing.assert_allclose(blurred[:: rows[1], :: columns[1]], P1 @ x @ P2.T, rtol=0, atol=1e-14)


def test_circular_blur_knows_where_a_coarse_pixel_sits():
    # Two taps sit between their pixels; across the border they still do.
    between, across = np.kron(np.eye(6), [0, 0.5, 0.5, 0]), np.roll(np.kron(np.eye(5), [0.5, 0.5]), -1, axis=1)
    blur = Degradation(between, across, np.ones((1, 2)))
    centre = [centroid(ratio_and_taps(P, name)[1]) for P, name in ((blur.P1, "P1"), (blur.P2, "P2"))]
    apart = np.subtract(centre, (1.5, -0.5)) / (24, 10)
    np.testing.assert_allclose(apart, np.round(apart), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("P1", "P2", "sentence"),
    [
        (blur(24), blur(25), "degradation: P2 maps 25 pixels to 6, which does not divide 25"),
        (*gaussian((24, 20), 4, boundary="reflect"), "degradation: row 1 of P1 is not row 0 shifted by 4 columns"),
        (blur(24), np.vstack([blur(20)[:2], 1.01 * blur(20)[2:]]), "degradation: row 2 of P2 is not row 0"),
    ],
)
def test_a_degradation_that_is_no_periodic_blur_is_refused(P1, P2, sentence):
    degradation = Degradation(P1, P2, band_means(9, 3))
    problem = Problem(np.ones(degradation.hsi_shape), np.ones(degradation.msi_shape), degradation)
    with pytest.raises(ValueError, match=f"^{sentence}"):
        FUSESylvester(rank=3).solve(problem)


@pytest.mark.scenes
def test_published_figures_on_indian_pines(data_folder):
    cube = scenes.load("indian-pines", data_folder, crop_to=4).cube
    degradation = preset("scott", cube.shape)
    image = FUSESylvester(prior="ml").solve(Problem(*degrade(cube, degradation), degradation)).image.render()
    assert metrics.rsnr(image, cube) == pytest.approx(27.27, abs=0.1)
    figures = metrics.cc(image, cube), metrics.sam(image, cube), metrics.ergas(image, cube, 4)
    assert tuple(f"{figure:.4g}" for figure in figures) == ("0.9048", "2.314", "1.016")


@pytest.mark.scenes
def test_a_subspace_beyond_the_msi_bands_does_not_drown_in_rounding(data_folder):
    cube = scenes.load("indian-pines", data_folder, crop_to=4).cube
    degradation = preset("scott", cube.shape)
    image = FUSESylvester(prior="ml", rank=10).solve(Problem(*degrade(cube, degradation), degradation)).image.render()
    assert metrics.rsnr(image, cube) == pytest.approx(29.43, abs=0.01)


@pytest.mark.scenes
def test_gaussian_prior_on_noisy_salinas_is_at_the_published_figure(data_folder):
    assert median_on_noisy_salinas(data_folder, FUSESylvester()) > 8.1 - 3.0
