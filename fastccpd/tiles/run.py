"""`fuse_tiles`: a scene of any size, tile by tile, on the processes of this machine or on a dask cluster."""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import machine, methods
from ..blas import one_blas_thread
from ..estimation import noise_from, shared_from, spectra_of_scene, subspace_from
from ..fusion import checked_request
from ..model import types
from ..model.checks import as_choice, as_count, working_dtype
from ..model.degradation import Degradation
from ..model.result import Status
from ..workers import worker_count
from .crews import crew_of, done_in_any_order
from .first_pass import (
    bands_of_scene,
    gramians_of_scene,
    judged_scene,
    most_tasks,
    path_risks_of_scene,
    statistics_of_scene,
)
from .memory import PROCESS, choose_plan, memory_limit, of_first_pass
from .mosaic import FusedTiles
from .pieces import piece_of
from .plan import Plan, as_tile
from .sources import as_source
from .state import State, asked_for
from .tasks import Fuse


@dataclass(frozen=True)
class TileProgress:
    """How far a run is.

    Attributes
    ----------
    stage : "verdict", "statistics", "samples" or "tiles"
    done, total : int
        Tiles, those of a run before this one included; 0 in the stages before.
    megapixels_per_second : float
        Fine pixels of this run's tiles by its seconds; 0 before the first is done.
    seconds_left : float or None
    """

    stage: str
    done: int = 0
    total: int = 0
    megapixels_per_second: float = 0.0
    seconds_left: float | None = None


