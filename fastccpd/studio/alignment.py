"""How the pixels of the two images lie to each other, and how far the operators agree with that.

Where both images are georeferenced the affine maps of their grids tell: T_M⁻¹ T_H takes pixels of the HSI to pixels of
the MSI, and must be d times the identity, d the whole ratio, plus an offset t of the first corners, in MSI pixels. The
centre of HSI pixel a then lies at (d−1)/2 + t + a·d in MSI pixels, the first of them at 0. An operator P puts it at the
centre of mass of row a. The difference of the two is the shift that the fusion does not know of.

Without georeferencing the shift is estimated from the images. With x the MSI's leading combination of bands, P1 x P2'
is compared with the same combination y of the HSI's. A small shift s adds  s_r ∂_r + s_c ∂_c  of the (blurred) picture,
so linear regression gives s, the picture is moved by it, and so on (Lucas and Kanade, 1981). Far from the solution the
regressors are the derivatives of the moved picture; its noise would both bias the answer and hide how uncertain it is,
so near the solution the derivatives of y, whose noise is independent, are the instruments:

    s = (Z'X)⁻¹ Z' (y − P1 x P2'),    covariance σ² (Z'X)⁻¹ Z'Z (X'Z)⁻¹

On six scenes with shifts of 0 to 3 pixels at 0 to 40 dB hardly an error was beyond four of these standard errors, and
1200 noisy pairs without a shift gave no alarm. On Salinas (18×19 HSI pixels, ratio 4) the error is below 0.1 pixels at
40 dB, below 1 at 20, and under 15 dB the standard error says that nothing is known. Phase correlation of the coarse
images errs there by 2 pixels even without noise: the wrapped border weighs more than the shift.
"""

from dataclasses import dataclass, field

import numpy as np

from ..model.checks import as_count

# Corners nearer than this, in MSI pixels, are the same corner: files keep their coordinates rounded.
_SAME = 0.01

# Pixel sizes may be rounded too: by so little that it does not add up to this over the picture, in MSI pixels.
_DRIFT = 0.1

# An estimated shift is believed, and worth telling, above this many MSI pixels and this many standard errors.
_LEAST = 0.5
_ERRORS = 4.0

# A phase is advised if it leaves no more than this, in MSI pixels: phases are halves, so a quarter may be left.
_FITS = 0.3

# The border, in HSI pixels, that is not compared: what lies outside the picture is not known.
_BORDER = 2

# In MSI pixels: the longest step of the estimate, and the steps below which it is near its end, and at it.
_LARGEST_STEP, _ROUGH, _FINE = 2.0, 0.1, 0.01
_MOST_STEPS = 20


@dataclass(frozen=True)
class Grids:
    """How the two grids lie to each other.

    Attributes
    ----------
    ratio : int
        MSI pixels an HSI pixel, in each direction.
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
    def matters(self):
        """Whether it is worth telling: more than rounding, more than noise."""
        least = _SAME if self.source == "georeferencing" else _LEAST
        shifts = np.abs([self.rows, self.columns])
        return bool((shifts > np.maximum(least, np.multiply(_ERRORS, self.errors))).any())

    def __str__(self):
        told = f"{directions(self.rows, self.columns)} of where the blur puts it"
        if self.source == "images":
            told = f"an estimated {told} (standard error {max(self.errors):.2f})"
        return f"the HSI lies {told}" + (
            f"; a blur of phase {self.phase:g} would fit better" if self.phase is not None else ""
        )


def grids(hsi, msi, ratio=None):
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


def shift_by_georeference(grids, P1, P2):
    """The `Shift` between the grids and the operators.

    A grid that begins a whole MSI pixel or more away, without operators that know it, is refused: such images show
    different ground.

    Parameters
    ----------
    grids : Grids
        Of two georeferenced images.
    P1, P2 : matrices
    """
    phases = [phase_of(P, grids.ratio) for P in (P1, P2)]
    middle = (grids.ratio - 1) / 2
    wanted = [middle + offset for offset in grids.offset]
    rows, columns = (float(want - phase) for want, phase in zip(wanted, phases, strict=True))
    better = _better_phase(phases, wanted, grids.ratio)
    if max(map(abs, grids.offset)) >= 1.0 and max(abs(rows), abs(columns)) >= 1.0:
        instead = "" if better is None else f", or use a blur of phase {better:g}"
        raise ValueError(
            f"hsi: its first corner lies {directions(*grids.offset)} of the MSI's; less than one is needed, so crop "
            f"both to the same corner{instead}"
        )
    return Shift(rows, columns, (0.0, 0.0), "georeferencing", better)


def shift_by_images(hsi, msi, degradation):
    """The `Shift` that the images show, up to an HSI pixel; None where it cannot be estimated.

    Parameters
    ----------
    hsi, msi : (rows, columns, bands) arrays
    degradation : Degradation
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
    phases = [phase_of(P, ratio) for P in (P1, P2)]
    phase = _better_phase(phases, (phases[0] + rows, phases[1] + columns), ratio)
    return Shift(rows, columns, tuple(float(error) for error in errors), "images", phase)


def phase_of(P, ratio):
    """Where an operator puts the centre of the first coarse pixel among the fine ones: by centres of mass of its rows.

    The middle one of the rows decides, since a periodic boundary spoils the first and the last.
    """
    centres = (P @ np.arange(P.shape[1], dtype=np.float64)) / (P @ np.ones(P.shape[1]))
    return float(np.median(centres - ratio * np.arange(P.shape[0])))


def directions(rows, columns):
    vertical, horizontal = "down" if rows >= 0.0 else "up", "right" if columns >= 0.0 else "left"
    return f"{abs(rows):.2f} MSI pixels {vertical} and {abs(columns):.2f} {horizontal}"


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


def crs_name(crs):
    """The name that begins a WKT text."""
    return crs.split('"')[1] if crs.count('"') >= 2 else crs[:40]


def _relative(hsi, msi):
    """The linear part [[rows by row, rows by column], [columns by row, columns by column]] and offset of T_M⁻¹ T_H."""
    (A, a), (B, b) = (_affine(transform) for transform in (hsi, msi))
    return np.linalg.solve(B, A), tuple(float(part) for part in np.linalg.solve(B, a - b))


def _affine(transform):
    """The map (row, column) to (x, y) as matrix and vector."""
    a, b, c, d, e, f = transform
    return np.array([[b, a], [e, d]]), np.array([c, f])


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


def _better_phase(phases, wanted, ratio):
    """The multiple of one half that both directions want, if it is nearer to that than their phases are, or None."""
    best = round(float(np.mean(wanted)) * 2.0) / 2.0
    if not 0.0 <= best <= ratio - 1:
        return None
    now = max(abs(want - phase) for want, phase in zip(wanted, phases, strict=True))
    then = max(abs(want - best) for want in wanted)
    return best if then <= _FITS and then < now - _SAME else None


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
