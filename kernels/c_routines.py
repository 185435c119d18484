"""The kernels as C functions: machine code at an address, for whatever language can call one.

`address(name, dtype)` compiles a routine on first use, keeps it in the kernel cache, and gives the address of its code;
`fastccpd.h`, in the folder `include()`, has the signatures. Matrices and tensors are C-ordered and dense, sizes are
64-bit integers, and sizes come first, then inputs, then outputs, as in

    int32_t fastccpd_gram_f64(int64_t n, int64_t R, const double *U, double *S);

What comes back is 0, or 1 if a size is less than one, and then nothing was written. Each routine is serial, may be
called from any number of threads at once, holds no lock, and gives the bytes of the routine of that name in
`fastccpd.kernels` (the sum of `residual_norm2` but for its last bit). It needs no GIL. Scratch of the size of the
factors comes from Numba's allocator, so the process must be one in which Python runs; the code stays valid until it
ends. Pointers are not checked.
"""

import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
from numba import types
from numba.np.numpy_support import carray
from numpy.typing import DTypeLike

from .block_cholesky import LANES, factor_blocks, solve_blocks, triangle
from .gram import gramians
from .jit import COMPILED, allocating, callback, device
from .jtj import nine_blocks
from .mttkrp import SLAB_FLOPS, blocks_for, mttkrp_add
from .reconstruct import ROWS_PER_SUM, render, residual_sums
from .scratch import ALIGNMENT
from .simd import ADD, STORE, VECTOR_BYTES, panel
from .team import alone

_blocks_for = device(blocks_for)
_mttkrp_add, _render, _residual_sums = mttkrp_add.body, render.body, residual_sums.body
_factor_blocks, _solve_blocks, _triangle = factor_blocks.body, solve_blocks.body, device(triangle)

_OPERATOR_ROWS = 16


