"""Two files into one: read, made ready, fused, written. `fastccpd fuse` is this, and what it prints."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import formats, methods
from ..api import fuse
from ..estimation.fit import estimated_snr, relative_residual
from ..estimation.shift import Shift, shift_by_images
from ..imaging import degrade
from ..model.checks import as_choice, check_values
from ..model.degradation import Degradation
from ..model.files import check_apart
from ..model.result import FusionResult
from ..model.types import Callback, Matrix, Path
from . import gaps, operators
from .grids import shift_by_georeference
from .pair import Pair, read_pair
from .remarks import Listener, Remarks


@dataclass(frozen=True, eq=False)
class FusedFiles:
    """What came out of a fusion of two files, and what it rests on.

    Attributes
    ----------
    result : FusionResult
    pair : Pair
        The two images made ready: without bad bands, their missing pixels filled; how their grids lie to each other.
    images : (hsi, msi)
        The two cubes as they were measured, in the precision of the fusion; NaN where there are no data.
    degradation : Degradation
        The operators between result and images.
    blur : fastccpd.rasters.operators.Blur
        What `psf` stands for, in words and as settings.
    shift : fastccpd.estimation.shift.Shift or None
        The shift between the images that the operators do not know of; None if it is not known.
    seen : (hsi, msi)
        The result as the two sensors would see it.
    residuals : dict
        ‖image − degraded result‖ / ‖image‖ of "hsi" and "msi", where they have data.
    noise : dict or None
        Their estimated signal-to-noise ratios in dB; None where the method estimates no noise.
    marked : (rows, columns) bool array
        The pixels of the result that are marked as nodata.
    interrupted : bool
        Whether a callback ended the fusion before it was done.
    notes, warnings : tuple of str
        What was found or assumed, and what may be wrong with the result.
    written : dict
        The files that were written: "output" and "uncertainty", as far as they were asked for.
    """

    result: FusionResult
    pair: Pair
    images: tuple[np.ndarray, np.ndarray]
    degradation: Degradation
    blur: operators.Blur
    shift: Shift | None
    seen: tuple[np.ndarray, np.ndarray]
    residuals: dict[str, float]
    noise: dict[str, float] | None
    marked: np.ndarray
    interrupted: bool
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    written: dict[str, str]

    def __repr__(self):
        return f"<FusedFiles {self.result!r}, {len(self.notes)} notes, {len(self.warnings)} warnings>"

    @property
    def raster(self) -> formats.Raster:
        """The fused image as a `Raster`: the MSI's grid, the HSI's wavelengths, nodata where there were no data."""
        return _raster(self.result.sri, self.pair, self.marked, with_bands=True)


def fuse_files(
    hsi: Path,
    msi: Path,
    output: Path | None = None,
    *,
    psf: Path | tuple[Matrix, Matrix] | None = None,
    srf: Path | Matrix | None = None,
    bands: str | None = None,
    ratio: int | None = None,
    band_axis: int | None = None,
    fill_nodata: bool = False,
    keep_filled: bool = False,
    uncertainty: Path | None = None,
    overwrite: bool = False,
    method: str | methods.Method = methods.DEFAULT,
    dtype: str | None = None,
    starts: int = 1,
    combine: str = "best",
    rng: int | np.random.Generator = 0,
    time_limit: float | None = None,
    threads: int | None = None,
    callback: Callback | None = None,
    progress: Callable[[str, int | None], AbstractContextManager[Callback | None]] | None = None,
    messages: Listener | None = None,
    **options: Any,
) -> FusedFiles:
    """Fuse a hyperspectral and a multispectral image in files, as `fastccpd fuse` does.

    Parameters
    ----------
    hsi, msi : path
        npy, npz, mat, ENVI or GeoTIFF, by the suffix; `file.npz::name` names a variable.
    output : path, optional
        The file to write, in the format of its suffix. None: nothing is written.
    psf : str or (P1, P2), optional
        The blur between the grids: "stereo", "scott", "gaussian[,sigma=…,taps=…,phase=…,boundary=…]", an npz file that
        holds P1 and P2, or the two matrices. None: a Gaussian about the middle of the HSI's pixels where both images
        are georeferenced, else "stereo".
    srf : str or matrix
        The spectral response of the MSI: "landsat", a csv file (`file.csv::B2,B3` picks bands), an npy, npz or MAT file
        that holds the matrix PM, or the matrix. Either this or `bands` is needed.
    bands : str
        For each MSI band the HSI bands that it averages, counted from 1: "6-12,13-19+21,25" is three bands.
    ratio : int, optional
        MSI pixels per HSI pixel, in each direction. None: by georeferencing, else by the sizes.
    band_axis : int, optional
        Which stored axis holds the bands, in npy, npz and MAT files. None: the last.
    fill_nodata : bool
        True fills pixels without data from their neighbours. False: the method leaves them out, or refuses them.
    keep_filled : bool
        True keeps what the method puts where there are no data, rather than to mark it as nodata again.
    uncertainty : path, optional
        A file for the expected error of each pixel, an image of one band.
    overwrite : bool
        Whether outputs that exist may be replaced. Inputs never are.
    method, starts, combine, rng, time_limit, threads, callback, **options
        As of `fastccpd.fuse`.
    dtype : "float32" or "float64", optional
        Precision of work and result. None: that of the data.
    progress : callable(method, max_iter) -> context manager, optional
        Entered around the fusion itself, it yields a callback in place of `callback`.
    messages : object with note(text) and warn(text), optional
        Gets what was found or assumed, and what may be wrong, as it comes. None: warnings are Python's own.

    Returns
    -------
    FusedFiles

    Raises
    ------
    ValueError, TypeError, OSError, MemoryError, ModuleNotFoundError
        One sentence, before the fusion begins, for options and files that cannot be.

    Examples
    --------
    >>> import tempfile
    >>> from fastccpd import rasters
    >>> from fastccpd.imaging import degrade, preset, scenes
    >>> scene = scenes.synthetic((16, 20, 36))
    >>> folder = tempfile.TemporaryDirectory()
    >>> files = [f"{folder.name}/{name}.npz" for name in ("hsi", "msi", "fused")]
    >>> for path, cube in zip(files, degrade(scene.cube, preset("stereo", scene.cube.shape))):
    ...     rasters.write(path, rasters.Raster(cube))
    >>> fused = rasters.fuse_files(*files, srf="landsat", method="nn-ccpd-nls", rank=3, max_iter=2)
    >>> fused.pair.grids.ratio, fused.blur.text
    (4, 'the stereo convention')
    >>> rasters.read(files[2])
    <Raster 16×20×36 float64, nothing else known>
    >>> folder.cleanup()
    """
    remarks = Remarks(messages)
    if dtype is not None:
        as_choice(dtype, "dtype", ("float32", "float64"))
    chosen = method if isinstance(method, methods.Method) else methods.make(method, options)
    check_outputs(hsi, msi, psf, srf, {"-o": output, "--uncertainty": uncertainty})
    _check_targets(output, uncertainty, overwrite, chosen, starts, combine)
    pair = read_pair(hsi, msi, ratio, band_axis, remarks)
    blur, PM = _operators(psf, srf, bands, hsi, pair, chosen.name, remarks)
    pair = pair.without_bad_bands(remarks).without_gaps(chosen, fill_nodata, keep_filled, remarks)
    degradation = operators.degradation(blur, PM[pair.good_msi])
    degradation.check(pair.hsi.shape, pair.msi.shape)
    for name, image in (("hsi", pair.hsi), ("msi", pair.msi)):
        check_values(image.cube, name)
    shift = _shift(pair, degradation, remarks)
    cubes = tuple(image.cube.astype(dtype or image.dtype, copy=False) for image in (pair.hsi, pair.msi))
    if not fill_nodata:
        options |= {"hsi_valid": ~pair.missing_hsi, "msi_valid": ~pair.missing_msi}
    stopped = []
    max_iter = getattr(chosen, "max_iter", None)
    with nullcontext(callback) if progress is None else progress(chosen.name, max_iter) as shown:
        called = None if shown is None else _remembering(shown, stopped)
        how: dict[str, Any] = {
            "starts": starts,
            "combine": combine,
            "rng": rng,
            "time_limit": time_limit,
            "threads": threads,
        }
        result = fuse(cubes[0], cubes[1], degradation, method=method, callback=called, **how, **options)
    # Maps need no further starts.
    complete = result.converged and (len(result.start_costs) == starts or result.shown == "maps")
    measured = gaps.emptied(cubes[0], pair.missing_hsi), gaps.emptied(cubes[1], pair.missing_msi)
    seen = degrade(result, degradation)
    compared = zip(("hsi", "msi"), measured, seen, strict=True)
    residuals = {name: relative_residual(image, degraded) for name, image, degraded in compared}
    marked = np.zeros_like(pair.missing) if keep_filled else pair.missing
    written = _write(output, uncertainty, overwrite, result, pair, marked, starts, remarks)
    return FusedFiles(
        result=result,
        pair=pair,
        images=measured,
        degradation=degradation,
        blur=blur,
        shift=shift,
        seen=seen,
        residuals=residuals,
        noise=estimated_snr(result, *measured),
        marked=marked,
        interrupted=bool(stopped) and not complete,
        notes=tuple(remarks.notes),
        warnings=tuple(remarks.warnings),
        written=written,
    )


def check_outputs(
    hsi: Path,
    msi: Path,
    psf: Path | tuple[Matrix, Matrix] | None,
    srf: Path | Matrix | None,
    rasters: Mapping[str, Path | None],
    pages: Mapping[str, Path | None] | None = None,
) -> None:
    """Refuse outputs of a fusion that are what it reads, or that are one file.

    Parameters
    ----------
    hsi, msi, psf, srf
        As of `fuse_files`.
    rasters : dict of name to path or None
        The images that are written, by the option or argument that names them.
    pages : dict of name to path or None, optional
        Other files that are written.
    """
    read = [*formats.files_read(hsi), *formats.files_read(msi), *operators.files_read(psf, srf)]
    written = [(name, path, formats.files_written(path)) for name, path in rasters.items() if path is not None]
    written += [(name, path, [path]) for name, path in (pages or {}).items() if path is not None]
    check_apart(written, read)


def _check_targets(output, uncertainty, overwrite, method, starts, combine):
    """Refuse, before anything is read, what cannot or must not be written."""
    if output is not None:
        formats.check_target(output, overwrite)
    if uncertainty is None:
        return
    by_starts = method.has_starts and starts > 1 and combine == "mean"
    if not (method.tells_uncertainty or by_starts):
        able = " or ".join(name for name in methods.names() if methods.get(name).tells_uncertainty)
        spread = ", or several --starts with --combine mean," if method.has_starts else ""
        raise ValueError(f"--uncertainty: {method.name} tells none; --method {able}{spread} is needed")
    formats.check_target(uncertainty, overwrite)


def _operators(psf, srf, bands, hsi_path, pair, method, remarks):
    """The blur, and PM for the HSI's good bands and all of the MSI's."""
    georeferenced = pair.grids.offset is not None
    blur = operators.blur(psf, pair.msi.shape[:2], pair.grids.ratio, georeferenced=georeferenced, method=method)
    assumed = blur.settings["assumed"]
    remarks.note(
        f"the blur is taken to be {blur.text}; give --psf if that is not so" if assumed else f"the blur is {blur.text}"
    )
    return blur, operators.response(srf, bands, pair.hsi, pair.good_hsi, hsi_path, pair.msi.shape[2])


def _shift(pair, degradation, remarks):
    """The shift that the operators do not know of, by georeferencing or else by the images; None if it is not known."""
    if pair.grids.offset is not None:
        shift = shift_by_georeference(pair.grids, degradation.P1, degradation.P2)
    else:
        shift = shift_by_images(pair.hsi.cube, pair.msi.cube, degradation)
    if shift is not None and shift.matters:
        remarks.warn(str(shift))
    return shift


def _remembering(callback, stopped):
    """The callback, which notes in `stopped` that it asked for an end."""

    def called(state):
        if callback(state):
            stopped.append(True)
        return bool(stopped)

    return called


def _write(output, uncertainty, overwrite, result, pair, marked, starts, remarks):
    """The image and its uncertainty, as far as they are asked for; the files that were written."""
    written = {}
    if output is not None:
        _write_raster(output, _raster(result.sri, pair, marked, with_bands=True), overwrite, remarks)
        written["output"] = str(output)
    if uncertainty is not None and result.uncertainty is None:
        one = len(result.start_costs) == 1 and starts > 1
        why = "one start alone has no spread" if one else "the decomposition is the image, of which none is known"
        remarks.warn(f"{uncertainty}: not written, for {why}")
    elif uncertainty is not None:
        deviation = result.uncertainty[:, :, None].astype(result.dtype)
        _write_raster(uncertainty, _raster(deviation, pair, marked), overwrite, remarks)
        written["uncertainty"] = str(uncertainty)
    return written


def _raster(cube, pair, marked, with_bands=False):
    """A cube on the MSI's grid, its missing pixels marked; with the wavelengths of the HSI."""
    nodata = None
    if marked.any():
        cube, nodata = gaps.marked(cube, marked, pair.msi.nodata)
    known = {"wavelengths": pair.hsi.wavelengths, "fwhm": pair.hsi.fwhm} if with_bands else {}
    return formats.Raster(cube, **known, nodata=nodata, georeference=pair.msi.georeference)


def _write_raster(path, raster, overwrite, remarks):
    lost = formats.lost_by(path, raster)
    if lost:
        remarks.warn(f"{path}: this format cannot carry {', '.join(lost)}, which is lost")
    formats.write(path, raster, overwrite=overwrite)
