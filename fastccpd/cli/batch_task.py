"""One pair of a batch, fused in a worker process: a line of result, whatever comes of it."""

import base64
import hashlib
import io
import json
import os
import time
from dataclasses import asdict, dataclass

import numpy as np

from .. import formats, imaging, plots
from ..model.files import first_line
from ..rasters import fuse_files
from .manifest import Row

# Side of a thumbnail in pixels, at most.
_THUMBNAIL = 160

# What `fuse_files` takes, but not from a row of a manifest.
_NOT_OF_A_PAIR = {"callback", "progress", "messages", "threads", "overwrite"}


@dataclass(frozen=True)
class FusePair:
    """A task: fuse a row's pair.

    Attributes
    ----------
    row : Row
        The pair, the output and the options of this pair.
    overwrite : bool
        Whether an output that exists may be replaced.
    pictures : bool
        Whether a thumbnail is made.
    """

    row: Row
    overwrite: bool = False
    pictures: bool = False

    def __call__(self):
        began = time.perf_counter()
        try:
            line = self._line() | self._fused()
        except Exception as error:
            line = self.failed(error)
        return line | {"seconds": round(time.perf_counter() - began, 3)}

    def failed(self, error):
        """The line of a pair that nothing came of."""
        reason = first_line(error)
        told = {"status": "failed", "verdict": reason, "error": f"{type(error).__name__}: {reason}", "seconds": 0.0}
        return self._line() | told

    def _line(self):
        row = self.row
        return {"number": row.number, "name": row.name, "output": row.output, "key": key_of(row)}

    def _fused(self):
        row, heard = self.row, _Heard()
        for name in _NOT_OF_A_PAIR & row.options.keys():
            raise ValueError(f"{name}: is not for a pair of a batch; leave it out")
        os.makedirs(os.path.dirname(os.path.abspath(row.output)), exist_ok=True)
        done = fuse_files(
            row.hsi, row.msi, row.output, overwrite=self.overwrite, threads=1, messages=heard, **_plain(row.options)
        )
        result = done.result
        line = {
            "status": "done" if result.converged else "not converged",
            "reason": str(result.status),
            "verdict": str(result.verdict),
            "warnings": heard.warnings,
            "method": result.method,
            "shape": list(result.shape),
            "left_unexplained": done.residuals,
            "metrics": self._metrics(done),
            "sha256": {
                "hsi": done.pair.hsi.source["sha256"],
                "msi": done.pair.msi.source["sha256"],
                "output": formats.sha256(row.output) if os.path.isfile(row.output) else None,
            },
        }
        if self.pictures:
            line["thumbnail"] = _thumbnail(result, done)
        return line

    def _metrics(self, done):
        """How close the result is to a truth, where one is named."""
        if self.row.truth is None:
            return None
        truth = formats.read(self.row.truth)
        sri = done.result.sri
        if truth.shape != sri.shape:
            raise ValueError(f"truth: {truth.shape}, but the result is {sri.shape}; they must agree")
        missing = truth.missing() | done.marked
        pixels = (np.ascontiguousarray(image[~missing][:, None]) for image in (sri, truth.cube))
        images = pixels if missing.any() else (sri, truth.cube)
        row = imaging.score(*images, done.pair.grids.ratio)
        return {name: value for name, value in row.items() if isinstance(value, float) and np.isfinite(value)}


class _Heard:
    """Keeps the notes and warnings of a fusion."""

    def __init__(self):
        self.notes, self.warnings = [], []

    def note(self, text):
        self.notes.append(str(text))

    def warn(self, text):
        self.warnings.append(str(text))


def key_of(row):
    """What a result depends on: the row, and its files as they are now."""
    files = {}
    for name in (row.hsi, row.msi, row.truth):
        path = None if name is None else name.partition("::")[0]
        try:
            found = os.stat(path) if path is not None else None
        except (OSError, ValueError):
            found = None
        files[str(name)] = None if found is None else (found.st_size, found.st_mtime_ns)
    text = json.dumps([asdict(row) | {"number": 0}, files], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(options):
    """Lists, which are all that JSON has, as the tuples that options are."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def _thumbnail(result, done):
    """A small picture as PNG in base64; None where it cannot be drawn."""
    try:
        from matplotlib.image import imsave
    except ImportError:
        return None
    step = max(1, -(-max(result.shape[:2]) // _THUMBNAIL))
    rows, cols = (np.arange(0, size, step) for size in result.shape[:2])
    wavelengths = done.pair.wavelengths
    known = None if wavelengths is None else np.asarray(wavelengths)[done.pair.good_hsi]
    picture = plots.rgb(result.render(rows, cols), known, missing=done.marked[rows][:, cols])
    file = io.BytesIO()
    imsave(file, picture, format="png")
    return base64.b64encode(file.getvalue()).decode("ascii")
