"""Arrays as the kernels want them: aligned, padded to whole vectors, inputs read-only; and the wrappers' checks."""

import math

import numpy as np

from ._jit import ALIGNMENT
from ._simd import padded


def aligned(shape, dtype):
    """A zeroed C-ordered array that starts on a vector boundary (otherwise a tile loses a third of its speed)."""
    count = math.prod(shape)
    itemsize = np.dtype(dtype).itemsize
    buffer = np.zeros(count * itemsize + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + count * itemsize].view(dtype).reshape(shape)


def readonly(array):
    """A view that Numba types as read-only, so that memmaps and plain arrays share one compiled kernel."""
    view = array.view()
    view.flags.writeable = False
    return view


def pad(matrix, dtype):
    """A read-only aligned copy of `matrix` in `dtype`, its columns filled up with zeros to whole vectors."""
    matrix = np.asarray(matrix)
    rows, columns = matrix.shape
    out = aligned((rows, padded(columns, dtype)), dtype)
    out[:, :columns] = matrix
    return readonly(out)


def check_tensor(tensor):
    """`tensor` as a read-only C-ordered float32 or float64 array of order three."""
    if not isinstance(tensor, np.ndarray) or tensor.dtype not in (np.float32, np.float64):
        kind = tensor.dtype if isinstance(tensor, np.ndarray) else type(tensor).__name__
        raise TypeError(f"tensor: got {kind}; a float32 or float64 array is needed")
    if tensor.ndim != 3 or not tensor.flags.c_contiguous:
        order = "in C order" if tensor.flags.c_contiguous else "not in C order"
        raise ValueError(f"tensor: got shape {tensor.shape}, {order}; three axes in C order are needed")
    return readonly(tensor)


def check_factors(factors, name="factors", shape=None):
    """Three matrices with one number of columns; with `shape`, as many rows as that tensor has along each axis."""
    matrices = [np.asarray(factor) for factor in factors]
    if len(matrices) != 3 or any(m.ndim != 2 for m in matrices) or len({m.shape[1] for m in matrices}) != 1:
        shapes = [m.shape for m in matrices]
        raise ValueError(f"{name}: got shapes {shapes}; three matrices with one number of columns are needed")
    if shape is not None and tuple(m.shape[0] for m in matrices) != tuple(shape):
        rows = [m.shape[0] for m in matrices]
        raise ValueError(f"{name}: {rows} rows, but the tensor is {tuple(shape)}; they must agree")
    return matrices


def deliver(result, out, name="out"):
    """`result`, or `out` filled with it."""
    if out is None:
        return result
    if out.shape != result.shape:
        raise ValueError(f"{name}: got shape {out.shape}; {result.shape} is needed")
    out[...] = result
    return out
