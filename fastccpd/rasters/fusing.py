"""Two files into one: read, made ready, fused, written. `fastccpd fuse` is this, and what it prints."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import formats, methods
from ..api import fuse
from ..estimation import Levels, estimate_levels, verdict_of
from ..estimation.fit import estimated_snr, relative_residual
from ..estimation.shift import Shift
from ..imaging import degrade
from ..imaging.moving import Move
from ..model.checks import as_choice
from ..model.degradation import Degradation
from ..model.problem import Problem
from ..model.result import FusionResult
from ..model.types import Callback, Matrix, Path
from . import gaps, operators
from .estimating import made_ready, move_to
from .pair import Pair
from .placement import Placement
from .preparation import Preparation, open_pair
from .remarks import Listener, Remarks, Unheard
from .targets import check_outputs, check_targets, hashes_beside
from .writing import Output, Rounding, map_raster, provenance, result_raster, write_raster


@dataclass(frozen=True, eq=False)
class FusedFiles:
    """What came out of a fusion of two files, and what it rests on.

    Attributes
    ----------
    result : FusionResult
        The fused image, and how the fusion went.
    pair : Pair
        The two images made ready: without bad bands, their missing pixels filled; how their grids lie to each other.
    images : (hsi, msi)
        The two cubes as they were measured, in the precision of the fusion; NaN where there are no data.
    degradation : Degradation
        The operators between result and images.
    blur : fastccpd.rasters.operators.Blur
        What `psf` stands for, in words and as settings.
    shift : fastccpd.estimation.shift.Shift or None
        The shift from where the given blur puts the HSI, which `degradation` carries if it was put into it; None where
        it is not known, or was estimated with the blur itself.
    seen : (hsi, msi)
        The result as the two sensors would see it.
    residuals : dict
        ‖image − degraded result‖ / ‖image‖ of "hsi" and "msi", where they have data.
    noise : dict or None
        Their estimated signal-to-noise ratios in dB; None where the method estimates no noise.
    marked : (rows, columns) bool array
        The pixels of the output that are marked as nodata.
    interrupted : bool
        Whether a callback ended the fusion before it was done.
    notes, warnings : tuple of str
        What was found or assumed, and what may be wrong with the result.
    written : dict
        The files that were written: "output" and "uncertainty", as far as they were asked for.
    levels : fastccpd.estimation.Levels or None
        The scale and offset that were found between the values of the two images; None where they do not tell.
    placement : fastccpd.rasters.placement.Placement
        Where the two images were taken from, and what was warped.
    form : fastccpd.rasters.writing.Output
        The form of the output.
    tags : dict of str to str
        How the result was made, as it stands in the output.
    move : fastccpd.imaging.moving.Move or None
        What brings the result, which lies where the MSI does, to the place of the output; None where that is the MSI's.
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
    levels: Levels | None = None
    placement: Placement | None = None
    form: Output = field(default_factory=Output)
    tags: dict[str, str] = field(default_factory=dict)
    move: Move | None = None

    def __repr__(self):
        return f"<FusedFiles {self.result!r}, {len(self.notes)} notes, {len(self.warnings)} warnings>"

    @property
    def raster(self) -> formats.Raster:
        """The fused image as a `Raster`: the fine grid, the HSI's bands, nodata where there were no data."""
        return result_raster(_placed(self.result.sri, self.move), self.pair, self.marked, self.form, self.tags)


