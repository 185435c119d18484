"""Pictures: the bands they show, the scales they share, the labels they carry, and that no text lies on another."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from fastccpd import FusionResult, Status, plots
from fastccpd.imaging import metrics, scenes
from fastccpd.model.problem import Factors
from fastccpd.model.result import Trace

pytest.importorskip("matplotlib")

SHAPE = (24, 20, 36)
WAVELENGTHS = np.linspace(400.0, 2500.0, 36)


@pytest.fixture(scope="module")
def scene():
    return scenes.synthetic(SHAPE).cube


def result_of(image=None, factors=None, cost=(9.0, 4.0, 2.0, 1.5), seconds=None):
    """A result that was never fused."""
    rest = [np.nan] * len(cost)
    trace = Trace(list(cost), rest, rest, rest, [0] * len(cost), seconds or [0.1 * n for n in range(len(cost))])
    return FusionResult(
        status=Status.COST_SETTLED,
        cost=cost[-1],
        n_iter=len(cost) - 1,
        trace=trace,
        seconds=0.5,
        method="nn-ccpd-nls",
        options={"rank": 3},
        seed=0,
        provenance={},
        dtype=np.dtype(np.float64),
        known_factors=factors,
        image=image,
    )


def low_rank_result(shape=SHAPE, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return result_of(factors=Factors(*(rng.random((n, rank)) for n in shape)))


def noisy(image, deviation, seed=0):
    return image + deviation * np.random.default_rng(seed).standard_normal(image.shape)


def pictures(figure):
    """The axes that show an image, without colour bars."""
    return [axes for axes in figure.axes if axes.images]


def bars(figure):
    return [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]


def texts(figure):
    """The texts of a figure, drawn, each with the box that it takes up."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = [*figure.texts, figure._suptitle, figure._supxlabel]
    for legend in figure.legends:
        found += legend.get_texts()
    for axes in figure.axes:
        found += [axes.title, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            inside = [tick for tick in ticks if low <= tick.get_loc() <= high]
            found += [axis.label, axis.offsetText, *(text for tick in inside for text in (tick.label1, tick.label2))]
    shown = {id(text): text for text in found if text is not None and text.get_visible() and text.get_text().strip()}
    return [(text, text.get_window_extent(canvas.get_renderer())) for text in shown.values()]


def assert_readable(figure):
    """No text lies on another or beyond the paper, and none is smaller than seven points."""
    written = texts(figure)
    for (one, box), (other, beside) in itertools.combinations(written, 2):
        across = min(box.x1, beside.x1) - max(box.x0, beside.x0)
        down = min(box.y1, beside.y1) - max(box.y0, beside.y0)
        assert min(across, down) < 0.5, f"{one.get_text()!r} lies on {other.get_text()!r}"
    page = figure.bbox
    for text, box in written:
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.width + 1 and box.y1 <= page.height + 1
        assert inside, f"{text.get_text()!r} is cut off"
        assert text.get_fontsize() >= 7.0


def rgb_twin(cube, bands):
    """Each channel by itself, in plain Python."""
    picture = np.empty((*cube.shape[:2], 3))
    for channel, band in enumerate(bands):
        values = sorted(float(value) for value in cube[:, :, band].ravel())
        limits = []
        for part in (0.02, 0.98):
            place = part * (len(values) - 1)
            below = int(place)
            above = min(below + 1, len(values) - 1)
            limits.append(values[below] + (place - below) * (values[above] - values[below]))
        for i, j in np.ndindex(cube.shape[:2]):
            stretched = (float(cube[i, j, band]) - limits[0]) / (limits[1] - limits[0])
            picture[i, j, channel] = min(1.0, max(0.0, stretched))
    return picture


def test_texts_on_each_other_or_cut_off_are_noticed():
    for places in (((0.4, 0.5), (0.45, 0.5)), ((0.1, 0.5), (0.97, 0.5))):
        figure, _ = plots.figure()
        for place in places:
            figure.text(*place, "some words")
        with pytest.raises(AssertionError, match="lies on|cut off"):
            assert_readable(figure)


def test_rgb_is_its_slow_twin(scene):
    bands = [min(range(36), key=lambda k: abs(WAVELENGTHS[k] - nm)) for nm in (650, 550, 450)]
    np.testing.assert_allclose(plots.rgb(scene, WAVELENGTHS), rgb_twin(scene, bands), atol=1e-12)


def test_rgb_takes_the_nearest_bands_of_unsorted_wavelengths(scene):
    order = np.random.default_rng(0).permutation(36)
    np.testing.assert_array_equal(plots.rgb(scene[:, :, order], WAVELENGTHS[order]), plots.rgb(scene, WAVELENGTHS))


@pytest.mark.parametrize("spoilt", [np.nan, 0.0])
def test_rgb_passes_over_a_band_that_holds_no_picture(scene, spoilt):
    red, green, blue = plots.rgb_bands(scene, WAVELENGTHS)
    damaged = scene.copy()
    damaged[:, :, red] = spoilt
    chosen = plots.rgb_bands(damaged, WAVELENGTHS)
    assert chosen[0] != red
    assert abs(chosen[0] - red) == 1
    assert chosen[1:] == (green, blue)


def test_rgb_passes_over_a_band_without_a_wavelength(scene):
    red, *_ = plots.rgb_bands(scene, WAVELENGTHS)
    centres = WAVELENGTHS.copy()
    centres[red] = np.nan
    assert plots.rgb_bands(scene, centres)[0] in (red - 1, red + 1)


def test_rgb_without_wavelengths_spreads_its_bands(scene):
    assert plots.rgb_bands(scene) == (30, 18, 6)
    assert plots.rgb_bands(scene[:, :, :4]) == (3, 2, 0)
    assert plots.rgb_bands(scene[:, :, :1]) == (0, 0, 0)


def test_rgb_beyond_the_visible_is_a_false_colour_from_the_whole_range(scene):
    infrared = np.linspace(1000.0, 2500.0, 36)
    assert plots.rgb_bands(scene, infrared) == (30, 18, 6)
    (axes,) = pictures(plots.composites({"scene": scene}, infrared))
    assert "false colour: R 2286, G 1771, B 1257 nm" in axes.get_xlabel().replace("\n", " ")


def test_rgb_of_missing_pixels_is_grey_and_they_do_not_stretch_it(scene):
    missing = np.zeros(SHAPE[:2], bool)
    missing[3:9, 2:5] = True
    filled = np.where(missing[:, :, None], 1e6, scene)
    picture = plots.rgb(filled, WAVELENGTHS, missing=missing)
    assert len(np.unique(picture[missing])) == 1
    assert picture[~missing].std() > 0.1
    with_nan = np.where(missing[:, :, None], np.nan, scene)
    np.testing.assert_array_equal(plots.rgb(with_nan, WAVELENGTHS), picture)


def test_rgb_takes_given_bands_and_limits(scene):
    limits = np.array([[0.0, 1.0], [0.0, 2.0], [0.1, 0.2]])
    picture = plots.rgb(scene, bands=(1, 2, 3), limits=limits)
    np.testing.assert_allclose(picture[:, :, 1], np.clip(scene[:, :, 2] / 2.0, 0, 1))
    assert plots.rgb(np.ones((3, 4, 5))).tolist() == np.full((3, 4, 3), 0.5).tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cube: plots.rgb(cube, WAVELENGTHS[:3]), "wavelengths: got shape \\(3,\\), but the image has 36 bands"),
        (lambda cube: plots.rgb(cube, bands=(1, 2)), "bands: got 2"),
        (lambda cube: plots.rgb(cube, bands=(1, 2, 36)), "band: got 36"),
        (lambda cube: plots.rgb(cube, limits=[0, 1]), "limits: got shape \\(2,\\)"),
        (lambda cube: plots.rgb(cube, np.full(36, np.nan)), "wavelengths: none is finite"),
        (lambda cube: plots.rgb(cube, missing=np.zeros((2, 3))), "missing: got float64"),
        (lambda cube: plots.composites([cube]), "images: got list"),
        (lambda cube: plots.composites({"a": cube}, reference="b"), "reference: got 'b'"),
        (lambda cube: plots.bands({"a": cube}, 1, reference="b"), "reference: got 'b'"),
        (lambda cube: plots.bands({"a": cube, "b": cube[:, :, :3]}, 1), "images: got 3 and 36 bands"),
        (lambda cube: plots.residuals({"a": cube[:5]}, cube, 1), "estimates\\['a'\\]: got 5×20×36"),
        (lambda cube: plots.spectra({"a": cube}, [(24, 0)]), "pixels: got 24"),
        (lambda cube: plots.spectra({"a": cube}, []), "pixels: got \\[\\]"),
        (lambda cube: plots.comparison([]), "panels: got none"),
        (lambda cube: plots.save(None, "figure.bmp"), "path: got 'figure.bmp'"),
    ],
)
def test_a_wrong_argument_gets_its_sentence(scene, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(scene)


def test_composites_share_the_stretch_of_the_reference_where_bands_agree(scene):
    hsi, msi = scene[::4, ::4], scene[:, :, ::6] * 100.0
    bright = 2.0 * scene
    figure = plots.composites(
        {"HSI": hsi, "MSI": msi, "bright": bright, "truth": scene}, WAVELENGTHS, reference="truth"
    )
    limits = plots.rgb_limits(scene, plots.rgb_bands(scene, WAVELENGTHS))
    shown = {axes.get_title(): axes.images[0].get_array() for axes in pictures(figure)}
    for name, image in (("HSI", hsi), ("bright", bright), ("truth", scene)):
        np.testing.assert_allclose(shown[name], plots.rgb(image, WAVELENGTHS, limits=limits), atol=1e-12)
    np.testing.assert_allclose(shown["MSI"], plots.rgb(msi), atol=1e-12)
    below = {axes.get_title(): axes.get_xlabel() for axes in pictures(figure)}
    assert below["HSI"] == "6×5×36\nR 640, G 520, B 460 nm"
    assert below["MSI"] == "24×20×6\nbands 6, 4, 2\nown stretch"
    assert_readable(figure)


def test_composites_mark_pixels_on_the_reference_only(scene):
    figure = plots.composites({"HSI": scene[::4, ::4], "truth": scene}, reference="truth", pixels=[(5, 7), (20, 3)])
    hsi, truth = pictures(figure)
    assert not hsi.texts
    assert [(text.get_text(), text.get_position()) for text in truth.texts] == [("1", (7, 5)), ("2", (3, 20))]
    assert_readable(figure)


def test_a_coarse_image_is_marked_where_its_pixels_lie(scene):
    figure = plots.composites({"HSI": scene[::4, ::4], "truth": scene}, pixels=[(5, 7)])
    (mark,) = pictures(figure)[0].texts
    assert mark.get_position() == pytest.approx((7.5 / 4 - 0.5, 5.5 / 4 - 0.5))


def test_bands_share_the_reference_s_percentiles(scene):
    images = {"truth": scene, "result": low_rank_result(), "HSI": scene[::4, ::4]}
    figure = plots.bands(images, 11, wavelengths=WAVELENGTHS, quantity="reflectance")
    low, high = np.percentile(scene[:, :, 11], (2, 98))
    for axes in pictures(figure):
        assert axes.images[0].get_clim() == pytest.approx((low, high))
    assert [axes.get_title() for axes in pictures(figure)] == list(images)
    (bar,) = bars(figure)
    assert bar.get_ylabel() == "reflectance, band 12 (1060 nm)"
    assert_readable(figure)


def test_a_result_is_shown_without_being_rendered_whole(scene):
    result = low_rank_result()
    figure = plots.bands({"result": result}, 3)
    np.testing.assert_allclose(pictures(figure)[0].images[0].get_array(), result.render()[:, :, 3])
    plots.residuals({"result": result}, scene, 3)
    plots.sam_maps({"result": result}, scene)
    plots.spectra({"result": result}, [(3, 4)])
    plots.rgb(result, WAVELENGTHS)
    assert result.image is None


def test_residuals_have_one_symmetric_scale_with_arrows(scene):
    estimates = {f"system {n}": noisy(scene, deviation, n) for n, deviation in enumerate((0.01, 0.02, 0.03))}
    figure = plots.residuals(estimates, scene, 7)
    peaks = [np.percentile(np.abs(image - scene)[:, :, 7], 99) for image in estimates.values()]
    for axes, image in zip(pictures(figure), estimates.values(), strict=True):
        assert axes.images[0].get_clim() == pytest.approx((-np.median(peaks), np.median(peaks)))
        np.testing.assert_allclose(axes.images[0].get_array(), (image - scene)[:, :, 7], atol=1e-15)
        assert axes.images[0].get_cmap().name == "RdBu_r"
    assert pictures(figure)[0].images[0].colorbar.extend == "both"
    (bar,) = bars(figure)
    assert bar.get_ylabel().replace("\n", " ") == "estimate − reference value, band 8"
    assert_readable(figure)


def test_one_estimate_gone_astray_does_not_bleach_the_others(scene):
    estimates = {"good": noisy(scene, 0.01), "fair": noisy(scene, 0.02), "astray": noisy(scene, 100.0)}
    _, high = pictures(plots.residuals(estimates, scene, 7))[0].images[0].get_clim()
    assert 0.02 < high < 0.2


def test_a_perfect_estimate_has_a_scale_and_no_arrows(scene):
    figure = plots.residuals({"perfect": scene}, scene, 7)
    (axes,) = pictures(figure)
    assert axes.images[0].get_clim() == (-1.0, 1.0)
    assert axes.images[0].colorbar.extend == "neither"
    assert_readable(figure)


def test_residuals_of_several_bands_are_a_panel_each(scene):
    figure = plots.residuals({"HSI": noisy(scene, 0.01)}, scene, [3, 30], wavelengths=WAVELENGTHS)
    assert [axes.get_title() for axes in pictures(figure)] == ["HSI\nband 4 (580 nm)", "HSI\nband 31 (2200 nm)"]
    assert_readable(figure)


def test_sam_maps_are_in_degrees_from_zero(scene):
    estimates = {"one": noisy(scene, 0.01), "other": noisy(scene, 0.02, 1)}
    figure = plots.sam_maps(estimates, scene)
    maps = [metrics.sam_map(image, scene) for image in estimates.values()]
    high = np.median([np.percentile(angles, 99) for angles in maps])
    for axes, angles in zip(pictures(figure), maps, strict=True):
        assert axes.images[0].get_clim() == pytest.approx((0.0, high))
        np.testing.assert_allclose(axes.images[0].get_array(), angles)
    assert pictures(figure)[0].images[0].colorbar.extend == "max"
    assert bars(figure)[0].get_ylabel() == "spectral angle (degrees)"
    assert_readable(figure)


@pytest.mark.parametrize(("shape", "step"), [(SHAPE, 1), ((1511, 6, 4), 2)])
def test_sam_maps_by_blocks_are_the_whole_map(shape, step, monkeypatch):
    result, reference = low_rank_result(shape), np.random.default_rng(1).random(shape)
    monkeypatch.setattr("fastccpd.plots.images._BLOCK", 5 * shape[1] * shape[2])
    shown = pictures(plots.sam_maps({"result": result}, reference))[0].images[0].get_array()
    np.testing.assert_allclose(shown, metrics.sam_map(result.render(), reference)[::step, ::step])


def test_the_uncertainty_is_drawn_beside_the_error_on_one_scale(scene):
    estimate = noisy(scene, 0.01)
    deviation = 0.02 * np.random.default_rng(1).random(SHAPE[:2])
    error = np.sqrt(np.square(estimate - scene).mean(axis=2))
    figure = plots.uncertainty(deviation, estimate, scene, quantity="reflectance")
    expected, actual = pictures(figure)
    np.testing.assert_allclose(expected.images[0].get_array(), deviation)
    np.testing.assert_allclose(actual.images[0].get_array(), error)
    high = np.median([np.percentile(values, 99) for values in (deviation, error)])
    assert expected.images[0].get_clim() == actual.images[0].get_clim() == pytest.approx((0.0, high))
    assert bars(figure)[0].get_ylabel() == "root mean square over bands\nreflectance"
    assert_readable(figure)
    alone = plots.uncertainty(deviation)
    assert len(pictures(alone)) == 1
    assert bars(alone)[0].get_ylabel().endswith("units of the image")
    assert_readable(alone)


def test_an_uncertainty_that_does_not_fit_is_refused(scene):
    with pytest.raises(ValueError, match="deviation: got shape"):
        plots.uncertainty(scene)
    with pytest.raises(ValueError, match="deviation: got 3×4, but reference has 24×20"):
        plots.uncertainty(np.ones((3, 4)), scene, scene)
    with pytest.raises(TypeError, match="estimate"):
        plots.uncertainty(np.ones(SHAPE[:2]), reference=scene)


def test_missing_pixels_are_masked_in_every_map_and_leave_the_scale_alone(scene):
    missing = np.zeros(SHAPE[:2], bool)
    missing[4:8, 4:12] = True
    spoilt = np.where(missing[:, :, None], 1e6, noisy(scene, 0.01))
    for figure in (
        plots.bands({"spoilt": spoilt}, 3, missing=missing),
        plots.uncertainty(np.where(missing, 1e6, 0.01), spoilt, scene, missing=missing),
        plots.residuals({"spoilt": spoilt}, scene, 3, missing=missing),
        plots.sam_maps({"spoilt": spoilt}, scene, missing=missing),
    ):
        (image,) = pictures(figure)[0].images
        assert np.array_equal(np.ma.getmaskarray(image.get_array()), missing)
        assert image.get_clim()[1] < 90.0
        assert tuple(image.get_cmap().get_bad()) == pytest.approx((0.62, 0.62, 0.62, 1.0))


def test_a_coarse_image_is_missing_where_the_middle_of_its_pixel_is(scene):
    missing = np.zeros(SHAPE[:2], bool)
    missing[4:8, 8:12] = True
    figure = plots.bands({"HSI": scene[::4, ::4]}, 3, missing=missing)
    masked = np.ma.getmaskarray(pictures(figure)[0].images[0].get_array())
    assert np.argwhere(masked).tolist() == [[1, 2]]


def test_large_scenes_are_decimated_and_the_figure_says_so():
    image = np.random.default_rng(0).random((1510, 40, 3))
    assert plots.display_step((1500, 40)) == 1
    figure = plots.bands({"large": image}, 1)
    (axes,) = pictures(figure)
    np.testing.assert_array_equal(axes.images[0].get_array(), image[::2, ::2, 1])
    assert axes.images[0].get_extent() == [-0.5, 39.5, 1509.5, -0.5]
    assert "every 2. row and column" in figure.get_supxlabel().replace("\n", " ")
    assert_readable(figure)
    figure = plots.composites({"large": image, "small": image[::2, ::2]})
    assert "every 2. row and column" in figure.get_supxlabel().replace("\n", " ")
    assert_readable(figure)


def test_spectra_run_by_wavelength_and_break_at_gaps(scene):
    centres = WAVELENGTHS.copy()
    centres[20:] += 400.0
    order = np.r_[0:12, 14, 12, 13, 15:36]
    figure = plots.spectra({"scene": scene[:, :, order]}, [(3, 4)], centres[order])
    (line,) = figure.axes[0].lines
    x, y = line.get_data()
    gap = np.flatnonzero(np.isnan(y))
    assert gap.tolist() == [20]
    assert (np.diff(x) > 0.0).all()
    np.testing.assert_array_equal(np.delete(x, gap), centres)
    np.testing.assert_array_equal(np.delete(y, gap), scene[3, 4])
    assert figure.axes[0].get_xlabel() == "wavelength (nm)"


def test_spectra_have_a_panel_a_pixel_and_a_legend(scene):
    names = ["truth", "result (nn-ccpd-nls)", "_hidden?", "$a$ & b", "HSI"]
    cubes = dict(zip(names, (scene, low_rank_result(), scene + 0.1, scene - 0.1, scene[::4, ::4]), strict=True))
    figure = plots.spectra(cubes, [(3, 4), (20, 15), (11, 9)], WAVELENGTHS, faint=["HSI"], quantity="reflectance")
    assert [axes.get_title() for axes in figure.axes] == [
        "pixel 1: row 3, column 4",
        "pixel 2: row 20, column 15",
        "pixel 3: row 11, column 9",
    ]
    (legend,) = figure.legends
    assert [text.get_text().strip() for text in legend.get_texts()] == names
    hsi = figure.axes[1].lines[4]
    np.testing.assert_array_equal(hsi.get_ydata(), scene[20, 12])
    assert_readable(figure)


def test_many_long_names_leave_the_spectra_their_place(scene):
    cubes = {f"nn-ccpd-nls (a variant of its own, number {n})": scene + 0.01 * n for n in range(11)}
    figure = plots.spectra(cubes, [(3, 4), (20, 15), (11, 9)], WAVELENGTHS)
    assert_readable(figure)
    for axes in figure.axes:
        assert axes.get_window_extent().height / figure.dpi > 1.2


@pytest.mark.parametrize("shape", [(300, 12, 3), (12, 300, 3)])
def test_a_long_strip_fits_a_page(shape):
    image = np.random.default_rng(0).random(shape)
    figure = plots.residuals({"strip": image, "another": 0.9 * image}, image, 1)
    width, height = figure.get_size_inches()
    assert width <= 7.2
    assert height <= 9.5
    assert_readable(figure)


def test_a_faint_spectrum_does_not_stretch_the_axis(scene):
    figure = plots.spectra({"truth": scene, "HSI": 100.0 * scene}, [(3, 4)], faint=["HSI"])
    axes = figure.axes[0]
    assert axes.get_ylim()[1] < 1.2 * scene[3, 4].max()
    assert axes.get_xlabel() == "band (1 to 36)"
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), np.arange(1, 37))


