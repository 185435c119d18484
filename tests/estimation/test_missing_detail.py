"""What is expected beyond the samples of a fit: detail that the maps lack; and maps that only the MSI shows."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from fastccpd import Problem
from fastccpd.estimation import noise_of, subspace_of
from fastccpd.estimation.map_data import Blur, MapData, WhitenedImage
from fastccpd.estimation.missing_detail import missing_detail, unmapped
from fastccpd.testing import simulated


@pytest.fixture(scope="module")
def case():
    return simulated("synthetic", 40.0, 0)


def data_and_maps(case, valid=None, unit=1.0):
    """The quadratic of a case in some unit, its differences, and the maps of the true scene."""
    problem = Problem(unit * case.hsi, unit * case.msi, case.degradation, msi_valid=valid)
    noise = noise_of(problem)
    subspace = subspace_of(problem, noise)
    hsi = WhitenedImage(problem.hsi, subspace.hsi, problem.hsi_valid)
    msi = WhitenedImage(problem.msi, subspace.msi, problem.msi_valid)
    data = MapData(hsi, msi, Blur(problem.degradation), problem.degradation.PM, subspace.F)
    return data, noise.differences.divided(subspace.hsi), (unit * case.truth / subspace.hsi) @ np.linalg.pinv(data.F).T


def missing(data, differences, Z):
    return missing_detail(Z, data.blur.coarse(Z), data, differences)


class TestMissingDetail:
    def test_true_maps_lack_little_and_smooth_ones_much(self, case):
        data, differences, Z = data_and_maps(case)
        smooth = gaussian_filter(Z, (2.0, 2.0, 0.0))
        of_true, of_smooth = (missing(data, differences, maps).mean() for maps in (Z, smooth))
        assert of_smooth > 4.0 * of_true
        lost = np.mean(np.square((Z - smooth) @ data.F.T * data.hsi.sigma))
        assert 0.02 * lost < of_smooth < lost

    def test_is_in_the_units_of_the_image(self, case):
        found = [missing(*x) for x in (data_and_maps(case), data_and_maps(case, unit=1000.0))]
        np.testing.assert_allclose(found[1], 1e6 * found[0], rtol=1e-6)

    def test_is_not_counted_where_the_msi_has_gaps(self, case):
        valid = np.ones(case.msi.shape, bool)
        valid[:5, :5, 0] = False
        data, differences, Z = data_and_maps(case, valid)
        assert not missing(data, differences, Z).any()

    def test_is_counted_in_led_maps_by_what_regressions_leave(self, case):
        data, differences, Z = data_and_maps(case)
        Z, maps = gaussian_filter(Z, (2.0, 2.0, 0.0)), np.arange(Z.shape[2])
        every = missing(data, differences, Z)

        def of_led(left):
            data.led_maps, data.left = maps[1:], left
            return missing(data, differences, Z)

        quarter, half, none = map(of_led, (0.25, 0.5, 0.0))
        np.testing.assert_allclose(none, 2.0 * quarter - half, atol=1e-9 * every.max())
        assert 0.0 < half.mean() < every.mean()


class TestUnmapped:
    def few(self, case, spectra, valid=None, unit=1.0):
        """The quadratic of a case with the first of its spectra alone, and the true maps of these."""
        problem = Problem(unit * case.hsi, unit * case.msi, case.degradation, msi_valid=valid)
        noise = noise_of(problem)
        pixels = (unit * case.truth / noise.hsi_floored).reshape(-1, case.truth.shape[2])
        F = np.linalg.svd(pixels, full_matrices=False)[2][:spectra].T
        hsi = WhitenedImage(problem.hsi, noise.hsi_floored, problem.hsi_valid)
        msi = WhitenedImage(problem.msi, noise.msi_floored, problem.msi_valid)
        data = MapData(hsi, msi, Blur(problem.degradation), problem.degradation.PM, F)
        return data, (pixels @ np.linalg.pinv(data.F).T).reshape(*case.truth.shape[:2], -1)

    def test_is_what_the_maps_cannot_have_but_for_a_factor_of_three(self):
        case = simulated("synthetic", 10.0, 0)
        for spectra in (1, 2):
            data, Z = self.few(case, spectra)
            left = np.mean(np.square(case.truth - data.hsi.sigma * (Z @ data.F.T)))
            assert left < 3.0 * unmapped(Z, data).mean() < 9.0 * left

    def test_matches_the_definition(self):
        case = simulated("synthetic", 10.0, 0)
        data, Z = self.few(case, 2)
        R, gains = data.R, abs(case.degradation.PM).toarray().sum(axis=1)
        x = data.msi.sigma * ((case.msi / data.msi.sigma) @ (np.eye(len(R)) - R @ np.linalg.pinv(R))) / gains
        pairs = np.concatenate([(a * b).reshape(-1, len(R)) for a, b in ((x[1:], x[:-1]), (x[:, 1:], x[:, :-1]))])
        bright = np.square(data.hsi.sigma * (Z @ data.F.T)).mean(axis=(0, 1))
        expected = 0.75 * pairs.mean() * len(R) / (len(R) - 2) * bright / bright.mean()
        np.testing.assert_allclose(unmapped(Z, data), expected, rtol=1e-6)

    def test_noise_is_not_counted_and_units_do_not_matter(self):
        case = simulated("synthetic", 10.0, 0)
        found = [unmapped(Z, data) for data, Z in (self.few(case, 2), self.few(case, 2, unit=1000.0))]
        np.testing.assert_allclose(found[1], 1e6 * found[0], rtol=1e-6)
        data, Z = self.few(case, 5)
        assert unmapped(Z, data).mean() < 0.01 * np.mean(np.square(data.msi.sigma))

    def test_is_nothing_where_maps_are_as_many_as_bands_or_the_msi_has_gaps(self):
        case = simulated("synthetic", 10.0, 0)
        data, Z = self.few(case, len(case.degradation.PM.toarray()))
        assert not unmapped(Z, data).any()
        valid = np.ones(case.msi.shape, bool)
        valid[:5, :5, 0] = False
        data, Z = self.few(case, 2, valid)
        assert not unmapped(Z, data).any()


def test_a_scene_has_no_fewer_spectra_than_a_clear_msi_shows():
    """Of five materials, an HSI at 0 dB shows fewer than an MSI at 20 dB."""
    both, clear = simulated("synthetic", 0.0, 0), simulated("synthetic:clear-msi", 10.0, 0)
    signals = [noise_of(Problem(c.hsi, c.msi, c.degradation)).spectrum.signals for c in (both, clear)]
    assert signals[0] < signals[1] <= 6
