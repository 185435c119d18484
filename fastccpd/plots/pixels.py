"""Which pixels of a scene to show the spectra of."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ..model.checks import as_count
from .images import Image, as_image, block_of, mask_on, middles, shape_of

# A grid of at most this many by this many pixels is searched.
_CANDIDATES = 24


def pick_pixels(cube: Image, count: int = 4, *, missing: ArrayLike | None = None) -> list[tuple[int, int]]:
    """Pixels whose spectra represent a scene, always the same for the same image.

    Candidates are the pixels of a grid of at most 24 by 24, off the image's edge, that are neither missing nor nearly
    black (a norm below a tenth of the median). The first is the one nearest in angle to the mean spectrum; each next is
    the one whose least angle to those before is greatest, an angle counting less within a third of the diagonal.

    Parameters
    ----------
    cube : (rows, columns, bands) array or FusionResult
    count : int
        How many pixels at most.
    missing : (rows, columns) bool array, optional
        Pixels that are not picked, as those without a finite value are not.

    Returns
    -------
    list of (row, column)

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd import plots
    >>> cube = np.ones((6, 8, 3))
    >>> cube[:, 4:] = [1.0, 2.0, 6.0]
    >>> plots.pick_pixels(cube, 2)
    [(1, 1), (1, 5)]
    """
    cube = as_image(cube, "cube")
    count = as_count(count, "count")
    rows, columns = (middles(size, min(size, _CANDIDATES + 2)) for size in shape_of(cube)[:2])
    rows, columns = (places[1:-1] if len(places) > 2 else places for places in (rows, columns))
    spectra_there = block_of(cube, rows, columns, None).reshape(len(rows) * len(columns), -1)
    places = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    spectra_there = spectra_there[:, np.isfinite(spectra_there).any(axis=0)]
    norms = np.sqrt(np.einsum("pk,pk->p", spectra_there, spectra_there))
    valid = np.isfinite(norms) & (norms > 0.0)
    if missing is not None:
        valid &= ~mask_on(missing, shape_of(cube)[:2])[places[:, 0], places[:, 1]]
    if valid.any():
        valid &= norms >= 0.1 * np.median(norms[valid])
    if not valid.any():
        return []
    places, units = places[valid], spectra_there[valid] / norms[valid][:, None]
    picked = [int(np.argmax(_cosines(units, units.mean(axis=0)[None])))]
    far = math.hypot(*shape_of(cube)[:2]) / 3.0
    while len(picked) < min(count, len(places)):
        angles = np.arccos(np.clip(_cosines(units, units[picked]), -1.0, 1.0))
        apart = np.linalg.norm(places[:, None] - places[picked], axis=2)
        worth = (angles * np.minimum(1.0, apart / far)).min(axis=1)
        worth[picked] = -1.0
        picked.append(int(np.argmax(worth)))
    return [(int(row), int(column)) for row, column in places[picked]]


def _cosines(units, others):
    # Neither BLAS nor the last digits decide between equals: the first of them is taken on every machine.
    return np.round(np.einsum("pk,qk->pq", units, others), 12)
