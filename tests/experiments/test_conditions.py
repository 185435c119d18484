"""Scenes under other conditions: what of a case they change, and what they leave."""

import numpy as np
import pytest

from fastccpd.testing import simulated
from fastccpd.testing.conditions import CONDITIONS


def noise_of(name, level=25.0):
    """The noise of both images of a case."""
    noisy, clean = simulated(name, level, 0), simulated(name, None, 0)
    return noisy.hsi - clean.hsi, noisy.msi - clean.msi


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_case_of_every_condition_fits_its_operators(name):
    case = simulated(f"synthetic:{name}", 25.0, 0)
    assert case.scene == f"synthetic:{name}"
    assert case.degradation.sri_shape == case.truth.shape
    assert (case.hsi.shape, case.msi.shape) == (case.degradation.hsi_shape, case.degradation.msi_shape)


def test_the_bands_are_as_many_as_the_name_says():
    assert [simulated(f"synthetic:{n}-bands", None, 0).msi.shape[2] for n in (4, 10)] == [4, 10]


def test_sides_are_not_divided_by_the_ratio():
    assert all(size % 4 for size in simulated("synthetic:odd-sides", None, 0).truth.shape[:2])


def test_one_image_is_clearer_than_the_other():
    for name, difference in (("clear-msi", 20.0), ("clear-hsi", -20.0)):
        case, (hsi, msi) = simulated(f"synthetic:{name}", None, 0), noise_of(f"synthetic:{name}")
        ratios = [10.0 * np.log10(np.mean(i**2) / np.mean(n**2)) for i, n in ((case.hsi, hsi), (case.msi, msi))]
        assert ratios[1] - ratios[0] == pytest.approx(difference, abs=0.2)


def test_uneven_noise_differs_by_band_and_is_as_much_in_all():
    even, uneven = noise_of("synthetic")[0], noise_of("synthetic:uneven-noise")[0]
    sizes = uneven.std(axis=(0, 1))
    assert sizes.max() > 6.0 * sizes.min()
    assert uneven.std() == pytest.approx(even.std(), rel=0.05)


def test_only_the_given_blur_is_wrong():
    true, wrong = (simulated(f"synthetic:{name}", 25.0, 0) for name in ("whole-blur", "wide-blur"))
    np.testing.assert_array_equal(true.hsi, wrong.hsi)
    assert abs(true.degradation.P1 - wrong.degradation.P1).max() > 0.01


def test_a_truncated_scene_has_so_many_spectra():
    cube = simulated("synthetic:rank-30", None, 0).truth
    assert np.linalg.matrix_rank(cube.reshape(-1, cube.shape[2]), tol=1e-8) <= 30


@pytest.mark.parametrize("name", ["synthetic:nothing", "synthetic:"])
def test_an_unknown_condition_is_one_sentence(name):
    with pytest.raises(ValueError, match="condition: got"):
        simulated(name, None, 0)


def test_a_pair_knows_no_conditions():
    with pytest.raises(ValueError, match="the MSI of a pair was measured"):
        simulated("paris-pair:shifted", None, 0)