def fuse_tiles(
    hsi: Any,
    msi: Any,
    degradation: Degradation,
    *,
    tile: int | None = None,
    memory: float | None = None,
    workers: int | None = None,
    client: Any = None,
    folder: types.Path | None = None,
    resume: bool = False,
    method: str | methods.Method = methods.DEFAULT,
    rng: int = 0,
    dtype: Any = None,
    hsi_valid: Any = None,
    msi_valid: Any = None,
    uncertainty: bool = False,
    progress: Callable[[TileProgress], Any] | None = None,
    **options: Any,
) -> FusedTiles:
    """Fuse a scene tile by tile: whatever its size, in a bounded amount of memory.

    What must be one for the whole scene (noise, spectra and their number, the weight) is found in a first pass; then
    tiles are fused with it, each by itself, and blended where they overlap. For one plan the result has the same bytes
    on any number of workers, here or on a cluster, and after any interruption.

    Parameters
    ----------
    hsi, msi : array, memmap, Zarr or dask array, DataArray, or source
        A source has `shape`, `dtype` and `read(rows, cols)`; see `fastccpd.tiles.Source`.
    degradation : Degradation
    tile : int, optional
        Side of a tile in fine pixels. None: 512, less only where memory forces it.
    memory : float, optional
        Bytes that all processes of this machine may take together. None: half of what is available.
    workers : int, optional
        Processes of one thread each, at most. None: one for each core. 0: none, all is done in this process.
    client : distributed.Client or str, optional
        A dask cluster, or the address of its scheduler, to work on instead. It must see `folder`, and the files that
        sources name, under the same paths.
    folder : path, optional
        Where finished tiles are kept. None: a temporary folder, removed when the result is closed.
    resume : bool
        Whether to go on with what `folder` holds.
    method, **options
        As of `fuse`; a time limit is that of one tile.
    rng : int
        The seed; that of each tile is made of it and the tile's place.
    dtype : dtype, optional
        What both images are cast to. None: float32 if both are float32 or float16, else float64.
    hsi_valid, msi_valid : bool array, optional
        True where there are data, (rows, columns) or with bands. Sources say it themselves.
    uncertainty : bool
        Whether expected errors are made too, by methods that tell them.
    progress : callable(TileProgress), optional

    Returns
    -------
    FusedTiles
        `.write(out)` writes it block by block, `.render(rows, cols)` gives a block, `.sri` the whole.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import degrade, preset, scenes
    >>> from fastccpd.tiles import fuse_tiles
    >>> scene = scenes.synthetic((64, 48, 36)).cube
    >>> degradation = preset("stereo", scene.shape)
    >>> with fuse_tiles(*degrade(scene, degradation), degradation, tile=32, method="gsa", workers=1) as fused:
    ...     print(len(fused.plan), fused.render(slice(0, 8), slice(0, 8)).shape)
    4 (8, 8, 36)
    """
    began = time.perf_counter()
    request = checked_request(method, **options)
    if request.init is not None:
        raise TypeError("init: a start of a whole scene cannot be cut into tiles; leave it out")
    if uncertainty and not request.method.tells_uncertainty:
        raise ValueError(f"uncertainty: {request.method.name!r} tells none; leave it out, or use another method")
    rng = as_count(rng, "rng", least=0)
    workers = 0 if workers == 0 and workers is not False else worker_count(workers)
    memory_limit(memory)
    tile = None if tile is None else as_tile(tile)
    sources = as_source(hsi, "hsi", hsi_valid), as_source(msi, "msi", msi_valid)
    degradation.check(*(source.shape for source in sources))
    if dtype is not None:
        as_choice(np.dtype(dtype).name, "dtype", ("float32", "float64"))
    work = dtype if dtype is not None else working_dtype(*sources)
    temporary = folder is None
    place = Path(tempfile.mkdtemp(prefix="fastccpd-tiles-")) if folder is None else Path(folder)
    asked = asked_for(*sources, degradation, request, rng, dtype) | {"uncertainty": uncertainty}
    state = State(place, asked, resume)
    tell = progress or (lambda _: None)
    try:
        with ExitStack() as stack:
            first = workers
            if client is None:
                block, fitting = of_first_pass(degradation, max(1, workers), memory, state.block)
                first = fitting if workers else 0
            machine.hand_back_freed_memory()
            crew = stack.enter_context(crew_of(first, client, most_tasks(degradation)))
            if client is not None:
                each = memory if crew.memory is None else max(crew.memory, PROCESS) + PROCESS
                block, _ = of_first_pass(degradation, 1, each, state.block)
            state.block = block
            judged = _judged(state, sources, degradation, crew, dtype, block, tell)
            shared = None
            if request.method.shares:
                shared = _shared(state, sources, degradation, crew, dtype, block, uncertainty, tell)
            known = shared
            if request.method.shares_bands:
                tell(TileProgress("statistics"))
                known = bands_of_scene(*sources, degradation, crew, dtype, block)
            limits = {"memory": memory, "shared": shared, "workers": max(1, workers), "block": block}
            if client is not None:
                limits |= {"memory": memory if crew.memory is None else crew.memory + PROCESS, "workers": 1}
            plan, fitting = _plan(state, degradation, request.method, work, tile, limits)
            count = fitting if client is None else crew.count
            if client is None and workers and not min(first, len(plan)) <= count <= first:
                stack.close()  # so that no process keeps what others may have now
                crew = stack.enter_context(crew_of(count))
            statuses = state.finished(plan)
            # The largest first, so that no worker is long alone with the last one.
            todo = sorted((place for place in plan.tiles() if place not in statuses), key=plan.pixels, reverse=True)

            def task(place):
                piece = _piece_of(plan, place, sources, degradation, dtype)
                mine = replace(request, method=request.method.for_part(piece.share_of(plan.shape)))
                return lambda: Fuse(
                    piece.read(), mine, known, judged, (rng, *place), str(state.tile_path(place).absolute())
                )

            meter = _Meter(plan, len(statuses))
            tell(meter.progress())
            tasks = ((place, task(place)) for place in todo)
            # One beside each that is worked on, so that no worker waits; not where this machine must hold its pixels.
            ahead = 1 if client is None and not all(getattr(part, "portable", False) for part in sources) else 2
            for place, summary in done_in_any_order(crew, tasks, ahead * count):
                statuses[place] = None if summary["status"] is None else Status[summary["status"]]
                if statuses[place] is None:
                    state.mark_empty(place)
                tell(meter.progress(place))
    except BaseException:
        state.close()
        if temporary:
            state.remove()
        raise
    return FusedTiles(
        shape=degradation.sri_shape,
        dtype=work,
        plan=plan,
        shared=shared,
        verdict=judged.verdict,
        method=request.method.name,
        status=_worst(statuses.values()),
        statuses={place: statuses[place] for place in plan.tiles()},
        seconds=time.perf_counter() - began,
        provenance={"asked": asked, "versions": machine.versions_in_use(), "plan": plan.as_json()},
        state=state,
        temporary=temporary,
    )


