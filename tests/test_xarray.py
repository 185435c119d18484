"""DataArrays into `fuse` and out of it: axes by name, coordinates, masks, dask; arrays of other libraries."""

import json

import dask.array
import numpy as np
import pytest
import xarray
from pair_files import RATIO, SHAPE, UTM_33, pair

import fastccpd
import fastccpd.xarray
from fastccpd.imaging import degrade, preset, scenes

QUICK = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 3}


def arrays(chunked=False, order=("band", "y", "x"), crs=True):
    """The pair as DataArrays, and the operators."""
    import rioxarray  # noqa: F401

    _, hsi, msi = pair()
    made = []
    for image, pixel in ((hsi, 40.0), (msi, 10.0)):
        rows, columns, bands = image.shape
        coordinates = {
            "y": 4600000.0 - pixel * (np.arange(rows) + 0.5),
            "x": 600000.0 + pixel * (np.arange(columns) + 0.5),
            "band": np.arange(bands) + 1,
        }
        data = dask.array.from_array(image.cube, chunks=(4, 4, 2)) if chunked else image.cube
        array = xarray.DataArray(data, dims=("y", "x", "band"), coords=coordinates).transpose(*order)
        made.append(array.rio.write_crs(UTM_33) if crs else array)
    made[0] = made[0].assign_coords(wavelength=("band", hsi.wavelengths))
    return *made, preset("stereo", SHAPE)


def expected():
    _, hsi, msi = pair()
    return fastccpd.fuse(hsi.cube, msi.cube, preset("stereo", SHAPE), **QUICK).sri


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("order", [("band", "y", "x"), ("y", "x", "band")])
def test_it_gives_what_fuse_gives_whatever_the_order_of_the_axes(order, chunked):
    hsi, msi, degradation = arrays(chunked, order)
    fused = fastccpd.xarray.fuse(hsi, msi, degradation, **QUICK)
    assert fused.dims == ("band", "y", "x")
    np.testing.assert_array_equal(fused.transpose("y", "x", "band").data, expected())


def test_the_result_has_the_coordinates_of_the_msi_and_the_bands_of_the_hsi():
    hsi, msi, degradation = arrays()
    fused = fastccpd.xarray.fuse(hsi, msi, degradation, **QUICK)
    np.testing.assert_array_equal(fused.x, msi.x)
    np.testing.assert_array_equal(fused.y, msi.y)
    np.testing.assert_array_equal(fused.wavelength, hsi.wavelength)
    assert fused.rio.crs == msi.rio.crs
    assert fused.attrs["fastccpd_method"] == "nn-ccpd-nls"


def test_nan_has_no_part_and_is_nan_again():
    hsi, msi, degradation = arrays()
    hsi = hsi.copy()
    hsi.loc[{"y": hsi.y[2], "x": hsi.x[3]}] = np.nan
    fused = fastccpd.xarray.fuse(hsi, msi, degradation, **QUICK)
    gone = np.isnan(fused.data).all(axis=0)
    assert gone.sum() == RATIO**2
    assert gone[8:12, 12:16].all()


def test_a_band_of_nan_has_no_part_and_is_nan_again():
    hsi, msi, degradation = arrays()
    hsi = hsi.copy()
    hsi.loc[{"band": 5}] = np.nan
    fused = fastccpd.xarray.fuse(hsi, msi, degradation, **QUICK)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(fused.data).any(axis=(1, 2))), [4])
    assert np.isnan(fused.data[4]).all()


def test_operators_that_nobody_gives_are_estimated():
    shape = (96, 80, 40)
    wide = preset("stereo", shape)
    images = degrade(scenes.synthetic(shape).cube, wide)
    one, other = (xarray.DataArray(image, dims=("y", "x", "band")) for image in images)
    fused = fastccpd.xarray.fuse(one, other, **QUICK)
    assert fused.shape == (40, 96, 80)
    assert fused.attrs["fastccpd_verdict"] == "the images agree: they differ by no more than their noise"
    np.testing.assert_allclose(json.loads(fused.attrs["fastccpd_estimated"])["shift"], 1.5, atol=0.05)


