"""What two files say of each other before they are fused: blur, shift, response, scale and offset, the verdict."""

from dataclasses import dataclass
from typing import Any

from scipy import sparse

from .. import methods
from ..estimation import Levels, estimate_levels, verdict_of
from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.types import Path
from ..model.verdict import Verdict
from . import operators
from .estimating import completed, given_operators, unseen
from .preparation import OpenPair
from .remarks import Remarks


@dataclass(frozen=True, eq=False)
class Look:
    """What was found.

    Attributes
    ----------
    blur : fastccpd.rasters.operators.Blur
        Its width and its shift, with standard errors in `settings`.
    degradation : Degradation
    levels : Levels or None
        The scale and offset between the two, for a response whose weights sum to one.
    verdict : Verdict
    notes, warnings : tuple of str
    """

    blur: operators.Blur
    degradation: Degradation
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
            "gains": gains,
            "levels": known,
            "verdict": self.verdict.figures(),
            "notes": [*self.notes, *self.warnings],
        }


def look_at(opened: OpenPair, hsi_path: Path, remarks: Remarks) -> Look:
    """Estimate what relates two images, and judge whether they agree.

    Parameters
    ----------
    opened : OpenPair
    hsi_path : path
        For messages.
    remarks : Remarks

    Returns
    -------
    Look
    """
    method = methods.make(methods.DEFAULT, {})
    pair = opened.load()
    blur, PM = given_operators(None, None, None, hsi_path, pair, method, remarks)
    pair = pair.leaving_out(unseen(PM, pair.good_msi, pair.msi, remarks))
    PM = None if PM is None else PM[pair.good_msi]
    pair = pair.without_bad_bands().without_gaps(method, False, False, remarks)
    blur, PM, pair = completed(blur, PM, pair, method, True, remarks)
    degradation = operators.degradation(blur, PM)
    masks = ~pair.missing_hsi, ~pair.missing_msi
    images = pair.hsi.cube, pair.msi.cube
    problem = Problem(*images, degradation, hsi_valid=masks[0], msi_valid=masks[1])
    levels = estimate_levels(*images, _of_unit_gain(degradation), *masks)
    return Look(blur, degradation, levels, verdict_of(problem), tuple(remarks.notes), tuple(remarks.warnings))


def _of_unit_gain(degradation):
    """The same with weights that sum to one, so that a scale between the images is not part of the response."""
    PM = degradation.PM
    sums = abs(PM).sum(axis=1)
    sums[sums == 0.0] = 1.0
    return Degradation(degradation.P1, degradation.P2, sparse.csr_array(sparse.diags_array(1.0 / sums) @ PM))
