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
from . import enmap, envi, geotiff, jpeg2000, landsat, mat, netcdf, numpy_files, prisma, sentinel2, virtual, zarr_store
from .axes import as_band_axis
from .extras import needed
from .hashes import hashes_of
from .inspection import as_path, beginning, check_memory
from .raster import DESCRIPTIONS, REAL_DTYPES, Header, Raster, Stored
from .windows import Windows


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
    write: Callable[[list[Path], Raster], None] | None = None
    lost: Callable[[Raster], tuple[str, ...]] = _nothing
    dtypes: frozenset[str] = REAL_DTYPES
    has_variables: bool = False
    files: Callable[[Path], tuple[Path, ...]] = lambda path: (path,)
    replaceable: Callable[[Path], bool] = Path.is_file
    writer: tuple[str, str] | None = None  # the package that writes it, and how the format is called in a sentence


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
        writer=("spectral", "ENVI"),
    ),
    _Format(
        "geotiff",
        (".tif", ".tiff"),
        geotiff.open_geotiff,
        geotiff.write_geotiff,
        geotiff.lost_by_geotiff,
        geotiff.DTYPES,
        writer=("rasterio", "GeoTIFF"),
    ),
    _Format(
        "netcdf",
        (".nc", ".nc4"),
        netcdf.open_netcdf,
        netcdf.write_netcdf,
        _nothing,
        netcdf.DTYPES,
        True,
        writer=("h5netcdf", "NetCDF"),
    ),
    _Format(
        "zarr",
        (".zarr",),
        zarr_store.open_zarr,
        zarr_store.write_zarr,
        _nothing,
        zarr_store.DTYPES,
        True,
        replaceable=zarr_store.is_store,
        writer=("zarr", "Zarr"),
    ),
    _Format("jpeg2000", (".jp2", ".j2k"), jpeg2000.open_jpeg2000),
    _Format("vrt", (".vrt",), virtual.open_vrt),
    _Format("prisma", (".he5",), prisma.open_prisma),
)

# Products of several files, known by what is in them rather than by a suffix.
_PRODUCTS = (
    (sentinel2.is_product, _Format("sentinel2", (), sentinel2.open_safe, has_variables=True)),
    (landsat.is_product, _Format("landsat", (), landsat.open_landsat, has_variables=True)),
    (lambda path: enmap.image_of(path) is not None, _Format("enmap", (), enmap.open_enmap)),
    (lambda path: path.is_file() and enmap.metadata_beside(path) is not None, _Format("enmap", (), enmap.open_enmap)),
)
_BY_SUFFIX = {suffix: format for format in _FORMATS for suffix in format.suffixes}

#: The suffixes of each format that is written, in lower case; upper case is the same.
FORMATS = {format.name: format.suffixes for format in _FORMATS if format.write is not None}


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
    cube = _loaded(stored, limit)
    described = {name: getattr(declared, name) for name in DESCRIPTIONS}
    return Raster(cube, **described, source=declared.source | hashes_of(declared))


def windows(path: types.Path, *, band_axis: int | None = None, variable: str | None = None) -> Windows:
    """A file to be read a part at a time.

    Parameters
    ----------
    path, band_axis, variable
        As for `read`.

    Returns
    -------
    Windows
        With the `header` of the file, and `read(rows, cols)` for two slices: values as they are stored. A file of a
        format that cannot be read in parts is read whole, when first asked for.
    """
    stored = _look(path, band_axis, variable)
    again = _windows_again, (os.path.abspath(as_path(path)), band_axis, variable)
    return Windows(stored.header, stored.window, lambda: _loaded(stored, None), again)


def _windows_again(path, band_axis, variable):
    return windows(path, band_axis=band_axis, variable=variable)


def _loaded(stored, limit):
    declared = stored.header
    check_memory(declared.source["path"], [declared], limit)
    cube = np.empty(declared.shape, declared.dtype)
    stored.load(cube)
    return cube


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


def write(path: types.Path, raster: Raster, *, overwrite: bool = False, cog: bool = False) -> None:
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
    cog : bool
        Whether GeoTIFF is written as a cloud-optimised one, with overviews; other formats have no such form.
    """
    if not isinstance(raster, Raster):
        raise TypeError(f"raster: got {type(raster).__name__}; a Raster is needed")
    check_target(path, overwrite)
    path = as_path(path)
    format = _format_of_target(path)
    if raster.dtype.name not in format.dtypes:
        raise ValueError(f"{path}: {format.name} has no {raster.dtype.name}; it has {', '.join(sorted(format.dtypes))}")
    files = format.files(path)
    # GDAL would show the overviews of an earlier file, and believe its notes and its grid; an old header would describe
    # new data wrongly, should the rename of the new one never come.
    stale = (*_beside(files), *files[1:])
    with replacing(files, overwrite, stale, format.replaceable) as temporaries:
        if cog and format.name == "geotiff":
            geotiff.write_cog(temporaries, raster)
        elif format.write is not None:
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
    ModuleNotFoundError
        If the package that writes the format is not installed.
    """
    path = as_path(path)
    format = _format_of_target(path)
    if format.writer is not None:
        needed(format.writer[0], f"writing {format.writer[1]}")
    files = format.files(path)
    check_free(files, overwrite, format.replaceable)
    check_free((file for file in _beside(files) if file.exists()), overwrite)


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
    format = _product(path) or _BY_SUFFIX.get(path.suffix.lower())
    name = None if format is None else format.name
    if path.is_dir():
        return [path, *_files_of_folder(path, format)]
    beside = envi.names_beside(path) if name in (None, "envi") else []
    sidecars = geotiff.names_beside(path) if name in ("envi", "geotiff", "enmap", "jpeg2000", "vrt") else []
    if name == "enmap":
        beside = [file for file in (enmap.image_of(path), enmap.metadata_beside(path)) if file is not None]
    elif name == "vrt" and path.is_file():
        beside = virtual.sources_of(path)
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
    return [*files, *_beside(files)]


def _beside(files):
    """What GDAL would believe of files that are written anew, if an earlier file left it there."""
    return [name for file in files for name in geotiff.own_names_beside(file)]


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
    format = _product(path) or _BY_SUFFIX.get(path.suffix.lower())
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
    if Path(said["path"]).is_dir() and "files" not in said:
        said["files"] = sorted(str(file) for file in Path(said["path"]).rglob("*") if file.is_file())
    said["bytes"] = sum(os.stat(file).st_size for file in said.get("files", [said["path"]]))
    return replace(stored, header=replace(stored.header, source=said))


def _files_of_folder(path, format):
    """The files of a product; all that lie in its folder where that cannot be known; none of what is no product."""
    if format is None:  # nothing of it will be read, and it may be a whole disk
        return []
    try:
        options = {"variable": None} if format.has_variables else {}
        named = format.open(path, None, **options).header.source.get("files", [])
    except (ValueError, OSError, ImportError):
        named = []
    return [Path(file) for file in named] or [file for file in path.rglob("*") if file.is_file()]


def _product(path):
    """The format of a path that is a product of several files; None where it is none."""
    try:
        return next((format for found, format in _PRODUCTS if found(path)), None)
    except OSError:  # what cannot be looked at is refused by its reader
        return None


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
    if format is None or format.write is None:
        known = ", ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
        raise ValueError(f"{path}: got the suffix {path.suffix!r}; one of {known} is needed to say the format")
    return format
