"""Nonlocal means: each pixel as a weighted mean of those whose surroundings look alike."""

import numpy as np
from scipy import sparse

from ..kernels.arrays import readonly
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.patches import nearest_patches
from ..model.types import Array

# Rows that are searched between two looks at the clock.
_ROWS = 16


def nonlocal_weights(image: Array, count: int, reach: int, decay: float, pulse) -> sparse.csr_array:
    """The matrix W (N, N) of nonlocal means over the pixels of an image, row by row; its rows sum to one.

    Pixels are compared by the 3×3 patches around them, with a half-sample symmetric border: their distance is the sum
    of squares over the patch and the bands. The `count` nearest in the window take part, the pixel itself among them as
    if it were as far as the nearest other one. A weight is exp(−(distance − the least one) / decay), normalised: the
    least one cancels, but without it all weights may vanish.

    Parameters
    ----------
    image : (I, J, B) array
    count : int
        Pixels that take part in a mean, at least one.
    reach : int
        How many rows and columns away they may lie.
    decay : float
    pulse : callable
        Called every few rows.

    Returns
    -------
    (N, N) CSR array with int64 indices
    """
    I, J = image.shape[:2]
    planes = readonly(np.pad(np.moveaxis(image, 2, 0), ((0, 0), (1, 1), (1, 1)), mode="symmetric"))
    # One more at least, for the pixel itself takes the distance of the nearest.
    distances, neighbours = np.empty((I, J, max(count - 1, 1))), np.empty((I, J, max(count - 1, 1)), np.int64)
    side = 2 * reach + 1
    for start in range(0, I, _ROWS):
        pulse()
        part = slice(start, start + _ROWS)
        work = 10.0 * distances[part, :, 0].size * min(side, I) * min(side, J) * len(planes)
        nearest_patches(planes, start, reach, distances[part], neighbours[part], work=work, least=LEAST)
    return _as_matrix(distances.reshape(I * J, -1), neighbours.reshape(I * J, -1), count, decay)


def _as_matrix(distances, neighbours, count, decay):
    N = len(distances)
    weights, columns = np.zeros((N, count)), np.empty((N, count), np.int64)
    columns[:, 0], columns[:, 1:] = np.arange(N), neighbours[:, : count - 1]
    weights[:, 0] = 1.0
    least = np.where(np.isfinite(distances[:, :1]), distances[:, :1], 0.0)
    weights[:, 1:] = np.exp((least - distances[:, : count - 1]) / decay)
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, N * count + 1, count)
    W = sparse.csr_array((weights.ravel(), columns.ravel(), starts), (N, N))
    W.indptr, W.indices = W.indptr.astype(np.int64), W.indices.astype(np.int64)
    return W
