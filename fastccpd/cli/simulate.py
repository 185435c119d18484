"""`fastccpd simulate SCENE -o FOLDER`: the pair of images that two sensors would make of a scene, and the scene."""

import math
import os
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np

from .. import formats
from ..estimation.shift import phase_of
from ..imaging import add_noise, degrade, scenes
from ..model.checks import as_count
from ..model.files import check_apart
from ..model.shapes import size_name
from ..rasters import gaps, operators
from ..rasters.estimating import is_auto
from ..rasters.writing import warn_of_loss
from .options import add_operator_options, add_output, add_output_options, add_seed, check_snr
from .output import naming_force, print_json, print_pairs

# The file name's end of each format.
_SUFFIXES = {"npy": ".npy", "npz": ".npz", "mat": ".mat", "envi": ".hdr", "tif": ".tif"}

_SYNTHETIC = (96, 80, 60)


def add(commands):
    verb = commands.add_parser(
        "simulate",
        help="make a pair of images from a scene",
        description="Degrade a scene into the HSI and the MSI that two sensors would see, with noise, and write both "
        f"and the scene itself. Scenes: {', '.join(scenes.names())} (in the folder that {scenes.FOLDER_VARIABLE} "
        "names), synthetic, synthetic:ROWSxCOLSxBANDS, or a file.",
    )
    verb.add_argument("scene", metavar="SCENE", help="the name of a scene, or a file")
    three = "a folder, ending in / or existing, for hsi, msi and truth; or else a prefix, for OUT-hsi and so on"
    add_output(verb, "OUT", three)
    verb.add_argument("--format", choices=tuple(_SUFFIXES), default="npz", help="of the three files (default npz)")
    verb.add_argument("--snr", type=float, default=math.inf, metavar="DB", help="of the noise (default: none)")
    verb.add_argument("--snr-msi", type=float, metavar="DB", help="of the MSI's, where it differs")
    add_operator_options(verb, default_ratio="4", default_srf="landsat")
    add_seed(verb, "the noise, and of a synthetic scene")
    add_output_options(verb, force="overwrite the files")
    verb.set_defaults(run=run)


def run(options):
    say = options.messages
    as_count(options.seed, "--seed", least=0)
    ratio = as_count(4 if options.ratio is None else options.ratio, "--ratio")
    paths = _paths(options)
    scene, good = _scene(options.scene, ratio, options.seed, say)
    if is_auto(options.psf):
        raise ValueError("--psf: got auto, which needs two images to estimate from; a blur is needed to make them")
    blur = operators.blur(
        options.psf, scene.shape[:2], ratio, offset=None if scene.georeference is None else (0.0, 0.0)
    )
    say.note(f"the blur is {blur.text}")
    srf = "landsat" if options.srf is None and options.bands is None else options.srf
    PM = operators.response(srf, options.bands, scene, good, options.scene)
    scene = gaps.without_bad_bands(scene)
    degradation = operators.degradation(blur, PM)
    images = _images(scene, degradation, ratio, options)
    for name, image in images.items():
        warn_of_loss(paths[name], image, say)
        formats.write(paths[name], image, overwrite=options.force)
    _report(options, images, paths, options.psf or blur.settings["psf"], srf)
    return 0


def _paths(options):
    """Where the three files go; refused before any work if one of them cannot."""
    folder = options.output.endswith(("/", os.sep)) or os.path.isdir(options.output)
    if folder:
        Path(options.output).mkdir(exist_ok=True)
    start = os.path.join(options.output, "") if folder else f"{options.output}-"
    paths = {name: f"{start}{name}{_SUFFIXES[options.format]}" for name in ("hsi", "msi", "truth")}
    scene = scenes.files_read(options.scene) if options.scene in scenes.names() else formats.files_read(options.scene)
    written = [("-o", path, formats.files_written(path)) for path in paths.values()]
    check_apart(written, [*scene, *operators.files_read(options.psf, options.srf)])
    with naming_force():
        for path in paths.values():
            formats.check_target(path, options.force)
    return paths