def test_a_sensor_of_few_bands_is_shown_by_markers(scene):
    wavelengths = {"truth": WAVELENGTHS, "MSI": WAVELENGTHS[::6]}
    figure = plots.spectra({"truth": scene, "MSI": scene[:, :, ::6]}, [(3, 4)], wavelengths)
    line = figure.axes[0].lines[1]
    assert line.get_linestyle() == "None"
    assert line.get_marker() not in ("", "None")
    np.testing.assert_array_equal(line.get_xdata(), WAVELENGTHS[::6])


def test_convergence_shows_the_start_on_log_axes_against_iterations_and_seconds():
    result = result_of(cost=(9.0, 4.0, 2.0, 1.5), seconds=[0.0, 0.3, 0.5, 0.6])
    for run in (result, result.trace):
        figure = plots.convergence(run)
        by_iteration, by_seconds = figure.axes
        np.testing.assert_allclose(by_iteration.lines[0].get_data(), ([0, 1, 2, 3], np.array([9, 4, 2, 1.5]) / 1.5))
        np.testing.assert_allclose(by_seconds.lines[0].get_xdata(), [0.0, 0.3, 0.5, 0.6])
        assert by_iteration.get_yscale() == by_seconds.get_yscale() == "log"
        assert (by_iteration.get_xlabel(), by_seconds.get_xlabel()) == ("iteration (0 is the start)", "time (s)")
        assert by_iteration.get_ylabel() == "cost / final cost"
        assert_readable(figure)


