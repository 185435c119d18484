"""The operators from what is said of them: by `fuse_files` as psf, srf and bands, on the command line as options.

--psf stereo | scott                       the published conventions (`fastccpd.imaging.preset`)
--psf gaussian[,sigma=…,taps=…,phase=…,boundary=…]
--psf FILE.npz                             holding P1 and P2
--srf landsat                              `fastccpd.imaging.landsat`
--srf FILE.csv[::BAND,BAND]                a tabulated response, all of its bands or the named ones
--srf FILE.npy | FILE.npz[::NAME] | FILE.mat[::NAME]       the matrix PM
--bands 6-12,13-19+21,25                   for each MSI band the HSI bands it averages, counted from 1
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .. import formats, methods
from ..imaging import gaussian, landsat, preset, read_response, response_from_groups, response_from_table
from ..imaging.psf import BOUNDARIES
from ..model import types
from ..model.checks import as_operator
from ..model.degradation import Degradation

PRESETS = ("stereo", "scott")

_PSF_OPTIONS = {"sigma": float, "taps": int, "phase": float, "boundary": str}


@dataclass(frozen=True)
class Blur:
    """P1 and P2, and what they are: in words, and as settings for JSON."""

    P1: Any
    P2: Any
    text: str
    settings: dict


def blur(
    spec: types.Path | tuple[types.Matrix, types.Matrix] | None,
    shape: tuple[int, int],
    ratio: int,
    *,
    georeferenced: bool,
    method: str | None = None,
) -> Blur:
    """The `Blur` that --psf asks for, or the one to assume.

    Parameters
    ----------
    spec : str, (P1, P2) or None
        None: a centred Gaussian for `georeferenced` images, else "stereo".
    shape : (rows, columns) of the fine image
    ratio : int
    georeferenced : bool
    method : str, optional
        Decides the boundary of a Gaussian for which none is given: the mirror image, unless the method needs a
        periodic one.
    """
    assumed = spec is None
    if not assumed and not isinstance(spec, str | os.PathLike):
        P1, P2 = _two_matrices(spec)
        return Blur(P1, P2, "P1 and P2 as given", {"psf": "given", "assumed": False})
    spec = ("gaussian" if georeferenced else "stereo") if assumed else os.fsdecode(spec)
    name, *settings = spec.split(",")
    if name in PRESETS and not settings:
        operators = preset(name, (*shape, 1), PM=np.ones((1, 1)), ratio=ratio)
        P1, P2, text, known = operators.P1, operators.P2, f"the {name} convention", {"psf": name}
    elif name == "gaussian":
        options = _gaussian_options(spec, settings, ratio, method)
        P1, P2 = gaussian(shape, ratio, **options)
        known = {"psf": name, **options, "kernel": int(np.diff(P1.indptr).max())}
        text = f"a Gaussian about phase {options['phase']:g}, its boundary {options['boundary']}"
    elif Path(name).suffix.lower() == ".npz" and not settings:
        P1, P2 = formats.read_arrays(name, ("P1", "P2")).values()
        text, known = f"P1 and P2 of {name}", {"psf": name}
    else:
        raise ValueError(
            f"--psf: got {spec!r}; stereo, scott, gaussian[,sigma=…,taps=…,phase=…,boundary=…] or a FILE.npz with P1 "
            "and P2 is needed"
        )
    return Blur(P1, P2, text, known | {"assumed": assumed})


def response(
    srf: types.Path | types.Matrix | None,
    bands: str | None,
    hsi: formats.Raster,
    good: types.Mask,
    hsi_path: types.Path,
    msi_bands: int | None = None,
) -> types.Operator:
    """PM for the good bands of the HSI.

    Parameters
    ----------
    srf : str, matrix or None
    bands : str or None
        The options --srf and --bands, of which one is given.
    hsi : Raster
        With all its bands: numbers and matrices speak of these.
    good : (bands,) bool array
        The bands that are used.
    hsi_path : str
        For messages.
    msi_bands : int, optional
        How many rows there must be.
    """
    if srf is None and bands is None:
        raise ValueError(
            "--srf: the spectral response of the MSI is not known; give --srf landsat, --srf with a table or a matrix, "
            "or --bands with the HSI bands that each MSI band averages"
        )
    if srf is not None and bands is not None:
        raise ValueError("--srf: is given beside --bands; one of the two is needed")
    named = os.fsdecode(srf) if isinstance(srf, str | os.PathLike) else ""
    matrix = srf is not None and not isinstance(srf, str | os.PathLike)
    option, said = ("--bands", bands) if srf is None else ("--srf", "the matrix" if matrix else named)
    if matrix:
        PM = as_operator(srf, "srf")
        _check_shape(PM.shape, good, "the matrix")
        PM = _restricted(PM, good, "--srf")
    elif bands is not None:
        PM = _restricted(response_from_groups(_groups(bands, len(good)), len(good)), good, "--bands")
    elif named == "landsat":
        PM = landsat(int(good.sum()))
    elif _split(named)[0].lower().endswith(".csv"):
        PM = _from_table(named, hsi, good, hsi_path)
    else:
        PM = _restricted(_as_matrix(named, good), good, "--srf")
    if msi_bands is not None and PM.shape[0] != msi_bands:
        raise ValueError(
            f"{option}: {said} describes {PM.shape[0]} bands, but the MSI has {msi_bands}; they must agree"
        )
    return PM


def files_read(
    psf: types.Path | tuple[types.Matrix, types.Matrix] | None, srf: types.Path | types.Matrix | None
) -> list[Path]:
    """The files that `psf` and `srf` name; those that are no files name none.

    Parameters
    ----------
    psf, srf : as of `fuse_files`

    Returns
    -------
    list of Path
    """
    named = [_split(os.fsdecode(spec))[0] for spec in (psf, srf) if isinstance(spec, str | os.PathLike)]
    return [Path(name) for name in named if Path(name).suffix]


def degradation(blur: Blur, PM: types.Matrix) -> Degradation:
    """The whole `Degradation`."""
    return Degradation(blur.P1, blur.P2, PM)


def _gaussian_options(spec, settings, ratio, method):
    given = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in _PSF_OPTIONS:
            raise ValueError(f"--psf: got {setting!r} in {spec!r}; {', '.join(_PSF_OPTIONS)} are known")
        try:
            given[key] = _PSF_OPTIONS[key](value)
        except ValueError:
            kind = "a whole number" if key == "taps" else "a number"
            raise ValueError(f"--psf: got {setting!r} in {spec!r}; {kind} is needed") from None
    if given.get("boundary", BOUNDARIES[0]) not in BOUNDARIES:
        raise ValueError(
            f"--psf: got boundary={given['boundary']} in {spec!r}; one of {', '.join(BOUNDARIES)} is needed"
        )
    periodic = method is not None and methods.get(method).needs_periodic_blur
    options = {"phase": (ratio - 1) / 2, "boundary": "periodic" if periodic else "reflect"} | given
    return {"kernel" if key == "taps" else key: value for key, value in options.items()}


def _groups(text, n_bands):
    """The 0-based bands of each group of "6-12,13-19+21,25"."""
    groups = []
    for group in text.split(","):
        members = []
        for part in group.split("+"):
            first, dash, last = part.strip().partition("-")
            last = last if dash else first
            if not (first.isdecimal() and last.isdecimal()):
                raise ValueError(
                    f"--bands: got {part!r} in {text!r}; a band 7 or a range 6-12, counted from 1, is needed"
                )
            low, high = int(first), int(last)
            if not 1 <= low <= high <= n_bands:
                raise ValueError(f"--bands: got {part!r} in {text!r}; bands from 1 to {n_bands}, in order, are needed")
            members += range(low - 1, high)
        if len(set(members)) != len(members):
            raise ValueError(f"--bands: got {group!r}, which names a band twice; each counts once")
        groups.append(members)
    return groups


def _restricted(PM, good, option) -> types.Operator:
    """PM for the good bands alone, every row with the sum it had."""
    if good.all():
        return PM
    before, PM = np.asarray(PM.sum(axis=1)).ravel(), PM[:, good]
    after = np.asarray(PM.sum(axis=1)).ravel()
    lost = np.flatnonzero((after == 0.0) & (before != 0.0))
    if lost.size:
        raise ValueError(
            f"{option}: MSI band {lost[0] + 1} sees bad HSI bands only; leave it out, or mend the bad bands"
        )
    return sparse.csr_array(sparse.diags_array(before / np.where(after == 0.0, 1.0, after)) @ PM)


def _from_table(srf, hsi, good, hsi_path):
    path, names = _split(srf)
    if hsi.wavelengths is None:
        raise ValueError(
            f"--srf: {path} needs the wavelengths of the HSI's bands, which {hsi_path} does not carry; use a format "
            "that does, or give --bands or a matrix"
        )
    table = read_response(path)
    bands = None if names is None else names.split(",")
    fwhm = None if hsi.fwhm is None else hsi.fwhm[good]
    try:
        return response_from_table(table, hsi.wavelengths[good], bands=bands, fwhm=fwhm)
    except ValueError as error:
        reason = str(error).partition(";")[0]
        raise ValueError(f"--srf: {path}: {reason}; {path}::NAME,NAME picks bands of {', '.join(table)}") from None


def _as_matrix(srf, good):
    path, name = _split(srf)
    if Path(path).suffix.lower() not in formats.ARRAY_SUFFIXES:
        raise ValueError(f"--srf: got {srf!r}; landsat, a FILE.csv, or a FILE.npy, .npz or .mat with PM is needed")
    held = formats.arrays_in(path)
    if name is None:
        matrices = [key for key, array in held.items() if len(array.shape) == 2]
        name = next(iter(held)) if list(held) == [""] else "PM"
        name = matrices[0] if name not in held and len(matrices) == 1 else name
    if name in held and held[name].is_real:
        _check_shape(held[name].shape, good, path)
    PM = formats.read_arrays(path, [name])[name]
    if not np.isfinite(PM).all():
        raise ValueError(f"--srf: {path} holds NaN or infinite values; finite real weights are needed")
    return sparse.csr_array(PM.astype(np.float64))


def _check_shape(shape, good, where):
    if len(shape) != 2 or shape[1] != len(good):
        raise ValueError(
            f"--srf: {where} holds shape {shape}; a column for each of the HSI's {len(good)} bands is needed"
        )


def _two_matrices(spec):
    try:
        P1, P2 = spec
    except (TypeError, ValueError):
        raise TypeError(
            f"psf: got {type(spec).__name__}; a name, a file or the two matrices P1, P2 are needed"
        ) from None
    return P1, P2


def _split(spec):
    """FILE::NAME as its two parts; None for a part that is not there."""
    path, mark, name = spec.partition("::")
    return path, name if mark else None
