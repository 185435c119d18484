"""The first pass: what must be one for the whole scene, gathered from all of it.

Blocks and windows do not depend on the size of the tiles, so neither does what is found. Sums are made in the order of
the blocks, whichever is done first: the same bytes for any number of workers.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np

from ..blas import one_blas_thread
from ..estimation import Gramians, Noise, PathRisks, Statistics, Subspace, noise_from
from ..estimation.middle import is_wide, middle_of, without_border
from ..estimation.moments import Moments, SceneBands
from ..estimation.verdict import verdict_by_parts
from ..model.degradation import Degradation
from ..model.empty_bands import known_bands
from ..model.types import Array, Operator
from ..model.verdict import Judged
from .crews import Hands, done_in_any_order
from .pieces import Piece, piece_of
from .plan import span_of
from .sources import Source, take
from .tasks import Compare, Gather, Probe, Sum

# Side in fine pixels of the blocks that rough maps are fitted to, which take more memory than statistics, and of the
# windows that whole paths are fitted to.
_FITTED, _WINDOW = 256, 160

# Windows along each axis, at most.
_WINDOWS = 3


def most_tasks(degradation: Degradation) -> int:
    """How many tasks the longest round of the first pass has.

    Parameters
    ----------
    degradation : Degradation
    """
    return len(_pairs(degradation, _blocks, _FITTED))


def statistics_of_scene(
    hsi: Source, msi: Source, degradation: Degradation, crew: Hands, dtype: Any, block: int = 512
) -> Statistics:
    """The `Statistics` of all blocks of a scene, added up.

    Parameters
    ----------
    hsi, msi : Source
    degradation : Degradation
    crew : Hands
    dtype : dtype or None
    block : int
        Side of a block in fine pixels.
    """
    blocks = _pairs(degradation, _blocks, block)

    def task(part):
        return lambda: Gather(_piece(hsi, msi, degradation, part, dtype).read())

    found = _in_order(crew, [task(part) for part in blocks])
    total = reduce(add, _found(found))
    if not total.moments.count:
        raise _no_pixels()
    return total


def bands_of_scene(
    hsi: Source, msi: Source, degradation: Degradation, crew: Hands, dtype: Any, block: int = 512
) -> SceneBands | None:
    """What all of a scene says of its bands; None where too few of its pixels are complete.

    Parameters
    ----------
    hsi, msi, degradation, crew, dtype, block
        As of `statistics_of_scene`.
    """
    statistics = statistics_of_scene(hsi, msi, degradation, crew, dtype, block)
    agreement, bands = statistics.agreement, sum(degradation.PM.shape)
    if agreement is None or agreement.moments.count < 2 * bands:
        return None
    found = agreement.moments
    both = Moments(found.count, found.total[:bands], found.second[:bands, :bands])
    with one_blas_thread():
        return SceneBands(both, noise_from(statistics).spectrum.signals)


def judged_scene(
    hsi: Source, msi: Source, degradation: Degradation, crew: Hands, dtype: Any, block: int = 512
) -> Judged:
    """The verdict on a scene: as of `verdict_of`, without the whole of it in memory.

    Parameters
    ----------
    hsi, msi, degradation, crew, dtype, block
        As of `statistics_of_scene`.
    """

    def cut(image, place):
        found = take(image, *(((part.start, part.stop),) for part in place))
        return found.pixels if dtype is None else found.pixels.astype(dtype, copy=False), found.has

    def read(coarse, fine):
        (hsi_pixels, hsi_has), (msi_pixels, msi_has) = cut(hsi, coarse), cut(msi, fine)
        return hsi_pixels, msi_pixels, hsi_has, msi_has

    middle = middle_of(degradation, read)
    squares = [float(np.sum(np.square(middle.hsi, dtype=np.float64)))]

    def elsewhere(unit):
        left, chosen = np.zeros(hsi.shape[:2]), np.zeros(hsi.shape[:2], bool)
        blocks = _pairs(degradation, _blocks, block)

        def task(part):
            return lambda: Compare(_piece(hsi, msi, degradation, part, dtype).read(), unit)

        squares.clear()
        for (rows, cols), found in zip(blocks, _in_order(crew, [task(part) for part in blocks])):
            if found is not None:
                here = slice(*rows), slice(*cols)
                left[here][found[1]], chosen[here] = found[:2]
                squares.append(found[2])
        chosen &= without_border(chosen.shape)
        return left[chosen], chosen

    bands = known_bands(middle)
    if bands is None:
        verdict = verdict_by_parts(middle, degradation, elsewhere if is_wide(degradation) else None)
    else:
        verdict = verdict_by_parts(bands.problem)  # of the rest, other bands may have no data
    return Judged(verdict, float(np.sqrt(sum(squares) / np.prod(hsi.shape))))


def gramians_of_scene(
    hsi: Source, msi: Source, degradation: Degradation, noise: Noise, subspace: Subspace, crew: Hands, dtype: Any
) -> Gramians:
    """The `Gramians` of all of a scene, added up block by block.

    Parameters
    ----------
    hsi, msi, degradation, crew, dtype
        As of `statistics_of_scene`.
    noise : Noise
    subspace : Subspace
        Of the whole scene.
    """

    def task(part):
        return lambda: Sum(_piece(hsi, msi, degradation, part, dtype).read(), noise, subspace)

    parts = _pairs(degradation, _blocks, _FITTED)
    return reduce(add, _found(_in_order(crew, [task(part) for part in parts])))


def path_risks_of_scene(
    hsi: Source,
    msi: Source,
    degradation: Degradation,
    noise: Noise,
    subspace: Subspace,
    spectra: Array,
    crew: Hands,
    dtype: Any,
) -> PathRisks:
    """The `PathRisks` of a few windows spread over the scene, added up; of windows all over it, where these lack data.

    Parameters
    ----------
    hsi, msi, degradation, noise, subspace, crew, dtype
        As of `gramians_of_scene`.
    spectra : (bands, P) array
        Of `spectra_of_scene`.
    """

    def task(part):
        return lambda: Probe(_piece(hsi, msi, degradation, part, dtype).read(), noise, subspace, spectra)

    for most in (_WINDOWS, None):
        parts = _pairs(degradation, _windows, most)
        found = [risks for risks in _in_order(crew, [task(part) for part in parts]) if risks is not None]
        if found:
            return reduce(add, found)
    raise ValueError("hsi: no window of the scene has enough complete pixels; fewer gaps are needed")


def _found(parts):
    """The results of the parts that have data."""
    found = [part for part in parts if part is not None]
    if not found:
        raise _no_pixels()
    return found


def _no_pixels():
    return ValueError("hsi: no pixel has data in all bands, in this image and in the MSI around it; some are needed")


def _pairs(degradation, ranges, size):
    """Ranges along both axes, all with all."""
    return list(product(ranges(degradation.P1, size), ranges(degradation.P2, size)))


def _in_order(crew, tasks):
    """The results of tasks, in their order."""
    found = dict(done_in_any_order(crew, enumerate(tasks), 2 * crew.count))
    return [found[n] for n in range(len(tasks))]


def _piece(hsi, msi, degradation, part, dtype) -> Piece:
    rows, cols = part
    spans = span_of(degradation.P1, *rows), span_of(degradation.P2, *cols)
    return piece_of(hsi, msi, degradation, *spans, dtype=dtype)


def _blocks(P: Operator, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of coarse pixels, of about `size` fine ones, that cover an axis."""
    coarse, fine = P.shape
    count = min(-(-fine // size), coarse)
    return ((n * coarse // count, (n + 1) * coarse // count) for n in range(count))


def _windows(P: Operator, most: int | None) -> Iterator[tuple[int, int]]:
    """Ranges of coarse pixels that are spread over an axis, each in the middle of its part."""
    coarse, fine = P.shape
    count = max(1, round(fine / _WINDOW))
    count = min(count, coarse) if most is None else min(count, most, coarse)
    width = max(1, min(coarse // count, -(-_WINDOW * coarse // fine)))
    for n in range(count):
        start = int(np.clip((2 * n + 1) * coarse // (2 * count) - width // 2, 0, coarse - width))
        yield start, start + width
