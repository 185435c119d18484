"""
Tiles without seams
===================

A scene beyond memory is fused tile by tile. Noise, spectra and the weight of the prior are found once for the whole
scene, and tiles overlap and are blended: the image does not show where they meet.
"""

import numpy as np

import fastccpd
from fastccpd import plots, tiles
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

rng = np.random.default_rng(8)
truth = scenes.synthetic((192, 184, 40), rng=rng).cube.astype(np.float32)
degradation = preset("stereo", truth.shape)
hsi, msi = (add_noise(image, 30.0, rng) for image in degrade(truth, degradation))

whole = fastccpd.fuse(hsi, msi, degradation, method="tv-maps").sri
with tiles.fuse_tiles(hsi, msi, degradation, method="tv-maps", tile=64, workers=0) as fused:
    plan, tiled = fused.plan, fused.sri
seams = [[span.core[0] for span in spans[1:]] for spans in (plan.rows, plan.cols)]
print(f"{len(plan.rows)} by {len(plan.cols)} tiles: R-SNR {metrics.rsnr(tiled, truth):.2f} dB")
print(f"in one piece:  R-SNR {metrics.rsnr(whole, truth):.2f} dB")

# %%
# Errors of one band, with and without tiles; ticks mark where tiles meet.

figure = plots.residuals({"in one piece": whole, "in tiles": tiled}, truth, 20, quantity="reflectance")
for axes in figure.axes[:2]:
    axes.set(yticks=seams[0], xticks=seams[1])
    axes.tick_params(labelsize=plots.TICK_SIZE)
