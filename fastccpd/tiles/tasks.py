"""What worker processes are asked to do; a task is small, picklable, and gives the same bytes wherever it is done."""

import ctypes
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from ..blas import one_blas_thread
from ..estimation import (
    Gramians,
    Noise,
    PathRisks,
    Shared,
    Statistics,
    Subspace,
    gramians_of,
    path_risks_of,
    statistics_of,
)
from ..estimation.middle import blurred_from_data
from ..estimation.moments import SceneBands
from ..estimation.patches import differences
from ..fusion import Request, run
from ..model.problem import Factors, Mixture
from ..model.result import FusionResult
from ..model.types import Array, Mask
from ..model.verdict import Judged
from .pieces import Piece

# Parameters of glibc's mallopt.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

# A window with fewer complete pixels of the HSI says nothing of the weight.
_FEWEST = 30


def perform(task: Any) -> Any:
    """Do a task, on one thread."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with one_blas_thread():
            return task()
    finally:
        numba.set_num_threads(before)


def perform_in_worker(task: Any) -> Any:
    """`perform`, in a process that does nothing else and keeps the memory it works with."""
    _keep_memory()
    return perform(task)


@cache
def _keep_memory():
    """Have glibc keep what is freed, up to a limit: else it gives blocks back at once, and they are faulted in again.

    A fit allocates maps of megabytes thousands of times: without this a fifth of its time went into page faults.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # larger blocks are mapped one by one; more than this is not taken
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)


@dataclass(frozen=True, eq=False)
class Gather:
    """The statistics of a piece; None where it has no data."""

    piece: Piece

    def __call__(self) -> Statistics | None:
        problem = self.piece.problem()
        return None if problem is None else statistics_of(problem, fewest=0.0)


@dataclass(frozen=True, eq=False)
class Compare:
    """Where the images of a piece can be compared, and by how much they differ there; None where it has no data.

    Attributes
    ----------
    piece : Piece
    unit : (MSI bands,) array
        As of `fastccpd.estimation.patches.differences`.
    """

    piece: Piece
    unit: Array

    def __call__(self) -> tuple[Array, Mask, float] | None:
        """The differences, the pixels of the HSI that they are of, and the sum of squares of the HSI."""
        problem = self.piece.problem()
        if problem is None:
            return None
        chosen = blurred_from_data(problem)
        return differences(problem, chosen, self.unit), chosen, float(np.sum(np.square(problem.hsi, dtype=np.float64)))


@dataclass(frozen=True, eq=False)
class Sum:
    """The `Gramians` of a piece, from which spectra are found; None where it has no complete pixel."""

    piece: Piece
    noise: Noise
    subspace: Subspace

    def __call__(self) -> Gramians | None:
        problem = self.piece.problem()
        return gramians_of(problem, self.noise, self.subspace) if problem is not None and _complete(problem) else None


@dataclass(frozen=True, eq=False)
class Probe:
    """The `PathRisks` of a piece, from which the weight is found; None where it has too few data."""

    piece: Piece
    noise: Noise
    subspace: Subspace
    spectra: Array

    def __call__(self) -> PathRisks | None:
        problem = self.piece.problem()
        if problem is None or _complete(problem) < _FEWEST:
            return None
        return path_risks_of(problem, self.noise, self.subspace, self.spectra)


def _complete(problem):
    """How many pixels of the HSI have data in all bands."""
    if problem is None:
        return 0
    if problem.hsi_valid is not None:
        return int(problem.hsi_valid.all(axis=2).sum())
    return problem.hsi.shape[0] * problem.hsi.shape[1]


@dataclass(frozen=True, eq=False)
class Fuse:
    """Fuse a tile, and write what is kept of it.

    Attributes
    ----------
    piece : Piece
    request : Request
    shared : Shared, SceneBands or None
        What all tiles have in common, for methods that can use it: all of it, or that of the bands.
    judged : Judged
        The verdict on the scene.
    seed : sequence of int
        Of this tile's random numbers: the scene's, and the tile's id.
    path : str
        The file to write.
    """

    piece: Piece
    request: Request
    shared: Shared | SceneBands | None
    judged: Judged
    seed: tuple[int, ...]
    path: str

    def __call__(self) -> dict[str, Any]:
        if not Path(self.path).parent.is_dir():
            raise FileNotFoundError(
                f"folder: {Path(self.path).parent} is not there for this worker; a shared one is needed"
            )
        problem = self.piece.problem()
        if problem is None:
            return {"status": None, "seconds": 0.0}
        generators = np.random.default_rng(list(self.seed)).spawn(self.request.starts)
        result = run(self.request, problem, generators, list(self.seed), shared=self.shared, judged=self.judged)
        kept(result, self.piece).save(self.path, overwrite=True)
        return {"status": result.status.name, "seconds": result.seconds, "shown": result.shown}


def kept(result: FusionResult, piece: Piece) -> FusionResult:
    """A tile's result without what is not blended, in the precision of the images."""
    rows, cols = piece.rows.inside, piece.cols.inside
    mixture = result.maps if result.shown == "maps" else result.source
    parts: dict[str, Any] = {"maps": None, "known_factors": None, "image": None, "source": None}
    if isinstance(mixture, Mixture):
        Z = np.ascontiguousarray(mixture.Z[rows, cols], dtype=result.dtype)
        parts["maps" if result.shown == "maps" else "source"] = replace(mixture, Z=Z)
    elif result.shown == "factors" and (factors := result.known_factors) is not None:
        parts["known_factors"] = Factors(factors.A[rows], factors.B[cols], factors.C)
    else:
        parts["image"] = result.render(rows, cols)
    uncertainty = None if result.uncertainty is None else result.uncertainty[rows, cols]
    return replace(result, **parts, uncertainty=uncertainty, noise=None, stages={}, degradation=None, decomposer=None)
