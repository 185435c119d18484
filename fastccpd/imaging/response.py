"""The spectral response: PM, whose row m says how much each hyperspectral band counts in multispectral band m.

A multispectral band measures  ∫ r_m(λ) L(λ) dλ / ∫ r_m(λ) dλ. With L known at the hyperspectral bands k = 0 … K-1 this
is a weighted mean, so every row of PM is non-negative and sums to one. Three ways to the weights:

    groups   w_mk = 1 for the bands listed
    edges    w_mk = 1 for the bands whose centre lies in [low_m, high_m]
    table    w_mk = r_m(centre_k), a measured response interpolated linearly; or, with the widths of the bands known,
             the mean of r_m under a Gaussian of that full width at half maximum at centre_k

The order of the centres is never used: those of real spectrometers go backwards where two detectors overlap.
"""

import csv
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..formats import check_text
from ..model.checks import as_count, as_number
from ..model.files import one_line
from ..model.types import Operator

# Landsat's Thematic Mapper, in nm, as published fusion code has it (the fifth band is nominally 1550 to 1750).
LANDSAT_EDGES = ((450, 520), (520, 600), (630, 690), (760, 900), (1550, 1770), (2080, 2350))

#: The most bytes of a table in a csv file; as lists of text it takes many times as much.
LARGEST_TABLE = 1 << 24

#: The part of a band's response that must lie where there are hyperspectral bands.
LEAST_COVERED = 0.5

_FWHM = np.sqrt(8.0 * np.log(2.0))

#: A tabulated response: for each band its wavelengths, and the response there.
Curves: TypeAlias = Mapping[str, tuple[ArrayLike, ArrayLike]]


def landsat(n_bands: int) -> Operator:
    """PM of a Landsat-like sensor for `n_bands` bands spread evenly over 400 to 2500 nm.

    Real band centres play no part: this is the convention of published experiments, for any AVIRIS scene.

    Parameters
    ----------
    n_bands : int
        Bands of the hyperspectral image, at least 36.

    Returns
    -------
    PM : (6, n_bands) scipy.sparse.csr_array
        Each row sums to one.

    Examples
    --------
    >>> from fastccpd.imaging import landsat
    >>> PM = landsat(200)
    >>> [(int(row.nonzero()[0][0]) + 1, int(row.nonzero()[0][-1]) + 1) for row in PM.toarray()]
    [(6, 12), (13, 19), (23, 28), (36, 48), (110, 130), (161, 185)]
    """
    n_bands = as_count(n_bands, "n_bands")
    try:
        return response_from_edges(LANDSAT_EDGES, np.linspace(400.0, 2500.0, n_bands))
    except ValueError:
        raise ValueError(
            f"n_bands: got {n_bands}, too few for every Landsat band to see one; use more (36 suffice), or "
            "response_from_groups or response_from_edges"
        ) from None


def response_from_groups(groups: "Iterable[slice | ArrayLike]", n_bands: int) -> Operator:
    """PM whose rows average groups of bands.

    Parameters
    ----------
    groups : sequence
        For each multispectral band the 0-based bands it averages: a slice, a range, a sequence of numbers, or a boolean
        mask of length `n_bands`.
    n_bands : int
        Bands of the hyperspectral image.

    Returns
    -------
    PM : (len(groups), n_bands) scipy.sparse.csr_array

    Examples
    --------
    >>> from fastccpd.imaging import response_from_groups
    >>> response_from_groups([slice(0, 2), [1, 3]], 4).toarray()
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0.5, 0. , 0.5]])
    """
    n_bands = as_count(n_bands, "n_bands")
    members = [_members(group, n_bands, f"groups[{m}]") for m, group in enumerate(groups)]
    if not members:
        raise ValueError("groups: got none; at least one is needed")
    return _averages(members, n_bands)


