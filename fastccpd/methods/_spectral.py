"""Images as few components in a spectral basis: what the matrix and Tucker methods share.

An image (rows, columns, bands) with basis E (bands, L) has components (L, rows, columns).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg

from ..model.checks import as_number
from ..model.problem import Mixture, as_part
from ..model.types import Array, Part, Shape

# The Gramian's rounding turns the weakest vector kept by eps·(σ_1/σ_R)², which moves the image by eps·σ_1/σ_R of its
# size: 1e-11 at this σ_R/σ_1.
_GRAMIAN_SUFFICES = 1e-5

# Values of a product that are made at once, in a tenth of a second or less.
_AT_ONCE = 1 << 24

# Robust against single bright pixels and against noise, which a maximum is not.
_QUANTILE = 0.999


def check_dimension(rank, hsi):
    """Refuse a subspace of more dimensions than the HSI has bands or pixels."""
    rows, columns, bands = hsi.shape
    most = min(bands, rows * columns)
    if rank > most:
        raise ValueError(f"rank: got {rank}; at most {most} is possible with this HSI")


def check_weights(degradation):
    """Refuse operators with weights below zero, for methods that multiply by what they give."""
    for name in ("P1", "P2", "PM"):
        least = getattr(degradation, name).data.min(initial=0.0)
        if least < 0.0:
            raise ValueError(f"degradation: got a weight of {least:g} in {name}; weights of at least 0 are needed")


def leading_vectors(X, count):
    """The `count` leading left singular vectors of X, strongest first, and their singular values."""
    n = len(X)
    squares, vectors = linalg.eigh(X @ X.T, subset_by_index=[n - count, n - 1], overwrite_a=True, check_finite=False)
    if squares[0] > _GRAMIAN_SUFFICES**2 * squares[-1]:
        return vectors[:, ::-1], np.sqrt(squares[::-1])
    triangle = linalg.qr(X.T, mode="r", check_finite=False)[0][:n]
    _, values, vectors = linalg.svd(triangle, full_matrices=False, check_finite=False)
    return vectors[:count].T, values[:count]


def components(image, basis):
    """basis'·image as (L, rows, columns)."""
    rows, columns, bands = image.shape
    return (basis.T @ image.reshape(-1, bands).T).reshape(-1, rows, columns)


def spectra(maps, basis):
    """The image (rows, columns, bands) of components (L, rows, columns) in `basis`."""
    count, rows, columns = maps.shape
    return products(maps.reshape(count, -1).T, basis.T).reshape(rows, columns, len(basis))


def mixture(maps, basis, dtype):
    """The same as a `Mixture`, which is rendered when it is asked for, in `dtype`."""
    return Mixture(np.moveaxis(maps, 0, 2).astype(dtype, copy=False), basis.astype(dtype))


@dataclass(frozen=True, eq=False)
class Scaled:
    """The image unit·X, made when it is asked for.

    Attributes
    ----------
    X : (I, J, K) array
    unit : float
    """

    X: Array
    unit: float

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    @property
    def shape(self) -> Shape:
        return self.X.shape

    def render(self, rows: Part = None, cols: Part = None, bands: Part = None, dtype: DTypeLike | None = None) -> Array:
        """unit·X, whole or a block of it."""
        rows, cols, bands = map(as_part, (rows, cols, bands))
        X = self.X[rows][:, cols][:, :, bands]
        out = np.empty(X.shape, self.dtype if dtype is None else dtype)
        return np.multiply(X, self.unit, out=out, casting="same_kind")

    def bound(self) -> float:
        """The largest magnitude."""
        return self.unit * max(float(self.X.max()), -float(self.X.min()))


def products(X, Y):
    """X @ Y for X of many rows, some at a time: no signal is heard within one product."""
    out = np.empty((len(X), Y.shape[1]), np.result_type(X, Y))
    for rows in _pieces(out):
        np.matmul(X[rows], Y, out=out[rows])
    return out


def products_of_slices(X, cube):
    """X @ each slice of `cube` along its first axis, some at a time."""
    out = np.empty((len(cube), len(X), cube.shape[2]), np.result_type(X, cube))
    for slices in _pieces(out):
        np.matmul(X, cube[slices], out=out[slices])
    return out


def _pieces(array):
    """Slices of the first axis that hold a moderate number of values each."""
    step = max(1, _AT_ONCE // array[0].size)
    return (slice(start, start + step) for start in range(0, len(array), step))


def half_square(model, data):
    """½ ‖model − data‖²; `model` is overwritten."""
    model -= data
    return 0.5 * float(np.vdot(model, model))


def as_scale(given):
    """The option `scale`: a number above zero, or None."""
    return None if given is None else as_number(given, "scale", above=True)


def robust_maximum(*images, quantile=_QUANTILE):
    """The 99.9 % quantile of the first image in which that is positive: the default of every `scale`."""
    return next((top for top in (float(np.quantile(image, quantile)) for image in images) if top > 0.0), 1.0)
