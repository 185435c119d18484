"""The measured responses of known sensors, by name, and which of their bands an image has.

The tables are those of the package pyrsr (extra `srf`; Apache-2.0; each names its source, such as ESA or NASA), which
holds them in itself. Bands are called B1, B2 … as the agencies call them, wavelengths are in nm, and thermal bands, of
which no hyperspectral image knows, are left out. A sensor that is not among them is a table of one's own
(`read_response`).

An image's band is known by its name, if that holds one (B02, B8A, SR_B4), and else by its wavelength: the sensor's band
with the nearest centre, if it lies within half of that band's width. Names that merely count ("Band 1") say nothing.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..formats.extras import needed
from ..model.types import Operator
from .response import LEAST_COVERED, Curves, response_from_table, table_coverage

# Satellite and instrument, as pyrsr calls them.
_SOURCES = {
    "Sentinel-2A": ("Sentinel-2A", "MSI"),
    "Sentinel-2B": ("Sentinel-2B", "MSI"),
    "Landsat-4": ("Landsat-4", "TM"),
    "Landsat-5": ("Landsat-5", "TM"),
    "Landsat-7": ("Landsat-7", "ETM+"),
    "Landsat-8": ("Landsat-8", "OLI_TIRS"),
    "Landsat-9": ("Landsat-9", "OLI_TIRS"),
    "RapidEye": ("RapidEye", "MSI"),
    "SPOT-4": ("SPOT-4", "HRVIR1"),
    "SPOT-5": ("SPOT-5", "HRG1"),
    "ASTER": ("Terra", "ASTER"),
    "MODIS-Terra": ("Terra", "MODIS"),
    "MODIS-Aqua": ("Aqua", "MODIS"),
}

#: The sensors whose responses are known by name.
SENSORS = tuple(_SOURCES)

# Wavelengths in nm beyond which a band is thermal; tables whose largest is below the other are in micrometres.
_THERMAL, _MICROMETRES = 3000.0, 100.0

_BAND = re.compile(r"(?:^|[^a-z0-9])b0*(\d{1,2}[a-z]?)(?![0-9a-z])")

#: A table of responses as arrays: for each band wavelengths and response.
Table = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


def sensor_named(name: str) -> str | None:
    """The sensor of `SENSORS` that a name means, however it is spelt ("sentinel2a", "LANDSAT_8"); None for no such.

    Parameters
    ----------
    name : str

    Returns
    -------
    str or None
    """
    return next((sensor for sensor in SENSORS if _plain(sensor) == _plain(name)), None)


def sensor_table(name: str) -> Table:
    """The measured response of a sensor.

    Parameters
    ----------
    name : str
        One of `SENSORS`, in any spelling.

    Returns
    -------
    dict of band to (wavelengths in nm, response)
        As `response_from_table` takes it.
    """
    sensor = sensor_named(name)
    if sensor is None:
        raise ValueError(f"sensor: got {name!r}; {', '.join(SENSORS)} are known")
    return dict(_read(sensor))


def sensor_response(
    name: str, wavelengths: ArrayLike, bands: Iterable[str] | None = None, fwhm: ArrayLike | None = None
) -> Operator:
    """PM of a known sensor for a hyperspectral sensor's bands.

    Parameters
    ----------
    name : str
        One of `SENSORS`, in any spelling.
    wavelengths : (K,) array
        Band centres of the hyperspectral sensor, in nm.
    bands : sequence of names, optional
        Which bands, in this order: B2, B02 and 2 are one. None: all that the wavelengths cover.
    fwhm : float or (K,) array, optional
        Full width at half maximum of the hyperspectral bands, in nm.

    Returns
    -------
    PM : (K_M, K) scipy.sparse.csr_array
        Each row sums to one.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd.imaging import sensor_response
    >>> sensor_response("Sentinel-2A", np.arange(420.0, 1000.0, 6.5), bands=["B2", "B3", "B4", "B8"], fwhm=7.0).shape
    (4, 90)
    """
    table = sensor_table(name)
    if bands is None:
        bands = [band for band, part in table_coverage(table, wavelengths).items() if part >= LEAST_COVERED]
        if not bands:
            raise ValueError(f"wavelengths: cover no band of {name}, whose bands are {', '.join(table)}")
    return response_from_table(table, wavelengths, bands=named_bands(table, bands), fwhm=fwhm)


def named_bands(table: Curves, names: Iterable[str]) -> list[str]:
    """Bands of a table by their names, whether B2, B02 or 2; names that are none are returned as they are.

    Parameters
    ----------
    table : mapping of band to (wavelengths, response)
    names : sequence of str

    Returns
    -------
    list of str
    """
    known = {_number(band): band for band in table}
    return [name if name in table else known.get(_number(name), name) for name in map(str, names)]


def matched_bands(
    table: Curves, names: Sequence[str | None] | None, wavelengths: ArrayLike | None
) -> tuple[list[str], str] | None:
    """Which bands of a table an image has.

    Parameters
    ----------
    table : mapping of band to (wavelengths, response)
    names : sequence of str, optional
        Of the image's bands.
    wavelengths : (bands,) array, optional
        Their centres, in the unit of the table.

    Returns
    -------
    (list of str, "name" or "wavelength") or None
        The table's band for each of the image's, and what they were known by; None where some band is not known, or
        two are one.
    """
    by_name = _by_names(table, names)
    by_wavelength = _by_wavelengths(table, wavelengths)
    if by_name is not None and (wavelengths is None or _near(table, by_name, wavelengths)):
        return by_name, "name"
    return None if by_wavelength is None else (by_wavelength, "wavelength")


def _by_names(table, names):
    if names is None:
        return None
    known = {_number(band): band for band in table if _number(band) is not None}
    found = [_BAND.search((name or "").casefold()) for name in names]
    bands = [known[match[1]] for match in found if match and match[1] in known]
    return bands if len(set(bands)) == len(bands) == len(found) else None


def _by_wavelengths(table, wavelengths):
    if wavelengths is None:
        return None
    centres = {band: _centre(*curve) for band, curve in table.items()}
    bands = [min(centres, key=lambda band: abs(centres[band] - wavelength)) for wavelength in wavelengths]
    return bands if len(set(bands)) == len(bands) and _near(table, bands, wavelengths) else None


def _near(table, bands, wavelengths):
    """Whether each wavelength lies within half the width of its band."""
    pairs = zip(bands, np.asarray(wavelengths, dtype=np.float64), strict=True)
    return all(abs(_centre(*table[band]) - wavelength) <= _width(*table[band]) / 2 for band, wavelength in pairs)


def _centre(samples, response):
    weights = np.maximum(response, 0.0) * np.gradient(samples)
    return float(np.asarray(samples) @ weights / weights.sum())


def _width(samples, response):
    places = np.linspace(np.min(samples), np.max(samples), 1001)
    high = places[np.interp(places, samples, response) >= np.max(response) / 2]
    return float(high.max() - high.min())


def _number(band):
    """ "8a" of B8A, B08a or 8A; None for a name that has none."""
    match = re.fullmatch(r"b?0*(\d{1,2}[a-z]?)", band.strip().casefold())
    return match[1] if match else None


def _plain(name):
    return re.sub(r"[^a-z0-9]", "", name.casefold())


@cache
def _read(sensor) -> Table:
    reader = needed("pyrsr.rsr", f"the response of {sensor}").RSR_reader
    table = {}
    for band, curve in reader(*_SOURCES[sensor]).items():
        samples, response = np.array(curve, dtype=np.float64).T
        samples = samples * (1000.0 if samples.max() < _MICROMETRES else 1.0)
        if samples.max() < _THERMAL:
            table[f"B{band}"] = samples, response
    return table