@pytest.mark.parametrize("cost", [(5.0,), (1.0001, 1.0), (3.2, 1.0), (40.0, 1.0), (1e4, 1.0), (3.0, 1e-9), (1.0, 0.0)])
def test_convergence_is_readable_over_any_range(cost):
    figure = plots.convergence(result_of(cost=cost))
    relative = cost[-1] > 0.0 and cost[0] <= 1e6 * cost[-1]
    assert figure.axes[0].get_ylabel() == ("cost / final cost" if relative else "cost")
    assert_readable(figure)
    assert len(texts(figure)) > 4


def test_convergence_compares_runs():
    figure = plots.convergence({"one": result_of(), "other": result_of(cost=(7.0, 3.0)).trace})
    assert len(figure.axes[0].lines) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "other"]
    assert_readable(figure)


def panels_of(count, scene, band=5):
    names = ["nn-ccpd-nls (dogleg, gauss-newton: the paper's)", "fuse-sylvester", "averyveryverylongnamewithoutabreak"]
    panels = []
    for n in range(count):
        estimate = noisy(scene, 0.01 * (n + 1), n)
        panels.append(
            {
                "title": names[n % 3],
                "band": estimate[:, :, band],
                "residual": (estimate - scene)[:, :, band],
                "sam": metrics.sam_map(estimate, scene),
                "note": f"R-SNR {30 - n}.0 dB",
            }
        )
    return panels


