"""The default: when the maps are the image, when the decomposition is, and what is made only when it is asked for."""

import dataclasses
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scenery import rsnr, small_case
from scipy.ndimage import gaussian_filter1d

from fastccpd import Factors, Problem, Status, fuse
from fastccpd.estimation import decomposition, noise_of, subspace_of, watch
from fastccpd.estimation.decomposition import misfits, risk_bound
from fastccpd.estimation.risk_bounds import UNEXPLAINED, least_chi2
from fastccpd.imaging import add_noise, degrade, preset, scenes
from fastccpd.methods import _staged
from fastccpd.methods import nn_ccpd_auto as auto
from fastccpd.model.result import Trace

# Beyond this only the noise and rounding differ.
EXACT = 100.0


def scores(case, **options):
    """(auto's result, its R-SNR, that of nn-ccpd-nls), the scores up to EXACT."""
    scene, *images = case
    result = fuse(*images, **options)
    nls = fuse(*images, method="nn-ccpd-nls", **options)
    return result, min(rsnr(result.sri, scene), EXACT), min(rsnr(nls.sri, scene), EXACT)


@pytest.mark.parametrize(("rank", "noise"), [(3, 0.0), (3, 1e-6), (3, 0.01), (5, 1e-3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_scene_of_the_given_rank_is_decomposed_down_to_its_noise(rank, noise, seed):
    """As rough as noise, which is overestimated at first: what the decomposition leaves puts that right."""
    result, auto, nls = scores(small_case(rank=rank, noise=noise, seed=seed), rank=rank)
    assert result.maps is None
    assert auto >= nls - 0.2
    if noise < 1e-4:
        assert auto == EXACT


@pytest.mark.parametrize("seed", [0, 1])
def test_more_materials_than_msi_bands_and_no_noise_are_left_to_the_decomposition(seed):
    result, auto, nls = scores(small_case(rank=8, bands=4, noise=1e-6, seed=seed), rank=8)
    assert result.maps is None
    assert auto >= nls - 0.2
    assert (np.diff(result.trace.cost) <= 1e-12 * result.trace.cost[0]).all()  # one fit after the other, to rounding


def test_the_maps_are_the_image_where_the_rank_is_far_too_high():
    result, auto, nls = scores(small_case(rank=3, noise=1e-6), rank=30)
    assert result.maps is not None
    assert auto >= nls + 5.0


@pytest.mark.parametrize(("smoothness", "shown"), [(0.0, "factors"), (3.0, "maps")])
def test_what_neither_image_shows_counts_when_maps_and_factors_are_compared(smoothness, shown):
    """Ten smooth terms fit the two images of a scene better than maps do, and the scene itself worse."""
    rng = np.random.default_rng(1)
    factors = [gaussian_filter1d(rng.random((n, 10)) ** 2, smoothness or 1e-6, axis=0) for n in (48, 40, 30)]
    scene = np.einsum("ir,jr,kr->ijk", *factors)
    degradation = preset("stereo", scene.shape)
    images = [add_noise(image, 30.0, rng=n) for n, image in enumerate(degrade(scene, degradation))]
    result = fuse(*images, degradation)
    other = fuse(*images, degradation, show="maps" if shown == "factors" else "factors")
    assert result.shown == shown
    assert rsnr(result.sri, scene) >= rsnr(other.sri, scene) - 0.5


@pytest.mark.parametrize(("show", "method"), [("maps", "tv-maps"), ("factors", "nn-ccpd-auto")])
@pytest.mark.parametrize("noise", [1e-6, 0.05])
def test_what_is_shown_on_request_has_the_bytes_of_the_method_of_that_name(show, method, noise):
    _, *images = small_case(rank=3, noise=noise)
    options = {} if show == "maps" else {"rank": 5}
    shown, alone = fuse(*images, rank=5, show=show), fuse(*images, method=method, **options)
    assert shown.shown == alone.shown == show
    assert shown.sri.tobytes() == alone.sri.tobytes()
    assert (shown.cost, shown.status, shown.n_iter) == (alone.cost, alone.status, alone.n_iter)
    assert shown.trace.cost == alone.trace.cost


def test_the_best_is_one_of_the_two_and_says_which():
    for noise, expected in ((0.05, "maps"), (1e-6, "factors")):
        _, *images = small_case(rank=3, noise=noise)
        best = fuse(*images, rank=3 if expected == "factors" else 30)
        assert best.shown == expected == best.stages["choice"].shown
        other = fuse(*images, rank=best.options["rank"], show=expected)
        assert best.sri.tobytes() == other.sri.tobytes()
        assert best.cost == other.cost


def test_the_cost_is_the_unweighted_misfit_of_the_image_that_is_shown():
    _, *images = small_case(rank=3, noise=0.05)
    for show in ("maps", "factors"):
        result = fuse(*images, rank=5, show=show)
        seen = degrade(result.sri, images[2])
        cost = 0.5 * sum(np.sum((a - b) ** 2) for a, b in zip(seen, images[:2]))
        assert result.cost == pytest.approx(cost, rel=1e-9)


def test_every_stage_is_kept_with_its_figures():
    _, *images = small_case(rank=3, noise=0.05)
    result = fuse(*images, rank=30)
    stages = result.stages
    assert list(stages)[:3] == ["noise", "subspace", "tv-maps"]
    fit = stages["tv-maps"]
    assert fit.number == result.maps.Z.shape[2]
    assert fit.path[0][0] > fit.weight > 0.0
    assert fit.risk <= np.nanmin([step[3] for step in fit.path]) + fit.dof  # of too strong λ none is asked for
    assert stages["choice"].risks["maps"] == fit.risk
    for name in ("noise", "subspace", "tv-maps", "choice"):
        assert stages[name].status.converged
        assert stages[name].seconds >= 0.0
        assert isinstance(stages[name].trace, Trace)
    assert sum(stages[name].seconds for name in ("noise", "subspace", "tv-maps", "choice")) <= result.seconds


class TestFactorsOfMaps:
    @pytest.fixture
    def case(self):
        return small_case(rank=3, noise=0.05)[1:]

    @pytest.fixture
    def asked(self, monkeypatch):
        """How often a decomposition of maps was begun."""
        begun = []
        original = decomposition.decompose_maps

        def counted(*args, **options):
            begun.append(options)
            return original(*args, **options)

        monkeypatch.setattr(decomposition, "decompose_maps", counted)
        return begun

    def test_they_are_made_when_first_asked_for_and_kept(self, case, asked):
        result = fuse(*case, rank=30)
        image = result.sri.tobytes()
        assert (result.shown, result.known_factors, result.effective_rank) == ("maps", None, None)
        factors = result.factors
        assert [f.shape[1] for f in factors] == [30] * 3
        assert result.factors is factors is result.decompose()
        assert len(asked) == 1
        assert 1 <= result.effective_rank <= 30
        assert result.stages["decomposition"].of == "maps"
        assert result.sri.tobytes() == image

    def test_they_are_those_of_nn_ccpd_auto_and_the_same_each_time(self, case):
        first, second = (fuse(*case, rank=30, rng=3).factors for _ in range(2))
        alone = fuse(*case, rank=30, rng=3, method="nn-ccpd-auto").factors
        for one, other, third in zip(first, second, alone):
            assert one.tobytes() == other.tobytes() == third.tobytes()

    def test_a_pickled_result_makes_the_same_ones(self, case, asked):
        result = fuse(*case, rank=30)
        copy = pickle.loads(pickle.dumps(result))
        assert not asked
        expected = [f.tobytes() for f in result.factors]
        assert [f.tobytes() for f in copy.factors] == expected
        assert len(asked) == 2
        again = pickle.loads(pickle.dumps(result))
        assert [f.tobytes() for f in again.factors] == expected
        assert len(asked) == 2

    def test_repr_replace_and_rendering_do_not_start_it(self, case, asked):
        result = fuse(*case, rank=30)
        repr(result)
        replaced = dataclasses.replace(result, combined=1)
        replaced.render(rows=slice(0, 2))
        assert not asked

    def test_it_can_be_watched_and_ended_and_then_nothing_is_kept(self, case):
        result = fuse(*case, rank=30)
        seen = []
        result.decompose(callback=lambda state: seen.append(state) or state.n_iter >= 3)
        assert [state.n_iter for state in seen] == [0, 1, 2, 3]
        assert {state.stage for state in seen} == {"decomposition"}
        assert result.known_factors is None
        assert result.decompose(time_limit=0.0) is not None
        assert result.known_factors is None


def test_further_starts_are_not_made_once_the_maps_are_shown():
    _, *images = small_case(rank=3, noise=0.05)
    one, four = (fuse(*images, rank=30, starts=starts, combine="mean") for starts in (1, 4))
    assert len(four.start_costs) == 1
    assert four.combined == 1
    assert four.sri.tobytes() == one.sri.tobytes()
    assert four.maps is not None


def test_the_maps_are_made_once_however_many_starts(monkeypatch):
    made = []
    original = _staged.fit_maps
    monkeypatch.setattr(_staged, "fit_maps", lambda *args, **options: made.append(1) or original(*args, **options))
    _, *images = small_case(rank=3, noise=0.05)
    result = fuse(*images, method="nn-ccpd-auto", rank=5, starts=3, max_iter=5)
    assert len(result.start_costs) == 3
    assert len(made) == 1


def test_no_decomposition_has_a_lower_risk_than_its_bound():
    for seed in range(3):
        _, *images = small_case(rank=6, noise=0.02, seed=seed)
        problem = Problem(*images)
        subspace = subspace_of(problem, noise_of(problem))
        sigmas = [float(np.mean(np.square(sigma))) for sigma in (subspace.hsi, subspace.msi)]
        for rank in (1, 2, 4, 8):
            bound = risk_bound(problem, subspace, rank)
            factors = fuse(*images, method="uc-ccpd-nls", rank=rank, rng=seed).factors
            chi2 = sum(misfit / sigma for misfit, sigma in zip(misfits(problem, factors), sigmas))
            risk = chi2 - sum(problem.sizes) + 2.0 * (sum(problem.sri_shape) - 2) * rank
            assert bound <= max(risk, (sum(problem.sri_shape) - 2) * rank)


@pytest.mark.parametrize("gaps", [False, True])
def test_no_decomposition_is_tried_of_a_scene_that_the_maps_show_to_have_no_low_rank(gaps, monkeypatch):
    monkeypatch.setattr(decomposition, "fit_rank_path", lambda *args, **options: pytest.fail("a path was begun"))
    scene = scenes.synthetic((64, 60, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    images = [add_noise(image, 20.0, rng=n) for n, image in enumerate(degrade(scene, degradation))]
    valid = {"msi_valid": np.random.default_rng(0).random((64, 60)) > 0.05} if gaps else {}
    choice = fuse(*images, degradation, **valid).stages["choice"]
    assert choice.shown == "maps"
    assert choice.bound >= choice.risks["maps"]


@pytest.mark.parametrize("fault", ["scale", "offset", "cloud"])
def test_no_decomposition_is_tried_of_images_that_disagree_whatever_lies_between_them(fault, monkeypatch):
    """Maps of such a pair leave hundreds of times its noise; so does every image, and looking for one takes long."""
    scene = scenes.synthetic((64, 60, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    hsi, msi = (add_noise(image, 35.0, rng=n) for n, image in enumerate(degrade(scene, degradation)))
    if fault == "cloud":
        msi[16:44, 8:40] = 3.0 * msi.max()
    else:
        msi = 1e4 * msi if fault == "scale" else msi + msi.mean()
    problem = Problem(hsi, msi, degradation)
    noise = noise_of(problem)
    subspace = subspace_of(problem, noise)
    bound, trial = least_chi2(problem, noise, subspace), fuse(hsi, msi, degradation, method="gsa").sri
    pairs = zip((hsi, msi), degrade(trial, degradation), (subspace.hsi, subspace.msi), strict=True)
    assert bound < sum(np.square((image - seen) / sigma).sum() for image, seen, sigma in pairs)
    assert bound > UNEXPLAINED * sum(problem.sizes)
    monkeypatch.setattr(auto, "decompose_scene", lambda *args, **options: pytest.fail("a decomposition was begun"))
    result = fuse(hsi, msi, degradation)
    assert result.shown == "maps"
    assert result.verdict.disagrees
    assert "disagree" in result.stages["choice"].reason


@pytest.mark.parametrize("gaps", [False, True])
def test_misfits_are_those_of_the_rendered_image(gaps):
    scene, hsi, msi, degradation = small_case(rank=3, noise=0.05)
    rng = np.random.default_rng(0)
    valid = [rng.random(image.shape) > 0.2 if gaps else None for image in (hsi, msi)]
    problem = Problem(hsi, msi, degradation, True, *valid)
    factors = Factors(*(rng.random((n, 4)) for n in scene.shape))
    seen = degrade(factors.render(), degradation)
    expected = [np.sum((a - b)[slice(None) if has is None else has] ** 2) for a, b, has in zip(seen, (hsi, msi), valid)]
    np.testing.assert_allclose(misfits(problem, factors), expected, rtol=1e-9)


@pytest.mark.parametrize("bands", [4, 5], ids=["decomposition first", "maps first"])
@pytest.mark.parametrize("stop", [0, 1])
def test_a_callback_stops_it_in_the_maps_and_is_asked_no_more(bands, stop):
    _, *images = small_case(rank=8 if bands == 4 else 3, bands=bands, noise=1e-6)
    seen = []

    def callback(state):
        seen.append(state.n_iter)
        return state.n_iter >= stop

    result = fuse(*images, rank=8, callback=callback)
    assert result.status is Status.CALLBACK
    assert result.shown == "maps"
    assert sorted(set(seen)) == list(range(stop + 1))  # a long iteration is shown several times
    assert np.isfinite(result.sri).all()


@pytest.mark.parametrize("bands", [4, 5], ids=["decomposition first", "maps first"])
def test_iterations_are_limited_over_all_its_parts(bands):
    _, *images = small_case(rank=8 if bands == 4 else 3, bands=bands, noise=1e-6)
    for limit in (0, 3, 60):
        result = fuse(*images, rank=8, max_iter=limit)
        assert result.n_iter <= limit
        assert len(result.trace) == result.n_iter + 1


def test_noise_and_effective_rank_are_reported():
    scene = scenes.synthetic((64, 48, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    rng = np.random.default_rng(0)
    hsi, msi = (image + 0.05 * rng.standard_normal(image.shape) for image in degrade(scene, degradation))
    result = fuse(hsi, msi, degradation, rank=12)
    result.decompose()
    assert [sigma.shape for sigma in result.noise] == [(40,), (6,)]
    np.testing.assert_allclose(result.noise[0], 0.05, rtol=0.15)
    assert 1 <= result.effective_rank <= 12
    assert result.uncertainty.shape == (64, 48)
    assert (result.uncertainty > 0.0).all()


def test_the_status_is_that_of_the_factors_that_count():
    """Here the decomposition of the images is tried after that of the maps, runs out of iterations, and is worse."""
    scene = scenes.synthetic((64, 48, 40), rng=0).cube
    degradation = preset("stereo", scene.shape)
    images = degrade(scene, degradation)
    whole = fuse(*images, degradation, method="nn-ccpd-auto", rank=3)
    assert whole.stages["decomposition"].of == "maps"
    drops = [late < 0.1 * early for early, late in pairwise(whole.trace.cost)]
    if any(drops):  # the first iteration of another objective, of another size
        tried = 1 + drops.index(True)
        limited = fuse(*images, degradation, method="nn-ccpd-auto", rank=3, max_iter=tried + 1)
        assert limited.n_iter == tried + 1
        assert limited.status.converged
    assert whole.status.converged


def test_the_expected_error_of_each_band_is_near_the_true_one():
    rng = np.random.default_rng(0)
    scene = scenes.synthetic((64, 60, 40), rng=rng).cube
    degradation = preset("stereo", scene.shape)
    images = [add_noise(image, 20.0, rng) for image in degrade(scene, degradation)]
    result = fuse(*images, degradation, show="maps")
    true = np.sqrt(np.mean((result.sri - scene) ** 2, axis=(0, 1)))
    assert ((0.5 * true < result.uncertainty_spectrum) & (result.uncertainty_spectrum < 2.0 * true)).all()
    np.testing.assert_allclose(np.mean(result.uncertainty_spectrum**2), np.mean(result.uncertainty**2), rtol=1e-5)


def test_factors_have_no_uncertainty_of_maps():
    _, *images = small_case(rank=3, noise=0.05)
    assert fuse(*images, rank=30, show="factors").uncertainty is None
    assert fuse(*images, rank=30, show="maps").uncertainty is not None


@pytest.mark.parametrize("method", ["auto", "nn-ccpd-auto"])
def test_a_halt_between_maps_and_decomposition_is_answered_there(method, monkeypatch):
    monkeypatch.setattr(watch, "_PULSE", 0.0)
    _, *images = small_case(rank=3, noise=0.05)
    stages = []

    def callback(state):
        if stages and state.stage != stages[-1]:
            return True
        stages.append(state.stage)
        return False

    result = fuse(*images, method=method, callback=callback)
    assert set(stages) == {"tv-maps"}
    assert result.status is Status.CALLBACK
    assert np.isfinite(result.sri).all()
    assert np.isfinite(result.cost)
    if method == "auto":
        assert result.shown == "maps"
        assert result.stages["choice"].reason == "the fit was ended early"
    else:
        assert result.stages["decomposition"].n_iter == 0
