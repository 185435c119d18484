"""The HSI interpolated to the MSI's pixels by cubic splines, every HSI pixel sitting where its operators put it.

An interpolation "by the ratio" would put HSI pixel a in the middle of its block of MSI pixels, whatever the blur and
the phase of the sampling; where it sits is written in P1 and P2. Along an axis there are two cases:

- row a of P is row 0 shifted by a·d, periodically: the centre of mass c of row 0 on the circle, then c + a·d, and a
  periodic spline;
- any other operator: the centre of gravity of each row, a spline through those places, and beyond the first and the
  last of them a constant. Rows whose weights do not have a positive sum have no such place and are left out; rows at
  one place count with their mean.

Interpolation is linear, so it is one matrix for each axis, and an image is interpolated by two products.
"""

from dataclasses import dataclass

import numpy as np

from ._circular import centroid, ratio_and_taps

# Places that are nearer to each other than this part of a fine pixel are one.
_ONE_PLACE = 1e-9


@dataclass(frozen=True, eq=False)
class Upsampling:
    """The matrices `rows` (I, I_H) and `columns` (J, J_H) of the interpolation."""

    rows: np.ndarray
    columns: np.ndarray

    def maps(self, coarse):
        """Maps (…, I_H, J_H) at the fine pixels, (…, I, J)."""
        return self.rows @ coarse @ self.columns.T

    def image(self, coarse, rows=slice(None), out=None):
        """An image (I_H, J_H, L) at the fine pixels, (I, J, L), or those of its rows that are asked for."""
        J_H, L = coarse.shape[1:]
        between = self.rows[rows] @ coarse.reshape(len(coarse), -1)
        return np.matmul(self.columns, between.reshape(-1, J_H, L), out=out)


def upsampling(degradation):
    """The `Upsampling` that belongs to P1 and P2 of a degradation."""
    return Upsampling(_matrix(degradation.P1), _matrix(degradation.P2))


def _matrix(P):
    """The interpolation along one axis: (fine, coarse)."""
    # Imported here: it takes as long to import as Numba itself.
    from scipy.interpolate import CubicSpline

    coarse, fine = P.shape
    try:
        d, taps = ratio_and_taps(P, "P")
    except ValueError:
        return _matrix_by_gravity(P, CubicSpline)
    closed = np.concatenate([np.eye(coarse), np.eye(coarse)[:1]])
    spline = CubicSpline(np.arange(coarse + 1), closed, bc_type="periodic")
    return spline((np.arange(fine) - centroid(taps)) / d % coarse)


def _matrix_by_gravity(P, CubicSpline):
    coarse, fine = P.shape
    sums = P.sum(axis=1)
    present = np.flatnonzero(sums > 0.0)
    if not present.size:
        return np.full((fine, coarse), 1.0 / coarse)
    places = np.clip((P @ np.arange(fine))[present] / sums[present], 0, fine - 1)
    order = np.argsort(places, kind="stable")
    places, present = places[order], present[order]
    group = np.concatenate([[0], np.cumsum(np.diff(places) > _ONE_PLACE)])
    means = np.zeros((group[-1] + 1, coarse))
    means[group, present] = 1.0 / np.bincount(group)[group]
    knots = means[:, present] @ places
    if len(knots) == 1:
        return np.tile(means, (fine, 1))
    return CubicSpline(knots, means)(np.clip(np.arange(fine), knots[0], knots[-1]))
