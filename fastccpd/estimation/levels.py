"""Whether the two images are in the same units: a scale and an offset between them, from the images.

With y the HSI as the MSI's bands see it (PM) and x the MSI as the HSI's pixels see it (P1, P2), both measure the same,
so x = y up to noise where units agree. Sensors' counts may be scaled and shifted against each other:

    x = s y + o,    one s and one o for all bands

Either side has errors, so s is the ratio of the two spreads about the bands' means, s² = Σ(x − x̄)² / Σ(y − ȳ)², and not
a regression on one of them; o is the mean over bands of x̄ − s ȳ. Pixels that fit four times worse than the median do,
such as those of a cloud in one of the images, are left out, and the two estimated again; the first estimate is by
medians, which such pixels cannot move.

The standard errors are by groups of pixels left out in turn (the jackknife), for neighbouring pixels are alike.
"""

from dataclasses import dataclass

import numpy as np

from ..model.degradation import Degradation
from ..model.types import Array, Mask

_ROUNDS = 5
_OUTLIER = 4.0
_GROUPS = 8

# Below this correlation the two do not show the same, and a scale would mean nothing.
_LEAST_CORRELATION = 0.5

# What is worth telling: a scale off by more, or an offset of more of the mean, and of more standard errors.
_SCALE, _OFFSET, _ERRORS = 0.1, 0.05, 4.0


@dataclass(frozen=True)
class Levels:
    """How the values of the MSI relate to those of the HSI: MSI = scale × HSI + offset.

    Attributes
    ----------
    scale, offset : float
    errors : (scale, offset)
        Standard errors.
    mean : float
        The mean of what is compared, in the units of the HSI.
    """

    scale: float
    offset: float
    errors: tuple[float, float]
    mean: float

    @property
    def agree(self) -> bool:
        """Whether the two images may be in the same units."""
        off = abs(np.log(self.scale)) > max(np.log1p(_SCALE), _ERRORS * self.errors[0] / self.scale)
        shifted = abs(self.offset) > max(_OFFSET * abs(self.scale * self.mean), _ERRORS * self.errors[1])
        return not (off or shifted)

    def __str__(self):
        by_scale, by_offset = self.errors
        return (
            f"the MSI's values are {self.scale:.4g} (±{by_scale:.1g}) times the HSI's "
            f"{'minus' if self.offset < 0 else 'plus'} {abs(self.offset):.4g} (±{by_offset:.1g})"
        )


def estimate_levels(
    hsi: Array, msi: Array, degradation: Degradation, hsi_valid: Mask | None = None, msi_valid: Mask | None = None
) -> Levels | None:
    """The scale and offset between two images; None where they show too little in common to tell.

    Parameters
    ----------
    hsi, msi : (rows, columns, bands) arrays
        With values everywhere.
    degradation : Degradation
    hsi_valid, msi_valid : (rows, columns) bool arrays, optional
        True where there are data.

    Returns
    -------
    Levels or None
        Scale and offset with their standard errors.

    Examples
    --------
    >>> from fastccpd.estimation import estimate_levels
    >>> from fastccpd.imaging import degrade, preset, scenes
    >>> degradation = preset("stereo", (32, 40, 36))
    >>> hsi, msi = degrade(scenes.synthetic((32, 40, 36)).cube, degradation)
    >>> found = estimate_levels(hsi, 10000.0 * msi + 1000.0, degradation)
    >>> round(found.scale), round(found.offset), found.agree
    (10000, 1000, False)
    """
    P1, P2, PM = degradation.P1, degradation.P2, degradation.PM
    known = np.ones(hsi.shape[:2], bool) if hsi_valid is None else hsi_valid.copy()
    if msi_valid is not None:
        known &= np.abs(P1 @ (~msi_valid).astype(float) @ P2.T) < 1e-6
    if known.sum() < 4 * _GROUPS:
        return None
    seen = np.asarray(hsi[known], np.float64) @ PM.T
    pixels = np.stack([(P1 @ np.asarray(msi[:, :, m], np.float64) @ P2.T)[known] for m in range(msi.shape[2])], axis=1)
    found = rough_levels(pixels, seen)
    for _ in range(_ROUNDS):
        if found is None:
            return None
        left = np.linalg.norm(pixels - found[0] * seen - found[1], axis=1)
        good = left <= _OUTLIER * np.median(left)
        found = _fit(pixels[good], seen[good])
    if found is None:
        return None
    groups = np.arange(len(seen)) * _GROUPS // len(seen)
    others = [_fit(pixels[good & (groups != group)], seen[good & (groups != group)]) for group in range(_GROUPS)]
    if any(other is None for other in others):
        return None
    spread = np.var(np.array(others), axis=0) * (_GROUPS - 1)
    scale_error, offset_error = (float(error) for error in np.sqrt(spread))
    return Levels(float(found[0]), float(found[1]), (scale_error, offset_error), float(seen[good].mean()))


def rough_levels(x: Array, y: Array) -> tuple[float, float] | None:
    """Scale and offset of x = scale · y + offset by medians; None where half of the pixels are alike.

    Parameters
    ----------
    x, y : (pixels, bands) arrays
    """
    by_x, by_y = np.median(x, axis=0), np.median(y, axis=0)
    spread_x, spread_y = (np.median(np.abs(sides), axis=0).sum() for sides in (x - by_x, y - by_y))
    if not (spread_x > 0.0 and spread_y > 0.0):
        return None
    scale = spread_x / spread_y
    return float(scale), float(np.mean(by_x - scale * by_y))


def _fit(x, y):
    """Scale and offset; None where x and y have too little in common."""
    if len(x) < 4:
        return None
    by_x, by_y = x - x.mean(axis=0), y - y.mean(axis=0)
    xx, yy, xy = (float(np.vdot(*sides)) for sides in ((by_x, by_x), (by_y, by_y), (by_x, by_y)))
    if not (xx > 0.0 and yy > 0.0 and xy > _LEAST_CORRELATION * np.sqrt(xx * yy)):
        return None
    scale = np.sqrt(xx / yy)
    return scale, float(np.mean(x.mean(axis=0) - scale * y.mean(axis=0)))
