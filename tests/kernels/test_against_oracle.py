"""Every public kernel against its definition, both dtypes, sizes around every tile edge."""

import tracemalloc

import numba
import numpy as np
import oracle
import pytest
from fastccpd.kernels import abundances, divergence, maps, slices, vectors
from scipy import sparse

from fastccpd import kernels
from fastccpd.estimation.map_data import compressed_rows

SIZES = [1, 2, 3, 5, 7, 16, 17, 31]
LIMIT = 30.0


def shapes(count, seed):
    """Edge cases, then a fixed sample of (I, J, K, R)."""
    rng = np.random.default_rng(seed)
    edges = [(1, 1, 1, 1), (31, 1, 1, 1), (1, 31, 1, 17), (1, 1, 31, 31), (17, 16, 7, 1), (2, 3, 5, 31)]
    return edges + [tuple(int(n) for n in rng.choice(SIZES, 4)) for _ in range(count)]


def case(shape, dtype, seed=0):
    I, J, K, R = shape
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((I, J, K)).astype(dtype)
    return Y, [rng.standard_normal((n, R)).astype(dtype) for n in (I, J, K)]


def exact(*arrays):
    return [np.asarray(a, dtype=np.float64) for a in arrays]


DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@DTYPES
@pytest.mark.parametrize("shape", shapes(40, seed=1))
def test_mttkrp_matches_the_khatri_rao_product_in_every_mode(shape, dtype):
    Y, factors = case(shape, dtype)
    results = kernels.mttkrp_all(Y, factors)
    for mode, result in enumerate(results):
        reference = oracle.mttkrp(*exact(Y), exact(*factors), mode)
        terms = Y.size // Y.shape[mode]
        assert result.dtype == dtype
        assert oracle.ratio(result, reference, terms) < LIMIT
        alone = kernels.mttkrp(Y, factors, mode)
        assert alone.tobytes() == result.tobytes()


@pytest.mark.parametrize("shape", [(150, 140, 6, 30), (40, 130, 40, 33)])
@DTYPES
def test_mttkrp_matches_on_tensors_large_enough_to_be_shared_among_threads(shape, dtype):
    Y, factors = case(shape, dtype)
    for result, equation in zip(
        kernels.mttkrp_all(Y, factors), ("ijk,jr,kr->ir", "ijk,ir,kr->jr", "ijk,ir,jr->kr"), strict=True
    ):
        others = [f for n, f in zip("ijk", exact(*factors)) if n != equation[-2]]
        reference = np.einsum(equation, *exact(Y), *others, optimize=True)
        assert oracle.ratio(result, reference, 1000) < LIMIT


@DTYPES
@pytest.mark.parametrize("shape", shapes(25, seed=2))
def test_gramians_match_matrix_products(shape, dtype):
    _, factors = case(shape, dtype)
    S = [f.T @ f for f in exact(*factors)]
    for factor, reference in zip(factors, S):
        assert oracle.ratio(kernels.gram(factor), reference, len(factor)) < LIMIT
    Q = kernels.hadamard_gram(factors)
    for mode, reference in enumerate((S[1] * S[2], S[0] * S[2], S[0] * S[1])):
        W = oracle.khatri_rao(*[f for n, f in enumerate(exact(*factors)) if n != mode])
        np.testing.assert_allclose(W.T @ W, reference, rtol=1e-9, atol=1e-9 * np.abs(reference).max())
        assert oracle.ratio(Q[mode], reference, sum(shape)) < LIMIT


@DTYPES
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 4, 1), (5, 3, 2, 7), (7, 5, 3, 3), (3, 7, 5, 16), (4, 5, 6, 9)])
def test_jtj_apply_matches_the_dense_jacobian(shape, dtype):
    _, factors = case(shape, dtype)
    _, tangents = case(shape, dtype, seed=1)
    J = oracle.cp_jacobian(exact(*factors))
    t = np.concatenate([t.ravel() for t in exact(*tangents)])
    reference = J.T @ (J @ t)
    result = np.concatenate([part.ravel() for part in kernels.jtj_apply(factors, tangents)])
    assert oracle.ratio(result, reference, J.shape[0]) < LIMIT


@DTYPES
@pytest.mark.parametrize("shape", shapes(25, seed=3))
def test_reconstruct_and_residual_match_the_sum_of_outer_products(shape, dtype):
    Y, factors = case(shape, dtype)
    reference = oracle.cp_tensor(*exact(*factors))
    assert oracle.ratio(kernels.reconstruct(factors), reference, shape[3]) < LIMIT
    residual = np.sum((Y.astype(np.float64) - reference) ** 2)
    result = np.array(kernels.residual_norm2(Y, factors))
    eps = np.finfo(dtype).eps
    assert abs(result - residual) <= LIMIT * eps * shape[3] * np.sum((np.abs(Y) + np.abs(reference)) ** 2)


