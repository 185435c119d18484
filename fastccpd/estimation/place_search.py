"""Where to begin to look for a shift: the best whole one, up to three HSI pixels.

A fit that follows slopes finds its way from half an HSI pixel or so. Further off, every whole shift s of MSI pixels is
tried: with x the leading combinations of the MSI's bands under a Gaussian of usual width, and Q an orthonormal basis of
the HSI's leading signals at the pixels that are compared, the one is taken that leaves least of x unexplained,

    1 − |Q' x_s|² / |x_s|²,

which needs no response. It is a start and no estimate: the fit from there must be better than that from no shift.
"""

from collections.abc import Sequence

import numpy as np

from ..model.types import Array, Mask

# The furthest shift, in HSI pixels, and the width of the Gaussian.
FURTHEST, _WIDTH = 3, 0.45

# So many HSI pixels a side, in the middle, are enough; combinations of the MSI's bands; signals of the HSI.
_SIDE, _COMBINATIONS, _SIGNALS = 64, 2, 8

# The part of what is unexplained that a shift must explain to be worth a start.
_WORTH = 0.1


def whole_shift(
    hsi: Array, msi: Array, ratio: int, complete: Mask | None = None, missing: Mask | None = None
) -> tuple[int, int] | None:
    """The whole shift, downwards and to the right in MSI pixels, that explains the pair best; None where none does.

    Parameters
    ----------
    hsi : (rows, columns, bands) array
        In units of noise.
    msi : (ratio·rows, ratio·columns, MSI bands) array
        In units of noise, and without gaps.
    ratio : int
    complete : (rows, columns) bool array, optional
        The pixels of the HSI that have data.
    missing : (ratio·rows, ratio·columns) bool array, optional
        The pixels of the MSI that have none.
    """
    from scipy.ndimage import gaussian_filter

    down, right = (_middle(size) for size in hsi.shape[:2])
    if down is None or right is None:
        return None
    (top, rows, far_down), (left, columns, far_right) = down, right
    chosen = np.ones((rows, columns), bool)
    if complete is not None:
        chosen &= complete[top : top + rows, left : left + columns]
    if missing is not None:
        holes = gaussian_filter(missing.astype(np.float64), (far_down * ratio / 2 + 1, far_right * ratio / 2 + 1))
        chosen &= holes[_at(top, rows, ratio)][:, _at(left, columns, ratio)] < 0.01
    if chosen.sum() < 5 * _SIGNALS:
        return None
    pixels = np.asarray(hsi[top : top + rows, left : left + columns][chosen], dtype=np.float64)
    pixels -= pixels.mean(axis=0)
    vectors = np.linalg.eigh(pixels.T @ pixels)[1][:, -min(_SIGNALS, len(pixels) // 20 + 1) :]
    Q = np.linalg.qr(pixels @ vectors)[0]
    fine = msi.reshape(-1, msi.shape[2])
    fine = fine - fine.mean(axis=0)
    leading = np.linalg.eigh(fine.T @ fine)[1][:, -_COMBINATIONS:]
    pictures = [gaussian_filter((msi @ weights), _WIDTH * ratio) for weights in leading.T]
    places = slice(None) if chosen.all() else np.flatnonzero(chosen)
    downs, rights = (range(-far * ratio, far * ratio + 1) for far in (far_down, far_right))
    left_over = np.zeros((len(downs), len(rights)))
    for n, down in enumerate(downs):
        for picture in pictures:
            there = picture[_at(top, rows, ratio, down)]
            X = np.stack([there[:, _at(left, columns, ratio, right)].ravel()[places] for right in rights])
            X -= X.mean(axis=1, keepdims=True)
            sizes = np.maximum(np.einsum("sn,sn->s", X, X), np.finfo(float).tiny)
            left_over[n] += 1.0 - np.square(X @ Q).sum(axis=1) / sizes
    n, m = np.unravel_index(np.argmin(left_over), left_over.shape)
    down, right = int(n) - far_down * ratio, int(m) - far_right * ratio
    if left_over[n, m] > (1.0 - _WORTH) * left_over[far_down * ratio, far_right * ratio]:
        return None
    return down, right


def around_middle(shape: Sequence[int]) -> tuple[slice, slice]:
    """The HSI's rows and columns in which all lies that is compared, however far it is shifted and blurred."""
    sides = [min(size, _SIDE + 4 * FURTHEST) for size in shape]
    starts = [(size - side) // 2 for size, side in zip(shape, sides, strict=True)]
    rows, columns = (slice(start, start + side) for start, side in zip(starts, sides, strict=True))
    return rows, columns


def _middle(size):
    """(first, count, furthest shift) of the HSI's rows or columns that are compared; None where there are too few."""
    far = min(FURTHEST, size // 5)
    if far < 1:
        return None
    count = min(size - 2 * far, _SIDE)
    return (size - count) // 2, count, far


def _at(first, count, ratio, by=0):
    """The fine pixels nearest to the middles of coarse ones."""
    start = ratio * first + (ratio - 1) // 2 + by
    return slice(start, start + ratio * count, ratio)
