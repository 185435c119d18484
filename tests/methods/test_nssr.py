"""NSSR against a twin written from the definition, its parts, and at the known figures."""

import asv_folder
import numpy as np
import pytest
from nonlocal_problems import general_problem, misfit, noisy_problem
from rival_scenes import rivals_scene
from scenery import assert_memory_estimate_is_close

from fastccpd import Status, testing
from fastccpd.blas import one_blas_thread
from fastccpd.imaging import metrics
from fastccpd.methods import get
from fastccpd.methods._dictionary import improve, learn_dictionary, sparse_codes
from fastccpd.methods._neighbours import nonlocal_weights
from fastccpd.methods.nssr import NSSR

twins = asv_folder.module("benchmarks.nonlocal_methods")


@pytest.fixture(autouse=True)
def one_thread():
    with one_blas_thread():
        yield


def no_pulse():
    pass


@pytest.mark.parametrize("make", [noisy_problem, general_problem])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bands": None, "reach": 2, "neighbours": 4, "decay": 900.0},
        {"eta1": 0.3, "eta2": 0.02, "mu": 0.01, "growth": 1.3, "output": "codes"},
    ],
)
def test_the_image_is_that_of_the_definition(make, settings):
    problem, options = make(), NSSR(rank=6, max_iter=9, scale=1.7, **settings)
    expected = twins.nssr(problem, options, np.random.default_rng(4))
    found = options.solve(problem, rng=np.random.default_rng(4)).image.render()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_codes_solve_their_convex_problem():
    """At an optimum the gradient of the square is −λ where a code is positive, and not below that elsewhere."""
    rng = np.random.default_rng(0)
    D = np.abs(rng.standard_normal((12, 5)))
    X = np.maximum(rng.standard_normal((700, 5)), 0.0) @ D.T
    B = sparse_codes(X, D, no_pulse)
    slope = 2.0 * (B @ D.T - X) @ D + 1e-3
    assert B.min() >= 0.0
    assert (B == 0.0).any()
    assert np.abs(slope[B > 1e-2]).max() < 0.02
    assert slope[B == 0.0].min() > -0.02


def test_atoms_improve_in_place_and_unused_ones_stay():
    rng = np.random.default_rng(1)
    X, D, B = rng.random((30, 6)), rng.random((6, 4)) / 3.0, rng.random((30, 4))
    B[:, 2] = 0.0
    before, unused = np.linalg.norm(X - B @ D.T), D[:, 2].copy()
    improve(D, X.T @ B, B.T @ B)
    assert np.linalg.norm(X - B @ D.T) < before
    assert D.min() >= 0.0
    assert np.linalg.norm(D, axis=0).max() <= 1.0 + 1e-12
    np.testing.assert_array_equal(D[:, 2], unused)


def test_a_dictionary_has_no_more_atoms_than_there_are_pixels():
    pixels = np.random.default_rng(1).random((7, 5))
    D = learn_dictionary(pixels, 80, np.random.default_rng(0), no_pulse)
    assert D.shape == (5, 7)
    assert D.min() >= 0.0


def test_weights_are_means_over_similar_pixels():
    image = np.repeat([[0.0], [9.0]], 8, axis=0)[:, :, None] + np.zeros((16, 5, 2))
    W = nonlocal_weights(image, 4, 18, 0.01, no_pulse).toarray()
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    mean = (W @ image.reshape(80, 2)).reshape(image.shape)
    np.testing.assert_allclose(mean[[0, 1, 14, 15]], image[[0, 1, 14, 15]], atol=1e-12)
    np.testing.assert_array_equal(W.diagonal(), 0.25)  # three others look just the same


def test_weights_do_not_vanish_however_far_the_nearest_pixel_is():
    image = np.random.default_rng(0).standard_normal((6, 7, 3))
    near, far = (nonlocal_weights(size * image, 5, 3, 1e-3, no_pulse) for size in (1.0, 1e4))
    for W in (near, far):
        assert np.isfinite(W.data).all()
        np.testing.assert_allclose(W.sum(axis=1), 1.0)


