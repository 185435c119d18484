"""NNSTF against golden digits, a plain twin with every patch made, and at figures of Salinas."""

import asv_folder
import numpy as np
import pytest
from rival_scenes import rivals_scene
from scenery import (
    assert_memory_estimate_is_close,
    band_means,
    grid,
    observe,
    rsnr,
    sine_problem,
    small_case,
)
from tiled_scenes import small_pair

from fastccpd import Degradation, Problem, Status, fuse
from fastccpd.imaging import gaussian, landsat, metrics
from fastccpd.methods import NNSTF, get, nnstf
from fastccpd.methods._kmeans import kmeans
from fastccpd.methods._patches import Patches
from fastccpd.methods._tucker_group import PatchData, TuckerGroup, successive_projections
from fastccpd.methods.nnstf import _ImageStep, _Rounds
from fastccpd.tiles import as_source, make_plan
from fastccpd.tiles.pieces import piece_of

twins = asv_folder.module("benchmarks.factored_methods")


class Dense:
    """Patches (n, p, K) as they are."""

    def __init__(self, T):
        self.T = T

    def project(self, W):
        return self.T @ W

    def correlate(self, M):
        return np.tensordot(self.T, M, ((0, 1), (0, 1)))


def golden_group():
    def factor(rows, columns, s):
        u, v = grid(rows, columns)
        return 1.0 + 0.5 * np.cos(s + u + 2 * v)

    n, x, y, k = grid(4, 3, 3, 5)
    T = (1.5 + np.sin(n + 2 * x + 3 * y + k)).reshape(4, 9, 5)
    return T, TuckerGroup(factor(4, 2, 0), factor(3, 2, 1), factor(3, 2, 2), factor(5, 3, 3), 0.01)


def test_golden_digits_of_a_sweep():
    T, group = golden_group()
    found = []
    for n in range(1, 21):
        group.sweep(Dense(T), 5)
        model = group.model_coefficients() @ group.W.T
        found += [0.5 * np.sum((T - model) ** 2) + 0.01 * group.G.sum()] if n in (1, 2, 5, 20) else []
    np.testing.assert_allclose(found, (44.80839696, 44.56296269, 43.84428326, 24.5016579), rtol=2e-10)
    for factor in (group.Q, group.U, group.V, group.W):
        assert factor.min() >= 0.0
        np.testing.assert_allclose(np.linalg.norm(factor, axis=0), 1.0)


def test_golden_digits_of_the_image_step():
    step, nothing = _ImageStep(sine_problem(), 1.0, 0.1), np.zeros((6, 5, 7))
    X = step(nothing, *step.residuals(nothing))
    assert X.sum() == pytest.approx(118.6455789, rel=1e-9)
    assert X[0, 0, 0] == pytest.approx(1.035121749, rel=1e-9)


def odd_problem(seed=0, **gaps):
    """Sizes that no ratio divides, dense operators of any sign."""
    rng = np.random.default_rng(seed)
    operators = rng.normal(size=(4, 13)), rng.normal(size=(3, 10)), rng.normal(size=(2, 6))
    return Problem(rng.random((4, 3, 6)), rng.random((13, 10, 2)), Degradation(*operators), **gaps)


