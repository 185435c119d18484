"""Where the two images are taken from: whole HSI pixels of the ground that both show, and a grid that divides them.

The fine grid is one of three (`grid`):

    hsi    the HSI's coordinate system, its pixels divided by the ratio; the MSI is warped to it where it lies otherwise
    msi    the MSI's own pixels; nothing is warped, and the HSI lies up to half an MSI pixel off, which blur and shift
           of the operators must carry
    FILE   the grid of a file; either image is warped to it, or to whole blocks of it, where it lies otherwise

The ratio is the whole number next to how many fine pixels an HSI pixel is wide and high: a warp brings it there. An
image whose pixels are those of the grid, to a hundredth of a pixel, is cropped, not warped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ..estimation.shift import SAME
from ..formats import Georeference, Header, Raster
from ..model.checks import as_count
from .grids import Grids, grids_of
from .mapping import bounds, crs_name, edge, extent_name, mapping, part, steps

# Pixel sizes may be rounded too: by so little that it does not add up to this over the picture, in pixels.
_DRIFT = 0.1

# How many pixels along each side are asked whether they lie on pixels of the file.
_ASKED = 33


@dataclass(frozen=True)
class Place:
    """Which pixels of an image are taken.

    Attributes
    ----------
    shape : (rows, columns)
    georeference : Georeference or None
        The grid on which they lie.
    corner : (row, column)
        The first of them in the file, where nothing is warped.
    warped : bool
        Whether they are interpolated from the pixels of the file.
    resampled : float
        The share of them that are no pixels of the file.
    """

    shape: tuple[int, int]
    georeference: Georeference | None = None
    corner: tuple[int, int] = (0, 0)
    warped: bool = False
    resampled: float = 0.0

    @property
    def grid(self) -> Georeference:
        """Where they lie, of pixels that lie somewhere: all that are warped do."""
        return cast(Georeference, self.georeference)


@dataclass(frozen=True)
class Placement:
    """How the two images are taken: where, and how their grids then lie to each other.

    Attributes
    ----------
    hsi, msi : Place
    grids : Grids
    notes : tuple of str
        What was cropped, warped or rounded.
    """

    hsi: Place
    msi: Place
    grids: Grids
    notes: tuple[str, ...] = ()


def placement(
    hsi: Header | Raster,
    msi: Header | Raster,
    *,
    grid: str | Header | Raster = "hsi",
    ratio: int | None = None,
    bbox: Sequence[float] | None = None,
    window: tuple[slice, slice] | None = None,
) -> Placement:
    """Where two images are taken from; ValueError with the numbers where they do not belong together.

    Parameters
    ----------
    hsi, msi : Header or Raster
    grid : "hsi", "msi", or the Header or Raster of the file whose grid is meant
    ratio : int, optional
        MSI pixels per HSI pixel; None: by georeferencing, else by the sizes.
    bbox : (left, bottom, right, top), optional
        What to cut out, in the coordinates of the fine grid.
    window : (rows, columns), optional
        What to cut out, as slices of HSI pixels; of whole blocks of the grid where that is a file's.

    Returns
    -------
    Placement
    """
    if hsi.georeference is None or msi.georeference is None:
        return _by_sizes(hsi, msi, grid, ratio, bbox, window)
    if isinstance(grid, str) and grid == "msi":
        return _on_msi(hsi, msi, ratio, bbox, window)
    base = hsi if isinstance(grid, str) else grid
    if base.georeference is None:
        raise ValueError(f"--grid: {base.source.get('path', 'the file')} is not georeferenced; a grid is needed")
    return _on_grid(hsi, msi, base, ratio, bbox, window)


def _by_sizes(hsi, msi, grid, ratio, bbox, window):
    """Images of which not both are georeferenced: their first corners are one, and their sizes must agree."""
    if bbox is not None or not isinstance(grid, str):
        option = "--bbox" if bbox is not None else "--grid"
        raise ValueError(
            f"{option}: needs two georeferenced images, which these are not; use --window, or leave it out"
        )
    grids = grids_of(hsi, msi, ratio)
    (top, left), (bottom, right) = _cut((0, 0), hsi.shape[:2], window, hsi.shape[:2])
    shape, d = (bottom - top, right - left), grids.ratio
    places = [
        Place(
            (shape[0] * scale, shape[1] * scale),
            None if image.georeference is None else part(image.georeference, top * scale, left * scale),
            (top * scale, left * scale),
        )
        for image, scale in ((hsi, 1), (msi, d))
    ]
    return Placement(places[0], places[1], grids, _cropped(hsi, shape))


def _on_msi(hsi, msi, ratio, bbox, window):
    """The MSI's own pixels, and HSI pixels up to half an MSI pixel off."""
    if hsi.georeference.same_crs(msi.georeference) is False:
        raise ValueError(
            f"--grid: got msi, but {_systems(hsi, msi)}; --grid hsi, which warps the MSI, or a FILE is needed"
        )
    there = mapping(hsi.georeference, msi.georeference)
    found = _whole_ratio(hsi, msi, there)
    if found is None:
        wide = steps(there, np.array(hsi.shape[:2]) / 2)
        turned = np.abs(wide - np.diag(np.linalg.norm(wide, axis=0))).max() > SAME
        fault = f"HSI pixels are {_sizes(wide)} MSI pixels; a whole number is needed for both"
        if turned:
            fault = "the HSI is turned or mirrored against the MSI; grids that run the same way are needed"
        raise ValueError(f"--grid: got msi, but by georeferencing {fault}, or --grid hsi, which warps the MSI")
    _check_ratio(ratio, float(found))
    offset = there(np.zeros((1, 2)))[0]
    # The MSI's first pixel under an HSI pixel is the nearest one; all that belong to it must be there.
    first = np.round(offset)
    low = np.maximum(0, np.ceil(-first / found)).astype(int)
    high = np.minimum(hsi.shape[:2], np.floor((np.array(msi.shape[:2]) - first) / found)).astype(int)
    _check_overlap(low, high, hsi, msi)
    low, high = _cut(low, high, window, hsi.shape[:2], _box(bbox, hsi.georeference, msi.georeference))
    rows, columns = (int(size) for size in high - low)
    corner = (first + low * found).astype(int)
    rest, shape = offset - first, (rows, columns)
    coarse = Place(shape, part(hsi.georeference, *low), (int(low[0]), int(low[1])))
    fine = Place((rows * found, columns * found), part(msi.georeference, *corner), (int(corner[0]), int(corner[1])))
    how = "georeferencing" if ratio is None else "given"
    grids = Grids(found, how, (float(rest[0]), float(rest[1])), _crs_notes(hsi, msi))
    return Placement(coarse, fine, grids, (*_cropped(hsi, shape), *_off(rest)))


