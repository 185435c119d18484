"""One run: a scene degraded, noise drawn, one system run and scored. A task in, a row out, both plain JSON.

The noise depends on the scene, the SNR and the number of the run alone, so that all systems see the same images, and a
row comes out the same whenever, wherever and beside whatever it is computed.
"""

import base64
import json
import math
import warnings
import zlib
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..api import fuse
from ..imaging import add_noise, degrade, lee, metrics, preset, scenes

RATIO = 4

# The synthetic scene that stands in where no real one can be had.
_SYNTHETIC = (80, 84, 64)


@dataclass(frozen=True)
class Task:
    """What decides a row.

    Attributes
    ----------
    scene : str
        A name of `imaging.scenes.names()`, or "synthetic".
    snr : float
        In dB, of both images.
    run : int
        Number of the noise draw, and of the random start.
    system, method, options
        The system's name, and what `fuse` is given.
    tuned : bool
        Whether it is one setting of a grid that is searched with the truth known.
    band : int or None
        Number of a band, from 1, whose picture the row is to carry, with its residual and the SAM map.
    """

    scene: str
    snr: float
    run: int
    system: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    tuned: bool = False
    band: int | None = None

    def identity(self):
        """The same text for the same task, also after a passage through JSON."""
        return json.dumps(asdict(self), sort_keys=True)


def task_of(row):
    """The task that a row answers."""
    return Task(**{name: row[name] for name in Task.__dataclass_fields__})


def measure(task):
    """The row of a task. A system that refuses its options gives a row with its sentence under "error"."""
    cube, degradation, clean = _degraded(task.scene)
    # 1000 keeps seeds positive for any SNR that makes sense.
    noise = np.random.default_rng([task.run, round(1000.0 * (task.snr + 1000.0))])
    hsi, msi = (add_noise(image, task.snr, noise) for image in clean)
    row = {**asdict(task), "options": json.loads(json.dumps(task.options))}  # as it will be read from a file
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = fuse(hsi, msi, degradation, method=task.method, rng=task.run, threads=1, **_tuples(task.options))
        except (ValueError, TypeError, MemoryError) as error:
            return {**row, "error": str(error)}
        row["metrics"] = _scores(result.sri, cube)
        row["lee"] = _scores(lee(result.sri), cube)
    row |= {
        "seconds": result.seconds,
        "status": result.status.name,
        "n_iter": result.n_iter,
        "cost": result.cost,
        "notes": sorted({str(warning.message) for warning in caught}),
        "versions": result.provenance["versions"],
    }
    if task.band is not None:
        row["maps"] = _maps(result.sri, cube, task.band)
    return row


def band_count(scene):
    """How many bands a scene has."""
    return _degraded(scene)[0].shape[2]


def unpacked(packed):
    """A picture of a row as an array."""
    values = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), dtype="<f4")
    return values.reshape(packed["shape"])


@lru_cache(maxsize=2)
def _degraded(scene):
    """(cube, degradation, (hsi, msi) without noise), as in the paper: "stereo" with six bands of a Landsat."""
    if scene == "synthetic":
        cube = scenes.synthetic(_SYNTHETIC, rng=0).cube
    else:
        cube = scenes.load(scene, crop_to=RATIO).cube
    degradation = preset("stereo", cube.shape, ratio=RATIO)
    return cube, degradation, degrade(cube, degradation)


def _scores(estimate, cube):
    # JSON has no NaN and no infinity.
    scores = metrics.usual(estimate, cube, RATIO).items()
    return {name: float(value) if math.isfinite(value) else None for name, value in scores}


def _maps(estimate, cube, band):
    shown, truth = estimate[:, :, band - 1], cube[:, :, band - 1]
    pictures = {"truth": truth, "band": shown, "residual": shown - truth, "sam": metrics.sam_map(estimate, cube)}
    return {name: _packed(picture) for name, picture in pictures.items()}


def _packed(picture):
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(picture, dtype="<f4").tobytes())).decode("ascii")
    return {"shape": list(picture.shape), "data": data}


def _tuples(options):
    """JSON has lists where options are tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
