"""What came out of `fastccpd fuse`, for people and programs: the report, the JSON, the lines that end it."""

import importlib.util
from dataclasses import asdict

import numpy as np

from .. import report
from ..model.files import check_free
from ..model.shapes import size_name
from ..rasters.targets import check_outputs
from ..report.figures import figures_of
from .output import print_pairs
from .preparing import preparation_of


def write_report(options, done):
    """The page of pictures and figures; pixels of the images without data are NaN."""
    say = options.messages
    report.fusion(
        options.report,
        done.result,
        *done.images,
        degradation=done.degradation,
        wavelengths=done.pair.hsi.wavelengths,
        msi_wavelengths=done.pair.msi.wavelengths,
        inputs=_inputs(done.pair),
        seen=done.seen,
        residuals=done.residuals,
        snr=done.noise,
        notes=[*say.notes, *say.warnings],
        missing=done.marked if done.marked.any() else None,
        overwrite=options.force,
    )


def write_report_of_tiles(options, done):
    """The page of a scene in tiles, of which no more than a preview is at hand."""
    say, small, plan, shared = options.messages, done.preview, done.fused.plan, done.fused.shared
    images = {"HSI": done.pair.hsi, "MSI": done.pair.msi}
    known = [image.header.wavelengths for image in images.values()]
    known = [None if centres is None else centres[image.bands] for centres, image in zip(known, images.values())]
    notes = [f"fused in {len(plan)} tiles of {plan.tile} MSI pixels, that overlap by {plan.overlap[0]} to each side"]
    if shared is not None:
        notes += [f"{shared.spectra.shape[1]} maps, weight {shared.weight:.2g} of the noise, the same in all tiles"]
    report.fusion(
        options.report,
        small.result,
        *small.images,
        degradation=done.degradation,
        wavelengths=known[0],
        msi_wavelengths=known[1],
        inputs=_listed({name: (done.sources[name.lower()], image.dtype) for name, image in images.items()}),
        seen=small.seen,
        residuals=small.residuals,
        snr=small.snr,
        notes=[*notes, *say.notes, *say.warnings],
        missing=small.missing if small.missing.any() else None,
        every=small.step,
        overwrite=options.force,
    )


def check_report(options):
    """Refuse, before anything is read, a report that cannot or must not be written."""
    if not options.report:
        return
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError('--report needs matplotlib; pip install "fastccpd[plot]"')
    rasters = {"-o": options.output, "--uncertainty": options.uncertainty}
    pages = {"--report": options.report}
    check_outputs(options.hsi, options.msi, options.psf, options.srf, rasters, pages, preparation_of(options))
    check_free([options.report], options.force)


def _inputs(pair):
    """What is known of the inputs, for JSON and the report."""
    return _listed({"HSI": (pair.hsi.source, pair.hsi.dtype), "MSI": (pair.msi.source, pair.msi.dtype)})


def _listed(images):
    """What is known of images, of which source and dtype are given by name."""
    return [
        {
            "name": name,
            "path": source["path"],
            "shape": source["stored_shape"],
            "dtype": str(dtype),
            "layout": source["layout"],
            "sha256": source["sha256"],
        }
        for name, (source, dtype) in images.items()
    ]


def described(options, done):
    """All of it, for JSON."""
    result, pair = done.result, done.pair
    return {
        "verdict": result.verdict.figures(),
        "status": result.status.name.lower(),
        "reason": str(result.status),
        "converged": result.converged,
        "interrupted": done.interrupted,
        "cost": result.cost,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
        "method": result.method,
        "options": result.options,
        "seed": result.seed,
        "start_costs": result.start_costs,
        "combined": result.combined,
        "effective_rank": result.effective_rank,
        "noise": _noise(done),
        "residuals": done.residuals,
        "files": _files(options, done),
        "alignment": _alignment(done),
        "blur": done.blur.settings,
        "blur_sigma": done.blur.sigma,
        "response": options.srf or options.bands,
        "levels": None if done.levels is None else asdict(done.levels) | {"agree": done.levels.agree},
        "nodata": {
            "hsi": int(pair.missing_hsi.sum()),
            "msi": int(pair.missing_msi.sum()),
            "output": int(done.marked.sum()),
        },
        "bands_left_out": [int(band) + 1 for band in np.flatnonzero(~pair.good_hsi)],
        "msi_bands_left_out": [int(band) + 1 for band in np.flatnonzero(~pair.good_msi)],
        "versions": result.provenance["versions"],
        "threads": result.provenance["threads"],
    }


def _files(options, done):
    """What was read and written."""
    shapes = {"HSI": done.pair.hsi.shape, "MSI": done.pair.msi.shape}
    inputs = {
        entry["name"].lower(): entry | {"stored_shape": entry["shape"], "shape": shapes[entry["name"]]}
        for entry in _inputs(done.pair)
    }
    result, pair = done.result, done.pair
    return inputs | {
        "output": {"path": options.output, "shape": (*result.shape[:2], pair.good_hsi.size), "dtype": done.form.dtype},
        "report": options.report,
        "uncertainty": done.written.get("uncertainty"),
    }


def _alignment(done):
    grids, shift = done.pair.grids, done.shift
    return {
        "ratio": grids.ratio,
        "ratio_from": grids.ratio_from,
        "offset": grids.offset,
        "resampled": {"hsi": done.placement.hsi.resampled, "msi": done.placement.msi.resampled},
        "shift": None if shift is None else asdict(shift) | {"matters": shift.matters},
        "blur_moved": done.blur.moved,
        "result_moved": None if done.move is None else done.move.by,
    }


def _noise(done):
    """The estimated noise of both images: its standard deviation in each band, and what that is in dB."""
    if done.noise is None:
        return None
    return {
        name: {"snr_db": done.noise[name], "sigma": sigma} for name, sigma in zip(("hsi", "msi"), done.result.noise)
    }


def print_summary(options, done):
    """The lines that end a fusion."""
    result = done.result
    pairs = [
        ("verdict", str(result.verdict)),
        ("written", f"{options.output}, {size_name((*result.shape[:2], done.pair.good_hsi.size))} {done.form.dtype}"),
        ("method", f"{result.method}, {result.n_iter} iterations in {result.seconds:.1f} s, cost {result.cost:.6g}"),
        ("status", str(result.status)),
        ("blur", str(done.blur)),
        *((name[0].lower() + name[1:], text) for name, text in figures_of(result, done.noise).items()),
        ("left unexplained", "{hsi:.2%} of the HSI, {msi:.2%} of the MSI".format(**done.residuals)),
    ]
    if "uncertainty" in done.written:
        typical = float(np.sqrt(np.mean(np.square(result.uncertainty))))
        pairs.append(("uncertainty", f"{options.uncertainty}, expected error {typical:.4g}"))
    if options.report:
        pairs.append(("report", options.report))
    print_pairs(pairs)
