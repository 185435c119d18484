"""Two images that disagree about more than noise, mended: a response, and a place, that are those of the images.

Where a blur alone is wrong, the MSI is believed (`misplacement.py`). Where the images disagree about their response,
the MSI is not what it is said to be, and one fault explains more than two: it is the MSI that lies elsewhere, too, and
may be sharper. The HSI then is P times the scene, as it is said to be, and the MSI shows another one, z, with

    scene = (W1 ⊗ W2) z,     Y_H = (P1 W1 ⊗ P2 W2) z,     Y_M = z (PM + Δ)'.                                    (1)

W moves by a shift and smooths by a width: those for which the HSI's pixels explain P W Y_M best, found by the
derivatives of `misplacement.py`, a few times over. Δ is the regression of P W Y_M − Y_H PM' on the HSI's signals, the
HSI's noise taken off, in directions of which the images tell more than chance would: it mends what a response does to
this scene, and leaves the rest of it as it was given. Maps are fitted to the images by the operators of (1), and moved
by W in the end.

The response comes first, and the place only where that leaves a disagreement: what a noisy HSI does not show of the
MSI looks like a blur. It is a mend only where it explains most of what there was: a cloud, or values of another time,
are none.
"""

import time
from dataclasses import dataclass, field, replace

import numpy as np

from ..imaging.psf import interpolation, sampled_rows
from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.result import Status, Trace
from ..model.types import Operator
from .agreement import agreement_of, place_and_response
from .map_fit import MapFit
from .noise import Noise, noise_of

# The shift and the width are found in so many turns, or when they change by no more than this (pixels, and squares of
# them).
_TURNS, _SETTLED = 6, 0.01

# The most of a disagreement, as a sum of squares in units of the noise, that a mend may leave.
_LEFT = 0.15

# By how many pixels an MSI lies elsewhere, or is sharper, at most, on the way there too: were it more, the blur would
# be wrong. Images whose pixels are means of what they cover do not differ by more than half a pixel in sharpness.
_FARTHEST, _SHARPEST = 1.0, 0.5

# The most that one pass of three taps smooths by, as a variance.
_SMOOTHED = 0.5


@dataclass(frozen=True, eq=False)
class Mend:
    """What makes two images agree.

    Attributes
    ----------
    degradation : Degradation
        With the operators of (1), by which the maps are fitted.
    shift : (rows, columns)
        Where the MSI shows what belongs to a pixel of the scene, less that pixel's own place, in pixels of the MSI.
    width : float
        By how much the MSI is sharper than the scene: the standard deviation of what smooths it, in its pixels.
    before : Noise
        As it was found by the operators that were given: how much the images disagreed.
    status : Status
    trace : Trace
        Empty.
    seconds : float
    """

    degradation: Degradation
    shift: tuple[float, float]
    width: float
    before: Noise
    status: Status = Status.FINISHED
    trace: Trace = field(default_factory=Trace)
    seconds: float = 0.0

    def placed(self, fit: MapFit) -> MapFit:
        """A fit by the operators of (1), moved to where the HSI says that the scene is."""
        W1, W2 = (
            _moved(P.shape[1], shift, self.width**2)
            for P, shift in zip((self.degradation.P1, self.degradation.P2), self.shift, strict=True)
        )
        maps, error = np.empty_like(fit.Z), fit.expected_error
        for n in range(fit.number):
            maps[:, :, n] = W1 @ fit.Z[:, :, n] @ W2.T
        if error is not None:
            error = np.clip(W1 @ error @ W2.T, error.min(), error.max())
        return replace(fit, Z=maps, expected_error=error)


def mend_of(problem: Problem, noise: Noise) -> tuple[Mend, Noise] | None:
    """What makes a problem's two images agree, and the noise that they have then.

    Parameters
    ----------
    problem : Problem
    noise : Noise
        Of `noise_of(problem)`.

    Returns
    -------
    (Mend, Noise) or None
        None where the images agree, where a blur alone is wrong, and where this does not make them agree.
    """
    if not noise.disagreement.any() or noise.misplacement.any():
        return None
    began = time.perf_counter()
    for find in (_response, _place_and_response):
        place, mended = find(problem, noise)
        found = noise_of(mended)
        if not found.disagreement.any():
            break
    old, new = (np.square(one.disagreement / noise.msi_floored).sum() for one in (noise, found))
    if new > _LEFT * old:
        return None
    shift, width = (float(place[0]), float(place[1])), float(np.sqrt(place[2]))
    return Mend(mended.degradation, shift, width, noise, seconds=time.perf_counter() - began), found


def _response(problem, noise):
    """Nowhere else, and with a response that is that of the images."""
    place = np.zeros(3)
    return place, _with(problem, place, _lacking(problem, noise)[1])


def _place_and_response(problem, noise):
    """Where the MSI is likely to lie, and the problem with the operators of (1); nowhere else if that is too far."""
    place = np.zeros(3)
    for _ in range(_TURNS):
        c, change = _lacking(_with(problem, place), noise)
        before, place = place, place - c * (1.0, 1.0, 2.0)
        place[2] = max(place[2], 0.0)  # what the MSI is blurred by more than the HSI's pixels is not taken from it
        if np.abs(place[:2]).max() > _FARTHEST or place[2] > _SHARPEST**2:
            return _response(problem, noise)
        if np.abs(place - before).max() <= _SETTLED:
            break
    return before, _with(problem, before, change)


def _lacking(problem, noise):
    """c, and what PM lacks, with the operators of a problem."""
    E = noise.spectrum.vectors[:, : noise.spectrum.signals]
    return place_and_response(agreement_of(problem), noise.hsi_floored, E)


def _with(problem, place, change=None):
    """The problem with the operators of (1)."""
    given = problem.degradation
    P1, P2 = (P @ _moved(P.shape[1], by, place[2]) for P, by in zip((given.P1, given.P2), place[:2], strict=True))
    PM = given.PM if change is None else given.PM.toarray() + change
    return replace(problem, degradation=Degradation(P1, P2, PM), check_finite=False)


def _moved(size: int, shift: float, variance: float) -> Operator:
    """What moves a line by a shift, and smooths it by a variance; beyond its ends it is mirrored."""
    moved = interpolation(size, shift, "reflect")
    passes = int(np.ceil(variance / _SMOOTHED))
    part = variance / max(passes, 1)
    for _ in range(passes):
        moved = sampled_rows(np.array([0.5 * part, 1.0 - part, 0.5 * part]), -1, 1, size, size, "reflect") @ moved
    return moved
