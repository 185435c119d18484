"""A fusion as one HTML file to look at, send and print: what went in, how it was done, how good it is, pictures.

Without a truth there is nothing to score against. What can be said then is how well the result, degraded again,
explains the two images: 20 log10(‖image − degraded result‖ / ‖image‖) in dB, to be compared with their noise.
"""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path, PureWindowsPath

import numpy as np

from .. import methods, plots
from ..imaging import score
from ..model.files import write_whole
from ..model.result import FusionResult
from ..model.shapes import size_name
from .case import Given, case_of, view_of
from .figures import figures_of
from .html import Markup, element, number, page, pairs, picture, table
from .operators import blur_figure, response_figure
from .scores import score_table

__all__ = ["fusion"]

# Of estimates that are shown beside the result.
_RIVALS = (
    "Other methods run at the settings that their authors publish, without tuning to this scene; unless a name says "
    "otherwise."
)


def fusion(
    path,
    result,
    hsi,
    msi,
    *,
    truth=None,
    estimates=None,
    degradation=None,
    wavelengths=None,
    msi_wavelengths=None,
    inputs=(),
    scores=None,
    seen=None,
    residuals=None,
    snr=None,
    notes=(),
    title="Fusion report",
    pixels=None,
    missing=None,
    band=None,
    quantity="value",
    every=1,
    overwrite=False,
):
    """Write a report of one fusion.

    Parameters
    ----------
    path : path
        The HTML file. Its folder is made if only that is missing.
    result : FusionResult
    hsi, msi : arrays (rows, columns, bands)
        What was fused; NaN where there are no data.
    truth : (rows, columns, bands) array, optional
        The scene itself, where known: then residuals and spectral angles are shown.
    estimates : dict of name to image, optional
        Other estimates, arrays or results, to show beside.
    degradation : Degradation, optional
        The operators: with them the report says how well the result explains the two images.
    wavelengths : (bands,) array, optional
        Band centres of the HSI, in nm.
    msi_wavelengths : array, optional
        Those of the MSI; None takes the means of `wavelengths` under the degradation's PM, where both are given.
    inputs : sequence of dict, optional
        For each file its name, path, shape, dtype, layout and sha256. None given: the arrays themselves are hashed.
    scores : dict of row name to dict of metric to value, optional
        The table of metrics. None with a truth: `fastccpd.imaging.score` of all estimates.
    seen : (hsi, msi) pair of arrays, optional
        The result as the two sensors would see it, where it is known already: ``degrade(result, degradation)``. None:
        it is computed from `degradation`.
    residuals : dict, optional
        ‖image − degraded result‖ / ‖image‖ of "hsi" and "msi", where known already. None: they are computed from
        `seen` or `degradation`.
    snr : dict, optional
        The estimated signal-to-noise ratios of "hsi" and "msi" in dB, where known already. None: those of the noise
        that the method has estimated.
    notes : str or sequence of str, optional
        Sentences for the summary.
    title : str
    pixels : sequence of (row, column), optional
        Whose spectra are shown; None: `fastccpd.plots.pick_pixels` of the truth, or of the result.
    missing : (rows, columns) bool array, optional
        Pixels of the result without data, drawn grey.
    band : int, optional
        The band, from 0, whose picture and residual are shown; None: the green one of the composite.
    quantity : str
        What the values are, for the labels: "reflectance", "counts", …; "value" if nothing is said.
    every : int
        Of a scene too large to be held: result and images are every so many-th of its pixels in rows and columns, and
        `seen`, at the same pixels, and `residuals`, of all, are given. `degradation` is that of the whole scene.
    overwrite : bool
        Whether an existing file may be replaced.

    Returns
    -------
    pathlib.Path
        The file, written whole or not at all.
    """
    target = _check_target(path, overwrite)
    given = Given(seen, residuals, snr)
    case = case_of(result, hsi, msi, truth, estimates, degradation, wavelengths, msi_wavelengths, given, every)
    case.view = view_of(case, missing, quantity, band, pixels)
    sections = {
        "Summary": _summary(case, notes),
        "Inputs": _inputs(inputs or _hashed(case)),
        "Parameters": _parameters(case),
        "Metrics": _metrics(case, scores),
        "Colour composites": _composites(case),
        **({"Residuals and spectral angles": _errors(case)} if case.truth is not None else {"Fit": _fit(case)}),
        **({} if result.uncertainty is None else {"Uncertainty": _uncertainty(case)}),
        **({} if degradation is None else {"Blur and response": _operators(case)}),
        "Spectra": _spectra(case),
        **({"Convergence": _convergence(case)} if result.trace.cost else {}),
        "Versions": _versions(case),
    }
    content = page(title, sections).encode("utf-8", "backslashreplace")
    target.parent.mkdir(exist_ok=True)
    write_whole(target, content, overwrite)
    return target


