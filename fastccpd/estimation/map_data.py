"""The quadratic part of the fit of maps (`tv_maps.py`): both images as the maps see them, and the blur between.

With every band divided by its noise, the maps Z of spectra F (in units of the HSI's noise) have the misfit

    χ² = ‖Y_H − (P Z) F'‖² + ‖Y_M − Z R'‖²,     P = P1 ⊗ P2,  R = diag(1/σ_M) PM diag(σ_H) F.

Missing data have no part in it: every pixel has the Gramian R'R of the bands that it has. Where bands of the HSI share
an error of the covariance LL' beside their noise (`Subspace.mismatch`), its squares are those of the metric

    (I + LL')⁻¹ = I − NN',     N = L V (I + Λ)^(−1/2)  for  L'L = V Λ V',

of the bands that a pixel has.
"""

from collections.abc import Callable

import numpy as np

from ..kernels.arrays import readonly
from ..kernels.lanes import LANES
from ..kernels.map_steps import GUARD
from ..kernels.maps import along
from ..model.degradation import Degradation
from ..model.types import Array, Mask, Operator
from ..threads import by_rows, over_pieces
from .map_system import Layout
from .moments import eigh_signed

# Random numbers that are drawn at once, and how many times that are there at once.
_AT_ONCE, _TOGETHER = 1 << 18, 16

# A map that the MSI sees no more of than this, as a part of the best, it does not see.
_NOTHING = 1e-10

# Pixels are dark below this part of the scene's root mean square; and how many times dearer their steps are at most.
_DARK, _DEAREST = 0.2, 10.0


class Blur:
    """P = P1 ⊗ P2 and its transpose for stacks of maps, in compressed rows."""

    def __init__(self, degradation: Degradation):
        self.operators = degradation.P1, degradation.P2
        self._ahead, self._back = (
            [compressed_rows(P) for P in operators] for operators in (self.operators, [P.T for P in self.operators])
        )
        # Kernels compute in float32, whose range is small: what they take is of size 1; `size` is what it was.
        sizes = [power_of_two(abs(P).max()) for P in self.operators]
        self.size = sizes[0] * sizes[1]
        self.operators = tuple(P / size for P, size in zip(self.operators, sizes, strict=True))
        #: The entries of P1, P2 and P2', and of P1', as kernels take them.
        self.compressed = tuple(_entries(compressed_rows(P)) for P in (*self.operators, self.operators[1].T))
        self.rows_back = _entries(compressed_rows(self.operators[0].T))

    def coverage_of(self, side: int) -> Array:
        """How much of each square of fine pixels the coarse ones see: with side 1 the diagonal of P'P, over `size`²."""
        return np.multiply.outer(*(_seen_of_runs(P, side) for P in self.operators))

    def coarse(self, Z: Array) -> Array:
        """P Z of (rows, columns, maps)."""
        # Rows first: their sums run over whole rows of maps, and leave fewer columns' worth of short sums.
        return along(self._ahead[1], along(self._ahead[0], Z, axis=0), axis=1)

    def half_of_fine(self, H: Array) -> Array:
        """P2' H of (coarse rows, coarse columns, maps): half of the way to P' H."""
        return along(self._back[1], H, axis=1)

    def fine_rows(self, half: Array, part: slice) -> Array:
        """Some rows of P' H, by what `half_of_fine` gives, whichever way its columns and maps lie."""
        return along(compressed_rows(self._back[0][part]), half, axis=0)

    def coarse_of_stack(self, layout: Layout, stack: Array) -> Array:
        """P Z of a stack, as (rows, columns, maps)."""
        rows = stack[GUARD:-GUARD].reshape(layout.I, 1, -1)

        def of_rows(part):
            blurred = along(compressed_rows(self._ahead[0][part]), rows, axis=0)
            blurred = blurred.reshape(-1, layout.P, layout.width)[:, :, : layout.J]
            return along(self._ahead[1], np.ascontiguousarray(np.moveaxis(blurred, 1, 2)), axis=1)

        return np.concatenate(by_rows(of_rows, self._ahead[0].shape[0], rows[0].size))

    def add_fine(self, layout: Layout, H: Array, stack: Array) -> None:
        """Add P' H, H of (rows, columns, maps), to a stack."""
        rows, half = layout.rows(stack), np.ascontiguousarray(np.moveaxis(self.half_of_fine(H), 2, 1))

        def add(part):
            rows[part] += self.fine_rows(half, part)

        by_rows(add, len(rows), rows[0].size)


