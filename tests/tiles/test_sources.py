"""Whatever an image is kept in, its windows are the same."""

import pickle

import numpy as np
import pytest

from fastccpd.tiles import as_source
from fastccpd.tiles.sources import take

CUBE = np.random.default_rng(0).random((17, 23, 5)).astype(np.float32)
RUNS = ((3, 9), (15, 17)), ((0, 4), (20, 23))


def kept_as(kind, folder):
    if kind == "array":
        return CUBE
    if kind == "fortran":
        return np.asfortranarray(CUBE)
    if kind in ("memmap", "part of a memmap"):
        np.save(folder / "cube.npy", np.concatenate([CUBE, CUBE]))
        mapped = np.load(folder / "cube.npy", mmap_mode="r")
        if kind == "memmap":
            np.save(folder / "cube.npy", CUBE)
            return np.load(folder / "cube.npy", mmap_mode="r")
        return mapped[17:]
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        array = zarr.create_array(folder / "cube.zarr", shape=CUBE.shape, chunks=(8, 8, 5), dtype="f4")
        array[:] = CUBE
        return array
    da, xarray = pytest.importorskip("dask.array"), pytest.importorskip("xarray")
    if kind == "dask":
        return da.from_array(CUBE, chunks=(8, 8, 5))
    return xarray.DataArray(da.from_array(CUBE.transpose(2, 0, 1), chunks=(5, 8, 8)), dims=("band", "y", "x"))


KINDS = ("array", "fortran", "memmap", "part of a memmap", "zarr", "dask", "DataArray")


@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_the_same_whatever_holds_the_image(kind, tmp_path):
    source = as_source(kept_as(kind, tmp_path), "hsi")
    assert source.shape == CUBE.shape
    assert source.dtype == CUBE.dtype
    np.testing.assert_array_equal(source.read(slice(2, 11), slice(5, 6)), CUBE[2:11, 5:6])
    rows, cols = (np.r_[tuple(slice(*run) for run in runs)] for runs in RUNS)
    np.testing.assert_array_equal(take(source, *RUNS).pixels, CUBE[rows][:, cols])
    assert source.identity() == as_source(CUBE, "hsi").identity()


@pytest.mark.parametrize("kind", ["memmap", "zarr"])
def test_files_go_to_other_processes_by_their_path(kind, tmp_path):
    source = as_source(kept_as(kind, tmp_path), "msi")
    assert source.portable
    sent = pickle.dumps(source)
    assert len(sent) < 1500 < CUBE.nbytes
    np.testing.assert_array_equal(pickle.loads(sent).read(slice(0, 17), slice(0, 23)), CUBE)


def test_a_zarr_store_that_others_would_not_find_is_read_here_or_refused(tmp_path, monkeypatch):
    """To Zarr the chunks of a store that is not there are empty: zeros, and no error."""
    zarr = pytest.importorskip("zarr")
    kept_as("zarr", tmp_path)
    monkeypatch.chdir(tmp_path)
    relative = as_source(zarr.open_array("cube.zarr", mode="r"), "hsi")
    assert not relative.portable
    np.testing.assert_array_equal(relative.read(slice(0, 17), slice(0, 23)), CUBE)
    sent = pickle.dumps(relative)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    with pytest.raises(
        FileNotFoundError, match=r"cube\.zarr: is not there for this process; files that all workers see"
    ):
        pickle.loads(sent).read(slice(0, 17), slice(0, 23))


def test_a_mask_is_cut_like_its_image_and_counts_in_its_identity():
    mask = CUBE[:, :, 0] > 0.3
    source = as_source(CUBE, "hsi", mask)
    rows, cols = (np.r_[tuple(slice(*run) for run in runs)] for runs in RUNS)
    has = take(source, *RUNS).has
    np.testing.assert_array_equal(has.all(axis=2) if has.ndim == 3 else has, mask[rows][:, cols])
    assert source.identity() != as_source(CUBE, "hsi").identity()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ([[1.0]], "hsi: got list; an array, or a source with shape, dtype and read, is needed"),
        (np.zeros((3, 4)), r"hsi: got shape \(3, 4\); \(rows, columns, bands\)"),
        (np.zeros((3, 0, 2)), r"hsi: got shape \(3, 0, 2\)"),
        (np.zeros((3, 4, 2), complex), "hsi: got dtype complex128; real numbers are needed"),
    ],
)
def test_what_is_no_image_is_refused(image, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_source(image, "hsi")


def test_a_dataarray_whose_axes_are_not_named_is_refused():
    xarray = pytest.importorskip("xarray")
    with pytest.raises(ValueError, match="hsi: got dimensions a, y, x; three are needed, and bands called one of band"):
        as_source(xarray.DataArray(np.zeros((3, 4, 2)), dims=("a", "y", "x")), "hsi")
