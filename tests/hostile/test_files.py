"""Files made to take memory, time, or other files: each is refused in a sentence before it has any of them."""

import json
import os
import re
import struct
import zlib

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from product_files import landsat, sentinel2, vrt, zipped
from raster_files import write_tiff

from fastccpd import machine, rasters

SHAPE = (3, 4, 5)
NAMES = ("band", "y", "x")

# More than any of these files may take, and less than each would: what is unpacked is 128 MB.
LARGE, MOST = 1 << 27, 60e6


def refused(path, match, **options):
    """The file is refused, having taken little memory."""
    grown = machine.memory_meter()
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}.*{match}"):
        rasters.read(path, **options)
    assert (grown() or 0) < MOST


def hdf5(path, chunks=SHAPE, stored=None, shape=SHAPE, filters=None):
    """A NetCDF file whose first chunk is as given."""
    with h5py.File(path, "w") as file:
        how = {"compression": "gzip", "maxshape": (None,) * 3} if filters is None else {"dcpl": filters}
        cube = file.create_dataset("cube", shape, "f4", chunks=chunks, **how)
        for n, (name, size) in enumerate(zip(NAMES, shape)):
            file[name] = np.arange(size, dtype=float)
            file[name].make_scale(name)
            cube.dims[n].attach_scale(file[name])
        if stored is not None:
            cube.id.write_direct_chunk((0, 0, 0), stored)
    return path


def mat(path, chunks=SHAPE, stored=None):
    """A MAT file of version 7.3, likewise."""
    with h5py.File(path, "w", userblock_size=512) as file:
        cube = file.create_dataset("cube", SHAPE, "f8", chunks=chunks, maxshape=(None,) * 3, compression="gzip")
        cube.attrs["MATLAB_class"] = np.bytes_("double")
        if stored is not None:
            cube.id.write_direct_chunk((0, 0, 0), stored)
    with open(path, "rb+") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")
    return path


@pytest.mark.parametrize(
    "make",
    [lambda folder, **how: hdf5(folder / "a.nc", **how), lambda folder, **how: mat(folder / "a.mat", **how)],
    ids=["netcdf", "mat"],
)
def test_a_chunk_of_hdf5_that_unpacks_to_more_than_it_says_is_refused(make, tmp_path):
    refused(make(tmp_path, stored=zlib.compress(bytes(LARGE), 9)), "cube has a chunk of .* bytes for")


def test_a_chunk_of_hdf5_that_is_no_longer_than_it_may_be_is_unpacked_in_pieces_first(tmp_path):
    # As many packed bytes as the chunk has numbers: they could be noise.
    chunks = (1, 300, 300)
    refused(hdf5(tmp_path / "a.nc", chunks, zlib.compress(bytes(LARGE), 9), chunks), "unpacks to more than the 360000 ")
    noise = np.random.default_rng(0).random(chunks).astype("f4")
    path = hdf5(tmp_path / "b.nc", chunks, zlib.compress(noise.tobytes()), chunks)
    np.testing.assert_array_equal(rasters.read(path).cube[:, :, 0], noise[0])


def test_chunks_of_hdf5_larger_than_their_array_are_refused(tmp_path):
    for path in (hdf5(tmp_path / "a.nc", (1, 8000, 8000)), mat(tmp_path / "a.mat", (100, 800, 800))):
        refused(path, r"in chunks of \(.*, larger than itself")


def test_what_is_packed_twice_is_refused(tmp_path):
    twice = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    twice.set_chunk(SHAPE)
    twice.set_deflate(9)
    twice.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)
    refused(hdf5(tmp_path / "a.nc", None, zlib.compress(bytes(240)), filters=twice), "is packed more than once")
    gzip = [zarr.codecs.GzipCodec(), zarr.codecs.GzipCodec()]
    store = tmp_path / "a.zarr"
    zarr.create_array(str(store), shape=SHAPE, chunks=SHAPE, dtype="f4", dimension_names=NAMES, compressors=gzip)
    refused(store, "are packed more than once")


def test_numbers_of_bands_beyond_all_measure_are_not_read(tmp_path):
    count = 40_000_000
    with h5py.File(tmp_path / "a.nc", "w") as file:
        cube = file.create_dataset("cube", (count, 1, 1), "u1", chunks=(1 << 20, 1, 1))
        for n, (name, size) in enumerate(zip(NAMES, cube.shape)):
            file.create_dataset(name, (size,), "f8", chunks=(min(size, 1 << 20),)).make_scale(name)
            cube.dims[n].attach_scale(file[name])
        file.create_dataset("wavelength", (count,), "f8", chunks=(1 << 20,)).dims[0].attach_scale(file["band"])
    grown = machine.memory_meter()
    assert rasters.header(tmp_path / "a.nc").wavelengths is None
    assert (grown() or 0) < MOST


