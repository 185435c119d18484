"""The nouns: a raster, its header without the data, and where it lies."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..model.checks import as_cube, set_fields
from ..model.types import Mask, Shape
from .extras import rasterio_or_none

#: What a cube may be of.
REAL_DTYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)) - {"float8"}

#: What may be known of a cube.
DESCRIPTIONS = ("wavelengths", "fwhm", "nodata", "georeference", "bad_bands", "scale", "offset", "names", "tags")

_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class Georeference:
    """Where the regular grid of a raster lies.

    Attributes
    ----------
    crs : str or None
        The coordinate reference system as WKT; None when it is not known.
    transform : six floats (a, b, c, d, e, f)
        x = a column + b row + c and y = d column + e row + f, where (0, 0) is the outer corner of the first pixel.
    """

    crs: str | None
    transform: tuple[float, float, float, float, float, float]

    def __post_init__(self):
        needed = "six finite numbers (a, b, c, d, e, f) of pixels with an area are needed"
        try:
            a, b, _, d, e, _ = transform = tuple(float(value) for value in self.transform)
        except (TypeError, ValueError):
            raise ValueError(f"transform: got {self.transform!r}; {needed}") from None
        if not all(math.isfinite(value) for value in transform) or a * e == b * d:
            raise ValueError(f"transform: got {transform}; {needed}")
        if self.crs is not None and not isinstance(self.crs, str):
            raise TypeError(f"crs: got {type(self.crs).__name__}; WKT as text, or None, is needed")
        set_fields(self, transform=transform)

    def same_crs(self, other: "Georeference") -> bool | None:
        """Whether two grids have the same coordinate reference system; None where that cannot be known.

        One system has many spellings, which only rasterio, where it is installed, can compare. The order of the axes,
        in which they may differ, is of no matter: a transform always has x first. ESRI's spelling is without it.
        """
        if self.crs is None or other.crs is None:
            return None
        if self.crs == other.crs:
            return True
        rasterio = rasterio_or_none()
        if rasterio is None:
            return None
        with rasterio.Env():  # so that GDAL logs, and prints nothing
            try:
                systems = [rasterio.CRS.from_wkt(text) for text in (self.crs, other.crs)]
                first, second = (rasterio.CRS.from_wkt(crs.to_wkt(version="WKT1_ESRI")) for crs in systems)
                return first == second
            except ValueError:
                return None


@dataclass(frozen=True, eq=False, kw_only=True)
class _Described:
    """What a file may say of its cube."""

    wavelengths: np.ndarray | None = None
    fwhm: np.ndarray | None = None
    nodata: float | None = None
    georeference: Georeference | None = None
    bad_bands: np.ndarray | None = None
    scale: np.ndarray | None = None
    offset: np.ndarray | None = None
    names: tuple[str, ...] | None = None
    tags: dict[str, str] | None = None
    source: dict[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:
        # Every child has them, a header as fields and a raster by its cube.
        shape: ClassVar[Any]
        dtype: ClassVar[Any]

    def __post_init__(self):
        bands = self.shape[2]
        for name in ("wavelengths", "fwhm"):
            if getattr(self, name) is not None:
                set_fields(self, **{name: _positive(getattr(self, name), name, bands)})
        if self.bad_bands is not None:
            set_fields(self, bad_bands=_flags(self.bad_bands, bands))
        if self.nodata is not None:
            set_fields(self, nodata=_number(self.nodata))
        for name, plain in (("scale", 1.0), ("offset", 0.0)):
            if getattr(self, name) is not None:
                set_fields(self, **{name: _unless_plain(getattr(self, name), name, bands, plain)})
        if self.names is not None:
            set_fields(self, names=_names(self.names, bands))
        if self.tags is not None:
            set_fields(self, tags={str(key): str(value) for key, value in self.tags.items()} or None)
        if self.georeference is not None and not isinstance(self.georeference, Georeference):
            raise TypeError(f"georeference: got {type(self.georeference).__name__}; a Georeference is needed")

    def __repr__(self):
        known = [name for name in DESCRIPTIONS if getattr(self, name) is not None]
        size = "×".join(map(str, self.shape))
        return f"<{type(self).__name__} {size} {self.dtype}, {' and '.join(known) or 'nothing else known'}>"


@dataclass(frozen=True, eq=False, repr=False)
class Header(_Described):
    """What a file declares, without its data.

    Attributes
    ----------
    shape : (rows, columns, bands)
        Of the cube that is not read.
    dtype : numpy.dtype
        That of the file.
    wavelengths, fwhm, nodata, georeference, bad_bands, scale, offset, names, tags, source
        As of `Raster`; of the source the sha256 is None.
    """

    shape: tuple[int, int, int]
    dtype: np.dtype


@dataclass(frozen=True, eq=False, repr=False)
class Raster(_Described):
    """A cube, and what is known of it.

    Attributes
    ----------
    cube : (rows, columns, bands) array
        In native byte order; from a file, in the dtype of the file and contiguous.
    wavelengths, fwhm : (bands,) float64 array or None
        Centre and full width at half maximum of each band in nm, in the order of the bands: not always sorted.
    nodata : float or None
        The value that stands for a missing measurement; may be NaN.
    georeference : Georeference or None
    bad_bands : (bands,) bool array or None
        True where a band is marked as unusable.
    scale, offset : (bands,) float64 array or None
        What turns the values of each band into physical ones: value × scale + offset; one number stands for all bands.
        None: 1 and 0. nodata is a value as it stands in the cube.
    names : tuple of str or None
        What the bands are called.
    tags : dict of str to str, or None
        Whatever else is kept with the file, such as how it was made.
    source : dict
        Of a raster that was read: path, format, variable, stored_shape, band_axis, layout (a sentence), bytes, sha256,
        notes (sentences: what was assumed or left out); of ENVI also header_path and header_sha256.
    """

    cube: np.ndarray

    def __post_init__(self):
        cube = as_cube(self.cube, "cube")
        set_fields(self, cube=cube.astype(cube.dtype.newbyteorder("="), copy=False, subok=False))
        super().__post_init__()

    @property
    def shape(self) -> Shape:
        """The shape of the cube."""
        return self.cube.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the cube."""
        return self.cube.dtype

    def missing(self) -> Mask:
        """The pixels, (rows, columns), that hold nodata or NaN in any band that is not marked as bad."""
        mask = np.zeros(self.shape[:2], bool)
        good = slice(None) if self.bad_bands is None else ~self.bad_bands
        step = max(1, _BLOCK_BYTES // self.cube[:1].nbytes)
        for start in range(0, len(mask), step):
            mask[start : start + step] = gone(self.cube[start : start + step, :, good], self.nodata).any(axis=2)
        return mask


@dataclass(frozen=True)
class Stored:
    """A file that was looked at: its header, and the functions that read it.

    `load` fills a (rows, columns, bands) array with it; `window`, of formats that can read a part, gives that of two
    slices of rows and columns, both with start and stop.
    """

    header: Header
    load: Callable[[np.ndarray], None]
    window: Callable[[slice, slice], np.ndarray] | None = None


def gone(values: np.ndarray, nodata: float | None) -> Mask:
    """The values that are NaN, or nodata where a value of their dtype can be that; in the shape of the array."""
    found = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    if nodata is not None and not math.isnan(nodata) and can_hold(values.dtype, nodata):
        found |= values == values.dtype.type(nodata)
    return found


def can_hold(dtype: np.dtype[Any], value: float) -> bool:
    """Whether a pixel of this dtype can be `value`, up to the rounding of floats."""
    if dtype.kind == "f":
        return math.isnan(value) or math.isinf(value) or abs(value) <= float(np.finfo(dtype).max)
    limits = np.iinfo(dtype)
    return math.isfinite(value) and value == int(value) and limits.min <= value <= limits.max


def _positive(values, name, bands):
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: got {values!r}; one number for each of the {bands} bands is needed") from None
    if array.shape != (bands,):
        raise ValueError(f"{name}: got shape {array.shape}; one number for each of the {bands} bands is needed")
    if not (np.isfinite(array) & (array > 0.0)).all():
        raise ValueError(f"{name}: holds values that are not finite and positive; nm are needed")
    return array


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"nodata: got {value!r}; a number, which may be NaN, is needed") from None


def _unless_plain(values, name, bands, plain):
    """One finite number a band, or None where they change nothing."""
    try:
        array = np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (bands,)))
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}: got {values!r}; one number, or one for each of the {bands} bands, is needed"
        ) from None
    if not np.isfinite(array).all() or (name == "scale" and (array == 0.0).any()):
        wanted = "finite numbers other than 0" if name == "scale" else "finite numbers"
        raise ValueError(f"{name}: holds values that are of no use; {wanted} are needed")
    return None if (array == plain).all() else array


def _names(values, bands):
    names = tuple(map(str, values))
    if len(names) != bands:
        raise ValueError(f"names: got {len(names)}; one for each of the {bands} bands is needed")
    return names


def _flags(values, bands):
    array = np.array(values)
    if array.shape != (bands,) or array.dtype != bool:
        raise ValueError(
            f"bad_bands: got shape {array.shape} of {array.dtype}; one bool for each of the {bands} bands is needed"
        )
    return array
