"""Non-negative sparse codes, and a dictionary of non-negative spectra learnt from the pixels of an image.

The codes B of pixels X (n, K) in a dictionary D (K, a) minimise ‖X − B D'‖² + λ‖B‖₁ over B ≥ 0, by ADMM from zeros:

    S = (X D + μB − V/2)(D'D + μI)⁻¹,    B = max(S + V/(2μ) − λ/(2μ), 0),    V += μ(S − B),    μ grows,

a fixed number of iterations, pixel by pixel independent of each other. An atom d_k, with all others and the codes
fixed, is best at d_k + R'b_k/‖b_k‖², R = X − B D'; it is clipped at zero and shortened to length one where it is
longer. R'b_k = X'b_k − D (B'b_k) needs no residual, only X'B and B'B, which are small.
"""

import numpy as np
from scipy import linalg

from ..model.types import Array

_ROUNDS, _ITERATIONS = 10, 100
_LAMBDA, _MU, _GROWTH = 1e-3, 5e-3, 1.07

# Pixels that are coded together, so that what they need stays in the cache.
_BLOCK = 512


def learn_dictionary(pixels: Array, atoms: int, rng: np.random.Generator, pulse) -> Array:
    """A dictionary (K, a) of non-negative spectra, no longer than one, for pixels (n, K) of the size of one.

    It begins with distinct random pixels of unit length; where there are fewer than `atoms`, with all of them.
    """
    chosen = rng.choice(len(pixels), min(atoms, len(pixels)), replace=False)
    D = np.maximum(pixels[chosen].T, 0.0)
    D /= np.maximum(np.linalg.norm(D, axis=0), np.finfo(np.float64).tiny)
    for _ in range(_ROUNDS):
        codes = sparse_codes(pixels, D, pulse)
        improve(D, pixels.T @ codes, codes.T @ codes)
    return D


def improve(D: Array, correlations: Array, gram: Array) -> None:
    """One round over all atoms, in place, given X'B and B'B; an atom that no code uses stays as it is."""
    for k in range(D.shape[1]):
        if gram[k, k] > 0.0:
            atom = D[:, k] + (correlations[:, k] - D @ gram[:, k]) / gram[k, k]
            np.maximum(atom, 0.0, out=atom)
            D[:, k] = atom / max(np.linalg.norm(atom), 1.0)


def sparse_codes(pixels: Array, D: Array, pulse) -> Array:
    """The codes B (n, a) of pixels (n, K)."""
    values, vectors = linalg.eigh(D.T @ D, check_finite=False)
    mus = _MU * _GROWTH ** np.arange(_ITERATIONS)
    inverses = [(vectors / (values + mu)) @ vectors.T for mu in mus]
    codes = np.zeros((len(pixels), D.shape[1]))
    for start in range(0, len(pixels), _BLOCK):
        pulse()
        part = slice(start, start + _BLOCK)
        _code(pixels[part] @ D, mus, inverses, codes[part])
    return codes


def _code(projected, mus, inverses, B):
    """Fill B, zero before, with the codes of some pixels, given X D."""
    half, S, rhs = (np.zeros_like(B) for _ in range(3))  # half is V/2
    for mu, inverse in zip(mus, inverses, strict=True):
        np.multiply(B, mu, out=rhs)
        rhs -= half
        rhs += projected
        np.matmul(rhs, inverse, out=S)
        np.divide(half, mu, out=B)
        B += S
        B -= 0.5 * _LAMBDA / mu
        np.maximum(B, 0.0, out=B)
        S -= B
        S *= 0.5 * mu
        half += S
