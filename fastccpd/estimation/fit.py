"""What can be said of a fusion without a truth: how much of an image is unexplained, and how much of it is noise.

A pixel without data is NaN, and has no part in these figures.
"""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from ..imaging import degrade
from ..imaging.degrading import degraded
from ..model.problem import Maps, Problem
from ..model.result import FusionResult
from ..model.types import Array
from ..threads import by_rows, thread_map

# Values of an image looked at together.
_BLOCK = 1 << 20


def shown_cost(problem: Problem, image: Maps | FusionResult | Array) -> float:
    """½ ‖…‖² of both images without weights, over the data there are, in the caller's units.

    Parameters
    ----------
    problem : Problem
    image : Maps, FusionResult or array
        The scene that is shown.

    Returns
    -------
    float
    """
    if isinstance(image, Maps):
        with thread_map() as map_parts:
            images = degraded(image, image.dtype, problem.degradation, map_parts)
    else:
        images = degrade(image, problem.degradation)
    total, valid = 0.0, (problem.hsi_valid, problem.msi_valid)
    for seen, measured, has in zip(images, (problem.hsi, problem.msi), valid, strict=True):
        total += sum(by_rows(partial(_squares_left, measured, seen, has), len(measured), measured[0].size))
    return 0.5 * total


def _squares_left(measured, seen, has, part):
    """‖measured − seen‖² of some rows, over the data there are."""
    left = measured[part] - seen[part]
    if has is not None:
        left *= has[part]
    return float(np.einsum("ijk,ijk->", left, left, dtype=np.float64))


def relative_residual(image: Array, seen: Array | FusionResult) -> float:
    """‖image − seen‖ / ‖image‖, some rows at a time.

    Parameters
    ----------
    image : (rows, columns, bands) array
    seen : array of that shape, or FusionResult
        The result as the image's sensor would see it.

    Returns
    -------
    float
        Infinity where the image is zero and the other is not.
    """
    squared = energy = 0.0
    for rows, block, known in _blocks(image):
        energy += float(np.vdot(block, block))
        difference = block - np.where(known, _rows_of(seen, rows), 0.0)
        squared += float(np.vdot(difference, difference))
    if energy == 0.0:
        return np.inf if squared else 0.0
    return float(np.sqrt(squared / energy))


def snr_db(image: Array, sigma: ArrayLike) -> float:
    """10 log10(mean(Y²) / mean(σ²) − 1) of an image Y whose bands have the noise σ.

    Parameters
    ----------
    image : (rows, columns, bands) array
        Y; NaN where it has no data.
    sigma : (bands,) array
        σ of each band.

    Returns
    -------
    float
        In dB; −inf where noise is all there is.
    """
    energy = count = 0.0
    for _, block, known in _blocks(image):
        energy += float(np.vdot(block, block))
        count += np.count_nonzero(known)
    return snr_from(energy, count, sigma)


def snr_from(energy: float, count: float, sigma: ArrayLike) -> float:
    """`snr_db` by the sum of squares of an image, and the number of its values."""
    ratio = energy / count / float(np.mean(np.square(sigma))) - 1.0
    return float(10.0 * np.log10(ratio)) if ratio > 0.0 else -np.inf


def estimated_snr(result: FusionResult, hsi: Array, msi: Array) -> dict[str, float] | None:
    """The signal-to-noise ratios of two images, by the noise that their fusion has estimated.

    Parameters
    ----------
    result : FusionResult
        Its `noise` is used.
    hsi, msi : (rows, columns, bands) arrays
        The images that were fused.

    Returns
    -------
    dict or None
        {"hsi": dB, "msi": dB}; None where the method estimates no noise.
    """
    if result.noise is None:
        return None
    return {name: snr_db(image, sigma) for name, image, sigma in zip(("hsi", "msi"), (hsi, msi), result.noise)}


def _blocks(image):
    """Some rows of an image, in float64 with zeros for NaN, and where it has data."""
    lines = max(1, _BLOCK // image[0].size)
    for first in range(0, len(image), lines):
        rows = slice(first, first + lines)
        block = image[rows].astype(np.float64)
        known = ~np.isnan(block)
        block[~known] = 0.0
        yield rows, block, known


def _rows_of(image, rows):
    return image.render(rows) if isinstance(image, FusionResult) else image[rows]
