"""Metrics against values by hand, and against formulas written another way, to 1e-12."""

import math
import sys

import numpy as np
import pytest
from scenery import peak_bytes

from fastccpd.imaging import comparison, metrics

SEEDS = range(5)


def pair(seed, shape=(14, 19, 6), noise=0.2):
    rng = np.random.default_rng(seed)
    reference = rng.random(shape) + 0.1
    return reference + noise * rng.standard_normal(shape), reference


def cube(bands_of_pixels):
    """An image of one row from a list of spectra."""
    return np.array([bands_of_pixels], dtype=np.float64)


class TestRMSE:
    def test_by_hand(self):
        assert metrics.rmse(cube([[1, 2], [3, 4]]), cube([[1, 0], [0, 10]])) == pytest.approx(3.5, abs=1e-15)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equals_the_norm_over_the_root_of_the_size(self, seed):
        x, y = pair(seed)
        assert metrics.rmse(x, y) == pytest.approx(np.linalg.norm((x - y).ravel()) / math.sqrt(x.size), rel=1e-12)


class TestRSNR:
    def test_by_hand(self):
        # ‖Y‖² = 100, error² = 1: 20 dB.
        assert metrics.rsnr(cube([[6, 8, 1]]), cube([[6, 8, 0]])) == pytest.approx(20.0, abs=1e-13)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equals_twenty_log_of_the_ratio_of_norms(self, seed):
        x, y = pair(seed)
        expected = 20 * math.log10(np.linalg.norm(y.ravel()) / np.linalg.norm((x - y).ravel()))
        assert metrics.rsnr(x, y) == pytest.approx(expected, rel=1e-12)

    def test_limits_do_not_warn(self):
        _, y = pair(0)
        assert metrics.rsnr(y, y) == math.inf
        assert metrics.rsnr(y, 0 * y) == -math.inf
        assert metrics.rsnr(0 * y, y) == 0.0


class TestCC:
    def test_by_hand(self):
        # Band 0 rises alike, band 1 falls, band 2: cov = 1, variances 2 and 2 -> 0.5.
        x = cube([[1, 5, 1], [2, 4, 3], [3, 3, 2]])
        y = cube([[2, 1, 1], [4, 2, 2], [6, 3, 3]])
        assert metrics.cc(x, y) == pytest.approx((1 - 1 + 0.5) / 3, abs=1e-15)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equals_numpys_correlation(self, seed):
        x, y = pair(seed)
        expected = np.mean([np.corrcoef(x[:, :, k].ravel(), y[:, :, k].ravel())[0, 1] for k in range(x.shape[2])])
        assert metrics.cc(x, y) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("in_reference", [True, False])
    def test_leaves_out_constant_bands_and_says_so(self, in_reference):
        x, y = pair(0)
        expected = metrics.cc(np.delete(x, 2, axis=2), np.delete(y, 2, axis=2))
        # The mean of many 0.1 is not 0.1, so the variance of this band is not zero to the bit.
        (y if in_reference else x)[:, :, 2] = 0.1
        with pytest.warns(UserWarning, match=r"cc leaves out 1 of 6 bands \(constant\)"):
            assert metrics.cc(x, y) == pytest.approx(expected, rel=1e-14)

    def test_of_constant_images_is_nan(self):
        with pytest.warns(UserWarning, match="6 of 6 bands"):
            assert math.isnan(metrics.cc(pair(0)[0], np.ones((14, 19, 6))))

    def test_does_not_cancel_on_a_large_offset(self):
        x, y = pair(0)
        assert metrics.cc(x + 2.0**22, y + 2.0**22) == pytest.approx(metrics.cc(x, y), abs=1e-8)


