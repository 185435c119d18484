"""How far the pixels of the two images lie from where the operators put them, by the images themselves.

With x the MSI's leading combination of bands, P1 x P2' is compared with the same combination y of the HSI's. A small
shift s adds  s_r ∂_r + s_c ∂_c  of the (blurred) picture, so linear regression gives s, the picture is moved by it, and
so on (Lucas and Kanade, 1981). Far from the solution the regressors are the derivatives of the moved picture; its noise
would both bias the answer and hide how uncertain it is, so near the solution the derivatives of y, whose noise is
independent, are the instruments:

    s = (Z'X)⁻¹ Z' (y − P1 x P2'),    covariance σ² (Z'X)⁻¹ Z'Z (X'Z)⁻¹

On six scenes with shifts of 0 to 3 pixels at 0 to 40 dB hardly an error was beyond four of these standard errors, and
1200 noisy pairs without a shift gave no alarm. On Salinas (18×19 HSI pixels, ratio 4) the error is below 0.1 pixels at
40 dB, below 1 at 20, and under 15 dB the standard error says that nothing is known. Phase correlation of the coarse
images errs there by 2 pixels even without noise: the wrapped border weighs more than the shift.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.degradation import Degradation
from ..model.types import Array, Operator

# Corners nearer than this, in MSI pixels, are the same corner: files keep their coordinates rounded.
SAME = 0.01

# An estimated shift is believed, and worth telling, above this many MSI pixels and this many standard errors.
_LEAST = 0.5
_ERRORS = 4.0

# A measured shift below this many MSI pixels costs an image nothing.
_NOTED = 0.1

# A phase is advised if it leaves no more than this, in MSI pixels: phases are halves, so a quarter may be left.
_FITS = 0.3

# The border, in HSI pixels, that is not compared: what lies outside the picture is not known.
_BORDER = 2

# In MSI pixels: the longest step of the estimate, and the steps below which it is near its end, and at it.
_LARGEST_STEP, _ROUGH, _FINE = 2.0, 0.1, 0.01
_MOST_STEPS = 20


@dataclass(frozen=True)
class Shift:
    """Where the HSI's pixels lie from where the operators put them.

    Attributes
    ----------
    rows, columns : float
        In MSI pixels, downwards and to the right.
    errors : (rows, columns)
        Standard errors; zeros where the georeferencing tells.
    source : "georeferencing" or "images"
    phase : float or None
        The phase of `fastccpd.imaging.gaussian` that would fit better than the operators do, if there is one.
    """

    rows: float
    columns: float
    errors: tuple[float, float]
    source: str
    phase: float | None = None

    @property
    def matters(self) -> bool:
        """Whether it is worth telling: more than rounding, more than noise."""
        least = SAME if self.source == "georeferencing" else _LEAST
        shifts = np.abs([self.rows, self.columns])
        return bool((shifts > np.maximum(least, np.multiply(_ERRORS, self.errors))).any())

    @property
    def is_certain(self) -> bool:
        """Whether it was measured and is beyond chance: more than a tenth of a pixel and so many standard errors."""
        shifts = np.abs([self.rows, self.columns])
        beyond = shifts > np.maximum(_NOTED, np.multiply(_ERRORS, self.errors))
        return bool(self.source == "images" and beyond.any())

    def __str__(self):
        told = f"{directions(self.rows, self.columns)} of where the blur puts it"
        if self.source == "images":
            told = f"an estimated {told} (standard error {max(self.errors):.2f})"
        return f"the HSI lies {told}" + (
            f"; a blur of phase {self.phase:g} would fit better" if self.phase is not None else ""
        )


def shift_by_images(hsi: Array, msi: Array, degradation: Degradation) -> Shift | None:
    """The `Shift` that the images show, up to an HSI pixel; None where it cannot be estimated.

    Parameters
    ----------
    hsi, msi : (rows, columns, bands) arrays
        With values everywhere.
    degradation : Degradation
        The operators that the shift is measured from.

    Returns
    -------
    Shift or None
    """
    P1, P2 = degradation.P1, degradation.P2
    ratio = P1.shape[1] // P1.shape[0]
    weights = _leading_combination([P1 @ msi[:, :, band] @ P2.T for band in range(msi.shape[2])])
    found = _displacement(msi @ weights, hsi @ (degradation.PM.T @ weights), P1, P2)
    # Linearised that far away, a picture of noise can pretend anything.
    if found is None or np.abs(found[0]).max() > ratio:
        return None
    displacement, errors = found
    # The picture had to be moved down to fit: so the HSI's pixels lie further up than the operators have them.
    rows, columns = (float(-moved) for moved in displacement)
    by_rows, by_columns = (float(error) for error in errors)
    phases = [phase_of(P, ratio) for P in (P1, P2)]
    phase = better_phase(phases, (phases[0] + rows, phases[1] + columns), ratio)
    return Shift(rows, columns, (by_rows, by_columns), "images", phase)


def phase_of(P: Operator, ratio: int) -> float:
    """Where an operator puts the centre of the first coarse pixel among the fine ones: by centres of mass of its rows.

    The middle one of the rows decides, since a periodic boundary spoils the first and the last.
    """
    centres = (P @ np.arange(P.shape[1], dtype=np.float64)) / (P @ np.ones(P.shape[1]))
    return float(np.median(centres - ratio * np.arange(P.shape[0])))


def width_of(P: Operator) -> float:
    """The standard deviation of an operator's rows, by that in the middle: the border spoils the others."""
    row = P[[P.shape[0] // 2]].toarray()[0]
    places = np.arange(len(row))
    total = row.sum()
    if not total > 0.0:
        return np.nan
    centre = places @ row / total
    return float(np.sqrt(max((places - centre) ** 2 @ row / total, 0.05)))


def directions(rows: float, columns: float) -> str:
    vertical, horizontal = "down" if rows >= 0.0 else "up", "right" if columns >= 0.0 else "left"
    return f"{abs(rows):.2f} MSI pixels {vertical} and {abs(columns):.2f} {horizontal}"


def better_phase(phases: Sequence[float], wanted: Sequence[float], ratio: int) -> float | None:
    """The multiple of one half that both directions want, if it is nearer to that than their phases are, or None."""
    best = round(float(np.mean(wanted)) * 2.0) / 2.0
    if not 0.0 <= best <= ratio - 1:
        return None
    now = max(abs(want - phase) for want, phase in zip(wanted, phases, strict=True))
    then = max(abs(want - best) for want in wanted)
    return best if then <= _FITS and then < now - SAME else None


def _leading_combination(pictures):
    """Weights of the bands whose combination varies most over the coarse picture."""
    pixels = np.stack([picture.ravel() for picture in pictures], axis=1)
    return np.linalg.svd(pixels - pixels.mean(axis=0), full_matrices=False)[2][0]


def _displacement(fine, coarse, P1, P2):
    """How far the fine picture must be moved for its blurred image to be the coarse one, and the standard errors."""
    inside = tuple(slice(edge, size - edge) for size in coarse.shape for edge in (min(_BORDER, (size - 1) // 4),))
    y = coarse[inside].ravel()
    if min(coarse.shape) < 4 or len(y) < 12:
        return None
    ratios = [P.shape[1] / P.shape[0] for P in (P1, P2)]
    Z = _with_constant([-np.gradient(coarse, axis=axis)[inside].ravel() / ratios[axis] for axis in (0, 1)])
    moved_by, near = np.zeros(2), False
    for _ in range(_MOST_STEPS):
        x, X = _moved(fine, moved_by, P1, P2, inside)
        instruments = Z if near else X
        try:
            inverse = np.linalg.inv(instruments.T @ X)
        except np.linalg.LinAlgError:  # a flat picture
            return None
        solution = inverse @ (instruments.T @ (y - x))
        moved_by = moved_by + np.clip(solution[:2], -_LARGEST_STEP, _LARGEST_STEP)
        if near and np.abs(solution[:2]).max() < _FINE:
            residual = y - x - X @ solution
            covariance = inverse @ (Z.T @ Z) @ inverse.T * (residual @ residual) / (len(y) - 3)
            return moved_by, np.sqrt(np.diag(covariance)[:2])
        near = near or np.abs(solution[:2]).max() < _ROUGH
    return None


def _moved(fine, by, P1, P2, inside):
    """The fine picture moved and blurred, as a vector; and as columns what a little more of either movement adds."""
    # Imported here: it takes longer to import than everything else of this module.
    from scipy.ndimage import shift

    moved = shift(fine, by, order=3, mode="nearest") if by.any() else fine
    pictures = (moved, *(-np.gradient(moved, axis=axis) for axis in (0, 1)))
    x, *slopes = ((P1 @ picture @ P2.T)[inside].ravel() for picture in pictures)
    return x, _with_constant(slopes)


def _with_constant(columns):
    return np.stack([*columns, np.ones_like(columns[0])], axis=1)
