"""
R-SNR against SNR
=================

How the quality of the image follows the noise of the data. The default finds noise and weights from the images,
at every SNR anew.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

truth = scenes.synthetic((64, 60, 40), rng=2).cube
degradation = preset("stereo", truth.shape)
clean = degrade(truth, degradation)
levels = np.array([0.0, 5.0, 10.0, 20.0, 30.0, 40.0])
names = ("auto", "nn-ccpd-nls", "hysure", "gsa")

quality = {name: [] for name in names}
for level in levels:
    rng = np.random.default_rng(0)
    hsi, msi = (add_noise(image, level, rng) for image in clean)
    for name in names:
        sri = fastccpd.fuse(hsi, msi, degradation, method=name, rng=0).sri
        quality[name].append(metrics.rsnr(sri, truth))

# %%
# One line for each method; lines differ in style and marker, for readers who do not see their colours.

figure, [[axes]] = plots.figure(height=3.6)
lines = [axes.plot(levels, quality[name], **plots.system_style(n))[0] for n, name in enumerate(names)]
plots.label(axes, x="SNR of both images (dB)", y="R-SNR of the fused image (dB)")
axes.grid(alpha=0.3)
plots.legend(figure, lines, names)
