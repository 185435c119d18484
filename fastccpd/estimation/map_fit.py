"""What comes of a fit of maps (`tv_maps.py`)."""

from dataclasses import dataclass

import numpy as np

from ..model.problem import Maps
from ..model.result import Status, Trace


@dataclass(frozen=True, eq=False)
class MapFit:
    """The maps and spectra of a scene: the third stage of the default method.

    Attributes
    ----------
    Z : (I, J, P) float32 array
        The last of them may be shades (`shades.py`).
    S : (K, P) array
        In the caller's units.
    weight : float
        λ, in units of the inverse noise of the best map.
    at_end : "strongest", "weakest" or None
        Which end of its path λ lies at, if it does: the least risk may then lie beyond.
    chi2, dof, risk : float
        χ² over all data and effective degrees of freedom of the maps without shades, and the estimated risk (2), all
        spectra included.
    path : tuple of (weight, chi2, dof, risk)
        Of every λ that was fitted; NaN for the last two where χ² alone said that λ is too strong.
    change : float
        The part of the objective that the last reweighting gained.
    expected_error : (I, J) array or None
        Expected error of a pixel, root mean square over bands, in the caller's units; None where there was no time.
    expected_spectrum : (K,) array or None
        Expected error of a band, root mean square over pixels.
    status : Status
    trace : Trace
        One entry for each λ that lowered the risk: ½ ‖…‖² of both images without weights, in the caller's units.
    seconds : float
    """

    Z: np.ndarray
    S: np.ndarray
    weight: float
    at_end: str | None
    chi2: float
    dof: float
    risk: float
    path: tuple[tuple[float, float, float, float], ...]
    change: float
    expected_error: np.ndarray | None
    expected_spectrum: np.ndarray | None
    status: Status
    trace: Trace
    seconds: float

    @property
    def maps(self) -> Maps:
        """The `Maps` of the image max(Z S', 0)."""
        return Maps(self.Z, self.S)

    @property
    def number(self) -> int:
        """How many maps there are."""
        return self.Z.shape[2]
