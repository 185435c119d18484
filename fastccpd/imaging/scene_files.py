"""The files of the benchmark scenes: where each is kept, what it must look like, and how it is read."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from .. import formats
from ..model.types import Array, Operator
from .response import (
    LANDSAT_EDGES,
    LARGEST_TABLE,
    landsat,
    response_from_edges,
    response_from_groups,
    response_from_table,
)

_LANDSAT = "landsat(bands): six Landsat-like means, of bands taken to be spread evenly over 400 to 2500 nm"


@dataclass(frozen=True)
class File:
    """Where a scene is kept, what it must look like, and what is known of it.

    Attributes
    ----------
    path, variable : str
        The file in the folder of all scenes, and what the cube is called in it.
    shape : tuple of int
        Another one is refused.
    sensor, origin, terms, notes : str
        For the provenance.
    response : str
        What the scene's own PM is, for the provenance.
    """

    path: str
    variable: str
    shape: tuple[int, ...]
    sensor: str
    origin: str
    terms: str = "no formal licence; a research benchmark"
    notes: str = ""
    response: str = _LANDSAT


@dataclass(frozen=True, eq=False)
class Content:
    """What the files of a scene hold; None for what is not known.

    Attributes
    ----------
    cube : (rows, columns, bands) array
    wavelengths : (bands,) array or None
    labels : (rows, columns) array or None
    response : (multispectral bands, bands) operator or None
        None: Landsat's.
    """

    cube: Array
    wavelengths: Array | None = None
    labels: Array | None = None
    response: Operator | None = None

    def response_or_landsat(self) -> Operator:
        """The scene's own PM: what its files say, else that of a Landsat."""
        return landsat(self.cube.shape[2]) if self.response is None else self.response


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
        "2 tree, 3 water)", response="means of the bands in Landsat's first four, by their wavelengths",
    ),
    "moffett": File(
        "moffett/Moffett_vca.mat", "data", (50, 50, 189), "AVIRIS", "github pthouvenin/unmixing-plmm",
        "repository GPL-3.0", "189 of 224 bands; their centres are not certain",
    ),
    "paris": File(
        "paris_hsi_msi/paris_data_hs_ms.mat", "HSim", (72, 72, 128), "EO-1 Hyperion", "github alfaiate/HySure",
        "repository GPL-3.0", "wavelengths from the band numbers, approximate; load_pair gives the MSI of EO-1 ALI too",
        "means of the bands in Landsat's six, by their wavelengths",
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
    "cave-toy": File(
        "cave_toy/cave_chart_and_stuffed_toy_256.npz", "cube", (256, 256, 31), "CAVE camera",
        "github zhazhiyuan/NLSSR_Denoising_Demo; Yasuma et al. 2010 (CAVE database)",
        notes="an indoor scene, 400 to 700 nm every 10 nm", response="means of bands 1-10, 11-20 and 21-31",
    ),
    "enmap-potsdam": File(
        "enmap_potsdam/enmap_potsdam_l2a_128x64.tif", "", (64, 128, 224), "EnMAP",
        "github EnMAP-Box/enmap-box; EnMAP data, DLR",
        notes="bands without any data (130 to 135 of 224) are left out; 8 values are negative",
        response="the ten bands of Sentinel-2A with pixels of 10 and 20 m, by its response functions, the wavelengths "
        "and the widths of EnMAP's bands",
    ),
    "san-francisco": File(
        "san_francisco/san_francisco_hyperion_ali.npz", "hsi", (298, 136, 47), "EO-1 Hyperion",
        "github Danaroth83/Band-Assignment; Picone et al., IEEE GRSL 14(5), 2017",
        "free use with citation", "which bands the 47 are is not recorded; load_pair gives the MSI of EO-1 ALI too",
        "non-negative least squares of the MSI of EO-1 ALI on the bands of this image: estimated from the pair itself",
    ),
}  # fmt: skip

# The pixels of San Francisco that a ratio of 3 divides.
_SAN_FRANCISCO = (slice(297), slice(135))
_SENTINEL_BANDS = ("B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B11", "B12")


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
    return Content(cube, _table(folder, "aviris_1997_224.csv", "index_in_salinas_corrected_0based"), labels)


def _read_indian_pines(file, folder, path):
    cube, labels = variable(path, file.variable, file.shape), variable(path, "gt", file.shape[:2])
    return Content(cube, table_of_indian_pines(folder), labels)


def _read_samson(file, folder, path):
    # Pixels are columns of the matrix, and run down the columns of the picture.
    cube = variable(path, file.variable, file.shape).T.reshape(95, 95, 156, order="F")
    labels, truth = None, path.with_name("end3.mat")
    if truth.is_file():
        labels = variable(truth, "A", (3, 95 * 95)).argmax(axis=0).reshape(95, 95, order="F").astype(np.uint8) + 1
    wavelengths = np.linspace(401.0, 889.0, 156)
    return Content(cube, wavelengths, labels, response_from_edges(LANDSAT_EDGES[:4], wavelengths))


