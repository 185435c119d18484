"""A scene in tiles made small, to be looked at: some of its pixels, and how well all of them explain the two images."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ..estimation.fit import snr_from
from ..imaging import degrade
from ..model.degradation import Degradation
from ..model.result import FusionResult, Trace
from ..model.types import Array, Mask
from .memory import BLOCK
from .mosaic import FusedTiles
from .pieces import restricted
from .plan import Range, Span, span_of
from .sources import Cut, as_source, take

# Bytes of the small image, about.
_BYTES = 128 << 20


@dataclass(frozen=True, eq=False)
class Preview:
    """Every so many-th pixel of a scene in tiles and of the images it is made of.

    Attributes
    ----------
    step : int
        Every how many pixels, of either grid.
    result : FusionResult
        Of these pixels; its status, verdict, seconds and options are those of the whole, and it has no trace.
    images : (hsi, msi)
        NaN where there are no data.
    seen : (hsi, msi)
        The scene as the two sensors would see it, at the same pixels.
    missing : (rows, columns) bool array
        Pixels of the scene without data.
    residuals : dict
        ‖image − degraded scene‖ / ‖image‖ of "hsi" and "msi", over all pixels that have data.
    snr : dict or None
        Their estimated signal-to-noise ratios in dB, where noise was estimated.
    """

    step: int
    result: FusionResult
    images: tuple[np.ndarray, np.ndarray]
    seen: tuple[np.ndarray, np.ndarray]
    missing: np.ndarray
    residuals: dict[str, float]
    snr: dict[str, float] | None


def preview_of(
    fused: FusedTiles, hsi: Any, msi: Any, degradation: Degradation, *, uncertainty: bool = False
) -> Preview:
    """The `Preview` of a scene, by one pass over it, block by block.

    Parameters
    ----------
    fused : FusedTiles
    hsi, msi : as of `fuse_tiles`
    degradation : Degradation
    uncertainty : bool
        Whether expected errors were asked for.

    Returns
    -------
    Preview
    """
    sources = as_source(hsi, "hsi"), as_source(msi, "msi")
    small, response = _Small(fused, degradation, uncertainty), degradation.PM.T.toarray().astype(fused.dtype)
    for rows, cols in product(_blocks(degradation.P1), _blocks(degradation.P2)):
        spans = span_of(degradation.P1, *rows), span_of(degradation.P2, *cols)
        cores = _core(degradation.P1, rows), _core(degradation.P2, cols)
        cuts = take(sources[0], (rows,), (cols,)), take(sources[1], (cores[0],), (cores[1],))
        operators = restricted(degradation.P1, spans[0]), restricted(degradation.P2, spans[1])
        coarse, _ = degrade(_rendered(fused, *spans), Degradation(*operators, degradation.PM))
        core = fused.render(slice(*cores[0]), slice(*cores[1]))
        small.add(rows, cols, cores, cuts, core, (coarse, core @ response))
    return small.preview()


class _Small:
    """What a pass over the blocks adds up to."""

    def __init__(self, fused, degradation, uncertainty):
        self._fused, self._degradation = fused, degradation
        rows, cols, bands = fused.shape
        self.step = max(1, int(np.ceil(np.sqrt(rows * cols * bands * 4 / _BYTES))))
        self._sizes = degradation.P1.shape, degradation.P2.shape
        coarse, fine = zip(*([-(-size // self.step) for size in sizes] for sizes in self._sizes))
        known = (*coarse, bands), (*fine, degradation.PM.shape[0])
        self.images, self.seen = (
            (np.full(known[0], np.nan, np.float32), np.full(known[1], np.nan, np.float32)) for _ in range(2)
        )
        self.sri = np.full((*fine, bands), np.nan, np.float32)
        self.missing = np.ones(fine, bool)
        self.uncertainty = np.full(fine, np.nan, np.float32) if uncertainty else None
        self._left, self._energy, self._count = np.zeros(2), np.zeros(2), np.zeros(2)

    def add(self, rows, cols, cores, cuts, core, seen):
        """A block: coarse ranges and the fine ones under them, what was measured there, and what came out."""
        places = (rows, cols), cores
        for n, (cut, found, (down, right)) in enumerate(zip(cuts, seen, places)):
            measured = np.where(_has(cut), cut.pixels, np.nan).astype(np.float64)
            difference = measured - found
            known = np.isfinite(difference)
            self._left[n] += float(np.sum(np.square(difference, where=known, out=np.zeros_like(difference))))
            self._energy[n] += float(np.sum(np.square(measured, where=known, out=np.zeros_like(measured))))
            self._count[n] += float(known.sum())
            to, of = self._every(down, right)
            self.images[n][to], self.seen[n][to] = measured[of], found[of]
        to, of = self._every(*cores)
        self.sri[to] = core[of]
        self.missing[to] = (np.isnan(core).any(axis=2) | self._gaps(rows, cols, cores, cuts))[of]
        if self.uncertainty is not None:
            self.uncertainty[to] = self._fused.uncertainty(slice(*cores[0]), slice(*cores[1]))[:, :, 0][of]

    def _every(self, down, right):
        """Where the chosen pixels of a block go to, and where in it they are."""
        to, of = [], []
        for first, last in (down, right):
            begin = -(-first // self.step)
            to.append(slice(begin, -(-last // self.step)))
            of.append(slice(begin * self.step - first, last - first, self.step))
        return tuple(to), tuple(of)

    def _gaps(self, rows, cols, cores, cuts):
        """Fine pixels without data, and those under coarse ones without."""
        has = [np.asarray(_has(cut).all(axis=2)) for cut in cuts]
        under = [
            np.arange(*core) * coarse // fine - first
            for core, (coarse, fine), (first, _) in zip(cores, self._sizes, (rows, cols))
        ]
        return ~(has[1] & has[0][np.ix_(*under)])

    def preview(self):
        names, noise = ("hsi", "msi"), None if self._fused.shared is None else self._fused.shared.noise
        with np.errstate(divide="ignore", invalid="ignore"):
            residuals = dict(zip(names, map(float, np.sqrt(self._left / self._energy))))
        sums = zip(self._energy, self._count, () if noise is None else (noise.hsi, noise.msi))
        snr = None if noise is None else dict(zip(names, (snr_from(*entry) for entry in sums)))
        return Preview(self.step, self._result(noise), self.images, self.seen, self.missing, residuals, snr)

    def _result(self, noise):
        fused, asked = self._fused, self._fused.provenance["asked"]
        known = {"versions": fused.provenance["versions"], "dtype": np.dtype(fused.dtype).name, "threads": 1}
        return FusionResult(
            status=fused.status,
            cost=np.nan,
            n_iter=0,
            trace=Trace(),
            seconds=fused.seconds,
            method=fused.method,
            options=asked["options"],
            seed=asked["seed"],
            provenance=known | {"degradation": repr(self._degradation)},
            dtype=self.sri.dtype,
            image=self.sri,
            uncertainty=self.uncertainty,
            noise=None if noise is None else (noise.hsi, noise.msi),
            verdict=fused.verdict,
        )


def _has(cut: Cut) -> Mask:
    """Where a cut has data, (rows, columns, 1) or with bands."""
    has = np.ones(cut.pixels.shape[:2], bool) if cut.has is None else cut.has
    return has if has.ndim == 3 else has[:, :, None]


def _blocks(P) -> list[Range]:
    """Ranges of coarse pixels that are looked at together."""
    coarse, fine = P.shape
    count = min(-(-fine // BLOCK), coarse)
    return [(n * coarse // count, (n + 1) * coarse // count) for n in range(count)]


def _core(P, part: Range) -> Range:
    """The fine pixels under some coarse ones."""
    coarse, fine = P.shape
    return part[0] * fine // coarse, part[1] * fine // coarse


def _rendered(fused: FusedTiles, rows: Span, cols: Span) -> Array:
    """The scene where coarse pixels see it, also at its far end."""
    parts = [[fused.render(slice(*row), slice(*col)) for col in cols.runs] for row in rows.runs]
    return np.concatenate([np.concatenate(line, axis=1) for line in parts])
