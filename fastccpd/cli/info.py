"""`fastccpd info [FILE ...]`: what is in the files, how they lie to each other, and what there is to work with."""

from dataclasses import replace

import numpy as np

from .. import formats, machine, methods
from ..api import memory_needed
from ..estimation import estimate_noise
from ..estimation.fit import snr_db
from ..estimation.shift import directions
from ..formats.raster import gone
from ..imaging import SENSORS
from ..model.shapes import size_name
from ..rasters import gaps, open_pair, placement
from ..rasters.looking import look_at
from ..rasters.mapping import crs_name, mapping
from ..rasters.pair import band_axis_of
from ..rasters.remarks import Remarks
from ..rasters.tiling import needs_tiles
from ..report.figures import snr_name
from .options import add_band_axis, add_method_options, add_operator_options, add_output_options, method_settings
from .output import Messages, bytes_name, print_json, print_line, print_pairs
from .preparing import add_preparation_options, preparation_of


def add(commands):
    verb = commands.add_parser(
        "info",
        help="files, alignment, memory, threads and versions",
        description="Describe what is in the files; --scan reads their data too. Of two, taken as HSI and MSI, also "
        "how fastccpd fuse would make them ready with the same options, how much memory a fusion takes, and what the "
        "images show: blur, shift and response as far as they are not given, scale and offset between them, and "
        "whether they agree.",
    )
    verb.add_argument("files", nargs="*", metavar="FILE", help="files to look at")
    verb.add_argument("--scan", action="store_true", help="read the data: count missing pixels, estimate the noise")
    add_operator_options(verb, default_ratio="what georeferencing or sizes say")
    add_preparation_options(verb)
    add_method_options(verb)
    add_band_axis(verb)
    add_output_options(verb)
    verb.set_defaults(run=run)


def run(options):
    settings = method_settings(options)
    look = formats.read if options.scan else formats.header
    images = [look(path, band_axis=band_axis_of(path, options.band_axis)) for path in options.files]
    wanted = preparation_of(options)
    found = {"files": [_described(image, options.scan) for image in images]}
    if len(images) == 2:
        found["pair"] = _pair(*images, wanted, options, settings)
    found["responses"] = SENSORS
    found["machine"] = _machine()
    found["versions"] = machine.versions()
    if options.json:
        print_json(found)
    else:
        _print(found)
    return 0


def _described(image, scan):
    """What is known of one file."""
    source, grid, wavelengths = image.source, image.georeference, image.wavelengths
    known = {
        "path": source["path"],
        "format": source["format"],
        "bytes": source["bytes"],
        "shape": image.shape,
        "dtype": str(image.dtype),
        "layout": source["layout"],
        "wavelengths": None if wavelengths is None else [wavelengths.min(), wavelengths.max()],
        "fwhm": image.fwhm is not None,
        "bad_bands": 0 if image.bad_bands is None else int(image.bad_bands.sum()),
        "crs": None if grid is None else grid.crs,
        "transform": None if grid is None else grid.transform,
        "nodata": image.nodata,
        "notes": source["notes"],
    }
    if scan:
        empty = _empty_bands(image)
        marked = np.zeros_like(empty) if image.bad_bands is None else image.bad_bands
        # Bands without data are counted as such; of nothing but them, the pixels are.
        used = replace(image, bad_bands=marked if (marked | empty).all() else marked | empty)
        mask = used.missing()
        known |= {"sha256": source["sha256"], "missing": int(mask.sum()), "empty_bands": int(empty.sum())}
        known["snr_db"] = _snr(used, mask)
    return known


def _empty_bands(image):
    """The bands that hold no data at any pixel."""
    return np.array([gone(image.cube[:, :, band], image.nodata).all() for band in range(image.shape[2])])


