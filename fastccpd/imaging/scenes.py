"""Scenes to work on: benchmark cubes read from a folder, and synthetic landscapes that need nothing.

Real scenes are other people's data and are not part of this package. `load` reads them from a folder, given as an
argument or by the environment variable FASTCCPD_DATA, in which each scene has a folder of its own (scene_files.py
lists file and variable; wavelength tables are in `wavelengths/`, response functions in `srf/`). Indian Pines also
comes with the package tensorly.

Cubes are (rows, columns, bands), float64, in the units of their file. Only wavelengths that are known are given, in nm.

A synthetic scene is a linear mixture, cube = Σ_m a_m ∘ s_m, of the spectra and maps of landscape.py. So its spectral
rank is the number of materials.
"""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import machine
from ..model.checks import as_choice, as_count
from ..model.types import Operator
from . import scene_files
from .degrading import as_generator
from .landscape import kinds_of, maps, spectrum
from .response import landsat
from .scene_files import FILES, Content, indian_pines_of_tensorly, table_of_indian_pines, variable

__all__ = ["Pair", "Scene", "files_read", "load", "load_pair", "names", "pair_names", "synthetic"]

FOLDER_VARIABLE = "FASTCCPD_DATA"


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene.

    Attributes
    ----------
    cube : (rows, columns, bands) float64 array
    wavelengths : (bands,) array or None
        Band centres in nm, in the order of the bands: not always sorted.
    labels : (rows, columns) array of ints or None
        0 is unlabelled. What the others mean is in the provenance.
    provenance : dict
        name, sensor, source, origin, terms, notes, and response: what PM is.
    response : (multispectral bands, bands) csr_array or None
        The PM that experiments simulate an MSI of this scene with. None where there are too few bands for Landsat's.
    """

    cube: np.ndarray
    wavelengths: np.ndarray | None
    labels: np.ndarray | None
    provenance: dict[str, Any]
    response: Operator | None = None

    def __repr__(self):
        known = [name for name in ("wavelengths", "labels") if getattr(self, name) is not None]
        size = "×".join(map(str, self.cube.shape))
        return f"<Scene {self.provenance['name']}: {size}, {' and '.join(known) or 'no wavelengths or labels'}>"


@dataclass(frozen=True, eq=False)
class Pair:
    """A scene that two sensors have seen at the same resolution.

    Attributes
    ----------
    reference : (rows, columns, bands) float64 array
        The hyperspectral image, fine: degrade its rows and columns to get an HSI, and keep it to compare with.
    msi : (rows, columns, multispectral bands) float64 array
        A true measurement, not derived from `reference`.
    wavelengths : (bands,) array or None
        Band centres of `reference` in nm; None where they are not known.
    response : (multispectral bands, bands) array
        An estimate of PM. That of Paris fits the normalised images only.
    provenance : dict
        As that of a scene, and normalised: whether the images are.
    """

    reference: np.ndarray
    msi: np.ndarray
    wavelengths: np.ndarray | None
    response: np.ndarray
    provenance: dict[str, Any]

    def __repr__(self):
        sizes = ("×".join(map(str, image.shape)) for image in (self.reference, self.msi))
        return f"<Pair {self.provenance['name']}: reference {' and MSI '.join(sizes)}>"


def names() -> tuple[str, ...]:
    """The names that `load` takes."""
    return tuple(FILES)


def pair_names() -> tuple[str, ...]:
    """The names that `load_pair` takes."""
    return tuple(_PAIRS)


def files_read(name: str, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """The files that `load` may read for a scene: all in its folder, the wavelength tables and the responses.

    Parameters
    ----------
    name : str
        One of `names()`.
    folder : path, optional
        As in `load`.

    Returns
    -------
    list of Path
        Empty where there is no such folder.
    """
    folder, own = _folder(folder), Path(_file(name).path).parent
    if folder is None:
        return []
    return [file for part in (own, "wavelengths", "srf") for file in sorted((folder / part).glob("*"))]


def load(name: str, folder: str | os.PathLike | None = None, crop_to: int | None = None) -> Scene:
    """A benchmark scene.

    Parameters
    ----------
    name : str
        One of `names()`.
    folder : path, optional
        Where the scenes are. None: what FASTCCPD_DATA says.
    crop_to : int, optional
        Crop rows and columns to multiples of this number, dropping the first ones: 4 makes the 145×145 Indian Pines the
        144×144 scene (rows and columns 1 to 144) of published experiments. None: as it is.

    Returns
    -------
    Scene

    Raises
    ------
    FileNotFoundError
        If the scene is in no place known; the message says where it was looked for.

    Examples
    --------
    >>> from fastccpd.imaging import scenes
    >>> scene = scenes.load("indian-pines", crop_to=4)  # doctest: +SKIP
    >>> scene.cube.shape  # doctest: +SKIP
    (144, 144, 200)
    """
    file = _file(name)
    folder = _folder(folder)
    if folder is not None and (path := folder / file.path).is_file():
        content, source = scene_files.read(name, folder, path), str(path)
    elif name == "indian-pines" and (found := indian_pines_of_tensorly()) is not None:
        counts, classes, source = found
        content = Content(counts, table_of_indian_pines(folder), classes)
    else:
        raise FileNotFoundError(_not_found(name, file, folder))
    cube, labels = content.cube, content.labels
    if crop_to is not None:
        multiple = as_count(crop_to, "crop_to", most=min(cube.shape[:2]))
        first_row, first_column = (size % multiple for size in cube.shape[:2])
        cube = cube[first_row:, first_column:]
        labels = None if labels is None else labels[first_row:, first_column:]
    cube = np.ascontiguousarray(cube, dtype=np.float64)
    provenance = _provenance(name, file, source)
    return Scene(cube, content.wavelengths, labels, provenance, content.response_or_landsat())


def load_pair(name: str = "paris", folder: str | os.PathLike | None = None, normalise: bool = True) -> Pair:
    """A scene seen by a hyperspectral and a multispectral sensor at the same resolution.

    Parameters
    ----------
    name : "paris" or "san-francisco"
        Of San Francisco the first 297×135 pixels, which a ratio of 3 divides; its PM is estimated from the pair itself,
        by non-negative least squares, so it knows the reference: a fusion with it is easier than a real one.
    folder : path, optional
        As in `load`.
    normalise : bool
        True divides each band of both images by its 99.9 % quantile; only then does the estimated response of Paris
        fit. That of San Francisco is estimated from the images as they are given back.

    Returns
    -------
    Pair
        The reference, the MSI, and the response between them.

    Examples
    --------
    >>> from fastccpd.imaging import scenes
    >>> scenes.load_pair("paris")  # doctest: +SKIP
    <Pair paris: reference 72×72×128 and MSI 72×72×9>
    """
    as_choice(name, "name", pair_names())
    scene = load(name, folder)
    images, response = _PAIRS[name](scene)
    if normalise:
        images = [image / np.quantile(image, 0.999, axis=(0, 1)) for image in images]
    reference, msi = (np.ascontiguousarray(image, dtype=np.float64) for image in images)
    if response is None:
        response = scene_files.nonnegative_response(reference, msi).toarray()
    provenance = scene.provenance | {"sensor": "EO-1 Hyperion and EO-1 ALI", "normalised": bool(normalise)}
    return Pair(reference, msi, scene.wavelengths, response, provenance)


def _pair_of_paris(scene):
    """Both images of Paris, and the response that came with them."""
    path = Path(scene.provenance["source"])
    beside = path.with_name("R_HysureParis.mat")
    if not beside.is_file():
        raise FileNotFoundError(
            f"scene 'paris': {beside.name} is not in {path.parent}; get this response from github "
            "ricardoborsoi/FuVarRelease, and put it there"
        )
    scene.provenance["response"] = "that of github ricardoborsoi/FuVarRelease: an estimate, for the normalised images"
    return [scene.cube, variable(path, "MSim", (72, 72, 9))], variable(beside, "R", (9, 128))


def _pair_of_san_francisco(scene):
    """Both images of San Francisco, without a response."""
    return scene_files.read_pair_of_san_francisco(Path(scene.provenance["source"]), cropped=True), None


_PAIRS = {"paris": _pair_of_paris, "san-francisco": _pair_of_san_francisco}


def _check_memory(sizes, materials):
    """Refuse a synthetic scene that memory cannot hold, before anything is made of it."""
    rows, columns, bands = sizes
    needed, available = 8 * (rows * columns * (bands + materials) + bands * materials), machine.available_memory()
    if available is not None and needed > available:
        shape = "×".join(map(str, sizes))
        raise MemoryError(
            f"shape: {shape} of {materials} materials takes {needed / 1e9:.1f} GB, but {available / 1e9:.1f} GB are "
            "available; a smaller scene is needed"
        )


def synthetic(shape: Sequence[int], materials: int = 5, rng: int | np.random.Generator = 0) -> Scene:
    """A synthetic landscape.

    Parameters
    ----------
    shape : (rows, columns, bands)
        The bands are spread evenly over 400 to 2500 nm.
    materials : int
        In this order: green crop, bare soil, wood, water, ripe grain, asphalt, roof tiles; then further crops, soils
        and grains.
    rng : int or numpy.random.Generator
        The same number gives the same scene.

    Returns
    -------
    Scene
        Reflectances in [0, 1]; labels 1, 2, … are the material that covers most of the pixel.

    Examples
    --------
    >>> from fastccpd.imaging import scenes
    >>> scenes.synthetic((60, 80, 100), materials=5)
    <Scene synthetic: 60×80×100, wavelengths and labels>
    """
    try:
        rows, columns, bands = shape
    except (TypeError, ValueError):
        raise ValueError(f"shape: got {shape!r}; (rows, columns, bands) is needed") from None
    sizes = tuple(as_count(size, f"shape[{axis}]") for axis, size in enumerate((rows, columns, bands)))
    materials = as_count(materials, "materials")
    _check_memory(sizes, materials)
    generator = as_generator(rng)
    wavelengths = np.linspace(400.0, 2500.0, bands)
    kinds = kinds_of(materials)
    spectra = np.array([spectrum(kind, wavelengths, generator) for kind in kinds])
    cover, shade = maps(sizes[:2], kinds, generator)
    labels = cover.argmax(axis=2) + 1
    cover *= shade[:, :, None]
    cube = (cover.reshape(-1, materials) @ spectra).reshape(sizes)
    meanings = ", ".join(f"{number} {kind}" for number, kind in enumerate(kinds, start=1))
    provenance = {
        "name": "synthetic",
        "sensor": "none",
        "source": f"scenes.synthetic({sizes}, {materials}, rng={rng})",
        "origin": "fastccpd",
        "terms": "free to use",
        "notes": f"labels: {meanings}",
        "response": "landsat(bands), where there are enough of them",
    }
    return Scene(cube, wavelengths, labels, provenance, _landsat_if_possible(sizes[2]))


def _landsat_if_possible(n_bands):
    try:
        return landsat(n_bands)
    except ValueError:  # too few of them
        return None


def _file(name):
    if name not in FILES:
        close = difflib.get_close_matches(str(name), FILES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"name: got {name!r}; {hint}known are {', '.join(FILES)}")
    return FILES[name]


def _folder(folder):
    """The folder of scenes, or None if neither the caller nor the environment names one."""
    name = FOLDER_VARIABLE if folder is None else "folder"
    folder = os.environ.get(FOLDER_VARIABLE) if folder is None else folder
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{name}: {folder} is not a folder; the one that holds the scenes is needed")
    return Path(folder)


def _not_found(name, file, folder):
    where = f"folder= or {FOLDER_VARIABLE}"
    looked = f"{where} names no folder" if folder is None else f"{file.path} is not in {folder}"
    tensorly = " and tensorly, which carries it too, is not installed" if name == "indian-pines" else ""
    return (
        f"scene {name!r}: {looked}{tensorly}; get it from {file.origin}, and put it at {file.path} in the folder that "
        f"{where} names"
    )


def _provenance(name, file, source):
    return {
        "name": name,
        "sensor": file.sensor,
        "source": source,
        "origin": file.origin,
        "terms": file.terms,
        "notes": file.notes,
        "response": file.response,
    }
