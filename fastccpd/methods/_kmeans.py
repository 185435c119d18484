"""k-means: Lloyd's iteration from the start of k-means++."""

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2, vq

from ..model.types import Array


def kmeans(points: Array, count: int, rng: np.random.Generator, pulse=lambda: None, max_iter: int = 50) -> Array:
    """The cluster of each point, counted from zero without gaps.

    Parameters
    ----------
    points : (N, D) array
    count : int
        Clusters; there are fewer where fewer points differ.
    rng : Generator
    pulse : callable
        Called in every iteration.
    max_iter : int
        Iterations at most; it ends when no point changes its cluster.

    Returns
    -------
    (N,) array of int
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    count = min(count, len({hash(point.tobytes()) for point in points}))
    labels, centres = np.zeros(len(points), int), None
    while centres is None:
        if count == 1:
            return labels
        # Its own loop complains of clusters that lose all their points, which are simply left out here; at the start
        # such a cluster says that points differ by rounding alone.
        try:
            centres, _ = kmeans2(points, count, iter=1, minit="++", rng=rng, missing="raise")
        except ClusterError:
            count -= 1
    for _ in range(max_iter):
        pulse()
        before, (labels, _) = labels, vq(points, centres)
        if np.array_equal(before, labels):
            break
        for n in np.unique(labels):
            centres[n] = points[labels == n].mean(axis=0)
    return np.unique(labels, return_inverse=True)[1]