@pytest.mark.parametrize(("count", "truth"), [(8, True), (2, True), (1, False)])
def test_comparison_has_three_rows_of_shared_scale_and_a_bar_each(scene, count, truth):
    panels = panels_of(count, scene)
    reference = scene[:, :, 5] if truth else None
    figure = plots.comparison(panels, reference, band_label="band 6", quantity="reflectance", title="All systems")
    rows = np.array(figure.axes[: 3 * (count + truth)]).reshape(3, -1)
    limits = [{axes.images[0].get_clim() for axes in row[-count:]} for row in rows]
    assert [len(shared) for shared in limits] == [1, 1, 1]
    (low, high), (negative, positive), (zero, _) = (shared.pop() for shared in limits)
    assert (low, high) == pytest.approx(np.percentile(scene[:, :, 5] if truth else panels[0]["band"], (2, 98)))
    assert negative == -positive
    assert zero == 0.0
    peaks = [np.percentile(np.abs(panel["residual"]), 99) for panel in panels]
    assert positive == pytest.approx(np.median(peaks))
    assert [bar.get_ylabel() for bar in bars(figure)] == ["reflectance", "reflectance", "degrees"]
    labels = [axes.get_ylabel().replace("\n", " ") for axes in rows[:, 0]]
    assert labels == ["band 6", "band 6 estimate − truth", "spectral angle"]
    if truth:
        assert rows[0, 0].get_title() == "truth"
        np.testing.assert_array_equal(rows[0, 0].images[0].get_array(), reference)
        assert not rows[1, 0].images
        assert not rows[2, 0].images
    assert figure.get_suptitle() == "All systems"
    assert figure.get_figwidth() <= 10.3
    assert_readable(figure)


