"""The golden problem: no random numbers, and answers on which two independent scripts agree."""

import numpy as np
import pytest
from scenery import Golden

from fastccpd.solver.coupled_cpd import CoupledCPD
from fastccpd.solver.trust_region import Options, minimize

TIGHT = {"gtol": 1e-11, "ftol": 1e-13, "pcg_rtol": 0.1}


@pytest.fixture(scope="module")
def golden():
    return Golden()


def start(golden, parametrisation):
    return golden.x0 if parametrisation == "square" else golden.x0**2


def test_data_norms_are_golden(golden):
    assert np.sum(golden.problem.hsi**2) == pytest.approx(170.607754831, rel=1e-9)
    assert np.sum(golden.problem.msi**2) == pytest.approx(245.635451640, rel=1e-9)


@pytest.mark.parametrize(
    ("parametrisation", "curvature", "f0", "g0", "zHz", "Hz"),
    [
        ("square", "gauss-newton", 190.664559374, 248.927703162, 1575.25802328, 363.355822941),
        ("square", "positive", 190.664559374, 248.927703162, 2415.253203343, 499.902598760),
        ("identity", "gauss-newton", 190.664559374, 121.859994076, 723.268238364, 134.369753377),
        ("identity", "positive", 190.664559374, 121.859994076, 723.268238364, 134.369753377),
    ],
)
def test_cost_gradient_and_hessian_product_are_golden(golden, parametrisation, curvature, f0, g0, zHz, Hz):
    objective = CoupledCPD.of_problem(golden.problem, golden.rank, parametrisation, curvature)
    f, g = objective.cost_and_gradient(start(golden, parametrisation))
    product = objective.hessp(golden.z)
    assert f == pytest.approx(f0, rel=1e-9)
    assert np.linalg.norm(g) == pytest.approx(g0, rel=1e-9)
    assert np.sum(golden.z * product) == pytest.approx(zHz, rel=1e-9)
    assert np.linalg.norm(product) == pytest.approx(Hz, rel=1e-9)


@pytest.mark.parametrize("step", ["steihaug", "dogleg"])
def test_squares_reach_the_golden_limit_in_forty_iterations(golden, step):
    objective = CoupledCPD.of_problem(golden.problem, golden.rank)
    state = minimize(objective, golden.x0, Options(step=step, max_iter=40, **TIGHT))
    assert state.cost == pytest.approx(0.2503394509, rel=1e-7)


def test_the_papers_algorithm_reaches_the_golden_limit(golden):
    objective = CoupledCPD.of_problem(golden.problem, golden.rank, curvature="gauss-newton")
    state = minimize(objective, golden.x0, Options(step="dogleg", max_iter=500, **TIGHT))
    assert state.cost == pytest.approx(0.2503394509, rel=1e-7)


def test_identity_reaches_its_golden_limit_by_dogleg(golden):
    objective = CoupledCPD.of_problem(golden.problem, golden.rank, "identity")
    state = minimize(objective, golden.x0**2, Options(step="dogleg", max_iter=200, **TIGHT))
    assert state.cost == pytest.approx(0.2485897850, rel=1e-7)
