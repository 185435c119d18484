"""Rows of a method: one run on a case, and its scores. `score_method` makes them for methods of any package."""

import inspect
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import machine, methods, rows
from ..api import fuse
from ..imaging import lee, metrics, scenes
from ..model.checks import as_count
from .simulating import Case, simulated


def score_method(
    method: "str | methods.Method | type[methods.Method] | Callable[..., Any]",
    scene: "str | scenes.Scene | Iterable[str | scenes.Scene]" = "synthetic",
    snr: "float | Iterable[float | None] | None" = 30.0,
    draws: int = 1,
    *,
    name: str | None = None,
    package: str | None = None,
    version: str | None = None,
    options: Mapping[str, Any] | None = None,
    tuned: bool = False,
    ratio: int | None = None,
    file: Any = None,
) -> list[dict[str, Any]]:
    """Rows of a method on simulated images: one for each scene, SNR and noise draw.

    Parameters
    ----------
    method : str, Method, Method class or callable
        A method of this package, or a function `(hsi, msi, degradation, **options)` that returns the image, an array of
        the scene's shape or an object that has it as `.sri`. A function with an argument `rng` is given the number of
        the draw by it.
    scene : str or Scene, or several
        A name of `fastccpd.testing.scene_names()`, or a scene of your own.
    snr : float or None, or several
        Of both images, in dB; None adds no noise.
    draws : int
        Noise draws.
    name : str, optional
        What tables are to call it. None: the method's name, the function's own.
    package, version : str, optional
        What the method is part of. None: the package that it was imported from, and its installed version.
    options : mapping, optional
        What the method is given besides; a method object has its own.
    tuned : bool
        Whether these options were sought with the truth known. Say so: tables keep such rows apart.
    ratio : int, optional
        Fine pixels per coarse one, along a side. None: 4, and 3 for a real pair.
    file : path, optional
        A file of JSON lines to add the rows to, each as it is done.

    Returns
    -------
    list of dict
        Rows as docs/rows.md has them. A method that refuses, or fails, gives a row with its sentence under "error".

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.testing import score_method
    >>> def repeated(hsi, msi, degradation):
    ...     return np.repeat(np.repeat(hsi, 4, axis=0), 4, axis=1)
    >>> row, = score_method(repeated, "synthetic", snr=20, package="mine", version="0.1")
    >>> row["system"], row["tuned"], 0 < row["metrics"]["rsnr"] < 20
    ('repeated', False, True)
    """
    options = {} if options is None else dict(options)
    call = _caller(method, options)
    about: dict[str, Any] = _about(method, name, package, version)
    about["tuned"] = bool(tuned)
    about["options"] = as_read(method.options() if isinstance(method, methods.Method) else options)
    levels = list(snr) if isinstance(snr, Iterable) else [snr]
    places = [scene] if isinstance(scene, str | scenes.Scene) else list(scene)
    found = []
    for run in range(as_count(draws, "draws")):
        for place in places:
            for level in levels:
                case = simulated(place, level, run, ratio)
                found.append(scored(case, lambda *images, seed=run: call(*images, rng=seed), **about, seed=run))
                if file is not None:
                    with Path(file).open("a", encoding="ascii") as lines:
                        lines.write(json.dumps(found[-1]) + "\n")
    return found


def scored(
    case: Case,
    call: Callable[..., Any],
    further: Callable[..., dict] | None = None,
    filtered: bool = True,
    **about: Any,
) -> dict[str, Any]:
    """The row of one call.

    Parameters
    ----------
    case : Case
    call : callable(hsi, msi, degradation)
        Returns an image, or a result that has one as `.sri`.
    further : callable(image, case) -> dict, optional
        Fields that only the image can give.
    filtered : bool
        Whether to score it after the Lee filter too, which takes longer than quick methods do.
    **about
        What else the row says: package, version, method, system, options, tuned, seed.

    Returns
    -------
    dict
    """
    row = rows.written_by(about.pop("package"), about.pop("version")) | {"kind": "fusion", **about}
    row |= {} if filtered else {"filtered": False}
    row |= {name: getattr(case, name) for name in ("scene", "snr", "run", "ratio")}
    row["inputs"] = rows.hash_of_inputs(case.hsi, case.msi, case.degradation)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grown, began, worked = machine.memory_meter(), time.perf_counter(), time.process_time()
        try:
            result = call(case.hsi, case.msi, case.degradation)
            image = getattr(result, "sri", result)
            row |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked}
            row["peak_memory"] = grown()
            row["metrics"] = _scores(image, case)
            row |= {"lee": _scores(lee(image), case)} if filtered else {}
            row |= {} if further is None else further(image, case)
        except Exception as error:  # whatever a method of others raises, the other rows are still to come
            for outcome in ("seconds", "cpu_seconds", "peak_memory", "metrics"):
                row.pop(outcome, None)
            return {**row, "error": str(error) or type(error).__name__}
    row["notes"] = sorted({str(warning.message) for warning in caught})
    return row | _ended(result)


def as_read(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they will be read from a file: JSON has lists where options are tuples.

    Parameters
    ----------
    options : mapping

    Returns
    -------
    dict
    """
    try:
        return json.loads(json.dumps(dict(options)))
    except (TypeError, ValueError):
        raise TypeError(f"options: got {options!r}; what JSON can hold is needed") from None


def _about(method, name, package, number):
    """What a row says of the method itself."""
    home = methods.get(method) if isinstance(method, str) else method
    named = home if hasattr(home, "__name__") else type(home)
    own = getattr(home, "name", "") or named.__name__
    package = package or str(named.__module__).partition(".")[0]
    return {"method": own, "system": name or own, "package": package, "version": number or _version_of(package)}


def _version_of(package):
    if package == "fastccpd":
        return machine.own_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _caller(method, options):
    """The method as a function of two images, their degradation, and a seed called rng."""
    if isinstance(method, methods.Method):
        if options:
            raise ValueError(f"options: got {options!r} for a method object; make the object with them")
        return lambda *images, rng: fuse(*images, method=method, rng=rng)
    if isinstance(method, type) and issubclass(method, methods.Method):
        return lambda *images, rng: fuse(*images, method=method(**options), rng=rng)
    if isinstance(method, str):
        methods.make(method, options)
        return lambda *images, rng: fuse(*images, method=method, rng=rng, **options)
    if not callable(method):
        raise TypeError(f"method: got {method!r}; a method's name, class or object, or a function, is needed")
    if "rng" in inspect.signature(method).parameters:
        return lambda *images, rng: method(*images, rng=rng, **options)
    return lambda *images, rng: method(*images, **options)


def _scores(estimate, case):
    # JSON has no NaN and no infinity.
    scores = metrics.usual(estimate, case.truth, case.ratio).items()
    return {name: float(value) if math.isfinite(value) else None for name, value in scores}


def _ended(result):
    """How a run of this package ended; of an array, nothing is known."""
    if not hasattr(result, "provenance"):
        return {}
    cost = result.cost if math.isfinite(result.cost) else None
    ended = {"status": result.status.name, "n_iter": result.n_iter, "cost": cost}
    return ended | {"versions": result.provenance["versions"]}
