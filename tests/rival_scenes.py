"""The problem without random numbers, and the scenes, that the rivals' known figures are of."""

import numpy as np

from fastccpd import Degradation, Problem
from fastccpd.imaging import add_noise, degrade, preset, scenes


def rivals_golden():
    """20×12 pixels, 7 bands, 4 of the MSI: ΣH² = 423.1280459, ΣM² = 20026.65575."""
    i, j, k = np.meshgrid(*map(np.arange, (20, 12, 7)), indexing="ij")
    scene = 2.0 + np.sin(i + 2 * j + 3 * k) + 0.5 * np.cos(0.3 * i * j + k)
    blurs = preset("stereo", (20, 12, 200))
    PM = 1.0 / (1.0 + (np.arange(7) - 2.0 * np.arange(4)[:, None]) ** 2)
    degradation = Degradation(blurs.P1, blurs.P2, PM)
    hsi, msi = degrade(scene, degradation)
    hsi += 0.05 * np.sin(np.arange(hsi.size)).reshape(hsi.shape)
    msi += 0.05 * np.cos(np.arange(msi.size)).reshape(msi.shape)
    return Problem(hsi, msi, degradation)


def rivals_scene(folder, name, snr=None):
    """(scene, problem): "stereo", the scene's own response, values up to 1; noise from seed 0, on the HSI first."""
    scene = scenes.load(name, folder, crop_to=4)
    cube = scene.cube.astype(np.float64)
    cube = cube if name == "salinas-a" else cube / cube.max()
    degradation, rng = preset("stereo", cube.shape, PM=scene.response), np.random.default_rng(0)
    images = degrade(cube, degradation)
    return cube, Problem(*(images if snr is None else (add_noise(image, snr, rng) for image in images)), degradation)
