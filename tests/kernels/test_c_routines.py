"""Routines by their address and from compiled code: the bytes of the Python ones, from C, C++, Cython, in `prange`."""

import ctypes
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numba
import numpy as np
import pytest
from fastccpd.kernels import c_routines, compiled
from numba import njit, prange
from numba.core.errors import TypingError

from fastccpd import kernels

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="there is no machine code")

rng = np.random.default_rng(0)
SHAPE, RANK = (13, 11, 7), 5
HEADER = Path(kernels.include()) / "fastccpd.h"


def arrays(dtype):
    """A tensor, factors, tangents, an operator, blocks and right-hand sides."""
    Y = rng.random(SHAPE).astype(dtype)
    factors, tangents = ([rng.standard_normal((n, RANK)).astype(dtype) for n in SHAPE] for _ in range(2))
    P, X = rng.standard_normal((19, 13)).astype(dtype), rng.standard_normal((13, RANK)).astype(dtype)
    half = rng.standard_normal((21, RANK, RANK)).astype(dtype)
    return Y, factors, tangents, P, X, half @ half.transpose(0, 2, 1) + np.eye(RANK, dtype=dtype), half[:, 0].copy()


def by_python(name, Y, factors, tangents, P, X, blocks, rhs):
    """(sizes, inputs, results of `fastccpd.kernels`) of a routine."""
    sizes = (*SHAPE, RANK)
    return {
        "mttkrp": lambda: ((*sizes, 7), [Y, *factors], kernels.mttkrp_all(Y, factors)),
        "gram": lambda: ((SHAPE[0], RANK), [factors[0]], [kernels.gram(factors[0])]),
        "hadamard_gram": lambda: (sizes, factors, [kernels.hadamard_gram(factors)]),
        "jtj_apply": lambda: (sizes, [*factors, *tangents], kernels.jtj_apply(factors, tangents)),
        "reconstruct": lambda: (sizes, factors, [kernels.reconstruct(factors)]),
        "residual_norm2": lambda: (sizes, [Y, *factors], [np.array([kernels.residual_norm2(Y, factors)])]),
        "operator_apply": lambda: ((19, 13, RANK), [P, X], [kernels.operator_apply(P, X)]),
        "block_solve": lambda: ((21, RANK), [blocks, rhs], [kernels.block_solve(kernels.block_cholesky(blocks), rhs)]),
    }[name]()


def call(name, dtype, sizes, data):
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * len(sizes), *[ctypes.c_void_p] * len(data))
    return kind(kernels.address(name, dtype))(*sizes, *(array.ctypes.data for array in data))


CASES = [(name, np.float64) for name in c_routines.ROUTINES] + [(name, np.float32) for name in ("gram", "reconstruct")]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_routine_at_its_address_gives_the_bytes_of_the_python_one(name, dtype):
    sizes, inputs, expected = by_python(name, *arrays(dtype))
    before = [array.copy() for array in inputs]
    outputs = [np.full_like(result, np.nan) for result in expected]
    assert call(name, dtype, sizes, [*inputs, *outputs]) == 0
    for got, wanted in zip(outputs, expected, strict=True):
        if name == "residual_norm2":
            np.testing.assert_allclose(got, wanted, rtol=1e-14)
        else:
            np.testing.assert_array_equal(got, wanted)
    assert all(map(np.array_equal, inputs, before))


@pytest.mark.parametrize("name", c_routines.ROUTINES)
def test_a_size_below_one_is_refused_and_nothing_is_written(name):
    sizes, inputs, expected = by_python(name, *arrays(np.float64))
    outputs = [np.full_like(result, 7.0) for result in expected]
    for n in range(len(sizes)):
        wrong = tuple(0 if m == n else size for m, size in enumerate(sizes))
        assert call(name, np.float64, wrong, [*inputs, *outputs]) == 1
    assert all((output == 7.0).all() for output in outputs)


def test_modes_that_are_not_asked_for_need_no_place():
    sizes, inputs, (_, wanted, _) = by_python("mttkrp", *arrays(np.float64))
    out = np.empty_like(wanted)
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5, *[ctypes.c_void_p] * 7)
    data = [array.ctypes.data for array in inputs]
    assert kind(kernels.address("mttkrp"))(*sizes[:4], 2, *data, None, out.ctypes.data, None) == 0
    np.testing.assert_array_equal(out, wanted)


