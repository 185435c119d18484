"""
A first fusion
==============

A scene is made, seen by two sensors, and put together again.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

rng = np.random.default_rng(0)
made = scenes.synthetic((96, 92, 60), rng=rng)
degradation = preset("stereo", made.cube.shape)
hsi, msi = (add_noise(image, 25.0, rng) for image in degrade(made.cube, degradation))
result = fastccpd.fuse(hsi, msi, degradation)
print(result)
print(f"R-SNR {metrics.rsnr(result.sri, made.cube):.1f} dB, SAM {metrics.sam(result.sri, made.cube):.1f} degrees")

# %%
# The hyperspectral image, the fused one, and the truth, in the same colours. (The scene is dark in the visible, so that
# noise 25 dB below the mean of all bands is much there.)

composites = plots.composites({"HSI": hsi, "fused": result, "truth": made.cube}, made.wavelengths, reference="truth")

# %%
# Spectra of four pixels, chosen to be unlike each other:

pixels = plots.pick_pixels(made.cube, 4)
spectra = plots.spectra({"truth": made.cube, "fused": result.sri}, pixels, made.wavelengths, quantity="reflectance")
