"""What two files say of each other before they are fused: blur, shift, response, scale and offset, the verdict."""

from dataclasses import dataclass
from typing import Any

from scipy import sparse

from .. import methods
from ..estimation import Levels, estimate_levels, verdict_of
from ..estimation.shift import Shift
from ..methods import Method
from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.types import Path
from ..model.verdict import Verdict
from . import operators
from .estimating import made_ready
from .preparation import OpenPair
from .remarks import Remarks


@dataclass(frozen=True, eq=False)
class Look:
    """What was found.

    Attributes
    ----------
    blur : fastccpd.rasters.operators.Blur
        Its width and its shift; with standard errors in `settings`, where it is estimated.
    degradation : Degradation
    shift : Shift or None
        By how far the images lie beside each other, beyond a blur that is given; None where it is not known.
    levels : Levels or None
        The scale and offset between the two, for a response whose weights sum to one.
    verdict : Verdict
    notes, warnings : tuple of str
    """

    blur: operators.Blur
    degradation: Degradation
    shift: Shift | None
    levels: Levels | None
    verdict: Verdict
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def figures(self) -> dict[str, Any]:
        """All of it, for JSON."""
        known = None if self.levels is None else vars(self.levels) | {"agree": self.levels.agree}
        gains = self.degradation.PM.sum(axis=1).tolist()
        return {
            "blur": self.blur.settings,
            "shift": None if self.shift is None else vars(self.shift) | {"matters": self.shift.matters},
            "gains": gains,
            "levels": known,
            "verdict": self.verdict.figures(),
            "notes": [*self.notes, *self.warnings],
        }


def look_at(
    opened: OpenPair,
    hsi_path: Path,
    remarks: Remarks,
    *,
    method: Method | None = None,
    psf: Any = None,
    srf: Any = None,
    bands: str | None = None,
    align: bool = True,
) -> Look:
    """Estimate what relates two images, as far as it is not given, and judge whether they agree.

    Parameters
    ----------
    opened : OpenPair
    hsi_path : path
        For messages.
    remarks : Remarks
    method : Method, optional
        That is to fuse them; None: the default.
    psf, srf, bands, align
        As of `fuse_files`.

    Returns
    -------
    Look
    """
    chosen = methods.make(methods.DEFAULT, {}) if method is None else method
    blur, degradation, pair, shift = made_ready(
        opened.load(), hsi_path, chosen, remarks, psf=psf, srf=srf, bands=bands, align=align
    )
    masks = ~pair.missing_hsi, ~pair.missing_msi
    images = pair.hsi.cube, pair.msi.cube
    problem = Problem(*images, degradation, hsi_valid=masks[0], msi_valid=masks[1])
    levels = estimate_levels(*images, _of_unit_gain(degradation), *masks)
    said = tuple(remarks.notes), tuple(remarks.warnings)
    return Look(blur, degradation, shift, levels, verdict_of(problem), *said)


def _of_unit_gain(degradation):
    """The same with weights that sum to one, so that a scale between the images is not part of the response."""
    PM = degradation.PM
    sums = abs(PM).sum(axis=1)
    sums[sums == 0.0] = 1.0
    return Degradation(degradation.P1, degradation.P2, sparse.csr_array(sparse.diags_array(1.0 / sums) @ PM))
