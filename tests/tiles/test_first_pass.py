"""What tiles share is found from all of a scene, as if it were whole."""

from functools import reduce
from itertools import pairwise, permutations
from operator import add

import numpy as np
import pytest
from tiled_scenes import small_pair

import fastccpd
from fastccpd import Problem
from fastccpd.estimation import (
    PathRisks,
    fit_maps,
    gramians_of,
    noise_from,
    noise_of,
    spectra_of_scene,
    statistics_of,
    subspace_of,
    verdict_of,
)
from fastccpd.imaging import metrics
from fastccpd.tiles import as_source, first_pass, fuse_tiles
from fastccpd.tiles.crews import crew_of


@pytest.fixture(scope="module")
def whole():
    _, hsi, msi, degradation = small_pair((160, 128, 36), "reflect")
    problem = Problem(hsi, msi, degradation)
    noise = noise_of(problem)
    return problem, noise, subspace_of(problem, noise)


def shared_spectra(problem, crew):
    scene = as_source(problem.hsi, "hsi"), as_source(problem.msi, "msi"), problem.degradation
    statistics = first_pass.statistics_of_scene(*scene, crew, None)
    noise = noise_from(statistics)
    gramians = first_pass.gramians_of_scene(*scene, noise, subspace_of(problem, noise), crew, None)
    return statistics, gramians


def angle_between(first, second):
    """The largest angle between what two sets of spectra span, in degrees."""
    bases = [np.linalg.qr(spectra)[0] for spectra in (first, second)]
    return float(np.degrees(np.arccos(np.clip(np.linalg.svd(bases[0].T @ bases[1])[1].min(), -1.0, 1.0))))


def test_the_spectra_of_a_scene_in_one_block_are_those_of_a_whole_fit(whole):
    problem, noise, subspace = whole
    statistics = statistics_of(problem)
    spectra = spectra_of_scene(statistics, gramians_of(problem, noise, subspace), noise, subspace)
    fitted = fit_maps(problem, noise, subspace, errors=False).S / subspace.hsi[:, None]
    assert angle_between(spectra, fitted) < 0.001
    assert angle_between(subspace.F, fitted) > 1.0  # what is not freed of its noise is something else


@pytest.mark.parametrize("size", [64, 48])
def test_the_spectra_of_many_blocks_are_those_of_one(whole, size, monkeypatch):
    problem, noise, subspace = whole
    one = spectra_of_scene(statistics_of(problem), gramians_of(problem, noise, subspace), noise, subspace)
    monkeypatch.setattr(first_pass, "_FITTED", size)
    with crew_of(0) as crew:
        statistics, gramians = shared_spectra(problem, crew)
    found = noise_from(statistics)
    many = spectra_of_scene(statistics, gramians, found, subspace)
    assert many.shape == one.shape
    assert angle_between(one, many) < 1.0


@pytest.mark.parametrize("size", [512, 64, 10, 1])
def test_blocks_cover_every_coarse_pixel_once(whole, size):
    problem, _, _ = whole
    ranges = list(first_pass._blocks(problem.degradation.P1, size))
    assert ranges[0][0] == 0
    assert ranges[-1][1] == problem.hsi.shape[0]
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_a_material_that_no_window_sees_has_its_spectrum(whole):
    """A field of its own in a corner of a scene; windows lie in the middles of thirds."""
    _, hsi, msi, degradation = small_pair((160, 128, 36), "reflect")
    hsi, msi = hsi.copy(), msi.copy()
    odd = np.zeros(36, np.float32)
    odd[::2] = hsi.mean()
    hsi[:6, :6] += odd
    msi[:24, :24] += degradation.PM @ odd
    problem = Problem(hsi, msi, degradation)
    with crew_of(0) as crew:
        statistics, gramians = shared_spectra(problem, crew)
    noise = noise_from(statistics)
    subspace = subspace_of(problem, noise)
    spectra = spectra_of_scene(statistics, gramians, noise, subspace)
    basis = np.linalg.qr(spectra)[0]
    unit = odd / subspace.hsi
    assert np.linalg.norm(unit - basis @ (basis.T @ unit)) < 0.1 * np.linalg.norm(unit)


def spoilt(cause, hsi, msi):
    """A pair with something wrong with it."""
    if cause == "scale":
        return hsi, np.float32(50.0) * msi
    if cause == "shift":
        return hsi, np.roll(msi, 3, axis=0)
    if cause == "mask":  # a cloud, far from the middle
        msi = msi.copy()
        msi[:40, :44] = msi.max()
    return hsi, msi


@pytest.mark.parametrize("cause", [None, "scale", "shift", "mask"])
def test_the_verdict_is_that_on_the_whole(cause, tmp_path):
    _, hsi, msi, degradation = small_pair((224, 200, 36), "reflect")
    pair = spoilt(cause, hsi, msi)
    expected = verdict_of(Problem(*pair, degradation))
    assert expected.cause == cause
    with fuse_tiles(*pair, degradation, tile=96, method="gsa", workers=0, folder=tmp_path / "state") as fused:
        assert fused.verdict == expected
    with fuse_tiles(
        *pair, degradation, tile=96, method="gsa", workers=0, folder=tmp_path / "state", resume=True
    ) as again:
        assert again.verdict == expected


def test_the_verdict_widens_the_expected_error_alike_in_all_tiles():
    """By the size of the whole scene's misfit, as in an image fused whole."""
    _, hsi, msi, degradation = small_pair(kind="reflect")
    msi = np.float32(1.5) * msi
    whole = fastccpd.fuse(hsi, msi, degradation, method="tv-maps")
    assert whole.verdict.disagrees
    with fuse_tiles(hsi, msi, degradation, tile=48, method="tv-maps", workers=0, uncertainty=True) as fused:
        assert fused.verdict == whole.verdict
        np.testing.assert_allclose(fused.uncertainty()[:, :, 0], whole.uncertainty, rtol=0.05)


def test_risks_of_windows_add_up_by_weight_wherever_their_paths_begin_and_end():
    """A window whose maps would be too smooth begins its path below the others."""
    ladder = 2.83 * 0.6 ** np.arange(7)
    true = np.log(ladder[3])

    def path(first, last, curvature):
        weights = ladder[first:last]
        return PathRisks(weights, curvature * np.square(np.log(weights) - true))

    paths = path(0, 5, 1.0), path(2, 5, 40.0), path(2, 6, 7.0), path(0, 7, 3.0)
    for order in permutations(paths):
        total = reduce(add, order)
        np.testing.assert_array_equal(total.weights, ladder)
        assert total.best == pytest.approx(ladder[3])
        known = sum(one.risks[ladder[3] == one.weights] for one in paths)
        assert total.risks[3] == pytest.approx(known[0], abs=1e-12)
        assert (np.diff(total.risks[:4]) < 0.0).all()
        assert (np.diff(total.risks[3:]) > 0.0).all()


def test_the_weight_of_windows_that_begin_at_different_ones_is_that_of_the_whole():
    """Of its four windows three begin two steps below the fourth; added up step by step they cost 1.5 dB."""
    truth, hsi, msi, degradation = small_pair((384, 320, 40), "reflect")
    whole = fastccpd.fuse(hsi, msi, degradation, method="tv-maps")
    with fuse_tiles(hsi, msi, degradation, tile=192, method="tv-maps", workers=0) as fused:
        assert fused.shared.weight == pytest.approx(whole.stages["tv-maps"].weight, rel=0.1)
        assert abs(metrics.rsnr(fused.sri, truth) - metrics.rsnr(whole.sri, truth)) < 0.05
