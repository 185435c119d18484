"""GSA against its definition at the MSI's pixels, at the known digits, and on the scenes."""

import warnings

import numpy as np
import pytest
from asv_folder import module
from rival_scenes import rivals_golden, rivals_scene
from scenery import assert_memory_estimate_is_close, band_means, blur, observe

from fastccpd import Degradation, Problem, Status, fuse
from fastccpd.imaging import degrade, gaussian, metrics, scenes
from fastccpd.methods import GSA, get
from fastccpd.methods._upsampling import upsampling

plain = module("benchmarks.plain")


def problem_of(shape=(20, 24, 12), bands=3, boundary="periodic", seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    degradation = Degradation(*gaussian(shape[:2], 4, boundary=boundary), band_means(shape[2], bands))
    hsi, msi = degrade(rng.random((*shape[:2], 4)) @ rng.random((4, shape[2])), degradation)
    hsi, msi = (image + 0.01 * rng.standard_normal(image.shape) for image in (hsi, msi))
    return Problem(hsi.astype(dtype), msi.astype(dtype), degradation)


def test_golden_digits():
    image = GSA().solve(rivals_golden()).image.render()
    assert np.sum(image**2) == pytest.approx(7353.554619, rel=1e-7)
    assert image[0, 0, 0] == pytest.approx(2.663236458, rel=1e-7)
    assert image[-1, -1, -1] == pytest.approx(3.061379515, rel=1e-7)


@pytest.mark.parametrize("boundary", ["periodic", "reflect"])
@pytest.mark.parametrize(("shape", "bands"), [((20, 24, 12), 3), ((22, 27, 9), 1), ((21, 30, 5), 4)])
def test_image_is_that_of_the_definition(shape, bands, boundary):
    if boundary == "periodic":
        shape = (*(4 * (n // 4) for n in shape[:2]), shape[2])
    problem = problem_of(shape, bands, boundary)
    np.testing.assert_allclose(GSA().solve(problem).image.render(), plain.gsa(problem), rtol=0, atol=1e-10)


def test_a_scene_of_many_blocks_of_rows_is_that_of_the_definition():
    problem = problem_of((96, 64, 40))
    np.testing.assert_allclose(GSA().solve(problem).image.render(), plain.gsa(problem), rtol=0, atol=1e-9)


def test_cost_is_the_misfit_of_the_image_and_the_callback_sees_it_once():
    problem, seen = problem_of(), []
    solution = GSA().solve(problem, callback=seen.append)
    hsi, msi = observe(
        solution.image.render(), *(getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
    )
    misfit = 0.5 * np.sum((hsi - problem.hsi) ** 2) + 0.5 * np.sum((msi - problem.msi) ** 2)
    assert solution.cost == pytest.approx(misfit, rel=1e-10)
    assert (solution.status, solution.n_iter, len(solution.trace)) == (Status.FINISHED, 0, 1)
    assert [progress.cost for progress in seen] == [solution.cost]


def test_each_band_keeps_the_mean_of_the_interpolated_one():
    problem = problem_of()
    expected = upsampling(problem.degradation).image(problem.hsi).mean(axis=(0, 1))
    np.testing.assert_allclose(GSA().solve(problem).image.render().mean(axis=(0, 1)), expected, rtol=1e-12)


def test_pm_is_not_used():
    problem = problem_of()
    other = Degradation(problem.degradation.P1, problem.degradation.P2, np.eye(3, 12))
    expected = GSA().solve(problem).image.render()
    np.testing.assert_array_equal(GSA().solve(Problem(problem.hsi, problem.msi, other)).image.render(), expected)


def test_a_constant_band_is_returned_as_it_is_interpolated():
    problem = problem_of()
    hsi, msi = problem.hsi.copy(), problem.msi.copy()
    hsi[:, :, 2], msi[:, :, 0] = 0.7, 0.3
    image = GSA().solve(Problem(hsi, msi, problem.degradation)).image.render()
    np.testing.assert_allclose(image[:, :, 2], 0.7, rtol=1e-12)
    assert np.isfinite(image).all()


def test_correlations_count_with_their_sign():
    problem = problem_of(bands=2)
    msi = np.stack([-problem.msi[:, :, 0], problem.msi[:, :, 1]], axis=2)
    turned = Problem(problem.hsi, msi, problem.degradation)
    np.testing.assert_allclose(GSA().solve(turned).image.render(), plain.gsa(turned), rtol=0, atol=1e-10)


def test_more_bands_than_pixels_have_weights_of_least_norm_and_a_warning():
    rng = np.random.default_rng(0)
    P = blur(8)
    degradation = Degradation(P, P, band_means(12, 1))
    problem = Problem(*degrade(rng.random((8, 8, 12)), degradation), degradation)
    with pytest.warns(UserWarning, match=r"^hsi: 12 bands resemble band 1 of the MSI, but there are 4 pixels"):
        image = GSA().solve(problem).image.render()
    np.testing.assert_allclose(image, plain.gsa(problem), rtol=0, atol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(GSA(ridge=0.1).solve(problem).image.render()).all()


def test_a_large_ridge_turns_the_prediction_to_the_covariances():
    problem = problem_of(bands=1)
    covariances = np.cov(problem.hsi.reshape(-1, 12).T, degrade_band(problem))[:-1, -1]
    bands = upsampling(problem.degradation).image(problem.hsi)
    bands -= bands.mean(axis=(0, 1))
    g = np.tensordot(bands @ covariances, bands, 2) / np.sum((bands @ covariances) ** 2)
    # The prediction itself is next to nothing, but its direction is what the gains are of.
    plain = upsampling(problem.degradation).image(problem.hsi)
    detail = problem.msi[:, :, 0] - problem.msi.mean()
    image = GSA(ridge=1e9).solve(problem).image.render()
    ratio = np.tensordot(detail, image - plain, 2) / np.sum(detail**2)
    np.testing.assert_allclose(ratio / ratio[0], g / g[0], rtol=1e-6)


def degrade_band(problem):
    """The MSI's only band as the HSI sees it."""
    return (problem.degradation.P1 @ problem.msi[:, :, 0] @ problem.degradation.P2.T).ravel()


def test_gaps_are_refused_in_a_sentence():
    problem = problem_of()
    valid = np.ones(problem.hsi.shape[:2], bool)
    valid[0, 0] = False
    with pytest.raises(TypeError, match=r"^hsi_valid: 'gsa' cannot leave data out"):
        fuse(problem.hsi, problem.msi, problem.degradation, method="gsa", hsi_valid=valid)


def test_a_ridge_below_zero_is_refused():
    with pytest.raises(ValueError, match=r"^ridge: got -1"):
        GSA(ridge=-1)
    assert get("gsa") is GSA


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(96, 64, 60), (128, 96, 8)])
def test_memory_estimate_is_close(shape, dtype):
    assert_memory_estimate_is_close(GSA(), problem_of(shape, bands=4, dtype=dtype))


@pytest.mark.scenes
@pytest.mark.parametrize(
    ("name", "snr", "figures"),
    [
        ("salinas-a", None, (37.41, 0.625)),
        ("salinas-a", 30.0, (26.91, 2.450)),
        ("indian-pines", None, (29.97, 1.707)),
        ("indian-pines", 10.0, (0.61, 37.82)),
    ],
)
def test_figures_of_the_scenes(data_folder, name, snr, figures):
    cube, problem = rivals_scene(data_folder, name, snr)
    image = GSA().solve(problem).image.render()
    assert metrics.rsnr(image, cube) == pytest.approx(figures[0], abs=0.01)
    assert metrics.sam(image, cube) == pytest.approx(figures[1], abs=0.01)


@pytest.mark.parametrize("gain", [10.0, 0.1])
def test_operators_whose_rows_do_not_sum_to_one_give_the_image_of_those_that_do(gain):
    shape = (24, 20, 12)
    scene = scenes.synthetic(shape).cube
    degradation = Degradation(*gaussian(shape[:2], 4), band_means(shape[2], 3))
    other = Degradation(gain * degradation.P1, degradation.P2, degradation.PM)
    images = [fuse(*degrade(scene, given), given, method="gsa").sri for given in (degradation, other)]
    np.testing.assert_allclose(images[1], images[0], rtol=1e-9)


def test_a_blur_that_finds_nothing_beyond_the_border_leaves_it_as_bright_as_the_rest():
    shape = (40, 36, 12)
    scene = scenes.synthetic(shape).cube
    PM = band_means(shape[2], 3)
    sides = [gaussian_rows(n) for n in shape[:2]]
    zero_padded = Degradation(*sides, PM)
    normalised = Degradation(*(side / side.sum(axis=1, keepdims=True) for side in sides), PM)
    scores = [
        metrics.rsnr(fuse(*degrade(scene, given), given, method="gsa").sri, scene)
        for given in (zero_padded, normalised)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)


def gaussian_rows(fine, ratio=4):
    """A Gaussian around every fourth pixel, cut at the border: rows there sum to less than one."""
    places = np.arange(fine // ratio) * ratio + 0.5
    weights = np.exp(-0.5 * ((np.arange(fine) - places[:, None]) / 1.7) ** 2)
    return weights / weights.sum(axis=1).max()
