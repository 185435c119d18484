"""The folder in which a run keeps what it has done, so that it can go on after whatever ended it.

state.json     what was asked for: a run goes on only with the same images, operators, method, options and version
block.json     the side of the blocks of the first pass, which the plan has too: it is made after that pass
plan.json      the plan
verdict.json   the verdict on the scene
first.npz      the figures of the first pass
tile-R-C.npz   a finished tile: its maps, factors or pixels, each array with its hash (`FusionResult.save`)
lock           held as long as a process works here; the system lets go of it however that process ends

Every file is written whole or not at all, so after a kill at any moment each one is either there or not.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from .. import formats, machine
from ..api import load
from ..estimation import Gramians, PathRisks, Statistics
from ..estimation.agreement import Agreement
from ..estimation.few_bands import Magnitudes, SecondDifferences
from ..estimation.moments import Moments
from ..fusion import Request
from ..model import types
from ..model.checks import as_count
from ..model.degradation import Degradation
from ..model.files import first_line, lock, replacing, write_whole
from ..model.result import FusionResult, Status
from ..model.verdict import Judged, Verdict
from .plan import Plan

_FORMAT = 4

# How often the lock is asked for, and the seconds between.
_TRIES, _PAUSE = 10, 0.5

# What a run keeps in its folder: files under these names, what is being written, and the output until it is whole.
_OWN = re.compile(
    r"(state|block|plan|verdict)\.json|first\.npz|lock|tile-\d+-\d+\.(npz|empty)|\.fastccpd-.*|output\.(tiff?|zarr|npy)(\..*)?"
)

_PARTS = ("moments", "differences", "agreement", "steps", "msi_moments", "msi_differences")


class State:
    """One run's folder.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    asked : dict
        What `asked_for` gives.
    resume : bool
        Whether to go on with what is there. Else a folder that holds a run is refused.
    """

    def __init__(self, folder: types.Path, asked: Mapping[str, Any], resume: bool = False):
        self.folder = Path(folder)
        existing = self.folder / "state.json"
        if self.folder.exists() and not existing.exists() and any(self.folder.iterdir()):
            raise FileExistsError(f"{self.folder}: exists and holds something else; another folder is needed")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder)
        if not existing.exists():
            write_whole(existing, json.dumps({"format": _FORMAT, "asked": asked}))
        elif not resume:
            self.close()
            raise FileExistsError(f"{self.folder}: holds a run that was not finished; resume it, or remove the folder")
        else:
            self._check(existing, asked)

    def _check(self, existing, asked):
        try:
            before = json.loads(existing.read_text(encoding="utf-8"))
            known, asked = before["asked"] | {"format": before["format"]}, {**asked, "format": _FORMAT}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self.close()
            raise ValueError(f"{existing}: is damaged ({first_line(error)}); remove the folder to begin anew") from None
        asked = json.loads(json.dumps(asked))
        for name in sorted({*known, *asked}):
            if known.get(name) != asked.get(name):
                self.close()
                raise ValueError(
                    f"{self.folder}: was begun with another {name} ({_short(known.get(name))}, now "
                    f"{_short(asked.get(name))}); give the same, or remove the folder to begin anew"
                )

    def tile_path(self, tile: tuple[int, int]) -> Path:
        return self.folder / f"tile-{tile[0]:04d}-{tile[1]:04d}.npz"

    def tile(self, tile: tuple[int, int]) -> FusionResult | None:
        """A finished tile; None for one without data. ValueError for a damaged file."""
        return None if self._is_empty(tile) else load(self.tile_path(tile))

    def finished(self, plan: Plan) -> dict[tuple[int, int], Status | None]:
        """The status of each tile that is done and whose file is whole; None for those without data."""
        found = {}
        for tile in plan.tiles():
            try:
                result = self.tile(tile)
            except (ValueError, OSError, TypeError):
                continue
            found[tile] = None if result is None else result.status
        return found

    def mark_empty(self, tile: tuple[int, int]) -> None:
        """Note that a tile has no data."""
        write_whole(self.tile_path(tile).with_suffix(".empty"), "")

    def _is_empty(self, tile):
        return self.tile_path(tile).with_suffix(".empty").exists()

    @property
    def block(self) -> int | None:
        """The side of the blocks of the first pass, once it is known. ValueError for a damaged file."""
        return self._plain("block.json", lambda value: as_count(value, "block"))

    @block.setter
    def block(self, block: int) -> None:
        write_whole(self.folder / "block.json", json.dumps(block))

    @property
    def plan(self) -> Plan | None:
        """The plan, once there is one. ValueError for a damaged file."""
        return self._plain("plan.json", Plan.from_json)

    def _plain(self, name, read):
        """What one of the files of plain values holds; None where it is not there."""
        path = self.folder / name
        if not path.exists():
            return None
        try:
            return read(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path}: is damaged ({first_line(error)}); remove the folder to begin anew") from None

    @plan.setter
    def plan(self, plan: Plan) -> None:
        write_whole(self.folder / "plan.json", json.dumps(plan.as_json()))

    @property
    def judged(self) -> Judged | None:
        """The verdict on the scene, once there is one."""
        return self._plain(
            "verdict.json", lambda plain: Judged(Verdict.from_json(plain["verdict"]), float(plain["size"]))
        )

    @judged.setter
    def judged(self, judged: Judged) -> None:
        plain = {"verdict": judged.verdict.as_json(), "size": judged.size}
        write_whole(self.folder / "verdict.json", json.dumps(plain))

    def keep_first(self, statistics: Statistics, gramians: Gramians, risks: PathRisks) -> None:
        """Keep the figures of the first pass."""
        sums = {
            f"{type(part).__name__}.{f.name}": getattr(part, f.name) for part in (gramians, risks) for f in fields(part)
        }
        with replacing([self.folder / "first.npz"], True) as [temporary], open(temporary, "xb") as file:
            np.savez(file, **_arrays_of(statistics), **sums)

    def first(self) -> tuple[Statistics, Gramians, PathRisks] | None:
        """The figures of the first pass, where they are known."""
        try:
            arrays = formats.read_arrays(self.folder / "first.npz")
            sums = (
                {f.name: arrays[f"{kind.__name__}.{f.name}"] for f in fields(kind)} for kind in (Gramians, PathRisks)
            )
            return _statistics_of(arrays), Gramians(**next(sums)), PathRisks(**next(sums))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def close(self) -> None:
        """Let go of the folder, which stays."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def remove(self) -> None:
        """Let go of the folder, and remove it with all that a run keeps there; what else lies in it stays."""
        self.close()
        _remove_run(self.folder)