def fuse_files(
    hsi: Path,
    msi: Path,
    output: Path | None = None,
    *,
    psf: Path | tuple[Matrix, Matrix] | None = None,
    srf: Path | Matrix | None = None,
    bands: str | None = None,
    align: bool = True,
    ratio: int | None = None,
    band_axis: int | None = None,
    grid: Path = "hsi",
    place: str = "msi",
    bbox: tuple[float, float, float, float] | None = None,
    window: tuple[slice, slice] | None = None,
    keep_bands: str | None = None,
    hsi_scale: float | None = None,
    hsi_offset: float | None = None,
    msi_scale: float | None = None,
    msi_offset: float | None = None,
    match_values: bool = False,
    hsi_mask: Path | None = None,
    msi_mask: Path | None = None,
    fill_nodata: bool = False,
    keep_filled: bool = False,
    uncertainty: Path | None = None,
    output_dtype: str | None = None,
    output_scale: float = 1.0,
    cog: bool = False,
    overwrite: bool = False,
    method: str | methods.Method = methods.DEFAULT,
    dtype: str | None = None,
    starts: int = 1,
    combine: str = "best",
    rng: int | np.random.Generator = 0,
    time_limit: float | None = None,
    threads: int | None = None,
    memory: float | None = None,
    callback: Callback | None = None,
    progress: Callable[[str, int | None], AbstractContextManager[Callback | None]] | None = None,
    messages: Listener | None = None,
    **options: Any,
) -> FusedFiles:
    """Fuse a hyperspectral and a multispectral image in files, as `fastccpd fuse` does.

    Parameters
    ----------
    hsi, msi : path
        A file of any format that `fastccpd.rasters.read` takes; `file.npz::name` names a variable.
    output : path, optional
        The file to write, in the format of its suffix. None: nothing is written.
    psf : str or (P1, P2), optional
        The blur between the grids: "auto" (estimated from the images, with the shift), "stereo", "scott",
        "gaussian[,sigma=…,taps=…,phase=…,boundary=…]", an npz file that holds P1 and P2, or the two matrices. None:
        "auto" where no response is given either, else a Gaussian about the middle of the HSI's pixels where both
        images are georeferenced, else "stereo".
    srf : str or matrix, optional
        The spectral response of the MSI: a sensor ("Sentinel-2A", any of `fastccpd.imaging.SENSORS`), "landsat", a csv
        file (`file.csv::B2,B3` picks bands, `Sentinel-2A::B2,B3` too), an npy, npz or MAT file that holds the matrix
        PM, or the matrix. "auto": estimated from the images. Neither this nor `bands`: that of the sensor that the
        MSI's file names, else estimated.
    bands : str
        For each MSI band the HSI bands that it averages, counted from 1: "6-12,13-19+21,25" is three bands.
    align : bool
        Whether a shift between the images that they show beyond chance is put into the blur, also into one that is
        given. False: it is only measured and said.
    ratio : int, optional
        MSI pixels per HSI pixel, in each direction. None: by georeferencing, else by the sizes.
    place : "msi" or "hsi"
        Where the result lies on its grid, if a shift between the images is part of the blur: where the MSI does, whose
        detail it has, or where the HSI does, to which it is then moved by interpolation.
    band_axis, grid, bbox, window, keep_bands, hsi_scale, hsi_offset, msi_scale, msi_offset, hsi_mask, msi_mask
        As of `fastccpd.rasters.Preparation`: how the two files are made ready.
    match_values : bool
        True brings the MSI to the units of the HSI by the scale and offset that are found between the two images.
    fill_nodata : bool
        True fills pixels without data from their neighbours. False: the method leaves them out, or refuses them.
    keep_filled : bool
        True keeps what the method puts where there are no data, rather than to mark it as nodata again.
    uncertainty : path, optional
        A file for the expected error of each pixel, an image of one band.
    output_dtype : "float32", "float64", "int16", "uint16" or "int32", optional
        Of the file that is written. None: `dtype`, and float32 where that is None too.
    output_scale : float
        Stored values are value × output_scale, and the file says so.
    cog : bool
        True writes GeoTIFF as a cloud-optimised one, with overviews.
    overwrite : bool
        Whether outputs that exist may be replaced. Inputs never are.
    method, starts, combine, rng, time_limit, threads, callback, **options
        As of `fastccpd.fuse`.
    dtype : "float32" or "float64", optional
        Precision of work and result. None: that of the data.
    memory : float, optional
        Bytes that images, method and result may take; a MemoryError says where they need more, before a pixel is read.
        None: what is available.
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
    <Raster 16×20×36 float32, tags>
    >>> folder.cleanup()
    """
    remarks = Remarks(messages)
    if dtype is not None:
        as_choice(dtype, "dtype", ("float32", "float64"))
    chosen = method if isinstance(method, methods.Method) else methods.make(method, options)
    form = Output(dtype=output_dtype or dtype or "float32", scale=output_scale, cog=cog)
    wanted = Preparation(
        ratio=ratio,
        band_axis=band_axis,
        grid=grid,
        bbox=bbox,
        window=window,
        keep_bands=keep_bands,
        hsi_scale=hsi_scale,
        hsi_offset=hsi_offset,
        msi_scale=msi_scale,
        msi_offset=msi_offset,
        hsi_mask=hsi_mask,
        msi_mask=msi_mask,
    )
    check_outputs(hsi, msi, psf, srf, {"-o": output, "--uncertainty": uncertainty}, prepared=wanted)
    check_targets(output, uncertainty, overwrite, chosen, starts, combine, cog)
    if memory is not None:
        _check_fits(open_pair(hsi, msi, wanted, Remarks(Unheard()), scan=False), chosen, dtype, memory)
    opened = open_pair(hsi, msi, wanted, remarks)
    blur, degradation, pair, shift = made_ready(
        opened.load(),
        hsi,
        chosen,
        remarks,
        psf=psf,
        srf=srf,
        bands=bands,
        align=align,
        fill_nodata=fill_nodata,
        keep_filled=keep_filled,
    )
    move = move_to(place, blur, pair.grids, pair.msi.shape, remarks)
    levels, pair = _levels(pair, degradation, match_values, remarks)
    cubes = tuple(image.cube.astype(dtype or image.dtype, copy=False) for image in (pair.hsi, pair.msi))
    valid: dict[str, Any] = {"hsi_valid": ~pair.missing_hsi, "msi_valid": ~pair.missing_msi}
    options |= {} if fill_nodata else valid
    stopped = []
    max_iter = getattr(chosen, "max_iter", None)
    with nullcontext(callback) if progress is None else progress(chosen.name, max_iter) as shown:
        called = None if shown is None else _remembering(shown, stopped)
        how: dict[str, Any] = {"starts": starts, "combine": combine, "rng": rng}
        how |= {"time_limit": time_limit, "threads": threads}
        result = fuse(cubes[0], cubes[1], degradation, method=method, callback=called, **how, **options)
    if fill_nodata and pair.missing.any():  # what was filled in is no witness
        result = replace(result, verdict=verdict_of(Problem(cubes[0], cubes[1], degradation, **valid)))
    # Maps need no further starts.
    complete = result.converged and (len(result.start_costs) == starts or result.shown == "maps")
    measured = gaps.emptied(cubes[0], pair.missing_hsi), gaps.emptied(cubes[1], pair.missing_msi)
    seen = degrade(result, degradation)
    compared = zip(("hsi", "msi"), measured, seen, strict=True)
    residuals = {name: relative_residual(image, degraded) for name, image, degraded in compared}
    marked = _marked(np.zeros_like(pair.missing) if keep_filled else pair.missing, move)
    known = {
        "blur": blur.settings,
        "blur_sigma": blur.sigma,
        "moved": blur.moved,
        "offset": pair.grids.offset,
        "shift": shift,
    }
    used = wanted.given() | ({"match_values": str(levels)} if match_values else {}) | {"place": place}
    used |= {"psf": psf, "srf": srf, "bands": bands, "align": align, "starts": starts, "combine": combine}
    used |= {"fill_nodata": fill_nodata, "keep_filled": keep_filled, "dtype": dtype}
    tags = provenance(result, pair, degradation, known, used, hashes_beside(psf, srf, wanted))
    written = _write(output, uncertainty, overwrite, result, move, pair, marked, starts, form, tags, remarks)
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
        levels=levels,
        placement=opened.placement,
        form=form,
        tags=tags,
        move=move,
    )