def _on_grid(hsi, msi, base, ratio, bbox, window):
    """Whole pixels of a coarse grid and what divides them, which is the HSI's own grid or made of a file's pixels."""
    own = base is hsi
    fine_of = msi if own else base
    there = mapping(hsi.georeference, fine_of.georeference)
    overlap = _overlap(hsi, msi)
    wide = steps(there, overlap)
    d, real = _nearest_ratio(wide, ratio)
    coarse = hsi.georeference if own else part(base.georeference, 0.0, 0.0, 1.0 / d)
    size = np.array(hsi.shape[:2]) if own else np.array(base.shape[:2]) // d
    low, high = np.zeros(2), size.astype(float)
    for image in (msi,) if own else (hsi, msi):
        least, most = bounds(mapping(image.georeference, coarse)(edge(image.shape[:2])))
        low, high = np.maximum(low, np.ceil(least - SAME / d)), np.minimum(high, np.floor(most + SAME / d))
    if not (low < high).all():
        _check_overlap(low, high, hsi, msi)
    low, high = _cut(low.astype(int), high.astype(int), window, size, _box(bbox, coarse, coarse))
    rows, columns = shape = int(high[0] - low[0]), int(high[1] - low[1])
    places = place(hsi, part(coarse, *low), shape), place(msi, part(coarse, low[0], low[1], d), (rows * d, columns * d))
    blocks = f"{rows}×{columns} blocks of {d}×{d} pixels of the given grid lie on both images"
    notes = [*(_cropped(hsi, shape) if own else [blocks]), *_rounded(real, d, wide)]
    for name, image, taken in (("hsi", hsi, places[0]), ("msi", msi, places[1])):
        notes += _warped(name, image, taken)
    known = Grids(d, "georeferencing" if ratio is None else "given", (0.0, 0.0), _crs_notes(hsi, msi))
    return Placement(places[0], places[1], known, tuple(notes))


def place(image: Header | Raster, georeference: Georeference, shape: tuple[int, int]) -> Place:
    """How an image is brought to a grid: cropped where its pixels are those of the grid, else warped.

    Parameters
    ----------
    image : Header or Raster
        Georeferenced.
    georeference : Georeference
    shape : (rows, columns)
        Of the grid.

    Returns
    -------
    Place
    """
    there = mapping(georeference, cast(Georeference, image.georeference))
    corners = there(np.array([(0, 0), (0, 1), (1, 0), (1, 1)]) * shape)
    first = np.round(corners[0]) if np.isfinite(corners).all() else np.zeros(2)
    straight = first + np.array([(0, 0), (0, 1), (1, 0), (1, 1)]) * shape
    same = np.isfinite(corners).all() and np.abs(corners[0] - straight[0]).max() <= SAME
    inside = (first >= 0).all() and (first + shape <= image.shape[:2]).all()
    if same and inside and np.abs(corners - straight).max() <= _DRIFT and _one_system(georeference, image.georeference):
        return Place(shape, georeference, (int(first[0]), int(first[1])))
    asked = [np.linspace(0, size - 1, min(size, _ASKED)).round() + 0.5 for size in shape]
    places = there(np.stack([side.ravel() for side in np.meshgrid(*asked, indexing="ij")], axis=1)) - 0.5
    off = ~(np.abs(places - np.round(places)) <= SAME).all(axis=1)
    return Place(shape, georeference, warped=True, resampled=float(off.mean()))


def _one_system(one, other):
    return one.same_crs(other) is not False