def _snr(image, missing):
    """The estimated signal-to-noise ratio of the bands and pixels that have data, in dB; None if there is none."""
    cube = gaps.emptied(gaps.without_bad_bands(image).cube, missing)
    if missing.all():
        return None
    try:
        return snr_db(cube, estimate_noise(cube, valid=~missing))
    except ValueError:  # infinite values, which are no business of a look at a file
        return None


def _pair(hsi, msi, wanted, options, settings):
    """How the two are made ready, what their fusion takes, and what they show of each other."""
    try:
        found, shapes = _ready(hsi, msi, wanted, options)
        opened = open_pair(*options.files, wanted, Remarks(Messages(quiet=True)))
    except (ValueError, ModuleNotFoundError) as error:
        found, shapes = {"refused": str(error)}, ((*hsi.shape[:2], int(gaps.good_bands(hsi).sum())), msi.shape)
    else:
        found["estimated"] = _estimated(opened, options, settings)
    needed = memory_needed(*shapes, method=options.method, dtype=options.dtype, **settings)
    itemsize = 4 if options.dtype == "float32" else 8
    found["memory"] = {
        "method": options.method,
        "work": needed,
        "result": shapes[1][0] * shapes[1][1] * shapes[0][2] * itemsize,
        "available": machine.available_memory(),
    }
    return found


def _ready(hsi, msi, wanted, options):
    """What is said of the pair, and the shapes of the images that would be fused."""
    if options.scan:
        remarks = Remarks(Messages(quiet=True))
        opened = open_pair(*options.files, wanted, remarks)
        where, shapes = opened.placement, (opened.hsi.shape, opened.msi.shape)
        notes = [note for note in remarks.notes if " bands " in note or "values are" in note]
    else:
        base = wanted.grid if wanted.grid in ("hsi", "msi") else formats.header(wanted.grid)
        where = placement(hsi, msi, grid=base, ratio=wanted.ratio, bbox=wanted.bbox, window=wanted.window)
        shapes = (*where.hsi.shape, int(gaps.good_bands(hsi).sum())), (*where.msi.shape, msi.shape[2])
        notes = []
    grids, offset = where.grids, None
    if hsi.georeference is not None and msi.georeference is not None:
        offset = tuple(mapping(hsi.georeference, msi.georeference)([(0.0, 0.0)])[0].tolist())
    return {
        "ratio": grids.ratio,
        "ratio_from": grids.ratio_from,
        "offset": offset,
        "hsi_shape": shapes[0],
        "msi_shape": shapes[1],
        "resampled": {"hsi": where.hsi.resampled, "msi": where.msi.resampled},
        "notes": [*where.notes, *grids.notes, *notes],
    }, shapes


def _estimated(opened, options, settings):
    """Blur, shift and response as given or estimated, levels and verdict; or why they are not known."""
    method = methods.make(options.method, settings)
    if needs_tiles(opened, method, options.dtype):
        return {"refused": "the images do not fit into memory; a --window of them does"}
    given = {name: getattr(options, name) for name in ("psf", "srf", "bands")}
    try:
        remarks = Remarks(Messages(quiet=True))
        found = look_at(opened, options.files[0], remarks, method=method, align=options.align, **given)
    except (ValueError, MemoryError) as error:
        if any(value is not None for value in given.values()):  # then it is they that cannot be
            raise
        return {"refused": str(error)}
    levels = "not known" if found.levels is None else str(found.levels)
    return found.figures() | {
        "blur_text": str(found.blur),
        "shift_text": [] if found.shift is None else [str(found.shift)],
        "levels_text": levels,
    }


def _machine():
    threads, layer = machine.threading_layer()
    return {
        "threads": threads,
        "threading_layer": layer,
        "cache": machine.kernel_cache(),
        "memory_available": machine.available_memory(),
    }