def _check_target(path, overwrite):
    """Refuse a path that cannot or must not be written, before any work is done."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"path: {target} is a folder; the name of a file is needed")
    if target.exists() and not overwrite:
        raise FileExistsError(f"path: {target} exists; overwrite=True would replace it")
    if not target.absolute().parent.parent.is_dir():
        raise FileNotFoundError(f"path: there is no folder {target.absolute().parent.parent}; make it first")
    return target


def _summary(case, notes):
    result, (hsi, msi, sri) = case.result, case.sizes
    rows = {
        "Verdict": element("strong", result.verdict),
        "Fused": f"HSI {size_name(hsi)} and MSI {size_name(msi)} into {size_name(sri)} (rows×columns×bands)",
        "Method": result.method,
        "Status": str(result.status),
        **({"Iterations": f"{result.n_iter}, final cost {number(result.cost)}"} if result.trace.cost else {}),
        "Time": f"{number(result.seconds)} s",
    }
    rows |= figures_of(result, case.snr)
    if case.view.missing is not None:
        rows["Missing"] = (
            f"{np.count_nonzero(case.view.missing)} of {np.size(case.view.missing)} pixels{_looked_at(case)}, grey in "
            "pictures"
        )
    rows["Truth"] = "not known" if case.truth is None else "known: errors are measured against it"
    listed = [element("li", note) for note in ([notes] if isinstance(notes, str) else notes)]
    return pairs(rows) + (element("h3", "Notes") + element("ul", *listed) if listed else Markup())


def _inputs(inputs):
    columns = ("name", "path", "shape", "dtype", "layout", "sha256")
    heads = ("Input", "File", "Shape", "Type", "Layout", "SHA-256")
    rows = [[_input_cell(key, entry.get(key)) for key in columns] for entry in inputs]
    return table(heads, rows)


def _input_cell(key, value):
    if value is None or value == "":
        return "–"
    if key == "path":
        # The last part only, of a Windows path too: where a file lies is nobody else's concern.
        return PureWindowsPath(str(value)).name
    if key == "shape" and not isinstance(value, str):
        return size_name(value)
    return element("code", value) if key == "sha256" else value


def _hashed(case):
    """The arrays as inputs of their own, where no files are named."""
    cubes = {"HSI": case.hsi, "MSI": case.msi} | ({} if case.truth is None else {"truth": case.truth})
    layout = "array (rows, columns, bands); the hash is of its bytes in C order"
    return [
        {"name": name, "shape": cube.shape, "dtype": cube.dtype, "sha256": _sha256(cube), "layout": layout}
        for name, cube in cubes.items()
    ]


def _sha256(cube):
    digest = hashlib.sha256()
    for row in cube:
        digest.update(np.ascontiguousarray(row).data)
    return digest.hexdigest()


def _parameters(case):
    result = case.result
    made = result.provenance
    seed = result.seed if isinstance(result.seed, int) else element("code", json.dumps(result.seed, default=str))
    rows = {name: element("code", _plain(value)) for name, value in result.options.items()}
    rows |= {"seed": seed, "threads": made.get("threads", "–"), "precision": made.get("dtype", result.dtype)}
    degradation = str(made.get("degradation", "–")).strip("<>").removeprefix("Degradation: ")
    return pairs({"method": result.method, **rows, "degradation": degradation})


def _metrics(case, scores):
    parts = []
    if scores is None and case.truth is not None:
        ratio = case.msi.shape[0] / case.hsi.shape[0]
        scores = {name: score(_whole(image), case.truth, ratio) for name, image in case.estimates.items()}
    if scores:
        parts += [score_table(scores, case.view.quantity)]
    elif case.truth is None:
        parts += [element("p", "The truth is not known, so the result cannot be scored against it.")]
    if scores and len(case.estimates) > 1:
        parts += [element("p", _RIVALS, class_="small")]
    if case.residuals is not None:
        parts += [_residual_table(case)]
    elif case.truth is None:
        parts += [element("p", "Nor is the degradation, so how well the result explains the images is not known.")]
    return Markup("".join(parts))


def _residual_table(case):
    heads = ("Image", "‖image − degraded result‖ / ‖image‖ (dB)")
    rows = [[name.upper(), number(_decibels(case.residuals[name]))] for name in ("hsi", "msi")]
    said = (
        "How well the result explains what was measured: about minus the signal-to-noise ratio of an image is right; "
        "far above it something does not fit, far below it noise has been fitted."
    )
    return (
        element("h3", "Fit to the images")
        + table(heads, rows, numbers=True)
        + element("p", said + _of_missing(case), class_="small")
    )


def _decibels(ratio):
    with np.errstate(divide="ignore"):
        return float(20.0 * np.log10(ratio))


def _of_missing(case):
    """What becomes of pixels without data: NaN has no part in any figure, but what fills a gap has."""
    if any(np.isnan(row).any() for image in (case.hsi, case.msi) if image.dtype.kind == "f" for row in image):
        return " Pixels without data have no part in it."
    return "" if case.view.missing is None else " Filled values of missing pixels take part."


def _composites(case):
    images = {"HSI": case.hsi, "MSI": case.msi, case.result_name: case.result}
    images |= {} if case.truth is None else {"truth": case.truth}
    images |= {name: image for name, image in case.estimates.items() if name not in images}
    reference = case.result_name if case.truth is None else "truth"
    known = dict.fromkeys(images, case.wavelengths) | {"MSI": case.msi_wavelengths}
    drawn = plots.composites(images, known, reference=reference, pixels=case.view.pixels, missing=case.view.missing)
    caption = (
        "Red, green and blue are the bands named under each picture, each stretched between its 2nd and 98th "
        f"percentile: those of “{reference}” for every image with the same bands. Numbers mark the pixels whose "
        "spectra are shown below."
    )
    return _figure(drawn, f"Colour composites of {', '.join(images)}", caption + _decimation(case))


def _errors(case):
    """With a truth: a band of everything, its residuals, the spectral angles."""
    view, names = case.view, ", ".join(case.estimates)
    where = plots.band_name(view.band, case.wavelengths)
    shown = {"wavelengths": case.wavelengths, "missing": view.missing, "quantity": view.quantity}
    beside = plots.bands({"truth": case.truth, **case.estimates, "HSI": case.hsi}, view.band, **shown)
    residuals = plots.residuals(case.estimates, case.truth, view.band, **shown)
    angles = plots.sam_maps(case.estimates, case.truth, missing=view.missing)
    figures = (
        (beside, f"{where} of the truth, {names} and the HSI", f"The images at {where}, on the truth's scale."),
        (
            residuals,
            f"Residuals of {names} at {where}",
            "Estimate − truth, on one symmetric scale; the arrows of its bar say that some pixels lie beyond it.",
        ),
        (
            angles,
            f"Maps of the spectral angle of {names} to the truth",
            "The angle between the spectra of estimate and truth at each pixel, in degrees; zero where they have the "
            "same shape.",
        ),
    )
    return Markup("".join(_figure(drawn, alt, caption + _decimation(case)) for drawn, alt, caption in figures))


def _fit(case):
    """Without a truth: the band beside the HSI's, and what the result leaves unexplained of the two images."""
    view = case.view
    shown = {"wavelengths": case.wavelengths, "missing": view.missing, "quantity": view.quantity}
    beside = plots.bands({case.result_name: case.result, "HSI": case.hsi}, view.band, **shown)
    where = plots.band_name(view.band, case.wavelengths)
    parts = [
        _figure(beside, f"{where} of the result and the HSI", f"Result and HSI at {where}, on the result's scale.")
    ]
    if case.seen is None:
        return parts[0] + element(
            "p", "The degradation is not known, so the residuals of the two images are not shown."
        )
    known = (case.hsi, case.msi), case.seen, (case.wavelengths, case.msi_wavelengths)
    for name, image, seen, centres in zip(("HSI", "MSI"), *known, strict=True):
        bands = sorted(set(plots.rgb_bands(image, centres)))
        drawn = plots.residuals({name: seen}, image, bands, **shown | {"wavelengths": centres})
        caption = f"Degraded result − {name}. Noise alone is left where the fit is good: a picture in it is a misfit."
        parts.append(_figure(drawn, f"Residuals of the {name} at {len(bands)} bands", caption + _decimation(case)))
    return Markup("".join(parts))


