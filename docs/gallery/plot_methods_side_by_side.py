"""
Methods side by side
====================

One pair of images, six methods at their published settings, and where each of them is wrong.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

rng = np.random.default_rng(1)
truth = scenes.synthetic((80, 76, 50), rng=rng)
degradation = preset("stereo", truth.cube.shape)
hsi, msi = (add_noise(image, 20.0, rng) for image in degrade(truth.cube, degradation))

images = {}
for name in ("gsa", "fuse-sylvester", "hysure", "cnmf", "nn-ccpd-nls", "auto"):
    images[name] = fastccpd.fuse(hsi, msi, degradation, method=name, rng=0).sri
    print(f"{name:>15}: R-SNR {metrics.rsnr(images[name], truth.cube):.1f} dB")

# %%
# The spectral angle to the truth, pixel by pixel. Without a prior on edges, noise stays where the scene is dark.

angles = plots.sam_maps(images, truth.cube)

# %%
# Errors of one band, on one scale:

residuals = plots.residuals(images, truth.cube, 25, wavelengths=truth.wavelengths, quantity="reflectance")
