"""Cases for methods to be scored on: a scene as two sensors see it, with the scene itself.

The blur is "stereo", the response the scene's own. The noise depends on the SNR and on the number of the draw alone, so
that all methods see the same images, whoever runs them. "NAME:CONDITION" is a scene in another way (`conditions.py`).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..imaging import degrade, preset, scenes
from ..model.checks import as_choice, as_count, as_number
from ..model.degradation import Degradation
from .conditions import CONDITIONS, USUAL

#: The real pairs of `scenes.load_pair`, under names of their own: their MSI is a measurement, not a simulation.
PAIRS = {f"{name}-pair": name for name in scenes.pair_names()}

#: The size of the synthetic scene, which stands in where no real one can be had.
SYNTHETIC = (80, 84, 64)

# Published experiments decimate simulated scenes by 4, and these pairs by 3.
_RATIO, _RATIO_OF_PAIRS = 4, 3


@dataclass(frozen=True, eq=False)
class Case:
    """Two images to fuse, and the scene behind them.

    Attributes
    ----------
    truth, hsi, msi : arrays
    degradation : Degradation
        What methods are given, which is not always what the images were made with.
    scene, snr, run, ratio
        As in a row.
    """

    truth: np.ndarray
    hsi: np.ndarray
    msi: np.ndarray
    degradation: Degradation
    scene: str
    snr: float | None
    run: int
    ratio: int


def scene_names() -> tuple[str, ...]:
    """The names of all scenes that cases are made of: the benchmark scenes, the real pairs, "synthetic"."""
    return (*scenes.names(), *PAIRS, "synthetic")


def usual_ratio(scene: "str | scenes.Scene") -> int:
    """Fine pixels per coarse one, where nothing else is asked for: 3 for a real pair, else 4.

    Parameters
    ----------
    scene : str or Scene

    Returns
    -------
    int
    """
    return _RATIO_OF_PAIRS if isinstance(scene, str) and scene in PAIRS else _RATIO


def scene_file(scene: str) -> str:
    """What `scenes.load` or `scenes.load_pair` calls a scene of this name.

    Parameters
    ----------
    scene : str
        A name of `scene_names()`, or one with a condition.

    Returns
    -------
    str
    """
    name = scene.partition(":")[0]
    return PAIRS.get(name, name)


def simulated(scene: "str | scenes.Scene", snr: float | None, run: int, ratio: int | None = None) -> Case:
    """The two images of a scene.

    Parameters
    ----------
    scene : str or Scene
        A name of `scene_names()`, which may be followed by a colon and one of `CONDITIONS`; or a scene of your own.
    snr : float or None
        Of both images, in dB; None adds no noise.
    run : int
        The number of the noise draw.
    ratio : int, optional
        A scene known by name is cropped to a multiple of it. None: `usual_ratio`.

    Returns
    -------
    Case
    """
    ratio = usual_ratio(scene) if ratio is None else as_count(ratio, "ratio")
    condition = _condition_of(scene) if isinstance(scene, str) else USUAL
    truth, degradation, images = _of_name(scene, ratio) if isinstance(scene, str) else _of_scene(scene, ratio)
    level = None if snr is None else as_number(snr, "snr", least=-1000.0)
    # 1000 keeps seeds positive for any SNR that makes sense. Without noise it is a copy: a method may spoil its own.
    noise = np.random.default_rng([run, round(1000.0 * ((level or 0.0) + 1000.0))])
    hsi, msi = condition.noisy(images, np.inf if level is None else level, noise)
    name = scene if isinstance(scene, str) else str(scene.provenance.get("name", "scene"))
    return Case(truth, hsi, msi, degradation, name, level, run, ratio)


def _condition_of(name):
    """The condition that a scene's name ends with."""
    _, mark, condition = name.partition(":")
    return CONDITIONS[as_choice(condition, "condition", tuple(CONDITIONS))] if mark else USUAL


@lru_cache(maxsize=2)
def _of_name(name, ratio):
    """(truth, degradation, (hsi, msi)), all without noise that is not the sensor's."""
    condition, plain = _condition_of(name), name.partition(":")[0]
    if plain == "synthetic":
        return _of_scene(scenes.synthetic(SYNTHETIC, rng=0), ratio, condition)
    if plain not in PAIRS:
        return _of_scene(scenes.load(plain, crop_to=ratio), ratio, condition)
    if condition is not USUAL:
        raise ValueError(f"scene: got {name!r}; the MSI of a pair was measured, and knows no conditions")
    pair = scenes.load_pair(PAIRS[name])
    degradation = preset("stereo", pair.reference.shape, PM=pair.response, ratio=ratio)
    return pair.reference, degradation, (degrade(pair.reference, degradation)[0], pair.msi)


def _of_scene(scene, ratio, condition=USUAL):
    cube = condition.seen(scene.cube)
    nominal = preset("stereo", cube.shape, PM=condition.response(scene.response), ratio=ratio)
    true, given = condition.operators(nominal, ratio)
    return cube, given, degrade(cube, true)
