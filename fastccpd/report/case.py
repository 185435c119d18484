"""What a report is about: what was fused, what came out and what of it is shown, checked against each other."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import plots
from ..estimation.fit import estimated_snr, relative_residual
from ..imaging import degrade
from ..model.checks import as_count, as_cube
from ..model.degradation import Degradation
from ..model.problem import Factors
from ..model.result import FusionResult
from ..model.shapes import size_name
from ..plots import shape_of


@dataclasses.dataclass(frozen=True)
class View:
    """How things are shown."""

    missing: np.ndarray | None
    quantity: str
    band: int
    pixels: list


@dataclasses.dataclass
class Case:
    """What was fused and what came out, checked; `estimates` begins with the result.

    What the caller has computed already, `given`, is not computed again; the rest is, when it is first needed.
    """

    result: FusionResult
    hsi: np.ndarray
    msi: np.ndarray
    truth: np.ndarray | None
    estimates: dict
    wavelengths: np.ndarray | None
    msi_wavelengths: np.ndarray | None
    degradation: Degradation | None
    given: "Given"
    every: int = 1
    view: View | None = None

    @property
    def result_name(self):
        return next(iter(self.estimates))

    @property
    def shape(self):
        return shape_of(self.result)

    @property
    def sizes(self):
        """Shapes of HSI, MSI and result, of which only some pixels may be here."""
        if self.every == 1 or self.degradation is None:
            return self.hsi.shape, self.msi.shape, self.shape
        return self.degradation.hsi_shape, self.degradation.msi_shape, self.degradation.sri_shape

    @cached_property
    def seen(self):
        """The result as either sensor would see it; None if that is not known."""
        if self.given.seen is not None:
            return self.given.seen
        return None if self.degradation is None else _seen(self.result, self.degradation)

    @cached_property
    def residuals(self):
        """‖image − degraded result‖ / ‖image‖ of "hsi" and "msi"; None if that is not known."""
        if self.given.residuals is not None:
            return self.given.residuals
        if self.seen is None:
            return None
        images = zip(("hsi", "msi"), (self.hsi, self.msi), self.seen, strict=True)
        return {name: relative_residual(image, seen) for name, image, seen in images}

    @cached_property
    def snr(self):
        """The estimated signal-to-noise ratios of "hsi" and "msi" in dB; None if there are none."""
        return self.given.snr or estimated_snr(self.result, self.hsi, self.msi)


@dataclasses.dataclass(frozen=True)
class Given:
    """What the caller of a report knows already; None where it is to be computed."""

    seen: Sequence[np.ndarray] | None = None
    residuals: dict[str, float] | None = None
    snr: dict[str, float] | None = None


def case_of(result, hsi, msi, truth, estimates, degradation, wavelengths, msi_wavelengths, given, every=1):
    """The case of these arguments of a report, or the sentence on what does not fit."""
    if not isinstance(result, FusionResult):
        raise TypeError(f"result: got {type(result).__name__}; a FusionResult is needed")
    hsi, msi = as_cube(hsi, "hsi"), as_cube(msi, "msi")
    truth = None if truth is None else as_cube(truth, "truth")
    named: dict[str, Any] = {f"result ({result.method})": result}
    for name, image in (estimates or {}).items():
        if name in (*named, "HSI", "MSI", "truth"):
            raise ValueError(f"estimates: got the name {name!r}, which the report has for another image; use another")
        named[str(name)] = image if isinstance(image, FusionResult) else as_cube(image, f"estimates[{name!r}]")
    for name, image in (("truth", truth), *named.items()):
        if image is not None and shape_of(image) != shape_of(result):
            got, needed = (size_name(shape_of(one)) for one in (image, result))
            raise ValueError(f"{name}: got {got}, but the result is {needed}; they must agree")
    if degradation is not None:
        if every == 1:
            degradation.check(hsi.shape, msi.shape)
        if msi_wavelengths is None and wavelengths is not None:
            msi_wavelengths = _means_of(wavelengths, degradation.PM)
    for name, centres, cube in (("wavelengths", wavelengths, hsi), ("msi_wavelengths", msi_wavelengths, msi)):
        if centres is not None and np.shape(centres) != cube.shape[2:]:
            raise ValueError(
                f"{name}: got shape {np.shape(centres)}, but there are {cube.shape[2]} bands; they must agree"
            )
    for name, figures in (("residuals", given.residuals), ("snr", given.snr)):
        if figures is not None and set(figures) != {"hsi", "msi"}:
            raise ValueError(f"{name}: got {sorted(figures)}; one for hsi and one for msi are needed")
    if given.seen is not None and [np.shape(seen) for seen in given.seen] != [hsi.shape, msi.shape]:
        got, needed = [np.shape(seen) for seen in given.seen], [hsi.shape, msi.shape]
        raise ValueError(f"seen: got shapes {got}; those of the images, {needed}, are needed")
    if every > 1 and None in (given.seen, given.residuals):
        raise ValueError(f"every: got {every}, without seen or residuals; both are needed")
    return Case(result, hsi, msi, truth, named, wavelengths, msi_wavelengths, degradation, given, every)


def view_of(case, missing, quantity, band, pixels):
    """What of a case to show; a band or pixels of None are chosen."""
    reference = case.result if case.truth is None else case.truth
    if missing is not None and np.shape(missing) != case.shape[:2]:
        got, needed = (size_name(shape) for shape in (np.shape(missing), case.shape[:2]))
        raise ValueError(f"missing: got {got}, but the result is {needed}; they must agree")
    if band is None:
        band = plots.rgb_bands(reference, case.wavelengths)[1]
    if pixels is None:
        pixels = plots.pick_pixels(reference, missing=missing)
    return View(missing, quantity, as_count(band, "band", least=0, most=case.shape[2] - 1), list(pixels))


def _means_of(wavelengths, PM):
    """The mean wavelength of each multispectral band under its response, None if no such mean exists."""
    weights = np.asarray(PM.sum(axis=1)).ravel()
    if np.shape(wavelengths) != PM.shape[1:] or not (weights > 0.0).all():
        return None
    centres = PM @ np.asarray(wavelengths, dtype=np.float64) / weights
    return centres if np.isfinite(centres).any() else None


def _seen(result, degradation):
    """The result under P1 and P2, and under PM; it is never rendered whole for that."""
    if result.known_factors is None or result.shown != "factors":
        parts = [{"image": image} for image in degrade(result, degradation)]
    else:
        A, B, C = result.factors
        coarse, averaged = (degradation.P1 @ A, degradation.P2 @ B, C), (A, B, degradation.PM @ C)
        parts = [{"known_factors": Factors(*factors), "image": None} for factors in (coarse, averaged)]
    return tuple(dataclasses.replace(result, **part) for part in parts)
