"""How many spectra of an image are signal, told from noise by what neighbouring pixels share.

What is signal is alike in neighbouring pixels, noise is not. With the second moments S of the n pixels in units of
their noise, and S₁ those between neighbours, mean(x y' + y x')/2 = S − mean((x − y)(x − y)')/2, the leading
eigenvectors of

    T = (S + 2 S₁)/3                                                                                            (1)

are the spectra: noise has a third of its share in S there, and a signal of smooth maps nearly all of its own. Of noise
alone T = X'M X/n, where M has the eigenvalues m = (1 + cos s + cos t)/3 of a mean over four neighbours. By the law of
Marchenko and Pastur for such an M (Silverstein and Choi 1995), with β = bands/n, the largest eigenvalue of T is then

    min over w of  1/w + mean(m/(1 − β m w)).                                                                   (2)

As many spectra are signals as eigenvalues are above it and what chance adds to it. Both moments are additive.
"""

from functools import cache

import numpy as np

from ..model.types import Array
from .moments import Moments, eigh_signed

# The part that neighbours have in the moments by which signals are told from noise, (1).
_NEIGHBOURS = 2.0 / 3.0

_TRACY_WIDOM = 0.98  # the 95 % quantile of their law, for real matrices


def by_neighbours(moments: Moments, differences: Moments) -> tuple[Array, Array]:
    """Eigenvalues of (1), largest first, and their vectors.

    Parameters
    ----------
    moments, differences : Moments
        Of the pixels, and of the differences between neighbours, in units of the noise.
    """
    second = moments.second / max(moments.count, 1)
    between = second - 0.5 * differences.second / max(differences.count, 1)
    values, vectors = eigh_signed((1.0 - _NEIGHBOURS) * second + _NEIGHBOURS * between)
    return values[::-1], vectors[:, ::-1]


@cache
def largest_of_noise(bands: int, pixels: int) -> float:
    """What the largest eigenvalue of (1) exceeds in one of about ten images of white noise.

    Parameters
    ----------
    bands, pixels : int
    """
    cosines = np.cos((np.arange(64) + 0.5) * (np.pi / 64))
    m = 1.0 - _NEIGHBOURS + _NEIGHBOURS * 0.5 * np.add.outer(cosines, cosines).ravel()
    beta = bands / pixels

    def odds(c):
        return m * c / (1.0 - m * c)

    # The least of (2) is where its slope in c = β w is zero; chance is spread as Tracy and Widom say (El Karoui 2007).
    low, high = 0.0, 1.0 / m.max()
    for _ in range(50):
        c = 0.5 * (low + high)
        low, high = (low, c) if np.mean(odds(c) ** 2) > beta else (c, high)
    edge = (beta + np.mean(odds(c))) / c
    spread = bands ** (-2.0 / 3.0) * (beta / c) * (1.0 + np.mean(odds(c) ** 3) / beta) ** (1.0 / 3.0)
    return float(edge + _TRACY_WIDOM * spread)