def _read_moffett(file, folder, path):
    return Content(variable(path, file.variable, file.shape))


def _read_paris(file, folder, path):
    cube = variable(path, file.variable, file.shape)
    numbers = variable(path, "non_del_bands", (1, 128))[0].astype(np.float64)
    # Hyperion's two spectrometers, numbered from 1.
    wavelengths = np.where(numbers <= 57, 426.82 + 10.175 * (numbers - 8), 912.45 + 10.089 * (numbers - 77))
    return Content(cube, wavelengths, response=response_from_edges(LANDSAT_EDGES, wavelengths))


def _read_anomalies(file, folder, path):
    return Content(variable(path, file.variable, file.shape), labels=variable(path, "map", file.shape[:2]))


def _read_cave(file, folder, path):
    response = response_from_groups([slice(0, 10), slice(10, 20), slice(20, 31)], 31)
    return Content(variable(path, file.variable, file.shape), np.arange(400.0, 701.0, 10.0), response=response)


def _read_enmap(file, folder, path):
    raster = formats.read(path)
    if raster.cube.shape != file.shape or raster.wavelengths is None or raster.fwhm is None:
        raise ValueError(f"{path}: holds {raster.cube.shape}; shape {file.shape}, wavelengths and widths are needed")
    alive = (raster.cube != raster.nodata).any(axis=(0, 1))
    wavelengths, widths = raster.wavelengths[alive], raster.fwhm[alive]
    table = folder / "srf" / "sentinel2a_msi.csv"
    if not table.is_file():
        raise FileNotFoundError(f"scene 'enmap-potsdam': {table} is not there; Sentinel-2A's response is needed")
    response = response_from_table(table, wavelengths, _SENTINEL_BANDS, widths)
    return Content(raster.cube[:, :, alive], wavelengths, response=response)


def _read_san_francisco(file, folder, path):
    cube, msi = read_pair_of_san_francisco(path)
    fitted = nonnegative_response(cube[_SAN_FRANCISCO], msi[_SAN_FRANCISCO])
    return Content(cube, response=fitted)


_READERS = {
    "salinas-a": _read_salinas,
    "indian-pines": _read_indian_pines,
    "samson": _read_samson,
    "moffett": _read_moffett,
    "paris": _read_paris,
    "cave-toy": _read_cave,
    "enmap-potsdam": _read_enmap,
    "san-francisco": _read_san_francisco,
}


def read(name: str, folder: Path, path: Path) -> Content:
    """What the files of a scene hold.

    Parameters
    ----------
    name : str
        A key of `FILES`.
    folder, path : Path
        The folder of all scenes, and the file of this one.

    Returns
    -------
    Content
    """
    return _READERS.get(name, _read_anomalies)(FILES[name], folder, path)


def read_pair_of_san_francisco(path: Path, cropped: bool = False) -> tuple[Array, Array]:
    """Both images of San Francisco.

    Parameters
    ----------
    path : Path
    cropped : bool
        Whether to give the first 297×135 pixels alone, which a ratio of 3 divides.

    Returns
    -------
    hsi, msi : arrays
        Of 47 and of 6 bands.
    """
    window = _SAN_FRANCISCO if cropped else (slice(None), slice(None))
    return variable(path, "hsi", (298, 136, 47))[window], variable(path, "msi", (298, 136, 6))[window]


def nonnegative_response(reference: Array, msi: Array) -> Operator:
    """PM from two images of one scene at one resolution: for each band of the MSI non-negative least squares.

    Parameters
    ----------
    reference : (rows, columns, bands) array
    msi : (rows, columns, multispectral bands) array

    Returns
    -------
    (multispectral bands, bands) csr_array
        Rows need not sum to one: the two images may be in different units.
    """
    from scipy.optimize import nnls

    spectra = reference.reshape(-1, reference.shape[2]).astype(np.float64)
    # ‖X w − y‖ and ‖R w − Q'y‖ differ by what no w can change.
    Q, R = np.linalg.qr(spectra)
    seen = Q.T @ msi.reshape(len(spectra), -1).astype(np.float64)
    return sparse.csr_array(np.array([nnls(R, band)[0] for band in seen.T]))


def indian_pines_of_tensorly() -> tuple[Array, Array, str] | None:
    """Cube, labels and source, or None without tensorly; the wavelengths it gives are off by a band and stay there."""
    try:
        import tensorly
        from tensorly.datasets import load_indian_pines
    except ImportError:
        return None
    bunch = load_indian_pines()
    return np.asarray(bunch.tensor), np.asarray(bunch.ticks[0]), f"tensorly {tensorly.__version__}"
