"""The operators from what is said of them: by `fuse_files` as psf, srf and bands, on the command line as options.

--psf auto                                 estimated from the images, with the shift (`estimating`)
--psf stereo | scott                       the published conventions (`fastccpd.imaging.preset`)
--psf gaussian[,sigma=…,taps=…,phase=…,boundary=…]         sigma and phase one number, or 1.6x2 for rows and columns
--psf FILE.npz                             holding P1 and P2
--psf auto, --srf auto                     from the images (`fastccpd.estimation.estimate_degradation`)
--srf landsat                              `fastccpd.imaging.landsat`
--srf sentinel-2a[::BAND,BAND]             the measured response of a known sensor (`fastccpd.imaging.SENSORS`)
--srf FILE.csv[::BAND,BAND]                a tabulated response
--srf FILE.npy | FILE.npz[::NAME] | FILE.mat[::NAME]       the matrix PM
--bands 6-12,13-19+21,25                   for each MSI band the HSI bands it averages, counted from 1

Bands of a sensor or a table that are not named are matched to the MSI's by names or wavelengths; where that fails, all
bands of a table are taken, in its order, and a sensor's must be named.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .. import formats, methods
from ..estimation.shift import SAME, width_of
from ..imaging import (
    SENSORS,
    gaussian,
    landsat,
    preset,
    read_response,
    response_from_groups,
    response_from_table,
    sensor_table,
)
from ..imaging.psf import BOUNDARIES, interpolation
from ..imaging.response import LEAST_COVERED, table_coverage
from ..imaging.sensors import matched_bands, named_bands, sensor_named
from ..model import types
from ..model.checks import as_operator
from ..model.degradation import Degradation

PRESETS = ("stereo", "scott")


def _one_or_two(text):
    """A number, or one for rows and one for columns: 1.7 or 1.6x2."""
    down, *right = (float(part) for part in text.split("x"))
    if len(right) > 1:
        raise ValueError
    return (down, *right) if right else down


_PSF_OPTIONS = {"sigma": _one_or_two, "taps": int, "phase": _one_or_two, "boundary": str}


@dataclass(frozen=True)
class Blur:
    """P1 and P2, and what they are: in words, and as settings for JSON; `moved` by a shift that was measured."""

    P1: Any
    P2: Any
    text: str
    settings: dict
    moved: tuple[float, float] | None = None

    @property
    def sigma(self) -> tuple[float, float]:
        """The standard deviation along rows and columns, in MSI pixels."""
        rows, columns = (width_of(as_operator(P, "psf")) for P in (self.P1, self.P2))
        return rows, columns

    def __str__(self):
        if "σ" in self.text:
            return self.text
        return f"{self.text}, of σ {self.sigma[0]:.2f} by {self.sigma[1]:.2f} MSI pixels"


def blur(
    spec: types.Path | tuple[types.Matrix, types.Matrix] | None,
    shape: tuple[int, int],
    ratio: int,
    *,
    offset: tuple[float, float] | None,
    method: str | None = None,
) -> Blur:
    """The `Blur` that --psf asks for, or the one to assume.

    Parameters
    ----------
    spec : str, (P1, P2) or None
        None: a Gaussian about the middle of the HSI's pixels for georeferenced images, else "stereo".
    shape : (rows, columns) of the fine image
    ratio : int
    offset : (rows, columns) or None
        Where georeferenced HSI pixels begin from the MSI's, in MSI pixels: the middle of a Gaussian for which no phase
        is given lies so much off. None: not both are georeferenced.
    method : str, optional
        Decides the boundary of a Gaussian for which none is given: the mirror image, unless the method needs a
        periodic one.
    """
    assumed = spec is None
    if not assumed and not isinstance(spec, str | os.PathLike):
        P1, P2 = _two_matrices(spec)
        return Blur(P1, P2, "P1 and P2 as given", {"psf": "given", "assumed": False})
    spec = ("stereo" if offset is None else "gaussian") if assumed else os.fsdecode(spec)
    name, *settings = spec.split(",")
    if name in PRESETS and not settings:
        operators = preset(name, (*shape, 1), PM=np.ones((1, 1)), ratio=ratio)
        P1, P2, text, known = operators.P1, operators.P2, f"the {name} convention", {"psf": name}
    elif name == "gaussian":
        options = _gaussian_options(spec, settings, ratio, method, offset)
        whole = [size // ratio for size in shape] if not any(size % ratio for size in shape) else None
        P1, P2 = gaussian(shape, ratio, **options, coarse=whole)
        known = {"psf": name, **options, "kernel": int(np.diff(P1.indptr).max())}
        sigma = options.get("sigma", ratio / np.sqrt(8.0 * np.log(2.0)))
        known |= {"sigma": sigma}
        widths = dict.fromkeys(f"{width:.4g}" for width in np.ravel(sigma))
        phases = dict.fromkeys(f"{phase:.3g}" for phase in np.ravel(options["phase"]))
        text = (
            f"a Gaussian of σ {' by '.join(widths)} about phase {' by '.join(phases)}, "
            f"its boundary {options['boundary']}"
        )
    elif Path(name).suffix.lower() == ".npz" and not settings:
        P1, P2 = formats.read_arrays(name, ("P1", "P2")).values()
        text, known = f"P1 and P2 of {name}", {"psf": name}
    else:
        raise ValueError(
            f"--psf: got {spec!r}; stereo, scott, gaussian[,sigma=…,taps=…,phase=…,boundary=…] or a FILE.npz with P1 "
            "and P2 is needed"
        )
    return Blur(P1, P2, text, known | {"assumed": assumed})


def moved(blur: Blur, shift: tuple[float, float], periodic: bool = False) -> Blur:
    """A blur whose HSI pixels lie further down and to the right by a shift in MSI pixels.

    Parameters
    ----------
    blur : Blur
    shift : (rows, columns)
    periodic : bool
        Whether the picture repeats outside of itself; else its mirror image lies there.

    Returns
    -------
    Blur
        Of the picture that interpolation has moved.
    """
    boundary = "periodic" if periodic else "reflect"
    pairs = zip((blur.P1, blur.P2), shift, strict=True)
    P1, P2 = (as_operator(P, "psf") @ interpolation(P.shape[1], by, boundary) for P, by in pairs)
    text = f"{blur.text}, moved by {shift[0]:+.2f} rows and {shift[1]:+.2f} columns".replace("-", "−")
    return Blur(sparse.csr_array(P1), sparse.csr_array(P2), text, blur.settings, shift)


def response(
    srf: types.Path | types.Matrix | None,
    bands: str | None,
    hsi: formats.Raster,
    good: types.Mask,
    hsi_path: types.Path,
    msi: formats.Raster | None = None,
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
    msi : Raster, optional
        With all its bands. There must be a row for each; a row is zero where the HSI does not cover a band.
    """
    if srf is None and bands is None:
        raise ValueError(
            "--srf: the spectral response of the MSI is not known; give --srf with a sensor's name, a table or a "
            "matrix, or --bands with the HSI bands that each MSI band averages"
        )
    if srf is not None and bands is not None:
        raise ValueError("--srf: is given beside --bands; one of the two is needed")
    PM: types.Operator
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
    elif sensor_named(_split(named)[0]) or _split(named)[0].lower().endswith(".csv"):
        PM = _from_table(named, hsi, good, hsi_path, msi)
    else:
        PM = _restricted(_as_matrix(named, good), good, "--srf")
    if msi is not None and PM.shape[0] != msi.shape[2]:
        raise ValueError(
            f"{option}: {said} describes {PM.shape[0]} bands, but the MSI has {msi.shape[2]}; they must agree"
        )
    return PM


