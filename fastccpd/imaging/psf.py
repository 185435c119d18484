"""The point spread function: P1 and P2, each a Gaussian blur followed by keeping every d-th row.

A separable blur acts on rows and on columns by itself, so one banded matrix a side describes it. Row a of P holds
samples of a Gaussian about the centre  c = phase + a·d  in fine pixels,

    P[a, b(i)] += g(i − c)  for the pixels i with |i − c| ≤ 4σ,    g(x) = exp(−x²/2σ²) / (σ sqrt(2π)),

for a = 0, 1, … while c < n − ½. σ is the width of the whole Gaussian, and at 4σ all of it is there: what lies beyond is
less than 1e-4 of it. `kernel` cuts it to that many pixels nearest to the centre, as published conventions do; it then
is narrower than σ says. The centre may lie anywhere: the middle of a coarse pixel of d fine ones is (d−1)/2. Two pixels
are as near as each other about a whole phase, so that a whole phase takes an odd `kernel`, and a half one an even one.

Here b is what the boundary makes of a pixel outside 0 … n-1: "periodic" wraps it round, "reflect" mirrors it at the
edge of the picture (… 1 0 | 0 1 …), "zero" drops it. With `normalise` the taps are divided by their sum, and every row
sums to one, except that "zero" loses what lies outside. Nothing asks d to divide n: the last kept row is the last that
fits.

Two conventions are published, and `preset` has both: they differ in width, phase and normalisation.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..model.checks import as_choice, as_count, as_number
from ..model.degradation import Degradation
from ..model.types import Array, Operator
from .response import landsat

BOUNDARIES = ("periodic", "reflect", "zero")

#: How many standard deviations of a Gaussian its taps reach.
REACH = 4.0

# The full width at half maximum of a Gaussian, in units of its standard deviation.
_FWHM = np.sqrt(8.0 * np.log(2.0))

_PRESETS = {
    "stereo": lambda ratio: {"sigma": ratio / _FWHM, "phase": ratio - 1, "kernel": 9, "normalise": True},
    "scott": lambda ratio: {"sigma": 1.0, "phase": min(1, ratio - 1), "kernel": 9, "normalise": False},
}


def gaussian(
    shape: Sequence[int],
    ratio: int,
    kernel: int | None = None,
    sigma: float | Sequence[float] | None = None,
    phase: float | Sequence[float] | None = None,
    boundary: str = "periodic",
    normalise: bool = True,
    *,
    coarse: Sequence[int] | None = None,
) -> tuple[Operator, Operator]:
    """The operators of a Gaussian blur decimated by `ratio`.

    Parameters
    ----------
    shape : (I, J)
        Rows and columns of the fine image; they need not be equal, nor multiples of `ratio`.
    ratio : int
        Fine pixels per coarse pixel, in each direction.
    kernel : int, optional
        Number of taps: odd for a whole phase, even for a half one. None: all within four standard deviations.
    sigma : float or (rows, columns), optional
        Standard deviation in fine pixels, of the whole Gaussian. None: ratio / sqrt(8 ln 2), a coarse pixel's full
        width at half maximum.
    phase : float or (rows, columns), optional
        Where the centre of the first coarse pixel lies among the fine ones, 0 to ratio - 1; beyond that, by up to
        four coarse pixels, where `coarse` is given. (ratio - 1) / 2 is the middle of the block of fine pixels that the
        coarse one covers. None: ratio - 1.
    boundary : "periodic", "reflect" or "zero"
        What lies outside the picture: the picture again, its mirror image, or nothing.
    normalise : bool
        True makes the taps sum to exactly one; False leaves them samples of the Gaussian density.
    coarse : (I_H, J_H), optional
        Rows and columns of the coarse image. None: as many as have their centres inside the fine one.

    Returns
    -------
    P1, P2 : scipy.sparse.csr_array
        Of shapes (I_H, I) and (J_H, J).

    Examples
    --------
    >>> from fastccpd.imaging import gaussian
    >>> P1, P2 = gaussian((80, 84), ratio=4, kernel=9)
    >>> P1.shape, P2.shape
    ((20, 80), (21, 84))
    >>> [float(round(tap, 6)) for tap in P1.toarray()[1, 3:8]]
    [0.014785, 0.049731, 0.11828, 0.198923, 0.236561]
    >>> P1, P2 = gaussian((80, 84), ratio=4, sigma=(1.7, 2.0), phase=(1.5, 1.8))
    >>> P1.nnz // 20, P2.nnz // 21
    (14, 16)
    """
    sizes = _sizes(shape, 2, "(rows, columns)")
    ratio = as_count(ratio, "ratio")
    counts = (None, None) if coarse is None else _sizes(coarse, 2, "(rows, columns)", "coarse")
    widths = _two(ratio / _FWHM if sigma is None else sigma, "sigma")
    phases = _two(ratio - 1 if phase is None else phase, "phase")
    as_choice(boundary, "boundary", BOUNDARIES)
    operators = []
    for size, name, width, centre, count in zip(sizes, ("rows", "columns"), widths, phases, counts, strict=True):
        width = _width(width, max(size, 4 * ratio))
        centre = _phase(centre, ratio, count is not None)
        if count is None and centre >= size - 0.5:
            raise ValueError(f"shape: {size} {name}, but the first kept is number {centre:g}; more are needed")
        count = len(np.arange(centre, size - 0.5, ratio)) if count is None else count
        first, offsets = _support(centre, width, kernel)
        taps = _taps(offsets, width, normalise)
        operators.append(sampled_rows(taps, first, ratio, count, size, boundary))
    return operators[0], operators[1]


def preset(
    name: str, shape: Sequence[int], PM: "ArrayLike | sparse.sparray | None" = None, ratio: int = 4
) -> Degradation:
    """A published degradation, whole.

    Parameters
    ----------
    name : "stereo" or "scott"
        "stereo": 9 taps that sum to one, sigma = ratio / sqrt(8 ln 2), the last fine pixel of each coarse one kept.
        "scott": 9 taps of the Gaussian density with sigma = 1 (they sum to 0.999997), the second fine pixel kept.
        Both are periodic.
    shape : (I, J, K)
        Of the super-resolution image.
    PM : (K_M, K) matrix, optional
        None: `landsat(K)`.
    ratio : int
        Fine pixels per coarse pixel, in each direction.

    Returns
    -------
    Degradation

    Examples
    --------
    >>> from fastccpd.imaging import preset
    >>> preset("stereo", (80, 84, 204))
    <Degradation: SRI 80×84×204 → HSI 20×21×204, MSI 80×84×6; ratio 4×4, taps 9/9/26>
    """
    options = _PRESETS[as_choice(name, "name", tuple(_PRESETS))]
    rows, columns, bands = _sizes(shape, 3, "(rows, columns, bands)")
    P1, P2 = gaussian((rows, columns), ratio, **options(as_count(ratio, "ratio")))
    response: Any = landsat(bands) if PM is None else PM
    degradation = Degradation(P1, P2, response)
    seen = degradation.sri_shape[2]
    if seen != bands:
        raise ValueError(f"PM: maps from {seen} bands, but shape has {bands}; they must agree")
    return degradation


def interpolation(size: int, by: float, boundary: str) -> Operator:
    """The (size, size) matrix that gives a picture's rows `by` pixels further on, by polynomials through six pixels.

    Parameters
    ----------
    size : int
    by : float
    boundary : "periodic", "reflect" or "zero"

    Returns
    -------
    scipy.sparse.csr_array
        Each row sums to one; of a whole number of pixels, a permutation within the picture.
    """
    whole = int(np.floor(by))
    places = np.arange(-2, 4)
    gaps = np.where(np.eye(6, dtype=bool), 1.0, places[:, None] - places)
    ahead = np.where(np.eye(6, dtype=bool), 1.0, by - whole - places)
    return sampled_rows((ahead / gaps).prod(axis=1), whole - 2, 1, size, size, boundary)


def sampled_rows(taps: Array, first: int, ratio: int, count: int, size: int, boundary: str) -> Operator:
    """The (count, size) matrix whose row a weighs the pixels first + a·ratio, … by `taps`.

    Parameters
    ----------
    taps : (n,) array
    first : int
        The pixel of the first tap of row 0; it may lie outside the picture.
    ratio, count, size : int
    boundary : "periodic", "reflect" or "zero"

    Returns
    -------
    scipy.sparse.csr_array
    """
    columns = first + ratio * np.arange(count)[:, None] + np.arange(len(taps))
    rows = np.broadcast_to(np.arange(count)[:, None], columns.shape)
    weights = np.broadcast_to(taps, columns.shape)
    if boundary == "periodic":
        columns = columns % size
    elif boundary == "reflect":
        columns = reflected(columns, size)
    inside = (columns >= 0) & (columns < size)
    # A picture smaller than the kernel is met twice by one row; the conversion to CSR adds such entries.
    entries = (weights[inside], (rows[inside], columns[inside]))
    return sparse.csr_array(sparse.coo_array(entries, shape=(count, size)))


def reflected(places: Array, size: int) -> Array:
    """Places along a line, beyond the ends of a picture of `size` pixels too, as those of the pixels that stand there.

    Mirrored at both edges, the picture repeats after twice its size.
    """
    places = places % (2 * size)
    return np.minimum(places, 2 * size - 1 - places)


def _sizes(shape, length, needed, name="shape"):
    """`shape` as a tuple of `length` ints."""
    try:
        sizes = tuple(shape)
    except TypeError:
        sizes = ()
    if len(sizes) != length:
        raise ValueError(f"{name}: got {shape!r}; {needed} is needed")
    return tuple(as_count(size, f"{name}[{axis}]") for axis, size in enumerate(sizes))


def _two(value, name):
    """A number for both directions, or one for each."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value, value
    both = tuple(value)
    if len(both) != 2:
        raise ValueError(f"{name}: got {value!r}; a number, or one for rows and one for columns, is needed")
    return both


