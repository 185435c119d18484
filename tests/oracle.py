"""The slow truth, written from the definitions: no kernel of the package is used here."""

import math

import numpy as np


def khatri_rao(B, C):
    """(J, R), (K, R) -> (J K, R): row (j, k) is B[j] * C[k]."""
    return np.stack([np.kron(B[:, r], C[:, r]) for r in range(B.shape[1])], axis=1)


def unfold(Y, mode):
    """(I, J, K) -> (I_mode, product of the others, in order)."""
    return np.moveaxis(Y, mode, 0).reshape(Y.shape[mode], -1)


def mttkrp(Y, factors, mode):
    others = [f for n, f in enumerate(factors) if n != mode]
    return unfold(Y, mode) @ khatri_rao(*others)


def cp_tensor(A, B, C):
    total = np.zeros((len(A), len(B), len(C)))
    for r in range(A.shape[1]):
        total += np.multiply.outer(np.multiply.outer(A[:, r], B[:, r]), C[:, r])
    return total


def cp_jacobian(factors):
    """Dense d vec[[A, B, C]] / d (vec A, vec B, vec C), every vec row by row."""
    columns = []
    for mode in range(3):
        for i in range(factors[mode].shape[0]):
            for r in range(factors[mode].shape[1]):
                unit = [f[:, r : r + 1] for f in factors]
                unit[mode] = np.zeros((factors[mode].shape[0], 1))
                unit[mode][i] = 1.0
                columns.append(cp_tensor(*unit).ravel())
    return np.array(columns).T


