"""The point spread function: P1 and P2, each a Gaussian blur followed by keeping every d-th row.

A separable blur acts on rows and on columns by itself, so one banded matrix a side describes it. Row a of P holds the
taps g(q), q = -h, -h+1, …, h with h = (kernel-1)/2, about the centre  phase + a·d  in fine pixels:

    P[a, b(phase + a·d + q)] += g(q),    g(q) = exp(-q²/2σ²) / (σ sqrt(2π)),    a = 0, 1, … while phase + a·d < n - ½

The centre is a pixel, or lies halfway between two: the middle of a coarse pixel of d fine ones is (d-1)/2. phase + q
must be whole, so a whole phase takes an odd number of taps and a half one an even number: the fine pixels nearest to
the centre. A coarse pixel is kept while its centre lies inside the picture, which ends at n - ½.

Here b is what the boundary makes of a pixel outside 0 … n-1: "periodic" wraps it round, "reflect" mirrors it at the
edge of the picture (… 1 0 | 0 1 …), "zero" drops it. With `normalise` the taps are divided by their sum, and every row
sums to one, except that "zero" loses what lies outside. Nothing asks d to divide n: the last kept row is the last that
fits.

Two conventions are published, and `preset` has both: they differ in width, phase and normalisation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..model.checks import as_choice, as_count, as_number
from ..model.degradation import Degradation
from ..model.types import Operator
from .response import landsat

BOUNDARIES = ("periodic", "reflect", "zero")

# The full width at half maximum of a Gaussian, in units of its standard deviation.
_FWHM = np.sqrt(8.0 * np.log(2.0))

_PRESETS = {
    "stereo": lambda ratio: {"sigma": ratio / _FWHM, "phase": ratio - 1, "normalise": True},
    "scott": lambda ratio: {"sigma": 1.0, "phase": min(1, ratio - 1), "normalise": False},
}


def gaussian(
    shape: Sequence[int],
    ratio: int,
    kernel: int | None = None,
    sigma: float | None = None,
    phase: float | None = None,
    boundary: str = "periodic",
    normalise: bool = True,
) -> tuple[Operator, Operator]:
    """The operators of a Gaussian blur decimated by `ratio`.

    Parameters
    ----------
    shape : (I, J)
        Rows and columns of the fine image; they need not be equal, nor multiples of `ratio`.
    ratio : int
        Fine pixels per coarse pixel, in each direction.
    kernel : int, optional
        Number of taps: odd for a whole phase, even for a half one. None: 9 or 10.
    sigma : float, optional
        Standard deviation in fine pixels. None: ratio / sqrt(8 ln 2), a coarse pixel's full width at half maximum.
    phase : int or half of one, optional
        Where the centre of the first coarse pixel lies among the fine ones: a multiple of one half, 0 to ratio - 1.
        (ratio - 1) / 2 is the middle of the block of fine pixels that the coarse one covers. None: ratio - 1.
    boundary : "periodic", "reflect" or "zero"
        What lies outside the picture: the picture again, its mirror image, or nothing.
    normalise : bool
        True makes the taps sum to exactly one; False leaves them samples of the Gaussian density.

    Returns
    -------
    P1, P2 : scipy.sparse.csr_array
        Of shapes (I_H, I) and (J_H, J).

    Examples
    --------
    >>> from fastccpd.imaging import gaussian
    >>> P1, P2 = gaussian((80, 84), ratio=4)
    >>> P1.shape, P2.shape
    ((20, 80), (21, 84))
    >>> [float(round(tap, 6)) for tap in P1.toarray()[1, 3:8]]
    [0.014785, 0.049731, 0.11828, 0.198923, 0.236561]
    >>> P1, _ = gaussian((80, 84), ratio=4, phase=1.5, kernel=4, sigma=1.0)
    >>> [float(round(tap, 6)) for tap in P1.toarray()[0, :5]]
    [0.134471, 0.365529, 0.365529, 0.134471, 0.0]
    """
    rows, columns = _sizes(shape, 2, "(rows, columns)")
    ratio = as_count(ratio, "ratio")
    sigma = ratio / _FWHM if sigma is None else as_number(sigma, "sigma", above=True)
    phase = ratio - 1 if phase is None else _phase(phase, ratio)
    kernel = _kernel(kernel, phase)
    as_choice(boundary, "boundary", BOUNDARIES)
    for size, name in ((rows, "rows"), (columns, "columns")):
        if phase >= size - 0.5:
            raise ValueError(f"shape: {size} {name}, but the first kept is number {phase:g}; more are needed")
    taps = _taps(kernel, sigma, normalise)
    P1, P2 = (_operator(size, ratio, phase, taps, boundary) for size in (rows, columns))
    return P1, P2


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


def _sizes(shape, length, needed):
    """`shape` as a tuple of `length` ints."""
    try:
        sizes = tuple(shape)
    except TypeError:
        sizes = ()
    if len(sizes) != length:
        raise ValueError(f"shape: got {shape!r}; {needed} is needed")
    return tuple(as_count(size, f"shape[{axis}]") for axis, size in enumerate(sizes))


def _phase(phase, ratio):
    """`phase` as a multiple of one half that lies among the fine pixels of a coarse one."""
    number = as_number(phase, "phase")
    if number > ratio - 1 or 2.0 * number != round(2.0 * number):
        raise ValueError(f"phase: got {phase!r}; a multiple of one half, at least 0 and at most {ratio - 1}, is needed")
    return number


def _kernel(kernel, phase):
    """The number of taps, checked against the phase: taps lie on pixels, symmetric about the centre."""
    whole = phase == round(phase)
    if kernel is None:
        return 9 if whole else 10
    kernel = as_count(kernel, "kernel")
    if kernel % 2 == 0 and whole:
        raise ValueError(f"kernel: got {kernel}; an odd number of taps is needed, so that one of them is the centre")
    if kernel % 2 == 1 and not whole:
        raise ValueError(
            f"kernel: got {kernel}; an even number of taps is needed, for phase {phase:g} lies between two pixels"
        )
    return kernel


def _taps(kernel, sigma, normalise):
    offsets = np.arange(kernel) - (kernel - 1) / 2
    # A far tap of a very narrow Gaussian is zero, whether or not its exponent can be written down.
    with np.errstate(over="ignore"):
        taps = np.exp(-0.5 * np.square(offsets / sigma))
    if normalise and not taps.any():
        # Halfway between two pixels even the nearest taps can be that far: then those two share what there is.
        taps[np.abs(offsets) == 0.5] = 1.0
    return taps / (taps.sum() if normalise else sigma * np.sqrt(2.0 * np.pi))


def _operator(size, ratio, phase, taps, boundary):
    """The (kept, size) matrix that weighs the neighbourhood of every kept centre by `taps`."""
    centres = np.arange(phase, size - 0.5, ratio)
    first = (centres - (len(taps) - 1) / 2).astype(np.int64)
    columns = first[:, None] + np.arange(len(taps))
    rows = np.broadcast_to(np.arange(len(first))[:, None], columns.shape)
    weights = np.broadcast_to(taps, columns.shape)
    if boundary == "periodic":
        columns = columns % size
    elif boundary == "reflect":
        # Mirrored at both edges, the picture repeats after twice its size.
        columns = columns % (2 * size)
        columns = np.minimum(columns, 2 * size - 1 - columns)
    inside = (columns >= 0) & (columns < size)
    # A picture smaller than the kernel is met twice by one row; the conversion to CSR adds such entries.
    entries = (weights[inside], (rows[inside], columns[inside]))
    return sparse.csr_array(sparse.coo_array(entries, shape=(len(first), size)))
