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
from ..tiles.memory import PROCESS
from .manifest import Row, absolute

#: The status of a pair that is yet to be fused, with fewer others beside it or in tiles.
TOO_LARGE = "too large"

# Side of a thumbnail in pixels, at most.
_THUMBNAIL = 160

# What `fuse_files` and `fuse_files_in_tiles` take, but not from a row of a manifest.
_NOT_OF_A_PAIR = {"callback", "progress", "messages", "threads", "overwrite", "memory", "workers", "client", "resume"}
_NOT_OF_A_PAIR |= {"folder", "preview", "writing", "wanted", "form"}


@dataclass(frozen=True)
class PairTask:
    """A pair of a batch, and the line of result that comes of it.

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
            os.makedirs(os.path.dirname(os.path.abspath(self.row.output)), exist_ok=True)
            line = self.line() | self.fused()
        except Exception as error:
            line = self.failed(error)
        return line | {"seconds": round(time.perf_counter() - began, 3)}

    def fused(self):
        """What the fusion adds to the line."""
        raise NotImplementedError(f"{type(self).__name__} has no fused")

    def failed(self, error):
        """The line of a pair that nothing came of."""
        reason = first_line(error)
        told = {"status": "failed", "verdict": reason, "error": f"{type(error).__name__}: {reason}", "seconds": 0.0}
        return self.line() | told

    def line(self):
        """What is known of a pair before it is fused."""
        row = self.row
        return {"number": row.number, "name": row.name, "output": row.output, "key": key_of(row)}

    def outcome(self, result, residuals, heard, sources):
        """What the line says of a result: of one whole, or of one in tiles."""
        return {
            "status": "done" if result.converged else "not converged",
            "reason": str(result.status),
            "verdict": str(result.verdict),
            "disagrees": result.verdict.disagrees,
            "warnings": heard.warnings,
            "method": result.method,
            "shape": list(result.shape),
            "left_unexplained": residuals,
            "sha256": {name: source["sha256"] for name, source in sources.items()}
            | {"output": formats.sha256(self.row.output) if os.path.isfile(self.row.output) else None},
        }


@dataclass(frozen=True)
class FusePair(PairTask):
    """Fuse a row's pair whole, in a worker process.

    Attributes
    ----------
    row, overwrite, pictures
        As of `PairTask`.
    memory : int or None
        Bytes that the process may take. A pair that needs more has the status TOO_LARGE, and nothing else came of it.
    """

    memory: int | None = None

    def fused(self):
        row, heard = self.row, Heard()
        try:
            done = fuse_files(
                row.hsi,
                row.msi,
                row.output,
                overwrite=self.overwrite,
                threads=1,
                memory=None if self.memory is None else max(0, self.memory - PROCESS),
                messages=heard,
                **of_row(row),
            )
        except MemoryError as error:
            return {"status": TOO_LARGE, "verdict": first_line(error)}
        result, pair = done.result, done.pair
        sources = {"hsi": pair.hsi.source, "msi": pair.msi.source}
        line = self.outcome(result, done.residuals, heard, sources) | {"metrics": self._metrics(done)}
        if self.pictures:
            known = None if pair.wavelengths is None else np.asarray(pair.wavelengths)[pair.good_hsi]
            line["thumbnail"] = thumbnail(result, known, done.marked)
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
        return finite(imaging.score(*images, done.pair.grids.ratio))


class Heard:
    """Keeps the notes and warnings of a fusion."""

    def __init__(self):
        self.notes, self.warnings = [], []

    def note(self, text):
        self.notes.append(str(text))

    def warn(self, text):
        self.warnings.append(str(text))


def finite(metrics):
    """The metrics that are numbers."""
    return {name: value for name, value in metrics.items() if isinstance(value, float) and np.isfinite(value)}


def key_of(row):
    """What a result depends on: the row, and its files as they are now."""
    row, files = absolute(row), {}
    for name in (row.hsi, row.msi, row.truth):
        path = None if name is None else name.partition("::")[0]
        try:
            found = os.stat(path) if path is not None else None
        except (OSError, ValueError):
            found = None
        files[str(name)] = None if found is None else (found.st_size, found.st_mtime_ns)
    text = json.dumps([asdict(row) | {"number": 0}, files], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def of_row(row):
    """The options of a row; lists, which are all that JSON has, as the tuples that options are."""
    for name in sorted(_NOT_OF_A_PAIR & row.options.keys()):
        raise ValueError(f"{name}: is not for a pair of a batch; leave it out")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.options.items()}


def thumbnail(result, wavelengths, missing):
    """A small picture as PNG in base64; None where it cannot be drawn.

    Parameters
    ----------
    result : FusionResult
    wavelengths : (bands,) array or None
    missing : (rows, columns) bool array
    """
    try:
        from matplotlib.image import imsave
    except ImportError:
        return None
    step = max(1, -(-max(result.shape[:2]) // _THUMBNAIL))
    rows, cols = (np.arange(0, size, step) for size in result.shape[:2])
    picture = plots.rgb(result.render(rows, cols), wavelengths, missing=missing[rows][:, cols])
    file = io.BytesIO()
    imsave(file, picture, format="png")
    return base64.b64encode(file.getvalue()).decode("ascii")
