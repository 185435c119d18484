"""What the kernels do not know, they refuse in one sentence before Numba sees it."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from fastccpd import kernels

ABORTS = """
import numpy as np
from fastccpd import Degradation, kernels
factors = [np.ones((n, 2)) for n in (5, 4, 3)]
calls = [
    lambda: kernels.gram(factors[0] + 1j),
    lambda: kernels.jtj_apply(factors, [factor + 1j for factor in factors]),
    lambda: kernels.reconstruct(factors, dtype=int),
    lambda: kernels.reconstruct([factor + 1j for factor in factors]),
    lambda: kernels.operator_apply(np.eye(5), factors[0] + 1j),
]
from scipy import sparse
def lying(spoil):
    matrix = sparse.csr_array(np.kron(np.eye(40), np.ones((1, 2))))
    spoil(matrix)
    return matrix
def far(matrix): matrix.indices[-1] = 10**6
def bad(matrix): matrix.indptr[1] = 10**6
def column(matrix): matrix.indices[:] = matrix.indices[::-1] * 1000
for spoil in (far, bad, column):
    calls.append(lambda spoil=spoil: Degradation(lying(spoil), np.eye(4), np.eye(3)))
    calls.append(lambda spoil=spoil: kernels.operator_apply(lying(spoil), np.ones((80, 2))))
for call in calls:
    try:
        call()
    except (TypeError, ValueError) as refusal:
        assert "; " in str(refusal), refusal
    else:
        raise AssertionError("not refused")
