"""nn-ccpd-auto: when the maps are the image, and when the decomposition is."""

from itertools import pairwise

import numpy as np
import pytest
from scenery import rsnr, small_case

from fastccpd import Status, fuse
from fastccpd.imaging import degrade, preset, scenes

# Beyond this only the noise and rounding differ.
EXACT = 100.0


def scores(case, **options):
    """(auto's result, its R-SNR, that of nn-ccpd-nls), the scores up to EXACT."""
    scene, *images = case
    result = fuse(*images, **options)
    nls = fuse(*images, method="nn-ccpd-nls", **options)
    return result, min(rsnr(result.sri, scene), EXACT), min(rsnr(nls.sri, scene), EXACT)


@pytest.mark.parametrize(("rank", "noise"), [(3, 0.0), (3, 1e-6), (3, 0.01), (5, 1e-3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_scene_of_the_given_rank_is_decomposed_down_to_its_noise(rank, noise, seed):
    """As rough as noise, which is overestimated at first: what the decomposition leaves puts that right."""
    result, auto, nls = scores(small_case(rank=rank, noise=noise, seed=seed), rank=rank)
    assert result.maps is None
    assert auto >= nls - 0.2
    if noise < 1e-4:
        assert auto == EXACT


@pytest.mark.parametrize(("rank", "seed"), [(8, 0), (8, 1), (30, 0)])
def test_more_materials_than_msi_bands_and_no_noise_are_left_to_the_decomposition(rank, seed):
    result, auto, nls = scores(small_case(rank=8, bands=4, noise=1e-6, seed=seed), rank=rank)
    assert result.maps is None
    assert auto >= nls - 0.2
    assert (np.diff(result.trace.cost) <= 0.0).all()


def test_the_maps_are_the_image_where_the_rank_is_far_too_high():
    result, auto, nls = scores(small_case(rank=3, noise=1e-6), rank=30)
    assert result.maps is not None
    assert auto >= nls + 5.0


def test_without_the_remainder_the_decomposition_alone_is_shown():
    _, *images = small_case(rank=3, noise=0.05)
    result = fuse(*images, rank=30, remainder=False)
    assert result.maps is None
    np.testing.assert_allclose(result.sri, np.einsum("ir,jr,kr->ijk", *result.factors), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bands", [4, 5], ids=["decomposition first", "maps first"])
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_a_callback_stops_it_in_either_order_and_is_asked_no_more(bands, stop):
    _, *images = small_case(rank=8 if bands == 4 else 3, bands=bands, noise=1e-6)
    seen = []

    def callback(state):
        seen.append(state.n_iter)
        return state.n_iter >= stop

    result = fuse(*images, rank=8, callback=callback)
    assert result.status is Status.CALLBACK
    assert seen == list(range(stop + 1))
    assert np.isfinite(result.sri).all()


@pytest.mark.parametrize("bands", [4, 5], ids=["decomposition first", "maps first"])
def test_iterations_are_limited_over_all_its_parts(bands):
    _, *images = small_case(rank=8 if bands == 4 else 3, bands=bands, noise=1e-6)
    for limit in (0, 3, 60):
        result = fuse(*images, rank=8, max_iter=limit)
        assert result.n_iter <= limit
        assert len(result.trace) == result.n_iter + 1


def test_noise_and_effective_rank_are_reported():
    scene = scenes.synthetic((64, 48, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    rng = np.random.default_rng(0)
    hsi, msi = (image + 0.05 * rng.standard_normal(image.shape) for image in degrade(scene, degradation))
    result = fuse(hsi, msi, degradation, rank=12)
    assert [sigma.shape for sigma in result.noise] == [(40,), (6,)]
    np.testing.assert_allclose(result.noise[0], 0.05, rtol=0.15)
    assert 1 <= result.effective_rank <= 12
    assert result.uncertainty.shape == (64, 48)
    assert (result.uncertainty > 0.0).all()


def test_the_status_is_that_of_the_factors_that_count():
    """Here the decomposition of the images is tried after that of the maps, runs out of iterations, and is worse."""
    scene = scenes.synthetic((64, 48, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    images = degrade(scene, degradation)
    whole = fuse(*images, degradation, rank=3)
    assert whole.maps is not None
    drops = [late < 0.1 * early for early, late in pairwise(whole.trace.cost)]
    tried = 1 + drops.index(True)  # the first iteration of another objective, of another size
    assert 5 < tried < whole.n_iter
    limited = fuse(*images, degradation, rank=3, max_iter=tried + 1)
    assert limited.n_iter == tried + 1
    assert limited.status.converged


def test_without_the_remainder_there_is_no_uncertainty_of_maps():
    _, *images = small_case(rank=3, noise=0.05)
    assert fuse(*images, rank=30, remainder=False).uncertainty is None
