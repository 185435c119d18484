"""The expected error of each pixel of maps, root mean square over bands, where the noise of a band is 1.

Its square has three parts: the error of the spectra, z'(B'B)⁻¹z for a pixel's z and the coarse maps B that they were
found from; what the choice of λ decides, the squared changes to the maps at both ends of the path; and the squared step
to the neighbours, for edges are displaced and dulled. The last two are spread over the neighbourhood. Their shares are
empirical.
"""

from collections.abc import Sequence

import numpy as np

from ..model.types import Array
from .map_data import MapData

# Pixels, as the standard deviation of a Gaussian, over which an expected error is spread.
_NEIGHBOURHOOD = 2.0


def expected_error(Z: Array, ends: Sequence[Array], data: MapData) -> Array:
    """(I, J) array in units of the noise.

    Parameters
    ----------
    Z : (I, J, P) array
        The maps.
    ends : sequence of (I, J, P) arrays
        The maps at both ends of the path of λ.
    data : MapData
    """
    # Imported here: it takes long to import.
    from scipy.ndimage import gaussian_filter

    metric = data.F.T @ data.F  # maps to spectra, in units of the noise
    B = data.blur.coarse(Z).reshape(-1, Z.shape[2])
    spectral = np.einsum("ijp,pq,ijq->ij", Z, np.linalg.pinv(B.T @ B), Z, optimize=True)
    root = np.linalg.cholesky(metric + 1e-12 * np.trace(metric) * np.eye(len(metric)))
    changes = sum(np.square((Z - other) @ root).sum(axis=2) for other in ends)
    change = gaussian_filter(changes, _NEIGHBOURHOOD)
    steps = np.zeros(Z.shape[:2])
    for axis in (0, 1):
        squared = np.square(np.diff(Z, axis=axis) @ root).sum(axis=2)
        nothing = np.zeros_like(steps.take([0], axis=axis))
        steps += np.concatenate([squared, nothing], axis=axis) + np.concatenate([nothing, squared], axis=axis)
    # An edge well above the noise is lowered by what the noise is worth, not by its height.
    noise2 = np.linalg.norm(root, 2) ** 2 / data.unit**2
    edges = np.square(gaussian_filter(np.sqrt(steps / (1.0 + steps / noise2)), _NEIGHBOURHOOD))
    return np.sqrt(0.6 * spectral + (2.0 * change + 0.5 * edges) / len(data.F))
