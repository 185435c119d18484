"""A blur that is not that of the images: how it is told from a wrong response, and what the fit makes of it."""

from dataclasses import replace

import numpy as np
import pytest

from fastccpd import Degradation, Problem
from fastccpd.estimation import fit_maps, noise_of, subspace_of
from fastccpd.estimation.map_data import WhitenedImage
from fastccpd.estimation.misplacement import _derivatives
from fastccpd.imaging import gaussian, metrics
from fastccpd.testing import simulated


def noise_with(case, PM=None):
    given = case.degradation
    given = given if PM is None else Degradation(given.P1, given.P2, PM)
    return noise_of(Problem(case.hsi, case.msi, given))


class TestDerivatives:
    @pytest.mark.parametrize("boundary", ["periodic", "zero"])
    def test_are_those_of_a_gaussian(self, boundary):
        def rows(sigma=1.7, phase=3.0):
            return gaussian((36, 36), 4, sigma=sigma, phase=phase, boundary=boundary, coarse=(9, 9))[0].toarray()

        h = 1e-4
        slope, curve = (P.toarray() for P in _derivatives(gaussian((36, 36), 4, sigma=1.7, boundary=boundary)[0]))
        by_shift = (rows(phase=3.0 + h) - rows(phase=3.0 - h)) / (2.0 * h)
        by_width = (rows(sigma=1.7 + h) - rows(sigma=1.7 - h)) / (2.0 * h) / 1.7
        whole = slice(2, 7)  # rows that no edge cuts
        np.testing.assert_allclose(slope[whole], by_shift[whole], atol=2e-3)
        np.testing.assert_allclose(curve[whole], by_width[whole], atol=2e-3)
        if boundary == "periodic":  # a row that wraps round is as good as any other
            np.testing.assert_allclose(slope[0], np.roll(slope[4], -16), atol=1e-12)

    def test_of_a_blur_of_one_tap_are_nothing(self):
        slope, curve = _derivatives(gaussian((8, 8), 2, kernel=1)[0])
        assert not slope.toarray().any()
        assert not curve.toarray().any()


class TestTheCause:
    @pytest.mark.parametrize("condition", ["shifted", "wide-blur", "narrow-blur"])
    def test_a_misplaced_blur_is_found(self, condition):
        noise = noise_with(simulated(f"synthetic:{condition}", 40.0, 0))
        assert noise.misplacement.any()
        ratio = np.sqrt(np.mean(noise.misplacement**2) / np.mean(noise.disagreement**2))
        assert 0.8 < ratio < 1.3

    def test_the_true_blur_is_not_doubted(self):
        for level in (10.0, 40.0, None):
            assert not noise_with(simulated("synthetic:whole-blur", level, 0)).misplacement.any()

    def test_a_wrong_response_is_no_misplaced_blur(self):
        case = simulated("synthetic", 40.0, 0)
        PM = case.degradation.PM.toarray()
        noise = noise_with(case, PM * (1.0 + 0.05 * np.cos(np.arange(len(PM))))[:, None])
        assert noise.disagreement.any()
        assert not noise.misplacement.any()


def test_the_metric_is_the_inverse_of_the_covariance_of_the_bands_that_there_are():
    rng = np.random.default_rng(0)
    image, sigma, L = rng.standard_normal((5, 6, 9)), rng.uniform(0.5, 2.0, 9), rng.standard_normal((9, 3))
    R, Z, valid = rng.standard_normal((9, 2)), rng.standard_normal((5, 6, 2)), rng.random((5, 6, 9)) < 0.8
    image *= valid
    whitened = WhitenedImage(image, sigma, valid, L)
    chi2 = energy = 0.0
    for i, j in np.ndindex(5, 6):
        has = valid[i, j]
        metric = np.linalg.inv(np.eye(has.sum()) + L[has] @ L[has].T)
        y = (image[i, j] / sigma)[has]
        left = y - R[has] @ Z[i, j]
        chi2, energy = chi2 + left @ metric @ left, energy + y @ metric @ y
        kind = whitened.kinds[i, j]
        np.testing.assert_allclose(whitened.grams(R)[kind], R[has].T @ metric @ R[has], atol=1e-10)
        np.testing.assert_allclose(whitened.seen_by(R, np.s_[i : i + 1])[0, j], R[has].T @ metric @ y, atol=1e-10)
    found, plain = whitened.residual2(Z, R)
    assert found == pytest.approx(chi2)
    assert whitened.energy == pytest.approx(energy)
    assert plain == pytest.approx(np.square((image - Z @ (sigma[:, None] * R).T) * valid).sum())


def test_half_a_pixel_costs_little():
    true, case = (simulated(f"synthetic:{name}", 40.0, 0) for name in ("whole-blur", "shifted"))

    def score(case, doubt=True):
        problem = Problem(case.hsi, case.msi, case.degradation)
        noise = noise_of(problem)
        subspace = subspace_of(problem, noise)
        fit = fit_maps(problem, noise, subspace if doubt else replace(subspace, mismatch=None), errors=False)
        return metrics.rsnr(np.maximum(fit.Z @ fit.S.T, 0.0), case.truth)

    doubted = score(case)
    assert doubted > score(true) - 4.0
    assert doubted > score(case, doubt=False) + 6.0