def _width(sigma, most):
    """`sigma` as a positive number of fine pixels, not far beyond the picture."""
    width = as_number(sigma, "sigma", above=True)
    if width > most:
        raise ValueError(f"sigma: got {sigma!r}; at most {most} fine pixels, a picture's size, are needed")
    return width


def _phase(phase, ratio, anywhere):
    """`phase` as a number that lies among the fine pixels of a coarse one, or a few coarse pixels beside it."""
    low, high = (-4 * ratio, 5 * ratio) if anywhere else (0, ratio - 1)
    number = as_number(phase, "phase", least=low)
    if number > high:
        raise ValueError(f"phase: got {phase!r}; at least {low} and at most {high} is needed")
    return number


def _support(phase, sigma, kernel):
    """The first pixel of the first row, and how far its pixels lie from the centre."""
    if kernel is None:
        reach = max(REACH * sigma, 0.5)
        first = int(np.ceil(phase - reach))
        return first, np.arange(first, int(np.floor(phase + reach)) + 1) - phase
    kernel = as_count(kernel, "kernel")
    if phase == round(phase) and kernel % 2 == 0:
        raise ValueError(f"kernel: got {kernel}; an odd number of taps is needed, so that one of them is the centre")
    if 2.0 * phase == round(2.0 * phase) and phase != round(phase) and kernel % 2 == 1:
        raise ValueError(
            f"kernel: got {kernel}; an even number of taps is needed, for phase {phase:g} lies between two pixels"
        )
    first = int(np.ceil(phase - 0.5 * kernel))
    return first, np.arange(first, first + kernel) - phase


def _taps(offsets, sigma, normalise):
    # A far tap of a very narrow Gaussian is zero, whether or not its exponent can be written down.
    with np.errstate(over="ignore"):
        taps = np.exp(-0.5 * np.square(offsets / sigma))
    if normalise and not taps.any():
        # Between two pixels even the nearest taps can be that far: then the nearest share what there is.
        nearest = np.abs(offsets).min()
        taps[np.abs(offsets) == nearest] = 1.0
    return taps / (taps.sum() if normalise else sigma * np.sqrt(2.0 * np.pi))
