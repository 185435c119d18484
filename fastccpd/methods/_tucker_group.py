"""A non-negative sparse Tucker model of one group of patches, and the sweeps that fit it.

T (n, p, K) holds n patches of p = p1·p2 pixels and K bands. With all factors non-negative and of unit columns,

    T ≈ G ×1 Q ×2 (U ⊗ V) ×3 W,      min ½ ‖T − model‖² + ρ ‖G‖₁,

with Q (n, r4), U (p1, r1), V (p2, r2), W (K, r3), G (r4, r1·r2, r3). A sweep goes over core, Q, core, U, V, W, core:
the core by a few accelerated proximal gradient steps, a factor by a few projected gradient steps, after which its
columns get unit norm and the core their norms.

T is never formed. It only comes in as T ×3 W', and as T times the coefficients M = G ×1 Q ×2 (U ⊗ V) over patches and
pixels. Patches overlap, so both are made from the pixels themselves: (X W) is gathered into patches, which are r3
numbers deep and not K, and the coefficients of a pixel are summed over the patches that hold it before they meet its
spectrum. The model's part in the average of all patches is such a sum too.
"""

import math
from typing import Any

import numpy as np
from scipy import sparse

from ..model.types import Array
from ._patches import Patches

# Spectra that a model starts from are at least this large: a zero would stay one.
_FLOOR = 1e-6

# What is left of spectra is rounding where it is at most this part of the largest, both squared.
_ROUNDING = 1e-24

# So many pixels are looked at together.
_ROWS = 256

# A patch belongs a little to all the other parts too.
_ELSEWHERE = 1e-3


class PatchData:
    """The patches of an image at some places.

    Parameters
    ----------
    patches : Patches
    places : array of int
    """

    def __init__(self, patches: Patches, places: Array):
        pixels = patches.pixels[places]
        self.pixels, local = np.unique(pixels, return_inverse=True)
        self._local = local.reshape(pixels.shape)
        ones, entries = np.ones(pixels.size), np.arange(pixels.size)
        self._sums = sparse.csr_array((ones, (local.ravel(), entries)), (len(self.pixels), pixels.size))
        self._spectra = np.zeros((0, 0))

    def load(self, image: Array) -> "PatchData":
        """Look at an image (I, J, K)."""
        self._spectra = image.reshape(-1, image.shape[2])
        return self

    def release(self) -> None:
        """Look no more at the image."""
        self._spectra = np.zeros((0, 0))

    def means(self, labels: Array) -> Array:
        """The mean patch of each part, (parts·p, K)."""
        pixels = self.pixels[self._local]
        parts = (pixels[labels == n] for n in range(labels.max() + 1))
        return np.stack([self._spectra[those].mean(axis=0) for part in parts for those in part.T])

    def project(self, W: Array) -> Array:
        """T ×3 W', (n, p, r3)."""
        projected = np.empty((len(self.pixels), W.shape[1]))
        for rows, values in self._blocks():
            np.matmul(values, W, out=projected[rows])
        return np.take(projected, self._local, axis=0)

    def coefficients(self, M: Array) -> Array:
        """The sum of coefficients (n, p, r3) over all patches that hold a pixel, for each pixel."""
        return self._sums @ M.reshape(-1, M.shape[2])

    def correlate(self, M: Array) -> Array:
        """Σ T M over patches and their pixels, (K, r3)."""
        coefficients = self.coefficients(M)
        nothing = np.zeros((self._spectra.shape[1], M.shape[2]))
        return sum((values.T @ coefficients[rows] for rows, values in self._blocks()), nothing)

    def add_model(self, M: Array, W: Array, total: Array) -> None:
        """Add the model M ×3 W of each patch to an image (I, J, K)."""
        coefficients, flat = self.coefficients(M), total.reshape(-1, total.shape[2])
        for at in range(0, len(self.pixels), _ROWS):
            rows = slice(at, at + _ROWS)
            flat[self.pixels[rows]] += coefficients[rows] @ W.T

    def _blocks(self):
        """(places among the pixels, their spectra), a few at a time, which stay in the processor's cache."""
        for at in range(0, len(self.pixels), _ROWS):
            rows = slice(at, at + _ROWS)
            yield rows, self._spectra[self.pixels[rows]]


