"""
Expected and true error
=======================

The default says how wrong it expects each pixel to be, from the two images alone. Here the truth is known, and both
can be compared.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, preset, scenes

rng = np.random.default_rng(3)
truth = scenes.synthetic((96, 92, 50), rng=rng).cube
degradation = preset("stereo", truth.shape)
hsi, msi = (add_noise(image, 20.0, rng) for image in degrade(truth, degradation))
result = fastccpd.fuse(hsi, msi, degradation, method="tv-maps")

true = np.sqrt(np.mean((result.sri - truth) ** 2, axis=2))
print(
    f"expected {np.sqrt(np.mean(result.uncertainty**2)):.4f}, true {np.sqrt(np.mean(true**2)):.4f} (root mean squares)"
)

# %%
# Edges are where the image is least certain, and where it is most wrong.

figure = plots.uncertainty(result.uncertainty, result.sri, truth)
