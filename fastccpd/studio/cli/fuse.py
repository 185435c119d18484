"""`fastccpd fuse HSI MSI -o OUT`: two files into one that is sharp in both."""

import importlib.util
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ... import methods
from ...api import fuse
from ...imaging import degrade
from ...model.checks import check_values
from ...model.files import check_free
from ...model.result import FusionResult
from ...plots import size_name
from .. import alignment, rasters, report
from ..progress import fusion_progress
from . import gaps, operators
from .options import (
    add_band_axis,
    add_method_options,
    add_output_options,
    add_seed,
    add_stopping_options,
    method_settings,
)
from .output import check_output, print_error, print_json, print_pairs
from .pair import read_pair

NOT_CONVERGED = 4


def add(commands):
    verb = commands.add_parser(
        "fuse", help="fuse a hyperspectral and a multispectral image",
        description="Fuse HSI (many bands, coarse pixels) and MSI (few bands, fine pixels) into one image that is "
        "sharp in both, with the MSI's georeferencing and the HSI's wavelengths. Files are npy, npz, mat, ENVI or "
        "GeoTIFF, by their suffix; FILE.npz::NAME picks an array. Exit code 4: not converged, the result is written.",
    )  # fmt: skip
    verb.add_argument("hsi", metavar="HSI", help="the hyperspectral image")
    verb.add_argument("msi", metavar="MSI", help="the multispectral image")
    verb.add_argument("-o", "--output", required=True, metavar="OUT", help="the file to write")
    operators.add_arguments(verb, default_ratio="what georeferencing or sizes say")
    add_method_options(verb)
    verb.add_argument(
        "--starts", type=int, default=1, metavar="N", help="random starts, of which the lowest cost wins (default 1)"
    )
    add_seed(verb, "the random starts")
    verb.add_argument("--threads", type=int, metavar="N", help="threads of the kernels (default: all cores)")
    add_stopping_options(verb)
    add_band_axis(verb)
    verb.add_argument(
        "--fill-nodata", action="store_true",
        help="fill pixels without data from their neighbours for the fusion, and mark them again in the result",
    )  # fmt: skip
    verb.add_argument("--report", metavar="FILE.html", help="also write a page of pictures and figures")
    add_output_options(verb, force="overwrite OUT and the report")
    verb.set_defaults(run=run)


def run(options):
    say = options.messages
    settings = method_settings(options)
    _check_outputs(options)
    pair = read_pair(options, say)
    blur, PM = _operators(options, pair, say)
    pair = pair.without_bad_bands(say).without_gaps(options.fill_nodata, say)
    degradation = operators.degradation(blur, PM[pair.good_msi])
    degradation.check(pair.hsi.shape, pair.msi.shape)
    for name, image in (("hsi", pair.hsi), ("msi", pair.msi)):
        check_values(image.cube, name)
    shift = _shift(pair, degradation, say)
    images = [image.cube if options.dtype is None else image.cube.astype(options.dtype, copy=False)
              for image in (pair.hsi, pair.msi)]  # fmt: skip
    result, interrupted = _fuse(images, degradation, settings, options, say)
    _write(options, pair, result, say)
    done = _Done(result, interrupted, _residuals(result.sri, images, degradation), blur, shift)
    if options.report:
        _report(options, pair, images, degradation, done)
    if options.json:
        print_json(_told(options, pair, done) | say.told())
    elif not options.quiet:
        _print_summary(options, done)
    if interrupted or not result.converged:
        why = "interrupted" if interrupted else result.status
        print_error(f"not converged ({why}); the result is written to {options.output}")
        return NOT_CONVERGED
    return 0


@dataclass(frozen=True)
class _Done:
    """What came out, and what it rests on."""

    result: FusionResult
    interrupted: bool
    residuals: dict[str, float]
    blur: operators.Blur
    shift: alignment.Shift | None


def _check_outputs(options):
    check_output(options.output, options.force)
    inputs = [file for path in (options.hsi, options.msi) for file in _files_of(path.partition("::")[0])]
    if any(os.path.samefile(ours, theirs) for ours in _files_of(options.output) for theirs in inputs):
        raise ValueError(f"-o: {options.output} is one of the inputs, which are never overwritten")
    if options.report:
        if importlib.util.find_spec("matplotlib") is None:
            raise ModuleNotFoundError('--report needs matplotlib; pip install "fastccpd[plot]"')
        check_output(options.report, options.force, check=lambda path, force: check_free([path], force))


def _files_of(path):
    """The existing files that a path stands for: of ENVI there are two, whichever is named."""
    path, envi = Path(path), rasters.FORMATS["envi"]
    beside = [path.with_suffix(suffix) for suffix in envi] if path.suffix.lower() in envi else []
    return [file for file in (path, *beside) if file.exists()]


def _operators(options, pair, say):
    """The blur, and PM for the HSI's good bands and all of the MSI's."""
    blur = operators.blur(
        options.psf, pair.msi.shape[:2], pair.grids.ratio, georeferenced=pair.grids.offset is not None,
        method=options.method,
    )  # fmt: skip
    assumed = blur.settings["assumed"]
    say.note(
        f"the blur is taken to be {blur.text}; give --psf if that is not so" if assumed else f"the blur is {blur.text}"
    )
    PM = operators.response(options.srf, options.bands, pair.hsi, pair.good_hsi, options.hsi, pair.msi.shape[2])
    return blur, PM


