"""The operators of a pair: those that are given, and by --psf auto and --srf auto those that the two images show."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..estimation import ResponseEstimate, estimate_blur, estimate_degradation
from ..estimation.shift import SAME, Shift, better_phase, directions, phase_of, shift_by_images
from ..imaging.moving import Move
from ..methods import Method
from ..model.checks import as_choice, as_operator, check_values
from ..model.degradation import Degradation
from ..model.types import Array, Mask, Operator, Path
from . import operators
from .bands import listed as bands_listed
from .grids import Grids, shift_by_georeference
from .pair import Pair
from .remarks import Remarks

AUTO = "auto"

# The part of a band's picture beyond noise that a response must leave for the band to be left out.
_STRANGE = 0.5

# HSI pixels a side below which a shift that is not found is laid to the size of the images.
_SMALL = 25


def is_estimated(psf: Any, srf: Any, bands: str | None) -> bool:
    """Whether the blur is to be estimated: where that is asked for, and where nothing is known of any operator."""
    return is_auto(psf) or (psf is None and srf is None and bands is None)


def is_auto(spec: Any) -> bool:
    """Whether an option asks for an estimate."""
    return isinstance(spec, str | os.PathLike) and os.fsdecode(spec) == AUTO


def given_operators(
    psf: Any, srf: Any, bands: str | None, hsi_path: Path, pair: Pair, method: Method, remarks: Remarks
) -> tuple[operators.Blur | None, Operator | None]:
    """The blur, and PM for the good bands of the HSI and all of the MSI, as far as they are given.

    None stands for what is to be estimated. A response that is not given is that of the sensor, where the MSI's file
    names one that is known. A row of PM is zero where the HSI does not cover a band (`unseen`).

    Parameters
    ----------
    psf, srf, bands, hsi_path
        As of `fuse_files`.
    pair : Pair
        With all bands.
    method : Method
    remarks : Remarks
    """
    PM = None
    if srf is not None and bands is not None:
        raise ValueError("--srf: is given beside --bands; one of the two is needed")
    if srf is None and bands is None:
        PM = _of_its_sensor(pair, hsi_path, remarks)
    elif not is_auto(srf):
        PM = operators.response(srf, bands, pair.hsi, pair.good_hsi, hsi_path, pair.msi)
    if is_estimated(psf, srf, bands):
        return None, PM
    blur = operators.blur(psf, pair.msi.shape[:2], pair.grids.ratio, offset=pair.grids.offset, method=method.name)
    taken = blur.settings["assumed"]
    remarks.note(f"the blur is taken to be {blur}; give --psf if that is not so" if taken else f"the blur is {blur}")
    return blur, PM


def unseen(PM: Operator | None, good: Mask, msi: Any, remarks: Remarks) -> Mask:
    """The good bands of the MSI of which the HSI, by a response, sees nothing; they are said to be left out.

    Parameters
    ----------
    PM : matrix or None
        Of all bands of the MSI.
    good : (MSI bands,) bool array
    msi : Raster
    remarks : Remarks
    """
    if PM is None:
        return np.zeros_like(good)
    beyond = good & (abs(PM).sum(axis=1) == 0.0)
    if beyond.any():
        if (beyond == good).all():
            raise ValueError("--srf: by this response the HSI sees none of the MSI's bands; some are needed")
        numbers = bands_listed(beyond, msi.wavelengths, msi.names)
        remarks.warn(f"msi: {int(beyond.sum())} of {beyond.size} bands are not covered by the HSI, left out: {numbers}")
    return beyond


def _of_its_sensor(pair, hsi_path, remarks):
    """PM of the sensor that the MSI's file names, or None: where none is known, and where it cannot be used."""
    sensor = operators.sensor_of(pair.msi)
    if sensor is None or pair.hsi.wavelengths is None:
        return None
    try:
        PM = operators.response(sensor, None, pair.hsi, pair.good_hsi, hsi_path, pair.msi)
    except (ValueError, ModuleNotFoundError) as error:
        remarks.note(f"the MSI is of {sensor}, whose response is not used, but estimated: {error}")
        return None
    remarks.note(f"the response is that of {sensor}, which the MSI is of; --srf auto estimates it instead")
    return PM


