"""k-means: Lloyd's iteration from the start of k-means++.

SciPy's start measures every point against all the centres so far for each new one, which is the square of the number of
clusters, and its assignment holds one number for each point and cluster. Here a new centre costs one distance a point,
and points are assigned a few thousand at a time, over threads; the callers' `pulse` is called between.
"""

import numpy as np
from scipy import sparse

from ..model.types import Array
from ..threads import thread_map

# So many points are looked at together: enough for a fast product.
_POINTS = 4096


def kmeans(points: Array, count: int, rng: np.random.Generator, pulse=lambda: None, max_iter: int = 50) -> Array:
    """The cluster of each point, counted from zero without gaps.

    Parameters
    ----------
    points : (N, D) array
    count : int
        Clusters; there are fewer where fewer points differ.
    rng : Generator
    pulse : callable
        Called many times in every iteration.
    max_iter : int
        Iterations at most; it ends when no point changes its cluster.

    Returns
    -------
    (N,) array of int
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    blocks = [points[at : at + _POINTS] for at in range(0, len(points), _POINTS)]
    with thread_map() as each:

        def of_blocks(function):
            parts = []
            for part in each(function, blocks):
                parts.append(part)
                pulse()
            return np.concatenate(parts)

        centres, labels = _start(points, count, rng, of_blocks), np.full(len(points), -1)
        for _ in range(max_iter):
            before, labels = labels, of_blocks(_nearest(centres))
            if np.array_equal(before, labels):
                break
            places = np.arange(len(points))
            members = sparse.csr_array((np.ones(len(points)), (labels, places)), (len(centres), len(points)))
            sizes = members.sum(axis=1)[:, None]
            # A cluster that lost all its points stays where it is.
            centres = np.where(sizes > 0, members @ points / np.maximum(sizes, 1.0), centres)
    return np.unique(labels, return_inverse=True)[1]


def _start(points, count, rng, of_blocks):
    """The centres of k-means++: points drawn one by one, with chances as their squared distances from those before."""
    chosen, distances = [int(rng.integers(len(points)))], np.full(len(points), np.inf)
    while len(chosen) < count:
        distances = np.minimum(distances, of_blocks(_distances_from(points[chosen[-1:]])))
        ends = np.cumsum(distances / (distances.sum() or 1.0))
        if not ends[-1] > 0.0:  # all points are centres
            break
        chosen.append(min(int(np.searchsorted(ends, rng.uniform())), len(points) - 1))
    return points[chosen]


def _distances_from(centre):
    """For a block of points, their squared distances from one."""
    from scipy.spatial.distance import cdist

    return lambda block: cdist(centre, block, "sqeuclidean")[0]


def _nearest(centres):
    """For a block of points, the centre of each: the one of least ½‖c‖² − x·c."""
    half = 0.5 * np.einsum("ij,ij->i", centres, centres)
    return lambda block: (half - block @ centres.T).argmin(axis=1)
