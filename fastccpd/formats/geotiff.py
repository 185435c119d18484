"""GeoTIFF, by rasterio; wavelengths are written both as plain tags and in GDAL's IMAGERY domain.

A cloud-optimised GeoTIFF has overviews and tiles in an order that suits readers over a network; GDAL makes it from a
plain one beside it. That one is not compressed, for its tiles are read in another order than they lie, and GDAL would
inflate each of them many times. This is done in a process of its own: it takes minutes, in which this one would hear
nobody, and a process can be ended at any moment.
"""

import math
import os
import subprocess
import sys
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np

from ..machine import hand_back_freed_memory
from .axes import declared, in_order_of_file
from .extras import needed
from .gdal import IDENTITY, TILE, blocks, described, numbers, opened, quiet, read_window
from .inspection import beginning, check_array, expect
from .raster import REAL_DTYPES, Header, Stored, can_hold
from .silence import NO_LINES_OF_LIBTIFF

DTYPES = REAL_DTYPES - {"float16"}

_KIND = "a GeoTIFF file"

# Bytes that GDAL keeps of what is written block by block, and as a plain file is copied into one whose tiles have all
# bands together; and how many threads compress these. A cache of 256 MB took 200 MB more and 10 % less CPU.
_CACHE, _THREADS = 64 << 20, "2"


def open_geotiff(path, band_axis):
    """The bands of a GeoTIFF file."""
    head, size = beginning(path)
    expect(path, head, "a TIFF file")
    rasterio = needed("rasterio", f"{path}: GeoTIFF")
    with opened(rasterio, path, "GTiff", _KIND) as image:
        shape, dtypes = (image.height, image.width, image.count), set(image.dtypes)
        pages, plain = len(image.subdatasets), image.compression is None
        axis, by = (2, "pixel interleave") if image.profile.get("interleave") == "pixel" else (0, "band interleave")
        known, notes = described(rasterio, image)
    if pages > 1:
        raise ValueError(f"{path}: holds {pages} pages; one image that has all the bands is needed")
    layout = declared(path, axis, by, band_axis)
    dtype = np.dtype(dtypes.pop()) if len(dtypes) == 1 else "of several dtypes"
    check_array(path, shape, dtype, "the image")
    if plain and size < math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{path}: has {size} bytes but declares {math.prod(shape) * dtype.itemsize}; it is truncated")

    def load(cube):
        with opened(rasterio, path, "GTiff", _KIND) as image:
            for rows, bands, window in blocks(rasterio, image):
                in_order_of_file(cube[rows, :, bands], 0)[...] = image.read(numbers(bands), window=window)

    def window(rows, cols):
        with opened(rasterio, path, "GTiff", _KIND) as image:
            return read_window(rasterio, image, rows, cols)

    stored_shape = shape if axis == 2 else (shape[2], *shape[:2])
    source = {"stored_shape": stored_shape, "band_axis": axis, "layout": layout, "notes": tuple(notes)}
    return Stored(Header(shape, dtype, **known, source=source), load, window)


def write_geotiff(temporaries, raster):
    """Tiles of one band each, deflated; then read again, for a disk that fills up as the file is closed goes unsaid."""
    rasterio = needed("rasterio", "writing GeoTIFF")
    path = temporaries[0].absolute()
    # Without the .aux.xml that GDAL may write beside a file, and that would keep its temporary name.
    with quiet(rasterio), NO_LINES_OF_LIBTIFF, rasterio.Env(GDAL_PAM_ENABLED=False):
        with rasterio.open(path, "w", **_profile(rasterio, raster)) as image:
            for rows, bands, window in blocks(rasterio, image):
                block = in_order_of_file(raster.cube[rows, :, bands], 0)
                image.write(np.ascontiguousarray(block), numbers(bands), window=window)
            _write_tags(image, raster)
        _compare(rasterio, path, raster)


