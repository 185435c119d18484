"""One tensor alone, and three: any number of terms against the dense oracle."""

import numpy as np
import oracle
import pytest
from scenery import band_means, blur

from fastccpd.solver.coupled_cpd import CoupledCPD
from fastccpd.solver.terms import Term
from fastccpd.solver.trust_region import Options, minimize

SHAPE, RANK = (8, 12, 5), 3


def terms(count, dtype=np.float64, seed=0):
    """(terms, their dense operators): a plain tensor, one seen through three operators, one with gaps."""
    rng = np.random.default_rng(seed)
    identity = [np.eye(n) for n in SHAPE]
    operators = [
        identity,
        [blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], 2)],
        [identity[0], blur(SHAPE[1]), rng.standard_normal((7, SHAPE[2]))],  # more bands than the scene has
    ]
    made = []
    for n, P in enumerate(operators[:count]):
        shape = tuple(len(matrix) for matrix in P)
        given = [None if matrix is same else matrix for matrix, same in zip(P, identity, strict=True)]
        valid = rng.random(shape) > 0.2 if n == 2 else None
        made.append(Term(rng.random(shape).astype(dtype), given, weight=1.0 + 0.5 * n, valid=valid))
    return made, operators[:count]


def dense(objective, x, operators):
    """Cost, gradient by x and J'J by x, J over all data, as the Gauss-Newton matrix has it; squares are assumed."""
    factors = [np.square(x[rows]) for rows in objective.modes]
    cost, gradient, JtJ = 0.0, 0.0, 0.0
    for term, P in zip(objective.terms, operators, strict=True):
        model, J = oracle.seen_tensor_and_jacobian(P, factors)
        J = J * 2.0 * x.ravel()
        residual = model - term.tensor if term.valid is None else np.where(term.valid, model - term.tensor, 0.0)
        cost += 0.5 * term.weight * np.sum(residual**2)
        gradient = gradient + term.weight * J.T @ residual.ravel()
        JtJ = JtJ + term.weight * J.T @ J
    return cost, gradient, JtJ


COUNTS = pytest.mark.parametrize("count", [1, 2, 3])


@COUNTS
def test_cost_gradient_and_hessian_of_any_number_of_terms_match_the_dense_model(count):
    some, operators = terms(count)
    objective = CoupledCPD(some, RANK, curvature="gauss-newton")
    x = np.random.default_rng(1).uniform(0.2, 1.2, objective.shape)
    cost, gradient, JtJ = dense(objective, x, operators)
    f, g = objective.cost_and_gradient(x)
    assert f == pytest.approx(cost, rel=1e-12)
    np.testing.assert_allclose(g.ravel(), gradient, atol=1e-11 * np.abs(gradient).max())
    ours = np.column_stack([objective.hessp(e.reshape(x.shape)).ravel() for e in np.eye(x.size)])
    np.testing.assert_allclose(ours, JtJ, atol=1e-12 * np.abs(JtJ).max())


@COUNTS
def test_the_gradient_of_any_number_of_terms_is_exact_by_the_slope_of_its_taylor_error(count):
    objective = CoupledCPD(terms(count)[0], RANK)
    rng = np.random.default_rng(2)
    x, d = rng.uniform(0.2, 1.2, objective.shape), rng.standard_normal(objective.shape)
    assert oracle.taylor_slope(objective, x, d) == pytest.approx(2.0, abs=0.1)


@COUNTS
def test_the_preconditioner_of_any_number_of_terms_is_symmetric_and_positive(count):
    objective = CoupledCPD(terms(count)[0], RANK)
    rng = np.random.default_rng(3)
    objective.cost_and_gradient(rng.uniform(0.2, 1.2, objective.shape))
    a, b = rng.standard_normal((2, *objective.shape))
    assert np.vdot(a, objective.precondition(b)) == pytest.approx(np.vdot(b, objective.precondition(a)))
    assert np.vdot(a, objective.precondition(a)) > 0.0


def test_a_plain_tensor_alone_is_decomposed():
    rng = np.random.default_rng(0)
    tensor = oracle.cp_tensor(*(rng.random((n, 2)) for n in SHAPE))
    objective = CoupledCPD([Term(tensor)], 2)
    state = minimize(objective, rng.uniform(0.3, 1.0, objective.shape), Options(max_iter=500, ftol=1e-10))
    factors = objective.factors(state.x)
    assert state.status.converged
    assert np.linalg.norm(oracle.cp_tensor(*factors) - tensor) < 1e-3 * np.linalg.norm(tensor)


def test_float32_and_float64_tensors_may_stand_side_by_side():
    double, operators = terms(2)
    single, _ = terms(2, np.float32)
    x = np.random.default_rng(1).uniform(0.2, 1.2, (sum(SHAPE), RANK))
    expected = dense(CoupledCPD(double, RANK), x, operators)
    mixed = CoupledCPD([double[0], single[1]], RANK)
    f, g = mixed.cost_and_gradient(x)
    assert f == pytest.approx(expected[0], rel=1e-6)
    np.testing.assert_allclose(g.ravel(), expected[1], atol=1e-5 * np.abs(expected[1]).max())


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"tensor": np.ones((2, 3))}, ValueError, r"tensor: got shape \(2, 3\)"),
        ({"tensor": np.ones((2, 3, 4)) + 1j}, TypeError, "tensor: got dtype complex128"),
        ({"operators": None}, TypeError, "operators: got NoneType; three"),
        ({"operators": (None, None)}, TypeError, "operators: got 2 of them; three"),
        ({"operators": (np.ones((3, 9)), None, None)}, ValueError, r"operators\[0\]: 3 rows, but the tensor has 2"),
        ({"operators": (None, np.ones((3, 9)) * 1j, None)}, TypeError, r"operators\[1\]: got dtype complex128"),
        ({"weight": -1.0}, ValueError, "weight: got -1.0"),
        ({"valid": np.ones((5, 5), bool)}, ValueError, r"valid: got shape \(5, 5\)"),
    ],
)
def test_a_silly_term_gets_one_sentence(arguments, error, words):
    with pytest.raises(error, match=f"^{words}"):
        Term(**{"tensor": np.ones((2, 3, 4)), **arguments})


def test_terms_that_are_none_foreign_or_of_different_scenes_are_refused():
    one, other = Term(np.ones((2, 3, 4))), Term(np.ones((2, 3, 5)))
    with pytest.raises(ValueError, match=r"^terms: got none; at least one is needed"):
        CoupledCPD([], 2)
    with pytest.raises(TypeError, match=r"^terms\[1\]: got ndarray; a fastccpd.solver.Term is needed"):
        CoupledCPD([one, np.ones((2, 3, 4))], 2)
    with pytest.raises(ValueError, match=r"^terms\[1\]: sees a scene of shape \(2, 3, 5\), but terms\[0\] one of"):
        CoupledCPD([one, other], 2)
    with pytest.raises(TypeError, match=r"^problem: got int; a fastccpd.Problem is needed"):
        CoupledCPD.of_problem(3, 2)
