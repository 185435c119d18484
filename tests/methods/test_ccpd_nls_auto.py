"""The NLS methods with a rank and a basis that are found: what is found, what is refused, how it is watched."""

import json

import numpy as np
import pytest
from scenery import rsnr, small_case

from fastccpd import Status, fuse, load, memory_needed, methods
from fastccpd.cli import main
from fastccpd.estimation import decompose_maps, image_risk
from fastccpd.estimation.decomposition import Fitting
from fastccpd.methods import _ccpd_nls
from fastccpd.model.problem import Maps
from fastccpd.testing import inputs, objects, repeatability, stopping

AUTO = {"rank": "auto", "compress": "auto"}


@pytest.mark.parametrize("method", ["nn-ccpd-nls", "uc-ccpd-nls"])
def test_the_rank_is_found_and_reported(method, tmp_path):
    scene, *images = small_case((32, 28, 30), rank=3, noise=0.05)
    result = fuse(*images, method=method, rank="auto")
    path = result.stages["rank"]
    assert result.options["rank"] == "auto"
    assert result.factors.rank == path.rank <= 5
    assert 1 <= result.effective_rank <= path.rank
    assert path.risk == min(path.risks)
    assert result.converged
    assert rsnr(result.sri, scene) > rsnr(fuse(*images, method=method, rank=20).sri, scene) + 3.0
    result.save(tmp_path / "result.npz")
    again = load(tmp_path / "result.npz")
    assert again.stages["rank"].rank == path.rank
    assert again.options["rank"] == "auto"


def test_a_basis_leaves_noise_out_and_nothing_else():
    scene, *images = small_case((32, 28, 30), rank=3, noise=0.05)
    whole, few = (fuse(*images, method="nn-ccpd-nls", rank=6, compress=compress) for compress in (None, 3))
    assert rsnr(few.sri, scene) > rsnr(whole.sri, scene)
    found = fuse(*images, method="nn-ccpd-nls", rank=6, compress="auto")
    assert rsnr(found.sri, scene) > rsnr(whole.sri, scene)
    every = fuse(*images, method="nn-ccpd-nls", rank=6, compress=30, max_iter=5)
    plain = fuse(*images, method="nn-ccpd-nls", rank=6, max_iter=5)
    assert every.cost == pytest.approx(plain.cost, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"rank": "best"}, TypeError, "rank: got 'best'; a whole number of at least 1 or 'auto' is needed"),
        ({"compress": "all"}, TypeError, "compress: got 'all'; a whole number of at least 1 or 'auto' is needed"),
        ({"compress": 0}, ValueError, "compress: got 0; a whole number of at least 1 is needed"),
        ({"compress": 31}, ValueError, "compress: got 31; a whole number of at least 1 and at most 30 is needed"),
        ({"rank": "auto", "init": 3}, TypeError, "init: got int; Factors or three matrices are needed"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options, error, sentence):
    _, *images = small_case()
    with pytest.raises(error) as refused:
        fuse(*images, method="nn-ccpd-nls", **options)
    assert str(refused.value) == sentence


def test_an_hsi_with_gaps_is_left_as_it_is_or_the_basis_is_refused():
    _, *images = small_case(noise=0.02)
    valid = np.ones(images[0].shape, bool)
    valid[0, 0, :5] = False
    how = {"method": "nn-ccpd-nls", "rank": 3, "hsi_valid": valid}
    found = fuse(*images, compress="auto", **how)
    assert found.sri.tobytes() == fuse(*images, **how).sri.tobytes()
    with pytest.raises(ValueError, match="compress: got 4 beside hsi_valid, but pixels with gaps"):
        fuse(*images, compress=4, **how)


@pytest.mark.parametrize("stage", ["rank", "decomposition"])
def test_a_halt_in_either_stage_gives_what_was_reached(stage):
    _, *images = small_case((32, 28, 30), rank=3, noise=0.05)
    calls = []

    def stop(state):
        calls.append(state.stage)
        return state.stage == stage and state.n_iter >= 2

    result = fuse(*images, method="nn-ccpd-nls", rank="auto", callback=stop)
    assert result.status is Status.CALLBACK
    assert calls[-1] == stage
    assert np.isfinite(result.sri).all()


@pytest.mark.parametrize(
    "check",
    [
        objects.check_options_round_trip_through_json,
        objects.check_memory_estimate,
        inputs.check_float32_is_kept,
        repeatability.check_given_start,
        stopping.check_callback_sees_rising_iterations,
        stopping.check_stop_in_every_stage,
        stopping.check_time_limit,
    ],
    ids=lambda check: check.__name__,
)
def test_what_every_method_keeps_to_holds_for_what_is_found(check):
    check(methods.NNCCPDNLS(**AUTO))


def test_memory_is_that_of_the_largest_rank():
    shapes = (20, 21, 204), (80, 84, 6)
    largest = memory_needed(*shapes, method="nn-ccpd-nls", rank=112)
    assert memory_needed(*shapes, method="nn-ccpd-nls", rank="auto") > largest


def test_the_command_line_knows_auto(capsys):
    assert main(["methods", "nn-ccpd-nls", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["options"]
    assert told["rank"]["default"] == 30
    assert '"auto"' in told["rank"]["text"]
    assert told["compress"]["default"] is None


def test_a_basis_does_not_hide_the_noise_that_terms_would_fit(monkeypatch):
    """The rank is judged by the whole HSI, whatever basis it is fitted in."""
    _, *images = small_case((32, 28, 30), rank=3, noise=0.05)
    judged = []

    def spied(objective, x, sigmas):
        judged.append([term.basis is None for term in objective.terms])
        return image_risk(objective, x, sigmas)

    monkeypatch.setattr(_ccpd_nls, "image_risk", spied)
    result = fuse(*images, method="nn-ccpd-nls", **AUTO)
    assert len(judged) == len(result.stages["rank"].ranks) > 1
    assert all(all(whole) for whole in judged)
    assert result.factors.rank <= 5


def test_the_factors_of_maps_are_fitted_without_a_ridge_in_the_end():
    """A ridge keeps them away from maps without noise, however many terms there are."""
    scene, _, _, degradation = small_case((32, 28, 30), rank=12, noise=0.0)
    Q, _ = np.linalg.qr(scene.reshape(-1, 30).T @ scene.reshape(-1, 30))
    maps = Maps(np.ascontiguousarray(scene @ Q[:, :12]), Q[:, :12])

    def distance(ridge):
        fitting = Fitting(rank="auto", ridge=ridge, closeness=1e-9)
        found = decompose_maps(maps, degradation, fitting, rng=np.random.default_rng(0))
        return np.sum(np.square(found.factors.render() - maps.render()))

    assert distance("auto") < 0.3 * distance(1e-3)


def test_factors_alone_come_up_to_the_maps():
    scene, *images = small_case((48, 44, 30), rank=12, noise=0.05)
    result = fuse(*images, method="nn-ccpd-auto")
    maps = result.stages["tv-maps"].maps.render()
    assert result.shown == "factors"
    assert rsnr(result.sri, scene) > rsnr(maps, scene) - 0.3
    assert result.stages["decomposition"].path.rank == result.factors.rank