def test_picked_pixels_differ_in_spectrum_and_place_and_are_always_the_same(scene):
    pixels = plots.pick_pixels(scene)
    assert len(pixels) == len(set(pixels)) == 4
    assert pixels == plots.pick_pixels(scene.copy(order="F"))
    units = [scene[pixel] / np.linalg.norm(scene[pixel]) for pixel in pixels]
    angles = [np.degrees(np.arccos(u @ v)) for u, v in itertools.combinations(units, 2)]
    rng = np.random.default_rng(0)
    chance = [scene[rng.integers(24), rng.integers(20)] for _ in range(40)]
    chance = [spectrum / np.linalg.norm(spectrum) for spectrum in chance]
    usual = np.mean([np.degrees(np.arccos(min(1.0, u @ v))) for u, v in itertools.combinations(chance, 2)])
    assert np.mean(angles) > usual
    apart = [np.hypot(*np.subtract(*pair)) for pair in itertools.combinations(pixels, 2)]
    assert min(apart) >= 3.0


def test_picked_pixels_avoid_what_is_missing_dark_or_nan(scene):
    missing = np.ones(SHAPE[:2], bool)
    missing[2:10, 3:9] = False
    for row, column in plots.pick_pixels(scene, missing=missing):
        assert not missing[row, column]
    dark = scene.copy()
    dark[:, 10:] *= 1e-3
    dark[:, :, 4] = np.nan
    dark[0:4] = np.nan
    assert all(row >= 4 and column < 10 for row, column in plots.pick_pixels(dark))
    assert plots.pick_pixels(np.zeros(SHAPE)) == []