def test_the_image_step_is_the_minimum():
    problem = odd_problem()
    Z = np.random.default_rng(1).random((13, 10, 6))
    P1, P2, PM = (getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
    step = _ImageStep(problem, 1.0, 0.3)
    X = step(Z, *step.residuals(Z))
    left = np.einsum("ai,bj,ijk->abk", P1, P2, X) - problem.hsi
    gradient = np.einsum("ai,bj,abk->ijk", P1, P2, left) + (X @ PM.T - problem.msi) @ PM + 0.3 * (X - Z)
    assert np.abs(gradient).max() < 1e-11


def test_missing_values_have_no_part_in_the_step_and_the_misfit_falls():
    rng = np.random.default_rng(5)
    valid = {"hsi_valid": rng.random((4, 3, 6)) > 0.2, "msi_valid": rng.random((13, 10, 2)) > 0.2}
    step, Z = _ImageStep(odd_problem(**valid), 1.0, 0.3), rng.random((13, 10, 6))
    left = step.residuals(Z)
    assert all(not part[~there].any() for part, there in zip(left, valid.values()))
    before = sum(np.sum(part**2) for part in left)
    assert sum(np.sum(part**2) for part in step.residuals(step(Z, *left))) < before


@pytest.mark.parametrize("rows", [256, 7])
def test_pixels_give_what_their_patches_give(rows, monkeypatch):
    monkeypatch.setattr("fastccpd.methods._tucker_group._ROWS", rows)
    rng = np.random.default_rng(0)
    image, patches = rng.random((11, 9, 5)), Patches((11, 9), 4, 3)
    places = np.array([0, 3, 4, 7])
    data, T = PatchData(patches, places).load(image), patches.gather(image, places)
    W, M = rng.random((5, 2)), rng.random((4, 16, 2))
    np.testing.assert_allclose(data.project(W), T @ W)
    np.testing.assert_allclose(data.correlate(M), np.einsum("npk,npr->kr", T, M))
    labels = np.array([0, 1, 1, 0])
    np.testing.assert_allclose(data.means(labels)[16:], T[1:3].mean(axis=0))
    total, expected = np.zeros((2, 11, 9, 5))
    data.add_model(M, W, total)
    patches.add(M @ W.T, expected, places)
    np.testing.assert_allclose(total, expected)
    assert Patches.count((11, 9, 5), 4, 3) == len(patches)


@pytest.mark.parametrize("parts", ["scene", "msi"])
def test_the_image_is_that_of_the_plain_twin(parts):
    _, hsi, msi, degradation = small_case((20, 24, 12), bands=3, noise=0.05)
    problem = Problem(hsi, msi, degradation)
    options = NNSTF(scale=2.0, clusters=3, ranks=(4, 5, 3, 6), max_iter=3, patch=7, step=3, parts=parts)
    expected = twins.nnstf(problem, options, np.random.default_rng(4))
    image = options.solve(problem, rng=np.random.default_rng(4)).image.render()
    assert rsnr(image, expected) > 140.0


def test_successive_projections_find_the_corners_of_mixtures():
    rng = np.random.default_rng(2)
    corners = rng.random((3, 8))
    points = np.vstack([rng.dirichlet(np.ones(3), 40) @ corners, corners])
    found = successive_projections(points, 3)
    assert sorted(np.abs(found.T[:, None] - corners).max(axis=2).argmin(axis=1)) == [0, 1, 2]
    assert successive_projections(np.zeros((4, 5)), 3).shape == (5, 3)


def test_successive_projections_of_points_that_span_less_do_not_go_by_rounding():
    rng = np.random.default_rng(0)
    points = rng.random((9, 3)) @ rng.random((3, 12))
    found = successive_projections(points, 6)
    assert len(np.unique(found, axis=1).T) == 6
    for scale in (1000.0, 1e-4, 1.0 / 3.0):
        np.testing.assert_allclose(successive_projections(points * scale, 6), found * scale, rtol=1e-12)


def test_a_scene_of_fewer_coarse_pixels_than_spectra_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    P2, PM = rng.random((5, 20)), band_means(9, 3)
    scene = rng.dirichlet(np.ones(3), (8, 20)) @ rng.random((3, 9))
    P1 = np.full((1, 8), 0.125)
    hsi, msi = observe(scene, P1, P2, PM)
    images = [
        fuse(scale * hsi, scale * msi, Degradation(P1, P2, PM), method="nnstf", max_iter=2, rng=0).sri / scale
        for scale in (1.0, 1000.0)
    ]
    np.testing.assert_allclose(images[1], images[0], rtol=0, atol=1e-9 * images[0].max())


def test_clusters_are_found_and_equal_points_share_one():
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1, 2], 30)
    points = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])[truth] + rng.normal(size=(90, 2))
    labels = kmeans(points, 3, rng)
    assert len({(a, b) for a, b in zip(truth, labels)}) == 3
    np.testing.assert_array_equal(kmeans(np.ones((7, 2)), 3, rng), 0)
    assert kmeans(np.repeat(np.eye(2), 4, axis=0), 5, rng).max() == 1
    by_rounding = 1.0 + np.finfo(float).eps * np.random.default_rng(0).integers(0, 4, (60, 8))
    assert kmeans(by_rounding, 30, rng).max() < 30  # without a warning


