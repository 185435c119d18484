"""Cases that differ from the usual one: another response, other noise, sides cut off, operators that are not the true.

A scene's name may be followed by one of these, as in "moffett:4-bands". All else of a case stays as it is.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from ..imaging import add_noise, gaussian, response_from_groups
from ..model.degradation import Degradation
from ..model.types import Array, Operator

# The full width at half maximum of a Gaussian, in units of its standard deviation.
_FWHM = np.sqrt(8.0 * np.log(2.0))


@dataclass(frozen=True)
class Condition:
    """How a case differs from the usual one.

    Attributes
    ----------
    bands : int or None
        The MSI's bands: the scene's own first ones, or means of so many equal groups where it has fewer.
    spectra : int or None
        The scene is first truncated to so many principal spectra, which takes most of its own noise away.
    cut : (rows, columns)
        So many are cut off, so that the ratio does not divide the sides.
    snr : (HSI, MSI)
        What is added to the SNR of each image, in dB.
    uneven : float
        The largest σ of a band over the mean of all, and the mean over the least.
    blur : (width, shift) or None
        The images have a Gaussian blur of all its taps; that which methods are given is so many times as wide, and
        shifted by so many fine pixels along both sides.
    """

    bands: int | None = None
    spectra: int | None = None
    cut: tuple[int, int] = (0, 0)
    snr: tuple[float, float] = (0.0, 0.0)
    uneven: float = 1.0
    blur: tuple[float, float] | None = None

    def seen(self, cube: Array) -> Array:
        """The scene of this condition."""
        rows, columns = cube.shape[0] - self.cut[0], cube.shape[1] - self.cut[1]
        cube = cube[:rows, :columns]
        if self.spectra is None:
            return np.ascontiguousarray(cube)
        U, s, V = np.linalg.svd(cube.reshape(-1, cube.shape[2]), full_matrices=False)
        kept = min(self.spectra, len(s))
        return ((U[:, :kept] * s[:kept]) @ V[:kept]).reshape(cube.shape)

    def response(self, PM: Operator) -> Operator:
        """The response of this condition, for a scene whose own is PM."""
        bands = PM.shape[1]
        if self.bands is None:
            return PM
        if PM.shape[0] >= self.bands:
            return sparse.csr_array(PM)[: self.bands]
        edges = np.linspace(0, bands, self.bands + 1).round().astype(int)
        return response_from_groups([slice(*ends) for ends in pairwise(edges)], bands)

    def operators(self, degradation: Degradation, ratio: int) -> tuple[Degradation, Degradation]:
        """(what the images are made with, what methods are given)."""
        if self.blur is None:
            return degradation, degradation
        width, shift = self.blur
        shape, PM = degradation.sri_shape[:2], degradation.PM
        coarse = (degradation.P1.shape[0], degradation.P2.shape[0])

        def blurred(times, by):
            P1, P2 = gaussian(shape, ratio, sigma=times * ratio / _FWHM, phase=ratio - 1 - by, coarse=coarse)
            return Degradation(P1, P2, PM)

        return blurred(1.0, 0.0), blurred(width, shift)

    def noisy(self, images: tuple[Array, Array], level: float, rng: np.random.Generator) -> list[Array]:
        """The images with noise, at an SNR of `level` but for what this condition adds to it."""
        return [self._with_noise(image, level + more, rng) for image, more in zip(images, self.snr)]

    def _with_noise(self, image, level, rng):
        noisy = add_noise(image, level, rng)
        if self.uneven == 1.0:
            return noisy
        # Neighbouring bands differ, and so do far ones.
        factors = self.uneven ** np.cos(2.4 * np.arange(image.shape[2]))
        return image + (noisy - image) * (factors / np.sqrt(np.mean(factors**2)))


#: Conditions by name.
CONDITIONS = {
    "4-bands": Condition(bands=4),
    "10-bands": Condition(bands=10),
    "clear-msi": Condition(snr=(-10.0, 10.0)),
    "clear-hsi": Condition(snr=(10.0, -10.0)),
    "uneven-noise": Condition(uneven=3.0),
    "odd-sides": Condition(cut=(1, 2)),
    "rank-30": Condition(spectra=30),
    "whole-blur": Condition(blur=(1.0, 0.0)),
    "narrow-blur": Condition(blur=(0.8, 0.0)),
    "wide-blur": Condition(blur=(1.2, 0.0)),
    "shifted": Condition(blur=(1.0, 0.5)),
}

#: That of a name without one.
USUAL = Condition()