def _placed(cube, move):
    """A cube as it lies in the output."""
    if move is None:
        return cube
    return move.image(lambda rows, columns: cube[rows, columns], *map(slice, (0, 0), cube.shape[:2]))


def _marked(missing, move):
    """The pixels of the output without data."""
    if move is None:
        return missing
    return move.mask(lambda rows, columns: missing[rows, columns], *map(slice, (0, 0), missing.shape))


def _check_fits(pair, method, dtype, memory):
    needed = pair.memory_needed(method, dtype)
    if needed > memory:
        raise MemoryError(
            f"memory: the images, {method.name} and the result need {needed / 1e9:.2f} GB, and {memory / 1e9:.2f} GB "
            "are allowed; tiles or more memory are needed"
        )


def _remembering(callback, stopped):
    """The callback, which notes in `stopped` that it asked for an end."""

    def called(state):
        if callback(state):
            stopped.append(True)
        return bool(stopped)

    return called


def _levels(pair, degradation, apply, remarks):
    """The scale and offset between the images, and the pair with the MSI in the HSI's units if that is asked for."""
    levels = estimate_levels(pair.hsi.cube, pair.msi.cube, degradation, ~pair.missing_hsi, ~pair.missing_msi)
    if levels is None:
        if apply:
            raise ValueError("--match-values: the images have too little in common to tell a scale; leave it out")
        return None, pair
    if apply:
        remarks.note(f"{levels}; the MSI is brought to the HSI's units")
        cube = (pair.msi.cube - levels.offset) / levels.scale
        return levels, replace(pair, msi=replace(pair.msi, cube=cube, nodata=None))
    if levels.agree:
        plain = np.allclose(degradation.PM.sum(axis=1), 1.0, atol=0.1)
        remarks.note(str(levels) if plain else f"{levels}, beside the gains of the response")
    else:
        remarks.warn(
            f"{levels}; if both are meant to be in the same units, say --msi-scale and --msi-offset, or --match-values "
            "to apply what was found"
        )
    return levels, pair


def _write(output, uncertainty, overwrite, result, move, pair, marked, starts, form, tags, remarks):
    """The image and its uncertainty, as far as they are asked for; the files that were written."""
    written = {}
    if output is not None:
        cube = _placed(result.sri, move)
        rounding = Rounding(form)
        rounding.add(cube, marked)
        rounding.warn(output, remarks)
        write_raster(output, result_raster(cube, pair, marked, form, tags), form, overwrite, remarks)
        written["output"] = str(output)
    if uncertainty is not None and result.uncertainty is None:
        one = len(result.start_costs) == 1 and starts > 1
        why = "one start alone has no spread" if one else "the decomposition is the image, of which none is known"
        remarks.warn(f"{uncertainty}: not written, for {why}")
    elif uncertainty is not None:
        deviation = _placed(result.uncertainty[:, :, None], move)[:, :, 0]
        deviation = deviation.astype(np.float64 if form.dtype == "float64" else np.float32)
        write_raster(uncertainty, map_raster(deviation, pair, marked, tags), form, overwrite, remarks)
        written["uncertainty"] = str(uncertainty)
    return written
