"""`fastccpd fuse` in tiles: its options, when it is used, and what it prints."""

import argparse
import re
import signal
import threading
from contextlib import contextmanager
from dataclasses import asdict

from .. import methods
from ..model.shapes import size_name
from ..rasters.preparation import open_pair
from ..rasters.remarks import Remarks, Unheard
from ..rasters.tiling import folder_of, fuse_files_in_tiles, needs_tiles
from ..rasters.writing import Output
from .fused import check_report, write_report_of_tiles
from .options import fusion_arguments
from .output import naming_force, print_error, print_json, print_pairs
from .preparing import preparation_of
from .progress import tiles_progress

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def add_tile_options(verb):
    """--tile, --memory, --workers, --resume and --scheduler."""
    group = verb.add_argument_group("scenes that do not fit into memory are fused in tiles, and others if asked to")
    add_size_options(group)
    group.add_argument("--workers", type=int, metavar="N", help="processes of one thread each (one for each core)")
    group.add_argument(
        "--resume", action="store_true", help="go on with the tiles of a run that was ended, in OUT.tiles"
    )
    group.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a dask cluster that sees the same files, to work on instead"
    )


def add_size_options(verb, default_memory="half of what is available"):
    """--tile and --memory."""
    verb.add_argument(
        "--tile", type=int, metavar="N", help="side of a tile in MSI pixels (512, less for little memory)"
    )
    verb.add_argument(
        "--memory", type=bytes_of, metavar="M", help=f"for all processes together, as in 4G ({default_memory})"
    )


def asks_for_tiles(options):
    """Whether an option of tiles is given."""
    given = (options.tile, options.memory, options.workers, options.scheduler)
    return options.resume or any(value is not None for value in given)


def fits_whole(options, settings):
    """Whether a scene fits into memory; what cannot be read fits, and is refused by whoever reads it."""
    method = methods.make(options.method, settings)
    # With all of its bands most scenes fit; only where they do not, pixels are read to tell which bands are good.
    return any(_fits(options, method, scan) for scan in (False, True))


def _fits(options, method, scan):
    try:
        pair = open_pair(options.hsi, options.msi, preparation_of(options), Remarks(Unheard()), scan=scan)
    except (ValueError, TypeError, OSError, ImportError):
        return True
    return not needs_tiles(pair, method, options.dtype)


def run_in_tiles(options, settings):
    """Fuse in tiles; the exit code."""
    with naming_force():
        check_report(options)
    folder = folder_of(options.output)
    if folder.exists() and not (options.resume or options.force):
        raise FileExistsError(
            f"{folder}: holds tiles of a run that was ended; --resume goes on with them, --force begins anew"
        )
    seen = []
    form = Output(dtype=options.output_dtype or options.dtype or "float32", scale=options.output_scale, cog=options.cog)
    try:
        with naming_force(), interrupted_by_terminate(), tiles_progress(options.method, options.quiet) as shown:
            show, writing = shown

            def progress(entry):
                if entry.stage == "tiles":
                    options.messages.release()
                seen.append(entry)
                show(entry)

            done = fuse_files_in_tiles(
                options.hsi,
                options.msi,
                options.output,
                wanted=preparation_of(options),
                form=form,
                resume=options.resume,
                tile=options.tile,
                memory=options.memory,
                workers=options.workers,
                client=options.scheduler,
                preview=bool(options.report),
                progress=progress,
                writing=writing,
                **fusion_arguments(options),
                **settings,
            )
    except KeyboardInterrupt:
        last = seen[-1] if seen else None
        tiles = f"{last.done} of {last.total} tiles are" if last and last.total else "what is done is"
        print_error(f"interrupted; {tiles} kept in {folder}, and the same command with --resume goes on")
        return 130
    if options.report:
        write_report_of_tiles(options, done)
    _print(options, done)
    if done.fused.verdict.disagrees:
        print_error(f"{done.fused.verdict}; the result is written to {options.output}")
        return 5
    if done.fused.converged:
        return 0
    print_error(f"not converged ({done.fused.status}); the result is written to {options.output}")
    return 4


@contextmanager
def interrupted_by_terminate():
    """SIGTERM is a Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print(options, done):
    fused, plan = done.fused, done.fused.plan
    without = sum(status is None for status in fused.statuses.values())
    if options.json:
        print_json(
            {
                "verdict": fused.verdict.figures(),
                "status": fused.status.name.lower(),
                "reason": str(fused.status),
                "converged": fused.converged,
                "seconds": fused.seconds,
                "method": fused.method,
                "tiles": {"number": len(plan), "without_data": without, "side": plan.tile, "overlap": plan.overlap},
                "shared": None
                if fused.shared is None
                else {"weight": fused.shared.weight, "maps": fused.shared.spectra.shape[1]},
                "noise": None
                if fused.shared is None
                else {"hsi": fused.shared.noise.hsi, "msi": fused.shared.noise.msi},
                "nodata": {"output": done.nodata},
                "residuals": None if done.preview is None else done.preview.residuals,
                "files": done.written
                | {"output": {"path": options.output, "shape": fused.shape}, "report": options.report},
                "alignment": {
                    "shift": None if done.shift is None else asdict(done.shift) | {"matters": done.shift.matters},
                    "blur_moved": done.blur.moved,
                    "result_moved": None if done.move is None else done.move.by,
                },
                "blur": done.blur.settings,
                **options.messages.said(),
            }
        )
    elif not options.quiet:
        speed = plan.shape[0] * plan.shape[1] / max(fused.seconds, 1e-9) / 1e6
        print_pairs(
            [
                ("verdict", str(fused.verdict)),
                ("written", f"{options.output}, {size_name(fused.shape)}"),
                (
                    "method",
                    f"{fused.method}, {len(plan)} tiles of {plan.tile} in {fused.seconds:.1f} s, {speed:.3g} Mpx/s",
                ),
                ("status", str(fused.status)),
                ("blur", str(done.blur)),
                *([("report", options.report)] if options.report else []),
            ]
        )


def bytes_of(text):
    """A number of bytes: 4G, 500MB, 3e9."""
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    try:
        if found is None:
            raise ValueError
        return float(found[1]) * _UNITS[found[2]]
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}; a number of bytes, as in 4G or 500M, is needed") from None