def made_ready(
    pair: Pair,
    hsi_path: Path,
    method: Method,
    remarks: Remarks,
    *,
    psf: Any = None,
    srf: Any = None,
    bands: str | None = None,
    align: bool = True,
    fill_nodata: bool = False,
    keep_filled: bool = False,
) -> tuple[operators.Blur, Degradation, Pair, Shift | None]:
    """Blur and operators of a pair, the pair without what cannot be used, and the shift that was measured.

    Parameters
    ----------
    pair : Pair
        With all bands.
    hsi_path : path
        For messages.
    method : Method
        That is to fuse them.
    remarks : Remarks
    psf, srf, bands, align, fill_nodata, keep_filled
        As of `fuse_files`.
    """
    blur, PM = given_operators(psf, srf, bands, hsi_path, pair, method, remarks)
    pair = pair.leaving_out(unseen(PM, pair.good_msi, pair.msi, remarks))
    PM = None if PM is None else PM[pair.good_msi]
    pair = pair.without_bad_bands().without_gaps(method, fill_nodata, keep_filled, remarks)
    for name, image in (("hsi", pair.hsi), ("msi", pair.msi)):
        check_values(image.cube, name)
    blur, PM, pair, shift = settled(blur, PM, pair, method, align, remarks)
    degradation = operators.degradation(blur, PM)
    degradation.check(pair.hsi.shape, pair.msi.shape)
    return blur, degradation, pair, shift


def settled(
    blur: operators.Blur | None, PM: Operator | None, pair: Pair, method: Method, align: bool, remarks: Remarks
) -> tuple[operators.Blur, Operator, Pair, Shift | None]:
    """Blur and response as they are used, the pair of the bands that they are for, and the shift that was measured.

    Parameters
    ----------
    blur, PM, pair, method, align, remarks
        As of `completed`.
    """
    made, response, pair = completed(blur, PM, pair, method, align, remarks)
    if blur is None and align:
        return made, response, pair, None
    placed, shift = aligned(made, response, pair, method, align, remarks, estimated=PM is None)
    if placed is not made:
        made, response, pair = completed(placed, PM, pair, method, align, remarks)
    return made, response, pair, shift


def move_to(place: str, blur: operators.Blur, grids: Grids, shape: Sequence[int], remarks: Remarks) -> Move | None:
    """What brings a result to the place that is asked for; None where it lies there.

    Parameters
    ----------
    place : "msi" or "hsi"
    blur : Blur
        As it is used: with the shift between the images.
    grids : Grids
    shape : (rows, columns, …)
        Of the result.
    remarks : Remarks
    """
    if as_choice(place, "place", ("msi", "hsi")) == "msi":
        return None
    by = blur.moved or (0.0, 0.0)
    if blur.settings["psf"] == AUTO:
        by = tuple(np.subtract(blur.settings["shift"], grids.offset or (0.0, 0.0)).tolist())
    if max(map(abs, by)) <= SAME:
        return None
    taken = "" if grids.offset is not None else ", if each HSI pixel is meant to lie on its block of MSI pixels"
    remarks.note(f"the result is moved to the HSI's place, {directions(-by[0], -by[1])} of the MSI's{taken}")
    return Move(shape, by)


def completed(
    blur: operators.Blur | None, PM: Operator | None, pair: Pair, method: Method, align: bool, remarks: Remarks
) -> tuple[operators.Blur, Operator, Pair]:
    """Blur and response with what is None estimated from the images, and the pair of the bands that they are for.

    MSI bands that no combination of the HSI's bands explains are left out and named.

    Parameters
    ----------
    blur : Blur or None
    PM : matrix or None
    pair : Pair
        Without bad bands and gaps.
    method : Method
        Some need a periodic blur.
    align : bool
        False: the shift is not estimated, but that of the georeferencing, or none.
    remarks : Remarks
    """
    if blur is not None and PM is not None:
        return blur, PM, pair
    found = estimate_degradation(
        pair.hsi.cube,
        pair.msi.cube,
        pair.grids.ratio,
        PM=PM,
        shift=None if align else (pair.grids.offset or (0.0, 0.0)),
        operators=None if blur is None else (blur.P1, blur.P2),
        wavelengths=pair.hsi.wavelengths,
        boundary="periodic" if method.needs_periodic_blur else None,  # as the outermost pixels show it
        hsi_valid=~pair.missing_hsi,
        msi_valid=~pair.missing_msi,
    )
    made = found.degradation
    if found.response is not None:
        strange = unexplained(found.response, (made.P1, made.P2), pair.msi.cube, ~pair.missing_hsi)
        if strange.any():
            say_unexplained(strange, pair.msi.wavelengths, pair.msi.names, remarks)
            return completed(blur, PM, pair.without_msi_bands(strange), method, align, remarks)
    if found.response is not None:
        remarks.note(f"the response is {found.response}")
    if blur is not None:
        return blur, found.degradation.PM, pair
    remarks.note(f"the blur is estimated from the images: {found.blur}")
    settings = {"psf": AUTO, "assumed": False, **found.figures()}
    return operators.Blur(made.P1, made.P2, f"estimated, {found.blur}", settings), made.PM, pair


