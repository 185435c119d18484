"""`fastccpd fuse HSI MSI -o OUT`: two files into one that is sharp in both."""

import signal
import threading
from contextlib import contextmanager
from functools import partial

from ..rasters import fuse_files
from ..rasters.writing import DTYPES
from . import fused
from .options import (
    add_band_axis,
    add_fusion_options,
    add_operator_options,
    add_output,
    add_output_options,
    fusion_arguments,
    method_settings,
)
from .output import naming_force, print_error, print_json
from .preparing import add_preparation_options, preparation_of
from .progress import fusion_progress
from .tiles import add_tile_options, asks_for_tiles, fits_whole, run_in_tiles

NOT_CONVERGED = 4
DISAGREE = 5


def add(commands):
    verb = commands.add_parser(
        "fuse",
        help="fuse a hyperspectral and a multispectral image",
        description="Fuse HSI (many bands, coarse pixels) and MSI (few bands, fine pixels) into one image that is "
        "sharp in both, with the HSI's bands. The files may differ in coordinate system, grid and extent. They are "
        "npy, npz, mat, ENVI, GeoTIFF, JPEG 2000, VRT, NetCDF or Zarr, by their suffix, or products of EnMAP, PRISMA, "
        "Sentinel-2 (SAFE folder or zip) and Landsat (folder); FILE.npz::NAME picks an array, PRODUCT.SAFE::20m or "
        "::B02,B8A bands. Exit code 4: not converged, 5: the images disagree; the result is written all the same.",
    )
    verb.add_argument("hsi", metavar="HSI", help="the hyperspectral image")
    verb.add_argument("msi", metavar="MSI", help="the multispectral image")
    add_output(verb, "OUT", "the file to write")
    add_operator_options(verb, default_ratio="what georeferencing or sizes say")
    add_preparation_options(verb)
    verb.add_argument(
        "--place",
        choices=("msi", "hsi"),
        default="msi",
        help="where the result lies on its grid, if the images are shifted against each other: where the MSI does "
        "(default), or where the HSI does, to which it is moved by interpolation",
    )
    verb.add_argument(
        "--match-values",
        action="store_true",
        help="bring the MSI to the HSI's units by the scale and offset that are found between the two images",
    )
    add_fusion_options(verb)
    verb.add_argument("--starts", type=int, default=1, metavar="N", help="random starts (default 1)")
    verb.add_argument(
        "--combine",
        choices=("best", "mean"),
        default="best",
        help="whether the image is that of the start with the lowest cost, or the mean of all (default best)",
    )
    verb.add_argument("--threads", type=int, metavar="N", help="threads of the kernels (default: all cores)")
    add_band_axis(verb)
    verb.add_argument(
        "--fill-nodata",
        action="store_true",
        help="fill pixels without data from their neighbours; else they are left out, or refused if the method cannot",
    )
    verb.add_argument(
        "--keep-filled",
        action="store_true",
        help="keep what the method puts where there are no data, rather than mark it as nodata again",
    )
    verb.add_argument(
        "--uncertainty", metavar="FILE", help="also write the expected error of each pixel, as an image of one band"
    )
    verb.add_argument(
        "--output-dtype",
        choices=DTYPES,
        help="of the file that is written (default: --dtype, else float32)",
    )
    verb.add_argument(
        "--output-scale",
        type=float,
        default=1.0,
        metavar="X",
        help="write value × X, as in --output-dtype int16 --output-scale 10000; the file says so (default 1)",
    )
    verb.add_argument("--cog", action="store_true", help="write GeoTIFF as a cloud-optimised one, with overviews")
    add_tile_options(verb)
    verb.add_argument("--report", metavar="FILE.html", help="also write a page of pictures and figures")
    add_output_options(verb, force="overwrite all that is written")
    verb.set_defaults(run=run)


def run(options):
    say = options.messages
    settings = method_settings(options)
    if asks_for_tiles(options) or not fits_whole(options, settings):
        return run_in_tiles(options, settings)
    with naming_force():
        fused.check_report(options)
        done = fuse_files(
            options.hsi,
            options.msi,
            options.output,
            output_dtype=options.output_dtype,
            output_scale=options.output_scale,
            cog=options.cog,
            threads=options.threads,
            progress=partial(_shown, options),
            **vars(preparation_of(options)),
            **fusion_arguments(options),
            **settings,
        )
    if options.report:
        fused.write_report(options, done)
    if options.json:
        print_json(fused.described(options, done) | say.said())
    elif not options.quiet:
        fused.print_summary(options, done)
    if done.result.verdict.disagrees:
        print_error(f"{done.result.verdict}; the result is written to {options.output}")
        return DISAGREE
    if done.interrupted or not done.result.converged:
        why = "interrupted" if done.interrupted else done.result.status
        print_error(f"not converged ({why}); the result is written to {options.output}")
        return NOT_CONVERGED
    return 0


@contextmanager
def _shown(options, method, max_iter):
    """The callback that shows a fusion's progress, and ends it after a Ctrl-C."""
    say = options.messages
    begun = threading.Event()
    with _interruptible(begun) as interrupted, fusion_progress(method, max_iter, options.quiet) as show:
        say.hint(f"fusing with {method}; Ctrl-C ends it and keeps what there is")

        def callback(state):
            begun.set()
            say.release()
            show(state)
            return interrupted.is_set()

        yield callback


@contextmanager
def _interruptible(begun):
    """An event that the first Ctrl-C, or SIGTERM, sets; the second one does what it did before.

    As long as `begun` is not set there is nothing that could be kept, and the first one ends it all.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def stop(number, frame):
        put_back()
        if not begun.is_set():
            raise KeyboardInterrupt
        asked.set()
        print_error("stopping after this iteration, and writing what there is; Ctrl-C again throws it away")

    def put_back():
        for number, handler in before.items():
            signal.signal(number, handler)

    numbers = signal.SIGINT, signal.SIGTERM
    before = {number: signal.signal(number, stop) or signal.SIG_DFL for number in numbers}
    try:
        yield asked
    finally:
        put_back()
