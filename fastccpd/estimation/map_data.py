"""The quadratic part of the fit of maps (`tv_maps.py`): both images as the maps see them, and the blur between.

With every band divided by its noise, the maps Z of spectra F (in units of the HSI's noise) have the misfit

    χ² = ‖Y_H − (P Z) F'‖² + ‖Y_M − Z R'‖²,     P = P1 ⊗ P2,  R = diag(1/σ_M) PM diag(σ_H) F.

Missing data have no part in it: every pixel has the Gramian R'R of the bands that it has.
"""

import numpy as np

from ..kernels.arrays import readonly
from ..kernels.jit import LEAST_PARALLEL_WORK_WITHOUT_BLAS as LEAST
from ..kernels.maps import along, curvature, diagonal_curvature
from ..kernels.vectors import dot
from ..model.degradation import Degradation
from ..model.types import Array, Mask, Operator
from .moments import eigh_signed


class Blur:
    """P = P1 ⊗ P2 and its transpose for stacks of maps, in compressed rows."""

    def __init__(self, degradation: Degradation):
        operators = degradation.P1, degradation.P2
        self._ahead, self._back = [compressed_rows(P) for P in operators], [compressed_rows(P.T) for P in operators]
        squares = (np.asarray(P.multiply(P).sum(axis=0)).ravel() for P in operators)
        #: How much of each fine pixel the coarse ones see: the diagonal of P'P.
        self.coverage = np.multiply.outer(*squares)

    def coarse(self, Z: Array) -> Array:
        """P Z."""
        # Rows first: their sums run over whole rows of maps, and leave fewer columns' worth of short sums.
        return along(self._ahead[1], along(self._ahead[0], Z, axis=0), axis=1)

    def fine(self, H: Array) -> Array:
        """P' H."""
        return along(self._back[0], along(self._back[1], H, axis=1), axis=0)