def _overlap(hsi, msi):
    """The middle of the ground that both show, in HSI pixels."""
    least, most = bounds(mapping(msi.georeference, hsi.georeference)(edge(msi.shape[:2])))
    low, high = np.maximum(least, 0.0), np.minimum(most, hsi.shape[:2])
    _check_overlap(low, high, hsi, msi)
    return (low + high) / 2


def _check_overlap(low, high, hsi, msi):
    if (np.asarray(low) < np.asarray(high)).all():
        return
    extents = [extent_name(image.georeference, image.shape[:2]) for image in (hsi, msi)]
    raise ValueError(f"hsi: no whole pixel of it lies on the MSI; it covers {extents[0]}, and the MSI {extents[1]}")


def _whole_ratio(hsi, msi, there):
    """The whole ratio of two grids that differ by an offset alone; None where they differ by more."""
    corners = there(np.array([(0, 0), (0, 1), (1, 0), (1, 1)]) * hsi.shape[:2])
    found = round(float(np.trace(steps(there, np.array(hsi.shape[:2]) / 2))) / 2)
    straight = corners[0] + np.array([(0, 0), (0, 1), (1, 0), (1, 1)]) * hsi.shape[:2] * found
    return found if found >= 1 and np.abs(corners - straight).max() <= _DRIFT else None


def _nearest_ratio(wide, ratio):
    """The whole ratio, and the number that it stands for."""
    real = float(np.sqrt(abs(np.linalg.det(wide))))
    found = round(real)
    if found < 1:
        raise ValueError(
            f"hsi: its pixels are {_sizes(wide)} MSI pixels; coarser pixels than the MSI's are needed (HSI first)"
        )
    return _check_ratio(ratio, real) or found, real


def _check_ratio(ratio, real):
    if ratio is None:
        return None
    given = as_count(ratio, "ratio")
    if abs(given - real) >= 1.0 - 1e-6 or (abs(real - round(real)) < 1e-3 and given != round(real)):
        raise ValueError(f"ratio: got {given}, but by georeferencing an HSI pixel is {real:.6g} MSI pixels wide")
    return given


def _sizes(wide):
    down, right = np.linalg.norm(wide, axis=0)
    return f"{right:.6g} by {down:.6g}"


def _box(bbox, coarse, fine):
    """A box of coordinates as the least and largest HSI pixel that it meets."""
    if bbox is None:
        return None
    left, bottom, right, top = (float(value) for value in bbox)
    if not (left < right and bottom < top and np.isfinite([left, bottom, right, top]).all()):
        raise ValueError(f"--bbox: got {left:g},{bottom:g},{right:g},{top:g}; left < right and bottom < top are needed")
    plain = Georeference(fine.crs, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    corners = np.array([(y, x) for y in (bottom, top) for x in (left, right)])
    least, most = bounds(mapping(plain, coarse)(corners))
    return np.floor(least + SAME).astype(int), np.ceil(most - SAME).astype(int)


def _cut(low, high, window, size, box=None):
    """The part of low … high that a window and a box leave."""
    low, high = np.array(low, int), np.array(high, int)
    if window is not None:
        inside = [part.indices(int(length)) for part, length in zip(window, size, strict=True)]
        low, high = (
            np.maximum(low, [start for start, _, _ in inside]),
            np.minimum(high, [stop for _, stop, _ in inside]),
        )
    if box is not None:
        low, high = np.maximum(low, box[0]), np.minimum(high, box[1])
    if not (low < high).all():
        option = "--window" if box is None else "--bbox"
        raise ValueError(f"{option}: leaves no HSI pixel of the ground that both images show; a part of it is needed")
    return low, high


def _cropped(hsi, shape):
    rows, columns = hsi.shape[:2]
    if shape == (rows, columns):
        return ()
    return (
        f"the HSI is cropped from {rows}×{columns} to {shape[0]}×{shape[1]} pixels, those with an MSI or asked for",
    )


def _rounded(real, d, wide):
    down, right = np.linalg.norm(wide, axis=0)
    if max(abs(down - d), abs(right - d)) * 100 < d:
        return []
    return [f"HSI pixels are {_sizes(wide)} fine pixels; the warp makes that {d}"]


def _warped(name, image, taken):
    if not taken.warped:
        return []
    return [
        f"{name}: warped from {_where(image)} to the grid of the result; {taken.resampled:.0%} of its pixels are "
        "interpolated"
    ]


def _where(image):
    return crs_name(image.georeference.crs)


def _off(rest):
    if np.abs(rest).max() <= SAME:
        return []
    return [f"the HSI's pixels begin {rest[0]:+.2f} rows and {rest[1]:+.2f} columns from the MSI's, in MSI pixels"]


def _systems(hsi, msi):
    names = [crs_name(image.georeference.crs) for image in (hsi, msi)]
    return f"the HSI's coordinate system is {names[0]} and the MSI's {names[1]}"


def _crs_notes(hsi, msi):
    known = hsi.georeference.same_crs(msi.georeference)
    return ("the coordinate systems of the two grids are not known to agree",) if known is None else ()
