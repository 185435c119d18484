"""The blur seen as one operator P = P1 ⊗ P2 on the maps of a scene, and the exact solve of (c P'P + μI) Z = B.

With thin singular value decompositions P1 = U1 diag(a) V1' and P2 = U2 diag(b) V2', made once, P'P has the eigenvalues
a_i² b_j², with eigenvectors V1 ⊗ V2, and zeros elsewhere. So, for each map,

    Z = (B − V1 [(V1' B V2) * w] V2') / μ,          w = c a²b²' / (c a²b²' + μ),

four thin products a map, for any separable operator, boundary and size. The relative error is about eps·c·max(a²b²)/μ.

Maps come as a stack (n, I, J) or as a cube (I, J, K), bands last, whichever the caller has: neither is transposed.
"""

from collections.abc import Callable

import numpy as np
from scipy import linalg

from ..estimation.map_data import compressed_rows
from ..kernels.maps import along
from ..model.types import Array
from ..threads import over_blocks


class SeparableBlur:
    """P1 and P2 of a degradation, applied to stacks of maps, and inverted together with a multiple of the identity.

    Parameters
    ----------
    degradation : Degradation

    Attributes
    ----------
    P1, P2 : (I_H, I), (J_H, J) sparse matrices
    powers : (n, m) array
        a²b²', the squared singular values of P.
    """

    def __init__(self, degradation):
        self.P1, self.P2 = degradation.P1, degradation.P2
        self._ahead = [compressed_rows(P) for P in (self.P1, self.P2)]
        self._back = [compressed_rows(P.T) for P in (self.P1, self.P2)]
        self._U1, self._a, self._V1 = _thin_svd(self.P1)
        self._U2, self._b, self._V2 = _thin_svd(self.P2)
        self.powers = np.multiply.outer(self._a**2, self._b**2)

    def see(self, maps: Array) -> Array:
        """P1 Z P2' of each map: (n, I, J) to (n, I_H, J_H)."""
        return np.stack([(self.P2 @ (self.P1 @ Z).T).T for Z in maps])

    def back(self, maps: Array) -> Array:
        """The adjoint of `see`, P1' Y P2 of each map: (n, I_H, J_H) to (n, I, J)."""
        return np.stack([(self._back[1] @ (self._back[0] @ Y).T).T for Y in maps])

    def solve(self, B: Array, mu: float | Array, c: float = 1.0, out: Array | None = None) -> Array:
        """Z of (c P'P + μI) Z = B, map by map.

        Parameters
        ----------
        B : (n, I, J) array
        mu : float or (n,) array
            Above zero; one for all maps or one for each.
        c : float
        out : (n, I, J) array, optional
            May be B itself.

        Returns
        -------
        (n, I, J) array
        """
        out = np.empty(B.shape) if out is None else out
        powers, V1_back, V2_back = c * self.powers, self._V1.T, self._V2.T
        for Z, b, mu_n in zip(out, B, np.broadcast_to(mu, len(B)), strict=True):
            inside = V1_back @ (b @ self._V2)
            inside *= powers / (powers + mu_n)
            np.subtract(b, (self._V1 @ inside) @ V2_back, out=Z)
            Z /= mu_n
        return out

    def see_cube(self, cube: Array) -> Array:
        """`see` for bands last, by kernels: (I, J, K) to (I_H, J_H, K)."""
        return along(self._ahead[1], along(self._ahead[0], cube, 0), 1)

    def back_cube(self, cube: Array) -> Array:
        """`back` for bands last, by kernels: (I_H, J_H, K) to (I, J, K)."""
        return along(self._back[0], along(self._back[1], cube, 1), 0)

    def solve_cube(self, B: Array, mu: float | Array, c: float = 1.0, out: Array | None = None) -> Array:
        """`solve` for bands last, B and `out` (I, J, K); `mu` is one for all bands or one for each, (K,)."""
        I, J, K = B.shape
        powers = c * self.powers[:, :, None]
        half = (self._V1.T @ B.reshape(I, -1)).reshape(-1, J, K)
        inside = self._V2.T @ half
        inside *= powers / (powers + mu)
        np.matmul(self._V2, inside, out=half)
        out = np.empty(B.shape) if out is None else out

        def put(rows):
            seen = self._V1[rows] @ half.reshape(len(half), -1)
            np.subtract(B[rows], seen.reshape(-1, J, K), out=out[rows])
            out[rows] /= mu

        over_blocks(put, I)
        return out

    def ridge_rows(self, Y: Array, mu: float, pulse=lambda: None) -> Callable[[slice], Array]:
        """(P'P + μI)⁻¹ P'Y for bands last, Y (I_H, J_H, K), as a function of rows: `solve_cube` of `back_cube`."""
        return self.rows_from_modes(self.modes(Y), np.sqrt(self.powers) / (self.powers + mu), pulse=pulse)

    def modes(self, Y: Array) -> Array:
        """An HSI, bands last, in the left singular vectors of P1 and P2: (I_H, J_H, K) to (n, m, K)."""
        I_H, J_H, K = Y.shape
        return self._U2.T @ (self._U1.T @ Y.reshape(I_H, -1)).reshape(-1, J_H, K)

    def from_modes(self, modes: Array, gains: Array) -> Array:
        """The scene with these coefficients, times `gains` (n, m), in the right ones: (n, m, K) to (I, J, K)."""
        return whole(self.rows_from_modes(modes, gains), (len(self._V1), len(self._V2), modes.shape[2]))

    def rows_from_modes(
        self, modes: Array, gains: Array, cols: slice | Array = slice(None), pulse=lambda: None
    ) -> Callable[[slice | Array], Array]:
        """`from_modes` of some columns, as a function of rows."""
        return rows_of_product(self._V1, self._V2[cols], modes * gains[:, :, None], pulse)

    def pseudo_inverse_cube(self, cube: Array, rtol: float = 1e-10) -> Array:
        """The least-norm Z with P Z = `cube`, P1⁺ and P2⁺ along its axes: (I_H, J_H, K) to (I, J, K).

        Singular values below `rtol` of the largest are left out.
        """
        inverses = []
        for U, s, V in ((self._U1, self._a, self._V1), (self._U2, self._b, self._V2)):
            kept = s > rtol * s.max()
            inverses.append((V[:, kept] / s[kept]) @ U[:, kept].T)
        I_H, J_H, K = cube.shape
        return inverses[1] @ (inverses[0] @ cube.reshape(I_H, -1)).reshape(-1, J_H, K)


def rows_of_product(A: Array, B: Array, core: Array, pulse=lambda: None) -> Callable[[slice | Array], Array]:
    """A C B' of each band of a core (n, m, K), bands last, as a function of rows: those of A, (rows, J, K)."""
    half = np.empty((len(core), len(B), core.shape[2]))
    over_blocks(lambda part: np.matmul(B, core[part], out=half[part]), len(core), pulse)
    flat = half.reshape(len(core), -1)
    return lambda rows: (A[rows] @ flat).reshape(-1, *half.shape[1:])


def whole(rows_of: Callable[[slice], Array], shape: tuple[int, int, int]) -> Array:
    """A cube of such a function's rows."""
    cube = np.empty(shape)

    def fill(rows):
        cube[rows] = rows_of(rows)

    over_blocks(fill, len(cube))
    return cube


def _thin_svd(P):
    """U, the singular values and V (not transposed) of a sparse matrix."""
    U, s, V_back = linalg.svd(P.toarray(), full_matrices=False, check_finite=False)
    return U, s, np.ascontiguousarray(V_back.T)