def test_reconstruct_renders_any_block():
    _, factors = case((17, 7, 31, 5), np.float64)
    whole = kernels.reconstruct(factors)
    block = kernels.reconstruct(factors, rows=slice(3, 9), cols=[0, 6], bands=np.array([30, 2, 2]))
    np.testing.assert_allclose(block, whole[3:9][:, [0, 6]][:, :, [30, 2, 2]], rtol=1e-14)
    one = kernels.reconstruct(factors, rows=slice(4, 5))
    assert one.shape == (1, 7, 31)


@DTYPES
@pytest.mark.parametrize("R", [1, 7, 16, 31])
@pytest.mark.parametrize("kind", ["banded", "dense", "scattered", "empty rows", "one by one"])
def test_operators_match_dense_products_both_ways(kind, R, dtype):
    rng = np.random.default_rng(5)
    P = {
        "banded": np.kron(np.eye(9), np.ones((1, 4))) + np.eye(9, 36, 3),
        "dense": rng.standard_normal((11, 37)),
        "scattered": sparse.random_array((23, 61), density=0.05, rng=rng).toarray(),
        "empty rows": np.diag([1.0, 0.0, 2.0, 0.0, 3.0]),
        "one by one": np.array([[2.0]]),
    }[kind]
    for matrix in (P, sparse.csr_array(P)):
        X = rng.standard_normal((P.shape[1], R)).astype(dtype)
        Z = rng.standard_normal((P.shape[0], R)).astype(dtype)
        assert oracle.ratio(kernels.operator_apply(matrix, X), P @ exact(X)[0], P.shape[1]) < LIMIT
        assert oracle.ratio(kernels.operator_apply(matrix, Z, transpose=True), P.T @ exact(Z)[0], P.shape[0]) < LIMIT


@pytest.mark.parametrize("R", [1, 2, 3, 4, 5, 7, 8, 17, 30])
@pytest.mark.parametrize("n", [1, 7, 8, 19])
def test_block_cholesky_solves_every_block(n, R):
    rng = np.random.default_rng(R)
    A = rng.standard_normal((n, R, R))
    blocks = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(R)
    b = rng.standard_normal((n, R))
    x = kernels.block_solve(kernels.block_cholesky(blocks), b)
    residual = np.einsum("nrs,ns->nr", blocks, x) - b
    scale = np.linalg.norm(blocks, axis=(1, 2)) * np.linalg.norm(x, axis=1) + np.linalg.norm(b, axis=1)
    assert np.max(np.linalg.norm(residual, axis=1) / scale) < LIMIT * R * np.finfo(float).eps