def sensor_of(msi: formats.Raster) -> str | None:
    """The sensor of an image whose file names one with a known response; None for others.

    Parameters
    ----------
    msi : Raster
    """
    return sensor_named(str(msi.source.get("sensor") or ""))


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
    return [Path(name) for name in named if Path(name).suffix and sensor_named(name) is None]


def degradation(blur: Blur, PM: types.Matrix) -> Degradation:
    """The whole `Degradation`."""
    return Degradation(blur.P1, blur.P2, PM)


def _gaussian_options(spec, settings, ratio, method, offset):
    given = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in _PSF_OPTIONS:
            raise ValueError(f"--psf: got {setting!r} in {spec!r}; {', '.join(_PSF_OPTIONS)} are known")
        try:
            given[key] = _PSF_OPTIONS[key](value)
        except ValueError:
            kind = "a whole number" if key == "taps" else "a number, or two as in 1.6x2 for rows and columns,"
            raise ValueError(f"--psf: got {setting!r} in {spec!r}; {kind} is needed") from None
    if given.get("boundary", BOUNDARIES[0]) not in BOUNDARIES:
        raise ValueError(
            f"--psf: got boundary={given['boundary']} in {spec!r}; one of {', '.join(BOUNDARIES)} is needed"
        )
    periodic = method is not None and methods.get(method).needs_periodic_blur
    middle = (ratio - 1) / 2
    if offset is not None and max(map(abs, offset)) > SAME:
        middle = tuple(middle + float(off) for off in offset)
    options = {"phase": middle, "boundary": "periodic" if periodic else "reflect"} | given
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


