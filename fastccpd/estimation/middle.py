"""What of a scene its two images are compared in: the middle of a wide one, and pixels that have all they need."""

from collections.abc import Callable, Sequence

import numpy as np

from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.types import Array, Mask

# The side of the middle, in MSI pixels.
_WINDOW = 160


def is_wide(scene: Degradation) -> bool:
    """Whether the middle of a scene alone is looked at closely."""
    return any(coarse.stop - coarse.start < P.shape[0] for P, (coarse, _) in zip((scene.P1, scene.P2), middles(scene)))


def middle_of(
    scene: Degradation,
    read: Callable[[tuple[slice, slice], tuple[slice, slice]], tuple[Array, Array, Mask | None, Mask | None]],
) -> Problem:
    """The middle of a wide scene; pixels of the HSI that see what lies outside of it are marked as missing.

    Parameters
    ----------
    scene : Degradation
    read : callable(coarse, fine) -> (hsi, msi, hsi_valid, msi_valid)
        The images, and where they have data (None: everywhere), in these rows and columns of either grid.
    """
    operators, parts = (scene.P1, scene.P2), middles(scene)
    cut = [P[coarse, fine] for P, (coarse, fine) in zip(operators, parts)]
    coarse, fine = zip(*parts)
    pairs = zip(operators, cut, coarse)
    whole = [abs(part).sum(axis=1) >= (1.0 - 1e-9) * abs(P).sum(axis=1)[rows] for P, part, rows in pairs]
    hsi, msi, hsi_valid, msi_valid = read(coarse, fine)
    valid = np.logical_and.outer(*whole)[:, :, None] & np.ones(hsi.shape[2], bool)
    if hsi_valid is not None:
        valid &= hsi_valid if hsi_valid.ndim == 3 else hsi_valid[:, :, None]
    degradation = Degradation(cut[0], cut[1], scene.PM)
    known = {"hsi_valid": None if valid.all() else valid, "msi_valid": msi_valid}
    return Problem(hsi, msi, degradation, check_finite=False, **known)


def middles(scene: Degradation) -> list[tuple[slice, slice]]:
    """(coarse, fine) slices of rows and of columns: what is looked at closely."""
    return [middle_along(*P.shape) for P in (scene.P1, scene.P2)]


def middle_along(coarse: int, fine: int) -> tuple[slice, slice]:
    """Which coarse and which fine pixels of one axis are looked at."""
    ratio = fine // coarse
    count = max(_WINDOW // ratio, 1)
    if ratio * coarse != fine or count >= coarse:
        return slice(0, coarse), slice(0, fine)
    first = (coarse - count) // 2
    return slice(first, first + count), slice(ratio * first, ratio * (first + count))


def comparable(problem: Problem) -> Mask:
    """The HSI's pixels, without its border, that have data and are blurred from data alone."""
    return without_border(problem.hsi.shape) & blurred_from_data(problem)


def without_border(shape: Sequence[int]) -> Mask:
    """The pixels of an HSI of this shape that are compared, its border left out."""
    rows, columns = shape[:2]
    top, left = min(2, rows // 8), min(2, columns // 8)
    chosen = np.zeros((rows, columns), bool)
    chosen[top : rows - top, left : columns - left] = True
    return chosen


def blurred_from_data(problem: Problem) -> Mask:
    """The HSI's pixels that have data and are blurred from data alone."""
    P1, P2 = problem.degradation.P1, problem.degradation.P2
    chosen = np.ones(problem.hsi.shape[:2], bool)
    if problem.hsi_valid is not None:
        chosen &= problem.hsi_valid[:, :, problem.hsi_valid.any(axis=(0, 1))].all(axis=2)
    if problem.msi_valid is not None:
        missing = ~problem.msi_valid[:, :, problem.msi_valid.any(axis=(0, 1))].all(axis=2)
        chosen &= (abs(P1) @ missing.astype(np.float64) @ abs(P2).T) == 0.0
    return chosen
