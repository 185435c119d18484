"""A scene found or made, degraded, fused and scored beside its rivals: the package's main job in one call."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import methods, report
from ..api import fuse
from ..imaging import add_noise, degrade, metrics, preset, scenes
from ..model.checks import as_count, as_number
from ..model.degradation import Degradation
from ..model.result import FusionResult
from .options import SNR_RANGE, check_snr

METHOD = methods.DEFAULT
RIVALS = ("fuse-sylvester", "hysure", "scott")
SPLINES = "HSI, cubic splines"

_RATIO = 4
_SYNTHETIC = (96, 80, 60)


@dataclass(frozen=True)
class Demonstration:
    """The scene, what was made of it, and how good that is.

    Attributes
    ----------
    scene : fastccpd.imaging.scenes.Scene
    snr_db : float
    hsi, msi : arrays
        What the two sensors see of it, with noise.
    degradation : Degradation
    result : FusionResult
    estimates : dict of name to image
        What the rivals make of it: results, and the HSI made larger by splines.
    rows : dict of name to dict of metric to value
        Of all of them, the result first.
    notes : tuple of str
    """

    scene: Any
    snr_db: float
    hsi: np.ndarray
    msi: np.ndarray
    degradation: Degradation
    result: FusionResult
    estimates: dict[str, Any]
    rows: dict[str, dict]
    notes: tuple[str, ...]

    def errors(self):
        """The expected and the true root mean square error of the result; None for what is not expected."""
        deviation = self.result.uncertainty
        expected = None if deviation is None else float(np.sqrt(np.mean(np.square(deviation))))
        return expected, float(np.sqrt(np.mean((self.result.sri - self.scene.cube) ** 2)))


def run(scene="auto", snr_db=20.0, seed=0, rank=30, rivals=RIVALS, show=None):
    """Fuse a scene under the "stereo" degradation, and score the result beside rivals.

    Parameters
    ----------
    scene : str
        "auto" is Indian Pines if it can be had, else "synthetic"; or one of `fastccpd.imaging.scenes.names()`.
    snr_db : float
        Noise of both images.
    seed : int
        Of the noise, of the start and of a synthetic scene.
    rank : int
    rivals : sequence of str
        Other methods, with their default options.
    show : callable(label, max_iter) -> context manager, optional
        Shows a fusion: the context manager yields the callback, as `fastccpd.cli.progress.fusion_progress` does.

    Returns
    -------
    Demonstration
    """
    as_count(seed, "seed", least=0)
    check_snr(as_number(snr_db, "snr_db", least=SNR_RANGE[0]), "snr_db")
    ours = methods.make(METHOD, {"rank": rank})
    others = {name: methods.make(name, {}) for name in rivals}
    scene, note = _scene(scene, seed)
    rng = np.random.default_rng(seed)
    degradation = preset("stereo", scene.cube.shape, ratio=_RATIO)
    hsi, msi = (add_noise(image, snr_db, rng) for image in degrade(scene.cube, degradation))

    def fused(method):
        with show(method.name, getattr(method, "max_iter", None)) if show else nullcontext() as callback:
            return fuse(hsi, msi, degradation, method=method, rng=seed, callback=callback)

    # Whatever is not in the kernel cache yet is compiled here, so that the times below are without it.
    fused(replace(ours, max_iter=1))
    result = fused(ours)
    estimates = {name: fused(method) for name, method in others.items()}
    rows = {f"result ({METHOD})": _row(result, scene.cube)}
    rows |= {name: _row(estimate, scene.cube) for name, estimate in estimates.items()}
    estimates[SPLINES] = larger(hsi, scene.cube.shape[:2])
    rows[SPLINES] = metrics.usual(estimates[SPLINES], scene.cube, _RATIO)
    return Demonstration(scene, snr_db, hsi, msi, degradation, result, estimates, rows, (note,) if note else ())


def write_report(shown, path, overwrite=False):
    """The pictures of a `Demonstration`, as one HTML file."""
    provenance = shown.scene.provenance
    about = f"The scene is {provenance['name']} ({provenance['origin']}), degraded at {shown.snr_db:g} dB."
    return report.fusion(
        path,
        shown.result,
        shown.hsi,
        shown.msi,
        truth=shown.scene.cube,
        estimates=shown.estimates,
        degradation=shown.degradation,
        wavelengths=shown.scene.wavelengths,
        scores=shown.rows,
        notes=[about, *shown.notes],
        title=f"Demonstration: {provenance['name']}",
        overwrite=overwrite,
    )


def larger(hsi, shape):
    """The HSI on the MSI's grid by periodic cubic splines: what there is without a fusion."""
    # Imported here: it takes longer to import than everything else of this module.
    from scipy.ndimage import map_coordinates

    # Coarse pixel a lies at fine row ratio - 1 + ratio a, the phase of the "stereo" convention.
    places = np.meshgrid(*((np.arange(n) - (_RATIO - 1)) / _RATIO for n in shape), indexing="ij")
    image = np.empty((*shape, hsi.shape[2]), hsi.dtype)
    for band in range(hsi.shape[2]):
        image[:, :, band] = map_coordinates(hsi[:, :, band], places, order=3, mode="grid-wrap")
    return image


def _scene(name, seed):
    """The scene, and a sentence where it is not the one that was hoped for."""
    if name == "synthetic":
        return scenes.synthetic(_SYNTHETIC, rng=seed), None
    if name != "auto":
        return scenes.load(name, crop_to=_RATIO), None
    try:
        return scenes.load("indian-pines", crop_to=_RATIO), None
    except FileNotFoundError:
        note = (
            'the real scene, Indian Pines, is not here: pip install "fastccpd[demo]" brings it; this one is synthetic'
        )
        return scenes.synthetic(_SYNTHETIC, rng=seed), note


def _row(result, truth):
    return metrics.usual(result.sri, truth, _RATIO) | {"seconds": result.seconds}