def store_of(folder, chunks=SHAPE, content=None, codec=None, shape=SHAPE):
    """A Zarr store of version 2 whose first chunk is as given."""
    store = folder / "a.zarr"
    store.mkdir()
    about = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "fill_value": 0, "order": "C"}
    (store / ".zarray").write_text(json.dumps(about | {"filters": None, "compressor": codec}))
    (store / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": NAMES}))
    if content is not None:
        (store / "0.0.0").write_bytes(content)
    return store


def lying(content, start):
    """A packed chunk that declares two gigabytes where its size stands."""
    return content[:start] + struct.pack("<I", 2**31 - 17) + content[start + 4 :]


PACKERS = {
    "zlib": (numcodecs.Zlib(9), None),
    "gzip": (numcodecs.GZip(9), None),
    "bz2": (numcodecs.BZ2(), None),
    "lzma": (numcodecs.LZMA(), None),
    "zstd": (numcodecs.Zstd(9), None),
    "blosc": (numcodecs.Blosc(), 4),
    "lz4": (numcodecs.LZ4(), 0),
}


@pytest.mark.parametrize("name", PACKERS)
def test_a_chunk_of_zarr_that_unpacks_to_more_than_it_says_is_refused(name, tmp_path):
    codec, place = PACKERS[name]
    size = LARGE // 2 if name in ("lzma", "bz2") else LARGE  # they are slow
    content = bytes(codec.encode(bytes(size))) if place is None else lying(bytes(codec.encode(bytes(240))), place)
    # A chunk that might be as long as this one is.
    refused(
        store_of(tmp_path, content=content, codec=codec.get_config(), shape=(3, 200, 200), chunks=(3, 200, 200)),
        "unpacks to more|has .* bytes, where a chunk has",
    )


SHARDED = {"gzip": zarr.codecs.GzipCodec, "zstd": zarr.codecs.ZstdCodec, "blosc": zarr.codecs.BloscCodec}


@pytest.mark.parametrize(
    "how",
    [
        *({"zarr_format": 2, "compressors": codec} for codec, _ in PACKERS.values()),
        *({"shards": (4, 4, 6), "compressors": codec()} for codec in SHARDED.values()),
    ],
    ids=[*PACKERS, *(f"{name} in shards" for name in SHARDED)],
)
def test_chunks_of_every_known_codec_are_read(how, tmp_path):
    cube = np.random.default_rng(0).random((7, 8, 9)).astype("f4")
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=cube.shape, chunks=(2, 2, 3), dtype="f4", **how)
    array[...] = cube
    np.testing.assert_array_equal(rasters.read(tmp_path / "a.zarr", band_axis=0).cube, np.moveaxis(cube, 0, 2))


def test_a_shard_of_zarr_that_holds_too_much_is_refused(tmp_path):
    store = tmp_path / "a.zarr"
    how = {"shape": SHAPE, "chunks": (1, 4, 5), "shards": SHAPE, "dtype": "f4", "dimension_names": NAMES}
    zarr.create_array(str(store), **how)[...] = 1.0
    shard = next(path for path in store.rglob("c/**/*") if path.is_file())
    bomb = bytes(numcodecs.Zstd(9).encode(bytes(LARGE)))
    shard.write_bytes(bomb + np.array([[0, len(bomb)]] * 3, "<u8").tobytes() + bytes(4))
    refused(store, "unpacks to more than")


@pytest.mark.parametrize(
    ("shape", "chunks", "match"),
    [
        (SHAPE, (3, 16000, 16000), "larger than the array"),
        (SHAPE, (0, 1, 1), r"chunks of \(0, 1, 1\)"),
        ((300, 1000, 1000), (1, 1, 1), "300000000 chunks, where at most"),
    ],
)
def test_chunks_of_zarr_of_no_use_are_refused(shape, chunks, match, tmp_path):
    refused(store_of(tmp_path, chunks, shape=shape), match)


def test_metadata_of_zarr_beyond_all_measure_are_not_parsed(tmp_path):
    store = store_of(tmp_path)
    with open(store / ".zattrs", "wb") as file:
        file.truncate(LARGE)
    refused(store, r"\.zattrs has 134217728 bytes, too many for metadata")


def test_a_pipe_among_the_bands_of_a_product_is_not_waited_for(tmp_path):
    landsat(tmp_path / "scene")
    band = next((tmp_path / "scene").glob("*B2.TIF"))
    band.unlink()
    os.mkfifo(band)
    with pytest.raises(OSError, match=r"B2\.TIF: is not a regular file"):
        rasters.read(tmp_path / "scene")


@pytest.mark.parametrize("value", ["1e400", "nan", "0", "x"])
def test_a_factor_of_landsat_that_is_of_no_use_is_refused_with_its_file(value, tmp_path):
    landsat(tmp_path / "scene")
    metadata = next((tmp_path / "scene").glob("*_MTL.txt"))
    metadata.write_text(metadata.read_text().replace("2.75e-05", value))
    with pytest.raises(ValueError, match=rf"_MTL\.txt: got REFLECTANCE_MULT_BAND_\d = '{value}'; a finite number"):
        rasters.read(tmp_path / "scene")


def test_a_virtual_raster_of_bands_beyond_all_measure_is_refused(tmp_path):
    write_tiff(tmp_path / "s.tif", np.zeros((4, 5, 1), np.uint16))
    vrt(tmp_path / "a.vrt", ["s.tif"] * 6000, (4, 5))
    refused(tmp_path / "a.vrt", "has 6000 bands, too many for a virtual raster")


def test_names_in_a_zip_that_lead_elsewhere_are_refused(tmp_path):
    folder, _ = sentinel2(tmp_path)
    for outside in (b"../../", b"/etc/x"):
        archive = zipped(folder, tmp_path / "a.zip")
        name = folder.name.encode() + b"/GRANULE"
        # As long as before, so that the archive stays whole.
        archive.write_bytes(archive.read_bytes().replace(name, outside + name[len(outside) :]))
        refused(archive, "leads out of the archive")