def test_systems_differ_in_colour_marker_and_line():
    styles = [plots.system_style(n) for n in range(28)]
    assert len({tuple(style.values()) for style in styles}) == 28
    for one, other in itertools.pairwise(styles):
        assert all(one[key] != other[key] for key in ("color", "marker", "linestyle"))


def test_a_figure_is_made_for_others_too():
    figure, axes = plots.figure(2, 3, width=6.0, height=4.0, sharex=True)
    assert axes.shape == (2, 3)
    assert figure.get_size_inches().tolist() == [6.0, 4.0]
    plots.label(axes[0, 0], title="a $ sign and another $ sign", x="x (nm)", y="y", inches=1.0)
    assert "\n" in axes[0, 0].get_title()
    assert_readable(figure)


def test_a_figure_grows_by_its_heading_and_its_legend():
    figure, axes = plots.figure(1, 2, height=2.0)
    handles = [axes[0, 0].plot([0, n], **plots.system_style(n))[0] for n in range(9)]
    plots.legend(figure, handles, [f"a system of its own, number {n}" for n in range(9)])
    plots.heading(figure, "words of a $ heading that is longer than its page is wide " * 3)
    assert figure.get_suptitle().count("\n") >= 1
    assert_readable(figure)
    assert axes[0, 0].get_window_extent().height / figure.dpi > 1.4


