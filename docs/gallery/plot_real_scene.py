"""
A real scene: Indian Pines
==========================

Indian Pines comes with tensorly (the extra `demo`), so no download is needed.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

made = scenes.load("indian-pines")
degradation = preset("stereo", made.cube.shape, PM=made.response)
rng = np.random.default_rng(0)
hsi, msi = (add_noise(image, 20.0, rng) for image in degrade(made.cube, degradation))
result = fastccpd.fuse(hsi, msi, degradation)
print(result)
print(f"R-SNR {metrics.rsnr(result.sri, made.cube):.1f} dB, SAM {metrics.sam(result.sri, made.cube):.1f} degrees")

# %%
# Fields of crops, before and after:

figure = plots.composites({"HSI": hsi, "fused": result, "truth": made.cube}, made.wavelengths, reference="truth")
