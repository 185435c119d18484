"""What is expected beyond the samples of a fit: detail that the maps lack; and maps that only the MSI shows."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from fastccpd import Problem
from fastccpd.estimation import noise_of, subspace_of
from fastccpd.estimation.map_data import Blur, MapData, WhitenedImage
from fastccpd.estimation.missing_detail import missing_detail
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


def test_a_scene_has_no_fewer_spectra_than_a_clear_msi_shows():
    """Of five materials, an HSI at 0 dB shows fewer than an MSI at 20 dB."""
    both, clear = simulated("synthetic", 0.0, 0), simulated("synthetic:clear-msi", 10.0, 0)
    signals = [noise_of(Problem(c.hsi, c.msi, c.degradation)).spectrum.signals for c in (both, clear)]
    assert signals[0] < signals[1] <= 6