def response_from_edges(edges: Mapping | Iterable, wavelengths: ArrayLike) -> Operator:
    """PM whose rows average the bands with centres between two edges, both included.

    Parameters
    ----------
    edges : (K_M, 2) numbers, or a mapping of names to pairs
        Lower and upper edge of each multispectral band, in the unit of `wavelengths`; `read_edges` reads them.
    wavelengths : (K,) array
        Band centres, in any order.

    Returns
    -------
    PM : (K_M, K) scipy.sparse.csr_array

    Examples
    --------
    >>> from fastccpd.imaging import response_from_edges
    >>> response_from_edges([(450, 520), (630, 690)], [440, 460, 480, 650, 640]).toarray()
    array([[0. , 0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0. , 0.5, 0.5]])
    """
    centres = _centres(wavelengths)
    named = isinstance(edges, Mapping)
    pairs = edges.values() if named else edges
    try:
        limits = np.array(list(pairs), dtype=np.float64)
    except (TypeError, ValueError):
        limits = np.empty((0, 0))
    if limits.ndim != 2 or limits.shape[1] != 2 or not (limits[:, 0] <= limits[:, 1]).all():
        raise ValueError(f"edges: got {edges!r}; pairs (low, high) with low <= high are needed")
    members = []
    for name, (low, high) in zip(edges if named else range(len(limits)), limits, strict=True):
        members.append(np.flatnonzero((centres >= low) & (centres <= high)))
        if not members[-1].size:
            raise ValueError(
                f"edges: no band centre lies in band {name}, {low:g} to {high:g}; the wavelengths go from "
                f"{centres.min():g} to {centres.max():g}"
            )
    return _averages(members, len(centres))


def response_from_table(
    table: str | PathLike | Curves,
    wavelengths: ArrayLike,
    bands: Iterable[str] | None = None,
    fwhm: ArrayLike | None = None,
    coverage: float = LEAST_COVERED,
) -> Operator:
    """PM from a measured spectral response and real band centres.

    Parameters
    ----------
    table : path, or mapping of names to (wavelengths, response)
        A csv file as `read_response` takes it, or what it returns.
    wavelengths : (K,) array
        Band centres of the hyperspectral sensor, in the unit of the table and in any order.
    bands : sequence of names, optional
        Which bands of the table to use, in this order. None: all, in the table's order.
    fwhm : float or (K,) array, optional
        Full width at half maximum of the hyperspectral bands. Given, each weight is the mean of the response under a
        Gaussian of that width; None takes the response at the centre alone.
    coverage : float
        The part of a band's response that must lie where there are hyperspectral bands (within one typical spacing of a
        centre); a band with less is refused, for its row would be made of the response's tails.

    Returns
    -------
    PM : (K_M, K) scipy.sparse.csr_array
        Non-negative; each row sums to one. Negative values of the table, measurement noise, count as zero.

    Examples
    --------
    >>> from fastccpd.imaging import response_from_table
    >>> table = {"green": ([500, 550, 600], [0, 1, 0])}
    >>> response_from_table(table, [490, 525, 550, 575, 610]).toarray()
    array([[0.  , 0.25, 0.5 , 0.25, 0.  ]])
    """
    centres = _centres(wavelengths)
    coverage = as_number(coverage, "coverage")
    if fwhm is not None:
        fwhm = np.broadcast_to(np.asarray(fwhm, dtype=np.float64), centres.shape)
        if not (np.isfinite(fwhm) & (fwhm > 0.0)).all():
            raise ValueError("fwhm: holds values that are not finite and positive; widths of the bands are needed")
    curves = {str(name): _curve(*curve, name) for name, curve in _table(table).items()}
    chosen = list(curves) if bands is None else [str(name) for name in bands]
    unknown = [name for name in chosen if name not in curves]
    if unknown or not chosen:
        raise ValueError(f"bands: got {unknown or chosen}; the table has {', '.join(curves)}")
    weights = np.zeros((len(chosen), len(centres)))
    for row, name in zip(weights, chosen, strict=True):
        samples, response = curves[name]
        covered = _covered(samples, response, centres)
        if fwhm is None:
            row[:] = np.interp(centres, samples, response, left=0.0, right=0.0)
        else:
            row[:] = _under_gaussians(samples, response, centres, fwhm)
        if covered < coverage or not row.any():
            raise ValueError(
                f"table: the wavelengths cover only {100 * covered:.0f} % of band {name}; leave it out by bands=, "
                "or lower coverage"
            )
        row /= row.sum()
    return sparse.csr_array(weights)