def _scene(name, ratio, seed, say):
    """The scene as a raster cropped to multiples of the ratio, and its good bands."""
    if name.startswith("synthetic"):
        found = scenes.synthetic(_shape(name), rng=seed)
        scene = formats.Raster(found.cube, wavelengths=found.wavelengths)
    elif name in scenes.names():
        found = scenes.load(name, crop_to=ratio)
        scene = formats.Raster(found.cube, wavelengths=found.wavelengths)
    elif Path(name.partition("::")[0]).suffix or os.path.exists(name):
        scene = formats.read(name)
        say.note(f"{name}: {scene.source['layout']}")
        missing = scene.missing()
        if missing.any():
            raise ValueError(f"{gaps.count_sentence(name, missing)}; a scene without gaps is needed, so crop it")
    else:
        raise ValueError(f"SCENE: got {name!r}; a file, synthetic, or one of {', '.join(scenes.names())} is needed")
    rows, columns = (size - size % ratio for size in scene.shape[:2])
    if 0 in (rows, columns):
        raise ValueError(f"--ratio: got {ratio}, but the scene is {size_name(scene.shape)}; it must be larger")
    if (rows, columns) != scene.shape[:2]:
        say.note(
            f"the scene is cropped from {size_name(scene.shape[:2])} to {rows}×{columns} pixels, multiples of {ratio}"
        )
        scene = replace(scene, cube=np.ascontiguousarray(scene.cube[:rows, :columns]))
    return scene, gaps.good_bands(scene)


def _shape(name):
    """The shape that "synthetic:ROWSxCOLSxBANDS" says."""
    _, mark, text = name.partition(":")
    if not mark and name == "synthetic":
        return _SYNTHETIC
    parts = text.split("x")
    if name.partition(":")[0] != "synthetic" or len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ValueError(f"SCENE: got {name!r}; synthetic or synthetic:ROWSxCOLSxBANDS is needed")
    return tuple(int(part) for part in parts)


def _images(scene, degradation, ratio, options):
    """The three rasters."""
    generator = np.random.default_rng(options.seed)
    snrs = options.snr, options.snr if options.snr_msi is None else options.snr_msi
    for value, name in zip(snrs, ("--snr", "--snr-msi"), strict=True):
        check_snr(value, name)
    cubes = degrade(scene.cube, degradation)
    hsi, msi = (add_noise(cube, snr, generator) for cube, snr in zip(cubes, snrs, strict=True))
    known = {"wavelengths": scene.wavelengths, "fwhm": scene.fwhm}
    centres = None if scene.wavelengths is None else _centres(degradation.PM, scene.wavelengths)
    return {
        "hsi": formats.Raster(hsi, **known, georeference=_coarse(scene.georeference, degradation, ratio)),
        "msi": formats.Raster(msi, wavelengths=centres, georeference=scene.georeference),
        "truth": formats.Raster(scene.cube, **known, georeference=scene.georeference),
    }


def _centres(PM, wavelengths):
    """The mean wavelength of each MSI band."""
    return (PM @ wavelengths) / np.asarray(PM.sum(axis=1)).ravel()


def _coarse(georeference, degradation, ratio):
    """The grid of the HSI: larger pixels, whose middles lie where the blur puts them."""
    if georeference is None:
        return None
    a, b, c, d, e, f = georeference.transform
    row, column = (phase_of(P, ratio) - (ratio - 1) / 2 for P in (degradation.P1, degradation.P2))
    corner = c + a * column + b * row, f + d * column + e * row
    scaled = ratio * a, ratio * b, corner[0], ratio * d, ratio * e, corner[1]
    return formats.Georeference(georeference.crs, scaled)


def _report(options, images, paths, psf, srf):
    if options.json:
        files = {
            name: {"path": paths[name], "shape": image.shape, "dtype": str(image.dtype)}
            for name, image in images.items()
        }
        print_json({"files": files, **options.messages.said()})
    elif not options.quiet:
        known = {"-o": f"fused{_SUFFIXES[options.format]}", "--psf": psf, "--srf": srf, "--bands": options.bands}
        settings = [part for option, value in known.items() if value is not None for part in (option, value)]
        written = {name: f"{paths[name]}, {size_name(image.shape)} {image.dtype}" for name, image in images.items()}
        command = shlex.join(["fastccpd", "fuse", paths["hsi"], paths["msi"], *settings])
        print_pairs([*written.items(), ("next", command)])
