"""Spectra of shades: what dark pixels have beside the spectra of the maps."""

import numpy as np
import pytest
from scenery import band_means, blur, observe

from fastccpd import Degradation, Problem, fuse
from fastccpd.estimation import shades
from fastccpd.estimation.map_data import Blur, MapData, WhitenedImage
from fastccpd.estimation.shades import shades_of
from fastccpd.imaging import metrics
from fastccpd.testing import simulated

SHAPE, BANDS = (28, 20, 31), 5


def scene_of(dark, seed=0, sigma=0.5, valid=None):
    """The quadratic of a scene of one map, its maps, the scene; its left half is dark, and has a spectrum beside."""
    rng = np.random.default_rng(seed)
    operators = blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], BANDS)
    Z = np.ones((*SHAPE[:2], 1)) + 0.1 * rng.random((*SHAPE[:2], 1))
    Z[:, : SHAPE[1] // 2] *= 0.1
    F = 3.0 + np.sin(np.linspace(0.0, 3.0, SHAPE[2]))[:, None]
    scene = Z @ F.T
    scene[:, : SHAPE[1] // 2] += dark
    sigmas = sigma, 0.5 * sigma
    hsi, msi = (x + s * rng.standard_normal(x.shape) for x, s in zip(observe(scene, *operators), sigmas))
    problem = Problem(hsi, msi, Degradation(*operators), msi_valid=valid)
    images = (
        WhitenedImage(image, np.full(image.shape[2], s), has)
        for image, s, has in zip((hsi, problem.msi), sigmas, (None, problem.msi_valid))
    )
    data = MapData(*images, Blur(problem.degradation), problem.degradation.PM, F / sigma)
    return data, Z * (F / sigma / data.F)[0, 0], scene


def slope(size):
    return size * np.linspace(-1.0, 1.0, SHAPE[2])


def test_a_spectrum_that_only_dark_pixels_have_is_found():
    data, Z, scene = scene_of(slope(0.3))
    found = shades_of(Z, data)
    assert found is not None
    G, D = found
    assert G.shape[:2] == SHAPE[:2]
    assert G.dtype == np.float32
    np.testing.assert_allclose(G.sum(axis=2), 1.0, rtol=1e-6)
    without, having = (data.hsi.sigma * (Z @ data.F.T + more) for more in (0.0, G @ D.T))
    dark = np.s_[:, : SHAPE[1] // 2]
    assert np.square(having - scene)[dark].sum() < 0.5 * np.square(without - scene)[dark].sum()
    assert metrics.sam(having[dark], scene[dark]) < 0.6 * metrics.sam(without[dark], scene[dark])


@pytest.mark.parametrize("seed", range(8))
def test_noise_has_no_shades(seed):
    data, Z, _ = scene_of(0.0, seed)
    assert shades_of(Z, data) is None


def test_images_with_gaps_and_flat_or_empty_maps_have_none():
    valid = np.ones((*SHAPE[:2], BANDS), bool)
    valid[3, 4, 1] = False
    data, Z, _ = scene_of(slope(0.3), valid=valid)
    assert shades_of(Z, data) is None
    data, Z, _ = scene_of(slope(0.3))
    assert shades_of(np.zeros_like(Z), data) is None
    assert shades_of(np.ones_like(Z), data) is None


def test_the_spectra_are_those_of_largest_evidence_of_the_dense_model():
    """Every number of both images as a linear function of the cosines' weights, beyond the span of the spectra."""
    data, Z, _ = scene_of(slope(0.4), seed=5)
    G, D = shades_of(Z, data)
    count = G.shape[2]
    B = shades._likely(Z, data.F)
    beyond = [np.eye(len(R)) - R @ np.linalg.pinv(R) for R in (data.F, data.R)]
    P1, P2 = (P.toarray() * np.sqrt(data.blur.size) for P in data.blur.operators)
    coarse = np.einsum("ia,abc,jb->ijc", P1, G.astype(np.float64), P2).reshape(-1, count)
    fine = G.reshape(-1, count).astype(np.float64)
    A = np.concatenate([np.kron(coarse, beyond[0] @ B), np.kron(fine, beyond[1] @ data.response @ B)])
    y = np.concatenate([((x.image / x.sigma) @ O).ravel() for x, O in zip((data.hsi, data.msi), beyond)])
    b = np.sqrt(np.square(Z @ data.F.T).mean(axis=2))
    low, high = np.quantile(b, (0.01, 0.9))
    brightness = np.geomspace(low, high, count) / np.sqrt(np.square(b).mean())
    falls = 1.0 / (1.0 + (np.arange(B.shape[1]) / 2.0) ** 2)
    prior = np.kron(brightness**2, falls / falls.sum())
    best, W = -np.inf, None
    for strength in np.geomspace(1e-5, 1.0, 11):
        precision = A.T @ A + np.diag(1.0 / (strength * prior))
        mean = np.linalg.solve(precision, A.T @ y)
        evidence = 0.5 * (y @ A @ mean - np.linalg.slogdet(precision)[1] - np.log(strength * prior).sum())
        if evidence > best:
            best, W = evidence, mean.reshape(count, -1)
    assert best > 2.0
    expected = B @ W.T
    back = D - expected
    np.testing.assert_allclose(beyond[0] @ back, 0.0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(beyond[0] @ D, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    share = len(coarse) / len(fine)
    taken = np.linalg.pinv(data.F) @ back
    gradient = data.R.T @ (data.response @ expected + data.R @ taken) + share * data.F.T @ (data.F @ taken)
    scale = np.abs(data.R.T @ data.response @ expected).max()
    np.testing.assert_allclose(gradient, 0.0, atol=1e-3 * scale)


def test_a_dark_sea_keeps_its_spectrum_at_zero_decibels(data_folder):
    case = simulated("moffett", 0.0, 0)

    result = fuse(case.hsi, case.msi, case.degradation, method="tv-maps")
    assert metrics.sam(result.sri, case.truth) < 16.0
    assert metrics.rsnr(result.sri, case.truth) > 15.2
