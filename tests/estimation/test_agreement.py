"""The noise of the MSI by what the two images disagree about: by its definition, with texture, with wrong operators."""

import numpy as np
import pytest
from scenery import band_means, blur, observe

from fastccpd import Degradation, Problem
from fastccpd.estimation import estimate_noise, noise_of
from fastccpd.estimation.agreement import agreement_of, variance_by_agreement
from fastccpd.estimation.moments import difference_moments

SHAPE, BANDS = (72, 64, 40), 4


def textured(seed, sigma, operators=None, unit=1.0):
    """A scene whose MSI bands have fine texture of their own, with white noise of `sigma` on both images."""
    rng = np.random.default_rng(seed)
    P1, P2, PM = operators or (blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], BANDS))
    spectra = rng.random((SHAPE[2], 5)) + 0.2
    spectra[:10, 4] += 2.0  # the first band of the MSI sees this one best
    scene = np.concatenate([np.kron(rng.random((9, 8, 4)), np.ones((8, 8, 1))), rng.random((*SHAPE[:2], 1))], 2)
    hsi, msi = observe(scene @ spectra.T, P1, P2, PM)
    images = (unit * (image + sigma * rng.standard_normal(image.shape)) for image in (hsi, msi))
    return Problem(*images, Degradation(P1, P2, PM))


def by_definition(problem, sigma, E):
    """(Q P Y_M)'(Q r) over its degrees of freedom and ‖p‖², less what the signals' noise leaves, pixel by pixel."""
    P1, P2, PM = (op.toarray() for op in (problem.degradation.P1, problem.degradation.P2, problem.degradation.PM))
    pixels = [(P1[a], P2[b], problem.hsi[a, b]) for a, b in np.ndindex(*problem.hsi.shape[:2])]
    seen = np.array([np.einsum("i,j,ijm->m", p1, p2, problem.msi) for p1, p2, _ in pixels])
    share = np.mean([np.sum(p1**2) * np.sum(p2**2) for p1, p2, _ in pixels])
    hsi = np.array([pixel for _, _, pixel in pixels])
    X = (hsi / sigma) @ E
    left, free = np.eye(len(X)) - X @ np.linalg.pinv(X), len(X) - E.shape[1]
    product = np.einsum("nm,nm->m", left @ seen, left @ (seen - hsi @ PM.T)) / free
    shrunk = np.eye(E.shape[1]) - np.linalg.inv(X.T @ X / len(X))
    response = (PM * sigma) @ E
    return (product - np.einsum("mp,pq,mq->m", response, shrunk, response)) / share


@pytest.mark.parametrize("unit", [1.0, 300.0])
def test_the_variance_is_that_of_the_definition(unit):
    problem = textured(0, 0.05, unit=unit)
    noise = noise_of(problem)
    E = noise.spectrum.vectors[:, :3]
    found = variance_by_agreement(agreement_of(problem), noise.hsi_floored, E)
    expected = by_definition(problem, noise.hsi_floored, E)
    np.testing.assert_allclose(found.unit**2 * found.variance, expected, rtol=1e-8)


def test_texture_is_not_taken_for_noise():
    found = [noise_of(textured(seed, 0.02)).msi / 0.02 for seed in range(6)]
    alone = estimate_noise(textured(0, 0.02).msi, kind="few") / 0.02
    assert alone.max() > 3.0
    assert 0.95 < np.median(found) < 1.15
    assert np.min(found) > 0.8
    assert np.max(found) < 1.4


def test_its_standard_error_is_the_true_one():
    estimates, deviations = [], []
    for seed in range(40):
        problem = textured(seed, 0.05)
        noise = noise_of(problem)
        by_both = variance_by_agreement(agreement_of(problem), noise.hsi_floored, noise.spectrum.vectors[:, :5])
        estimates.append(by_both.unit**2 * by_both.variance)
        deviations.append(by_both.unit**2 * np.sqrt(np.diag(by_both.covariance)))
    assert np.mean(estimates) == pytest.approx(0.05**2, rel=0.1)
    assert np.std(estimates, axis=0).mean() == pytest.approx(np.mean(deviations), rel=0.3)


def test_right_operators_agree_and_wrong_ones_do_not():
    problem = textured(0, 0.01)
    assert not noise_of(problem).disagreement.any()
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
    for wrong in (Degradation(P1, P2, PM[::-1]), Degradation(P1[:, ::-1], P2, PM), Degradation(1.1 * P1, P2, PM)):
        noise = noise_of(Problem(problem.hsi, problem.msi, wrong))
        assert noise.disagreement.max() > 0.02
        # What they say of noise is more than there is: it is found no smaller.
        assert (noise.msi >= 0.9 * noise_of(problem).msi).all()