def test_clusters_are_those_of_the_definition():
    points, rng = np.random.default_rng(5).normal(size=(5000, 6)), np.random.default_rng(8)
    centres = points[[rng.integers(len(points))]]
    while len(centres) < 12:
        left = np.square(points[:, None] - centres).sum(axis=2).min(axis=1)
        centres = np.vstack([centres, points[np.searchsorted(np.cumsum(left / left.sum()), rng.uniform())]])
    for _ in range(4):
        expected = np.square(points[:, None] - centres).sum(axis=2).argmin(axis=1)
        centres = np.stack([points[expected == n].mean(axis=0) for n in range(12)])
    pulses = []
    found = kmeans(points, 12, np.random.default_rng(8), lambda: pulses.append(None), max_iter=4)
    np.testing.assert_array_equal(found, expected)
    assert len(pulses) == 2 * (11 + 4)  # in each draw and iteration, for each of two blocks


@pytest.mark.parametrize("output", ["Z", "X"])
def test_stopped_at_any_pulse_the_image_is_that_of_the_last_whole_round(output):
    _, hsi, msi, degradation = small_case((24, 20, 10), bands=3)
    problem = Problem(hsi, msi, degradation)

    def rounds():
        return _Rounds(problem, 1.0, NNSTF(output=output, clusters=2), np.random.default_rng(0))

    class Stop(Exception):
        pass

    whole, costs = rounds(), []
    whole.begin(lambda: None)
    whole.advance(lambda: costs.append(whole.cost()))
    assert whole.cost() != costs[0]
    for n, cost in enumerate(costs):
        stopped, left = rounds(), iter(range(n))
        stopped.begin(lambda: None)

        def pulse(left=left):
            if next(left, None) is None:
                raise Stop

        with pytest.raises(Stop):
            stopped.advance(pulse)
        assert stopped.cost() == cost
        misfit = 0.5 * sum(np.sum(part**2) for part in stopped.step.residuals(stopped.image))
        assert misfit == pytest.approx(cost, rel=1e-12)


def test_cost_is_the_misfit_of_the_image():
    _, hsi, msi, degradation = small_case((24, 20, 10), bands=3, noise=0.05)
    for output in ("Z", "X"):
        solution = NNSTF(max_iter=2, output=output).solve(Problem(hsi, msi, degradation), rng=np.random.default_rng(0))
        operators = (getattr(degradation, name).toarray() for name in ("P1", "P2", "PM"))
        seen = observe(solution.image.render(), *operators)
        misfit = 0.5 * sum(np.sum((a - b) ** 2) for a, b in zip(seen, (hsi, msi)))
        assert solution.cost == pytest.approx(misfit, rel=1e-9)
        assert solution.image.render().min() >= 0.0
        assert solution.status is Status.FINISHED
        assert solution.n_iter == 2


def test_the_time_limit_ends_the_start_too():
    _, hsi, msi, degradation = small_case((24, 20, 10), bands=3)
    solution = NNSTF().solve(Problem(hsi, msi, degradation), rng=np.random.default_rng(0), time_limit=0.0)
    assert solution.status is Status.TIME_LIMIT
    assert solution.n_iter == 0
    assert solution.image.render().min() >= 0.0


def test_gaps_cost_little():
    scene, hsi, msi, degradation = small_case((40, 36, 20), bands=4, noise=0.02)
    rng = np.random.default_rng(0)
    masks = {"hsi_valid": rng.random(hsi.shape) > 0.1, "msi_valid": rng.random(msi.shape[:2]) > 0.1}
    whole = rsnr(fuse(hsi, msi, degradation, method="nnstf").sri, scene)
    masked = fuse(hsi, msi, degradation, method="nnstf", **masks).sri
    assert rsnr(masked, scene) > whole - 2.0
    hsi, msi = hsi.copy(), msi.copy()
    hsi[~masks["hsi_valid"]], msi[~masks["msi_valid"]] = np.nan, -1e9
    assert fuse(hsi, msi, degradation, method="nnstf", **masks).sri.tobytes() == masked.tobytes()


