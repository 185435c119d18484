"""Several starts combined by their mean; and blocks of results that are maps."""

import numpy as np
import pytest
from scenery import noisy_salinas, rsnr, small_case

from fastccpd import fuse, methods, testing
from fastccpd.imaging import metrics
from fastccpd.model.problem import Maps


@pytest.fixture(scope="module")
def case():
    return small_case(noise=0.05)[1:]


def each_start(case, starts, **options):
    """The results of the starts that `fuse` with rng=0 runs, one by one."""
    generators = [np.random.default_rng(0), *np.random.default_rng(0).spawn(starts)[1:]]
    return [fuse(*case, rng=generator, **options) for generator in generators]


def test_the_mean_of_starts_is_their_mean_image_with_the_factors_of_the_best(case):
    options = {"method": "nn-ccpd-nls", "rank": 5, "max_iter": 30}
    result = fuse(*case, starts=4, combine="mean", **options)
    alone = each_start(case, 4, **options)
    images = np.array([one.sri for one in alone])
    np.testing.assert_allclose(result.sri, images.mean(axis=0), rtol=1e-12)
    best = fuse(*case, starts=4, **options)
    assert result.start_costs == best.start_costs == tuple(one.cost for one in alone)
    assert result.cost == best.cost == min(result.start_costs)
    assert [f.tobytes() for f in result.factors] == [f.tobytes() for f in best.factors]
    spread = np.sqrt(images.var(axis=0, ddof=1).mean(axis=2))
    np.testing.assert_allclose(result.uncertainty, spread, rtol=1e-9)
    assert result.combined == 4
    assert "mean of 4 starts" in repr(result)


def test_one_start_has_no_mean(case):
    options = {"method": "nn-ccpd-nls", "rank": 4, "max_iter": 5}
    result = fuse(*case, combine="mean", **options)
    assert result.sri.tobytes() == fuse(*case, **options).sri.tobytes()
    assert result.uncertainty is None
    assert "mean" not in repr(result)


def test_a_mean_of_maps_is_the_maps_with_their_uncertainty(case):
    result = fuse(*case, starts=2, combine="mean", rank=4, max_iter=5)
    np.testing.assert_array_equal(result.uncertainty, fuse(*case, rank=4, max_iter=5).uncertainty)
    assert result.maps is not None
    assert (result.sri >= 0.0).all()


def test_a_mean_keeps_the_dtype_and_renders_blocks(case):
    hsi, msi, degradation = case
    result = fuse(
        hsi.astype(np.float32),
        msi.astype(np.float32),
        degradation,
        method="nn-ccpd-nls",
        rank=4,
        starts=3,
        combine="mean",
        max_iter=5,
    )
    assert result.sri.dtype == np.float32
    block = result.render(rows=slice(3, 9), cols=[0, 7], bands=np.array([2, 2]))
    np.testing.assert_array_equal(block, result.sri[3:9][:, [0, 7]][:, :, [2, 2]])


@pytest.mark.parametrize("combine", ["median", "", None, 1, "Mean"])
def test_other_ways_to_combine_are_refused(case, combine):
    with pytest.raises((ValueError, TypeError), match="^combine: .*best.*mean"):
        fuse(*case, combine=combine)


@pytest.mark.scenes
def test_the_mean_of_four_noisy_starts_gains_two_decibels_on_the_best(data_folder):
    cube, problem, _ = next(noisy_salinas(data_folder))
    images = problem.hsi, problem.msi, problem.degradation
    scores = {
        combine: metrics.rsnr(fuse(*images, method="nn-ccpd-nls", starts=4, combine=combine).sri, cube)
        for combine in ("best", "mean")
    }
    assert scores["mean"] >= scores["best"] + 2.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_of_maps_are_parts_of_the_image(dtype):
    scene, hsi, msi, degradation = small_case(noise=0.05)
    result = fuse(hsi.astype(dtype), msi.astype(dtype), degradation, max_iter=5, show="maps")
    assert result.maps is not None
    parts = [np.s_[2:11, ::3, 5:6], np.s_[:, :, :], np.s_[:, 0:1, :], np.s_[23:, :4, ::-1]]
    blocks = [(result.render(*where), where) for where in parts]
    blocks.append((result.render(bands=slice(4, 5)), np.s_[:, :, 4:5]))
    rows, cols, bands = np.array([3, 0, 3]), [7, 1], np.arange(30) % 7 == 0
    chosen = result.render(rows, cols, bands)
    assert result.image is None
    for block, where in blocks:
        assert block.dtype == dtype
        np.testing.assert_allclose(block, result.sri[where], rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(chosen, result.sri[rows][:, cols][:, :, bands], rtol=1e-5)
    assert result.sri.dtype == dtype
    assert rsnr(result.sri, scene) > 5.0


def test_maps_are_never_negative_as_an_image():
    rng = np.random.default_rng(0)
    maps = Maps(rng.standard_normal((7, 5, 3)), rng.standard_normal((11, 3)))
    image = maps.render()
    assert maps.shape == image.shape == (7, 5, 11)
    assert (image == 0.0).any()
    np.testing.assert_allclose(image, np.maximum(np.einsum("ijp,kp->ijk", maps.Z, maps.S), 0.0))


@pytest.mark.parametrize("method", methods.names())
def test_an_image_that_is_rendered_later_has_blocks_and_is_let_go_of(method):
    *images, degradation = testing.small_case()
    result = fuse(*images, degradation, method=testing.small_instance(method))
    assert result.shape == degradation.sri_shape
    assert (result.image is None) == (method not in ("scott", "b-scott"))
    if (source := result.source) is not None:
        assert np.abs(source.render(None, None, None, np.float64)).max() <= source.bound()
    rows, cols, bands = slice(3, 21, 2), [7, 1], slice(4, None, 3)
    block, row = result.render(rows, cols, bands), result.render(rows=5)
    np.testing.assert_allclose(block, result.sri[rows][:, cols][:, :, bands], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(row, result.sri[5:6], rtol=1e-10, atol=1e-12)
    assert result.source is None


@pytest.mark.parametrize("method", ["nn-ccpd-auto", "nn-ccpd-nls"])
def test_a_single_row_column_or_band_keeps_its_axis_before_and_after_the_image_is_rendered(case, method):
    result = fuse(*case, method=method, rank=4, max_iter=5)
    asked = {"rows": 5}, {"cols": np.int64(3)}, {"bands": 17}, {"rows": -1, "bands": 0}
    before = [result.render(**part) for part in asked]
    whole = result.sri
    expected = whole[5:6], whole[:, 3:4], whole[:, :, 17:18], whole[-1:, :, :1]
    for first, part, block in zip(before, asked, expected, strict=True):
        np.testing.assert_allclose(first, block, rtol=1e-12)
        np.testing.assert_array_equal(result.render(**part), block)