def _print(found):
    for file in found["files"]:
        _print_file(file)
        print()
    if "pair" in found:
        _print_pair(found["pair"])
        print()
    print_pairs([("responses by name", ", ".join(found["responses"]))])
    print()
    here = found["machine"]
    memory = here["memory_available"]
    print_pairs(
        [
            ("threads", f"{here['threads']}, threading layer {here['threading_layer'] or 'none (the JIT is off)'}"),
            ("kernel cache", here["cache"] or "turned off"),
            ("memory available", "not known" if memory is None else bytes_name(memory)),
        ]
    )
    print()
    by_package = {package: extra for extra, packages in reversed(machine.EXTRAS.items()) for package in packages}
    absent = {package: f'not installed; pip install "fastccpd[{extra}]"' for package, extra in by_package.items()}
    print_pairs(
        [(package, version or absent.get(package, "not installed")) for package, version in found["versions"].items()]
    )


def _print_file(file):
    pairs = [
        ("size", f"{size_name(file['shape'])} {file['dtype']}, {bytes_name(file['bytes'])} of {file['format']}"),
        ("layout", file["layout"]),
        ("wavelengths", "not known" if file["wavelengths"] is None else "{:g} to {:g} nm".format(*file["wavelengths"])),
        ("georeferenced", "no" if file["transform"] is None else _grid(file)),
        ("nodata", "none declared" if file["nodata"] is None else f"{file['nodata']:g}"),
    ]
    if file["bad_bands"]:
        pairs.append(("bad bands", str(file["bad_bands"])))
    if "missing" in file:
        counted = f"{file['missing']} of {file['shape'][0] * file['shape'][1]} pixels"
        counted += f", and {file['empty_bands']} of {file['shape'][2]} bands" if file["empty_bands"] else ""
        pairs.append(("without data", counted))
        pairs.append(("estimated SNR", "not known" if file["snr_db"] is None else snr_name(file["snr_db"])))
    else:
        pairs.append(("estimated SNR", "--scan tells it"))
    print_line(file["path"])
    print_pairs(pairs + [("note", note) for note in file["notes"]], indent=2)


def _grid(file):
    a, b, c, d, e, f = file["transform"]
    turned = "" if b == d == 0.0 else ", turned"
    name = "no coordinate system" if file["crs"] is None else crs_name(file["crs"])
    return f"{name}, first corner {c:.10g}, {f:.10g}, pixels {abs(a):g} by {abs(e):g}{turned}"


def _print_pair(pair):
    pairs = []
    if "refused" in pair:
        pairs.append(("alignment", f"cannot be fused: {pair['refused']}"))
    else:
        pairs.append(("ratio", f"{pair['ratio']}, by {pair['ratio_from']}".replace("by given", "as given")))
        offset = "not known" if pair["offset"] is None else directions(*pair["offset"])
        pairs.append(("HSI's first corner", offset if pair["offset"] is None else f"{offset} of the MSI's"))
        sizes = [size_name(pair[name]) for name in ("hsi_shape", "msi_shape")]
        pairs.append(("to be fused", f"{sizes[0]} and {sizes[1]}"))
        pairs += [("note", note) for note in pair["notes"]]
        pairs += _estimates(pair["estimated"])
    memory = pair["memory"]
    available = "" if memory["available"] is None else f"; {bytes_name(memory['available'])} are available"
    work, image = (bytes_name(memory[part]) for part in ("work", "result"))
    pairs.append(("memory", f"{work} for {memory['method']} and {image} for the result{available}"))
    print("as HSI and MSI")
    print_pairs(pairs, indent=2)


def _estimates(found):
    """The lines on what the images show of each other."""
    if "refused" in found:
        return [("estimates", f"none: {found['refused']}")]
    said = [note.removeprefix("the response is ") for note in found["notes"] if note.startswith("the response is ")]
    return [
        ("blur", found["blur_text"]),
        *(("shift", sentence) for sentence in found["shift_text"]),
        *(("response", sentence) for sentence in said),
        ("scale and offset", found["levels_text"]),
        ("verdict", found["verdict"]["sentence"]),
    ]