def estimated(problem, errors, seed=0):
    """A problem with a response that is a little wrong about the scene, as one that was estimated is."""
    PM = problem.degradation.PM.toarray()
    PM = PM * (1.0 + errors * np.random.default_rng(seed).standard_normal(PM.shape))
    return Problem(problem.hsi, problem.msi, Degradation(problem.degradation.P1, problem.degradation.P2, PM))


def test_a_response_that_is_a_little_wrong_is_not_taken_for_noise():
    ratios = np.array([noise_of(estimated(textured(seed, 0.02), 0.003, seed)).msi / 0.02 for seed in range(6)])
    assert 0.9 < np.median(ratios)
    assert np.max(ratios) < 1.6


def test_what_the_images_disagree_about_is_added_to_the_noise_and_no_more():
    problem = textured(0, 0.02)
    found = noise_of(estimated(problem, 0.05))
    assert found.disagreement.any()
    np.testing.assert_allclose(found.msi**2, noise_of(problem).msi ** 2 + found.disagreement**2, rtol=0.01)


def test_images_that_no_response_reconciles_have_the_bound_of_their_noise():
    problem = textured(0, 0.02)
    of_its_own = np.kron(np.random.default_rng(1).standard_normal((9, 8, BANDS)), np.ones((8, 8, 1)))
    msi = problem.msi + 0.1 * of_its_own
    noise = noise_of(Problem(problem.hsi, msi, problem.degradation))
    bounds = np.array([estimate_noise(msi[:, :, [band]], kind="few")[0] for band in range(BANDS)])
    # More than the noise that they have of themselves and what they disagree about, in all bands but the textured one.
    assert (noise.disagreement[1:] > 0.0).all()
    assert (bounds[1:] ** 2 > 0.02**2 + 1.5 * noise.disagreement[1:] ** 2).all()
    np.testing.assert_allclose(noise.msi[1:], bounds[1:], rtol=1e-6)


def test_pixels_without_data_have_no_part_in_it():
    problem = textured(0, 0.02)
    valid = np.ones(problem.msi.shape[:2], bool)
    valid[10:14, 20:25] = False
    spoilt = np.where(valid[:, :, None], problem.msi, 1e6)
    masked = noise_of(Problem(problem.hsi, spoilt, problem.degradation, msi_valid=valid))
    np.testing.assert_allclose(masked.msi, noise_of(problem).msi, rtol=0.1)
    assert not masked.disagreement.any()


@pytest.mark.parametrize("gaps", [False, True])
def test_differences_are_those_between_neighbours_that_have_data(gaps):
    rng = np.random.default_rng(0)
    image, valid = rng.random((5, 6, 3)), np.ones((5, 6, 3), bool)
    if gaps:
        valid[2, 3], valid[0, 0] = False, False
    expected, count = np.zeros((3, 3)), 0
    for i in range(5):
        for j in range(6):
            for k, m in ((i + 1, j), (i, j + 1)):
                if k < 5 and m < 6 and valid[i, j].all() and valid[k, m].all():
                    step = image[k, m] - image[i, j]
                    expected, count = expected + np.outer(step, step), count + 1
    found = difference_moments(np.where(valid, image, 0.0), valid if gaps else None)
    assert found.count == count
    np.testing.assert_allclose(found.second, expected, rtol=1e-12)


def test_texture_in_one_band_leaves_the_others_no_smaller():
    ratios = np.array([noise_of(textured(seed, 0.02)).msi / 0.02 for seed in range(8)])
    assert np.median(ratios, axis=0).min() > 0.95


def few_banded(seed, sigma):
    """An HSI of eight bands: five strong signals, and faint ones in what is left of them, which look like noise."""
    rng = np.random.default_rng(seed)
    operators = blur(SHAPE[0]), blur(SHAPE[1]), band_means(8, 3)
    sizes = np.array([1.0, 0.5, 0.5, 0.3, 0.2, 0.02, 0.02, 0.02])
    scene = (rng.random((*SHAPE[:2], 8)) * sizes) @ np.linalg.qr(rng.standard_normal((8, 8)))[0]
    images = (image + sigma * rng.standard_normal(image.shape) for image in observe(scene, *operators))
    return Problem(*images, Degradation(*operators))


def test_an_hsi_of_few_bands_does_not_make_the_msi_seem_free_of_noise():
    ratios = np.array([noise_of(few_banded(seed, 0.003)).msi / 0.003 for seed in range(8)])
    assert np.median(ratios) > 0.7


def test_the_hsi_has_no_more_noise_than_the_images_differ_by():
    problem = few_banded(0, 0.003)
    noise = noise_of(problem)
    E = noise.spectrum.vectors[:, :4]
    agreement = agreement_of(problem)
    assert variance_by_agreement(agreement, noise.hsi_floored, E).excess() < 1.1
    assert variance_by_agreement(agreement, 10.0 * noise.hsi_floored, E).excess() > 50.0
