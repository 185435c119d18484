"""The HSI interpolated to the MSI's pixels by cubic splines, every HSI pixel sitting where its operators put it.

An interpolation "by the ratio" would put HSI pixel a in the middle of its block of MSI pixels, whatever the blur and
the phase of the sampling; where it sits is written in P1 and P2. Along an axis there are two cases:

- row a of P is row 0 shifted by a·d, periodically: the centre of mass c of row 0 on the circle, then c + a·d, and a
  periodic spline;
- any other operator: the centre of gravity of each row, a spline through those places, and beyond the first and the
  last of them a constant. Rows whose weights do not have a positive sum have no such place and are left out; rows at
  one place count with their mean.

A pixel is divided by the sum of its row's weights, so that what is interpolated is in the unit of the scene, at the
border of a blur that finds nothing beyond it as anywhere.

A spline is a sum of few bells at each place: along an axis the interpolation is T = B C, with C (bells, coarse) dense,
the bells' coefficients, and B (fine, bells) sparse, four values a row. C is applied at the coarse pixels, where it
costs little, and B at the fine ones: 4 products a value for each axis, where T has as many as there are coarse pixels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..estimation.map_data import compressed_rows
from ..kernels.maps import along
from ..model.types import Array
from ._circular import centroid, ratio_and_taps

# A sum of weights that is a smaller part of their magnitudes says nothing of the unit.
_LEAST_SUM = 1e-3

# Places that are nearer to each other than this part of a fine pixel are one.
_ONE_PLACE = 1e-9

_DEGREE = 3


@dataclass(frozen=True, eq=False)
class Line:
    """The interpolation B C along one axis.

    Attributes
    ----------
    bells : (fine, n) sparse array
        B.
    coefficients : (n, coarse) array
        C.
    """

    bells: Any
    coefficients: Array

    @property
    def matrix(self) -> Array:
        """T = B C."""
        return self.bells @ self.coefficients

    def at(self, places: slice | Array) -> "Line":
        """The interpolation at some of the fine places."""
        return Line(self.bells[places], self.coefficients)

    def seen_by(self, P: Any) -> "Line":
        """The interpolation, and after it an operator P."""
        return Line(compressed_rows(P @ self.bells), self.coefficients)


@dataclass(frozen=True, eq=False)
class Upsampling:
    """The interpolation along both axes.

    Attributes
    ----------
    rows, columns : Line
    """

    rows: Line
    columns: Line

    def maps(self, coarse: Array) -> Array:
        """Maps (I_H, J_H) or (n, I_H, J_H) at the fine pixels."""
        inside = self.rows.coefficients @ coarse @ self.columns.coefficients.T
        fine = [self.rows.bells @ (self.columns.bells @ m.T).T for m in np.atleast_3d(inside.T).T]
        return np.reshape(fine, (*coarse.shape[:-2], *np.shape(fine)[1:]))

    def coefficients(self, coarse: Array) -> Array:
        """Of an image (I_H, J_H, L): C along both axes, which is what `fine` begins with."""
        I_H, J_H, L = coarse.shape
        half = (self.rows.coefficients @ coarse.reshape(I_H, -1)).reshape(-1, J_H, L)
        return self.columns.coefficients @ half

    def fine(self, coefficients: Array) -> Array:
        """The image (I, J, L) at the fine pixels."""
        return along(self.columns.bells, along(self.rows.bells, coefficients, 0), 1)

    def at(self, rows: slice | Array, columns: slice | Array) -> "Upsampling":
        """The interpolation at some of the fine pixels."""
        return Upsampling(self.rows.at(rows), self.columns.at(columns))

    def image(self, coarse: Array) -> Array:
        """An image (I_H, J_H, L) at the fine pixels, (I, J, L)."""
        return self.fine(self.coefficients(coarse))


def upsampling(degradation: Any) -> Upsampling:
    """The `Upsampling` that belongs to P1 and P2 of a degradation."""
    return Upsampling(*(_in_unit_of_scene(_places_of(P), P) for P in (degradation.P1, degradation.P2)))


def sums_of_weights(P: Any) -> Array:
    """What each row of P weighs: one where it has no positive sum."""
    sums = np.asarray(P.sum(axis=1)).ravel()
    return np.where(sums > _LEAST_SUM * np.asarray(abs(P).sum(axis=1)).ravel(), sums, 1.0)


def _in_unit_of_scene(line, P):
    return Line(line.bells, line.coefficients / sums_of_weights(P))


def _places_of(P):
    """The interpolation along one axis of what stands at the places of its rows."""
    coarse, fine = P.shape
    try:
        d, taps = ratio_and_taps(P, "P")
    except ValueError:
        return _line_by_gravity(P)
    closed = np.concatenate([np.eye(coarse), np.eye(coarse)[:1]])
    places = (np.arange(fine) - centroid(taps)) / d % coarse
    return _spline(np.arange(coarse + 1.0), closed, places, bc_type="periodic")


def _line_by_gravity(P):
    coarse, fine = P.shape
    sums = P.sum(axis=1)
    present = np.flatnonzero(sums > 0.0)
    if not present.size:
        return _without_bells(np.full((fine, coarse), 1.0 / coarse))
    places = np.clip((P @ np.arange(fine))[present] / sums[present], 0, fine - 1)
    order = np.argsort(places, kind="stable")
    places, present = places[order], present[order]
    group = np.concatenate([[0], np.cumsum(np.diff(places) > _ONE_PLACE)])
    means = np.zeros((group[-1] + 1, coarse))
    means[group, present] = 1.0 / np.bincount(group)[group]
    knots = means[:, present] @ places
    return _spline(knots, means, np.clip(np.arange(fine), knots[0], knots[-1]))


def _spline(knots, values, places, bc_type=None):
    """The spline through `values` (knots, coarse) at `places`; through few knots a polynomial."""
    # Imported here: it takes as long to import as Numba itself.
    from scipy.interpolate import BSpline, make_interp_spline

    if len(knots) == 1:
        return _without_bells(np.tile(values, (len(places), 1)))
    degree = min(_DEGREE, len(knots) - 1) if bc_type is None else _DEGREE
    spline = make_interp_spline(knots, values, degree, bc_type=bc_type)
    bells = BSpline.design_matrix(places, spline.t, degree)
    return Line(compressed_rows(bells), spline.c)


def _without_bells(matrix):
    """The `Line` of a matrix that is no spline's."""
    return Line(compressed_rows(sparse.csr_array(matrix)), np.eye(matrix.shape[1]))