def write_cog(temporaries, raster):
    """The same as a cloud-optimised GeoTIFF with overviews."""
    rasterio = needed("rasterio", "writing GeoTIFF")
    path = temporaries[0].absolute()
    with stream_geotiff(path, raster, cog=True) as write:
        for first in range(0, raster.shape[0], TILE):
            rows = slice(first, min(first + TILE, raster.shape[0]))
            write(rows, slice(0, raster.shape[1]), raster.cube[rows])
    with quiet(rasterio), NO_LINES_OF_LIBTIFF:
        _compare(rasterio, path, raster)


@contextmanager
def stream_geotiff(path, raster, cog):
    """Yields write(rows, cols, block) for a file whose pixels are not there yet; `raster` says the rest.

    Blocks are whole tiles of the file, each written once, so GDAL need not keep them; its cache is held small.
    """
    rasterio = needed("rasterio", "writing GeoTIFF")
    path = path.absolute()
    plain = path.with_name(f"{path.stem}-plain{path.suffix}") if cog else path
    settings = {"GDAL_PAM_ENABLED": False, "GDAL_CACHEMAX": _CACHE}
    profile = _profile(rasterio, raster, compressed=not cog)
    try:
        with (
            quiet(rasterio),
            NO_LINES_OF_LIBTIFF,
            rasterio.Env(**settings),
            rasterio.open(plain, "w", **profile) as image,
        ):

            def write(rows, cols, block):
                window = rasterio.windows.Window.from_slices(rows, cols)
                try:
                    image.write(np.ascontiguousarray(np.moveaxis(block, 2, 0)), window=window)
                except rasterio.errors.RasterioIOError as error:  # which says no more than that it failed
                    raise OSError("a block could not be written; the disk may be full") from error

            _write_tags(image, raster)
            yield write
        _check_tiles(rasterio, plain)
        if cog:
            hand_back_freed_memory()
            _optimised_elsewhere(plain, path)
            _check_tiles(rasterio, path)
    finally:
        if cog:
            plain.unlink(missing_ok=True)


