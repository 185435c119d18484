"""A scene made, degraded, fused and scored: the package's main job in one call."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ..api import fuse
from ..imaging import add_noise, degrade, metrics, preset, scenes
from ..model.result import FusionResult


@dataclass(frozen=True)
class Demonstration:
    """The scene, what was made of it, and a row of metrics for each estimate."""

    scene: np.ndarray
    hsi: np.ndarray
    msi: np.ndarray
    result: FusionResult
    rows: dict[str, dict]


def run(shape=(96, 80, 60), snr_db=20.0, seed=0, rank=20, callback=None):
    """Fuse a synthetic scene under the "stereo" degradation, and score it beside the HSI made larger by splines."""
    rng = np.random.default_rng(seed)
    scene = scenes.synthetic(shape, rng=rng).cube
    degradation = preset("stereo", shape)
    hsi, msi = (add_noise(image, snr_db, rng) for image in degrade(scene, degradation))
    result = fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=rank, rng=seed, callback=callback)
    ratio = shape[0] // hsi.shape[0]
    # The coarse pixel a lies at fine row ratio - 1 + ratio a, the phase of the "stereo" convention.
    places = [(np.arange(n) - (ratio - 1)) / ratio for n in shape[:2]]
    grid = np.meshgrid(*places, np.arange(shape[2]), indexing="ij")
    larger = ndimage.map_coordinates(hsi, grid, order=3, mode="grid-wrap")
    estimates = {"HSI, cubic splines": larger, f"fused, {result.method}": result.sri}
    rows = {name: _row(estimate, scene, ratio) for name, estimate in estimates.items()}
    return Demonstration(scene, hsi, msi, result, rows)


def _row(estimate, scene, ratio):
    return {
        "R-SNR (dB)": metrics.rsnr(estimate, scene), "RMSE": metrics.rmse(estimate, scene),
        "CC": metrics.cc(estimate, scene), "SAM (deg)": metrics.sam(estimate, scene),
        "ERGAS": metrics.ergas(estimate, scene, ratio),
    }  # fmt: skip


def table(rows):
    """The rows of metrics as lines of text."""
    columns = list(next(iter(rows.values())))
    width = max(map(len, rows))
    lines = [" " * width + "".join(f"{column:>12}" for column in columns)]
    lines += [f"{name:<{width}}" + "".join(f"{row[column]:12.4f}" for column in columns) for name, row in rows.items()]
    return "\n".join(lines)
