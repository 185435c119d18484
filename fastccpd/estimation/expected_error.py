"""How wrong maps are to be expected, pixel by pixel and band by band.

**How much.** With the weights w of the squares that bound the price of edges, the maps are the mode of a normal
distribution of precision H, the Hessian of the quadratic. Samples of it cost one solution each: H δ = R'n + D'√w n', n
and n' white noise on data and differences. What the spectra cannot explain is added. Scenes have details that such a
prior does not expect: on those measured the error was about a fifth larger.

**Where.** Four samples are few, so the pattern is shared with what is known without chance. Its square has three parts:
the error of the spectra, z'(B'B)⁻¹z for a pixel's z and the coarse maps B that they were found from; what the choice of
λ decides, the squared changes to the maps at both ends of the path; and the squared step to the neighbours, for edges
are displaced and dulled. The last two are spread over the neighbourhood. Their shares are empirical.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ..model.types import Array
from ..solver.pcg import steihaug
from .map_data import MapData

# Pixels, as the standard deviation of a Gaussian, over which the pattern of an expected error is spread.
_NEIGHBOURHOOD = 2.0

# Samples, and how far each is solved.
_SAMPLES, _CG_STEPS, _CG_RTOL = 4, 60, 0.05

# How much larger errors are than the distribution says.
_DETAILS = 1.2


def expected_error(
    Z: Array,
    ends: Sequence[Array],
    data: MapData,
    weights: Array,
    product: Callable[[Array], Array],
    inverse: Array,
    unexplained: Array,
) -> tuple[Array, Array]:
    """The expected error of each pixel, root mean square over bands, and of each band, over pixels.

    Parameters
    ----------
    Z : (I, J, P) array
        The maps.
    ends : sequence of (I, J, P) arrays
        The maps at both ends of the path of λ.
    data : MapData
    weights : (I, J) array
        Of the squares at Z.
    product : callable
        The Hessian with these weights times a stack.
    inverse : (I, J, P) array
        Of its diagonal.
    unexplained : (bands,) array
        The variance of what the spectra cannot explain, in the caller's units.

    Returns
    -------
    (I, J) array, (bands,) array
        In the caller's units.
    """
    # Imported here: it takes long to import.
    from scipy.ndimage import gaussian_filter

    S, rng = data.hsi.sigma[:, None] * data.F, np.random.default_rng(1)
    root = _root(S.T @ S / len(S))
    pixels, seconds = np.zeros(Z.shape[:2]), np.zeros((Z.shape[2], Z.shape[2]))
    for _ in range(_SAMPLES):
        noise = data.disturbance(rng)
        _add_differences(noise, np.sqrt(weights), rng)
        sample = steihaug(-noise, product, lambda r: inverse * r, radius=np.inf, max_iter=_CG_STEPS, rtol=_CG_RTOL).p
        pixels += np.square(sample @ root).sum(axis=2) / _SAMPLES
        flat = sample.reshape(-1, Z.shape[2])
        seconds += flat.T @ flat / (_SAMPLES * len(flat))
    pixels = gaussian_filter(pixels, _NEIGHBOURHOOD) + unexplained.mean()
    spectrum = _DETAILS * np.sqrt(np.einsum("kp,pq,kq->k", S, seconds, S, optimize=True) + unexplained)
    pattern = np.sqrt(pixels * _pattern(Z, ends, data))
    size = np.sqrt(pixels.mean() / max(float(pattern.mean()), 1e-300))
    return _DETAILS * size * np.sqrt(pattern), spectrum


def _root(metric):
    """A matrix whose product with itself transposed is `metric`."""
    return np.linalg.cholesky(metric + 1e-12 * max(float(np.trace(metric)), 1e-300) * np.eye(len(metric)))


def _add_differences(stack, sizes, rng):
    """Add D' of white noise, times `sizes`, to a stack of maps."""
    for lower, upper in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        steps = sizes[upper][:, :, None] * rng.standard_normal(stack[upper].shape)
        stack[lower] += steps
        stack[upper] -= steps


def _pattern(Z, ends, data):
    """Squares that are known without chance, in units of the noise."""
    from scipy.ndimage import gaussian_filter

    metric = data.F.T @ data.F  # maps to spectra, in units of the noise
    B = data.blur.coarse(Z).reshape(-1, Z.shape[2])
    spectral = np.einsum("ijp,pq,ijq->ij", Z, np.linalg.pinv(B.T @ B), Z, optimize=True)
    root = _root(metric)
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
    return 0.6 * spectral + (2.0 * change + 0.5 * edges) / len(data.F)
