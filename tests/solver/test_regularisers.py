"""Each regulariser: its gradient by slope, its Hessian against the definition, alone and within the objective."""

import numpy as np
import oracle
import pytest
from scenery import small_case

from fastccpd import Problem, fuse, fuse_many
from fastccpd.solver.coupled_cpd import CoupledCPD
from fastccpd.solver.regularisers import Ridge, Smoothness, Subspace

SIZES, RANK = (7, 5, 6), 3


def basis(bands, size=2):
    return np.linalg.qr(np.random.default_rng(3).standard_normal((bands, size)))[0]


def terms(sizes):
    I, J, K = sizes
    return {
        "ridge": Ridge(0.7),
        "smoothness": Smoothness((0.3, 1.1, 2.0), sizes),
        "subspace": Subspace(1.7, basis(K), slice(I + J, I + J + K)),
    }


def dense(name, sizes):
    """The Hessian for one column, from the definition."""
    I, J, K = sizes
    H = np.zeros((I + J + K, I + J + K))
    if name == "ridge":
        return 0.7 * np.eye(len(H))
    if name == "subspace":
        E = basis(K)
        H[I + J :, I + J :] = 1.7 * (np.eye(K) - E @ E.T)
        return H
    start = 0
    for n, weight in zip(sizes, (0.3, 1.1, 2.0), strict=True):
        D = np.eye(n)[1:] - np.eye(n)[:-1]
        H[start : start + n, start : start + n] = weight * D.T @ D
        start += n
    return H


def objective_with(name):
    """(objective with that regulariser, a point, a generator)."""
    _, hsi, msi, degradation = small_case(shape=(16, 12, 10), rank=2, noise=0.1)
    problem = Problem(hsi, msi, degradation)
    objective = CoupledCPD.of_problem(problem, RANK, regularisers=[terms(problem.sri_shape)[name]])
    rng = np.random.default_rng(1)
    return objective, rng.uniform(0.3, 1.0, objective.shape), rng


def slope(errors, steps):
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


@pytest.mark.parametrize("name", terms(SIZES))
@pytest.mark.parametrize("sizes", [SIZES, (1, 2, 3)])
def test_value_gradient_and_hessian_are_those_of_the_definition(name, sizes):
    term, H = terms(sizes)[name], dense(name, sizes)
    rng = np.random.default_rng(0)
    v, z = rng.standard_normal((2, sum(sizes), RANK))
    assert term.value(v) == pytest.approx(0.5 * np.vdot(v, H @ v))
    np.testing.assert_allclose(term.gradient(v), H @ v, atol=1e-12)
    np.testing.assert_allclose(term.hessp(v, z), H @ z, atol=1e-12)
    np.testing.assert_allclose(
        np.broadcast_to(term.diagonal(v), v.shape), np.diag(H)[:, None] * np.ones(RANK), atol=1e-12
    )


@pytest.mark.parametrize("name", terms(SIZES))
def test_the_objective_with_it_has_the_gradient_of_its_cost(name):
    objective, x, rng = objective_with(name)
    z = rng.standard_normal(objective.shape)
    cost, gradient = objective.cost_and_gradient(x)
    assert cost > CoupledCPD(objective.terms, RANK).cost(x)
    steps = np.logspace(-1, -3, 5)
    errors = [abs(objective.cost(x + h * z) - cost - h * np.vdot(gradient, z)) for h in steps]
    assert slope(errors, steps) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("name", terms(SIZES))
def test_the_objective_with_it_has_a_symmetric_hessian_that_its_blocks_precondition(name):
    objective, x, rng = objective_with(name)
    objective.cost_and_gradient(x)
    a, b = rng.standard_normal((2, *objective.shape))
    assert np.vdot(a, objective.hessp(b)) == pytest.approx(np.vdot(b, objective.hessp(a)))
    assert np.vdot(a, objective.hessp(a)) > 0.0
    assert np.vdot(a, objective.precondition(a)) > 0.0


def test_hand_picked_weights_pay_in_noise():
    scene, hsi, msi, degradation = small_case(shape=(32, 24, 30), rank=3, noise=0.5)
    options = {"method": "nn-ccpd-nls", "rank": 8}
    plain = fuse(hsi, msi, degradation, **options).sri
    for weights in ({"smoothness": (1.0, 1.0, 1.0)}, {"subspace": 30.0, "subspace_rank": 3}, {"ridge": 3.0}):
        better = fuse(hsi, msi, degradation, **options, **weights).sri
        assert np.linalg.norm(better - scene) < 0.95 * np.linalg.norm(plain - scene), weights


