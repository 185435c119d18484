"""A part of the picture that is unlike in the two images, such as a cloud in one of them: where, and how much.

The blurred MSI and the HSI through the response are compared at every pixel of the HSI, which takes one pass over both
images, however wide they are. Pixels that differ many times as much as the median pixel are unlike the rest; they are
a patch if most of them have neighbours that are.
"""

from dataclasses import dataclass

import numpy as np

from ..model.problem import Problem
from ..model.types import Array, Mask

# Pixels so far, in medians of r², from the rest are unlike it; a patch is less than this part of the picture.
_UNLIKE, _MOST = 25.0, 0.45


@dataclass(frozen=True, eq=False)
class Patch:
    """What is unlike.

    Attributes
    ----------
    where : (rows, columns) bool array
        Pixels of the HSI.
    part : float
        Of those that were compared.
    before, rest : float
        The mean square of all differences, and that of the others.
    """

    where: np.ndarray
    part: float
    before: float
    rest: float


def differences(problem: Problem, chosen: Mask, unit: Array) -> Array:
    """The mean square over bands, in units of `unit`, of what the two images differ by at the chosen pixels.

    Parameters
    ----------
    problem : Problem
    chosen : (rows, columns) bool array
    unit : (MSI bands,) array
    """
    P1, P2, PM = problem.degradation.P1, problem.degradation.P2, problem.degradation.PM
    left = np.zeros(int(chosen.sum()))
    for m, size in enumerate(unit):
        weights = PM[[m]].toarray()[0].astype(problem.hsi.dtype)
        seen, shown = P1 @ problem.msi[:, :, m] @ P2.T, problem.hsi @ weights
        left += ((seen - shown)[chosen] / size) ** 2
    return left / len(unit)


def patch_of(left: Array, chosen: Mask, noise: float) -> Patch | None:
    """The patch that is unlike the rest, if there is one.

    Parameters
    ----------
    left : (n,) array
        As of `differences`.
    chosen : (rows, columns) bool array
        Of n pixels.
    noise : float
        The mean square that noise alone has.
    """
    unlike = left > _UNLIKE * max(float(np.median(left)), noise)
    if not 0.0 < unlike.mean() < _MOST:
        return None
    where = np.zeros(chosen.shape, bool)
    where[chosen] = unlike
    if not _is_patch(where):
        return None
    return Patch(where, float(unlike.mean()), float(np.mean(left)), float(np.mean(left[~unlike])))


def _is_patch(where):
    """Whether most of the pixels that are unlike have neighbours that are."""
    from scipy.ndimage import convolve

    image = where.astype(np.float64)
    neighbours = convolve(image, np.ones((3, 3)), mode="constant") - image
    return bool(np.median(neighbours[where]) >= 5.0)
