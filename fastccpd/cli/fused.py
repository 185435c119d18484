"""What came out of `fastccpd fuse`: the files that are written, and what is told of it."""

from dataclasses import asdict, dataclass

import numpy as np

from .. import formats, report
from ..estimation.shift import Shift
from ..model.result import FusionResult
from ..model.shapes import size_name
from ..rasters import gaps, operators
from ..report.figures import figures_of
from .output import print_pairs


@dataclass(frozen=True)
class Done:
    """What came out, and what it rests on.

    Attributes
    ----------
    result : FusionResult
    interrupted : bool
    residuals : dict
        ‖image − degraded result‖ / ‖image‖ of "hsi" and "msi", where they have data.
    noise : dict or None
        Their estimated signal-to-noise ratios in dB.
    marked : (rows, columns) bool array
        The pixels of the result that are marked as nodata.
    blur, shift
    """

    result: FusionResult
    interrupted: bool
    residuals: dict[str, float]
    noise: dict[str, float] | None
    marked: np.ndarray
    blur: operators.Blur
    shift: Shift | None


def write(options, pair, done):
    """The image, and its uncertainty if that is asked for; both on the MSI's grid."""
    known = {"wavelengths": pair.hsi.wavelengths, "fwhm": pair.hsi.fwhm}
    _write(options.output, done.result.sri, pair, done.marked, options, **known)
    if options.uncertainty:
        deviation = done.result.uncertainty
        if deviation is None:
            one = len(done.result.start_costs) == 1 and options.starts > 1
            why = "one start alone has no spread" if one else "the decomposition is the image, of which none is known"
            options.messages.warn(f"{options.uncertainty}: not written, for {why}")
        else:
            deviation = deviation[:, :, None].astype(done.result.dtype)
            _write(options.uncertainty, deviation, pair, done.marked, options)


def _write(path, cube, pair, marked, options, **known):
    nodata = None
    if marked.any():
        cube, nodata = gaps.marked(cube, marked, pair.msi.nodata)
    output = formats.Raster(cube, **known, nodata=nodata, georeference=pair.msi.georeference)
    lost = formats.lost_by(path, output)
    if lost:
        options.messages.warn(f"{path}: this format cannot carry {', '.join(lost)}, which is lost")
    formats.write(path, output, overwrite=options.force)


def write_report(options, pair, images, degradation, done):
    """The page of pictures and figures; pixels of the images without data are NaN."""
    say = options.messages
    report.fusion(
        options.report, done.result, *images, degradation=degradation, wavelengths=pair.hsi.wavelengths,
        msi_wavelengths=pair.msi.wavelengths, inputs=_inputs(pair), notes=[*say.notes, *say.warnings],
        missing=done.marked if done.marked.any() else None, overwrite=options.force,
    )  # fmt: skip


def _inputs(pair):
    """What is known of the inputs, for JSON and the report."""
    return [
        {"name": name, "path": image.source["path"], "shape": image.source["stored_shape"], "dtype": str(image.dtype),
         "layout": image.source["layout"], "sha256": image.source["sha256"]}
        for name, image in (("HSI", pair.hsi), ("MSI", pair.msi))
    ]  # fmt: skip


def told(options, pair, done):
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
        "combined": result.combined, "effective_rank": result.effective_rank, "noise": _noise(done),
        "residuals": done.residuals,
        "files": inputs | {"output": {"path": options.output, "shape": result.shape, "dtype": str(result.dtype)},
                           "report": options.report,
                           "uncertainty": None if result.uncertainty is None else options.uncertainty},
        "alignment": {"ratio": grids.ratio, "ratio_from": grids.ratio_from, "offset": grids.offset,
                      "shift": None if shift is None else asdict(shift) | {"matters": shift.matters}},
        "blur": done.blur.settings, "response": options.srf or options.bands,
        "nodata": {"hsi": int(pair.missing_hsi.sum()), "msi": int(pair.missing_msi.sum()),
                   "output": int(done.marked.sum())},
        "bands_left_out": [int(band) + 1 for band in np.flatnonzero(~pair.good_hsi)],
        "versions": result.provenance["versions"], "threads": result.provenance["threads"],
    }  # fmt: skip


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
        ("written", f"{options.output}, {size_name(result.shape)} {result.dtype}"),
        ("method", f"{result.method}, {result.n_iter} iterations in {result.seconds:.1f} s, cost {result.cost:.6g}"),
        ("status", str(result.status)),
        *((name[0].lower() + name[1:], text) for name, text in figures_of(result, done.noise).items()),
        ("left unexplained", "{hsi:.2%} of the HSI, {msi:.2%} of the MSI".format(**done.residuals)),
    ]
    if options.uncertainty and result.uncertainty is not None:
        typical = float(np.sqrt(np.mean(np.square(result.uncertainty))))
        pairs.append(("uncertainty", f"{options.uncertainty}, expected error {typical:.4g}"))
    if options.report:
        pairs.append(("report", options.report))
    print_pairs(pairs)
