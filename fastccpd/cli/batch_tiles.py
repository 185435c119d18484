"""A pair of a batch that does not fit into memory, or that asks for it, fused in tiles by all workers together."""

from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np

from .. import formats, machine
from ..formats.raster import gone
from ..imaging import metrics
from ..rasters import Preparation
from ..rasters.tiling import folder_of, fuse_files_in_tiles
from ..rasters.writing import Output
from ..tiles.memory import BLOCK
from .batch_task import Heard, PairTask, finite, of_row, thumbnail

# Options of a row that are of the form of its output, by what `Output` calls them.
_FORM = {"output_dtype": "dtype", "output_scale": "scale", "cog": "cog"}


@dataclass(frozen=True)
class FuseInTiles(PairTask):
    """Fuse a row's pair in tiles.

    Attributes
    ----------
    row, overwrite, pictures
        As of `PairTask`.
    resume : bool
        Whether tiles of this pair that are there are gone on with.
    memory : float or None
        Bytes for all processes together.
    workers : int
    scheduler : str or None
    progress, writing : callable
        As of `fuse_files_in_tiles`.
    """

    resume: bool = False
    memory: float | None = None
    workers: int = 1
    scheduler: str | None = None
    progress: Any = None
    writing: Any = None

    def fused(self):
        row, heard = self.row, Heard()
        options = of_row(row)
        prepared = {field.name: options.pop(field.name) for field in fields(Preparation) if field.name in options}
        form = {name: options.pop(option) for option, name in _FORM.items() if option in options}
        form["dtype"] = form.get("dtype") or options.get("dtype") or "float32"
        done = fuse_files_in_tiles(
            row.hsi,
            row.msi,
            row.output,
            wanted=Preparation(**prepared),
            form=Output(**form),
            overwrite=self.overwrite,
            resume=self.resume and folder_of(row.output).exists(),
            memory=self.memory,
            workers=self.workers,
            client=self.scheduler,
            preview=True,
            progress=self.progress,
            writing=self.writing,
            messages=heard,
            **options,
        )
        fused, small = done.fused, done.preview
        line = self.outcome(fused, small.residuals, heard, done.sources) | {
            "tiles": {"number": len(fused.plan), "side": fused.plan.tile},
            "metrics": None if row.truth is None else _metrics(row, done),
        }
        if self.pictures:
            known = done.pair.hsi.header.wavelengths
            known = None if known is None else np.asarray(known)[done.pair.hsi.bands]
            line["thumbnail"] = thumbnail(small.result, known, small.missing)
        machine.hand_back_freed_memory()
        return line


def _metrics(row, done):
    """How close the output is to the truth, block by block; of the metrics those that look at pixels one by one."""
    truth, output = formats.windows(row.truth), formats.windows(row.output)
    bands, (rows, cols, _) = done.pair.hsi.bands, output.shape
    if truth.shape not in (output.shape, (rows, cols, int(bands.sum()))):
        raise ValueError(f"truth: {truth.shape}, but the result is {output.shape}; they must agree")
    scale = output.header.scale

    def seen(image, here):
        values = image.read(*here)
        return values[:, :, bands] if values.shape[2] == bands.size else values

    def parts():
        for top, left in product(range(0, rows, BLOCK), range(0, cols, BLOCK)):
            here = slice(top, min(top + BLOCK, rows)), slice(left, min(left + BLOCK, cols))
            made, true = seen(output, here), seen(truth, here)
            has = ~(gone(made, output.header.nodata) | gone(true, truth.header.nodata)).any(axis=2)
            yield made[has] * (1.0 if scale is None else scale[bands]), true[has]

    return finite(metrics.score_of_parts(parts, done.pair.placement.grids.ratio))
