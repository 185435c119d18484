"""What the two sensors make of a scene: the degraded images, and noise on them."""

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..model.checks import as_count, as_cube, as_number, working_dtype
from ..model.degradation import Degradation
from .comparison import largest_magnitude, own_exponent

if TYPE_CHECKING:
    from ..model.problem import Maps
    from ..model.result import FusionResult

# Noise is drawn, and norms are summed, this many values at a time.
_SLAB = 1 << 18

# Rows of the HSI that a part of a scene has, at least.
_ROWS = 16

# No normal variate is this many deviations from its mean.
_WIDEST = 100.0


def degrade(
    sri: "ArrayLike | FusionResult | Maps", degradation: Degradation
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The hyperspectral and the multispectral image of a scene, without noise.

    ``HSI = SRI x1 P1 x2 P2`` and ``MSI = SRI x3 PM``.

    Parameters
    ----------
    sri : (I, J, K) array, FusionResult or Maps
        Any real dtype and layout; never modified. A result is rendered row by row, and never whole.
    degradation : Degradation
        The operators P1, P2 and PM.

    Returns
    -------
    hsi : (I_H, J_H, K) array
    msi : (I, J, K_M) array
        float32 if the scene is float32 or float16, else float64; summed in float64.

    Examples
    --------
    >>> from fastccpd.imaging import degrade, preset, scenes
    >>> scene = scenes.synthetic((24, 20, 40))
    >>> hsi, msi = degrade(scene.cube, preset("stereo", scene.cube.shape))
    >>> hsi.shape, msi.shape
    ((6, 5, 40), (24, 20, 6))
    """
    rendered = hasattr(sri, "render")  # by how it behaves: to import the class would load the kernels
    image: Any = sri if rendered else as_cube(sri, "sri")
    shape, dtype = image.shape, image.dtype if rendered else working_dtype(image)
    if not isinstance(degradation, Degradation):
        raise TypeError(f"degradation: got {type(degradation).__name__}; a fastccpd.Degradation is needed")
    axes = zip(("rows", "columns", "bands"), shape, ("P1", "P2", "PM"), degradation.sri_shape, strict=True)
    for axis, got, operator, needed in axes:
        if got != needed:
            raise ValueError(f"sri: {got} {axis}, but {operator} maps from {needed}; they must agree")
    return degraded(image, dtype, degradation)


def degraded(
    image: Any, dtype: DTypeLike, degradation: Degradation, map_parts: Callable[..., Iterable[Any]] | None = None
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """What `degrade` returns, of a scene that was checked; in parts by a `map`, which may be one on threads.

    Parameters
    ----------
    image : array, or anything that renders rows
    dtype : numpy dtype
        Of the images.
    degradation : Degradation
    map_parts : callable(function, iterable) -> iterable, optional
        As `map`. A part has some rows of the HSI and some of the MSI; fine rows that two of them see are made twice.
    """
    hsi, msi = np.zeros(degradation.hsi_shape), np.empty(degradation.msi_shape, dtype)
    seen_by, rendered = degradation.P1.tocsc(), hasattr(image, "render")

    # One fine row at a time: blurred along its columns, then added to the few coarse rows that see it. No copy of the
    # scene is made, and the order of the sums does not depend on its size or on threads.
    def see(coarse, fine, rows_seen):
        for i in rows_seen:
            row = image.render(rows=slice(i, i + 1))[0] if rendered else image[i]
            row = np.ascontiguousarray(row, dtype=np.float64)
            if fine.start <= i < fine.stop:
                msi[i] = (degradation.PM @ row.T).T
            entries = slice(*seen_by.indptr[i : i + 2])
            rows = zip(seen_by.indices[entries], seen_by.data[entries], strict=True)
            rows = [(k, weight) for k, weight in rows if coarse.start <= k < coarse.stop]
            blurred = degradation.P2 @ row if rows else 0.0
            for k, weight in rows:
                hsi[k] += weight * blurred

    parts = _parts(degradation.P1, 1 if map_parts is None else max(1, len(hsi) // _ROWS))
    if sum(len(rows_seen) for *_, rows_seen in parts) > 1.5 * len(msi):  # a blur that reaches far
        parts = _parts(degradation.P1, 1)
    for _ in (map_parts or map)(see, *zip(*parts, strict=True)):
        pass
    return hsi.astype(dtype, copy=False), msi


def _parts(P1, count):
    """(coarse rows, fine rows, all fine rows that are needed for both) of so many parts of a scene."""
    ends = ([n * size // count for n in range(count + 1)] for size in P1.shape)
    slices = zip(*([slice(*pair) for pair in pairwise(part)] for part in ends), strict=True)
    return [(a, b, np.union1d(P1[a].indices, np.arange(b.start, b.stop))) for a, b in slices]


def add_noise(
    cube: ArrayLike, snr_db: float, rng: int | np.random.Generator, per_band: bool = False
) -> NDArray[np.floating]:
    """A noisy copy of an image: white Gaussian noise of the given signal-to-noise ratio; negative values are kept.

    Parameters
    ----------
    cube : (rows, columns, bands) array
        Any real dtype and layout; never modified.
    snr_db : float
        The noise has the variance  mean(cube²) / 10^(snr_db/10). Infinity adds none; noise that the dtype cannot hold
        is refused.
    rng : int or numpy.random.Generator
        The same number draws the same noise.
    per_band : bool
        False: one variance for the whole image. True: one for each band, which then has this ratio itself.

    Returns
    -------
    array
        float32 if the image is float32 or float16, else float64. The same `rng` draws the same noise for both.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import add_noise
    >>> noisy = add_noise(np.ones((50, 40, 30)), 20.0, rng=0)
    >>> float(round(noisy.std(), 2))
    0.1
    """
    cube = as_cube(cube, "cube")
    snr_db = as_number(snr_db, "snr_db", least=-math.inf, above=True, finite=False)
    generator = as_generator(rng)
    noisy = np.empty(cube.shape, working_dtype(cube))
    if math.isinf(snr_db):
        noisy[:] = cube
        return noisy
    step = max(1, _SLAB // cube[0].size)
    slabs = [slice(start, start + step) for start in range(0, len(cube), step)]
    exponent = own_exponent(largest_magnitude(cube))
    power = np.zeros(cube.shape[2])
    for rows in slabs:
        slab = cube[rows].astype(np.float64, copy=False)
        slab = np.ldexp(slab, -exponent) if exponent else slab
        power += np.einsum("ijk,ijk->k", slab, slab)
    power /= cube.shape[0] * cube.shape[1]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        root = np.sqrt((power if per_band else power.mean()) / np.float64(10.0) ** (snr_db / 10.0))
        deviation = np.ldexp(root, exponent)
        if np.any(deviation > np.finfo(noisy.dtype).max / _WIDEST):
            raise ValueError(f"snr_db: got {snr_db:g}; a number whose noise {noisy.dtype} can hold is needed")
    for rows in slabs:
        noise = generator.standard_normal(cube[rows].shape)
        noise *= deviation
        noise += cube[rows]
        noisy[rows] = noise
    return noisy


def as_generator(rng: int | np.random.Generator) -> np.random.Generator:
    """`rng` as a Generator: itself, or one seeded with this number.

    Parameters
    ----------
    rng : int or numpy.random.Generator

    Returns
    -------
    numpy.random.Generator
    """
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(as_count(rng, "rng", least=0))