class WhitenedImage:
    """An image divided by its noise, with what does not depend on the spectra: ‖Y‖², and which bands a pixel has.

    Parameters
    ----------
    image : (rows, columns, bands) array
    sigma : (bands,) array
    valid : bool array of the image's shape, or None
    mismatch : (bands, r) array, optional
        L, in units of the noise.
    """

    def __init__(self, image: Array, sigma: Array, valid: Mask | None, mismatch: Array | None = None):
        self.image, self.sigma, self._valid = image, sigma, valid
        if valid is None:
            self.kinds = np.broadcast_to(np.int64(0), image.shape[:2])  # takes no room
            self.bands = np.ones((1, image.shape[2]), bool)
            self.size = image.size
        else:
            # Pixels that have the same bands share a Gramian.
            packed = np.packbits(valid, axis=2).reshape(-1, -(-image.shape[2] // 8))
            patterns, kinds = np.unique(packed, axis=0, return_inverse=True)
            self.bands = np.unpackbits(patterns, axis=1, count=image.shape[2]).astype(bool)
            self.kinds = np.ascontiguousarray(kinds.reshape(image.shape[:2]), np.int64)
            self.size = int(valid.sum())
        #: The kind of most pixels that have data, and where the others are.
        counts = np.bincount(self.kinds.ravel(), minlength=len(self.bands))
        self.usual = int(np.where(self.bands.any(axis=1), counts, 0).argmax())
        self.odd = _odd_pixels(self.kinds, self.usual)
        # A problem's images are zero where they have no data.
        self._weights = None if mismatch is None else _inverses(mismatch, self.bands)
        self.energy = sum(size for size, _ in self._by_rows(lambda part: self._squares(part, image[part])))

    def residual2(self, Z: Array, R: Array) -> tuple[float, float]:
        """‖Y − Z R'‖² over the data there are, Z row by row: in units of the noise, and in the caller's."""
        spectra = (self.sigma[:, None] * R).T

        def of_rows(part):
            left = self.image[part] - np.asarray(Z[part], np.float64) @ spectra
            if self._valid is not None:
                left *= self._valid[part]
            return self._squares(part, left)

        both = np.sum(self._by_rows(of_rows), axis=0)
        return float(both[0]), float(both[1])

    def _by_rows(self, function):
        return by_rows(function, len(self.image), self.image[0].size)

    def _squares(self, part, rows):
        """Of some rows of an image: ‖…‖² in units of the noise, and in the caller's."""
        squares = np.einsum("ijk,ijk->k", rows, rows, dtype=np.float64)
        size = float(squares @ self.sigma**-2.0)
        for these, weights in self._kinds_of(part):
            seen = (rows[these] / self.sigma) @ weights
            size -= float(np.einsum("jr,jr->", seen, seen))
        return size, float(squares.sum())

    def _kinds_of(self, part):
        """Of each kind of pixel in some rows: which they are, and N; nothing where noise is white."""
        if self._weights is None:
            return []
        kinds = self.kinds[part]
        return [(kinds == kind, self._weights[kind]) for kind in np.unique(kinds)]

    @property
    def white(self) -> bool:
        """Whether bands share no error."""
        return self._weights is None

    def grams(self, R: Array) -> Array:
        """R'R of each kind of pixel, or R'(I + LL')⁻¹R."""
        grams = np.array([R[has].T @ R[has] for has in self.bands])
        if self._weights is not None:
            seen = np.einsum("kp,nkr->npr", R, self._weights)
            grams -= np.einsum("npr,nqr->npq", seen, seen)
        return grams

    def seen_by(self, R: Array, part: slice) -> Array:
        """R'(I + LL')⁻¹ y of the pixels of some rows, in units of the noise."""
        rows = self.image[part] / self.sigma
        found = rows @ R
        for these, weights in self._kinds_of(part):
            found[these] -= rows[these] @ weights @ (weights.T @ R)
        return found


class MapData:
    """The quadratic for one choice of spectra.

    Parameters
    ----------
    hsi, msi : WhitenedImage
    blur : Blur
    PM : matrix
    F : (K, P) array
        The spectra in units of the HSI's noise. Total variation does not mind a rotation of the maps: they are turned
        so that R'R is diagonal, and F'F where the MSI sees nothing, for a diagonal preconditioner does most there.
        `self.F` is the turned one.
    """

    def __init__(self, hsi: WhitenedImage, msi: WhitenedImage, blur: Blur, PM: Operator, F: Array):
        #: What the MSI sees of spectra, both in units of their noise.
        self.response = PM.toarray() * hsi.sigma / msi.sigma[:, None]
        R = self.response @ F
        turn = _turn(R[msi.bands[msi.usual]], F)
        by_hsi = blur.size**2 * blur.coverage_of(1).max() * np.square(F @ turn).sum(axis=0).max()
        unit = np.sqrt(max(np.linalg.norm(R, 2) ** 2, by_hsi, 1e-300))
        # Maps in units of about the noise of the best one, whose range float32 has whatever the data are.
        scale = power_of_two(unit)
        self.unit = unit / scale
        self.hsi, self.msi, self.blur = hsi, msi, blur
        self.F, self.R = F @ turn / scale, R @ turn / scale
        self.size = hsi.size + msi.size
        self.layout = Layout(msi.image.shape[0], msi.image.shape[1], F.shape[1])
        self._grams_H, self._grams_M = hsi.grams(self.F), msi.grams(self.R)
        # Most pixels have the same bands, and so one Gramian, which the turn has made diagonal; the others are odd.
        gram, self.extras_coarse = _apart(self._grams_H * blur.size**2, hsi.usual)
        self.gram = padded_rows(gram)
        usual, self.extras = _apart(self._grams_M, msi.usual)
        self.extras += usual - np.diag(np.diag(usual)) if msi.odd[1].size else 0.0
        #: Diagonals of the MSI's Gramian of most pixels, and of the HSI's.
        self.diagonals = np.diag(usual).copy(), np.diag(gram).copy()
        #: Which maps the MSI sees nothing of.
        self.unseen = self.diagonals[0] <= _NOTHING * max(float(self.diagonals[0].max()), 1e-300)
        #: The part of the quadratic that no map has a part in: what `lead` adds to those of the images.
        self.led = 0.0
        #: The maps that were led, and which part of their variance is not in what leads them.
        self.led_maps, self.left = np.empty(0, np.int64), 1.0
        #: Ones; and how much each pixel's Gramian of the MSI is of that.
        self.ones, self.share = (self.layout.zeros(maps=1) for _ in range(2))
        self.layout.rows(self.ones)[...] = 1.0
        #: By how much steps of each pixel are dearer than λ says.
        self.dearer = self.ones
        traces = np.einsum("npp->n", self._grams_M)
        self.layout.rows(self.share)[:, 0] = (traces / (traces[msi.usual] or 1.0))[msi.kinds]
        self.target = self._seen()

    def _seen(self):
        """What the images give each map: R'Y_M + P'F'Y_H."""
        dtype = np.result_type(self.hsi.image, self.msi.image)
        target = self.layout.zeros(dtype)
        rows = self.layout.rows(target)

        def fine(part):
            rows[part] = np.moveaxis(self.msi.seen_by(self.R, part), 2, 1)

        by_rows(fine, len(rows), rows[0].size)
        hsi = self.hsi.image
        coarse = by_rows(lambda part: self.hsi.seen_by(self.F, part), len(hsi), hsi[0].size)
        self.blur.add_fine(self.layout, np.concatenate(coarse), target)
        return target

    def release(self) -> None:
        """Let go of `target`: nothing is fitted any more."""
        self.target = np.empty(0, self.target.dtype)

    def carried(self, maps: Array, F: Array) -> Array:
        """The stack of a scene whose (I, P, J) maps of other spectra F are known."""
        change, Z = np.linalg.pinv(self.F) @ F, self.layout.zeros()
        rows = self.layout.rows(Z)

        def carry(part):
            rows[part] = change @ maps[part]

        by_rows(carry, len(rows), rows[0].size)
        return Z

    def misfit_and_cost(self, Z: Array) -> tuple[float, float]:
        """Of a stack: χ² over both images, and ½ ‖…‖² of both without weights, in the caller's units."""
        coarse = self.blur.coarse_of_stack(self.layout, Z)
        fine = np.moveaxis(self.layout.rows(Z), 1, 2)
        both = np.add(self.hsi.residual2(coarse, self.F), self.msi.residual2(fine, self.R))
        return float(both[0]), 0.5 * float(both[1])

    def make_dark_steps_dearer(self, Z: Array, brightness2: float) -> None:
        """Let a step cost the more, the darker its pixel is in the maps Z.

        Parameters
        ----------
        Z : stack
        brightness2 : float
            The mean square of the scene's values, in units of the HSI's noise.
        """
        rows, root = self.layout.rows(Z), _roots((self.F.T @ self.F)[None] / len(self.F))[0]
        dark2, self.dearer = _DARK**2 * max(brightness2, 1e-300), self.layout.zeros(maps=1)
        own2 = by_rows(lambda part: np.square(root.T @ rows[part]).sum(axis=1), len(rows), rows[0].size)
        own2 = _with_neighbours(_with_neighbours(np.concatenate(own2)).T).T
        self.layout.rows(self.dearer)[:, 0] = np.sqrt(1.0 + dark2 / (own2 + dark2 / _DEAREST**2))

    def lead(self, which: Array, weights: Array, values: Callable[[slice], Array], left: float = 1.0) -> None:
        """Add ½ Σ weights (z − values)² of some maps to the quadratic; χ² stays that of the images.

        Parameters
        ----------
        which : (n,) array of int
        weights : (n,) array
        values : callable(slice) -> (rows, n, columns) array
            Those of some rows of pixels.
        left : float
            The part of the variance of these maps that is not in the values.
        """
        self.led_maps, self.left = which, left
        self.diagonals[0][which] += weights
        self._grams_M[:, which, which] += weights
        rows = self.layout.rows(self.target)

        def add(part):
            led = values(part)
            rows[part, which] += weights[:, None] * led
            return float(weights @ np.square(led, dtype=np.float64).sum(axis=(0, 2)))

        self.led += sum(by_rows(add, len(rows), rows[0].size))

    def disturb(self, draw: Callable[[tuple[int, ...]], Callable[[], Array]], stack: Array) -> None:
        """Add what white noise of size 1 on all data adds to `target`.

        `draw` is called for one shape after the other, and what it gives, when it is called, gives the noise.
        """
        rows, coarse = self.layout.rows(stack), np.empty((*self.hsi.image.shape[:2], self.layout.P))

        def add(part, noise):
            rows[part] += np.moveaxis(noise, 2, 1)

        def put(part, noise):
            coarse[part] = noise

        _draw(self.msi.kinds, _roots(self._grams_M), draw, add)
        _draw(self.hsi.kinds, _roots(self._grams_H), draw, put)
        self.blur.add_fine(self.layout, coarse, stack)


def second_moments(rows: Array) -> Array:
    """The sum of z z' over all pixels of (I, P, J) rows of maps."""
    parts = by_rows(lambda part: sum(row @ row.T for row in rows[part]), len(rows), rows[0].size)
    return np.sum(parts, axis=0)


def _with_neighbours(plane):
    """The mean of each row and those before and after it, which count half."""
    padded = np.pad(plane, ((1, 1), (0, 0)), mode="edge")
    return 0.5 * padded[1:-1] + 0.25 * (padded[:-2] + padded[2:])


def _seen_of_runs(P, length):
    """The diagonal of R'P'PR, R joining `length` neighbours."""
    from scipy import sparse

    entries, runs = P.tocoo(), -(-P.shape[1] // length)
    joined = sparse.coo_array((entries.data, (entries.row, entries.col // length)), (P.shape[0], runs)).tocsr()
    return np.bincount(joined.indices, np.square(joined.data), minlength=runs)


def _turn(R, F):
    """A rotation of maps that makes R'R diagonal, and F'F on its null space."""
    values, turn = eigh_signed(R.T @ R)
    unseen = values <= _NOTHING * max(values[-1], 1e-300)
    if unseen.any():
        basis = turn[:, unseen]
        turn[:, unseen] = basis @ eigh_signed(basis.T @ F.T @ F @ basis)[1]
    return turn


def _inverses(L, bands):
    """For each kind of pixel the (K, r) factor N of (I + LL')⁻¹ = I − NN' on the bands that it has, zero elsewhere."""
    found = np.zeros((len(bands), *L.shape))
    for n, has in enumerate(bands):
        values, turn = eigh_signed(L[has].T @ L[has])
        found[n, has] = L[has] @ turn / np.sqrt(1.0 + np.maximum(values, 0.0))
    return found


def _apart(grams, usual):
    """The Gramian of the usual kind of pixel, and what each kind adds to it."""
    return grams[usual], grams - grams[usual]


def _roots(grams):
    """A square root of each Gramian."""
    values, vectors = eigh_signed(grams)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]


def _draw(kinds, roots, draw, take):
    """R' times white noise, some rows of pixels at a time, several of these on threads; each goes to `take`."""
    P, columns = roots.shape[1], kinds.shape[1]
    at_once = max(1, _AT_ONCE // max(1, columns * P * (P if len(roots) > 1 else 1)))
    parts = [slice(i, min(len(kinds), i + at_once)) for i in range(0, len(kinds), at_once)]

    def mixed(drawn):
        part, white = drawn[0], drawn[1]()
        take(part, np.einsum("ijpq,ijq->ijp", roots[kinds[part]], white) if len(roots) > 1 else white @ roots[0].T)

    for first in range(0, len(parts), _TOGETHER):
        some = parts[first : first + _TOGETHER]
        over_pieces(mixed, [(part, draw((part.stop - part.start, columns, P))) for part in some])


def power_of_two(size: float) -> float:
    """The largest power of two that is not above a positive number; dividing by it rounds nothing."""
    return 2.0 ** np.floor(np.log2(size)) if 0.0 < size < np.inf else 1.0


def padded_rows(matrix: Array) -> Array:
    """The rows of a matrix one after the other, each padded with zeros to whole vectors."""
    return np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % LANES))).ravel()


def _entries(P):
    """(starts, columns, values) of a matrix in compressed rows."""
    return tuple(map(readonly, (P.indptr, P.indices, P.data)))


def _odd_pixels(kinds, usual):
    """(starts, columns, kinds) of the pixels that are not of the usual kind, row by row."""
    rows, columns = np.nonzero(kinds != usual)
    starts = np.searchsorted(rows, np.arange(len(kinds) + 1)).astype(np.int64)
    return tuple(map(readonly, (starts, columns.astype(np.int64), kinds[rows, columns])))


def compressed_rows(P: Operator) -> Operator:
    """A copy of a scipy.sparse matrix in compressed rows, of the types that the kernels expect."""
    P = P.tocsr().astype(np.float64, copy=True)
    P.indptr, P.indices = P.indptr.astype(np.int64), P.indices.astype(np.int64)
    return P
