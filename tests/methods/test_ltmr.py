"""LTMR against its definition with singular value decompositions, at the known digits, and on the scenes."""

import numpy as np
import pytest
from asv_folder import module
from rival_scenes import rivals_golden, rivals_scene
from scenery import assert_memory_estimate_is_close, band_means, observe

from fastccpd import Degradation, Problem, Status, fuse
from fastccpd.blas import one_blas_thread
from fastccpd.imaging import degrade, gaussian, metrics
from fastccpd.methods import LTMR, get, ltmr
from fastccpd.methods.ltmr import ADMM, batches, fourier, k_means

plain = module("benchmarks.plain")

# Patch (a, b) of the 6 × 3 of the golden problem.
LABELS = (3 * np.arange(6)[:, None] + np.arange(3)).ravel() % 2


def nothing():
    """A pulse that nobody feels."""


@pytest.fixture(autouse=True)
def _one_thread():
    """As `fuse` does it."""
    with one_blas_thread():
        yield


def problem_of(shape=(20, 24, 12), bands=5, boundary="periodic", dtype=np.float64):
    rng = np.random.default_rng(0)
    degradation = Degradation(*gaussian(shape[:2], 4, boundary=boundary), band_means(shape[2], bands))
    scene = rng.dirichlet(np.ones(3), shape[:2]) @ (0.1 + rng.random((3, shape[2])))
    hsi, msi = (image + 0.01 * rng.standard_normal(image.shape) for image in degrade(scene, degradation))
    return Problem(hsi.astype(dtype), msi.astype(dtype), degradation)


def iterated(problem, labels, options, start=None):
    """The iteration with given labels, from a given V."""
    admm = ADMM(problem, options, None, labels)
    if start is not None:
        admm.C[...] = start
    admm.begin(nothing)
    for _ in range(options.max_iter):
        admm.advance(nothing)
    return admm


def squares(maps, admm):
    return np.sum((maps @ admm.D.T) ** 2)


@pytest.mark.parametrize(
    ("iterations", "of_C", "of_V"),
    [
        (1, 7085.650593, 7064.519583),
        (2, 7094.202373, 7102.912777),
        (5, 7095.61536, 7095.17136),
        (20, 7097.686399, None),
        (100, 7100.004517, None),
    ],
)
def test_golden_digits_from_zero(iterations, of_C, of_V):
    problem = rivals_golden()
    admm = iterated(problem, LABELS, LTMR(rank=5, eta=0.01, max_iter=iterations, scale=1.0), start=0.0)
    assert admm.patches.grid == (6, 3)
    assert squares(admm.C, admm) == pytest.approx(of_C, rel=1e-9)
    if of_V is not None:
        assert squares(admm.shrunk(admm.C - admm.U, nothing), admm) == pytest.approx(of_V, rel=1e-9)
    if iterations == 100:
        assert admm.image(np.float64).render()[0, 0, 0] == pytest.approx(2.813275563, rel=1e-9)


def test_golden_digits_from_the_interpolated_hsi():
    admm = iterated(rivals_golden(), LABELS, LTMR(rank=5, eta=0.01, max_iter=20, scale=1.0))
    assert squares(admm.C, admm) == pytest.approx(7097.698396, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "boundary", "options"),
    [
        ((20, 24, 12), "periodic", {"rank": 8, "eta": 1e-3}),
        ((21, 26, 9), "reflect", {"rank": 4, "eta": 0.1, "mu": 0.05}),
        ((18, 27, 9), "reflect", {"rank": 9, "eta": 0.0, "patch": 4, "step": 4}),
        ((8, 30, 7), "reflect", {"rank": 2, "eta": 5.0, "patch": 9, "step": 2}),
    ],
)
@pytest.mark.parametrize("clusters", [1, 3, 1000])
def test_iterations_are_those_of_the_definition(shape, boundary, options, clusters):
    problem = problem_of(shape, boundary=boundary)
    method = LTMR(**options, max_iter=6, scale=1.0)
    count = len(ADMM(problem, method, None).all_patches())
    labels = np.random.default_rng(1).integers(0, clusters, count) if clusters < 1000 else np.arange(count)
    expected, _ = plain.ltmr(problem, labels, method)
    found = iterated(problem, labels, method).image(np.float64).render()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("count", [1, 2, 9, 36, 49])
def test_the_fourier_matrices_are_numpys_transforms(count):
    line = np.random.default_rng(0).standard_normal(count)
    forwards, backwards = fourier(count)
    real, imaginary = np.split(line @ forwards, 2)
    expected = np.fft.rfft(line)
    np.testing.assert_allclose(real[: len(expected)] + 1j * imaginary[: len(expected)], expected, atol=1e-12)
    assert not np.append(real[len(expected) :], imaginary[len(expected) :]).any()
    np.testing.assert_allclose(backwards @ (line @ forwards), line, atol=1e-12)


def test_batches_take_whole_clusters_and_no_more_patches_than_allowed():
    firsts = np.array([0, 3, 5, 12, 13, 14])
    assert [firsts[part].tolist() for part in batches(firsts, 5)] == [[0, 3, 5], [5, 12], [12, 13, 14]]
    assert [firsts[part].tolist() for part in batches(firsts, 100)] == [firsts.tolist()]
    assert len(batches(firsts, 0)) == 5


