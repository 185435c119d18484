"""
A cloud in one image
====================

Pixels without data are left out of the fit, and the image is complete all the same: under the cloud it comes from the
coarse image and from the prior.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, preset, scenes

rng = np.random.default_rng(5)
made = scenes.synthetic((80, 76, 50), rng=rng)
degradation = preset("stereo", made.cube.shape)
hsi, msi = (add_noise(image, 30.0, rng) for image in degrade(made.cube, degradation))

rows, columns = np.mgrid[:80, :76]
cloud = (rows - 30) ** 2 + (columns - 40) ** 2 < 14**2
msi[cloud] = 3.0 * msi.max()

ignored = fastccpd.fuse(hsi, msi, degradation, msi_valid=~cloud)
taken = fastccpd.fuse(hsi, msi, degradation)

# %%
# Left out, and taken for data; of the latter the verdict says that the images disagree:

print(f"left out: {ignored.verdict}")
print(f"taken for data: {taken.verdict}")
bright = np.quantile(msi[~cloud], 0.98, axis=0)  # the cloud would leave all else black
images = {
    "MSI": np.minimum(msi, bright)[:, :, :3],
    "cloud left out": ignored,
    "cloud taken for data": taken,
    "truth": made.cube,
}
figure = plots.composites(images, {name: made.wavelengths for name in images if name != "MSI"}, reference="truth")
