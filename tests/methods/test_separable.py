"""The separable blur on stacks of maps against dense Kronecker matrices."""

import numpy as np
import pytest
from scenery import band_means, blur

from fastccpd import Degradation
from fastccpd.methods._separable import SeparableBlur


def operators(kind):
    """P1 and P2: a periodic blur, one that no ratio divides, one without full rank, one with no loss."""
    rng = np.random.default_rng(0)
    if kind == "blur":
        return blur(12, 4), blur(8, 2, 1)
    if kind == "odd":
        return rng.standard_normal((5, 13)), rng.standard_normal((3, 8))
    if kind == "deficient":
        return np.vstack([np.ones((2, 7)), np.arange(7.0)]), np.ones((2, 5))
    return np.eye(6), rng.standard_normal((4, 4))


@pytest.fixture(params=["blur", "odd", "deficient", "square"])
def pair(request):
    P1, P2 = operators(request.param)
    return SeparableBlur(Degradation(P1, P2, band_means(6, 2))), P1, P2


def test_maps_are_seen_and_sent_back_as_by_the_matrices(pair):
    P, P1, P2 = pair
    rng = np.random.default_rng(1)
    fine, coarse = rng.standard_normal((3, P1.shape[1], P2.shape[1])), rng.standard_normal((3, len(P1), len(P2)))
    np.testing.assert_allclose(P.see(fine), P1 @ fine @ P2.T, atol=1e-12)
    np.testing.assert_allclose(P.back(coarse), P1.T @ coarse @ P2, atol=1e-12)


@pytest.mark.parametrize("c", [1.0, 2.0, 0.0])
@pytest.mark.parametrize("mu", [1e-4, 0.3, (0.1, 1e-4, 7.0)])
def test_the_solve_is_that_of_the_dense_system(pair, c, mu):
    P, P1, P2 = pair
    B = np.random.default_rng(2).standard_normal((3, P1.shape[1], P2.shape[1]))
    whole = np.kron(P1, P2)
    given = B.copy()
    found = P.solve(given, np.asarray(mu), c)
    for Z, b, mu_n in zip(found, B, np.broadcast_to(mu, 3)):
        expected = np.linalg.solve(c * whole.T @ whole + mu_n * np.eye(b.size), b.ravel()).reshape(b.shape)
        np.testing.assert_allclose(Z, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_array_equal(given, B)


def test_the_solve_may_overwrite_its_right_side(pair):
    P, P1, P2 = pair
    B = np.random.default_rng(2).standard_normal((3, P1.shape[1], P2.shape[1]))
    expected = P.solve(B, 0.1)
    assert P.solve(B, 0.1, out=B) is B
    np.testing.assert_array_equal(B, expected)


def test_the_pseudo_inverse_is_that_of_the_matrices(pair):
    P, P1, P2 = pair
    Y = np.random.default_rng(3).standard_normal((2, len(P1), len(P2)))
    np.testing.assert_allclose(P.pseudo_inverse(Y), np.linalg.pinv(P1) @ Y @ np.linalg.pinv(P2).T, atol=1e-9)


@pytest.mark.parametrize("c", [1.0, 2.0])
@pytest.mark.parametrize("mu", [1e-4, (0.1, 1e-4, 7.0)])
def test_cubes_are_solved_like_their_bands(pair, c, mu):
    P, P1, P2 = pair
    B = np.random.default_rng(2).standard_normal((P1.shape[1], P2.shape[1], 3))
    expected = np.moveaxis(P.solve(np.moveaxis(B, 2, 0), np.asarray(mu), c), 0, 2)
    given = B.copy()
    np.testing.assert_allclose(P.solve_cube(given, np.asarray(mu), c), expected, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_array_equal(given, B)
    np.testing.assert_array_equal(P.solve_cube(given, np.asarray(mu), c, out=given), given)
    np.testing.assert_allclose(given, expected, atol=1e-10 * np.abs(expected).max())


def test_cubes_are_seen_and_sent_back_like_their_bands(pair):
    P, P1, P2 = pair
    rng = np.random.default_rng(1)
    fine, coarse = rng.standard_normal((P1.shape[1], P2.shape[1], 3)), rng.standard_normal((len(P1), len(P2), 3))
    np.testing.assert_allclose(P.see_cube(fine), np.moveaxis(P.see(np.moveaxis(fine, 2, 0)), 0, 2), atol=1e-12)
    np.testing.assert_allclose(P.back_cube(coarse), np.moveaxis(P.back(np.moveaxis(coarse, 2, 0)), 0, 2), atol=1e-12)
