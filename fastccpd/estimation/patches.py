"""A part of the picture that is unlike in the two images, such as a cloud in one of them: where, and how much.

The blurred MSI and the HSI through the response are compared at every pixel of the HSI, which takes one pass over both
images, however wide they are. Pixels that differ many times as much as the median pixel are unlike the rest; they are
a patch if most of them have neighbours that are.

Where the operators are what is sought, `patch_of_any_response` compares either image with whatever the other explains
of it at most pixels: a regression that every pixel enters by one over what it leaves, so that a cloud has no say.
"""

from dataclasses import dataclass

import numpy as np

from ..model.problem import Problem
from ..model.types import Array, Mask
from ..threads import over_pieces

# Pixels so far, in medians of r², from the rest are unlike it; a patch is less than this part of the picture.
_UNLIKE, _MOST = 25.0, 0.45

# Without operators a patch is believed that is at least this part of the picture, leaves so many times the rest, and
# has this part of the image's energy, which would cost 3 dB: beside dark ground everything is unlike.
_LEAST, _WORTH, _PLAIN = 0.02, 2.0, 0.03

# Rounds of a regression that settles which pixels it explains, and how many pixels are enough for it.
_ROUNDS, _ENOUGH = 12, 5000


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

    def of_band(m):
        weights = PM[[m]].toarray()[0].astype(problem.hsi.dtype)
        seen, shown = P1 @ problem.msi[:, :, m] @ P2.T, problem.hsi @ weights
        return ((seen - shown)[chosen] / unit[m]) ** 2

    return np.sum(over_pieces(of_band, range(len(unit))), axis=0) / len(unit)


def patch_of(left: Array, chosen: Mask, noise: float, *, edges: bool = False) -> Patch | None:
    """The patch that is unlike the rest, if there is one.

    Parameters
    ----------
    left : (n,) array
        As of `differences`.
    chosen : (rows, columns) bool array
        Of n pixels.
    noise : float
        The mean square that noise alone has.
    edges : bool
        Whether edges may be unlike too, because the blur is not known yet: then only whole squares of 3×3 pixels count.
    """
    unlike = left > _UNLIKE * max(float(np.median(left)), noise)
    if not 0.0 < unlike.mean() < _MOST:
        return None
    where = np.zeros(chosen.shape, bool)
    where[chosen] = unlike
    if not _is_patch(where):
        where = _without_edges(where) if edges else np.zeros_like(where)
        if not where.any():
            return None
        unlike = where[chosen]
    return Patch(where, float(unlike.mean()), float(np.mean(left)), float(np.mean(left[~unlike])))


def patch_of_any_response(signals: Array, brightness: Array, seen: Array, chosen: Mask, noise: Array) -> Patch | None:
    """The patch of which no response makes what the rest of the picture is.

    Parameters
    ----------
    signals : (n, signals) array
        The pixels of the HSI in the directions that stand out of its noise.
    brightness : (n,) array
        Their mean over the bands: that much of them few bands explain.
    seen : (n, MSI bands) array
        What the blurred MSI shows there.
    chosen : (rows, columns) bool array
        Of n pixels.
    noise : (MSI bands,) array
        The variance that noise alone would leave.
    """
    unit = np.sqrt(np.maximum(np.mean(seen**2, axis=0), np.finfo(float).tiny))
    bright = brightness[:, None] / max(float(np.sqrt(np.mean(brightness**2))), np.finfo(float).tiny)
    left = _left_by_most(signals, seen / unit), _left_by_most(seen / unit, bright)
    least = float(np.mean(noise / unit**2)), np.finfo(float).tiny
    found = [patch_of(each, chosen, floor, edges=True) for each, floor in zip(left, least)]
    found = [patch for patch in found if patch is not None and _is_plain(patch)]
    return min(found, key=lambda patch: patch.rest / patch.before, default=None)


def _left_by_most(design, wanted):
    """The mean square that a regression leaves at each pixel, to which those that leave much have little to say."""
    design = np.concatenate([design, np.ones((len(design), 1))], axis=1)
    some = slice(None, None, -(-len(design) // _ENOUGH))
    X, y = design[some], wanted[some]
    weights = np.ones(len(X))
    for _ in range(_ROUNDS):
        weighed = X * weights[:, None]
        solution = np.linalg.lstsq(weighed.T @ X, weighed.T @ y, rcond=None)[0]
        left = np.mean((y - X @ solution) ** 2, axis=1)
        weights = 1.0 / (max(float(np.median(left)), np.finfo(float).tiny) + left)
    return np.mean((wanted - design @ solution) ** 2, axis=1)


def _is_plain(patch):
    return patch.part >= _LEAST and patch.before > max(_WORTH * patch.rest, _PLAIN)


def _without_edges(where):
    """The whole squares of 3×3 pixels in it: lines and single pixels go."""
    from scipy.ndimage import binary_opening

    return np.asarray(binary_opening(where, np.ones((3, 3))), dtype=bool)


def _is_patch(where):
    """Whether most of the pixels that are unlike have neighbours that are."""
    from scipy.ndimage import convolve

    image = where.astype(np.float64)
    neighbours = convolve(image, np.ones((3, 3)), mode="constant") - image
    return bool(np.median(neighbours[where]) >= 5.0)