def table_coverage(table: str | PathLike | Curves, wavelengths: ArrayLike) -> dict[str, float]:
    """How much of each band's response lies where there are hyperspectral bands, from 0 to 1.

    Parameters
    ----------
    table, wavelengths
        As of `response_from_table`.

    Returns
    -------
    dict of name to float
    """
    centres = _centres(wavelengths)
    return {str(name): _covered(*_curve(*curve, name), centres) for name, curve in _table(table).items()}


def read_response(path: str | PathLike) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The bands of a tabulated spectral response.

    Parameters
    ----------
    path : path
        A csv file with a header, either "long" with columns band, wavelength_nm, response, or "wide" with a column
        wavelength_nm and one column per band.

    Returns
    -------
    dict of name to (wavelengths, response)
        Two arrays for each band, as `response_from_table` takes them.
    """
    header, rows = _read_csv(path)
    if {"band", "wavelength_nm", "response"} <= set(header):
        places = [header.index(column) for column in ("band", "wavelength_nm", "response")]
        samples = [tuple(row[place] for place in places) for row in rows]
    elif "wavelength_nm" in header and len(header) > 1:
        place = header.index("wavelength_nm")
        bands = [n for n in range(len(header)) if n != place]
        samples = [(header[band], row[place], row[band]) for band in bands for row in rows]
    else:
        raise ValueError(
            f"{path}: got columns {one_line(', '.join(header))}; band, wavelength_nm, response are needed, or "
            "wavelength_nm and one column per band"
        )
    curves = {}
    for name, wavelength, response in samples:
        curves.setdefault(name, []).append((_number(wavelength, path), _number(response, path)))
    columns = {name: np.array(curve, dtype=np.float64).T for name, curve in curves.items()}
    return {name: (samples, response) for name, (samples, response) in columns.items()}


def read_edges(path: str | PathLike, sensor: str) -> dict[str, tuple[float, float]]:
    """The band edges of one sensor.

    Parameters
    ----------
    path : path
        A csv file with the columns sensor, band, low_nm, high_nm.
    sensor : str
        Its name in that file.

    Returns
    -------
    dict of band to (low, high)
        As `response_from_edges` takes it.
    """
    header, rows = _read_csv(path)
    columns = ("sensor", "band", "low_nm", "high_nm")
    if not set(columns) <= set(header):
        raise ValueError(f"{path}: got columns {one_line(', '.join(header))}; {', '.join(columns)} are needed")
    table = [tuple(row[header.index(column)] for column in columns) for row in rows]
    edges = {band: (_number(low, path), _number(high, path)) for name, band, low, high in table if name == sensor}
    if not edges:
        known = ", ".join(dict.fromkeys(name for name, *_ in table))
        raise ValueError(f"sensor: got {sensor!r}; the file has {one_line(known)} ({path})")
    return edges


def _members(group, n_bands, name):
    """The band numbers of one group."""
    if isinstance(group, slice):
        group = range(n_bands)[group]
    numbers = np.asarray(group)
    if numbers.dtype == bool and numbers.shape == (n_bands,):
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not numbers.size:
        raise ValueError(f"{name}: got {group!r}; at least one band number, or a mask of {n_bands} bands, is needed")
    if numbers.min() < 0 or numbers.max() >= n_bands:
        raise ValueError(f"{name}: got bands {numbers.min()} to {numbers.max()}; 0 to {n_bands - 1} are needed")
    if len(np.unique(numbers)) != len(numbers):
        raise ValueError(f"{name}: names a band twice; each counts once")
    return np.sort(numbers)


def _averages(members, n_bands):
    """The matrix whose row m averages the bands `members[m]`."""
    counts = np.array([len(bands) for bands in members])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    weights = np.repeat(1.0 / counts, counts)
    return sparse.csr_array((weights, np.concatenate(members), indptr), shape=(len(members), n_bands))


def _centres(wavelengths):
    try:
        centres = np.asarray(wavelengths, dtype=np.float64)
    except (TypeError, ValueError):
        centres = np.empty(0)
    if centres.ndim != 1 or not centres.size or not (np.isfinite(centres) & (centres > 0.0)).all():
        raise ValueError(f"wavelengths: got {wavelengths!r}; the centre of each band, finite and positive, is needed")
    return centres


def _table(table):
    if isinstance(table, Mapping):
        return table
    if isinstance(table, str | PathLike):
        return read_response(table)
    raise TypeError(f"table: got {type(table).__name__}; a path, or a mapping to (wavelengths, response), is needed")


def _curve(samples, response, name):
    """One band of a table: sorted samples, and its response without the negative part."""
    samples, response = np.asarray(samples, dtype=np.float64), np.asarray(response, dtype=np.float64)
    if samples.ndim != 1 or samples.shape != response.shape or len(samples) < 2:
        raise ValueError(
            f"table: band {name} has wavelengths of shape {samples.shape} and values of shape {response.shape}; two or "
            "more of each are needed"
        )
    if not (np.isfinite(samples).all() and np.isfinite(response).all()):
        raise ValueError(f"table: band {name} holds NaN or infinite values; finite ones are needed")
    if not (samples > 0.0).all():
        raise ValueError(f"table: band {name} has a wavelength of {samples.min():g}; positive ones are needed")
    order = np.argsort(samples)
    samples, response = samples[order], np.maximum(response[order], 0.0)
    if not (np.diff(samples) > 0.0).all():
        raise ValueError(f"table: band {name} gives one wavelength twice; each may occur once")
    if not response.any():
        raise ValueError(f"table: band {name} responds nowhere; positive values are needed")
    return samples, response


def _covered(samples, response, centres):
    """The part of the response within one typical spacing of some centre."""
    centres = np.sort(centres)
    reach = np.median(np.diff(centres)) if len(centres) > 1 else np.inf
    after = np.searchsorted(centres, samples)
    below, above = centres[np.maximum(after - 1, 0)], centres[np.minimum(after, len(centres) - 1)]
    near = np.minimum(np.abs(samples - below), np.abs(samples - above)) <= reach
    widths = np.gradient(samples)
    return float((response * widths)[near].sum() / (response * widths).sum())


def _under_gaussians(samples, response, centres, fwhm):
    """The mean of the response under each band's own Gaussian; beyond the table the response is zero."""
    sigma = fwhm / _FWHM
    # Five points a standard deviation: the rectangle rule on a Gaussian is then exact to rounding.
    offsets = np.linspace(-8.0, 8.0, 81)
    weights = np.exp(-0.5 * offsets**2)
    at = np.interp(centres[:, None] + sigma[:, None] * offsets, samples, response, left=0.0, right=0.0)
    return at @ (weights / weights.sum())


def _read_csv(path):
    """The header and the rows of a csv file, all as text."""
    check_text(path, "a table of text", LARGEST_TABLE)
    try:
        with open(path, newline="", encoding="utf-8-sig") as lines:
            rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a csv file ({error})") from None
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"{path}: its rows differ in length or there are none; a csv file with a header is needed")
    return rows[0], rows[1:]


def _number(text, path):
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path}: got {one_line(text)!r} among the numbers; a number is needed") from None