def stacked_operator(P0, P1, P2, rank):
    """The dense matrix that maps vec of stacked (A; B; C), row by row, to that of (P0 A; P1 B; P2 C)."""
    blocks = [np.kron(P, np.eye(rank)) for P in (P0, P1, P2)]
    out = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)))
    row = column = 0
    for block in blocks:
        out[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return out


def seen_tensor_and_jacobian(operators, factors):
    """[[P0 A, P1 B, P2 C]] and its dense Jacobian by the stacked factors."""
    seen = [P @ factor for P, factor in zip(operators, factors, strict=True)]
    return cp_tensor(*seen), cp_jacobian(seen) @ stacked_operator(*operators, factors[0].shape[1])


def conjugate_step(alpha, d, Hd, p, r):
    """p and r after a step along d."""
    return p + alpha * d, r + alpha * Hd


def conjugate_turn(r, y, before, d):
    """<r, y>, exactly rounded, and the next direction."""
    ry = math.fsum((r * y).ravel())
    return ry, ry / before * d - y


def differences(I, J):
    """Dense (I J, I J) matrices: a map, row by row, to its differences down and to the right, 0 at the border."""
    down, right = np.eye(I, k=1) - np.eye(I), np.eye(J, k=1) - np.eye(J)
    down[-1], right[-1] = 0.0, 0.0
    return np.kron(down, np.eye(J)), np.kron(np.eye(I), right)


def steps(Z, rounding):
    """sqrt(|D Z|² + rounding²), pixel by pixel."""
    I, J, P = Z.shape
    squares = sum(np.square(D @ Z.reshape(-1, P)).sum(axis=1) for D in differences(I, J))
    return np.sqrt(squares + rounding**2).reshape(I, J)


def edge_price(y, knee):
    """What a step of length y costs."""
    return 2.0 * knee * (np.sqrt(1.0 + y / knee) - 1.0)


def curvature(Z, kinds, grams, weights):
    """(blockdiag(grams) + D' W D) Z, by one dense matrix over pixels and maps."""
    I, J, P = Z.shape
    smooth = sum(D.T @ np.diag(weights.ravel()) @ D for D in differences(I, J))
    H = np.kron(smooth, np.eye(P))
    for n, kind in enumerate(kinds.ravel()):
        H[n * P : (n + 1) * P, n * P : (n + 1) * P] += grams[kind]
    return (H @ Z.ravel()).reshape(Z.shape)


def maps_model(P1, P2, F, R, hsi_valid, msi_valid):
    """The dense matrix from maps, pixel after pixel, to the data there are, HSI then MSI, over their noise."""
    hsi = np.kron(np.kron(P1, P2), F)
    msi = np.kron(np.eye(P1.shape[1] * P2.shape[1]), R)
    return np.vstack([hsi[hsi_valid.ravel()], msi[msi_valid.ravel()]])


def shrunk_slices(T, sizes, threshold):
    """Complex patches (n, p, frequencies) in clusters of `sizes`: σ becomes (σ + sqrt(σ² − threshold))/2, or 0."""
    shrunk = []
    for cluster in np.split(T, np.cumsum(sizes)[:-1]):
        left, sigma, right = np.linalg.svd(np.moveaxis(cluster, 2, 0), full_matrices=False)
        sigma = [[0.5 * (v + np.sqrt(v * v - threshold)) if v * v > threshold else 0.0 for v in row] for row in sigma]
        shrunk.append(np.moveaxis((left * np.array(sigma)[:, None]) @ right, 0, 2))
    return np.concatenate(shrunk)


def multiplied_abundances(X, W, A):
    """A * (W X) / (W W'A), pixel by pixel, and the squared misfit of all bands but the last; 0/0 is 0."""
    new = np.zeros_like(A)
    for n in range(A.shape[1]):
        growth, decay = W @ X[:, n], W @ (W.T @ A[:, n])
        new[:, n] = [a * g / d if d > 0.0 else 0.0 for a, g, d in zip(A[:, n], growth, decay)]
    return new, np.sum((W.T @ new - X)[:-1] ** 2)


def pulls_of_divergence(Y, valid, C, S):
    """Of the weights of the divergence for β = 3/2: (C'W⁻, C'W⁺), (W⁻S', W⁺S'), and what the model adds to it."""
    X = C @ S
    minus, plus = Y * X**-0.5 * valid, X**0.5 * valid
    return (C.T @ minus, C.T @ plus), (minus @ S.T, plus @ S.T), np.sum(valid * (X**1.5 / 1.5 - 2.0 * Y * X**0.5))


def updated_factors(Y, C, S, steps):
    """C and S after steps of both, for β = 3/2, and the squared misfit after each."""
    misfits = []
    for _ in range(steps):
        (_, _), (minus, plus), _ = pulls_of_divergence(Y, 1.0, C, S)
        C = C * minus / plus
        (minus, plus), (_, _), _ = pulls_of_divergence(Y, 1.0, C, S)
        S = S * minus / plus
        misfits.append(np.sum((Y - C @ S) ** 2))
    return C, S, misfits


def ratio(result, reference, terms):
    """A LAPACK-style error: |result - reference| over eps * (number of terms) * |reference|."""
    eps = np.finfo(result.dtype).eps
    norm = np.abs(reference).max()
    return float(np.abs(result - reference).max() / (eps * max(1, terms) * norm)) if norm > 0 else 0.0


def taylor_slope(objective, x, d):
    """The order with which the error of the linear model at x vanishes along d: 2, if the gradient is right."""
    f, g = objective.cost_and_gradient(x)
    steps = np.logspace(-1.5, -4.5, 7)
    errors = [abs(objective.cost(x + h * d) - f - h * np.sum(g * d)) for h in steps]
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


class Pull:
    """½w‖v − 1‖²: a regulariser as a third party would write it, no class of ours, no registration."""

    space = "factors"

    def __init__(self, weight):
        self.weight = weight

    def __repr__(self):
        return f"{type(self).__name__}({self.weight})"

    def value(self, v):
        return 0.5 * self.weight * float(np.sum((v - 1.0) ** 2))

    def gradient(self, v):
        return self.weight * (v - 1.0)

    def hessp(self, v, z):
        return self.weight * z

    def diagonal(self, v):
        return np.full((1, v.shape[1]), self.weight)