def _from_table(srf, hsi, good, hsi_path, msi):
    source, names = _split(srf)
    if hsi.wavelengths is None:
        raise ValueError(
            f"--srf: {source} needs the wavelengths of the HSI's bands, which {hsi_path} does not carry; use a format "
            "that does, or give --bands or a matrix"
        )
    sensor = sensor_named(source)
    table = read_response(source) if sensor is None else sensor_table(sensor)
    chosen, matched = _chosen(table, names, msi, sensor, source)
    centres, fwhm = hsi.wavelengths[good], None if hsi.fwhm is None else hsi.fwhm[good]
    covered = table_coverage(table, centres)
    seen = np.array([not matched or covered[band] >= LEAST_COVERED for band in chosen])
    if not seen.any():
        raise ValueError(f"--srf: the HSI covers none of {', '.join(chosen)} of {source}; some are needed")
    PM = np.zeros((len(chosen), len(centres)))
    try:
        rows = response_from_table(table, centres, bands=np.array(chosen)[seen], fwhm=fwhm)
    except ValueError as error:
        reason = str(error).partition(";")[0]
        raise ValueError(f"--srf: {source}: {reason}; {source}::NAME,NAME picks bands of {', '.join(table)}") from None
    PM[seen] = rows.toarray()
    return sparse.csr_array(PM)


def _chosen(table, names, msi, sensor, source):
    """The bands of a table that are meant, and whether they are known to be the MSI's: by names or wavelengths."""
    if names is not None:
        return named_bands(table, names.split(",")), False
    matched = None if msi is None else matched_bands(table, msi.names, msi.wavelengths)
    if matched is not None:
        return matched[0], True
    if msi is None or sensor is None:
        return list(table), False
    raise ValueError(
        f"--srf: the MSI's {msi.shape[2]} bands are not known by names or wavelengths among {', '.join(table)} of "
        f"{sensor}; {source}::NAME,NAME names one for each, in order"
    )


def _as_matrix(srf, good):
    path, name = _split(srf)
    if Path(path).suffix.lower() not in formats.ARRAY_SUFFIXES:
        raise ValueError(
            f"--srf: got {srf!r}; landsat, a FILE.csv, or a FILE.npy, .npz or .mat with PM is needed, or one of the "
            f"sensors {', '.join(SENSORS)}"
        )
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
