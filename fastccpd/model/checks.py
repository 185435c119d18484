"""Coercion of what callers pass, with one style of message: the argument, what was got, what is needed."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .types import Array, HasDtype, Mask, Operator

# Beyond these magnitudes the squares of an image's values, or products with them, leave the range of their dtype.
_MAGNITUDES = {4: (1e-30, 1e30), 8: (1e-150, 1e150)}

# Weights of an operator beyond this do the same.
_LARGEST_WEIGHT = 1e30

_SCAN_BYTES = 1 << 24

# No count reaches this, and squares of smaller ones are floats; seeds of 128 bits are welcome.
_COUNTS_BELOW = 2**128


def set_fields(instance: object, **values: Any) -> None:
    """Set fields of a frozen dataclass, from its `__post_init__`: there what was given becomes what was checked."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def as_count(value: Any, name: str, *, least: int = 1, most: int | None = None) -> int:
    """`value` as an int of at least `least`."""
    needed = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}: got {value!r}; {needed} is needed")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: got {value!r}; {needed} is needed") from None
    if abs(count) >= _COUNTS_BELOW:
        digits = int(count.bit_length() * np.log10(2.0)) + 1
        raise ValueError(f"{name}: got a number of {digits} digits; {needed} is needed, and below 2**128")
    if count < least or (most is not None and count > most):
        raise ValueError(f"{name}: got {value!r}; {needed} is needed")
    return count


def as_number(
    value: Any, name: str, *, least: float = 0.0, above: bool = False, below: float = np.inf, finite: bool = True
) -> float:
    """`value` as a float of at least `least` (or more than it, with `above`) and less than `below`; NaN is refused."""
    needed = f"a {'finite ' if finite else ''}number {'above' if above else 'of at least'} {least:g}"
    needed += f" and below {below:g}" if below < np.inf else ""
    if isinstance(value, bool | np.bool_ | str | bytes) or value is None:
        raise TypeError(f"{name}: got {value!r}; {needed} is needed")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: got {value!r}; {needed} is needed") from None
    except OverflowError:
        raise ValueError(f"{name}: got a number beyond those of a float; {needed} is needed") from None
    too_large = number >= below and (finite or below < np.inf)
    if not number >= least or (above and number == least) or too_large:
        raise ValueError(f"{name}: got {value!r}; {needed} is needed")
    return number


def as_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """`value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: got {value!r}; {' or '.join(repr(c) for c in choices)} is needed")
    return value


def check_members(value: object, name: str, members: Sequence[str]) -> None:
    """Refuse an object without one of the methods called `members`, naming the first that is missing."""
    if isinstance(value, type):
        raise TypeError(f"{name}: got the class {value.__name__}; an object of it is needed")
    for member in members:
        if not callable(getattr(value, member, None)):
            needed = ", ".join(members)
            raise TypeError(f"{name}: got {type(value).__name__}, which has no {member}(); {needed} are needed")


def as_cube(value: Any, name: str) -> Array:
    """`value` as an array of order three with a real numeric dtype; nothing is copied yet."""
    if value is None or sparse.issparse(value):
        raise TypeError(f"{name}: got {type(value).__name__}; an array (rows, columns, bands) is needed")
    cube = _as_array(value, name, "an array (rows, columns, bands) without a mask is needed")
    if cube.dtype.kind not in "fiu" or cube.dtype.itemsize > 8:
        raise TypeError(f"{name}: got dtype {cube.dtype}; a real float or integer of at most 64 bits is needed")
    if cube.ndim != 3 or 0 in cube.shape:
        raise ValueError(f"{name}: got shape {cube.shape}; (rows, columns, bands), each at least 1, is needed")
    return cube


def _as_array(value, name, needed):
    """`value` as an array, if it is one without gaps."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: got a masked array; {needed}")
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
        return _from_dlpack(value, name)
    try:
        return np.asarray(value)
    except ValueError:
        raise TypeError(f"{name}: its rows differ in length; {needed}") from None


def _from_dlpack(value, name):
    """An array of another library, such as torch, without a copy."""
    detached = value.detach() if callable(getattr(value, "detach", None)) else value  # a tensor that has gradients
    try:
        return np.from_dlpack(detached)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = type(value).__name__
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TypeError(
            f"{name}: got {kind}, which cannot be read ({reason}); memory of this machine is needed"
        ) from None


