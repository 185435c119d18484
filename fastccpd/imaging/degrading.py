"""What the two sensors make of a scene: the degraded images, and noise on them."""

import math
from collections.abc import Callable, Iterable
from itertools import chain
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

# Rows of a scene that are blurred at once.
_ROWS = 8

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
    image: Any, dtype: DTypeLike, degradation: Degradation, map_rows: Callable[..., Iterable[Any]] = map
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """What `degrade` returns, of a scene that was checked; rows are looked at by a `map`, which may be one on threads.

    Parameters
    ----------
    image : array, or anything that renders rows
    dtype : numpy dtype
        Of the images.
    degradation : Degradation
    map_rows : callable(function, iterable) -> iterable
        As `map`, results in the order of the items.
    """
    hsi = np.zeros(degradation.hsi_shape)
    msi = np.empty(degradation.msi_shape, dtype)
    seen_by, rendered = degradation.P1.tocsc(), hasattr(image, "render")

    def blurred_rows(first):
        found = []
        for i in range(first, min(len(msi), first + _ROWS)):
            row = image.render(rows=slice(i, i + 1))[0] if rendered else image[i]
            row = np.ascontiguousarray(row, dtype=np.float64)
            msi[i] = (degradation.PM @ row.T).T
            found.append(degradation.P2 @ row)
        return found

    # A fine row is blurred along its columns, then added to the few coarse rows that see it. No copy of the scene is
    # made, and the order of the sums does not depend on its size or on threads.
    for i, blurred in enumerate(chain.from_iterable(map_rows(blurred_rows, range(0, len(msi), _ROWS)))):
        for entry in range(seen_by.indptr[i], seen_by.indptr[i + 1]):
            hsi[seen_by.indices[entry]] += seen_by.data[entry] * blurred
    return hsi.astype(dtype, copy=False), msi


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