def test_a_name_breaks_at_a_hyphen_only_where_it_must():
    assert plots.wrap("result (nn-ccpd-nls)", 1.1) == "result\n(nn-ccpd-nls)"
    assert plots.wrap("fuse-sylvester", 0.8) == "fuse-\nsylvester"


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.SVG", b"<?xml")])
def test_figures_are_saved_whole_and_replace_what_was_there(tmp_path, name, begins):
    figure = plots.convergence(result_of())
    (tmp_path / name).write_bytes(b"old")
    plots.save(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_save_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(OSError):
        plots.save(plots.convergence(result_of()), tmp_path / "taken.png")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.png"]


def test_the_same_figure_gives_the_same_bytes(scene):
    first, second = (plots.as_png(plots.bands({"scene": scene}, 3)) for _ in range(2))
    assert first == second


def test_inputs_are_left_alone_and_any_layout_is_taken(scene):
    counts = np.asfortranarray((1000 * scene).astype(np.uint16))
    counts.flags.writeable = False
    figure = plots.residuals({"counts": counts}, counts[::-1][::-1], 3)
    assert not pictures(figure)[0].images[0].get_array().any()
    assert plots.rgb(counts, WAVELENGTHS).shape == (24, 20, 3)


def test_drawing_starts_no_pyplot_and_importing_no_matplotlib():
    script = (
        "import sys, numpy as np\n"
        "from fastccpd import plots\n"
        "from fastccpd import report\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plots.as_png(plots.bands({'a': np.eye(4)[:, :3, None]}, 0))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_without_matplotlib_the_extra_is_named():
    script = (
        "import sys, numpy as np\n"
        "sys.modules['matplotlib'] = None\n"
        "from fastccpd import plots\n"
        "plots.rgb(np.ones((2, 3, 4)))\n"
        "try:\n    plots.bands({'a': np.ones((2, 3, 4))}, 0)\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout.strip() == 'plots need matplotlib; pip install "fastccpd[plot]"'