@pytest.mark.parametrize(("shape", "expected"), [((1, 1, 2), [[1.0]]), ((1, 2, 1), [[0.5, 0.5], [0.5, 0.5]])])
def test_where_there_are_few_pixels_those_are_the_neighbours(shape, expected):
    W = nonlocal_weights(np.random.default_rng(0).random(shape), 10, 18, 1.0, no_pulse)
    np.testing.assert_allclose(W.toarray(), expected)


@pytest.mark.parametrize("output", ["image", "codes"])
def test_cost_is_the_misfit_of_the_image(output):
    problem = noisy_problem()
    solution = NSSR(rank=5, max_iter=6, output=output).solve(problem, rng=np.random.default_rng(0))
    assert solution.cost == solution.trace.cost[-1] == pytest.approx(misfit(problem, solution.image.render()), rel=1e-9)
    assert solution.trace.cost[0] == pytest.approx(misfit(problem, np.zeros(problem.sri_shape)))
    assert solution.status is Status.FINISHED
    assert solution.n_iter == 6


def test_the_codes_output_is_never_negative_and_the_image_may_be():
    problem = noisy_problem(noise=3.0)
    image, codes = (
        NSSR(rank=5, output=output).solve(problem, rng=np.random.default_rng(0)).image.render()
        for output in ("image", "codes")
    )
    assert image.min() < 0.0 <= codes.min()


def test_back_projection_explains_both_clean_images():
    problem = general_problem()
    plain, projected = (
        NSSR(rank=5, max_iter=5, back_projection=back).solve(problem, rng=np.random.default_rng(0))
        for back in (False, True)
    )
    assert projected.cost < 1e-2 * plain.cost
    assert projected.n_iter == plain.n_iter == 5


def test_before_the_first_iteration_the_image_is_dark_also_where_the_time_is_up_at_once():
    problem = noisy_problem()
    for settings, status in (({"time_limit": 0.0}, Status.TIME_LIMIT), ({}, Status.FINISHED)):
        method = NSSR(rank=5, max_iter=20 if settings else 0)
        solution = method.solve(problem, rng=np.random.default_rng(0), **settings)
        assert solution.status is status
        assert solution.n_iter == 0
        assert not solution.image.render().any()


COUNTS = {"rank": 0, "neighbours": 0, "bands": 0, "reach": -1, "max_iter": -1}
NUMBERS = {"eta1": -1.0, "eta2": -1.0, "mu": 0.0, "growth": 0.0, "decay": 0.0, "scale": 0.0, "output": "both"}


@pytest.mark.parametrize("name", [*COUNTS, *NUMBERS])
def test_what_an_option_cannot_be_is_refused(name):
    value = {**COUNTS, **NUMBERS}[name]
    with pytest.raises(ValueError, match=rf"^{name}: got {value!r}; .* is needed"):
        NSSR(**{name: value})


def test_back_projection_is_yes_or_no():
    with pytest.raises(TypeError, match=r"^back_projection: got 2"):
        NSSR(back_projection=2)


def test_it_is_registered_with_the_published_defaults():
    assert get("nssr") is NSSR
    published = {"rank": 80, "eta1": 0.015, "eta2": 6e-5, "mu": 2e-4, "growth": 1.1, "max_iter": 26, "bands": 3}
    assert published.items() <= NSSR().options().items()


def test_the_codes_output_keeps_to_the_suite_too():
    for check in (testing.check_image, testing.check_units_do_not_matter, testing.check_float32_is_kept):
        check(NSSR(rank=3, output="codes"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{}, {"back_projection": True}])
def test_memory_estimate_is_close(dtype, options):
    problem = noisy_problem((64, 96, 40), dtype=dtype)
    assert_memory_estimate_is_close(NSSR(rank=12, max_iter=2, **options), problem)


@pytest.mark.scenes
@pytest.mark.parametrize(
    ("snr", "options", "figure"),
    [(None, {}, 37.05), (None, {"eta1": 1e-4, "eta2": 1e-4}, 43.01), (20.0, {}, 17.93), (5.0, {}, 2.64)],
)
def test_known_figures_on_salinas(data_folder, snr, options, figure):
    cube, problem = rivals_scene(data_folder, "salinas-a", snr)
    image = NSSR(scale=1.0, **options).solve(problem, rng=np.random.default_rng(0)).image.render()
    assert metrics.rsnr(image, cube) == pytest.approx(figure, abs=0.3)