class TuckerGroup:
    """The factors Q, U, V, W and the core G of a group.

    Parameters
    ----------
    Q, U, V, W : arrays
        Their columns are given unit norm.
    rho : float
        Weight of the core's sum.
    """

    def __init__(self, Q: Array, U: Array, V: Array, W: Array, rho: float):
        self.Q, self.U, self.V, self.W = (_unit_columns(X)[0] for X in (Q, U, V, W))
        self.G = np.zeros((Q.shape[1], U.shape[1] * V.shape[1], W.shape[1]))
        self.rho = rho

    def sweep(self, data: Any, steps: int) -> None:
        """Core, Q, core, U, V, W, core, each by so many steps."""
        n = len(self.Q)
        TW = data.project(self.W)
        TQ = self._seen(TW)
        self._fit_core(TQ, steps)

        spread = self._spread().reshape(len(self.G), -1)
        flat = self.G.reshape(len(self.G), -1)
        gram = flat @ self._curved(mode=0).reshape(flat.shape).T
        self.Q, norms = _steps(self.Q, TW.reshape(n, -1) @ spread.T, gram, steps)
        self.G *= norms[:, None, None]
        TQ = self._seen(TW)
        self._fit_core(TQ, steps)

        self._fit_side("U", TQ, steps)
        self._fit_side("V", TQ, steps)

        M = self.model_coefficients()
        gram = np.tensordot(self._curved(mode=2), self.G, ((0, 1), (0, 1)))
        self.W, norms = _steps(self.W, data.correlate(M), gram, steps)
        self.G *= norms
        self._fit_core(self._seen(data.project(self.W)), steps)

    def model_coefficients(self) -> Array:
        """M (n, p, r3), with which the model is M ×3 W."""
        spread = self._spread()
        return (self.Q @ spread.reshape(len(spread), -1)).reshape(len(self.Q), *spread.shape[1:])

    def _sides(self):
        """U ⊗ V, (p, r1·r2)."""
        return np.kron(self.U, self.V)

    def _spread(self):
        """G ×2 (U ⊗ V)."""
        return self._sides() @ self.G

    def _seen(self, TW):
        """T ×1 Q' ×3 W', (r4, p, r3)."""
        n, p, r3 = TW.shape
        return (self.Q.T @ TW.reshape(n, -1)).reshape(-1, p, r3)

    def _curved(self, mode):
        """G times the Gramians of all factors but that of `mode`."""
        grams = [X.T @ X for X in (self.Q, self._sides(), self.W)]
        return _times([None if n == mode else gram for n, gram in enumerate(grams)], self.G)

    def _fit_core(self, TQ, steps):
        """Accelerated proximal gradient steps."""
        sides = self._sides()
        grams = [X.T @ X for X in (self.Q, sides, self.W)]
        L = math.prod(_largest(X.T @ X) for X in (self.Q, self.U, self.V, self.W))
        if L == 0.0:
            return
        pull = sides.T @ TQ
        pull -= self.rho
        ahead, t = self.G, 1.0
        for _ in range(steps):
            step = _times(grams, ahead)
            step -= pull
            step /= -L
            step += ahead
            before, self.G = self.G, np.maximum(step, 0.0, out=step)
            t, previous = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t)), t
            ahead = self.G + (previous - 1.0) / t * (self.G - before)

    def _fit_side(self, name, TQ, steps):
        """Projected gradient steps for U or V; TQ is T ×1 Q' ×3 W'."""
        r4, _, r3 = self.G.shape
        U, V = self.U, self.V
        G = self.G.reshape(r4, U.shape[1], V.shape[1], r3)
        T = TQ.reshape(r4, len(U), len(V), r3)
        curved = _times([self.Q.T @ self.Q, None, self.W.T @ self.W], self.G).reshape(G.shape)
        if name == "V":
            G, T, curved = (X.swapaxes(1, 2) for X in (G, T, curved))
        own, other = (U, V) if name == "U" else (V, U)
        # With the side that is fitted second and the other third.
        rhs = np.tensordot(other.T @ T.transpose(0, 3, 2, 1), G, ((0, 1, 2), (0, 3, 2)))
        gram = np.tensordot((other.T @ other) @ curved.transpose(0, 3, 2, 1), G, ((0, 1, 2), (0, 3, 2)))
        fitted, norms = _steps(own, rhs, gram, steps)
        setattr(self, name, fitted)
        scaled = G * norms[:, None, None]
        self.G = np.ascontiguousarray(scaled if name == "U" else scaled.swapaxes(1, 2)).reshape(r4, -1, r3)


def first_model(data, labels, size, ranks, rho, rng):
    """The model that sweeps start from: parts of the group, the places of a patch, extreme spectra of the parts.

    Parameters
    ----------
    data : PatchData
    labels : (n,) array of int
        The part of each patch.
    size : (p1, p2)
    ranks : (r1, r2, r3)
    rho : float
    rng : Generator
    """
    Q = np.eye(labels.max() + 1)[labels] + _ELSEWHERE
    U, V = (np.eye(p, r) + 0.1 * rng.random((p, r)) for p, r in zip(size, ranks[:2], strict=True))
    W = np.maximum(successive_projections(data.means(labels), ranks[2]), _FLOOR)
    return TuckerGroup(Q, U, V, W, rho)


def successive_projections(points: Array, count: int) -> Array:
    """`count` rows of a matrix, as columns: in turn the one that has most left beside those found before.

    Where nothing but rounding is left, it begins anew with those not found yet.
    """
    left, found = points.copy(), []
    rounding = _ROUNDING * np.square(points).sum(axis=1).max()
    for _ in range(count):
        squares = np.square(left).sum(axis=1)
        if squares.max() <= rounding:
            left = points.copy()
            left[found] = 0.0
            squares = np.square(left).sum(axis=1)
        found.append(int(squares.argmax()))
        if squares[found[-1]] > 0.0:
            direction = left[found[-1]] / math.sqrt(squares[found[-1]])
            left -= np.outer(left @ direction, direction)
    return points[found].T


def _times(grams, G):
    """A core (r4, r1·r2, r3) times a matrix along each axis; None is the identity."""
    of_parts, of_sides, of_bands = grams
    if of_parts is not None:
        G = (of_parts @ G.reshape(len(G), -1)).reshape(G.shape)
    if of_sides is not None:
        G = of_sides @ G
    return G if of_bands is None else (G.reshape(-1, G.shape[2]) @ of_bands).reshape(G.shape)


def _steps(X, rhs, gram, steps):
    """X after projected gradient steps of ½ tr(X gram X') − tr(X rhs'), with unit columns, and their norms."""
    L = _largest(gram)
    if L > 0.0:
        for _ in range(steps):
            X = np.maximum(X - (X @ gram - rhs) / L, 0.0)
    return _unit_columns(X)


def _unit_columns(X):
    """X with columns of norm one, and their norms; a zero column stays, and counts as one of norm one."""
    norms = np.linalg.norm(X, axis=0)
    norms[norms == 0.0] = 1.0
    return X / norms, norms


def _largest(gram):
    """The spectral norm of a Gramian."""
    return float(np.linalg.eigvalsh(gram)[-1])
