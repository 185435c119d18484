"""
Non-negativity on chosen modes
==============================

The paper's method makes all three factors non-negative. Each mode can be chosen by itself: here spectra may or may
not be negative.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

rng = np.random.default_rng(6)
made = scenes.synthetic((64, 60, 40), rng=rng)
degradation = preset("stereo", made.cube.shape)
hsi, msi = (add_noise(image, 15.0, rng) for image in degrade(made.cube, degradation))

choices = {"all factors": ("rows", "columns", "bands"), "spectra only": ("bands",), "no factor": ()}
spectra = {}
for name, modes in choices.items():
    result = fastccpd.fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=8, nonnegative_modes=modes, rng=0)
    C = result.factors.C
    spectra[name] = C / np.abs(C).max(axis=0)
    print(f"{name} non-negative: R-SNR {metrics.rsnr(result.sri, made.cube):.1f} dB, least entry of C {C.min():.3g}")

# %%
# Spectra of the terms, each divided by its largest magnitude; those that go below zero are dashed:

figure, [row] = plots.figure(1, 3, height=2.6, sharey=True)
for axes, (name, C) in zip(row, spectra.items()):
    below = C.min(axis=0) < 0.0
    axes.plot(made.wavelengths, C[:, ~below], color="#0072B2", linewidth=0.9)
    axes.plot(made.wavelengths, C[:, below], color="#D55E00", linewidth=1.6, linestyle="--")
    axes.axhline(0.0, color="black", linewidth=0.5)
    plots.label(axes, title=f"{name} non-negative", x="wavelength (nm)", inches=2.0)
plots.label(row[0], y="entry of C / largest")