def test_block_solve_leaves_unseen_coordinates_at_zero():
    blocks = np.zeros((2, 3, 3))
    blocks[0] = np.diag([4.0, 0.0, 1.0])
    x = kernels.block_solve(kernels.block_cholesky(blocks), np.ones((2, 3)))
    np.testing.assert_array_equal(x, [[0.25, 0.0, 1.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("shape", [(1,), (7,), (8, 1), (31,), (33,), (5, 13), (vectors.PIECE,), (2, vectors.PIECE + 9)])
def test_vector_steps_match_their_definitions(shape):
    rng = np.random.default_rng(0)
    d, Hd, p, r, y = rng.standard_normal((5, *shape))
    moved = oracle.conjugate_step(0.3, d, Hd, p, r)
    vectors.advance(0.3, d, Hd, p, r)
    for result, reference in zip((p, r), moved):
        assert oracle.ratio(result, reference, 1) < LIMIT
    size = np.abs(r * y).sum()
    reference, turned = oracle.conjugate_turn(r, y, 1.7 * size, d)
    assert vectors.dot(r, y) == vectors.turn(r, y, 1.7 * size, d)
    assert abs(vectors.dot(r, y) - reference) < LIMIT * np.finfo(float).eps * size
    assert oracle.ratio(d, turned, 1) < LIMIT


def test_vectors_of_any_layout_give_the_same_dot_product():
    a, b = np.random.default_rng(0).standard_normal((2, 40, 30))
    assert vectors.dot(np.asfortranarray(a), b[::-1].copy()[::-1]) == vectors.dot(a, b)
    single = a.astype(np.float32)
    assert vectors.dot(single, b) == vectors.dot(single.astype(np.float64), b)


MAP_SIZES = [1, 2, 3, 5, 7, 16, 17]


def map_shapes(count, seed):
    """(I, J, P): single pixels, rows and columns, then a fixed sample; the dense matrices stay below 1500 rows."""
    rng = np.random.default_rng(seed)
    sample = [tuple(int(n) for n in rng.choice(MAP_SIZES, 3)) for _ in range(count)]
    edges = [(1, 1, 1), (1, 1, 17), (17, 1, 2), (1, 16, 3), (2, 17, 1), (16, 2, 7), (17, 16, 5)]
    return edges + [shape for shape in sample if np.prod(shape) <= 1500]


@pytest.mark.parametrize("shape", map_shapes(25, seed=6))
@pytest.mark.parametrize("axis", [0, 1])
def test_sparse_products_match_dense_ones_along_either_axis(shape, axis):
    rng = np.random.default_rng(2)
    X, rows = rng.standard_normal(shape), int(rng.choice(MAP_SIZES))
    # Entries at random: some rows have none, and theirs is a product of zeros.
    P = rng.standard_normal((rows, shape[axis])) * (rng.random((rows, shape[axis])) < 0.4)
    result = maps.along(compressed_rows(sparse.csr_array(P)), X, axis)
    reference = np.moveaxis(np.tensordot(P, X, axes=(1, axis)), 0, axis)
    assert result.shape == reference.shape
    assert oracle.ratio(result, reference, shape[axis]) < LIMIT
    assert (result[reference == 0.0] == 0.0).all()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK), reason="large: for compiled kernels")
def test_mttkrp_needs_little_memory_where_a_khatri_rao_matrix_takes_gigabytes():
    tensor = np.ones((2000, 2000, 6))
    factors = [np.ones((n, 100)) for n in tensor.shape]
    kernels.mttkrp_all(tensor[:600].copy(), [factors[0][:600], *factors[1:]])  # what compiling takes is not counted
    tracemalloc.start()
    try:
        M0, _, M2 = kernels.mttkrp_all(tensor, factors)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 50e6
    assert (M0 == 12_000).all()
    assert (M2 == 4_000_000).all()


SLICES = [((1,), 1), ((1, 2, 1), 3), ((3, 5), 3), ((2, 4, 7), 5), ((6, 1), 17), ((16, 3), 2)]


@pytest.mark.parametrize(("sizes", "p"), SLICES)
@pytest.mark.parametrize("threshold", [0.0, 3.0, 1e6])
@pytest.mark.parametrize("frequencies", [1, 9])
def test_slices_have_the_lower_singular_values_of_their_decomposition(sizes, p, threshold, frequencies):
    rng, n, F = np.random.default_rng(0), sum(sizes), slices.whole_lanes(frequencies)
    T = rng.standard_normal((n, p, frequencies)) + 1j * rng.standard_normal((n, p, frequencies))
    X, out = np.zeros((n, p, 2 * F)), np.empty((n, p, 2 * F))
    X[:, :, :frequencies], X[:, :, F : F + frequencies] = T.real, T.imag
    slices.shrink(X, np.append(0, np.cumsum(sizes)), threshold, out)
    result = out[:, :, :frequencies] + 1j * out[:, :, F : F + frequencies]
    reference = oracle.shrunk_slices(T, sizes, threshold)
    assert np.abs(result - reference).max() < LIMIT * np.finfo(np.float64).eps * np.linalg.norm(T)
    assert not out[:, :, frequencies:F].any()


def test_slices_of_deficient_rank_of_equal_values_and_of_nothing_are_kept_without_a_threshold():
    rng = np.random.default_rng(0)
    same = np.repeat(rng.standard_normal((1, 5, 16)), 4, axis=0)
    unit = np.repeat(np.eye(4, 5)[:, :, None], 16, axis=2)
    for X in (same, unit, 1e-80 * unit, 1e-8 * same, 1e60 * same, np.zeros((4, 5, 16))):
        out = np.empty_like(X)
        slices.shrink(X, np.array([0, 4]), 0.0, out)
        np.testing.assert_allclose(out, X, rtol=0, atol=1e-7 * np.abs(X).max())


@pytest.mark.parametrize(("bands", "spectra", "pixels"), [(1, 1, 1), (3, 4, 64), (7, 30, 131), (12, 5, 200)])
def test_abundances_are_multiplied_as_they_are_defined(bands, spectra, pixels):
    rng = np.random.default_rng(0)
    N, R = abundances.whole_lanes(pixels), -(-spectra // abundances.SPECTRA) * abundances.SPECTRA
    X, W, A = np.zeros((bands, N)), np.zeros((R, bands)), np.zeros((R, N))
    X[:, :pixels], W[:spectra], A[:spectra, :pixels] = (
        rng.random(shape) for shape in ((bands, pixels), (spectra, bands), (spectra, pixels))
    )
    A[0, ::3] = X[:, ::5] = 0.0
    Y, new, costs = W.T @ A, np.full_like(A, np.nan), np.zeros(-(-N // abundances.BLOCK))
    for block in range(len(costs)):
        abundances.multiply_all(X, W, A, range(block, block + 1), Y, new, costs)
    expected, cost = oracle.multiplied_abundances(X, W, A)
    assert oracle.ratio(new, expected, 3 * bands * spectra) < LIMIT
    assert oracle.ratio(Y, W.T @ expected, 3 * bands * spectra) < LIMIT
    assert costs.sum() == pytest.approx(cost, rel=1e-12)
    assert not new[:, pixels:].any()
    assert not new[spectra:].any()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("bands", "spectra", "pixels"), [(1, 1, 1), (2, 4, 64), (37, 7, 131), (12, 2, 65)])
def test_weights_of_the_divergence_are_contracted_as_they_are_defined(bands, spectra, pixels, masked):
    rng = np.random.default_rng(0)
    K, R, N = (
        divergence.filled_up(count, unit)
        for count, unit in zip((bands, spectra, pixels), (divergence.BANDS, divergence.SPECTRA, divergence.PIXELS))
    )
    Y, valid, C, S = (np.zeros(shape) for shape in ((K, N), (K, N), (K, R), (R, N)))
    valid[:bands, :pixels] = rng.random((bands, pixels)) > 0.3 * masked
    Y[:bands, :pixels] = rng.random((bands, pixels))
    C[:bands, :spectra] = rng.random((bands, spectra)) * 10.0 ** rng.integers(-9, 9, (bands, 1))
    S[:spectra, :pixels] = rng.random((spectra, pixels))
    Y *= valid
    mask = valid if masked else None
    to_pixels, to_bands = np.full((2, R, N), np.nan), np.full((2, K, R), np.nan)
    cost = divergence.by_pixel(Y, mask, C, S, to_pixels)
    divergence.by_band(Y, mask, C, S, to_bands)
    inner = Y[:bands, :pixels], valid[:bands, :pixels], C[:bands, :spectra], S[:spectra, :pixels]
    of_pixels, of_bands, total = oracle.pulls_of_divergence(*inner)
    for found, expected, terms in (
        (to_pixels[:, :spectra, :pixels], of_pixels, bands * spectra),
        (to_bands[:, :bands, :spectra], of_bands, pixels * spectra),
    ):
        for weights, reference in zip(found, expected):
            assert oracle.ratio(weights, reference, terms) < LIMIT
    assert cost == pytest.approx(total, rel=1e-12)
    assert not to_pixels[:, spectra:].any()
    assert not to_bands[:, :, spectra:].any()


@pytest.mark.parametrize(("rows", "rank", "columns"), [(2, 2, 16), (13, 3, 37)])
def test_factors_are_updated_as_they_are_defined_until_the_misfit_settles(rows, rank, columns):
    rng = np.random.default_rng(0)
    K, R, N = (divergence.filled_up(count, unit) for count, unit in ((rows, 2), (rank, 2), (columns, 16)))
    Y, C, S = (np.zeros(shape) for shape in ((K, N), (K, R), (R, N)))
    Y[:rows, :columns], C[:rows, :rank], S[:rank, :columns] = (
        rng.random(shape) for shape in ((rows, columns), (rows, rank), (rank, columns))
    )
    first, second, expected = oracle.updated_factors(Y[:rows, :columns], C[:rows, :rank], S[:rank, :columns], 9)
    misfits, before = np.full(10, np.inf), (C.copy(), S.copy())
    divergence.in_turn(Y, C, S, 1e-16, 0.0, misfits)
    np.testing.assert_allclose(misfits[1:], expected, rtol=1e-12)
    np.testing.assert_allclose(C[:rows, :rank], first, rtol=1e-12)
    np.testing.assert_allclose(S[:rank, :columns], second, rtol=1e-12)
    assert not C[rows:].any()
    assert not S[:, columns:].any()
    # The first step that gains less than this part is the last, and what is said of those after it is its own.
    gains = 1.0 - np.divide(expected[1:], expected[:-1])
    part = 1.000001 * np.median(gains)
    last = 1 + int(np.argmax(gains < part))
    (C, S), misfits = before, np.full(10, np.inf)
    divergence.in_turn(Y, C, S, 1e-16, part, misfits)
    np.testing.assert_allclose(misfits[1:], [*expected[:last], *[expected[last]] * (9 - last)], rtol=1e-12)
