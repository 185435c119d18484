"""The verbs: which format a path is in, then one line of work for all of them: look, check, read; check, write, rename.

To add a format, write a file that has a function to open (path -> `Stored`) and one to write (temporary names,
raster), and give it a row in `_FORMATS`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..model import types
from ..model.checks import as_count
from ..model.files import check_free, replacing
from . import envi, geotiff, mat, numpy_files
from .axes import as_band_axis
from .inspection import as_path, beginning, check_memory, sha256
from .raster import DESCRIPTIONS, REAL_DTYPES, Header, Raster, Stored


def _everything(raster):
    return tuple(name for name in DESCRIPTIONS if getattr(raster, name) is not None)


def _nothing(raster):
    return ()


@dataclass(frozen=True)
class _Format:
    """One kind of file: how it is opened and written, what it cannot carry of a raster, which files an output is."""

    name: str
    suffixes: tuple[str, ...]
    open: Callable[..., Stored]
    write: Callable[[list[Path], Raster], None]
    lost: Callable[[Raster], tuple[str, ...]]
    dtypes: frozenset[str]
    has_variables: bool = False
    files: Callable[[Path], tuple[Path, ...]] = lambda path: (path,)


_FORMATS = (
    _Format("npy", (".npy",), numpy_files.open_npy, numpy_files.write_npy, _everything, REAL_DTYPES),
    _Format("npz", (".npz",), numpy_files.open_npz, numpy_files.write_npz, _nothing, REAL_DTYPES, True),
    _Format("mat", (".mat",), mat.open_mat, mat.write_mat, _nothing, mat.DTYPES, True),
    _Format(
        "envi",
        (envi.HEADER, *envi.DATA_SUFFIXES),
        envi.open_envi,
        envi.write_envi,
        envi.lost_by_envi,
        envi.DTYPES,
        files=envi.files,
    ),
    _Format(
        "geotiff",
        (".tif", ".tiff"),
        geotiff.open_geotiff,
        geotiff.write_geotiff,
        geotiff.lost_by_geotiff,
        geotiff.DTYPES,
    ),
)
_BY_SUFFIX = {suffix: format for format in _FORMATS for suffix in format.suffixes}

#: The suffixes of each format, in lower case; upper case is the same.
FORMATS = {format.name: format.suffixes for format in _FORMATS}


def read(
    path: types.Path, *, band_axis: int | None = None, variable: str | None = None, limit: int | None = None
) -> Raster:
    """Read a raster.

    Parameters
    ----------
    path : path
        The format is that of the suffix. `file.npz::name` and `file.mat::name` name a variable too. Of ENVI either the
        header or the data, which may have any name with a header beside it.
    band_axis : int, optional
        Which of the three stored axes (of MAT files: as MATLAB counts them, from 0) holds the bands; the other two are
        rows and columns, in this order. None: the last, except in ENVI and GeoTIFF, which declare theirs.
    variable : str, optional
        Which array of an npz or MAT file to read. None: the one called `cube`, or the only one with three axes.
    limit : int, optional
        The most bytes that the cube may take. None: the memory that is available.

    Returns
    -------
    Raster
        Contiguous, in native byte order and the dtype of the file; `source` has what was found, `source["notes"]`
        what was assumed.

    Raises
    ------
    ValueError, OSError, MemoryError, ModuleNotFoundError
        One sentence that names the path, for a file that is not what it should be, that cannot be read, that declares
        more than `limit`, or that needs a package that is not installed.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from fastccpd import rasters
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/scene.npz"
    >>> rasters.write(path, rasters.Raster(np.zeros((4, 3, 2)), wavelengths=[500, 600], nodata=-1))
    >>> rasters.read(path)
    <Raster 4×3×2 float64, wavelengths and nodata>
    >>> rasters.read(path).source["layout"]
    'the variable cube, so called, stored as (rows, columns, bands), the order taken where band_axis is not given'
    >>> folder.cleanup()
    """
    limit = None if limit is None else as_count(limit, "limit")
    stored = _look(path, band_axis, variable)
    declared = stored.header
    check_memory(declared.source["path"], [declared], limit)
    cube = np.empty(declared.shape, declared.dtype)
    stored.load(cube)
    hashes = {"sha256": sha256(declared.source["path"])}
    if "header_path" in declared.source:
        hashes["header_sha256"] = sha256(declared.source["header_path"])
    described = {name: getattr(declared, name) for name in DESCRIPTIONS}
    return Raster(cube, **described, source=declared.source | hashes)


def header(path: types.Path, *, band_axis: int | None = None, variable: str | None = None) -> Header:
    """What `read` would return, without the data: a `Header` has shape and dtype in place of the cube.

    Parameters
    ----------
    path, band_axis, variable
        As for `read`.

    Returns
    -------
    Header
        Its `source` has None for the sha256, which takes a pass over the file.
    """
    return _look(path, band_axis, variable).header


def write(path: types.Path, raster: Raster, *, overwrite: bool = False) -> None:
    """Write a raster in the format of the suffix; what the format cannot carry, `lost_by` lists.

    The file comes into being under a temporary name in the same folder and is renamed when it is whole. ENVI is a pair
    of files, of which the header comes last; its data are bsq, or bil or bip where the suffix says so.

    Parameters
    ----------
    path : path
        `name.hdr` stands for `name.img` and `name.hdr`, and so does `name.img`.
    raster : Raster
    overwrite : bool
        False refuses a path where something is.
    """
    if not isinstance(raster, Raster):
        raise TypeError(f"raster: got {type(raster).__name__}; a Raster is needed")
    check_target(path, overwrite)
    path = as_path(path)
    format = _format_of_target(path)
    if raster.dtype.name not in format.dtypes:
        raise ValueError(f"{path}: {format.name} has no {raster.dtype.name}; it has {', '.join(sorted(format.dtypes))}")
    files = format.files(path)
    # GDAL would prefer what the .aux.xml of an earlier file says to the file itself; an old header would describe new
    # data wrongly, should the rename of the new one never come.
    stale = (*map(geotiff.auxiliary, files), *files[1:])
    with replacing(files, overwrite, stale) as temporaries:
        format.write(temporaries, raster)


def check_target(path: types.Path, overwrite: bool = False) -> None:
    """Refuse, before any work is done, an output that `write` would refuse.

    Parameters
    ----------
    path : path
    overwrite : bool
        Whether something that exists may be replaced.

    Raises
    ------
    ValueError
        If the suffix is not that of a format.
    OSError
        If the folder is not there or read-only, or if something exists at the path.
    """
    path = as_path(path)
    files = _format_of_target(path).files(path)
    check_free((*files, *(file for file in map(geotiff.auxiliary, files) if file.exists())), overwrite)


def files_read(path: types.Path) -> list[Path]:
    """Every file that `read` may look at for this path, whether it exists or not.

    Parameters
    ----------
    path : path
        `file.npz::name` too.

    Returns
    -------
    list of Path
        Of ENVI the data and the header under all the names that are accepted; of GeoTIFF also what GDAL keeps beside.
    """
    path, _ = _split(as_path(path), None)
    format = _BY_SUFFIX.get(path.suffix.lower())
    name = None if format is None else format.name
    beside = envi.names_beside(path) if name in (None, "envi") else []
    sidecars = geotiff.names_beside(path) if name in ("envi", "geotiff") else []
    return [path, *beside, *sidecars]


def files_written(path: types.Path) -> list[Path]:
    """Every file that `write` makes, replaces or removes for this path.

    Parameters
    ----------
    path : path

    Returns
    -------
    list of Path
    """
    path = as_path(path)
    files = _format_of_target(path).files(path)
    return [*files, *map(geotiff.auxiliary, files)]


def lost_by(path: types.Path, raster: Raster) -> tuple[str, ...]:
    """The names of what is known of a raster but that the format of `path` cannot carry.

    Parameters
    ----------
    path : path
    raster : Raster

    Returns
    -------
    tuple of str
        Of wavelengths, fwhm, nodata, georeference, bad_bands.

    Examples
    --------
    >>> import numpy as np
    >>> from fastccpd import rasters
    >>> rasters.lost_by("scene.npy", rasters.Raster(np.zeros((4, 3, 2)), wavelengths=[500, 600]))
    ('wavelengths',)
    """
    return _format_of_target(as_path(path)).lost(raster)


def _look(path, band_axis, variable):
    """A file opened: its format found, its header read and checked."""
    path, variable = _split(as_path(path), variable)
    format = _BY_SUFFIX.get(path.suffix.lower())
    if format is None:
        beginning(path)
        if envi.header_of(path) is None:
            raise ValueError(f"{path}: got the suffix {path.suffix!r}; {_known()} is needed, or an ENVI header beside")
        format = _BY_SUFFIX[envi.HEADER]
    options = {"variable": variable} if format.has_variables else {}
    if variable is not None and not format.has_variables:
        raise ValueError(f"variable: got {variable!r}, but {path} holds one array without a name; leave it out")
    stored = format.open(path, as_band_axis(band_axis), **options)
    said = {"path": str(path), "format": format.name, "variable": None, "sha256": None, "notes": ()}
    said |= stored.header.source
    said["bytes"] = os.stat(said["path"]).st_size
    return replace(stored, header=replace(stored.header, source=said))


def _split(path, variable):
    """`file.npz::name` into the path and the name of the variable."""
    name, mark, inner = str(path).rpartition("::")
    if not mark or not name or os.path.lexists(path):
        return path, variable
    if variable not in (None, inner):
        raise ValueError(f"variable: got {variable!r}, but the path says {inner!r}; one of the two is needed")
    return Path(name), inner


def _known():
    return ", ".join(_BY_SUFFIX)


def _format_of_target(path):
    format = _BY_SUFFIX.get(path.suffix.lower())
    if format is None:
        raise ValueError(f"{path}: got the suffix {path.suffix!r}; one of {_known()} is needed to say the format")
    return format
