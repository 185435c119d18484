"""Small scenes for the tests of tiles."""

from functools import cache

import numpy as np

from fastccpd import Degradation
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, preset, scenes


@cache
def small_pair(shape=(96, 80, 36), kind="stereo", snr=30.0):
    """(truth, hsi, msi, degradation) in float32."""
    truth = scenes.synthetic(shape).cube.astype(np.float32)
    if kind == "stereo":
        degradation = preset("stereo", shape)
    else:
        degradation = Degradation(*gaussian(shape[:2], 4, phase=1.5, boundary="reflect"), landsat(shape[2]))
    rng = np.random.default_rng(0)
    hsi, msi = (add_noise(image, snr, rng).astype(np.float32) for image in degrade(truth, degradation))
    for image in (truth, hsi, msi):
        image.setflags(write=False)
    return truth, hsi, msi, degradation