def discard(folder: types.Path) -> None:
    """Remove what a run has left in a folder, if it holds one; refused while another process works there."""
    folder = Path(folder)
    if (folder / "state.json").exists():
        with _locked(folder):
            _remove_run(folder)


def asked_for(hsi: Any, msi: Any, degradation: Degradation, request: Request, seed: int, dtype: Any) -> dict[str, Any]:
    """What decides the bytes of a result, in plain values."""
    operators = hashlib.sha256()
    for P in (degradation.P1, degradation.P2, degradation.PM):
        for array in (np.array(P.shape), P.indptr, P.indices, P.data):
            operators.update(np.ascontiguousarray(array).tobytes())
    images = {
        name: image.identity() if hasattr(image, "identity") else None for name, image in (("hsi", hsi), ("msi", msi))
    }
    return {
        **images,
        "degradation": operators.hexdigest(),
        "method": request.method.name,
        "options": request.method.options(),
        "starts": request.starts,
        "combine": request.combine,
        "regularisers": [repr(regulariser) for regulariser in request.regularisers],
        "seed": seed,
        "dtype": None if dtype is None else np.dtype(dtype).name,
        "version": machine.own_version(),
    }


def _arrays_of(statistics):
    found = {name: np.array(getattr(statistics, name)) for name in ("hsi_power", "msi_power")}
    for name in _PARTS:
        part = getattr(statistics, name)
        if part is None:
            continue
        plain = (f.name for f in fields(part) if f.name not in ("moments", "magnitudes"))
        found |= {f"{name}.{field}": np.asarray(getattr(part, field)) for field in plain}
        if isinstance(part, Agreement):
            found |= {
                f"{name}.moments.{f.name}": np.asarray(getattr(part.moments, f.name)) for f in fields(part.moments)
            }
    for band, counted in enumerate(statistics.steps.magnitudes):
        found[f"magnitudes.{band}"] = np.array([counted.first, counted.zeros, *counted.counts], dtype=np.int64)
    return found


def _statistics_of(arrays):
    def moments(prefix):
        return Moments(int(arrays[f"{prefix}.count"]), arrays[f"{prefix}.total"], arrays[f"{prefix}.second"])

    agreement = None
    if "agreement.PM" in arrays:
        agreement = Agreement(moments("agreement.moments"), float(arrays["agreement.share"]), arrays["agreement.PM"])
    second = arrays["steps.second"]
    counted = (arrays[f"magnitudes.{band}"] for band in range(len(second)))
    magnitudes = tuple(Magnitudes(int(part[0]), part[2:], int(part[1])) for part in counted)
    steps = SecondDifferences(second, int(arrays["steps.count"]), magnitudes)
    powers = [(float(arrays[name][0]), int(arrays[name][1])) for name in ("hsi_power", "msi_power")]
    of_msi = moments("msi_moments"), moments("msi_differences")
    return Statistics(moments("moments"), moments("differences"), agreement, steps, *of_msi, *powers)


def _remove_run(folder):
    with suppress(OSError):
        for file in folder.iterdir():
            if _OWN.fullmatch(file.name):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
        folder.rmdir()


def _locked(folder):
    """An open file that no other process has locked."""
    file = open(folder / "lock", "w")  # noqa: SIM115 - closed by `close`
    for left in reversed(range(_TRIES)):
        if lock(file):
            return file
        if left:  # a process that was killed lets go of it when its last worker has ended
            time.sleep(_PAUSE)
    file.close()
    raise BlockingIOError(f"{folder}: another process works here (this is {os.getpid()}); wait for it") from None


def _short(value):
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