def unexplained(response: ResponseEstimate, blur: tuple[Any, Any], msi: Array, hsi_valid: Mask) -> Mask:
    """The MSI bands most of whose picture no estimated response explains; none where most bands are so.

    Parameters
    ----------
    response : ResponseEstimate
    blur : (P1, P2)
    msi : (rows, columns, MSI bands) array
    hsi_valid : (rows, columns) bool array
        Where the HSI has data.
    """
    P1, P2 = blur
    seen = (P1 @ msi[:, :, m].astype(np.float64) @ P2.T for m in range(msi.shape[2]))
    spread = np.array([picture[hsi_valid].var() for picture in seen])
    noise = response.expected**2
    beyond = response.residual**2 - noise
    strange = (beyond > _STRANGE * np.maximum(spread - noise, 0.0)) & (beyond > 3.0 * noise)
    return strange if 2 * strange.sum() < len(strange) else np.zeros_like(strange)


def say_unexplained(strange: Mask, wavelengths: Array | None, names: tuple[str, ...] | None, remarks: Remarks) -> None:
    """Say which MSI bands are left out for being `unexplained`."""
    numbers = bands_listed(strange, wavelengths, names)
    remarks.warn(
        f"msi: {int(strange.sum())} of {strange.size} bands are no combination of the HSI's bands and left out: "
        f"{numbers} of those that are used; --srf or --bands with their response keeps them"
    )


def aligned(
    blur: operators.Blur,
    PM: Operator,
    pair: Pair,
    method: Method,
    align: bool,
    remarks: Remarks,
    *,
    estimated: bool = False,
) -> tuple[operators.Blur, Shift | None]:
    """The blur with the shift that the images show, and that shift, None where it is not known.

    Parameters
    ----------
    blur : Blur
        As given or assumed.
    PM : matrix
    pair : Pair
        Without bad bands and gaps.
    method : Method
        Some need a periodic blur.
    align : bool
        False: the blur stays as it is, and a shift is a warning.
    remarks : Remarks
    estimated : bool
        Whether PM was estimated with the blur as it is: then it is no witness.
    """
    shift = _measured(blur, PM, pair, estimated)
    if shift is None:
        small = min(pair.hsi.shape[:2])
        why = "too small" if small < _SMALL else "not clear enough"
        remarks.note(f"the images are {why} to measure a shift between them")
    if shift is not None and align and shift.is_certain:
        say = remarks.warn if shift.matters else remarks.note
        say(f"{replace(shift, phase=None)}; the blur is moved by that, --no-align leaves it")
        return operators.moved(blur, (shift.rows, shift.columns), method.needs_periodic_blur), shift
    if shift is not None and not shift.matters:
        remarks.note(str(shift))
    if pair.grids.offset is not None and not (shift is not None and shift.is_certain):
        shift = shift_by_georeference(pair.grids, as_operator(blur.P1, "psf"), as_operator(blur.P2, "psf"))
    if shift is not None and shift.matters:
        remarks.warn(str(shift))
    return blur, shift


def _measured(blur, PM, pair, estimated):
    """The shift from where a blur puts the HSI, by the images: with all bands, or in small images with one picture."""
    ratio, known = pair.grids.ratio, {"hsi_valid": ~pair.missing_hsi, "msi_valid": ~pair.missing_msi}
    degradation = operators.degradation(blur, PM)
    degradation.check(pair.hsi.shape, pair.msi.shape)
    if ratio < 2:
        return shift_by_images(pair.hsi.cube, pair.msi.cube, degradation)
    try:
        found = estimate_blur(pair.hsi.cube, pair.msi.cube, ratio, None if estimated else PM, **known)
    except (ValueError, np.linalg.LinAlgError):  # too small, or nothing to be seen
        return shift_by_images(pair.hsi.cube, pair.msi.cube, degradation)
    if not np.isfinite([*found.shift, *found.shift_errors]).all():
        return None
    phases = [phase_of(P, ratio) for P in (degradation.P1, degradation.P2)]
    rows, columns = (float(there - here) for there, here in zip(found.phase, phases, strict=True))
    return Shift(rows, columns, found.shift_errors, "images", better_phase(phases, found.phase, ratio))