def test_images_that_disagree_are_a_warning_and_an_attribute(tmp_path):
    shape = (96, 80, 40)
    wide = preset("stereo", shape)
    images = degrade(scenes.synthetic(shape).cube, wide)
    one, other = (xarray.DataArray(image, dims=("y", "x", "band")) for image in images)
    one = one.assign_attrs(_FillValue=-1.0, title="a scene")
    with pytest.warns(UserWarning, match="the images disagree: the MSI is 1e[+]04 times the HSI"):
        fused = fastccpd.xarray.fuse(one, 1e4 * other, wide, **QUICK)
    assert fused.attrs["fastccpd_verdict"].startswith("the images disagree")
    assert (fused.attrs["title"], fused.attrs.get("_FillValue")) == ("a scene", None)
    fused.to_netcdf(tmp_path / "fused.nc", engine="h5netcdf")
    with xarray.open_dataarray(tmp_path / "fused.nc", engine="h5netcdf") as found:
        np.testing.assert_array_equal(found, fused)
        assert found.attrs == fused.attrs


def test_what_cannot_be_is_refused_by_name():
    hsi, msi, degradation = arrays()
    with pytest.raises(TypeError, match="hsi: got ndarray; an xarray.DataArray is needed"):
        fastccpd.xarray.fuse(hsi.data, msi, degradation)
    with pytest.raises(ValueError, match=r"msi: got the dimensions \('a', 'y', 'x'\); band, y and x, or the like"):
        fastccpd.xarray.fuse(hsi, msi.rename(band="a"), degradation)
    with pytest.raises(ValueError, match="msi: by its coordinates it does not lie on whole pixels of the HSI"):
        fastccpd.xarray.fuse(hsi, msi.assign_coords(x=msi.x + 3.0), degradation)
    with pytest.raises(TypeError, match="hsi: got Dataset; an xarray.DataArray is needed"):
        fastccpd.xarray.fuse(hsi.to_dataset(name="a"), msi, degradation)
    with pytest.raises(ValueError, match="msi: got 'none' as _FillValue; a number is needed"):
        fastccpd.xarray.fuse(hsi, msi.assign_attrs(_FillValue="none"), degradation)


def test_coordinates_that_are_no_numbers_say_nothing_of_a_grid():
    hsi, msi, degradation = arrays(crs=False)
    named = hsi.assign_coords(x=[f"column {n}" for n in range(hsi.sizes["x"])])
    found = fastccpd.xarray.fuse(named, msi, degradation, **QUICK)
    np.testing.assert_array_equal(found, fastccpd.xarray.fuse(hsi, msi, degradation, **QUICK))


class Tensor:
    """An array of another library: it has dlpack and nothing else that numpy knows."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_arrays_of_other_libraries_go_in_by_dlpack():
    _, hsi, msi = pair()
    before = hsi.cube.copy()
    fused = fastccpd.fuse(Tensor(hsi.cube), Tensor(msi.cube), preset("stereo", SHAPE), **QUICK)
    np.testing.assert_array_equal(fused.sri, expected())
    np.testing.assert_array_equal(hsi.cube, before)


def test_a_tensor_elsewhere_is_refused_by_name():
    class Elsewhere(Tensor):
        def __dlpack__(self, **options):
            raise BufferError("the tensor lies on a graphics card")

    _, hsi, msi = pair()
    with pytest.raises(TypeError, match="hsi: got Elsewhere, which cannot be read .the tensor lies on a graphics card"):
        fastccpd.fuse(Elsewhere(hsi.cube), msi.cube, preset("stereo", SHAPE), **QUICK)


def test_tensors_of_torch_go_in():
    torch = pytest.importorskip("torch")
    _, hsi, msi = pair()
    tensors = [torch.from_numpy(image.cube).requires_grad_() for image in (hsi, msi)]
    np.testing.assert_array_equal(fastccpd.fuse(*tensors, preset("stereo", SHAPE), **QUICK).sri, expected())
