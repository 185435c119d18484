"""SCOTT and B-SCOTT against their definitions, and the published figures on real scenes."""

import tracemalloc

import numpy as np
import pytest
from scenery import band_means, blur, median_on_noisy_salinas, observe

from fastccpd import Degradation, Problem, Status, fuse
from fastccpd.imaging import degrade, metrics, preset, scenes
from fastccpd.methods import make
from fastccpd.methods._spectral import leading_vectors
from fastccpd.methods.b_scott import BSCOTT
from fastccpd.methods.scott import SCOTT, multiply


def noisy_problem(shape=(24, 20, 14), bands=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    P1, P2, PM = blur(shape[0]), blur(shape[1]), band_means(shape[2], bands)
    hsi, msi = observe(rng.random(shape), P1, P2, PM)
    hsi, msi = (image + 0.1 * rng.standard_normal(image.shape) for image in (hsi, msi))
    return Problem(hsi.astype(dtype), msi.astype(dtype), Degradation(P1, P2, PM))


def operators(problem):
    return tuple(getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))


def unfold(cube, mode):
    return np.moveaxis(cube, mode, 0).reshape(cube.shape[mode], -1)


def left_vectors(cube, mode, count):
    return np.linalg.svd(unfold(cube, mode), full_matrices=False)[0][:, :count]


def tucker(core, U, V, W):
    return np.einsum("rst,ir,js,kt->ijk", core, U, V, W)


def dense_scott(problem, rank):
    """The core as the least-norm solution of the stacked Kronecker system."""
    P1, P2, PM = operators(problem)
    U, V = (left_vectors(problem.msi, mode, rank[mode]) for mode in (0, 1))
    W = left_vectors(problem.hsi, 2, rank[2])
    system = np.vstack([np.kron(P1 @ U, np.kron(P2 @ V, W)), np.kron(U, np.kron(V, PM @ W))])
    data = np.concatenate([problem.hsi.ravel(), problem.msi.ravel()])
    core = np.linalg.lstsq(system, data, rcond=1e-10)[0].reshape(rank)
    return tucker(core, U, V, W)


def dense_b_scott(problem, rank, cuts):
    """Block by block from the definition; `cuts` are (HSI rows, HSI columns) slices at ratio 4."""
    *_, PM = operators(problem)
    image = np.zeros(problem.sri_shape)
    for rows, columns in cuts:
        hsi = problem.hsi[slice(*rows), slice(*columns)]
        block = slice(4 * rows[0], 4 * rows[1]), slice(4 * columns[0], 4 * columns[1])
        msi = problem.msi[block]
        U, V, W_M = (left_vectors(msi, mode, rank[mode]) for mode in range(3))
        core = np.einsum("ijk,ir,js,kt->rst", msi, U, V, W_M)
        W_H = left_vectors(hsi, 2, rank[2])
        image[block] = tucker(core, U, V, W_H @ np.linalg.pinv(PM @ W_H) @ W_M)
    return image


def misfit(image, problem):
    hsi, msi = observe(image, *operators(problem))
    return 0.5 * np.sum((hsi - problem.hsi) ** 2) + 0.5 * np.sum((msi - problem.msi) ** 2)


def traced_peak(method, problem):
    method.solve(problem)
    tracemalloc.start()
    try:
        method.solve(problem)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rank", [(5, 4, 3), (2, 5, 4), (6, 5, 9), (12, 3, 4), (1, 1, 1), (3, 7, 2)])
