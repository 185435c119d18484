"""Other packages' decompositions on our kernels: the same results, to rounding."""

import numpy as np
import pytest

from fastccpd import adapters

rng = np.random.default_rng(0)
FACTORS = [rng.random((n, 4)) for n in (13, 11, 9)]
TENSOR = np.einsum("ir,jr,kr->ijk", *FACTORS) + 0.01 * rng.random((13, 11, 9))


@pytest.fixture
def counted(monkeypatch):
    """How often our kernel was asked."""
    calls = []
    kernel = adapters.mttkrp
    monkeypatch.setattr(adapters, "mttkrp", lambda *args: calls.append(args[2]) or kernel(*args))
    return calls


def rendered(weights, factors):
    return np.einsum("r,ir,jr,kr->ijk", weights, *factors)


DECOMPOSITIONS = {
    "parafac": {},
    "non_negative_parafac": {},
    "non_negative_parafac_hals": {},
    "constrained_parafac": {"non_negative": True, "tol_outer": 0.0},
}


@pytest.mark.parametrize("backend", ["core", "einsum"])
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_tensorly_decomposes_as_before(name, backend, counted):
    decomposition = pytest.importorskip("tensorly.decomposition")
    with pytest.importorskip("tensorly").tenalg.backend_context(backend):
        check_tensorly(getattr(decomposition, name), counted, DECOMPOSITIONS[name])


def check_tensorly(decompose, counted, options):
    settings = {"rank": 4, "n_iter_max": 8, "init": "random", "random_state": 0, **options}
    expected = decompose(TENSOR, **settings)
    assert not counted
    with adapters.tensorly_on_fastccpd():
        found = decompose(TENSOR, **settings)
    assert len(counted) >= 24
    np.testing.assert_allclose(rendered(*found), rendered(*expected), rtol=1e-7)
    asked = len(counted)
    decompose(TENSOR, **settings)
    assert len(counted) == asked, "outside the context tensorly is itself again"


def test_tensorly_keeps_what_the_kernels_do_not_cover(counted):
    decomposition = pytest.importorskip("tensorly.decomposition")
    fourth = rng.random((4, 3, 5, 2))
    expected = decomposition.parafac(fourth, 2, n_iter_max=5, init="random", random_state=0)
    with adapters.tensorly_on_fastccpd():
        found = decomposition.parafac(fourth, 2, n_iter_max=5, init="random", random_state=0)
    assert not counted
    np.testing.assert_array_equal(found[1][0], expected[1][0])


def test_tensorly_keeps_views_that_are_no_one_piece_of_memory(counted):
    decomposition = pytest.importorskip("tensorly.decomposition")
    view = np.moveaxis(TENSOR, 2, 1)
    settings = {"rank": 3, "n_iter_max": 4, "init": "random", "random_state": 0}
    expected = decomposition.parafac(view, **settings)
    with adapters.tensorly_on_fastccpd():
        found = decomposition.parafac(view, **settings)
    assert not counted
    np.testing.assert_array_equal(found[1][2], expected[1][2])


def test_the_gradient_of_a_cp_tensor_is_tensorly_s_own_to_rounding(counted):
    tensorly = pytest.importorskip("tensorly")
    model = (np.ones(4), FACTORS)
    gradient = tensorly.cp_tensor.cp_lstsq_grad
    expected = gradient(model, TENSOR)
    with adapters.tensorly_on_fastccpd():
        found = gradient(model, TENSOR)
    assert len(counted) == 3
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_pyttb_s_own_tensors_run_on_ours_within_the_context(monkeypatch):
    pyttb = pytest.importorskip("pyttb")
    passes = []
    kernel = adapters.mttkrp_all
    monkeypatch.setattr(adapters, "mttkrp_all", lambda *args: passes.append(1) or kernel(*args))
    start = pyttb.ktensor([factor.copy() for factor in FACTORS])
    tensor, optimizer = pyttb.tensor(TENSOR), pyttb.gcp.optimizers.LBFGSB(maxiter=4)

    def decomposed():
        loss = pyttb.gcp.handles.Objectives.GAUSSIAN
        return pyttb.gcp_opt(tensor, 4, loss, optimizer, init=start.copy(), printitn=0)[0].full().data

    expected = decomposed()
    assert not passes
    with adapters.pyttb_on_fastccpd():
        found = decomposed()
    assert len(passes) >= 3
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    counted = len(passes)
    decomposed()
    assert len(passes) == counted, "outside the context pyttb is itself again"


@pytest.mark.parametrize("order", ["C", "F"])
def test_pyttb_multiplies_in_all_modes_as_before(order):
    pyttb = pytest.importorskip("pyttb")
    tensor = pyttb.tensor(np.array(TENSOR, order=order))
    for factors in (FACTORS, pyttb.ktensor(FACTORS, np.arange(1.0, 5.0))):
        expected = tensor.mttkrps(factors)
        for ours, theirs in zip(adapters.pyttb_tensor(TENSOR).mttkrps(factors), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_pyttb_decomposes_as_before(order, counted):
    pyttb = pytest.importorskip("pyttb")
    array = np.array(TENSOR, order=order)
    start = pyttb.ktensor([rng.random((n, 4)) for n in TENSOR.shape])
    settings = {"rank": 4, "init": start, "maxiters": 8, "printitn": 0}
    expected = pyttb.cp_als(pyttb.tensor(array), **settings)[0].full().data
    found = pyttb.cp_als(adapters.pyttb_tensor(array), **settings)[0].full().data
    assert len(counted) >= 24
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_pyttb_makes_no_copy_of_fortran_order():
    pytest.importorskip("pyttb")
    array = np.asfortranarray(TENSOR)
    assert np.shares_memory(adapters.pyttb_tensor(array).data, array)


@pytest.mark.parametrize("package", ["tensorly", "pyttb"])
def test_contexts_that_overlap_leave_the_package_as_it_was(package):
    """As two threads have them: the first to come is the first to go."""
    pytest.importorskip(package)
    if package == "pyttb":
        import pyttb

        context, method = adapters.pyttb_on_fastccpd, lambda: pyttb.tensor.mttkrp
    else:
        import tensorly

        backend = type(tensorly.tenalg.load_backend("core"))
        context, method = adapters.tensorly_on_fastccpd, lambda: backend.unfolding_dot_khatri_rao
    own, first, second = method(), context(), context()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert method() is not own, "somebody is still within"
    second.__exit__(None, None, None)
    assert method() is own
