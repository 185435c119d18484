"""
Blur, shift and response that nobody told
=========================================

Two images of one scene say by themselves how one is related to the other. Here the blur is wider than usual and off its
place, and neither it nor the response is given.
"""

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.estimation import estimate_degradation
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, metrics, scenes

made = scenes.synthetic((96, 92, 50), rng=7)
P1, P2 = gaussian((96, 92), 4, sigma=1.9, phase=2.1, boundary="reflect")
true = fastccpd.Degradation(P1, P2, landsat(50))
hsi, msi = (add_noise(image, 30.0, rng=n) for n, image in enumerate(degrade(made.cube, true)))

found = estimate_degradation(hsi, msi, 4, wavelengths=made.wavelengths)
print(found.blur)

# %%
# What one coarse pixel sees of its fine neighbours, and what the bands of the fine image see of the spectrum. The
# response is known only in the directions that the spectra of the scene have: its shape may differ, its effect not.

figure, [[blur, response]] = plots.figure(1, 2, height=2.6)
rows = np.arange(36, 64)
lines = blur.plot(rows, true.P1.toarray()[12, rows], color="0.6", linewidth=4)
lines += blur.plot(rows, found.degradation.P1.toarray()[12, rows], color="black", linewidth=1.2)
blur.axvline(49.5, color="black", linewidth=0.5, linestyle=":")
plots.label(blur, x="fine row (dotted: the middle of the coarse pixel)", y="weight")
response.plot(made.wavelengths, true.PM.toarray().T, color="0.6", linewidth=4)
response.plot(made.wavelengths, found.degradation.PM.toarray().T, color="black", linewidth=1.2)
plots.label(response, x="wavelength (nm)", y="response of the six bands")
plots.legend(figure, lines, ["true", "estimated"])

# %%
# What the estimate costs in the image:

for name, degradation in {"true": true, "estimated": found.degradation}.items():
    result = fastccpd.fuse(hsi, msi, degradation, method="tv-maps")
    print(f"{name} operators: R-SNR {metrics.rsnr(result.sri, made.cube):.1f} dB; {result.verdict}")