class TestSAM:
    def test_by_hand(self):
        x = cube([[1, 0], [1, 1], [0, 3], [-1, 0]])
        y = cube([[1, 1], [2, 2], [5, 0], [2, 0]])
        np.testing.assert_allclose(metrics.sam_map(x, y), [[45, 0, 90, 180]], atol=1e-12)
        assert metrics.sam(x, y) == pytest.approx((45 + 0 + 90 + 180) / 4, abs=1e-12)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equals_the_arc_cosine(self, seed):
        x, y = pair(seed)
        expected = np.empty(x.shape[:2])
        for i, j in np.ndindex(expected.shape):
            cosine = x[i, j] @ y[i, j] / np.linalg.norm(x[i, j]) / np.linalg.norm(y[i, j])
            expected[i, j] = math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
        np.testing.assert_allclose(metrics.sam_map(x, y), expected, rtol=1e-12)
        assert metrics.sam(x, y) == pytest.approx(expected.mean(), rel=1e-12)

    def test_where_rounding_lifts_the_cosine_above_one(self):
        rng = np.random.default_rng(0)
        y = rng.random((40, 50, 7))
        x = y * rng.uniform(0.1, 10, (40, 50, 1))
        cosines = (x * y).sum(2) / np.sqrt((x * x).sum(2)) / np.sqrt((y * y).sum(2))
        assert (cosines > 1.0).any(), "the case this test is about"
        assert metrics.sam_map(x, y).max() < 1e-12
        assert metrics.sam_map(-x, y).min() > 180 - 1e-12

    def test_small_angles_keep_their_digits(self):
        angle = 1e-9
        x = cube([[math.cos(angle), math.sin(angle)]])
        assert metrics.sam(x, cube([[1, 0]])) == pytest.approx(math.degrees(angle), rel=1e-6)

    def test_ignores_zero_pixels_and_says_so(self):
        x, y = pair(0)
        x[3, 4], y[5, 6] = 0.0, 0.0
        with pytest.warns(UserWarning, match=r"sam leaves out 2 of 266 pixels \(zero\)"):
            mean = metrics.sam(x, y)
        angles = metrics.sam_map(x, y)
        assert np.isnan(angles[3, 4])
        assert np.isnan(angles[5, 6])
        assert np.isnan(angles).sum() == 2
        assert mean == pytest.approx(np.nanmean(angles), rel=1e-13)

    def test_of_a_black_image_is_nan(self):
        x, y = pair(0)
        with pytest.warns(UserWarning, match="266 of 266 pixels"):
            assert math.isnan(metrics.sam(0 * x, y))

    def test_lets_a_nan_show(self):
        x, y = pair(0)
        x[0, 0, 0] = np.nan
        assert math.isnan(metrics.sam(x, y))


class TestERGAS:
    def test_by_hand(self):
        # Band 0: MSE 4, mean 2 -> 1; band 1: MSE 9, mean 1 -> 9. sqrt(mean) = sqrt(5).
        x, y = cube([[3, 4], [5, 4]]), cube([[1, 1], [3, 1]])
        assert metrics.ergas(x, y, 4) == pytest.approx(25 * math.sqrt(5), rel=1e-15)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equals_the_formula(self, seed):
        x, y = pair(seed)
        relative = [((x - y)[..., k] ** 2).mean() / y[..., k].mean() ** 2 for k in range(y.shape[2])]
        assert metrics.ergas(x, y, 3) == pytest.approx(100 / 3 * math.sqrt(sum(relative) / len(relative)), rel=1e-12)

    def test_leaves_out_bands_of_zero_mean_and_says_so(self):
        x, y = pair(0)
        expected = metrics.ergas(x[..., 1:], y[..., 1:], 4)
        y[..., 0] = 0.0
        with pytest.warns(UserWarning, match=r"ergas leaves out 1 of 6 bands \(zero mean\)"):
            assert metrics.ergas(x, y, 4) == pytest.approx(expected, rel=1e-14)

    def test_refuses_ratio_zero(self):
        with pytest.raises(ValueError, match="ratio: got 0"):
            metrics.ergas(*pair(0), 0)


