"""One run: a scene degraded, noise drawn, one system run and scored. A task in, a row out, both plain JSON.

The noise depends on the scene, the SNR and the number of the run alone, so that all systems see the same images, and a
row comes out the same whenever, wherever and beside whatever it is computed.
"""

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from .. import machine
from ..api import fuse
from ..imaging import metrics
from ..testing.scoring import as_read, scored
from ..testing.simulating import simulated


@dataclass(frozen=True)
class Task:
    """What decides a row.

    Attributes
    ----------
    scene : str
        A name of `testing.scene_names()`.
    snr : float or None
        In dB, of both images; None: no noise is added.
    run : int
        Number of the noise draw, and of the random start.
    system, method, options
        The system's name, and what `fuse` is given.
    tuned : bool
        Whether it is one setting of a grid that is searched with the truth known.
    band : int or None
        Number of a band, from 1, whose picture the row is to carry, with its residual and the SAM map.
    ratio : int
        Fine pixels per coarse one, along a side.
    time_limit : float or None
        Seconds.
    filtered : bool
        Whether the image is scored after the Lee filter too.
    """

    scene: str
    snr: float | None
    run: int
    system: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    tuned: bool = False
    band: int | None = None
    ratio: int = 4
    time_limit: float | None = None
    filtered: bool = True

    def tuned_to(self, options, filtered):
        """The same with other options, found with the truth known."""
        return replace(self, options=options, tuned=True, filtered=filtered)

    def identity(self):
        """The same text for the same task, also after a passage through JSON."""
        return json.dumps(asdict(self), sort_keys=True)


def task_of(row):
    """The task that a row answers; what rows of an earlier version lack is the default."""
    return Task(**{name: row[name] for name in Task.__dataclass_fields__ if name in row})


def identity_of(row):
    """The same text for rows of the same run, of whatever kind."""
    if row["kind"] == "fusion":
        return json.dumps([row["package"], row["version"], task_of(row).identity()])
    return json.dumps(
        {name: value for name, value in row.items() if name not in ("machine", "versions")}, sort_keys=True
    )


def measure(task):
    """The row of a task. A system that refuses its options gives a row with its sentence under "error"."""
    case = simulated(task.scene, task.snr, task.run, task.ratio)
    settings = {"method": task.method, "rng": task.run, "threads": 1, "time_limit": task.time_limit}
    about = {**asdict(task), "options": as_read(task.options), "seed": task.run, "threads": 1}

    def pictures(image, case):
        return {} if task.band is None else {"maps": _maps(image, case.truth, task.band)}

    return scored(
        case,
        lambda *images: fuse(*images, **settings, **_tuples(task.options)),
        pictures,
        package="fastccpd",
        version=machine.own_version(),
        **about,
    )


def band_count(scene):
    """How many bands a scene has."""
    return simulated(scene, None, 0).truth.shape[2]


def unpacked(packed):
    """A picture of a row as an array."""
    values = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), dtype="<f4")
    return values.reshape(packed["shape"])


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
