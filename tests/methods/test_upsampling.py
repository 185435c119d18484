"""The interpolation of the HSI to the MSI's pixels: where each pixel sits, periodic or not."""

import numpy as np
import pytest
from rival_scenes import rivals_golden
from scenery import blur
from scipy import ndimage
from scipy.interpolate import CubicSpline

from fastccpd import Degradation
from fastccpd.imaging import gaussian
from fastccpd.methods._upsampling import sums_of_weights, upsampling

PM = np.ones((1, 2))


def test_golden_digits():
    problem = rivals_golden()
    image = upsampling(problem.degradation).image(problem.hsi)
    assert np.sum(problem.hsi**2) == pytest.approx(423.1280459, rel=1e-9)
    assert np.sum(problem.msi**2) == pytest.approx(20026.65575, rel=1e-9)
    assert np.sum(image**2) == pytest.approx(6768.917404, rel=1e-9)
    assert image[0, 0, 0] == pytest.approx(2.24688233, rel=1e-8)


@pytest.mark.parametrize(("ratio", "phases"), [(4, (3, 1)), (2, (0, 1)), (3, (2, 0))])
def test_under_a_periodic_blur_it_is_scipys_periodic_spline_at_the_phase(ratio, phases):
    shape = 5 * ratio, 7 * ratio
    coarse = np.random.default_rng(0).standard_normal((5, 7))
    places = [(np.arange(n) - phase) / ratio for n, phase in zip(shape, phases)]
    expected = ndimage.map_coordinates(coarse, np.meshgrid(*places, indexing="ij"), order=3, mode="grid-wrap")
    P1, P2 = (blur(n, ratio, phase) for n, phase in zip(shape, phases))
    np.testing.assert_allclose(upsampling(Degradation(P1, P2, PM)).maps(coarse), expected, atol=1e-12)


def test_maps_images_and_blocks_of_rows_agree():
    up = upsampling(Degradation(blur(20), gaussian((24, 27), 3, boundary="reflect")[1], PM))
    image = np.random.default_rng(0).standard_normal((5, 9, 3))
    expected = np.moveaxis(up.maps(np.moveaxis(image, 2, 0)), 0, 2)
    np.testing.assert_allclose(up.image(image), expected, atol=1e-13)
    np.testing.assert_allclose(up.at(slice(3, 11), slice(None)).image(image), expected[3:11], atol=1e-13)


def test_without_a_period_pixels_sit_at_their_centres_of_gravity_and_the_ends_are_constant():
    P = gaussian((27, 27), 4, boundary="reflect")[0].toarray()  # 4 does not divide 27
    places = P @ np.arange(27) / P.sum(axis=1)
    T = upsampling(Degradation(P, P, PM)).rows.matrix
    line = np.random.default_rng(0).standard_normal(len(P))
    expected = CubicSpline(places, line)(np.clip(np.arange(27), places[0], places[-1]))
    np.testing.assert_allclose(T @ line, expected, atol=1e-13)
    outside = np.arange(27) > places[-1]
    assert outside.any()
    np.testing.assert_allclose((T @ line)[outside], line[-1], atol=1e-13)


@pytest.mark.parametrize("boundary", ["periodic", "reflect"])
def test_a_constant_stays_a_constant(boundary):
    P1, P2 = gaussian((24, 20), 4, boundary=boundary)
    np.testing.assert_allclose(upsampling(Degradation(P1, P2, PM)).maps(np.ones((6, 5))), 1.0, atol=1e-13)


def test_every_operator_has_an_interpolation():
    rng = np.random.default_rng(0)
    twice = np.eye(6)[[0, 0, 4]]  # two rows at one place
    signed = np.array([[1.0, -1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]])  # the first has no place
    for P in (twice, signed, -np.abs(rng.random((3, 6))), rng.standard_normal((4, 9)), np.ones((1, 6)), twice[::-1]):
        T = upsampling(Degradation(P, P, PM)).rows.matrix
        assert T.shape == P.shape[::-1]
        np.testing.assert_allclose(T @ sums_of_weights(Degradation(P, P, PM).P1), 1.0, atol=1e-12)
    np.testing.assert_allclose(upsampling(Degradation(twice, twice, PM)).rows.matrix[0], [0.5, 0.5, 0.0])
    np.testing.assert_allclose(upsampling(Degradation(signed, signed, PM)).rows.matrix[:, 0], 0.0)