class TestUIQI:
    @staticmethod
    def by_loops(x, y, side):
        values = []
        rows, columns = min(side, x.shape[0]), min(side, x.shape[1])
        for k in range(x.shape[2]):
            for i in range(x.shape[0] - rows + 1):
                for j in range(x.shape[1] - columns + 1):
                    a, b = (image[i : i + rows, j : j + columns, k].ravel() for image in (x, y))
                    covariance = ((a - a.mean()) * (b - b.mean())).mean()
                    values.append(
                        4 * covariance * a.mean() * b.mean() / ((a.var() + b.var()) * (a.mean() ** 2 + b.mean() ** 2))
                    )
        return np.mean(values)

    def test_by_hand(self):
        # x̄ = 2, ȳ = 4, variances 1 and 4, covariance 2: 4·2·8 / (5·20).
        x, y = np.array([1.0, 3.0]).reshape(1, 2, 1), np.array([2.0, 6.0]).reshape(1, 2, 1)
        assert metrics.uiqi(x, y) == pytest.approx(0.64, abs=1e-14)

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("window", [8, 5])
    def test_equals_loops_over_windows(self, seed, window):
        x, y = pair(seed, (11, 14, 3))
        assert metrics.uiqi(x, y, window) == pytest.approx(self.by_loops(x, y, window), rel=1e-12)

    def test_of_a_small_image_takes_the_window_that_fits(self):
        x, y = pair(0, (3, 12, 2))
        assert metrics.uiqi(x, y) == pytest.approx(self.by_loops(x, y, 8), rel=1e-12)

    def test_flat_windows_compare_their_means(self):
        level = np.full((9, 12, 1), 0.1)
        assert metrics.uiqi(level, level) == pytest.approx(1.0, abs=1e-14)
        assert metrics.uiqi(level, 3 * level) == pytest.approx(0.6, abs=1e-14)
        assert metrics.uiqi(0 * level, 0 * level) == 1.0
        assert metrics.uiqi(level, 0 * level) == 0.0


class TestPSNR:
    def test_by_hand(self):
        pytest.importorskip("skimage")
        # Peaks 10 and 4, MSE 1 and 0.16: 20 dB in both.
        x, y = cube([[11, 4.4], [9, 3.6]]), cube([[10, 4], [10, 4]])
        assert metrics.psnr(x, y) == pytest.approx(20.0, abs=1e-12)
        assert metrics.psnr(x, y, data_range=10) == pytest.approx((20 + 10 * math.log10(100 / 0.16)) / 2, rel=1e-12)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equals_the_formula(self, seed):
        pytest.importorskip("skimage")
        x, y = pair(seed)
        expected = [20 * math.log10(y[..., k].max() / np.sqrt(((x - y)[..., k] ** 2).mean())) for k in range(6)]
        assert metrics.psnr(x, y) == pytest.approx(np.mean(expected), rel=1e-12)

    def test_of_a_perfect_estimate_is_infinite_without_a_warning(self):
        pytest.importorskip("skimage")
        _, y = pair(0)
        assert metrics.psnr(y, y) == math.inf

    def test_leaves_out_dark_bands_and_says_so(self):
        pytest.importorskip("skimage")
        x, y = pair(0)
        expected = metrics.psnr(x[..., 1:], y[..., 1:])
        y[..., 0] = 0.0
        with pytest.warns(UserWarning, match=r"psnr leaves out 1 of 6 bands \(no positive value\)"):
            assert metrics.psnr(x, y) == pytest.approx(expected, rel=1e-14)


class TestSSIM:
    @staticmethod
    def by_loops(x, y):
        """The definition: 11 by 11 Gaussian windows of deviation 1.5, K1 = 0.01, K2 = 0.03."""
        offsets = np.arange(-5, 6)
        weights = np.exp(-(offsets**2) / (2 * 1.5**2))
        weights = np.outer(weights, weights)
        weights /= weights.sum()
        values = []
        for k in range(x.shape[2]):
            peak = y[..., k].max()
            first, second = (0.01 * peak) ** 2, (0.03 * peak) ** 2
            for i in range(x.shape[0] - 10):
                for j in range(x.shape[1] - 10):
                    a, b = (image[i : i + 11, j : j + 11, k] for image in (x, y))
                    mean_a, mean_b = (weights * a).sum(), (weights * b).sum()
                    var_a, var_b = (weights * (a - mean_a) ** 2).sum(), (weights * (b - mean_b) ** 2).sum()
                    covariance = (weights * (a - mean_a) * (b - mean_b)).sum()
                    values.append(
                        (2 * mean_a * mean_b + first)
                        * (2 * covariance + second)
                        / ((mean_a**2 + mean_b**2 + first) * (var_a + var_b + second))
                    )
        return np.mean(values)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_equals_loops_over_windows(self, seed):
        pytest.importorskip("skimage")
        x, y = pair(seed, (14, 17, 2))
        assert metrics.ssim(x, y) == pytest.approx(self.by_loops(x, y), rel=1e-12)

    def test_of_flat_images_by_hand(self):
        pytest.importorskip("skimage")
        y = np.full((12, 15, 1), 2.0)
        # Means 1 and 2, peak 2: (4 + 0.0004) / (5 + 0.0004).
        assert metrics.ssim(0.5 * y, y) == pytest.approx(4.0004 / 5.0004, rel=1e-12)

    def test_refuses_images_smaller_than_its_window(self):
        with pytest.raises(ValueError, match="reference: 10 rows and 30 columns; ssim needs at least 11"):
            metrics.ssim(*pair(0, (10, 30, 2)))


