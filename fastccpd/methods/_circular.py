"""A degradation seen as a circular convolution followed by decimation, for the methods that work in the Fourier domain.

Row a of P is row 0 shifted by a·d, periodically. So (P x)_a = Σ_i p_(i − a·d) x_i, with p row 0, is the circular
*correlation* of x with p, kept at 0, d, 2d, …: its transfer function is conj(FFT(p)). The phase of the sampling and the
centre of the kernel are both inside p, so there is nothing left to align by hand.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

# Rows that agree to this part of the largest weight are the same row.
_SAME = 1e-10


@dataclass(frozen=True, eq=False)
class CircularBlur:
    """P1 and P2 in the Fourier domain: ``ifft2(fft2(x) * transfer)[::d_rows, ::d_cols]`` is ``P1 @ x @ P2.T``.

    Attributes
    ----------
    ratio : (d_rows, d_cols)
    transfer : (I, J) complex array
    """

    ratio: tuple[int, int]
    transfer: np.ndarray


def circular_blur(degradation):
    """The `CircularBlur` that P1 and P2 of `degradation` are; ValueError if they are not one."""
    d_rows, p_rows = ratio_and_taps(degradation.P1, "P1")
    d_cols, p_cols = ratio_and_taps(degradation.P2, "P2")
    transfers = [np.conj(np.fft.fft(taps)) for taps in (p_rows, p_cols)]
    return CircularBlur(ratio=(d_rows, d_cols), transfer=np.multiply.outer(*transfers))


def ratio_and_taps(P, name):
    """The decimation and row 0 of P, once every other row is known to be row 0 shifted; ValueError if one is not."""
    coarse, fine = P.shape
    d, rest = divmod(fine, coarse)
    if rest:
        raise ValueError(
            f"degradation: {name} maps {fine} pixels to {coarse}, which does not divide {fine}; "
            "this method needs a whole ratio"
        )
    entries = P.tocoo()
    unshifted = sparse.coo_array((entries.data, (entries.row, (entries.col - entries.row * d) % fine)), P.shape).tocsr()
    taps = unshifted[[0]]
    apart = abs(unshifted - sparse.csr_array(np.ones((coarse, 1))) @ taps).max(axis=1).toarray().ravel()
    wrong = np.flatnonzero(apart > _SAME * abs(taps).max())
    if wrong.size:
        raise ValueError(
            f"degradation: row {wrong[0]} of {name} is not row 0 shifted by {wrong[0] * d} columns; "
            "this method needs one blur for all pixels and a periodic boundary"
        )
    return d, taps.toarray().ravel()


def centroid(taps):
    """The centre of mass of `taps` on a circle of as many pixels."""
    n = taps.size
    angle = np.angle(taps @ np.exp(2j * np.pi * np.arange(n) / n))
    return float(angle * n / (2 * np.pi) % n)