def test_scott_is_the_least_squares_core_on_the_svd_subspaces(rank):
    problem = noisy_problem()
    expected = dense_scott(problem, rank)
    tolerance = 1e-11 * np.abs(expected).max()
    np.testing.assert_allclose(SCOTT(rank=rank).solve(problem).image, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("rank", [(9, 3, 6), (4, 8, 5), (8, 9, 7)])
def test_scott_sets_what_neither_image_sees_to_zero_and_says_so(rank):
    problem = noisy_problem()
    with pytest.warns(
        UserWarning, match=r"^rank: \d+ of the \d+ entries .* set to zero; R3 <= 4, or R1 <= 6 and R2 <= 5"
    ):
        image = SCOTT(rank=rank).solve(problem).image
    expected = dense_scott(problem, rank)
    np.testing.assert_allclose(image, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_scott_recovers_a_clean_scene_of_its_multilinear_rank():
    rng = np.random.default_rng(3)
    shape, rank = (24, 20, 14), (4, 5, 6)
    factors = [rng.standard_normal((n, r)) for n, r in zip(shape, rank)]
    scene = tucker(rng.standard_normal(rank), *factors)
    P1, P2, PM = blur(24), blur(20), band_means(14, 7)
    problem = Problem(*observe(scene, P1, P2, PM), Degradation(P1, P2, PM))
    assert metrics.rsnr(SCOTT(rank=rank).solve(problem).image, scene) > 200


def test_a_larger_rtol_leaves_more_of_the_core_out():
    problem = noisy_problem()
    whole = np.linalg.norm(SCOTT(rank=(6, 5, 9)).solve(problem).image)
    with pytest.warns(UserWarning, match="set to zero"):
        regularised = np.linalg.norm(SCOTT(rank=(6, 5, 9), rtol=0.1).solve(problem).image)
    assert regularised < 0.9 * whole


def test_one_number_is_the_rank_of_all_three_modes():
    problem = noisy_problem()
    assert SCOTT(rank=3) == SCOTT(rank=(3, 3, 3)) == make("scott", {"rank": np.int64(3)})
    by_name = fuse(problem.hsi, problem.msi, problem.degradation, method="scott", rank=3)
    assert by_name.sri.tobytes() == SCOTT(rank=(3, 3, 3)).solve(problem).image.tobytes()
    assert make("b-scott", {"rank": [2, 3, 4]}).rank == (2, 3, 4)


@pytest.mark.parametrize(
    ("rank", "sentence"),
    [
        ((25, 4, 3), "rank: got 25 over the rows; at most 24 is possible"),
        ((4, 21, 3), "rank: got 21 over the columns; at most 20 is possible"),
        ((4, 4, 15), "rank: got 15 over the bands; at most 14 is possible"),
    ],
)
def test_scott_refuses_a_rank_beyond_the_dimension(rank, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        SCOTT(rank=rank).check(noisy_problem())


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"rank": (3, 4)}, ValueError, "rank: got 2 numbers"),
        ({"rank": 0}, ValueError, "rank: got 0"),
        ({"rank": (3, 0, 2)}, ValueError, r"rank\[1\]: got 0"),
        ({"rank": 2.5}, TypeError, "rank: got 2.5"),
        ({"rank": "12"}, TypeError, "rank: got '12'"),
        ({"rtol": -1.0}, ValueError, "rtol: got -1"),
    ],
)
def test_scott_refuses_options_that_make_no_sense(options, error, sentence):
    with pytest.raises(error, match=f"^{sentence}"):
        SCOTT(**options)


@pytest.mark.parametrize("method", [SCOTT(rank=(5, 4, 3)), BSCOTT(rank=(4, 3, 2), blocks=(2, 3))])
def test_cost_is_that_of_the_image_and_the_callback_sees_it_once(method):
    problem, seen = noisy_problem(), []
    solution = method.solve(problem, callback=seen.append)
    assert solution.cost == pytest.approx(misfit(solution.image, problem), rel=1e-12)
    assert solution.status is Status.FINISHED
    assert (solution.n_iter, len(solution.trace), solution.trace.cost) == (0, 1, [solution.cost])
    assert [progress.cost for progress in seen] == [solution.cost]


@pytest.mark.parametrize("method", [SCOTT(rank=(5, 4, 3)), BSCOTT(rank=(4, 3, 2), blocks=(2, 3))])
def test_single_precision_images_give_the_image_of_double_ones_in_single(method):
    single, double = (method.solve(noisy_problem(dtype=dtype)).image for dtype in (np.float32, np.float64))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", [SCOTT(), SCOTT(rank=(30, 28, 4)), BSCOTT(rank=(12, 15, 4), blocks=(2, 3))])
def test_memory_estimate_is_close_above_what_is_allocated(method, dtype):
    problem = noisy_problem((64, 76, 40), bands=6, dtype=dtype)
    peak = traced_peak(method, problem)
    assert peak <= method.memory_needed(problem.hsi.shape, problem.msi.shape, problem.dtype) <= 2 * peak


@pytest.mark.parametrize("shape", [(7, 31), (31, 7), (9, 9)])
@pytest.mark.parametrize("span", [1e-2, 1e-8])
def test_leading_vectors_are_those_of_the_svd_however_wide_the_spectrum(shape, span):
    rng = np.random.default_rng(1)
    n = min(shape)
    left, right = (np.linalg.qr(rng.standard_normal((m, n)))[0] for m in shape)
    values = np.geomspace(1.0, span, n)
    vectors, found = leading_vectors(left * values @ right.T, n - 2)
    np.testing.assert_allclose(found, values[: n - 2], rtol=0, atol=1e-14)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n - 2), rtol=0, atol=1e-13)
    # The weaker a direction, the less of the matrix a turn of it loses.
    turned = np.eye(n)[:, : n - 2] - np.abs(left.T @ vectors)
    assert np.abs(values[:, None] * turned).max() < 1e-11