def _judged(state, sources, degradation, crew, dtype, block, tell):
    """The verdict on the scene: found now, or in the run that goes on."""
    found = state.judged
    if found is None:
        tell(TileProgress("verdict"))
        hsi, msi = sources
        found = state.judged = judged_scene(hsi, msi, degradation, crew, dtype, block)
    return found


def _shared(state, sources, degradation, crew, dtype, block, errors, tell):
    """What the tiles share: found now, or in the run that goes on."""
    found = state.first()
    if found is None:
        tell(TileProgress("statistics"))
        hsi, msi = sources
        statistics = statistics_of_scene(hsi, msi, degradation, crew, dtype, block)
        tell(TileProgress("samples"))
        with one_blas_thread():
            noise = noise_from(statistics)
            subspace = subspace_from(degradation.PM, noise)
        gramians = gramians_of_scene(hsi, msi, degradation, noise, subspace, crew, dtype)
        with one_blas_thread():
            spectra = spectra_of_scene(statistics, gramians, noise, subspace)
        risks = path_risks_of_scene(hsi, msi, degradation, noise, subspace, spectra, crew, dtype)
        found = statistics, gramians, risks
        state.keep_first(*found)
    with one_blas_thread():
        return shared_from(found[0], found[1], found[2], degradation.PM, errors=errors)


def _plan(state, degradation, method, dtype, tile, limits):
    """The plan of the run that goes on, or a new one, and how many tiles fit at once."""
    plan = state.plan
    if plan is None:
        plan, fitting = choose_plan(degradation, method, dtype, tile=tile, **limits)
        state.plan = plan
    elif tile not in (None, plan.tile):
        raise ValueError(f"tile: got {tile}, but this run was begun with {plan.tile}; give the same, or begin anew")
    else:
        again, fitting = choose_plan(degradation, method, dtype, tile=plan.tile, **limits)
        if again != plan:
            raise ValueError(f"{state.folder}: its plan is not one of these images; remove the folder to begin anew")
    return plan, fitting


def _piece_of(plan, place, sources, degradation, dtype):
    rows, cols = plan.rows[place[0]], plan.cols[place[1]]
    return piece_of(sources[0], sources[1], degradation, rows, cols, periodic=plan.periodic, dtype=dtype)


class _Meter:
    """Tiles done, and how fast."""

    def __init__(self, plan: Plan, done: int):
        self._plan, self._done, self._pixels, self._began = plan, done, 0, time.perf_counter()
        self._left = plan.shape[0] * plan.shape[1] * (len(plan) - done) // len(plan)

    def progress(self, place=None):
        if place is not None:
            spans = self._plan.rows[place[0]], self._plan.cols[place[1]]
            self._pixels += (spans[0].core[1] - spans[0].core[0]) * (spans[1].core[1] - spans[1].core[0])
            self._done += 1
        seconds = max(time.perf_counter() - self._began, 1e-9)
        left = max(self._left - self._pixels, 0) * seconds / self._pixels if self._pixels else None
        return TileProgress("tiles", self._done, len(self._plan), self._pixels / seconds / 1e6, left)


def _worst(statuses):
    """The status of a whole: that of the first tile that has not converged, if there is one."""
    known = [status for status in statuses if status is not None]
    if not known:
        return Status.NOT_FINITE
    return next((status for status in known if not status.converged), known[0])