def test_weights_are_checked():
    with pytest.raises(ValueError, match=r"^smoothness: got 2 numbers; three numbers, for rows, columns and bands"):
        fuse(*small_case()[1:], method="nn-ccpd-nls", smoothness=(1.0, 2.0))
    with pytest.raises(ValueError, match=r"^weights\[1\]: got -1"):
        Smoothness((1.0, -1.0, 0.0), SIZES)
    with pytest.raises(ValueError, match=r"^weight: got -1"):
        Subspace(-1.0, basis(6), slice(12, 18))


class Anchored(oracle.Pull):
    """The same of the latent parameters."""

    space = "latent"


METHODS = pytest.mark.parametrize("method", ["nn-ccpd-nls", "uc-ccpd-nls"])


@METHODS
def test_fuse_takes_a_third_partys_regulariser_and_names_its_class(method):
    _, hsi, msi, degradation = small_case(noise=0.1)
    plain = fuse(hsi, msi, degradation, method=method, rank=3)
    anchored = fuse(hsi, msi, degradation, method=method, rank=3, regularisers=[Anchored(1e6)])
    assert plain.provenance["regularisers"] == []
    assert anchored.provenance["regularisers"] == ["Anchored"]
    assert anchored.options == plain.options
    # So strong a pull leaves nothing else: every factor is one, in the scene's own unit.
    np.testing.assert_allclose(anchored.factors.A, 1.0, atol=0.01)
    assert np.ptp(plain.factors.A) > 0.1


def test_a_regulariser_given_to_fuse_is_as_good_as_the_option_of_the_same_term():
    _, hsi, msi, degradation = small_case(noise=0.1)
    options = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 20}
    by_option = fuse(hsi, msi, degradation, ridge=0.5, **options)
    by_object = fuse(hsi, msi, degradation, regularisers=[Ridge(0.5)], **options)
    assert by_object.sri.tobytes() == by_option.sri.tobytes()
    both = fuse(hsi, msi, degradation, ridge=0.25, regularisers=(Ridge(0.25),), **options)
    assert both.trace.cost[0] == pytest.approx(by_option.trace.cost[0], rel=1e-12)


def test_regularisers_reach_every_pair_of_many():
    _, hsi, msi, degradation = small_case(noise=0.1)
    options = {"method": "nn-ccpd-nls", "rank": 3, "max_iter": 20, "regularisers": [Ridge(0.5)]}
    (result,) = fuse_many([(hsi, msi)], degradation, workers=1, **options)
    assert result.provenance["regularisers"] == ["Ridge"]
    assert result.sri.tobytes() == fuse(hsi, msi, degradation, **options).sri.tobytes()


@pytest.mark.parametrize("method", ["stereo", "hysure", "scott"])
def test_a_method_that_cannot_use_regularisers_says_which_can(method):
    sentence = f"^regularisers: '{method}' cannot use them; nn-ccpd-nls, uc-ccpd-nls can$"
    with pytest.raises(TypeError, match=sentence):
        fuse(*small_case()[1:], method=method, regularisers=[Ridge(1.0)])
    assert fuse(*small_case()[1:], method="scott", rank=(3, 3, 3), regularisers=()).provenance["regularisers"] == []


def without(member):
    members = {name: value for name, value in {**vars(oracle.Pull), **vars(Anchored)}.items() if name != member}
    return type("Lacking", (), members)(1.0)


@pytest.mark.parametrize(
    ("regularisers", "error", "words"),
    [
        (Ridge(1.0), TypeError, r"regularisers: got Ridge; a sequence of regularisers is needed"),
        ([Ridge], TypeError, r"regularisers\[0\]: got the class Ridge; an object of it is needed"),
        ([Ridge(1.0), 3], TypeError, r"regularisers\[1\]: got int, which has no value\(\); value, gradient, hessp"),
        ([without("value")], TypeError, r"regularisers\[0\]: got Lacking, which has no value\(\)"),
        ([without("gradient")], TypeError, r"regularisers\[0\]: got Lacking, which has no gradient\(\)"),
        ([without("hessp")], TypeError, r"regularisers\[0\]: got Lacking, which has no hessp\(\)"),
        ([without("diagonal")], TypeError, r"regularisers\[0\]: got Lacking, which has no diagonal\(\)"),
        ([without("space")], ValueError, r"regularisers\[0\]\.space: got None; 'latent' or 'factors' is needed"),
    ],
)
def test_what_is_no_regulariser_gets_one_sentence(regularisers, error, words):
    _, hsi, msi, degradation = small_case()
    with pytest.raises(error, match=f"^{words}"):
        fuse(hsi, msi, degradation, method="nn-ccpd-nls", regularisers=regularisers)
    with pytest.raises(error, match=f"^{words}"):
        CoupledCPD.of_problem(Problem(hsi, msi, degradation), 2, regularisers=regularisers)
