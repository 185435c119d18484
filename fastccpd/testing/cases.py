"""The scenes of the suite, and methods that fit them.

The scene is 32×48×16, of three materials (so of CP rank 3) whose maps and spectra are smooth and positive. The HSI is
blurred periodically and decimated by 4, the MSI has 4 bands: that is what every known method can express.
"""

from dataclasses import replace

import numpy as np

from .. import methods
from ..imaging import degrade, gaussian, response_from_groups
from ..model.degradation import Degradation

SHAPE, RATIOS, MSI_BANDS, MATERIALS = (32, 48, 16), (4, 4), 4, 3

# Fewer than the scene has patches of any usual size: only then a random start of the clusters matters.
_CLUSTERS = 12

# Centre of each material's bump along each axis, as a part of the axis; no two axes order the materials alike.
_CENTRES = ((0.2, 0.5, 0.8), (0.3, 0.75, 0.5), (0.85, 0.15, 0.5))
_WIDTHS = (0.12, 0.1, 0.18)


def small_case(shape=SHAPE, ratios=RATIOS, msi_bands=MSI_BANDS, noise=0.0):
    """A scene of three smooth, positive materials, as the two sensors see it.

    Parameters
    ----------
    shape : (I, J, K)
        Of the scene.
    ratios : (int, int)
        MSI pixels per HSI pixel along rows and columns.
    msi_bands : int
        Bands of the MSI, each the mean of neighbouring bands of the scene.
    noise : float
        Its deviation, as a part of each image's root mean square.

    Returns
    -------
    hsi : (I_H, J_H, K) array
    msi : (I, J, K_M) array
    degradation : Degradation
    """
    sri = small_scene(shape)
    P1, P2 = (gaussian((n, n), ratio)[0] for n, ratio in zip(shape, ratios))
    PM = response_from_groups(np.array_split(np.arange(shape[2]), msi_bands), shape[2])
    degradation = Degradation(P1, P2, PM)
    rng = np.random.default_rng(2024)
    images = (
        image + noise * np.sqrt(np.mean(image**2)) * rng.standard_normal(image.shape)
        for image in degrade(sri, degradation)
    )
    return (*images, degradation)


def small_scene(shape=SHAPE):
    """The scene itself, without a sensor or noise.

    Parameters
    ----------
    shape : (I, J, K)

    Returns
    -------
    (I, J, K) array
    """
    factors = []
    for n, centres in zip(shape, _CENTRES):
        places = (np.arange(n)[:, None] + 0.5) / n
        factors.append(0.1 + np.exp(-0.5 * ((places - centres) / np.array(_WIDTHS)) ** 2))
    return np.einsum("ir,jr,kr->ijk", *factors)


def small_instance(method):
    """A method object for the small scene: default options, but no rank above its three materials, and few clusters.

    Parameters
    ----------
    method : str, Method class or Method
        An object is returned as it is.

    Returns
    -------
    Method
    """
    if isinstance(method, methods.Method):
        return method
    cls = methods.get(method) if isinstance(method, str) else method
    if not (isinstance(cls, type) and issubclass(cls, methods.Method)):
        raise TypeError(f"method: got {method!r}; a method's name, class or object is needed")
    instance = cls()
    clusters = getattr(instance, "clusters", None)
    if isinstance(clusters, int):
        instance = replace(instance, clusters=min(clusters, _CLUSTERS))
    rank = getattr(instance, "rank", None)
    if isinstance(rank, int):
        return replace(instance, rank=min(rank, MATERIALS))
    if isinstance(rank, tuple):
        return replace(instance, rank=tuple(min(r, MATERIALS) for r in rank))
    return instance