def test_an_address_is_asked_for_in_one_way():
    assert kernels.address("gram") == kernels.address("gram", "float64")
    with pytest.raises(ValueError, match="name: got 'gramm'; one of mttkrp, gram, "):
        kernels.address("gramm")
    for name, dtype, needed in (("gram", int, "float32 or float64"), ("block_solve", np.float32, "float64")):
        with pytest.raises(TypeError, match=f"dtype: got .*; {needed} is needed"):
            kernels.address(name, dtype)


def test_the_header_declares_what_there_is():
    text = HEADER.read_text(encoding="utf-8").replace("\\\n", " ")
    declared = {}
    for name, ending, arguments in re.findall(r"fastccpd_(\w+?)_(##E##|f64)_t\)\(([^)]*)\)", text):
        declared[name] = [argument.split()[-1].lstrip("*") for argument in arguments.split(",")]
        assert ending == ("f64" if name in c_routines.IN_DOUBLE_ALONE else "##E##")
    wanted = {name: " ".join(words).replace("*", "").split() for name, (_, *words) in c_routines.ROUTINES.items()}
    assert declared == wanted


# From C, C++ and Cython

C_SOURCE = """
#include "fastccpd.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C"
#endif
double worst_difference(void *address, int64_t I, int64_t J, int64_t K, int64_t R, const double *Y, const double *A,
                        const double *B, const double *C, double *M0, double *M1, double *M2)
{
  fastccpd_mttkrp_f64_t mttkrp = (fastccpd_mttkrp_f64_t)address;
  if (mttkrp(I, J, K, R, FASTCCPD_MODE_0 + FASTCCPD_MODE_1 + FASTCCPD_MODE_2, Y, A, B, C, M0, M1, M2) != FASTCCPD_OK)
    return -1.0;
  double worst = 0.0;
  for (int64_t j = 0; j < J; j++)
    for (int64_t r = 0; r < R; r++) {
      double sum = 0.0;
      for (int64_t i = 0; i < I; i++)
        for (int64_t k = 0; k < K; k++) sum += Y[(i * J + j) * K + k] * A[i * R + r] * C[k * R + r];
      double difference = sum - M1[j * R + r];
      worst = difference > worst ? difference : -difference > worst ? -difference : worst;
    }
  return worst;
}
"""


def check_worst_difference(function, address):
    Y, factors, *_ = arrays(np.float64)
    outputs = [np.empty_like(factor) for factor in factors]
    pointers = [array.ctypes.data for array in (Y, *factors, *outputs)]
    assert 0.0 <= function(address, *SHAPE, RANK, *pointers) < 1e-12
    for got, wanted in zip(outputs, kernels.mttkrp_all(Y, factors), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("compiler", "suffix", "standard"), [("cc", "c", "c99"), ("c++", "cpp", "c++11")])
