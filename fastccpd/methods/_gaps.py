"""Something in place of missing values, for a method to start from."""

import numpy as np

from ..model.empty_bands import bands_between
from ..model.types import Array, Mask


def filled(image: Array, valid: Mask | None) -> Array:
    """The image in float64, with the mean of its band where a value is missing.

    A band that is missing altogether lies between its neighbours.
    """
    image = np.asarray(image, dtype=np.float64)
    if valid is None:
        return image
    counts = valid.sum(axis=(0, 1))
    means = np.sum(image, axis=(0, 1), where=valid) / np.maximum(counts, 1)
    return np.where(valid, image, bands_between(means[:, None], counts > 0)[:, 0])
