"""From the pixels of one grid to those of another: by their affine maps, and by PROJ where coordinate systems differ.

A place is (row, column), counted from the outer corner of the first pixel, so that the centre of that pixel is (½, ½).
"""

from collections.abc import Callable

import numpy as np

from ..formats import Georeference
from ..formats.extras import needed
from ..model.types import Array

# Points along an edge of a picture: what is straight in one coordinate system is bent in another.
_ALONG_EDGE = 21

#: From (n, 2) places on one grid to those on another.
Mapping = Callable[[Array], Array]


def affine(transform: tuple[float, ...]) -> tuple[Array, Array]:
    """The map (row, column) to (x, y) as matrix and vector."""
    a, b, c, d, e, f = transform
    return np.array([[b, a], [e, d]]), np.array([c, f])


def crs_name(crs: str | None) -> str:
    """The name that begins a WKT text."""
    if crs is None:
        return "not known"
    return crs.split('"')[1] if crs.count('"') >= 2 else crs[:40]


def mapping(one: Georeference, other: Georeference) -> Mapping:
    """What takes places on one grid to places on another; coordinate systems not known to differ count as one.

    Parameters
    ----------
    one, other : Georeference

    Returns
    -------
    callable
        From an (n, 2) array of places to another; not finite where there is no such place.
    """
    (A, a), (B, b) = affine(one.transform), affine(other.transform)
    same = one.same_crs(other) is not False

    def mapped(places):
        points = np.asarray(places, np.float64) @ A.T + a
        points = points if same else _reprojected(points, one.crs, other.crs)
        return np.linalg.solve(B, (points - b).T).T

    return mapped


def edge(shape: tuple[int, int]) -> Array:
    """Places all around a picture."""
    along = np.linspace(0.0, 1.0, _ALONG_EDGE)
    sides = [(along, 0.0), (along, 1.0), (0.0, along), (1.0, along)]
    return np.concatenate([np.stack(np.broadcast_arrays(*side), axis=1) for side in sides]) * shape


def bounds(places: Array) -> tuple[Array, Array]:
    """The least and the largest (row, column) of those places that are finite."""
    finite = places[np.isfinite(places).all(axis=1)]
    if not len(finite):
        return np.full(2, np.inf), np.full(2, -np.inf)
    return finite.min(axis=0), finite.max(axis=0)


def steps(there: Mapping, place: Array) -> Array:
    """How a step of one row, and of one column, at a place looks on the other grid: a matrix of two columns."""
    middle = np.asarray(place, np.float64)
    around = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5], [0.0, -0.5]])
    down, up, right, left = there(middle + around)
    return np.stack([down - up, right - left], axis=1)


def extent_name(georeference: Georeference, shape: tuple[int, int]) -> str:
    """The extent of a grid in its own coordinates, in words."""
    matrix, vector = affine(georeference.transform)
    corners = np.array([(0, 0), (0, 1), (1, 0), (1, 1)]) * shape @ matrix.T + vector
    (left, low), (right, high) = corners.min(axis=0), corners.max(axis=0)
    return f"x {left:.10g} to {right:.10g}, y {low:.10g} to {high:.10g} in {crs_name(georeference.crs)}"


def part(georeference: Georeference, row: float, column: float, ratio: float = 1.0) -> Georeference:
    """The grid that begins at another place, with each pixel divided by `ratio`."""
    matrix, vector = affine(georeference.transform)
    c, f = matrix @ (row, column) + vector
    (b, a), (e, d) = matrix / ratio
    return Georeference(georeference.crs, (float(a), float(b), float(c), float(d), float(e), float(f)))


def _reprojected(points, one, other):
    rasterio = needed("rasterio", "grids of two coordinate systems")
    warp = needed("rasterio.warp", "grids of two coordinate systems")
    with rasterio.Env():
        try:
            systems = [rasterio.CRS.from_wkt(crs) for crs in (one, other)]
            x, y = warp.transform(*systems, points[:, 0], points[:, 1])
        except Exception as error:
            raise ValueError(
                f"{crs_name(one)} cannot be brought to {crs_name(other)} ({str(error).splitlines()[0]}); warp one of "
                "the images to the other's coordinate system"
            ) from error
    return np.stack([x, y], axis=1)