def test_it_is_registered_with_its_defaults_and_says_that_it_is_inferred():
    assert get("nnstf") is NNSTF
    assert "inferred as a whole" in " ".join(NNSTF.__doc__.split())
    assert NNSTF().options() == {
        "ranks": (8, 8, 8, 16),
        "clusters": None,
        "patch": 8,
        "step": 4,
        "eta": 0.1,
        "rho": 1e-3,
        "max_iter": 30,
        "output": "Z",
        "parts": "scene",
        "scale": None,
    }


def test_any_operators_and_sizes_are_taken():
    rng = np.random.default_rng(0)
    scene = rng.random((13, 10, 3)) @ rng.random((3, 7))
    operators = [np.abs(rng.normal(size=(4, 13))), np.abs(rng.normal(size=(3, 10))), band_means(7, 2)]
    result = fuse(*observe(scene, *operators), Degradation(*operators), method="nnstf", max_iter=3)
    assert np.isfinite(result.sri).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ranks": (8, 8, 8)}, r"^ranks: got 3 numbers; four, for rows, columns, bands and patches"),
        ({"ranks": 8}, r"^ranks: got 1 numbers; four"),
        ({"ranks": (8, 8, 0, 8)}, r"^ranks\[2\]: got 0"),
        ({"clusters": 0}, r"^clusters: got 0"),
        ({"patch": 0}, r"^patch: got 0"),
        ({"step": 9}, r"^step: got 9; at most the patch of 8"),
        ({"eta": 0.0}, r"^eta: got 0.0"),
        ({"rho": -1.0}, r"^rho: got -1.0"),
        ({"output": "Y"}, r"^output: got 'Y'; 'Z' or 'X'"),
        ({"parts": "hsi"}, r"^parts: got 'hsi'; 'scene' or 'msi'"),
        ({"max_iter": -1}, r"^max_iter: got -1"),
        ({"scale": 0.0}, r"^scale: got 0.0"),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        NNSTF(**options)


@pytest.mark.parametrize("clusters", [None, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_estimate_is_close(dtype, clusters):
    _, hsi, msi, degradation = small_case((96, 64, 80), noise=0.05)
    problem = Problem(hsi.astype(dtype), msi.astype(dtype), degradation)
    assert_memory_estimate_is_close(NNSTF(max_iter=2, clusters=clusters), problem)


@pytest.mark.scenes
@pytest.mark.parametrize(
    ("options", "snr", "figures"),
    [
        ({}, 20.0, (24.58, 1.938)),
        ({}, 5.0, (16.52, 5.394)),
        ({"clusters": 1}, 5.0, (19.27, 3.932)),
        ({"output": "X"}, None, (27.67, None)),
    ],
)
def test_figures_of_salinas(data_folder, options, snr, figures):
    cube, problem = rivals_scene(data_folder, "salinas-a", snr)
    image = NNSTF(**options).solve(problem, rng=np.random.default_rng(0)).image.render()
    assert metrics.rsnr(image, cube) == pytest.approx(figures[0], abs=0.8)
    assert figures[1] is None or metrics.sam(image, cube) == pytest.approx(figures[1], rel=0.1)


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "zero"])
def test_pixels_that_the_hsi_knows_nothing_of_are_in_no_group(boundary):
    """A part of a scene has a rim of them; they spoilt the groups of all patches. A whole scene has none."""
    _, hsi, msi, _ = small_pair()
    for phase in (0.0, 1.5, 3.0):
        degradation = Degradation(*gaussian((96, 80), 4, phase=phase, boundary=boundary), landsat(36))
        assert [nnstf._seen_part(P) for P in (degradation.P1, degradation.P2)] == [slice(0, 96), slice(0, 80)]
    plan = make_plan(degradation.P1, degradation.P2, 16)
    span, cols = plan.rows[2], plan.cols[0]
    piece = piece_of(as_source(hsi, "hsi"), as_source(msi, "msi"), degradation, span, cols)
    seen = nnstf._seen_part(piece.degradation.P1)
    assert 0 < seen.start < span.inside.start
    assert span.inside.stop < seen.stop < len(span.fine)
    rounds = nnstf._Rounds(piece.problem(), 1.0, NNSTF(clusters=2), np.random.default_rng(0))
    rows = rounds.patches.rows[rounds.places]
    assert seen.start <= rows.min()
    assert rows.max() + 8 <= seen.stop
    # Beyond them the first image goes on as it is at the last ones.
    np.testing.assert_array_equal(rounds.X[0], rounds.X[seen.start])
