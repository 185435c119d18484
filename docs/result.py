"""The picture on top of the README: `python docs/result.py` writes docs/result.png (a real scene, extra `demo`).

Indian Pines is degraded by the paper's blur, ratio and response, and fused with nothing set. Above, the four images in
one false colour; below, what a pixel of each knows of its spectrum.
"""

from pathlib import Path

import numpy as np

import fastccpd
from fastccpd import plots
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes

SNR_DB = 30.0
COLOURS_NM = (865.0, 655.0, 560.0)  # near infrared, red, green: vegetation is red
PIXEL = (17, 120)  # at the edge of a field
COARSE = (4, 29)  # the coarse pixel nearest to it: they lie at 3, 7, 11, … in this degradation


def nearest(wavelengths):
    """The three bands of the composite."""
    return [int(np.argmin(np.abs(np.asarray(wavelengths) - nm))) for nm in COLOURS_NM]


def picture():
    """The figure, and the R-SNR of the fused image in dB."""
    scene = scenes.load("indian-pines", crop_to=4)
    truth, nm = scene.cube, np.asarray(scene.wavelengths)
    degradation = preset("stereo", truth.shape, PM=scene.response)
    rng = np.random.default_rng(0)
    hsi, msi = (add_noise(image, SNR_DB, rng) for image in degrade(truth, degradation))
    fused = fastccpd.fuse(hsi, msi, degradation).sri
    msi_nm = scene.response @ nm / scene.response.sum(axis=1)

    drawn, axes = plots.figure(2, 4, height=4.3, gridspec_kw={"height_ratios": [1.65, 1.0]})
    limits = plots.rgb_limits(truth, nearest(nm))
    images = {"hyperspectral": (hsi, nm), "multispectral": (msi, msi_nm), "fused": (fused, nm), "truth": (truth, nm)}
    for one, (name, (image, centres)) in zip(axes[0], images.items(), strict=True):
        colour = plots.rgb(image, bands=nearest(centres), limits=limits)
        one.imshow(colour, interpolation="nearest")
        place = COARSE if image is hsi else PIXEL
        one.plot(*reversed(place), "wo", markersize=9, markerfacecolor="none", markeredgewidth=1.5)
        one.set(xticks=[], yticks=[])
        plots.label(one, title=name, x=plots.size_name(image.shape))
    for one in axes[1]:
        one.remove()
    below = drawn.add_subplot(axes[1, 0].get_gridspec()[1, :])
    row, column = PIXEL
    gaps = np.flatnonzero(np.diff(nm) > 50.0) + 1  # bands that water vapour takes

    def line(values, **style):
        return below.plot(np.insert(nm, gaps, np.nan), np.insert(values, gaps, np.nan), **style)[0]

    handles = [
        line(truth[row, column], color="0.72", linewidth=4.5),
        line(fused[row, column], color="#0072B2", linewidth=1.3),
        line(hsi[COARSE], color="#D55E00", linewidth=1.0, linestyle="--"),
        below.plot(msi_nm, msi[row, column], "kD", markersize=5, markerfacecolor="white")[0],
    ]
    below.tick_params(labelsize=plots.TICK_SIZE)
    plots.label(below, x="wavelength (nm)", y="counts")
    plots.legend(drawn, handles, ["truth", "fused", "hyperspectral, 16 times the area", "multispectral"])
    return drawn, metrics.rsnr(fused, truth)


if __name__ == "__main__":
    drawn, quality = picture()
    plots.save(drawn, Path(__file__).with_name("result.png"), dpi=110)
    print(f"R-SNR of the fused image: {quality:.1f} dB")