def _operators(case):
    """What the result rests on: the blur and the response, given or estimated."""
    known, shown = case.degradation, case.wavelengths
    blur = (
        "What the middle pixel of the HSI sees of the MSI's pixels: a centre off the middle of the square is a shift "
        "between the images."
    )
    response = "The weights of the HSI's bands in each band of the MSI; estimated ones belong to this pair alone."
    return _figure(blur_figure(known), "The blur of one HSI pixel", blur) + _figure(
        response_figure(known, shown), f"The response of {known.PM.shape[0]} MSI bands", response
    )


def _uncertainty(case):
    """How far off each pixel may be; with a truth, beside how far off it is."""
    result, view, known = case.result, case.view, case.truth is not None
    quantity = "units of the image" if view.quantity == "value" else view.quantity
    drawn = plots.uncertainty(
        result.uncertainty, result if known else None, case.truth, missing=view.missing, quantity=quantity
    )
    if result.combined > 1 and not (result.method in methods.names() and methods.get(result.method).tells_uncertainty):
        caption = (
            f"The standard deviation of {result.combined} starts at each pixel, root mean square over bands: it says "
            "how far the start matters, and nothing of errors that all of them share."
        )
    else:
        caption = "The error that the method expects at each pixel, root mean square over bands."
    there = result.uncertainty if view.missing is None else result.uncertainty[~view.missing]
    if there.size:
        caption += f" Over all pixels it is {number(float(np.sqrt(np.square(there).mean())))}"
        caption += ", to be compared with the RMSE among the metrics." if known else "."
    alt = "Maps of the expected error and of the error" if known else "Map of the expected error"
    return _figure(drawn, alt, caption + _decimation(case))


