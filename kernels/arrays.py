"""Arrays as the kernels want them: aligned, padded to whole vectors, inputs read-only; and the wrappers' checks."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .scratch import ALIGNMENT
from .simd import padded


def aligned(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """A zeroed C-ordered array that starts on a vector boundary (otherwise a tile loses a third of its speed)."""
    count = math.prod(shape)
    itemsize = np.dtype(dtype).itemsize
    buffer = np.zeros(count * itemsize + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + count * itemsize].view(dtype).reshape(shape)


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """A view that Numba types as read-only, so that memmaps and plain arrays share one compiled kernel."""
    view = array.view()
    view.setflags(write=False)
    return view


def pad(matrix: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """A read-only aligned copy of `matrix` in `dtype`, its columns filled up with zeros to whole vectors."""
    matrix = np.asarray(matrix)
    rows, columns = matrix.shape
    out = aligned((rows, padded(columns, dtype)), dtype)
    out[:, :columns] = matrix
    return readonly(out)


def as_real(value: ArrayLike, name: str, shape: str) -> NDArray[Any]:
    """`value` as an array of real numbers of at most 64 bits with as many axes as `shape` names, none of them empty."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: got a masked array; fill its masked values first")
    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError(f"{name}: its rows differ in length; {shape} is needed") from None
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise TypeError(f"{name}: got dtype {array.dtype}; real numbers of at most 64 bits are needed")
    if array.ndim != shape.count(",") + 1 or 0 in array.shape:
        raise ValueError(f"{name}: got shape {array.shape}; {shape}, each at least 1, is needed")
    return array


def _is_real_of_ours(dtype):
    """Whether a dtype is float32 or float64, in this machine's order of bytes."""
    return dtype.char in "fd" and dtype.isnative


def check_tensor(tensor: NDArray[Any]) -> NDArray[Any]:
    """`tensor` as a read-only C-ordered float32 or float64 array of order three."""
    if not isinstance(tensor, np.ndarray) or not _is_real_of_ours(tensor.dtype):
        kind = tensor.dtype if isinstance(tensor, np.ndarray) else type(tensor).__name__
        raise TypeError(f"tensor: got {kind}; a float32 or float64 array is needed")
    if tensor.ndim != 3 or not tensor.flags.c_contiguous:
        order = "in C order" if tensor.flags.c_contiguous else "not in C order"
        raise ValueError(f"tensor: got shape {tensor.shape}, {order}; three axes in C order are needed")
    return readonly(as_real(tensor, "tensor", "(I, J, K)"))


def check_factors(
    factors: Sequence[ArrayLike], name: str = "factors", shape: Sequence[int] | None = None
) -> list[NDArray[Any]]:
    """Three matrices with one number of columns; with `shape`, as many rows as that tensor has along each axis."""
    try:
        given = list(factors)
    except TypeError:
        raise TypeError(f"{name}: got {type(factors).__name__}; three matrices are needed") from None
    if len(given) != 3:
        raise ValueError(f"{name}: got {len(given)} of them; three matrices are needed")
    matrices = [as_real(factor, f"{name}[{n}]", "(rows, R)") for n, factor in enumerate(given)]
    (I, R), *others = shapes = [m.shape for m in matrices]
    if others[0][1] != R or others[1][1] != R:
        raise ValueError(f"{name}: got shapes {shapes}; three matrices with one number of columns are needed")
    if shape is not None and (I, others[0][0], others[1][0]) != tuple(shape):
        rows = [m.shape[0] for m in matrices]
        raise ValueError(f"{name}: {rows} rows, but the tensor is {tuple(shape)}; they must agree")
    return matrices


def check_out(out: NDArray[Any] | None, shape: Sequence[int], name: str = "out") -> None:
    """Refuse an `out` that a result of this shape cannot be written to; None is welcome."""
    if out is None:
        return
    if not isinstance(out, np.ndarray) or not _is_real_of_ours(out.dtype):
        kind = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"{name}: got {kind}; a float32 or float64 array is needed")
    if out.shape != tuple(shape):
        raise ValueError(f"{name}: got shape {out.shape}; {tuple(shape)} is needed")
    if not out.flags.writeable:
        raise ValueError(f"{name}: is read-only; an array that can be written to is needed")


def check_three_outs(
    out: Sequence[NDArray[Any]] | None, shapes: Sequence[Sequence[int]]
) -> tuple[NDArray[Any] | None, ...]:
    """Three arrays to write to, or three times None."""
    if out is None:
        return (None, None, None)
    if not isinstance(out, tuple | list) or len(out) != 3:
        raise TypeError(f"out: got {type(out).__name__}; three arrays are needed")
    for n, (target, shape) in enumerate(zip(out, shapes, strict=True)):
        check_out(target, shape, f"out[{n}]")
    return tuple(out)


def deliver(result: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """`result`, or `out`, which was checked, filled with it."""
    if out is None:
        return result
    out[...] = result
    return out
