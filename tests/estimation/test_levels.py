"""A scale and an offset between two images, from the images."""

import numpy as np
import pytest

from fastccpd.estimation import estimate_levels
from fastccpd.imaging import add_noise, degrade, preset, scenes

SHAPE = (44, 52, 36)


def pair(snr=25.0, seed=0):
    rng = np.random.default_rng(seed)
    degradation = preset("stereo", SHAPE)
    hsi, msi = (add_noise(image, snr, rng) for image in degrade(scenes.synthetic(SHAPE, rng=rng).cube, degradation))
    return hsi, msi, degradation


@pytest.mark.parametrize("seed", range(4))
def test_images_in_one_unit_agree(seed):
    hsi, msi, degradation = pair(seed=seed)
    found = estimate_levels(hsi, msi, degradation)
    assert found.agree
    assert abs(found.scale - 1.0) < 0.05


@pytest.mark.parametrize(("scale", "offset"), [(1e4, 0.0), (1.0, 0.1), (1e-4, 1e-5), (0.5, -0.05)])
def test_a_scale_and_an_offset_are_found(scale, offset):
    hsi, msi, degradation = pair()
    found = estimate_levels(hsi, scale * msi + offset, degradation)
    assert not found.agree
    assert found.scale == pytest.approx(scale, rel=0.05)
    assert abs(found.offset - offset) < 0.05 * scale * np.abs(hsi).mean()


def test_a_cloud_and_a_mask_do_not_change_the_answer():
    hsi, msi, degradation = pair()
    cloudy = msi.copy()
    cloudy[:12, :12] = 3.0 * msi.max()
    plain = estimate_levels(hsi, msi, degradation)
    assert estimate_levels(hsi, cloudy, degradation).agree
    valid = np.ones(SHAPE[:2], bool)
    valid[:12, :12] = False
    masked = estimate_levels(hsi, cloudy, degradation, None, valid)
    assert masked.scale == pytest.approx(plain.scale, rel=0.02)


def test_images_without_anything_in_common_tell_nothing():
    hsi, msi, degradation = pair()
    noise = np.random.default_rng(1).normal(size=msi.shape)
    assert estimate_levels(hsi, noise, degradation) is None
    assert estimate_levels(np.ones_like(hsi), msi, degradation) is None