class WhitenedImage:
    """An image divided by its noise, with what does not depend on the spectra: ‖Y‖², and which bands a pixel has."""

    def __init__(self, image: Array, sigma: Array, valid: Mask | None):
        self.image, self.sigma, self._valid = image, sigma, valid
        if valid is None:
            self.kinds, self.bands = np.zeros(image.shape[:2], np.int64), np.ones((1, image.shape[2]), bool)
            self.size = image.size
        else:
            # Pixels that have the same bands share a Gramian.
            packed = np.packbits(valid, axis=2).reshape(-1, -(-image.shape[2] // 8))
            patterns, kinds = np.unique(packed, axis=0, return_inverse=True)
            self.bands = np.unpackbits(patterns, axis=1, count=image.shape[2]).astype(bool)
            self.kinds = np.ascontiguousarray(kinds.reshape(image.shape[:2]), np.int64)
            self.size = int(valid.sum())
        # A problem's images are zero where they have no data.
        self.energy = sum(float(np.einsum("jk,jk,k->", row, row, sigma**-2.0)) for row in image)

    def projected(self, R: Array) -> Array:
        """R'Y at every pixel."""
        scaled = R / self.sigma[:, None]
        return np.array([row @ scaled for row in self.image])

    def residual2(self, Z: Array, R: Array) -> float:
        """‖Y − Z R'‖² over the data there are, in the caller's units."""
        spectra, total = (self.sigma[:, None] * R).T, 0.0
        for i, row in enumerate(self.image):
            left = row - Z[i] @ spectra
            if self._valid is not None:
                left *= self._valid[i]
            total += float(np.einsum("jk,jk->", left, left))
        return total

    def grams(self, R: Array) -> Array:
        """R'R of each kind of pixel."""
        return np.array([R[has].T @ R[has] for has in self.bands])


class MapData:
    """The quadratic for one choice of spectra.

    Parameters
    ----------
    hsi, msi : WhitenedImage
    blur : Blur
    PM : matrix
    F : (K, P) array
        The spectra in units of the HSI's noise. Total variation does not mind a rotation of the maps: they are turned
        so that R'R is diagonal, where a diagonal preconditioner does most. `self.F` is the turned one.
    """

    def __init__(self, hsi: WhitenedImage, msi: WhitenedImage, blur: Blur, PM: Operator, F: Array):
        R = (PM @ (hsi.sigma[:, None] * F)) / msi.sigma[:, None]
        values, turn = eigh_signed(R.T @ R)
        self.hsi, self.msi, self.blur = hsi, msi, blur
        self.F, R = F @ turn, R @ turn
        self.R = R
        self.size = hsi.size + msi.size
        self._grams_H, self._grams_M = hsi.grams(self.F), msi.grams(R)
        # Of complete data all pixels share one Gramian, and the turn has made it diagonal.
        self._one_diagonal = np.ascontiguousarray(np.diag(self._grams_M[0])) if len(self._grams_M) == 1 else None
        self._no_weights = np.zeros(hsi.kinds.shape)
        self.target = blur.fine(hsi.projected(self.F))
        self.target += msi.projected(R)
        by_hsi = blur.coverage[:, :, None] * np.einsum("npp->np", self._grams_H).max(axis=0)
        self.diagonal = np.einsum("npp->np", self._grams_M)[msi.kinds] + by_hsi
        self.unit = np.sqrt(max(values[-1], by_hsi.max(), 1e-300))

    def product(self, Z: Array, weights: Array | None = None) -> Array:
        """The Hessian of the quadratic, with weighted differences, times Z."""
        weights = np.zeros(Z.shape[:2]) if weights is None else weights
        if self._one_diagonal is None:
            out = _pixelwise(Z, self.msi.kinds, self._grams_M, weights)
        else:
            out, work = np.empty(Z.shape), 12.0 * Z.size
            diagonal_curvature(*map(readonly, (Z, self._one_diagonal, weights)), out, work=work, least=LEAST)
        out += self.blur.fine(_pixelwise(self.blur.coarse(Z), self.hsi.kinds, self._grams_H, self._no_weights))
        return out

    def misfit(self, Z: Array, product: Array | None = None) -> float:
        """χ² over both images; `product` is that of Z without weights, if it is known."""
        product = self.product(Z) if product is None else product
        return max(0.0, self.hsi.energy + self.msi.energy - 2.0 * dot(Z, self.target) + dot(Z, product))

    def cost(self, Z: Array) -> float:
        """½ ‖…‖² of both images without weights, in the caller's units."""
        return 0.5 * (self.hsi.residual2(self.blur.coarse(Z), self.F) + self.msi.residual2(Z, self.R))

    def disturbance(self, rng: np.random.Generator) -> Array:
        """What white noise of size 1 on all data adds to `target`."""
        total = _drawn(self.msi.kinds, self._grams_M, rng)
        total += self.blur.fine(_drawn(self.hsi.kinds, self._grams_H, rng))
        return total


def _pixelwise(Z, kinds, grams, weights):
    """Gramian times Z, pixel by pixel, with weighted differences."""
    out, work = np.empty(Z.shape), 2.0 * Z.size * (Z.shape[2] + 10)
    curvature(*map(readonly, (Z, kinds, grams, weights)), out, work=work, least=LEAST)
    return out


def _drawn(kinds, grams, rng):
    """R' times white noise."""
    values, vectors = eigh_signed(grams)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    white = rng.standard_normal((*kinds.shape, grams.shape[1]))
    return np.einsum("ijpq,ijq->ijp", roots[kinds], white) if len(roots) > 1 else white @ roots[0].T


def compressed_rows(P: Operator) -> Operator:
    """A copy of a scipy.sparse matrix in compressed rows, of the types that the kernels expect."""
    P = P.tocsr().astype(np.float64, copy=True)
    P.indptr, P.indices = P.indptr.astype(np.int64), P.indices.astype(np.int64)
    return P
