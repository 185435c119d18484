"""How the pixels of the two images lie to each other, and how far the operators agree with that.

Where both images are georeferenced the affine maps of their grids say it: T_M⁻¹ T_H takes pixels of the HSI to those of
the MSI, and must be d times the identity, d the whole ratio, plus an offset t of the first corners, in MSI pixels. The
centre of HSI pixel a then lies at (d−1)/2 + t + a·d in MSI pixels, the first of them at 0. An operator P puts it at the
centre of mass of row a. The difference of the two is the shift that the fusion does not know of.

Without georeferencing the shift is estimated from the images (`fastccpd.estimation.shift`).
"""

from dataclasses import dataclass, field
from typing import cast

import numpy as np

from ..estimation.shift import Shift, better_phase, directions, phase_of
from ..formats import Header, Raster
from ..model.checks import as_count
from ..model.types import Operator
from .mapping import affine, crs_name

# Pixel sizes may be rounded too: by so little that it does not add up to this over the picture, in MSI pixels.
_DRIFT = 0.1


@dataclass(frozen=True)
class Grids:
    """How the two grids lie to each other.

    Attributes
    ----------
    ratio : int
        MSI pixels per HSI pixel, in each direction.
    ratio_from : "georeferencing", "sizes" or "given"
    offset : (rows, columns) or None
        Where the first corner of the HSI lies from that of the MSI, in MSI pixels, downwards and to the right; None
        where not both are georeferenced.
    notes : tuple of str
        What could not be checked.
    """

    ratio: int
    ratio_from: str
    offset: tuple[float, float] | None = None
    notes: tuple[str, ...] = field(default=())


def grids_of(hsi: Raster | Header, msi: Raster | Header, ratio: int | None = None) -> Grids:
    """The ratio and the offset of two grids; ValueError with the numbers where they do not belong together.

    Parameters
    ----------
    hsi, msi : Raster or Header
    ratio : int, optional
        What the caller says it is. None: by georeferencing, else by the sizes.

    Returns
    -------
    Grids
    """
    given = None if ratio is None else as_count(ratio, "ratio")
    if hsi.georeference is None or msi.georeference is None:
        ratio, ratio_from = (_ratio_of_sizes(hsi.shape, msi.shape), "sizes") if given is None else (given, "given")
        _check_sizes(hsi.shape, msi.shape, ratio)
        return Grids(ratio, ratio_from, notes=_not_compared(hsi, msi))
    notes = _check_crs(hsi.georeference, msi.georeference)
    scale, offset = _relative(hsi.georeference.transform, msi.georeference.transform)
    found = _ratio_of_pixels(scale, hsi.shape)
    if given not in (None, found):
        raise ValueError(f"ratio: got {given}, but by georeferencing an HSI pixel is {found} MSI pixels wide")
    _check_sizes(hsi.shape, msi.shape, found)
    return Grids(found, "georeferencing" if given is None else "given", offset, notes)


def shift_by_georeference(grids: Grids, P1: Operator, P2: Operator) -> Shift:
    """The `Shift` between the grids and the operators.

    A grid that begins a whole MSI pixel or more away, without operators that know it, is refused: such images show
    different ground.

    Parameters
    ----------
    grids : Grids
        Of two georeferenced images.
    P1, P2 : matrices
        The blur along rows and columns.

    Returns
    -------
    Shift
    """
    phases = [phase_of(P, grids.ratio) for P in (P1, P2)]
    middle, offset = (grids.ratio - 1) / 2, cast(tuple[float, float], grids.offset)
    wanted = [middle + corner for corner in offset]
    rows, columns = (float(want - phase) for want, phase in zip(wanted, phases, strict=True))
    better = better_phase(phases, wanted, grids.ratio)
    if max(map(abs, offset)) >= 1.0 and max(abs(rows), abs(columns)) >= 1.0:
        instead = "" if better is None else f", or use a blur of phase {better:g}"
        raise ValueError(
            f"hsi: its first corner lies {directions(*offset)} of the MSI's; less than one is needed, so crop "
            f"both to the same corner{instead}"
        )
    return Shift(rows, columns, (0.0, 0.0), "georeferencing", better)


def _not_compared(hsi, msi):
    known = [name for name, image in (("HSI", hsi), ("MSI", msi)) if image.georeference is not None]
    return (f"only the {known[0]} is georeferenced, so the grids cannot be compared",) if known else ()


def _check_crs(hsi, msi):
    same = hsi.same_crs(msi)
    if same is False:
        raise ValueError(
            f"hsi: its coordinate system is {crs_name(hsi.crs)}, but the MSI's is {crs_name(msi.crs)}; they must agree"
        )
    return ("the coordinate systems of the two grids are not known to agree",) if same is None else ()


def _relative(hsi, msi):
    """The linear part [[rows by row, rows by column], [columns by row, columns by column]] and offset of T_M⁻¹ T_H."""
    (A, a), (B, b) = (affine(transform) for transform in (hsi, msi))
    down, right = (float(part) for part in np.linalg.solve(B, a - b))
    return np.linalg.solve(B, A), (down, right)


def _ratio_of_pixels(scale, shape):
    """The whole number that `scale` is times the identity, as far as the picture can tell."""
    ratio = round(float(np.trace(scale)) / 2)
    drift = np.abs(scale - ratio * np.eye(2)) * np.array(shape[:2])
    if ratio >= 1 and drift.max() <= _DRIFT:
        return ratio
    (high, skew_1), (skew_2, wide) = scale
    turned = "" if max(abs(skew_1), abs(skew_2)) < 1e-6 else ", and its grid is turned against it"
    raise ValueError(
        f"hsi: by georeferencing its pixels are {wide:.6g} MSI pixels wide and {high:.6g} high{turned}; one whole "
        "number is needed for both"
    )


def _ratio_of_sizes(hsi, msi):
    ratios = [fine / coarse for fine, coarse in zip(msi[:2], hsi[:2], strict=True)]
    if ratios[0] == ratios[1] == int(ratios[0]) >= 1:
        return int(ratios[0])
    raise ValueError(
        f"msi: its {msi[0]} rows and {msi[1]} columns are {ratios[0]:.6g} and {ratios[1]:.6g} times the HSI's {hsi[0]} "
        f"and {hsi[1]}; one whole number is needed for both, so crop the images to the same ground"
    )


def _check_sizes(hsi, msi, ratio):
    for name, coarse, fine in zip(("rows", "columns"), hsi[:2], msi[:2], strict=True):
        if fine != ratio * coarse:
            raise ValueError(
                f"msi: {fine} {name}, but {ratio} times the HSI's {coarse} are {ratio * coarse}; they must agree"
            )