def _shift(pair, degradation, say):
    """The shift that the operators do not know of, by georeferencing or else by the images; None if it is not known."""
    if pair.grids.offset is not None:
        shift = alignment.shift_by_georeference(pair.grids, degradation.P1, degradation.P2)
    else:
        shift = alignment.shift_by_images(pair.hsi.cube, pair.msi.cube, degradation)
    if shift is not None and shift.matters:
        say.warn(str(shift))
    return shift


def _fuse(images, degradation, settings, options, say):
    """The result, and whether somebody asked for it before it was done."""
    max_iter = getattr(methods.make(options.method, settings), "max_iter", None)
    with _interruptible() as interrupted, fusion_progress(options.method, max_iter, options.quiet) as show:
        say.hint(f"fusing with {options.method}; Ctrl-C ends it and keeps what there is")

        def callback(state):
            say.release()
            show(state)
            return interrupted.is_set()

        result = fuse(
            *images, degradation, method=options.method, starts=options.starts, rng=options.seed,
            time_limit=options.time_limit, threads=options.threads, callback=callback, **settings,
        )  # fmt: skip
    complete = result.converged and len(result.start_costs) == options.starts
    return result, interrupted.is_set() and not complete


@contextmanager
def _interruptible():
    """An event that the first Ctrl-C sets; the second one is a KeyboardInterrupt again."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def stop(number, frame):
        asked.set()
        signal.signal(signal.SIGINT, before)
        print_error("stopping after this iteration, and writing what there is; Ctrl-C again throws it away")

    before = signal.signal(signal.SIGINT, stop) or signal.SIG_DFL
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _write(options, pair, result, say):
    cube, nodata = result.sri, None
    if pair.missing.any():
        cube, nodata = gaps.marked(cube, pair.missing, pair.msi.nodata)
    output = rasters.Raster(
        cube, wavelengths=pair.hsi.wavelengths, fwhm=pair.hsi.fwhm, nodata=nodata, georeference=pair.msi.georeference
    )
    lost = rasters.lost_by(options.output, output)
    if lost:
        say.warn(f"{options.output}: this format cannot carry {', '.join(lost)}, which is lost")
    rasters.write(options.output, output, overwrite=options.force)


def _residuals(sri, images, degradation):
    """‖image − degraded result‖ / ‖image‖ of both images: the part that the result does not explain."""
    residuals = {}
    for name, image, seen in zip(("hsi", "msi"), images, degrade(sri, degradation), strict=True):
        size = np.linalg.norm(image.astype(np.float64).ravel())
        residuals[name] = float(np.linalg.norm((image - seen).ravel()) / size) if size else 0.0
    return residuals


def _inputs(pair):
    """What is known of the inputs, for JSON and the report."""
    return [
        {"name": name, "path": image.source["path"], "shape": image.source["stored_shape"], "dtype": str(image.dtype),
         "layout": image.source["layout"], "sha256": image.source["sha256"]}
        for name, image in (("HSI", pair.hsi), ("MSI", pair.msi))
    ]  # fmt: skip


def _told(options, pair, done):
    """All of it, for JSON."""
    result, shift, grids = done.result, done.shift, pair.grids
    shapes = {"HSI": pair.hsi.shape, "MSI": pair.msi.shape}
    inputs = {
        entry["name"].lower(): entry | {"stored_shape": entry["shape"], "shape": shapes[entry["name"]]}
        for entry in _inputs(pair)
    }
    return {
        "status": result.status.name.lower(), "reason": str(result.status), "converged": result.converged,
        "interrupted": done.interrupted, "cost": result.cost, "n_iter": result.n_iter, "seconds": result.seconds,
        "method": result.method, "options": result.options, "seed": result.seed, "start_costs": result.start_costs,
        "residuals": done.residuals,
        "files": inputs | {"output": {"path": options.output, "shape": result.sri.shape, "dtype": str(result.dtype)},
                           "report": options.report},
        "alignment": {"ratio": grids.ratio, "ratio_from": grids.ratio_from, "offset": grids.offset,
                      "shift": None if shift is None else asdict(shift) | {"matters": shift.matters}},
        "blur": done.blur.settings, "response": options.srf or options.bands,
        "nodata": {"hsi": int(pair.missing_hsi.sum()), "msi": int(pair.missing_msi.sum()),
                   "output": int(pair.missing.sum())},
        "bands_left_out": [int(band) + 1 for band in np.flatnonzero(~pair.good_hsi)],
        "versions": result.provenance["versions"], "threads": result.provenance["threads"],
    }  # fmt: skip


def _report(options, pair, images, degradation, done):
    say = options.messages
    report.fusion(
        options.report, done.result, *images, degradation=degradation, wavelengths=pair.hsi.wavelengths,
        msi_wavelengths=pair.msi.wavelengths, inputs=_inputs(pair), notes=[*say.notes, *say.warnings],
        missing=pair.missing if pair.missing.any() else None, overwrite=options.force,
    )  # fmt: skip


def _print_summary(options, done):
    result = done.result
    pairs = [
        ("written", f"{options.output}, {size_name(result.sri.shape)} {result.dtype}"),
        ("method", f"{result.method}, {result.n_iter} iterations in {result.seconds:.1f} s, cost {result.cost:.6g}"),
        ("status", str(result.status)),
        ("left unexplained", "{hsi:.2%} of the HSI, {msi:.2%} of the MSI".format(**done.residuals)),
    ]
    if options.report:
        pairs.append(("report", options.report))
    print_pairs(pairs)
