"""What the two sensors make of a scene: the degraded images, noise on them, and how much of it there seems to be."""

import math

import numpy as np

from ..model.checks import as_choice, as_count, as_cube, as_number, as_valid, check_values, working_dtype
from ..model.degradation import Degradation
from ..solver.noise import of_few_bands, of_many_bands

# Noise is drawn, and norms are summed, this many values at a time.
_SLAB = 1 << 18

# An image with more bands than this is hyperspectral.
_FEW_BANDS = 30


def degrade(sri, degradation):
    """The hyperspectral and the multispectral image of a scene, without noise.

    ``HSI = SRI x1 P1 x2 P2`` and ``MSI = SRI x3 PM``.

    Parameters
    ----------
    sri : (I, J, K) array or FusionResult
        Any real dtype and layout; never modified. A result is rendered row by row, and never whole.
    degradation : Degradation

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
    rendered = hasattr(sri, "render")  # by its manners: to import the class would load the kernels
    if not rendered:
        sri = as_cube(sri, "sri")
    shape, dtype = sri.shape, sri.dtype if rendered else working_dtype(sri)
    if not isinstance(degradation, Degradation):
        raise TypeError(f"degradation: got {type(degradation).__name__}; a fastccpd.Degradation is needed")
    axes = zip(("rows", "columns", "bands"), shape, ("P1", "P2", "PM"), degradation.sri_shape, strict=True)
    for axis, got, operator, needed in axes:
        if got != needed:
            raise ValueError(f"sri: {got} {axis}, but {operator} maps from {needed}; they must agree")
    hsi = np.zeros(degradation.hsi_shape)
    msi = np.empty(degradation.msi_shape, dtype)
    seen_by = degradation.P1.tocsc()
    # One fine row at a time: blurred along its columns, then added to the few coarse rows that see it. No copy of the
    # scene is made, and the order of the sums does not depend on its size or on threads.
    for i in range(shape[0]):
        row = sri.render(rows=slice(i, i + 1))[0] if rendered else sri[i]
        row = np.ascontiguousarray(row, dtype=np.float64)
        msi[i] = (degradation.PM @ row.T).T
        blurred = degradation.P2 @ row
        for entry in range(seen_by.indptr[i], seen_by.indptr[i + 1]):
            hsi[seen_by.indices[entry]] += seen_by.data[entry] * blurred
    return hsi.astype(dtype, copy=False), msi


def add_noise(cube, snr_db, rng, per_band=False):
    """A noisy copy of an image: white Gaussian noise of the given signal-to-noise ratio; negative values are kept.

    Parameters
    ----------
    cube : (rows, columns, bands) array
    snr_db : float
        The noise has the variance  mean(cube²) / 10^(snr_db/10). Infinity adds none.
    rng : int or numpy.random.Generator
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
    power = np.zeros(cube.shape[2])
    for rows in slabs:
        slab = cube[rows].astype(np.float64, copy=False)
        power += np.einsum("ijk,ijk->k", slab, slab)
    power /= cube.shape[0] * cube.shape[1]
    deviation = np.sqrt((power if per_band else power.mean()) / 10.0 ** (snr_db / 10.0))
    for rows in slabs:
        noise = generator.standard_normal(cube[rows].shape)
        noise *= deviation
        noise += cube[rows]
        noisy[rows] = noise
    return noisy


def estimate_noise(image, kind="auto", valid=None):
    """The standard deviation of the noise of each band, from the image alone.

    Of many bands the noise is what spreads evenly over all spectral dimensions, while a scene keeps to a few. Of few it
    is what the second differences of a band do not share with those of the others: fine texture in one band alone looks
    like noise, so a clean image may seem to have some.

    Parameters
    ----------
    image : (rows, columns, bands) array
    kind : "auto", "many" or "few"
        Which of the two ways; "auto" takes an image of more than 30 bands to have many.
    valid : bool array, optional
        True where there are data: (rows, columns), (bands,) or the image's whole shape. What stands elsewhere is not
        looked at.

    Returns
    -------
    (bands,) float64 array
        In units of the image. Never zero: the least is a millionth of the image's root mean square.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import add_noise, estimate_noise
    >>> ramp = np.linspace(0.0, 1.0, 60)[:, None, None] * np.linspace(1.0, 2.0, 50)
    >>> noisy = add_noise(np.tile(ramp, (1, 40, 1)), 20.0, rng=0)
    >>> estimate_noise(noisy)[:3].round(3)
    array([0.088, 0.088, 0.088])
    """
    image = as_cube(image, "image")
    kind = as_choice(kind, "kind", ("auto", "many", "few"))
    valid = as_valid(valid, "valid", image.shape)
    if valid is not None:
        image = np.where(valid, image, image.dtype.type(0))
    check_values(image, "image")
    if kind == "auto":
        kind = "many" if image.shape[2] > _FEW_BANDS else "few"
    estimate = of_many_bands if kind == "many" else of_few_bands
    return estimate(image.astype(working_dtype(image), copy=False), valid)


def as_generator(rng):
    """`rng` as a Generator: itself, or one seeded with this number."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(as_count(rng, "rng", least=0))