def test_a_program_of_the_system_s_compiler_calls_them(compiler, suffix, standard, tmp_path):
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"no {compiler} is installed")
    source, library = tmp_path / f"example.{suffix}", tmp_path / "example.so"
    source.write_text(C_SOURCE, encoding="utf-8")
    flags = [f"-std={standard}", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{kernels.include()}"]
    subprocess.run([found, *flags, str(source), "-o", str(library)], check=True, timeout=120)
    function = ctypes.CDLL(str(library)).worst_difference
    function.restype, function.argtypes = (
        ctypes.c_double,
        [ctypes.c_void_p, *[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 7],
    )
    check_worst_difference(function, kernels.address("mttkrp"))


CYTHON_SOURCE = """
from libc.stdint cimport int32_t, int64_t, uintptr_t

cdef extern from "fastccpd.h":
    ctypedef int32_t (*fastccpd_gram_f64_t)(int64_t n, int64_t R, const double *U, double *S) noexcept nogil

def gram(uintptr_t address, double[:, ::1] U, double[:, ::1] S):
    cdef fastccpd_gram_f64_t routine = <fastccpd_gram_f64_t><void *>address
    cdef int32_t status
    with nogil:
        status = routine(U.shape[0], U.shape[1], &U[0, 0], &S[0, 0])
    return status
"""


def test_cython_calls_them(tmp_path):
    pytest.importorskip("Cython")
    compiler, folder = shutil.which("cc"), sysconfig.get_path("include")
    if compiler is None or not (Path(folder) / "Python.h").is_file():
        pytest.skip("no compiler for extensions of Python is installed")
    (tmp_path / "theirs.pyx").write_text(CYTHON_SOURCE, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "cython", "-3", "theirs.pyx"], check=True, cwd=tmp_path, timeout=120)
    flags = ["-O0", "-w", "-shared", "-fPIC", f"-I{folder}", f"-I{kernels.include()}"]
    subprocess.run([compiler, *flags, "theirs.c", "-o", "theirs.so"], check=True, cwd=tmp_path, timeout=240)
    script = (
        "import numpy as np, theirs; from fastccpd import kernels\n"
        "U = np.arange(21.0).reshape(7, 3); S = np.empty((3, 3))\n"
        "assert theirs.gram(kernels.address('gram'), U, S) == 0; assert (S == kernels.gram(U)).all()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=240)


# From somebody else's @njit


@njit
def everything(Y, A, B, C, TA, TB, TC, P, X, blocks, rhs, M0, M1, M2, S, Q, LA, LB, LC, model, product, x):
    compiled.mttkrp_all(Y, A, B, C, M0, M1, M2)
    compiled.gram(A, S)
    compiled.hadamard_gram(A, B, C, Q)
    compiled.jtj_apply(A, B, C, TA, TB, TC, LA, LB, LC)
    compiled.reconstruct(A, B, C, model)
    compiled.operator_apply(P, X, product)
    compiled.block_solve(blocks, rhs, x)
    return compiled.residual_norm2(Y, A, B, C)


@njit(parallel=True)
def many(tensors, A, B, C, mode, out):
    for n in prange(len(tensors)):
        compiled.mttkrp(tensors[n], A, B, C, mode, out[n])


def test_every_routine_can_be_called_from_compiled_code_with_its_own_bytes():
    Y, factors, tangents, P, X, blocks, rhs = given = arrays(np.float64)
    names = ("mttkrp", "gram", "hadamard_gram", "jtj_apply", "reconstruct", "operator_apply", "block_solve")
    wanted = [result for name in names for result in by_python(name, *given)[2]]
    inputs = [Y, *factors, *tangents, P, X, blocks, rhs]
    for array in inputs:
        array.flags.writeable = False
    for function in (everything, everything.py_func):
        outputs = [np.full_like(result, np.nan) for result in wanted]
        total = function(*inputs, *outputs)
        assert total == pytest.approx(kernels.residual_norm2(Y, factors), rel=1e-14)
        for got, result in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(got, result)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_inside_their_prange(mode):
    _, factors, *_ = arrays(np.float64)
    tensors, out = rng.random((40, *SHAPE)), np.full((40, SHAPE[mode], RANK), np.nan)
    many(tensors, *factors, mode, out)
    for tensor, got in zip(tensors, out, strict=True):
        np.testing.assert_array_equal(got, kernels.mttkrp(tensor, factors, mode))


@pytest.mark.parametrize(
    ("U", "S", "needed"),
    [
        (np.ones((4, 3)), np.ones((3, 3), np.float32), "one dtype"),
        (np.ones((3, 4)).T, np.ones((3, 3)), "C-ordered"),
        (np.ones((4, 3), int), np.ones((3, 3), int), "float32 and float64"),
        (np.ones((4, 3, 2)), np.ones((3, 3)), "2 dimensions"),
    ],
)
def test_types_that_do_not_fit_are_named_where_the_caller_is_compiled(U, S, needed):
    caller = njit(lambda U, S: compiled.gram(U, S))
    with pytest.raises(TypingError, match=needed):
        caller(U, S)


def test_an_output_must_be_writable():
    S = np.ones((3, 3))
    S.flags.writeable = False
    with pytest.raises(TypingError, match="can be written to"):
        njit(lambda U, S: compiled.gram(U, S))(np.ones((4, 3)), S)


def test_shapes_that_do_not_fit_are_an_error_before_any_work():
    caller, out = njit(lambda U, S: compiled.gram(U, S)), np.full((2, 2), 7.0)
    with pytest.raises(ValueError, match=re.escape("gram: shapes (n, R) and (R, R) are needed")):
        caller(np.ones((4, 3)), out)
    with pytest.raises(ValueError, match="an axis of length 0"):
        caller(np.ones((0, 2)), out)
    assert (out == 7.0).all()
    with pytest.raises(ValueError, match="names: got 'grams'"):
        compiled.prepare(["grams"])