@pytest.mark.parametrize("shapes", [((3, 5), (9, 4), (2, 6)), ((8, 5), (3, 4), (7, 6)), ((5, 5), (4, 4), (11, 6))])
def test_multiply_multiplies_every_mode(shapes):
    rng = np.random.default_rng(2)
    A, B, C = (rng.standard_normal(shape) for shape in shapes)
    cube = rng.standard_normal((5, 4, 6))
    np.testing.assert_allclose(multiply(A, B, C, cube), tucker(cube, A, B, C), rtol=0, atol=1e-12)


def test_b_scott_is_its_definition_in_blocks_of_unequal_size():
    problem = noisy_problem((28, 20, 14), bands=4)
    cuts = [(rows, columns) for rows in ((0, 2), (2, 4), (4, 7)) for columns in ((0, 2), (2, 5))]
    for rank in ((5, 6, 3), (8, 8, 4), (1, 2, 1)):
        image = BSCOTT(rank=rank, blocks=(3, 2)).solve(problem).image
        np.testing.assert_allclose(image, dense_b_scott(problem, rank, cuts), rtol=0, atol=1e-10)


def test_b_scott_does_not_look_at_the_spatial_degradation():
    problem = noisy_problem()
    other = Degradation(blur(24, phase=0), blur(20, phase=1), problem.degradation.PM)
    method = BSCOTT(rank=(6, 5, 4), blocks=2)
    expected = method.solve(problem)
    elsewhere = method.solve(Problem(problem.hsi, problem.msi, other))
    assert elsewhere.image.tobytes() == expected.image.tobytes()
    assert elsewhere.cost != expected.cost


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": (7, 4, 3)}, "rank: got 7 over the rows; at most 4 is possible"),
        ({"rank": (4, 4, 5)}, "rank: got 5 over the bands; at most 1 is possible"),
        ({"rank": (4, 4, 5), "blocks": 1}, "rank: got 5 over the bands; at most 4 is possible"),
        ({"rank": 1, "blocks": (4, 6)}, "blocks: got 6 along axis 1; at most 5"),
    ],
)
def test_b_scott_refuses_what_its_blocks_do_not_hold(options, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        BSCOTT(**options).check(noisy_problem())


@pytest.mark.parametrize(
    ("blocks", "error", "sentence"),
    [
        ((2, 2, 2), ValueError, "blocks: got 3 numbers"),
        (0, ValueError, r"blocks\[0\]: got 0"),
        (1.5, TypeError, "blocks"),
    ],
)
def test_b_scott_refuses_blocks_that_make_no_sense(blocks, error, sentence):
    with pytest.raises(error, match=f"^{sentence}"):
        BSCOTT(blocks=blocks)


def published(method, cube, degradation):
    """R-SNR, CC, SAM and ERGAS as six significant digits."""
    image = method.solve(Problem(*degrade(cube, degradation), degradation)).image
    figures = (
        metrics.rsnr(image, cube),
        metrics.cc(image, cube),
        metrics.sam(image, cube),
        metrics.ergas(image, cube, 4),
    )
    return tuple(f"{figure:.6g}" for figure in figures)


@pytest.mark.scenes
@pytest.mark.parametrize(
    ("method", "figures"),
    [
        (SCOTT(rank=(40, 40, 6)), ("26.3908", "0.887454", "2.32401", "1.0587")),
        (SCOTT(rank=(30, 30, 16)), ("25.1501", "0.872355", "2.49827", "1.18449")),
        (BSCOTT(rank=(36, 36, 6), blocks=(4, 4)), ("18.647", "0.820201", "4.27434", "2.62442")),
    ],
)
def test_published_figures_on_indian_pines_to_every_digit(method, figures, data_folder):
    cube = scenes.load("indian-pines", data_folder, crop_to=4).cube
    assert published(method, cube, preset("scott", cube.shape)) == figures


@pytest.mark.scenes
def test_scott_beyond_the_hsi_of_indian_pines_is_truncated_not_nan(data_folder):
    cube = scenes.load("indian-pines", data_folder, crop_to=4).cube
    degradation = preset("stereo", cube.shape)
    with pytest.warns(UserWarning, match="set to zero"):
        image = SCOTT(rank=80).solve(Problem(*degrade(cube, degradation), degradation)).image
    assert metrics.rsnr(image, cube) > 8


@pytest.mark.scenes
def test_scott_on_noisy_salinas_is_at_the_published_figure(data_folder):
    assert median_on_noisy_salinas(data_folder, SCOTT()) > 1.3 - 3.0
