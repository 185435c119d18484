"""An orthonormal basis of the spectra in which an HSI has signal: what it may be fitted in (`solver/misfit.py`)."""

import numpy as np

from ..model.checks import as_count
from ..model.types import Array
from .noise import Noise


def signal_basis(noise: Noise, count: int | None = None) -> Array:
    """The leading spectra of an HSI over its noise, orthonormal.

    Parameters
    ----------
    noise : Noise
        Of `noise_of(problem)`.
    count : int, optional
        How many; None: as many as have singular values above the noise.

    Returns
    -------
    (bands, count) array

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd import Problem
    >>> from fastccpd.estimation import noise_of, signal_basis
    >>> from fastccpd.imaging import add_noise, degrade, preset, scenes
    >>> scene = scenes.synthetic((64, 60, 40)).cube
    >>> degradation = preset("stereo", scene.shape)
    >>> images = [add_noise(image, 20.0, rng=0) for image in degrade(scene, degradation)]
    >>> E = signal_basis(noise_of(Problem(*images, degradation)))
    >>> len(E), bool(np.allclose(E.T @ E, np.eye(E.shape[1])))
    (40, True)
    """
    bands = len(noise.hsi)
    count = max(1, noise.spectrum.signals) if count is None else as_count(count, "count", most=bands)
    # Vectors of the pixels divided by their noise, back in the caller's units.
    return np.linalg.qr(noise.hsi_floored[:, None] * noise.spectrum.vectors[:, :count])[0]