class TestScore:
    def test_is_one_row_of_all_metrics(self):
        pytest.importorskip("skimage")
        x, y = pair(0)
        expected = {
            name: getattr(metrics, name)(x, y) for name in ("rmse", "rsnr", "cc", "sam", "uiqi", "psnr", "ssim")
        }
        expected |= {"ergas": metrics.ergas(x, y, 4), "left_out": ""}
        row = metrics.score(x, y, ratio=4)
        assert row == expected
        assert all(isinstance(value, float) for name, value in row.items() if name != "left_out")

    def test_says_what_is_left_out_without_warning(self):
        pytest.importorskip("skimage")
        x, y = pair(0)
        y[..., 0], y[2, 3] = 0.0, 0.0
        assert metrics.score(x, y, 4)["left_out"] == (
            "cc: 1 of 6 bands (constant); sam: 1 of 266 pixels (zero); ergas: 1 of 6 bands (zero mean); "
            "psnr: 1 of 6 bands (no positive value); ssim: 1 of 6 bands (no positive value)"
        )

    def test_of_a_small_image_has_no_ssim(self):
        pytest.importorskip("skimage")
        row = metrics.score(*pair(0, (5, 30, 2)), 4)
        assert math.isnan(row["ssim"])
        assert "ssim: images of fewer than 11 rows or columns" in row["left_out"]

    def test_without_scikit_image_leaves_psnr_and_ssim_away(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "skimage", None)
        x, y = pair(0)
        assert set(metrics.score(x, y, 4)) == {"rmse", "rsnr", "cc", "sam", "ergas", "uiqi", "left_out"}
        for metric in (metrics.psnr, metrics.ssim):
            with pytest.raises(ImportError, match=r"install fastccpd\[metrics\]"):
                metric(x, y)


ALL = ["rmse", "rsnr", "cc", "sam", "uiqi", "psnr", "ssim"]


@pytest.mark.parametrize("name", ALL)
def test_blocks_do_not_show(name, monkeypatch):
    if name in ("psnr", "ssim"):
        pytest.importorskip("skimage")
    x, y = pair(1, (13, 17, 19))
    whole = getattr(metrics, name)(x, y)
    monkeypatch.setattr(comparison, "_BLOCK", 1)
    assert getattr(metrics, name)(x, y) == pytest.approx(whole, rel=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_layout_and_dtype_do_not_show(name):
    if name in ("psnr", "ssim"):
        pytest.importorskip("skimage")
    rng = np.random.default_rng(0)
    counts = [rng.integers(1, 60000, (13, 17, 5)).astype(np.uint16) for _ in range(2)]
    expected = getattr(metrics, name)(*(image.astype(np.float64) for image in counts))
    for convert in (np.asfortranarray, lambda a: a.astype(np.float32), lambda a: a.astype(">f8"), lambda a: a):
        assert getattr(metrics, name)(*map(convert, counts)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_order_of_bands_and_flips_do_not_show(name):
    if name in ("psnr", "ssim"):
        pytest.importorskip("skimage")
    x, y = pair(2, (13, 17, 5))
    expected = getattr(metrics, name)(x, y)
    order = [3, 0, 4, 1, 2]
    for turned in ((x[..., order], y[..., order]), (x[::-1], y[::-1]), (x[:, ::-1], y[:, ::-1])):
        assert getattr(metrics, name)(*turned) == pytest.approx(expected, rel=1e-12)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"estimate: got shape \(2, 3, 4\), but reference has \(3, 2, 4\)"):
        metrics.rmse(np.ones((2, 3, 4)), np.ones((3, 2, 4)))


def test_metrics_do_not_copy_the_images():
    x, y = (np.random.default_rng(n).random((500, 400, 24), dtype=np.float32) for n in range(2))
    for measure in (metrics.rmse, metrics.cc, metrics.sam):
        assert peak_bytes(measure, x, y) < x.nbytes, measure.__name__
