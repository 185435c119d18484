"""`fastccpd fuse HSI MSI -o OUT`: two files into one that is sharp in both."""

import importlib.util
import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .. import formats, methods
from ..api import fuse
from ..estimation.fit import estimated_snr, relative_residual
from ..estimation.shift import shift_by_images
from ..imaging import degrade
from ..model.checks import check_values
from ..model.files import check_free
from ..rasters import gaps, operators
from ..rasters.grids import shift_by_georeference
from ..rasters.pair import read_pair
from . import fused
from .options import (
    add_band_axis,
    add_method_options,
    add_output_options,
    add_seed,
    add_stopping_options,
    method_settings,
)
from .output import check_output, print_error, print_json
from .progress import fusion_progress

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
    verb.add_argument("--starts", type=int, default=1, metavar="N", help="random starts (default 1)")
    verb.add_argument(
        "--combine", choices=("best", "mean"), default="best",
        help="whether the image is that of the start with the lowest cost, or the mean of all (default best)",
    )  # fmt: skip
    add_seed(verb, "the random starts")
    verb.add_argument("--threads", type=int, metavar="N", help="threads of the kernels (default: all cores)")
    add_stopping_options(verb)
    add_band_axis(verb)
    verb.add_argument(
        "--fill-nodata", action="store_true",
        help="fill pixels without data from their neighbours; else they are left out, or refused if the method cannot",
    )  # fmt: skip
    verb.add_argument(
        "--keep-filled", action="store_true",
        help="keep what the method puts where there are no data, rather than mark it as nodata again",
    )  # fmt: skip
    verb.add_argument(
        "--uncertainty", metavar="FILE", help="also write the expected error of each pixel, as an image of one band"
    )
    verb.add_argument("--report", metavar="FILE.html", help="also write a page of pictures and figures")
    add_output_options(verb, force="overwrite all that is written")
    verb.set_defaults(run=run)


def run(options):
    say = options.messages
    settings = method_settings(options)
    method = methods.get(options.method)
    _check_outputs(options, method)
    pair = read_pair(options, say)
    blur, PM = _operators(options, pair, say)
    pair = pair.without_bad_bands(say).without_gaps(method, options.fill_nodata, options.keep_filled, say)
    degradation = operators.degradation(blur, PM[pair.good_msi])
    degradation.check(pair.hsi.shape, pair.msi.shape)
    for name, image in (("hsi", pair.hsi), ("msi", pair.msi)):
        check_values(image.cube, name)
    shift = _shift(pair, degradation, say)
    images = [image.cube if options.dtype is None else image.cube.astype(options.dtype, copy=False)
              for image in (pair.hsi, pair.msi)]  # fmt: skip
    if not options.fill_nodata:
        settings |= {"hsi_valid": ~pair.missing_hsi, "msi_valid": ~pair.missing_msi}
    result, interrupted = _fuse(images, degradation, method, settings, options, say)
    measured = [gaps.emptied(image, gone) for image, gone in zip(images, (pair.missing_hsi, pair.missing_msi))]
    residuals = {name: relative_residual(image, seen)
                 for name, image, seen in zip(("hsi", "msi"), measured, degrade(result, degradation))}  # fmt: skip
    marked = np.zeros_like(pair.missing) if options.keep_filled else pair.missing
    done = fused.Done(result, interrupted, residuals, estimated_snr(result, *measured), marked, blur, shift)
    fused.write(options, pair, done)
    if options.report:
        fused.write_report(options, pair, measured, degradation, done)
    if options.json:
        print_json(fused.told(options, pair, done) | say.told())
    elif not options.quiet:
        fused.print_summary(options, done)
    if interrupted or not result.converged:
        why = "interrupted" if interrupted else result.status
        print_error(f"not converged ({why}); the result is written to {options.output}")
        return NOT_CONVERGED
    return 0


def _check_outputs(options, method):
    """Refuse, before anything is read, what cannot or must not be written."""
    check_output(options.output, options.force)
    written = {"-o": options.output}
    if options.uncertainty:
        by_starts = method.has_starts and options.starts > 1 and options.combine == "mean"
        if not (method.tells_uncertainty or by_starts):
            able = " or ".join(name for name in methods.names() if methods.get(name).tells_uncertainty)
            spread = ", or several --starts with --combine mean," if method.has_starts else ""
            raise ValueError(f"--uncertainty: {method.name} tells none; --method {able}{spread} is needed")
        check_output(options.uncertainty, options.force)
        if set(_names_of(options.output)) & set(_names_of(options.uncertainty)):
            raise ValueError(f"--uncertainty: {options.uncertainty} is the output too; another file is needed")
        written["--uncertainty"] = options.uncertainty
    inputs = [file for path in (options.hsi, options.msi) for file in _files_of(path.partition("::")[0])]
    for option, path in written.items():
        if any(os.path.samefile(ours, theirs) for ours in _files_of(path) for theirs in inputs):
            raise ValueError(f"{option}: {path} is one of the inputs, which are never overwritten")
    if options.report:
        if importlib.util.find_spec("matplotlib") is None:
            raise ModuleNotFoundError('--report needs matplotlib; pip install "fastccpd[plot]"')
        check_output(options.report, options.force, check=lambda path, force: check_free([path], force))


def _names_of(path):
    """The files that a path stands for: of ENVI there are two, whichever is named."""
    path, envi = Path(path).absolute(), formats.FORMATS["envi"]
    beside = [path.with_suffix(suffix) for suffix in envi] if path.suffix.lower() in envi else []
    return [path, *beside]


def _files_of(path):
    """Those of them that exist."""
    return [file for file in _names_of(path) if file.exists()]


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
        shift = shift_by_georeference(pair.grids, degradation.P1, degradation.P2)
    else:
        shift = shift_by_images(pair.hsi.cube, pair.msi.cube, degradation)
    if shift is not None and shift.matters:
        say.warn(str(shift))
    return shift


def _fuse(images, degradation, method, settings, options, say):
    """The result, and whether somebody asked for it before it was done."""
    max_iter = settings.get("max_iter", getattr(method, "max_iter", None))
    with _interruptible() as interrupted, fusion_progress(options.method, max_iter, options.quiet) as show:
        say.hint(f"fusing with {options.method}; Ctrl-C ends it and keeps what there is")

        def callback(state):
            say.release()
            show(state)
            return interrupted.is_set()

        result = fuse(
            *images, degradation, method=options.method, starts=options.starts, combine=options.combine,
            rng=options.seed, time_limit=options.time_limit, threads=options.threads, callback=callback, **settings,
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