def as_valid(value: Any, name: str, shape: Sequence[int]) -> Mask | None:
    """`value` as a bool array of an image's shape that is True where there are data; None if they are everywhere."""
    if value is None:
        return None
    needed = "a bool array, True where there are data, is needed"
    valid = _as_array(value, name, needed)
    rows, columns, bands = shape
    if valid.dtype != bool:
        raise TypeError(f"{name}: got dtype {valid.dtype}; {needed}")
    if valid.shape not in ((rows, columns), (bands,), shape):
        raise ValueError(f"{name}: got shape {valid.shape}; {(rows, columns)}, {(bands,)} or {shape} is needed")
    if not valid.any():
        raise ValueError(f"{name}: is False everywhere; some data are needed")
    if valid.all():
        return None
    return np.array(np.broadcast_to(valid[:, :, None] if valid.ndim == 2 else valid, shape), dtype=np.bool_)


def working_dtype(*cubes: HasDtype) -> np.dtype[Any]:
    """float32 where every cube is float32 or float16, otherwise float64 (integers too: no count is lost)."""
    narrow = all(cube.dtype.kind == "f" and cube.dtype.itemsize <= 4 for cube in cubes)
    return np.dtype(np.float32 if narrow else np.float64)


def check_values(cube: Array, name: str) -> None:
    """Refuse NaN, infinities and magnitudes out of range, scanning a slab at a time."""
    if cube.dtype.kind != "f":
        return
    slab = max(1, _SCAN_BYTES // max(1, cube[:1].nbytes))
    lowest, highest = _MAGNITUDES[max(4, cube.dtype.itemsize)]
    largest = 0.0
    for start in range(0, len(cube), slab):
        rows = cube[start : start + slab]
        # One look finds both: a comparison with NaN is False.
        peak = max(float(rows.max()), -float(rows.min()))
        if not peak <= highest:
            bad = int(np.count_nonzero(~np.isfinite(rows)))
            if bad:
                where = f"{bad} in rows {start} to {start + len(rows) - 1}"
                raise ValueError(f"{name}: holds NaN or infinite values ({where}); finite values are needed")
            raise ValueError(f"{name}: holds magnitudes up to {peak:g}; at most {highest:g} is needed, so rescale it")
        largest = max(largest, peak)
    if 0.0 < largest < lowest:
        raise ValueError(f"{name}: holds magnitudes up to only {largest:g}; {lowest:g} is needed, so rescale it")


def is_in_range(cube: Array) -> bool:
    """Whether all values are finite and their squares are: no copy is made."""
    # A comparison with NaN is False.
    return bool(max(float(cube.max()), -float(cube.min())) <= _MAGNITUDES[max(4, cube.dtype.itemsize)][1])


def is_finite(array: Array) -> bool:
    """Whether all values are finite, by their sum: no copy is made."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isfinite(array.sum(dtype=np.float64)))


def as_matrix(value: Any, name: str) -> Operator:
    """`value` (dense, scipy.sparse) as a float64 CSR array of its own, finite, without explicit zeros, read-only."""
    from ..kernels.operators import checked_sparse  # here: who only counts need not load Numba

    needed = "a matrix of real numbers, dense or scipy.sparse, is needed"
    if value is None or isinstance(value, str | bytes):
        raise TypeError(f"{name}: got {type(value).__name__}; {needed}")
    if not sparse.issparse(value):
        value = _as_array(value, name, needed)
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name}: got dtype {value.dtype}; {needed}")
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name}: got shape {value.shape}; {needed}")
    if sparse.issparse(value):
        value = checked_sparse(value, name)
    # Of formats made of lists only the result can be checked.
    try:
        matrix = sparse.csr_array(value, dtype=np.float64, copy=True)
    except ValueError as error:  # of a dictionary of keys
        raise ValueError(f"{name}: its indices do not fit together ({error}); {needed}") from None
    matrix = checked_sparse(matrix, name)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name}: holds NaN or infinite values; finite weights are needed")
    largest = np.abs(matrix.data).max(initial=0.0)
    if largest > _LARGEST_WEIGHT:
        raise ValueError(f"{name}: holds a weight of {largest:g}; at most {_LARGEST_WEIGHT:g} is needed")
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False  # an index written here later would lead compiled code out of its arrays
    return matrix


def as_operator(value: Any, name: str) -> Operator:
    """`value` as by `as_matrix`, mapping fine to coarse: no more rows than columns, and no row of zeros."""
    matrix = as_matrix(value, name)
    rows, columns = matrix.shape
    if rows > columns:
        raise ValueError(f"{name}: {rows} rows and {columns} columns; it maps fine to coarse: at most as many rows")
    empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if empty.size:
        raise ValueError(f"{name}: row {empty[0]} is all zeros; every row must see something")
    return matrix
