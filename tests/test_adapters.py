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


@pytest.mark.parametrize("name", ["parafac", "non_negative_parafac", "non_negative_parafac_hals"])
def test_tensorly_decomposes_as_before(name, counted):
    decomposition = pytest.importorskip("tensorly.decomposition")
    decompose = getattr(decomposition, name)
    settings = {"rank": 4, "n_iter_max": 8, "init": "random", "random_state": 0}
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