def _optimised_elsewhere(plain, path):
    """`optimise` in a process of its own, which ends when this one is interrupted."""
    package = str(Path(__file__).parents[2])
    search = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", f"import sys; from {__name__} import optimise; optimise(*sys.argv[1:])"]
    # In a session of its own: Ctrl-C reaches this process alone, which then ends the other.
    process = subprocess.Popen(
        [*command, str(plain), str(path)],
        env={**os.environ, "PYTHONPATH": search},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        said = process.communicate()[1].decode(errors="replace").strip()
    except BaseException:
        process.kill()
        process.communicate()
        path.unlink(missing_ok=True)
        raise
    if process.returncode:
        path.unlink(missing_ok=True)
        raise OSError(
            f"{path}: no cloud-optimised file could be made ({said.rpartition(chr(10))[2] or 'it was killed'})"
        )


def optimise(plain, path):
    """A cloud-optimised copy of a plain file, which is given overviews first.

    A tile of the copy has all bands, and GDAL holds about ten of them: of many bands they are smaller.
    """
    rasterio = needed("rasterio", "writing GeoTIFF")
    copy = needed("rasterio.shutil", "writing GeoTIFF").copy
    options = {"COMPRESS": "DEFLATE", "PREDICTOR": "YES", "BIGTIFF": "IF_SAFER"}
    with quiet(rasterio), NO_LINES_OF_LIBTIFF, rasterio.Env(GDAL_PAM_ENABLED=False, GDAL_CACHEMAX=_CACHE):
        with rasterio.open(plain, "r+") as image:
            pixel = image.count * np.dtype(image.dtypes[0]).itemsize
            options["BLOCKSIZE"] = str(TILE if TILE * TILE * pixel <= _CACHE // 2 else TILE // 2)
            levels = [2**n for n in range(1, 32) if min(image.shape) * 2 > TILE << n]
            if levels:
                image.build_overviews(levels, rasterio.enums.Resampling.average)
        copy(plain, path, driver="COG", OVERVIEW_RESAMPLING="AVERAGE", NUM_THREADS=_THREADS, **options)


def own_names_beside(file):
    """What GDAL keeps beside this file and no other, and believes: notes, mask, overviews, the grid of a TIFF."""
    worlds = (".tfw", ".tifw", ".tiffw") if file.suffix.lower() in (".tif", ".tiff") else ()
    named = [file.with_name(file.name + end) for end in (".aux.xml", ".msk", ".ovr")]
    return [*named, *(file.with_suffix(end) for end in worlds)]


def names_beside(path):
    """What GDAL may read together with a file; grids that are those of its namesakes too among them."""
    return [*own_names_beside(path), *(path.with_suffix(end) for end in (".wld", ".tab"))]


def lost_by_geotiff(raster):
    """A nodata that no pixel of the dtype can have, and a grid that says nothing."""
    lost = []
    if raster.nodata is not None and _nodata(raster) is None:
        lost.append("nodata")
    georeference = raster.georeference
    if georeference is not None and georeference.crs is None and georeference.transform == IDENTITY:
        lost.append("georeference")
    return tuple(lost)


def _compare(rasterio, path, raster):
    with rasterio.open(path, driver="GTiff") as image:
        for rows, bands, window in blocks(rasterio, image):
            block = in_order_of_file(raster.cube[rows, :, bands], 0)
            if image.read(numbers(bands), window=window).tobytes() != block.tobytes():
                raise OSError("what was written does not read back")


def _check_tiles(rasterio, path):
    """Refuse a file that lacks tiles: on a full disk GDAL closes it without a word."""
    size = path.stat().st_size
    with quiet(rasterio), rasterio.open(path, driver="GTiff") as image:
        for band, (height, width) in zip(image.indexes, image.block_shapes, strict=True):
            for y, x in product(range(-(-image.height // height)), range(-(-image.width // width))):
                names = (f"BLOCK_{what}_{x}_{y}" for what in ("OFFSET", "SIZE"))
                place = [image.get_tag_item(name, "TIFF", bidx=band) for name in names]
                if None in place or sum(map(int, place)) > size:
                    raise OSError("what was written is not whole; the disk may be full")


def _profile(rasterio, raster, compressed=True):
    profile = plain_profile(raster.shape, raster.dtype, _nodata(raster))
    profile |= {"tiled": True, "blockxsize": TILE, "blockysize": TILE, "interleave": "band"}
    if compressed:
        profile |= {"compress": "deflate", "predictor": 3 if raster.dtype.kind == "f" else 2}
    if raster.georeference is not None:
        profile["transform"] = rasterio.Affine(*raster.georeference.transform)
        if raster.georeference.crs is not None:
            profile["crs"] = rasterio.CRS.from_wkt(raster.georeference.crs)
    return profile


def _nodata(raster):
    """The nodata that the file can declare, or None."""
    value = raster.nodata
    holds = value is not None and not math.isinf(value) and can_hold(raster.dtype, value)
    return value if holds else None


def _write_tags(image, raster):
    if raster.tags:
        image.update_tags(**raster.tags)
    if raster.scale is not None:
        image.scales = raster.scale
    if raster.offset is not None:
        image.offsets = raster.offset
    for band in range(raster.shape[2]):
        plain, imagery = {}, {}
        for values, name, domain in (
            (raster.wavelengths, "wavelength", "CENTRAL_WAVELENGTH_UM"),
            (raster.fwhm, "fwhm", "FWHM_UM"),
        ):
            if values is not None:
                plain |= {name: repr(float(values[band])), "wavelength_units": "Nanometers"}
                imagery[domain] = f"{values[band] / 1e3:.9g}"
        if raster.bad_bands is not None:
            plain["bbl"] = str(int(not raster.bad_bands[band]))
        if raster.names is not None:
            image.set_band_description(band + 1, raster.names[band])
        if plain:
            image.update_tags(band + 1, **plain)
        if imagery:
            image.update_tags(band + 1, ns="IMAGERY", **imagery)


def plain_profile(shape, dtype, nodata):
    """What rasterio needs to know to write (rows, columns, bands) values of a dtype."""
    height, width, count = shape
    sizes = {"height": height, "width": width, "count": count}
    return {"driver": "GTiff", **sizes, "dtype": dtype.name, "nodata": nodata, "BIGTIFF": "IF_SAFER"}