def test_the_size_of_a_batch_changes_no_digit(monkeypatch):
    problem, options = problem_of(), LTMR(rank=4, clusters=9, max_iter=4)
    expected = options.solve(problem, rng=np.random.default_rng(0)).image.render()
    monkeypatch.setattr(ltmr, "_BATCH", 1000)
    np.testing.assert_allclose(
        options.solve(problem, rng=np.random.default_rng(0)).image.render(), expected, rtol=1e-12
    )


def test_k_means_ends_where_every_point_is_with_the_nearest_mean():
    points = np.random.default_rng(0).standard_normal((300, 6))
    labels = k_means(points, 12, np.random.default_rng(1), nothing)
    means = np.stack([points[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
    np.testing.assert_array_equal(np.linalg.norm(points[:, None] - means, axis=2).argmin(axis=1), labels)
    assert len(means) == 12


def test_k_means_of_few_and_of_equal_points():
    points = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_array_equal(k_means(points, 5, None, nothing), np.arange(5))
    np.testing.assert_array_equal(k_means(points, 9, None, nothing), np.arange(5))
    assert not k_means(np.ones((20, 3)), 4, np.random.default_rng(0), nothing).any()


def test_cost_is_the_misfit_of_the_image():
    problem = problem_of()
    solution = LTMR(rank=4, clusters=9, max_iter=5).solve(problem, rng=np.random.default_rng(0))
    hsi, msi = observe(solution.image.render(), *plain.dense(problem))
    misfit = 0.5 * np.sum((hsi - problem.hsi) ** 2) + 0.5 * np.sum((msi - problem.msi) ** 2)
    assert solution.cost == solution.trace.cost[-1] == pytest.approx(misfit, rel=1e-10)
    assert (solution.status, solution.n_iter) == (Status.FINISHED, 5)


def test_scale_is_the_unit_in_which_the_weights_count():
    problem = problem_of()
    larger = Problem(1000.0 * problem.hsi, 1000.0 * problem.msi, problem.degradation)
    options = {"rank": 4, "clusters": 9, "max_iter": 5, "eta": 0.1}
    plainly, scaled = (
        LTMR(**options, scale=scale).solve(given, rng=np.random.default_rng(0)).image.render()
        for given, scale in ((problem, 1.0), (larger, 1000.0))
    )
    np.testing.assert_allclose(scaled, 1000.0 * plainly, rtol=1e-8)
    unscaled = LTMR(**options, scale=1.0).solve(larger, rng=np.random.default_rng(0)).image.render()
    assert np.abs(unscaled / 1000.0 - plainly).max() > 1e-4


def test_gaps_are_refused_in_a_sentence():
    problem = problem_of()
    valid = np.ones(problem.msi.shape[:2], bool)
    valid[0, 0] = False
    with pytest.raises(TypeError, match=r"^msi_valid: 'ltmr' cannot leave data out"):
        fuse(problem.hsi, problem.msi, problem.degradation, method="ltmr", rank=3, msi_valid=valid)


def test_a_subspace_beyond_the_hsi_is_refused():
    with pytest.raises(ValueError, match=r"^rank: got 13; at most 12 is possible with this HSI"):
        LTMR(rank=13).check(problem_of())


@pytest.mark.parametrize("name", ["rank", "mu", "clusters", "patch", "step", "scale"])
def test_zero_is_refused_as(name):
    with pytest.raises(ValueError, match=rf"^{name}: got 0; "):
        LTMR(**{name: 0})


@pytest.mark.parametrize(("name", "value"), [("eta", -1), ("max_iter", -1), ("step", 8)])
def test_out_of_range_is(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: got {value}; "):
        LTMR(**{name: value})


def test_it_is_registered_with_the_published_defaults():
    assert get("ltmr") is LTMR
    published = {"rank": 10, "eta": 1e-3, "mu": 1e-3, "clusters": 200, "patch": 7, "step": 3, "max_iter": 100}
    assert LTMR().options() == published | {"scale": None}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(96, 64, 60), (128, 96, 16)])
def test_memory_estimate_is_close(shape, dtype):
    assert_memory_estimate_is_close(LTMR(max_iter=2), problem_of(shape, dtype=dtype))


@pytest.mark.scenes
def test_figures_of_salinas(data_folder):
    cube, problem = rivals_scene(data_folder, "salinas-a")
    for scale in (1.0, None):
        image = LTMR(scale=scale).solve(problem, rng=np.random.default_rng(0)).image.render()
        assert metrics.rsnr(image, cube) == pytest.approx(37.05, abs=0.3)
        assert metrics.sam(image, cube) == pytest.approx(0.598, abs=0.02)
    tuned = LTMR(rank=6, eta=1e-4, mu=0.01, clusters=40, scale=1.0, max_iter=40)
    assert metrics.rsnr(tuned.solve(problem, rng=np.random.default_rng(0)).image.render(), cube) > 42.4
