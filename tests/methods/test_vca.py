"""Vertex component analysis in both forms, and the threshold between them; `test_hysure` has more on the affine one."""

import numpy as np
import pytest

from fastccpd.methods._vca import THRESHOLDS, vertices


def mixtures(seed=3, pixels=400, bands=12, count=4):
    """(spectra, pixels) of which the first `count` are pure; each pixel is lit by another amount."""
    rng = np.random.default_rng(seed)
    spectra = 0.2 + rng.random((count, bands))
    abundances = np.vstack([np.eye(count), rng.dirichlet(np.full(count, 0.5), pixels)])
    return spectra, rng.uniform(0.3, 1.0, (len(abundances), 1)) * abundances @ spectra


def angles(found, spectra):
    """Between each spectrum and the nearest vertex, in degrees."""
    unit = found / np.linalg.norm(found, axis=0)
    cosines = (spectra / np.linalg.norm(spectra, axis=1, keepdims=True)) @ unit
    return np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0))).min(axis=1)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_clean_pixels_under_uneven_light_need_the_projective_form(threshold):
    spectra, pixels = mixtures()
    assert angles(vertices(pixels, 4, threshold=threshold), spectra).max() < 1e-4
    assert angles(vertices(pixels, 4), spectra).max() > 1.0


def test_vertices_of_the_projective_form_are_pixels_in_the_subspace_of_all():
    _, pixels = mixtures()
    pixels = pixels + 1e-4 * np.random.default_rng(0).standard_normal(pixels.shape)
    axes = np.linalg.svd(pixels, full_matrices=False)[2][:4]
    projected = pixels @ axes.T @ axes
    for vertex in vertices(pixels, 4, threshold="nascimento", runs=1).T:
        assert np.abs(projected - vertex).max(axis=1).min() < 1e-12


@pytest.mark.parametrize(
    ("snr", "projective"),
    [
        (20.0, {"nascimento": False, "toolbox": False}),
        (28.0, {"nascimento": True, "toolbox": False}),
        (45.0, {"nascimento": True, "toolbox": True}),
    ],
)
def test_the_form_follows_the_snr(snr, projective):
    """For 4 vertices the thresholds are 21 and 36.9 dB."""
    rng = np.random.default_rng(0)
    _, pixels = mixtures(pixels=4000, bands=50)
    noise = rng.standard_normal(pixels.shape)
    pixels = pixels + noise * np.sqrt(np.mean(pixels**2) / np.mean(noise**2)) * 10 ** (-snr / 20)
    affine = vertices(pixels, 4)
    for threshold, expected in projective.items():
        assert np.array_equal(vertices(pixels, 4, threshold=threshold), affine) != expected


def test_the_toolbox_takes_the_snr_without_its_sign():
    """Pixels that are nearly all noise have an SNR far below zero, which it takes for one far above."""
    pixels = np.random.default_rng(1).standard_normal((100_000, 20))
    mean = vertices(pixels, 1, runs=1)
    np.testing.assert_array_equal(vertices(pixels, 1, threshold="nascimento", runs=1), mean)
    assert not np.array_equal(vertices(pixels, 1, threshold="toolbox", runs=1), mean)


def test_a_generator_of_the_caller_decides_the_directions():
    pixels = np.random.default_rng(3).random((300, 9))
    once, again, other = (vertices(pixels, 4, runs=1, rng=np.random.default_rng(n)) for n in (5, 5, 6))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize("threshold", [None, *THRESHOLDS])
def test_dark_and_flat_pixels_have_vertices(threshold):
    assert np.isfinite(vertices(np.zeros((20, 5)), 3, threshold=threshold)).all()
    np.testing.assert_allclose(vertices(np.full((20, 5), 0.3), 3, threshold=threshold), 0.3)
    _, pixels = mixtures()
    assert np.isfinite(vertices(np.vstack([pixels, np.zeros((3, 12))]), 4, threshold=threshold)).all()


@pytest.mark.parametrize("threshold", [None, *THRESHOLDS])
def test_the_unit_of_the_data_does_not_choose_other_vertices(threshold):
    """Neither where runs find the same ones in another order, nor where there are as many as bands."""
    _, pixels = mixtures(bands=8)
    pixels = pixels + 0.003 * np.random.default_rng(0).standard_normal(pixels.shape)
    for count in (4, 6, 8):
        found = vertices(pixels, count, threshold=threshold)
        for unit in (3e4, 1e-3, 7.0):
            np.testing.assert_allclose(vertices(unit * pixels, count, threshold=threshold) / unit, found, rtol=1e-6)