def _spectra(case):
    if not case.view.pixels:
        return element("p", "No pixel has a spectrum to show.")
    cubes = ({} if case.truth is None else {"truth": case.truth}) | case.estimates | {"HSI": case.hsi}
    drawn = plots.spectra(cubes, case.view.pixels, case.wavelengths, faint=["HSI"], quantity=case.view.quantity)
    gaps = "" if case.wavelengths is None else " Lines break where bands are missing."
    counted = "rows and columns from 0" if case.every == 1 else "rows and columns from 0, counting those that are shown"
    caption = f"Spectra at the numbered pixels ({counted}); of the HSI, the coarse pixel there.{gaps}"
    return _figure(drawn, f"Spectra of {len(case.view.pixels)} pixels of {', '.join(cubes)}", caption)


def _convergence(case):
    costs = case.result.trace.cost
    if not np.isfinite(costs).any():
        return element("p", "There is no finite cost to show.")
    caption = f"The cost from the start to the end, {number(costs[0])} to {number(costs[-1])}: {case.result.status}."
    return _figure(plots.convergence(case.result), "The cost against iterations and against seconds", caption)


def _versions(case):
    return pairs({**case.result.provenance.get("versions", {}), "matplotlib": version("matplotlib")})


def _decimation(case):
    step = case.every * plots.display_step(case.shape)
    return "" if step == 1 else f" Large images are shown by every {step}. row and column."


def _looked_at(case):
    return "" if case.every == 1 else " that were looked at"


def _whole(image):
    return image.sri if isinstance(image, FusionResult) else image


def _figure(drawn, alt, caption):
    return picture(plots.as_png(drawn), drawn.get_size_inches(), alt, caption)


def _plain(value):
    return value if isinstance(value, str) else repr(value)
