"""The files of the benchmark scenes: where each is kept, what it must look like, and how it is read."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import formats
from ..model.types import Array
from .response import LARGEST_TABLE


@dataclass(frozen=True)
class File:
    """Where a scene is kept, what it must look like, and what is known of it."""

    path: str
    variable: str
    shape: tuple[int, ...]
    sensor: str
    origin: str
    terms: str = "no formal licence; a research benchmark"
    notes: str = ""


_ANOMALIES = "labels: 1 where the anomaly-detection benchmark has a target; which bands were removed is not recorded"

FILES = {
    "salinas-a": File(
        "salinas_a/SRI_Salinas.mat", "SRI_Salinas", (80, 84, 204), "AVIRIS",
        "github MengDing56/Code_SCLL1_HSR; GIC, University of the Basque Country",
        notes="counts / 8373, negatives set to 0; wavelengths of the 1997 calibration, though it was flown in 1998; "
        "labels from Salinas-A, whose window is shifted, so that 2 rows and 2 columns have none",
    ),
    "indian-pines": File(
        "indian_pines/indian_pines_corrected.npz", "cube", (145, 145, 200), "AVIRIS",
        "Baumgardner, Biehl, Landgrebe (2015), doi:10.4231/R7RX991C; the package tensorly", "CC BY 3.0",
        "counts = 1000 + 500 · radiance: no value is near zero, and the offset dominates SAM and relative errors",
    ),
    "samson": File(
        "samson/samson_1.mat", "V", (156, 95 * 95), "SAMSON", "github vleplat/Tubal_TT and vleplat/bLL1_NBTD",
        notes="wavelengths evenly spread over 401 to 889 nm; labels: the largest of the reference abundances (1 rock, "
        "2 tree, 3 water)",
    ),
    "moffett": File(
        "moffett/Moffett_vca.mat", "data", (50, 50, 189), "AVIRIS", "github pthouvenin/unmixing-plmm",
        "repository GPL-3.0", "189 of 224 bands; their centres are not certain",
    ),
    "paris": File(
        "paris_hsi_msi/paris_data_hs_ms.mat", "HSim", (72, 72, 128), "EO-1 Hyperion", "github alfaiate/HySure",
        "repository GPL-3.0", "wavelengths from the band numbers, approximate; load_pair gives the MSI of EO-1 ALI too",
    ),
    "san-diego": File(
        "san_diego/sandiego.mat", "data", (100, 100, 189), "AVIRIS", "github jiojio0505/OT-AD", notes=_ANOMALIES
    ),
    "hydice-urban": File(
        "hydice_urban/hydice.mat", "data", (80, 100, 162), "HYDICE", "github jiojio0505/OT-AD", notes=_ANOMALIES
    ),
    "abu-airport-4": File(
        "abu_airport_4/abu-airport-4.mat", "data", (100, 100, 191), "AVIRIS",
        "github jiojio0505/OT-AD; Kang et al., IEEE TGRS 55(10), 2017", notes=_ANOMALIES,
    ),
    "abu-urban-1": File(
        "abu_urban_1/abu-urban-1.mat", "data", (100, 100, 204), "AVIRIS",
        "github jiojio0505/OT-AD; Kang et al., IEEE TGRS 55(10), 2017", notes=f"noisy, some negative; {_ANOMALIES}",
    ),
}  # fmt: skip


def variable(path: Path, name: str, shape: Sequence[int]) -> Array:
    """One array of a MAT or NPZ file, of the shape it must have.

    Parameters
    ----------
    path : Path
    name : str
        What the array is called in the file.
    shape : sequence of int
        Another one is refused.

    Returns
    -------
    array
    """
    held = formats.arrays_in(path).get(name)
    if held is None or held.shape != shape:
        got = "is not there" if held is None else f"has shape {held.shape}"
        raise ValueError(f"{path}: {name} {got}; shape {shape} is needed")
    return formats.read_arrays(path, [name])[name]


def _table(folder, file, index):
    """The centres of the bands that a cube keeps, from a wavelength table; None if there is no such table."""
    path = None if folder is None else folder / "wavelengths" / file
    if path is None or not path.is_file():
        return None
    formats.check_text(path, "a table of text", LARGEST_TABLE)
    with open(path, newline="", encoding="utf-8") as lines:
        kept = {int(row[index]): float(row["center_nm"]) for row in csv.DictReader(lines) if row[index]}
    return np.array([kept[band] for band in range(len(kept))])


def table_of_indian_pines(folder: Path | None) -> Array | None:
    """The wavelengths of Indian Pines, for its cube from wherever; None if the folder has no table.

    Parameters
    ----------
    folder : Path or None
        The folder of all scenes.

    Returns
    -------
    (bands,) array or None
        In nm.
    """
    return _table(folder, "aviris_1992_indian_pines_220.csv", "index_in_corrected_0based")


def _read_salinas(file, folder, path):
    cube = variable(path, file.variable, file.shape)
    labels, truth = None, path.with_name("SalinasA_gt.mat")
    if truth.is_file():
        # Pixel [i, j] of this window is pixel [i - 2, j + 4] of Salinas-A.
        labels = np.zeros(cube.shape[:2], np.uint8)
        labels[2:, :82] = variable(truth, "salinasA_gt", (83, 86))[:78, 4:]
    return cube, _table(folder, "aviris_1997_224.csv", "index_in_salinas_corrected_0based"), labels


def _read_indian_pines(file, folder, path):
    cube, labels = variable(path, file.variable, file.shape), variable(path, "gt", file.shape[:2])
    return cube, table_of_indian_pines(folder), labels


def _read_samson(file, folder, path):
    # Pixels are columns of the matrix, and run down the columns of the picture.
    cube = variable(path, file.variable, file.shape).T.reshape(95, 95, 156, order="F")
    labels, truth = None, path.with_name("end3.mat")
    if truth.is_file():
        labels = variable(truth, "A", (3, 95 * 95)).argmax(axis=0).reshape(95, 95, order="F").astype(np.uint8) + 1
    return cube, np.linspace(401.0, 889.0, 156), labels


def _read_moffett(file, folder, path):
    return variable(path, file.variable, file.shape), None, None


def _read_paris(file, folder, path):
    cube = variable(path, file.variable, file.shape)
    numbers = variable(path, "non_del_bands", (1, 128))[0].astype(np.float64)
    # Hyperion's two spectrometers, numbered from 1.
    wavelengths = np.where(numbers <= 57, 426.82 + 10.175 * (numbers - 8), 912.45 + 10.089 * (numbers - 77))
    return cube, wavelengths, None


def _read_anomalies(file, folder, path):
    return variable(path, file.variable, file.shape), None, variable(path, "map", file.shape[:2])


_READERS = {
    "salinas-a": _read_salinas,
    "indian-pines": _read_indian_pines,
    "samson": _read_samson,
    "moffett": _read_moffett,
    "paris": _read_paris,
}


def read(name: str, folder: Path | None, path: Path) -> tuple[Array, Array | None, Array | None]:
    """Cube, wavelengths and labels of a scene; None for what is not known.

    Parameters
    ----------
    name : str
        A key of `FILES`.
    folder, path : Path
        The folder of all scenes, and the file of this one.
    """
    return _READERS.get(name, _read_anomalies)(FILES[name], folder, path)


def indian_pines_of_tensorly() -> tuple[Array, Array, str] | None:
    """Cube, labels and source, or None without tensorly; the wavelengths it gives are off by a band and stay there."""
    try:
        import tensorly
        from tensorly.datasets import load_indian_pines
    except ImportError:
        return None
    bunch = load_indian_pines()
    return np.asarray(bunch.tensor), np.asarray(bunch.ticks[0]), f"tensorly {tensorly.__version__}"
