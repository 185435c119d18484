"""A tensor fitted in a basis of its bands: the cost and gradient of the projected tensor, by passes over less data."""

import numpy as np
import pytest
from scenery import band_means, blur

from fastccpd.solver import CoupledCPD, Options, Term, minimize

SHAPE, RANK = (8, 12, 17), 3
WHOLE = {np.float64: 1e-12, np.float32: 1e-5}


def orthonormal(bands, count, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((bands, count)))[0]


def images(dtype=np.float64):
    rng = np.random.default_rng(1)
    P1, P2, PM = blur(SHAPE[0]), blur(SHAPE[1]), band_means(SHAPE[2], 4)
    hsi, msi = rng.random((len(P1), len(P2), SHAPE[2])), rng.random((*SHAPE[:2], 4))
    return hsi.astype(dtype), msi.astype(dtype), (P1, P2, None), (None, None, PM)


def objective(hsi_term, msi, of_msi, **options):
    return CoupledCPD([hsi_term, Term(msi, of_msi)], RANK, scale=0.7, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("parametrisation", ["square", "identity"])
@pytest.mark.parametrize("count", [1, 5, SHAPE[2]])
def test_cost_gradient_and_products_are_those_of_the_projected_tensor(dtype, parametrisation, count):
    hsi, msi, of_hsi, of_msi = images(dtype)
    E = orthonormal(SHAPE[2], count)
    inside = hsi.astype(float) @ E @ E.T
    plain = objective(Term(inside, of_hsi, 2.0), msi.astype(float), of_msi, parametrisation=parametrisation)
    compressed = objective(Term(hsi, of_hsi, 2.0, basis=E), msi, of_msi, parametrisation=parametrisation)
    x = np.random.default_rng(2).uniform(0.2, 1.2, plain.shape)
    (cost, gradient), (own_cost, own_gradient) = plain.cost_and_gradient(x), compressed.cost_and_gradient(x)
    left_out = np.sum((hsi.astype(float) - inside) ** 2) / 0.7**2
    assert own_cost == pytest.approx(cost + 0.5 * 2.0 * left_out, rel=WHOLE[dtype])
    np.testing.assert_allclose(own_gradient, gradient, atol=WHOLE[dtype] * np.abs(gradient).max())
    z = np.random.default_rng(3).standard_normal(x.shape)
    expected = plain.hessp(z)
    np.testing.assert_allclose(compressed.hessp(z), expected, atol=WHOLE[dtype] * np.abs(expected).max())
    np.testing.assert_allclose(compressed.misfits(), plain.misfits(), rtol=WHOLE[dtype])
    if count == SHAPE[2]:
        whole = objective(Term(hsi, of_hsi, 2.0), msi, of_msi, parametrisation=parametrisation)
        assert own_cost == pytest.approx(whole.cost(x), rel=WHOLE[dtype])
        np.testing.assert_allclose(
            own_gradient, whole.cost_and_gradient(x)[1], atol=WHOLE[dtype] * np.abs(gradient).max()
        )


def test_the_cost_keeps_its_digits_where_the_model_is_nearly_exact():
    """There the residual is streamed, within the basis, and what C has outside of it is counted beside."""
    rng = np.random.default_rng(0)
    A, B, C = (rng.random((n, RANK)) for n in SHAPE)
    E = orthonormal(SHAPE[2], 6)
    tensor = np.einsum("ir,jr,kr->ijk", A, B, E @ (E.T @ C))
    cpd = CoupledCPD([Term(tensor, basis=E)], RANK, "identity")
    for inside, outside in ((0.0, 1e-7), (1e-7, 0.0), (1e-7, 1e-7)):
        changed = E @ (E.T @ C) + inside * E[:, :RANK] + outside * (C - E @ (E.T @ C))
        x = np.vstack([A, B, changed])
        expected = 0.5 * np.sum((np.einsum("ir,jr,kr->ijk", A, B, changed) - tensor) ** 2)
        assert cpd.cost(x) == pytest.approx(expected, rel=1e-5)


def test_a_tensor_that_is_in_the_basis_already_is_the_same_term():
    hsi, msi, of_hsi, of_msi = images()
    E = orthonormal(SHAPE[2], 5)
    one = objective(Term(hsi @ E @ E.T, of_hsi, basis=E), msi, of_msi)
    other = objective(Term(hsi @ E, of_hsi, basis=E, in_basis=True), msi, of_msi)
    x = np.random.default_rng(2).uniform(0.2, 1.2, one.shape)
    assert other.terms[0].scene_shape == SHAPE
    assert one.cost(x) == pytest.approx(other.cost(x), rel=1e-12)
    np.testing.assert_allclose(one.cost_and_gradient(x)[1], other.cost_and_gradient(x)[1], rtol=1e-9, atol=1e-12)


def test_a_fit_in_the_basis_of_its_spectra_finds_whole_and_positive_spectra():
    rng = np.random.default_rng(0)
    A, B, C = (rng.random((n, RANK)) for n in SHAPE)
    tensor = np.einsum("ir,jr,kr->ijk", A, B, C)
    cpd = CoupledCPD([Term(tensor, basis=np.linalg.qr(C)[0])], RANK)
    found = cpd.factors(minimize(cpd, rng.random(cpd.shape), Options(ftol=1e-9)).x)
    assert found.C.shape == (SHAPE[2], RANK)
    assert found.C.min() >= 0.0
    np.testing.assert_allclose(found.render(), tensor, atol=2e-3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"basis": np.eye(17)[:5]}, "basis: got shape (5, 17); an array (17, p) of orthonormal columns is needed"),
        ({"basis": np.ones((17, 2))}, "basis: got columns that are not orthonormal; an array (17, p)"),
        ({"basis": "spectra"}, "basis: got str; an array (17, p)"),
        ({"basis": np.eye(17)[:, :3], "valid": np.arange(17) > 2}, "basis: a tensor with gaps has no whole spectra"),
        ({"basis": np.eye(20)[:, :3], "in_basis": True}, "basis: 3 spectra, but the tensor has 17 in it"),
    ],
)
def test_a_basis_that_does_not_fit_is_refused(options, sentence):
    with pytest.raises(ValueError) as refused:
        Term(images()[0], **options)
    assert str(refused.value).startswith(sentence)
