"""Two files into one in tiles: read by windows, fused tile by tile, written block by block."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from .. import formats, machine, methods
from ..estimation import Shift
from ..imaging.moving import Move
from ..model import types
from ..model.degradation import Degradation
from ..tiles import FusedTiles, Preview, TileProgress, fuse_tiles, memory_limit, preview_of
from ..tiles.memory import BLOCK
from ..tiles.plan import as_tile
from ..tiles.state import discard
from . import operators
from .estimating import given_operators, move_to, unseen
from .gaps import fine_mask
from .pair import Pair
from .preparation import OpenPair, Preparation, open_pair
from .remarks import Listener, Remarks
from .targets import check_outputs, check_targets, hashes_beside
from .tile_estimates import Adjusted, levels_by_window, settled_by_window
from .writing import Output, Rounding, map_raster, provenance, result_raster, warn_of_loss, write_raster


@dataclass(frozen=True, eq=False)
class TiledFiles:
    """What came out of a fusion of two files in tiles.

    Attributes
    ----------
    fused : FusedTiles
        Closed: its figures are left, and its tiles gone.
    pair : OpenPair
    degradation : Degradation
    blur : fastccpd.rasters.operators.Blur
    nodata : int
        Pixels of the result that are marked as nodata.
    written : dict
        The files that were written: "output" and "uncertainty", as far as they were asked for.
    notes, warnings : tuple of str
    sources : dict of "hsi" and "msi" to dict
        What is known of the two files.
    shift : fastccpd.estimation.shift.Shift or None
        As of `FusedFiles`, measured in one window.
    preview : Preview or None
        The scene made small, where that was asked for.
    move : fastccpd.imaging.moving.Move or None
        As of `FusedFiles`.
    """

    fused: FusedTiles
    pair: OpenPair
    degradation: Degradation
    blur: operators.Blur
    nodata: int
    written: dict[str, str]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    sources: dict[str, dict[str, Any]]
    shift: Shift | None = None
    preview: Preview | None = None
    move: Move | None = None


def folder_of(output: types.Path) -> Path:
    """Where the tiles of an output are kept until it is written: beside it, so on the same disk."""
    return Path(f"{os.fsdecode(output)}.tiles")


def _is_of_run(folder, path):
    """Whether what stands at a path, if anything does, was written by the run that is kept in a folder."""
    try:
        return not os.path.exists(path) or os.stat(path).st_mtime_ns >= (folder / "state.json").stat().st_mtime_ns
    except OSError:
        return False


def needs_tiles(pair: OpenPair, method: methods.Method, dtype: str | None = None) -> bool:
    """Whether two images, their result and what the method takes do not fit into the memory that is available."""
    available = machine.available_memory()
    return available is not None and pair.memory_needed(method, dtype) > available


def fuse_files_in_tiles(
    hsi: types.Path,
    msi: types.Path,
    output: types.Path,
    *,
    wanted: Preparation | None = None,
    psf: Any = None,
    srf: Any = None,
    bands: str | None = None,
    align: bool = True,
    place: str = "msi",
    uncertainty: types.Path | None = None,
    match_values: bool = False,
    fill_nodata: bool = False,
    keep_filled: bool = False,
    form: Output | None = None,
    overwrite: bool = False,
    resume: bool = False,
    tile: int | None = None,
    memory: float | None = None,
    workers: int | None = None,
    client: Any = None,
    preview: bool = False,
    method: str | methods.Method = methods.DEFAULT,
    dtype: str | None = None,
    progress: Callable[[TileProgress], Any] | None = None,
    writing: Callable[[int, int], Any] | None = None,
    messages: Listener | None = None,
    **options: Any,
) -> TiledFiles:
    """Fuse two files tile by tile, in a bounded amount of memory, and write the result block by block.

    Parameters
    ----------
    hsi, msi, psf, srf, bands, align, place, uncertainty, match_values, fill_nodata, keep_filled, overwrite
        As of `fuse_files`.
    method, dtype, messages
        As of `fuse_files`.
    output : path
        A GeoTIFF, Zarr or npy file. Its tiles are kept in a folder beside it, `OUTPUT.tiles`, until it is written.
    wanted : Preparation, optional
        How the two files are made ready.
    form : Output, optional
    resume : bool
        Whether to go on with the tiles that are there.
    tile, memory, workers, client, progress, **options
        As of `fastccpd.tiles.fuse_tiles`.
    preview : bool
        Whether the scene made small is wanted too, for a report.
    writing : callable(done, total), optional
        Called after each block that is written.

    Returns
    -------
    TiledFiles
    """
    remarks, form, wanted = Remarks(messages), form or Output(dtype=dtype or "float32"), wanted or Preparation()
    named = {name: options[name] for name in options if name not in ("starts", "combine", "rng", "time_limit")}
    chosen = method if isinstance(method, methods.Method) else methods.make(method, named)
    folder = folder_of(output)
    overwrite = overwrite or (resume and all(_is_of_run(folder, path) for path in (output, uncertainty) if path))
    images_written, kept = {"-o": output, "--uncertainty": uncertainty}, {"the tiles": folder}
    check_outputs(hsi, msi, psf, srf, images_written, kept, wanted)
    check_targets(output, uncertainty, overwrite, chosen, 1, "best", form.cog)
    formats.check_streamed(output)
    limit, tile = memory_limit(memory), None if tile is None else as_tile(tile)
    pair = replace(open_pair(hsi, msi, wanted, remarks), memory=limit)
    facade = _facade(pair)
    blur, PM = given_operators(psf, srf, bands, hsi, facade, chosen, remarks)
    beyond = unseen(PM, pair.msi.bands, pair.msi.header, remarks)
    if beyond.any():
        pair = replace(pair, msi=pair.msi.with_bands(pair.msi.bands & ~beyond))
        facade = _facade(pair)
    PM = None if PM is None else PM[pair.msi.bands]
    if not (fill_nodata or chosen.takes_gaps):
        _refuse_gaps(pair, chosen)
    blur, PM, pair, shift = settled_by_window(blur, PM, pair, chosen, align, remarks)
    facade = _facade(pair)
    degradation = operators.degradation(blur, PM)
    degradation.check(pair.hsi.shape, pair.msi.shape)
    move = move_to(place, blur, pair.placement.grids, pair.msi.shape, remarks)
    levels = _levels(pair, degradation, match_values, remarks)
    images = Adjusted(pair.hsi, fill=fill_nodata), Adjusted(pair.msi, levels if match_values else None, fill_nodata)
    if overwrite and not resume:
        discard(folder)
    how = {"tile": tile, "memory": memory, "workers": workers, "client": client, "progress": progress}
    kept = {"folder": folder, "resume": resume, "uncertainty": uncertainty is not None}
    with fuse_tiles(*images, degradation, method=method, dtype=dtype, **how, **kept, **options) as fused:
        used = wanted.given() | ({"match_values": str(levels)} if match_values else {}) | {"place": place}
        used |= {"psf": psf, "srf": srf, "bands": bands, "align": align}
        used |= {"fill_nodata": fill_nodata, "keep_filled": keep_filled, "dtype": dtype}
        sources = _sources(pair)
        beside = hashes_beside(psf, srf, wanted)
        tags = _tags(fused, chosen, options.get("rng", 0), sources, facade, degradation, (blur, shift), used, beside)
        errors = uncertainty is not None
        small = preview_of(fused, *images, degradation, uncertainty=errors) if preview else None
        written = {"output": str(output)}
        pixel, marked = np.zeros((1, 1, fused.shape[2]), np.float32), np.ones((1, 1), bool)
        cube = formats.placeholder((*fused.shape[:2], pair.hsi.bands.size), form.dtype)
        head = _with(result_raster(pixel, facade, marked, form, tags), cube)
        warn_of_loss(output, head, remarks)
        with formats.stream(output, head, folder, overwrite=overwrite, cog=form.cog) as out:
            sink = _Marking(out, pair, facade, form, keep_filled, move)
            fused.write(sink, writing, render=None if move is None else partial(move.image, fused.render))
        sink.rounding.warn(output, remarks)
        if uncertainty is not None:
            # One band: a scene's worth of it fits.
            everything = slice(0, fused.shape[0]), slice(0, fused.shape[1])
            render = fused.uncertainty if move is None else partial(move.image, fused.uncertainty)
            error = render(*everything)[:, :, 0]
            write_raster(uncertainty, map_raster(error, facade, np.isnan(error), tags), form, overwrite, remarks)
            written["uncertainty"] = str(uncertainty)
        fused.temporary = True  # the output is there, and the tiles are of no more use
    said = tuple(remarks.notes), tuple(remarks.warnings)
    return TiledFiles(fused, pair, degradation, blur, sink.nodata, written, *said, sources, shift, small, move)


class _Marking:
    """Blocks of the result in the form of the output, what has no data marked."""

    def __init__(self, out, pair, facade, form, keep_filled, move):
        self.chunks, self._out, self._move = out.chunks, out, move
        self._pair, self._facade, self._form, self._keep = pair, facade, form, keep_filled
        self.nodata, self.rounding = 0, Rounding(form)

    def write(self, rows, cols, block):
        marked = np.isnan(block).any(axis=2)
        missing = partial(_missing, self._pair)
        if not self._keep:
            marked |= missing(rows, cols) if self._move is None else self._move.mask(missing, rows, cols)
        block = np.where(np.isnan(block), 0, block) if marked.any() else block
        self.nodata += int(marked.sum())
        self.rounding.add(block, marked)
        self._out.write(rows, cols, result_raster(block, self._facade, marked, self._form).cube)


def _missing(pair, rows, cols):
    """The pixels of a block that have no data in the MSI, or lie under a pixel of the HSI that has none."""
    ratio = pair.placement.grids.ratio
    coarse = [slice(part.start // ratio, -(-part.stop // ratio)) for part in (rows, cols)]
    whole = [slice(part.start * ratio, part.stop * ratio) for part in coarse]
    inside = tuple(slice(part.start - all_.start, part.stop - all_.start) for part, all_ in zip((rows, cols), whole))
    missing = np.zeros([part.stop - part.start for part in whole], bool)
    missing[inside] = ~pair.msi.valid(rows, cols)
    return fine_mask(~pair.hsi.valid(*coarse), missing, ratio)[inside]


def _facade(pair: OpenPair) -> Any:
    """What functions of whole pairs ask of one, without its pixels."""
    hsi, msi = pair.hsi.header, pair.msi
    size = (*msi.taken.shape, msi.bands.size)
    return SimpleNamespace(
        hsi=hsi,
        msi=SimpleNamespace(shape=size, nodata=None, georeference=msi.taken.georeference, **_described(msi.header)),
        grids=pair.placement.grids,
        good_hsi=pair.hsi.bands,
        good_msi=msi.bands,
        wavelengths=hsi.wavelengths,
        fwhm=hsi.fwhm,
        names=hsi.names,
    )


def _described(header):
    return {name: getattr(header, name) for name in ("wavelengths", "names", "source")}


def _with(head, cube):
    """A raster like another, of a cube that is not there yet."""
    described = {name: getattr(head, name) for name in ("wavelengths", "fwhm", "names", "nodata", "georeference")}
    further = {name: getattr(head, name) for name in ("bad_bands", "scale", "tags")}
    return formats.Raster(cube, **described, **further)


def _refuse_gaps(pair, method):
    """Refuse missing pixels, before any work, for a method that cannot leave them out."""
    for name, image in (("hsi", pair.hsi), ("msi", pair.msi)):
        rows, cols, _ = image.shape
        for top, left in product(range(0, rows, BLOCK), range(0, cols, BLOCK)):
            if not image.valid(slice(top, min(top + BLOCK, rows)), slice(left, min(left + BLOCK, cols))).all():
                raise ValueError(
                    f"{name}: pixels from row {top} and column {left} on are nodata; fill them with --fill-nodata, "
                    f"or use a method that leaves them out, which {method.name} cannot"
                )


def _levels(pair, degradation, apply, remarks):
    """Scale and offset between the images by a window; what it shows of them is said."""
    levels = levels_by_window(pair, degradation)
    if levels is None and apply:
        raise ValueError("--match-values: the images have too little in common to tell a scale; leave it out")
    if levels is not None and apply:
        remarks.note(f"{levels}; the MSI is brought to the HSI's units")
    elif levels is not None and not levels.agree:
        remarks.warn(
            f"{levels}; if both are meant to be in the same units, say --msi-scale and --msi-offset, or --match-values "
            "to apply what was found"
        )
    return levels


@dataclass(frozen=True)
class _Made:
    """What the tags say of a result whose image is not here."""

    method: str
    options: dict[str, Any]
    seed: int


def _sources(pair):
    """What is known of the two files, their hashes too."""
    return {
        name: image.header.source | formats.hashes_of(image.header)
        for name, image in (("hsi", pair.hsi), ("msi", pair.msi))
    }


def _tags(fused, method, seed, sources, facade, degradation, placed, used, beside):
    """How the result was made, the plan too."""
    blur, shift = placed
    result = _Made(method.name, method.options(), seed)
    images = {name: SimpleNamespace(source=source) for name, source in sources.items()}
    described = cast(Pair, SimpleNamespace(**(vars(facade) | images)))  # but for the pixels
    known = {"blur": blur.settings, "blur_sigma": blur.sigma, "moved": blur.moved, "shift": shift}
    known |= {"offset": facade.grids.offset}
    tags = provenance(result, described, degradation, known, used, beside)
    return tags | {"FASTCCPD_PLAN": json.dumps(fused.plan.as_json())}