print("alive")
"""


@pytest.fixture(scope="module", autouse=True)
def survived():
    """What once aborted the process is first tried in another one; if that dies, nothing here is tried in this one."""
    done = subprocess.run([sys.executable, "-c", ABORTS], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "alive", done.stderr


TENSOR = np.ones((5, 4, 3))
FACTORS = [np.ones((n, 2)) for n in TENSOR.shape]
COMPLEX = [factor + 1j for factor in FACTORS]
BLOCKS = np.stack([np.eye(2)] * 3)


def read_only(shape):
    array = np.zeros(shape)
    array.flags.writeable = False
    return array


def with_first(factor):
    return [factor, *FACTORS[1:]]


# (name of the kernel, arguments, options, error, the beginning of its sentence)
CASES = [
    ("gram", [COMPLEX[0]], {}, TypeError, "factor: got dtype complex128; real numbers of at most 64 bits"),
    (
        "gram",
        [FACTORS[0].astype(np.longdouble)],
        {},
        TypeError,
        "factor: got dtype float128|factor: got dtype longdouble",
    ),
    ("gram", [np.ones(5)], {}, ValueError, r"factor: got shape \(5,\); \(n, R\), each at least 1, is needed"),
    ("gram", [np.ones((5, 0))], {}, ValueError, r"factor: got shape \(5, 0\)"),
    ("gram", [[[1.0], [1.0, 2.0]]], {}, TypeError, r"factor: its rows differ in length; \(n, R\) is needed"),
    ("gram", [np.array([["a"]])], {}, TypeError, "factor: got dtype <U1"),
    ("gram", [np.ma.ones((5, 2))], {}, TypeError, "factor: got a masked array"),
    ("gram", [FACTORS[0]], {"out": read_only((2, 2))}, ValueError, "out: is read-only; an array that can be written"),
    ("gram", [FACTORS[0]], {"out": np.ones((3, 2))}, ValueError, r"out: got shape \(3, 2\); \(2, 2\) is needed"),
    ("gram", [FACTORS[0]], {"out": np.ones((2, 2), int)}, TypeError, "out: got int64; a float32 or float64 array"),
    ("gram", [FACTORS[0]], {"out": [[1.0]]}, TypeError, "out: got list; a float32 or float64 array is needed"),
    ("hadamard_gram", [COMPLEX], {}, TypeError, r"factors\[0\]: got dtype complex128"),
    ("hadamard_gram", [3], {}, TypeError, "factors: got int; three matrices are needed"),
    ("hadamard_gram", [FACTORS[:2]], {}, ValueError, "factors: got 2 of them; three matrices are needed"),
    ("hadamard_gram", [FACTORS], {"out": read_only((3, 2, 2))}, ValueError, "out: is read-only"),
    ("jtj_apply", [FACTORS, COMPLEX], {}, TypeError, r"tangents\[0\]: got dtype complex128"),
    ("jtj_apply", [COMPLEX, FACTORS], {}, TypeError, r"factors\[0\]: got dtype complex128"),
    ("jtj_apply", [FACTORS, FACTORS], {"out": np.ones(3)}, TypeError, "out: got ndarray; three arrays are needed"),
    (
        "jtj_apply",
        [FACTORS, FACTORS],
        {"out": [None, read_only((4, 2)), None]},
        ValueError,
        r"out\[1\]: is read-only",
    ),
    ("mttkrp", [TENSOR, COMPLEX, 0], {}, TypeError, r"factors\[0\]: got dtype complex128"),
    ("mttkrp", [TENSOR, FACTORS, 1.0], {}, ValueError, "mode: got 1.0; 0, 1 or 2 is needed"),
    ("mttkrp", [TENSOR, FACTORS, 0], {"out": read_only((5, 2))}, ValueError, "out: is read-only"),
    ("mttkrp_all", [TENSOR + 1j, FACTORS], {}, TypeError, "tensor: got complex128; a float32 or float64 array"),
    ("mttkrp_all", [TENSOR.astype(np.longdouble), FACTORS], {}, TypeError, "tensor: got (float128|longdouble)"),
    ("mttkrp_all", [TENSOR[:0], with_first(FACTORS[0][:0])], {}, ValueError, r"tensor: got shape \(0, 4, 3\)"),
    ("mttkrp_all", [TENSOR, [np.ones((n, 0)) for n in (5, 4, 3)]], {}, ValueError, r"factors\[0\]: got shape \(5, 0\)"),
    ("residual_norm2", [TENSOR, COMPLEX], {}, TypeError, r"factors\[0\]: got dtype complex128"),
    ("reconstruct", [FACTORS], {"dtype": int}, TypeError, "dtype: got <class 'int'>; float32 or float64 is needed"),
    ("reconstruct", [FACTORS], {"dtype": "nonsense"}, TypeError, "dtype: got 'nonsense'; float32 or float64"),
    ("reconstruct", [FACTORS], {"dtype": complex}, TypeError, "dtype: got <class 'complex'>"),
    ("reconstruct", [COMPLEX], {}, TypeError, r"factors\[0\]: got dtype complex128"),
    ("reconstruct", [FACTORS], {"out": read_only((5, 4, 3))}, ValueError, "out: is read-only"),
    ("reconstruct", [FACTORS], {"rows": [[0, 1]]}, ValueError, "rows: got indices of 2 axes"),
    ("operator_apply", [np.eye(5), COMPLEX[0]], {}, TypeError, "X: got dtype complex128"),
    ("operator_apply", [np.eye(5) * 1j, FACTORS[0]], {}, TypeError, "matrix: got dtype complex128"),
    ("operator_apply", [sparse.eye_array(5) * 1j, FACTORS[0]], {}, TypeError, "matrix: got dtype complex128"),
    ("operator_apply", [np.eye(5), np.ones(5)], {}, ValueError, r"X: got shape \(5,\)"),
    ("operator_apply", [np.ones(5), FACTORS[0]], {}, ValueError, r"matrix: got shape \(5,\)"),
    ("operator_apply", [np.eye(5), FACTORS[0]], {"out": read_only((5, 2))}, ValueError, "out: is read-only"),
    ("block_cholesky", [BLOCKS + 1j], {}, TypeError, "blocks: got dtype complex128"),
    ("block_cholesky", [BLOCKS[:, :1]], {}, ValueError, r"blocks: got shape \(3, 1, 2\); \(n, R, R\) is needed"),
    ("block_cholesky", [BLOCKS[:0]], {}, ValueError, r"blocks: got shape \(0, 2, 2\)"),
    ("block_solve", [BLOCKS, np.ones((3, 2))], {}, TypeError, "factored: got ndarray; what block_cholesky returns"),
]


@pytest.mark.parametrize(("name", "arguments", "options", "error", "words"), CASES)
def test_the_kernel_refuses_what_it_does_not_know(name, arguments, options, error, words):
    with pytest.raises(error, match=f"^({words})"):
        getattr(kernels, name)(*arguments, **options)


def test_block_solve_wants_a_row_for_each_block():
    factored = kernels.block_cholesky(BLOCKS[:1])
    with pytest.raises(ValueError, match=r"^rhs: got shape \(2, 2\); a row for each of the 1 blocks and 2 columns"):
        kernels.block_solve(factored, np.ones((2, 2)))
    with pytest.raises(TypeError, match="^rhs: got dtype complex128"):
        kernels.block_solve(factored, np.ones((1, 2)) + 1j)
    with pytest.raises(ValueError, match="^out: is read-only"):
        kernels.block_solve(factored, np.ones((1, 2)), out=read_only((1, 2)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, bool, np.float16, ">f4", ">f8"])
def test_other_real_numbers_are_welcome_as_factors(dtype):
    rng = np.random.default_rng(0)
    factors = [rng.integers(0, 2, (n, 3)).astype(dtype) for n in TENSOR.shape]
    exact = [factor.astype(float) for factor in factors]
    np.testing.assert_allclose(kernels.gram(factors[0]), exact[0].T @ exact[0])
    np.testing.assert_allclose(kernels.reconstruct(factors), np.einsum("ir,jr,kr->ijk", *exact))
    np.testing.assert_allclose(kernels.mttkrp(TENSOR, factors, 0), np.einsum("ijk,jr,kr->ir", TENSOR, *exact[1:]))


def test_an_out_of_the_other_dtype_or_order_is_filled_all_the_same():
    out = np.zeros((2, 2), np.float32, order="F")
    assert kernels.gram(FACTORS[0], out=out) is out
    assert (out == 5.0).all()


def broken(kind):
    """A sparse matrix whose index arrays lie, in a format that compiled code follows."""
    matrix = sparse.csr_array(np.kron(np.eye(2), np.ones((1, 2))))
    if kind == "index out of range":
        matrix.indices[-1] = 10**6
    elif kind == "negative index":
        matrix.indices[0] = -(10**6)
    elif kind == "bad indptr":
        matrix.indptr[1] = 10**6
    elif kind == "long indptr":
        matrix.indptr[-1] = 10**6
    elif kind == "columns":
        matrix = matrix.tocsc()
        matrix.indices[-1] = 10**6
    elif kind == "coordinates":
        matrix = matrix.tocoo()
        matrix.row[-1] = 10**6
    return matrix


BROKEN = ["index out of range", "negative index", "bad indptr", "long indptr", "columns", "coordinates"]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_sparse_matrix_that_lies_is_refused(kind):
    with pytest.raises(
        ValueError, match="^matrix: its indices do not fit together .*; a valid sparse matrix is needed"
    ):
        kernels.operator_apply(broken(kind), np.ones((4, 2)))


def test_checking_a_sparse_matrix_leaves_it_alone():
    matrix = sparse.csr_array(np.eye(4))
    matrix.data, matrix.indices = np.r_[matrix.data, 9.0], np.r_[matrix.indices, np.int32(0)]  # room to spare
    np.testing.assert_array_equal(kernels.operator_apply(matrix, np.ones((4, 2))), np.ones((4, 2)))
    assert len(matrix.data) == 5
