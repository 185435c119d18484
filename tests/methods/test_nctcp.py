"""NCTCP against a twin written from the definition, and at the known figures."""

import asv_folder
import numpy as np
import pytest
from nonlocal_problems import general_problem, misfit, noisy_problem
from rival_scenes import rivals_scene
from scenery import assert_memory_estimate_is_close, small_case

from fastccpd import Degradation, Problem, Status
from fastccpd.blas import one_blas_thread
from fastccpd.imaging import degrade, metrics, preset, scenes
from fastccpd.methods import get
from fastccpd.methods._patches import Patches
from fastccpd.methods.nctcp import NCTCP, similar_path

twins = asv_folder.module("benchmarks.nonlocal_methods")


@pytest.fixture(autouse=True)
def one_thread():
    with one_blas_thread():
        yield


def small_salinas(folder):
    """A part of Salinas, every fourth band, and an MSI of means over nine of these."""
    cube = scenes.load("salinas-a", folder).cube[20:60, 20:64, ::4]
    blurs, PM = preset("stereo", cube.shape), np.zeros((6, 51))
    for row, start in enumerate(range(0, 51, 9)):
        members = np.arange(start, min(start + 9, 51))
        PM[row, members] = 1.0 / len(members)
    degradation = Degradation(blurs.P1, blurs.P2, PM)
    return cube, Problem(*degrade(cube, degradation), degradation)


@pytest.mark.parametrize("make", [noisy_problem, general_problem])
@pytest.mark.parametrize(
    "settings",
    [{}, {"group": 7, "patch": 3, "rank": 9}, {"lam": 3.0, "mu": 0.2, "output": "patches"}],
)
def test_the_image_is_that_of_the_definition(make, settings):
    problem, options = make(), NCTCP(**{"rank": 4, "group": 40, "max_iter": 3, "tol": 0.0, **settings})
    expected = twins.nctcp(problem, options, np.random.default_rng(4))
    found = options.solve(problem, rng=np.random.default_rng(4)).image.render()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


def test_the_path_is_that_of_the_definition_within_the_window_too():
    msi = np.random.default_rng(0).random((90, 8, 2))
    patches = Patches(msi.shape, 5)
    assert patches.grid[0] > 81
    path = similar_path(msi, patches, np.random.default_rng(1), lambda: None)
    uniforms = np.random.default_rng(1).random(len(patches))
    np.testing.assert_array_equal(path, twins.greedy_path(msi, 5, uniforms))


def test_a_coupled_start_begins_nearer():
    problem = noisy_problem(noise=0.0)
    costs = {
        start: NCTCP(rank=6, group=60, max_iter=2, start=start).solve(problem, rng=np.random.default_rng(0)).cost
        for start in ("random", "coupled")
    }
    assert costs["coupled"] < costs["random"]


@pytest.mark.parametrize("output", ["image", "patches"])
def test_cost_is_the_misfit_of_the_image(output):
    problem = noisy_problem()
    solution = NCTCP(rank=5, max_iter=3, output=output).solve(problem, rng=np.random.default_rng(0))
    assert solution.cost == solution.trace.cost[-1] == pytest.approx(misfit(problem, solution.image.render()), rel=1e-9)


def test_it_ends_when_nothing_moves_but_not_before_the_third_sweep():
    problem = noisy_problem()
    loose, never = (NCTCP(rank=5, tol=tol).solve(problem, rng=np.random.default_rng(0)) for tol in (1e6, 0.0))
    assert (loose.status, loose.n_iter) == (Status.STEP_SMALL, 3)
    assert (never.status, never.n_iter) == (Status.MAX_ITERATIONS, 10)


def test_without_a_sweep_the_image_is_the_hsi_spread_over_the_fine_pixels():
    problem = noisy_problem()
    solution = NCTCP(max_iter=0, rank=5).solve(problem, rng=np.random.default_rng(0))
    P1, P2 = problem.degradation.P1.toarray(), problem.degradation.P2.toarray()
    seen = np.einsum("ai,abk,bj->ijk", P1, problem.hsi, P2)
    np.testing.assert_allclose(solution.image.render(), seen / np.outer(P1.sum(0), P2.sum(0))[:, :, None], rtol=1e-10)
    flat = Problem(np.ones_like(problem.hsi), problem.msi, problem.degradation)
    np.testing.assert_allclose(NCTCP(max_iter=0, rank=5).solve(flat, rng=np.random.default_rng(0)).image.render(), 1.0)


def test_pixels_that_the_hsi_does_not_see_begin_dark_and_end_finite():
    P1, P2 = np.eye(4, 16), np.eye(5, 20)
    _, _, msi, degradation = small_case((16, 20, 9), 4)
    problem = Problem(np.ones((4, 5, 9)), msi, Degradation(P1, P2, degradation.PM))
    start = NCTCP(max_iter=0, rank=3).solve(problem, rng=np.random.default_rng(0)).image.render()
    assert not start[4:].any()
    assert np.isfinite(NCTCP(rank=3).solve(problem, rng=np.random.default_rng(0)).image.render()).all()


def test_a_callback_may_stop_within_a_sweep_and_what_is_left_is_that_of_the_last_one():
    problem = noisy_problem((24, 20, 9))
    method = NCTCP(rank=5, group=20, tol=0.0)
    one = method.solve(problem, rng=np.random.default_rng(0), callback=lambda state: state.n_iter == 1)
    assert (one.status, one.n_iter) == (Status.CALLBACK, 1)
    expected = NCTCP(rank=5, group=20, tol=0.0, max_iter=1).solve(problem, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(one.image.render(), expected.image.render())


WRONG = {"rank": 0, "group": 0, "patch": 0, "max_iter": -1, "lam": 0.0, "mu": 0.0, "tol": -1.0, "scale": 0.0}


@pytest.mark.parametrize(("name", "value"), [*WRONG.items(), ("start", "warm"), ("output", "both")])
def test_an_option_out_of_range_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: got {value!r}; "):
        NCTCP(**{name: value})


def test_it_is_registered_with_the_published_defaults():
    assert get("nctcp") is NCTCP
    published = {"rank": 180, "lam": 100.0, "mu": 1e-4, "max_iter": 10, "tol": 1e-2, "group": 300, "patch": 5}
    assert published.items() <= NCTCP().options().items()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_estimate_is_close(dtype):
    problem = noisy_problem((64, 96, 40), noise=0.5, dtype=dtype)
    assert_memory_estimate_is_close(NCTCP(rank=12, max_iter=2, group=100), problem)


@pytest.mark.scenes
@pytest.mark.parametrize(("seed", "figure"), [(0, 41.6), (1, 42.0)])
def test_known_figures_on_a_part_of_salinas(data_folder, seed, figure):
    cube, problem = small_salinas(data_folder)
    solution = NCTCP(rank=60, group=100).solve(problem, rng=np.random.default_rng(seed))
    assert metrics.rsnr(solution.image.render(), cube) == pytest.approx(figure, abs=0.5)
    assert solution.n_iter == 4


@pytest.mark.scenes
def test_known_figures_on_salinas(data_folder):
    cube, problem = rivals_scene(data_folder, "salinas-a")
    solution = NCTCP().solve(problem, rng=np.random.default_rng(0))
    assert metrics.rsnr(solution.image.render(), cube) == pytest.approx(26.75, abs=0.5)
    assert solution.n_iter == 4
    first = NCTCP(max_iter=1, output="patches").solve(problem, rng=np.random.default_rng(0))
    assert metrics.rsnr(first.image.render(), cube) == pytest.approx(22.5, abs=0.5)
