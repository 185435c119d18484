"""Blur, shift and response of a pair, as far as they are not given: `estimate_degradation`.

Blur and shift come first, with the given response or with whatever explains the MSI best (`gaussian_fit.py`); then,
where it is not given, the response for that blur (`response.py`). Any part may be given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.maps import along
from ..model.checks import as_operator
from ..model.degradation import Degradation
from ..model.types import Matrix
from .blur import BlurEstimate, blur_of, evidence_of, known_blur
from .blurred import SEEN, Blurred, Gaussian
from .map_data import compressed_rows
from .response import ResponseEstimate, estimate_response, response_of


@dataclass(frozen=True, eq=False)
class DegradationEstimate:
    """The operators of a pair, as its images show them.

    Attributes
    ----------
    degradation : Degradation
        The operators.
    blur : BlurEstimate
    response : ResponseEstimate or None
        None where it was given.
    boundary : "reflect", "periodic", "zero" or "given"
        What the operators take to lie outside the picture.
    """

    degradation: Degradation
    blur: BlurEstimate
    response: ResponseEstimate | None
    boundary: str

    def figures(self) -> dict:
        """The numbers, for JSON and provenance."""
        blur = self.blur
        found = {
            "sigma": list(blur.sigma),
            "sigma_errors": list(blur.sigma_errors),
            "shift": list(blur.shift),
            "shift_errors": list(blur.shift_errors),
            "boundary": self.boundary,
            "separable_gaussian_chi2": blur.chi2,
            "separable_gaussian_fits": blur.fits,
        }
        if self.response is not None:
            found |= {
                "gains": self.response.gains.tolist(),
                "offsets": self.response.offsets.tolist(),
                "offset_errors": self.response.offset_errors.tolist(),
                "unseen_offset": self.response.unseen_offset,
            }
        return found

    def __str__(self):
        response = "given" if self.response is None else str(self.response)
        return f"blur: {self.blur}; response: {response}"


def estimate_degradation(
    hsi: ArrayLike,
    msi: ArrayLike,
    ratio: int,
    *,
    operators: tuple[Matrix, Matrix] | None = None,
    PM: Matrix | None = None,
    offset: bool | None = None,
    wavelengths: ArrayLike | None = None,
    overlap: ArrayLike | None = None,
    sigma: float | Sequence[float] | None = None,
    shift: Sequence[float] | None = None,
    profile: bool = False,
    boundary: str | None = None,
    hsi_valid: ArrayLike | None = None,
    msi_valid: ArrayLike | None = None,
    noise: Sequence[ArrayLike] | None = None,
) -> DegradationEstimate:
    """Blur, shift and spectral response between two images of one scene, from the images alone.

    Blur and shift come first, then the response for them; any of the three may be given.

    Parameters
    ----------
    hsi, msi, ratio, sigma, shift, profile, hsi_valid, msi_valid, noise
        As of `estimate_blur`.
    operators : (P1, P2), optional
        The blur, if it is known: the response alone is estimated then, and `blur` describes what the images show.
    PM : (MSI bands, bands) matrix, optional
        The spectral response, if it is known.
    offset, wavelengths, overlap
        As of `estimate_response`. An offset that is found is not part of the operators: take it off the MSI.
    boundary : "reflect", "periodic" or "zero", optional
        What the operators take to lie outside the picture; some methods need a periodic blur. None: its mirror image,
        or the picture again where pixels at the border show that (simulated images often do).

    Returns
    -------
    DegradationEstimate

    Examples
    --------
    >>> import numpy as np, fastccpd
    >>> from fastccpd.estimation import estimate_degradation
    >>> from fastccpd.imaging import add_noise, degrade, preset, scenes
    >>> scene = scenes.synthetic((96, 80, 40)).cube
    >>> hsi, msi = (add_noise(y, 35.0, rng=0) for y in degrade(scene, preset("stereo", scene.shape)))
    >>> found = estimate_degradation(hsi, msi, 4)
    >>> bool(np.allclose(found.blur.shift, (1.5, 1.5), atol=0.2))
    True
    >>> result = fastccpd.fuse(hsi, msi, found.degradation)
    """
    if operators is not None and PM is not None:
        raise ValueError("operators: are given beside PM, so nothing is left to estimate; leave one of them out")
    evidence = evidence_of(hsi, msi, ratio, (hsi_valid, msi_valid), noise)
    blur = blur_of(evidence, PM, known_blur(evidence.ratio, sigma, shift), profile=profile)
    response = None
    if operators is not None:
        response = estimate_response(
            hsi,
            msi,
            *operators,
            offset=offset,
            wavelengths=wavelengths,
            overlap=overlap,
            hsi_valid=evidence.valid_hsi,
            msi_valid=msi_valid,
            noise=noise,
        )
        return DegradationEstimate(Degradation(*operators, response.PM), blur, response, "given")
    if PM is None:
        gaussian = Gaussian(blur.sigma, blur.phase)
        blurred = Blurred(evidence.msi.shape[:2], evidence.ratio, evidence.places, gaussian)
        seen = blurred.images(evidence.msi, SEEN)[0][evidence.chosen]
        share = float(blurred.shares(SEEN)[0, 0])
        response = response_of(
            evidence.all_pixels, seen, evidence.sigma_hsi, share * evidence.sigma_msi**2, wavelengths, overlap, offset
        )
    known = as_operator(PM, "PM") if response is None else response.PM
    if boundary is None:
        boundary = _boundary(evidence, blur, known)
    found = blur.operators(np.shape(msi)[:2], np.shape(hsi)[:2], boundary)
    return DegradationEstimate(Degradation(*found, known), blur, response, boundary)


# A picture that repeats is believed where it leaves less than this of what its mirror image leaves at the border.
_CLEARLY = 0.7


def _boundary(evidence, blur, PM):
    """What lies outside the picture, by the outermost pixels of the HSI: its mirror image, or the picture again."""
    hsi, msi, has = evidence.hsi, evidence.msi, evidence.msi_bands
    ends, response = [0, -1], PM.T.toarray()
    shown = [part.reshape(-1, hsi.shape[2]) @ response for part in (hsi[ends], hsi[1:-1, ends])]
    costs = []
    for kind in ("reflect", "periodic"):
        P1, P2 = blur.operators(msi.shape[:2], hsi.shape[:2], kind)
        rows = along(compressed_rows(P2), along(compressed_rows(P1[ends]), msi, axis=0), axis=1)
        columns = along(compressed_rows(P1[1:-1]), along(compressed_rows(P2[ends]), msi, axis=1), axis=0)
        seen = [part.reshape(-1, msi.shape[2]) for part in (rows, columns)]
        left = (np.concatenate(seen) - np.concatenate(shown))[:, has]
        costs.append(float(np.sum((left - np.median(left, axis=0)) ** 2)))
    return "periodic" if costs[1] < _CLEARLY * costs[0] else "reflect"
