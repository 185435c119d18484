"""How many spectra a scene has: noise alone, faint smooth maps, the law of the largest eigenvalue."""

import numpy as np
import pytest
from scenery import band_means, blur, observe

from fastccpd import Degradation, Problem
from fastccpd.estimation import noise_of, subspace_of
from fastccpd.estimation.moments import difference_moments, moments_of
from fastccpd.estimation.noise import spectrum_of
from fastccpd.estimation.signals import by_neighbours, largest_of_noise


def leading(image):
    """The largest eigenvalue of (1), of pixels with noise 1."""
    return by_neighbours(moments_of(image), difference_moments(image))[0][0]


@pytest.mark.parametrize("shape", [(20, 21, 100), (31, 17, 40), (12, 12, 160)])
def test_the_largest_eigenvalue_of_noise_is_as_the_law_says(shape):
    rng = np.random.default_rng(0)
    limit = largest_of_noise(shape[2], shape[0] * shape[1])
    found = np.array([leading(rng.standard_normal(shape)) for _ in range(40)])
    assert np.mean(found > limit) <= 0.2
    assert 0.9 * limit < found.mean() < limit


def test_the_moments_are_those_of_pixels_and_their_neighbours():
    image = np.random.default_rng(0).standard_normal((5, 7, 3))
    own = np.einsum("ija,ijb->ab", image, image) / 35
    pairs = [
        (image[i, j] - image[k, m])
        for i in range(5)
        for j in range(7)
        for k, m in ((i + 1, j), (i, j + 1))
        if k < 5 and m < 7
    ]
    between = own - sum(np.outer(d, d) for d in pairs) / len(pairs) / 2
    values, vectors = by_neighbours(moments_of(image), difference_moments(image))
    np.testing.assert_allclose((vectors * values) @ vectors.T, (own + 2.0 * between) / 3.0, atol=1e-12)
    assert (np.diff(values) <= 0.0).all()


def faint(seed, size):
    """A strong signal, and a faint one of `size` whose map is smooth."""
    rng = np.random.default_rng(seed)
    P1, P2, PM = blur(96), blur(88), band_means(60, 4)
    rows, columns = np.meshgrid(np.linspace(0, 6, 96), np.linspace(0, 5, 88), indexing="ij")
    second = np.sin(rows) * np.cos(columns)
    spectra = np.linalg.qr(rng.standard_normal((60, 2)))[0].T
    scene = 20.0 * (1.0 + 0.2 * np.cos(rows))[:, :, None] * spectra[0] + size * second[:, :, None] * spectra[1]
    hsi, msi = observe(scene, P1, P2, PM)
    images = (image + rng.standard_normal(image.shape) * scale for image, scale in ((hsi, 1.0), (msi, 0.2)))
    return Problem(*images, Degradation(P1, P2, PM))


def test_a_faint_signal_is_found_by_its_smooth_map():
    problems = [faint(seed, 1.3) for seed in range(6)]
    noises = [noise_of(problem) for problem in problems]
    alone = [spectrum_of(noise.moments.second, noise.moments.count, noise.hsi).signals for noise in noises]
    assert alone == [1] * 6  # too faint for the pixels one by one
    found = [subspace_of(problem, noise).signals for problem, noise in zip(problems, noises)]
    assert np.median(found) == 2


def test_noise_alone_adds_no_spectra():
    found = [subspace_of(problem, noise_of(problem)).signals for problem in (faint(seed, 0.0) for seed in range(10))]
    assert np.mean(found) <= 1.3
    assert min(found) == 1