@allocating
def _scratch(rows, width, like):
    """An uninitialised aligned (rows, width) array of the dtype of `like`."""
    buffer = np.empty(rows * width + ALIGNMENT // like.itemsize, like.dtype)
    start = (-buffer.ctypes.data % ALIGNMENT) // like.itemsize
    return buffer[start : start + rows * width].reshape(rows, width)


@device
def _whole_vectors(columns, like):
    lanes = VECTOR_BYTES // like.itemsize
    return -(-columns // lanes) * lanes


@allocating
def _zeros(rows, columns, like):
    room = _scratch(rows, columns, like)
    room[:] = 0
    return room


@allocating
def _stacked(A, B, C):
    """The three factors one above the other, their columns filled up with zeros."""
    I, J, K = A.shape[0], B.shape[0], C.shape[0]
    U = _zeros(I + J + K, _whole_vectors(A.shape[1], A), A)
    U[:I, : A.shape[1]] = A
    U[I : I + J, : A.shape[1]] = B
    U[I + J :, : A.shape[1]] = C
    return U


@allocating
def _turned(C):
    """C' with its bands, and its rows up to the padded rank, filled up with zeros."""
    K, R = C.shape
    Ct = _zeros(_whole_vectors(R, C), _whole_vectors(K, C), C)
    for k in range(K):
        for r in range(R):
            Ct[r, k] = C[k, r]
    return Ct


def _mttkrp(I, J, K, R, modes, Y, A, B, C, M0, M1, M2):
    if min(I, J, K, R) < 1 or modes < 1 or modes > 7:
        return 1
    tensor, factor = carray(Y, (I, J, K)), carray(A, (I, R))
    width = _whole_vectors(R, tensor)
    slab = min(I, max(1, int(SLAB_FLOPS // max(1, 4.0 * J * K * width))))
    blocks = _blocks_for((I, J, K), width)
    parts = (
        _scratch(slab, width, tensor).reshape(1, slab, width),
        _scratch(blocks * J, width, tensor).reshape(blocks, J, width),
        _scratch(blocks * K, width, tensor).reshape(blocks, K, width),
    )
    for i in range(0, I, slab):
        end = min(I, i + slab)
        factors = factor[i:end], carray(B, (J, R)), carray(C, (K, R))
        sums = carray(M0, (I, R))[i:end], carray(M1, (J, R)), carray(M2, (K, R))
        _mttkrp_add(alone(), tensor[i:end], *factors, modes, i == 0, *sums, *parts)
    return 0


def _gram(n, R, U, S):
    if min(n, R) < 1:
        return 1
    factor = carray(U, (n, R))
    width = _whole_vectors(R, factor)
    padded, sums = _zeros(n, width, factor), _zeros(width, width, factor)
    padded[:, :R] = factor
    panel(padded, True, padded, STORE, padded[0], sums, padded, sums[0])
    carray(S, (R, R))[:] = sums[:R, :R]
    return 0


def _hadamard_gram(I, J, K, R, A, B, C, Q):
    if min(I, J, K, R) < 1:
        return 1
    U = _stacked(carray(A, (I, R)), carray(B, (J, R)), carray(C, (K, R)))
    width = U.shape[1]
    grams = _zeros(6 * width, width, U).reshape(6, width, width)
    gramians(I, J, U, grams[:3], grams[3:])
    carray(Q, (3, R, R))[:] = grams[3:, :R, :R]
    return 0


def _jtj_apply(I, J, K, R, A, B, C, TA, TB, TC, LA, LB, LC):
    if min(I, J, K, R) < 1:
        return 1
    U = _stacked(carray(A, (I, R)), carray(B, (J, R)), carray(C, (K, R)))
    T = _stacked(carray(TA, (I, R)), carray(TB, (J, R)), carray(TC, (K, R)))
    width = U.shape[1]
    room = _zeros(10 * width, width, U).reshape(10, width, width)
    gramians(I, J, U, room[:3], room[3:6])
    L = _zeros(I + J + K, width, U)
    m0, m1, m2 = slice(0, I), slice(I, I + J), slice(I + J, I + J + K)
    nine_blocks(U[m0], U[m1], U[m2], T[m0], T[m1], T[m2], room[:3], room[3:6], room[6:], L[m0], L[m1], L[m2])
    carray(LA, (I, R))[:] = L[m0, :R]
    carray(LB, (J, R))[:] = L[m1, :R]
    carray(LC, (K, R))[:] = L[m2, :R]
    return 0


def _reconstruct(I, J, K, R, A, B, C, out):
    if min(I, J, K, R) < 1:
        return 1
    c = carray(C, (K, R))
    U = _stacked(carray(A, (I, R)), carray(B, (J, R)), c)
    _render(alone(), U[:I], U[I : I + J], _turned(c), carray(out, (I, J, K)))
    return 0


def _residual_norm2(I, J, K, R, Y, A, B, C, total):
    if min(I, J, K, R) < 1:
        return 1
    c = carray(C, (K, R))
    U = _stacked(carray(A, (I, R)), carray(B, (J, R)), c)
    sums = np.empty(-(-I // ROWS_PER_SUM))
    _residual_sums(alone(), carray(Y, (I, J, K)), U[:I], U[I : I + J], _turned(c), sums)
    carray(total, (1,))[0] = sums.sum()
    return 0


def _operator_apply(m, n, R, P, X, out):
    if min(m, n, R) < 1:
        return 1
    matrix, given = carray(P, (m, n)), carray(X, (n, R))
    width = _whole_vectors(R, given)
    padded, product = _zeros(n, width, given), _zeros(m, width, given)
    padded[:, :R] = given
    for row in range(0, m, _OPERATOR_ROWS):
        end = min(m, row + _OPERATOR_ROWS)
        panel(matrix[row:end], False, padded, ADD, padded[0], product[row:end], padded, product[0])
    carray(out, (m, R))[:] = product[:, :R]
    return 0


def _block_solve(n, R, blocks, rhs, x):
    if min(n, R) < 1:
        return 1
    count = -(-n // LANES)
    L = _zeros(count, _triangle(R) * LANES, np.empty(1, np.float64))
    groups = np.zeros((count, 3), np.int64)
    for group in range(count):
        groups[group, 0] = group * LANES
        groups[group, 1] = min(LANES, n - group * LANES)
    _factor_blocks(alone(), carray(blocks, (n, R, R)), L)
    _solve_blocks(alone(), groups, L, np.ones(count * LANES), carray(rhs, (n, R)), carray(x, (n, R)))
    return 0


# What C sees: of each routine the names of its sizes, inputs and outputs; * marks those that are always double.
ROUTINES = {
    "mttkrp": (_mttkrp, "I J K R modes", "Y A B C", "M0 M1 M2"),
    "gram": (_gram, "n R", "U", "S"),
    "hadamard_gram": (_hadamard_gram, "I J K R", "A B C", "Q"),
    "jtj_apply": (_jtj_apply, "I J K R", "A B C TA TB TC", "LA LB LC"),
    "reconstruct": (_reconstruct, "I J K R", "A B C", "out"),
    "residual_norm2": (_residual_norm2, "I J K R", "Y A B C", "*total"),
    "operator_apply": (_operator_apply, "m n R", "P X", "out"),
    "block_solve": (_block_solve, "n R", "blocks rhs", "x"),
}

#: By their end of a C name. `block_solve` works in double precision alone.
DTYPES = {"f64": types.float64, "f32": types.float32}
IN_DOUBLE_ALONE = ("block_solve",)

_addresses: dict[tuple[str, str], int] = {}
_lock = threading.RLock()


def signature(name: str, ending: str) -> Any:
    """The Numba signature of a routine."""
    _, sizes, inputs, outputs = ROUTINES[name]
    pointers = [
        types.CPointer(types.float64 if word.startswith("*") else DTYPES[ending])
        for word in f"{inputs} {outputs}".split()
    ]
    return types.int32(*[types.int64] * len(sizes.split()), *pointers)


def address(name: str, dtype: DTypeLike = np.float64) -> int:
    """The address of a routine's machine code, to be called by the C signature that `fastccpd.h` has.

    Parameters
    ----------
    name : str
        "mttkrp", "gram", "hadamard_gram", "jtj_apply", "reconstruct", "residual_norm2", "operator_apply" or
        "block_solve".
    dtype : float64 or float32
        Of all arrays; "block_solve" is there in float64 alone.

    Returns
    -------
    int
        Valid until the process ends. The first call compiles, later ones and other processes find the code ready.

    Examples
    --------
    >>> import ctypes, numpy as np
    >>> from fastccpd import kernels
    >>> kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    >>> gram = kind(kernels.address("gram", np.float64))
    >>> U, S = np.arange(6.0).reshape(3, 2), np.empty((2, 2))
    >>> gram(3, 2, U.ctypes.data, S.ctypes.data)
    0
    >>> S.tolist()
    [[20.0, 26.0], [26.0, 35.0]]
    """
    if name not in ROUTINES:
        raise ValueError(f"name: got {name!r}; one of {', '.join(ROUTINES)} is needed")
    known = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}
    try:
        ending = known.get(np.dtype(dtype))
    except TypeError:
        ending = None
    if ending is None or (name in IN_DOUBLE_ALONE and ending != "f64"):
        needed = "float64" if name in IN_DOUBLE_ALONE else "float32 or float64"
        raise TypeError(f"dtype: got {dtype!r}; {needed} is needed")
    if not COMPILED:
        raise RuntimeError("name: there is no machine code where NUMBA_DISABLE_JIT is set; unset it")
    with _lock:
        if (name, ending) not in _addresses:
            compiled = callback(ROUTINES[name][0], ending, signature(name, ending), uses_tiles=True, _nrt=True)
            _addresses[name, ending] = cast(int, compiled.address)
        return _addresses[name, ending]


def include() -> str:
    """The folder of `fastccpd.h`, for a C compiler's option -I."""
    return str(Path(__file__).parent)
