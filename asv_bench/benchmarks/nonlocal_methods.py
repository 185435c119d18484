"""NSSR and NCTCP beside plain NumPy twins of their definitions, on one thread. Run by asv; tests use the twins too.

The twins are written as the methods are described, bands by pixels, every patch made: what one would write first, with
the same exact solve for the scene, the same factorisations, and random numbers drawn in the same order.
"""

import time

import numba
import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from fastccpd import Problem
from fastccpd.methods import NCTCP, NSSR

from .fusion import observed


def nssr(problem, options, rng):
    """The image of NSSR with its `options`; their scale is given."""
    P1, P2, PM = (getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
    (I, J, K), eta1, eta2, mu = problem.sri_shape, options.eta1, options.eta2, options.mu
    H, M = (image.reshape(-1, image.shape[2]).T / options.scale for image in (problem.hsi, problem.msi))
    W = nonlocal_means(problem.msi * (255.0 / options.scale), options)
    D = dictionary(H, options.rank, rng)
    D0, a = PM @ D, D.shape[1]
    A, S, V2 = (np.zeros((a, I * J)) for _ in range(3))
    Z, U, V1 = (np.zeros((K, I * J)) for _ in range(3))
    back = adjoint(P1, P2, H)
    for _ in range(options.max_iter):
        rhs = D0.T @ M + eta1 * D.T @ U + D.T @ (mu * Z - V1 / 2) + mu * S + V2 / 2
        A = np.linalg.solve(D0.T @ D0 + (eta1 + mu) * D.T @ D + mu * np.eye(a), rhs)
        Z = exact(P1, P2, back + mu * D @ A + V1 / 2, 1.0, mu)
        S = np.maximum(A - V2 / (2 * mu) - eta2 / (2 * mu), 0.0)
        V2 = V2 + mu * (S - A)
        V1 = V1 + mu * (D @ A - Z)
        U = (W @ Z.T).T
        mu *= options.growth
    return options.scale * (Z if options.output == "image" else D @ S).T.reshape(I, J, K)


def adjoint(P1, P2, H):
    """P'H for bands by pixels."""
    return (P1.T @ H.reshape(-1, len(P1), len(P2)) @ P2).reshape(len(H), -1)


def exact(P1, P2, B, c, mu):
    """(c P'P + μI) Z = B, for bands by pixels."""
    (_, a, V1), (_, b, V2) = (np.linalg.svd(P, full_matrices=False) for P in (P1, P2))
    powers = c * np.outer(a**2, b**2)
    B = B.reshape(len(B), P1.shape[1], P2.shape[1])
    return ((B - V1.T @ ((V1 @ B @ V2.T) * (powers / (powers + mu))) @ V2) / mu).reshape(len(B), -1)


def sparse_codes(D, X, lam=1e-3, mu=5e-3):
    """B ≥ 0 of ‖X − DB‖² + λ‖B‖₁ after 100 iterations of ADMM."""
    B, V = np.zeros((2, D.shape[1], X.shape[1]))
    values, vectors = np.linalg.eigh(D.T @ D)
    for _ in range(100):
        S = vectors @ ((vectors.T @ (D.T @ X + mu * B - V / 2)) / (values + mu)[:, None])
        B = np.maximum(S + V / (2 * mu) - lam / (2 * mu), 0.0)
        V = V + mu * (S - B)
        mu *= 1.07
    return B


def dictionary(X, atoms, rng):
    """Ten rounds over all atoms, from random pixels."""
    D = np.maximum(X[:, rng.choice(X.shape[1], min(atoms, X.shape[1]), replace=False)], 0.0)
    D /= np.linalg.norm(D, axis=0)
    for _ in range(10):
        B = sparse_codes(D, X)
        R = X - D @ B
        for k in range(D.shape[1]):
            if B[k].any():
                d = np.maximum(D[:, k] + R @ B[k] / (B[k] @ B[k]), 0.0)
                d /= max(np.linalg.norm(d), 1.0)
                R -= np.outer(d - D[:, k], B[k])
                D[:, k] = d
    return D


def nonlocal_means(msi, options):
    """W (N, N), from all distances of the window by shifts and 3×3 box sums."""
    I, J, bands = msi.shape
    reach, padded = options.reach, np.pad(msi[:, :, : options.bands], ((1, 1), (1, 1), (0, 0)), mode="symmetric")
    shifts = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1) if (i, j) != (0, 0)]
    distances = np.full((I, J, len(shifts)), np.inf)
    for n, (i, j) in enumerate(shifts):
        if abs(i) < I and abs(j) < J:
            here = np.s_[max(0, -i) : I - max(0, i), max(0, -j) : J - max(0, j)]
            one = padded[max(0, -i) : I + 2 - max(0, i), max(0, -j) : J + 2 - max(0, j)]
            two = padded[max(0, i) : I + 2 + min(0, i), max(0, j) : J + 2 + min(0, j)]
            squares = np.square(one - two).sum(axis=2)
            rows = squares[:-2] + squares[1:-1] + squares[2:]
            distances[here][..., n] = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
    distances = distances.reshape(I * J, -1) / (9 * bands)
    others = min(options.neighbours - 1, len(shifts))
    nearest = np.argpartition(distances, others - 1, axis=1)[:, :others]
    least = np.take_along_axis(distances, nearest, 1)
    offsets = np.array([i * J + j for i, j in shifts])
    columns = np.arange(I * J)[:, None] + np.hstack([np.zeros((I * J, 1), int), offsets[nearest]])
    weights = np.hstack([np.zeros((I * J, 1)), least - least.min(axis=1, keepdims=True)])
    weights = np.exp(-weights / options.decay)
    weights /= weights.sum(axis=1, keepdims=True)
    used = weights > 0.0
    rows = np.broadcast_to(np.arange(I * J)[:, None], used.shape)
    return sparse.csr_array((weights[used], (rows[used], columns[used])), (I * J, I * J))


def nctcp(problem, options, rng):
    """The image of NCTCP with its `options`, after all sweeps."""
    P1, P2, PM = (getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
    (I, J, K), lam, mu, p, R = problem.sri_shape, options.lam, options.mu, options.patch, options.rank
    scale = problem.hsi.max()
    H, msi = problem.hsi.reshape(-1, K).T / scale, problem.msi / scale
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(I * J).reshape(I, J), (p, p)).reshape(-1, p * p)
    path = greedy_path(msi, p, rng.random(len(windows)))
    groups = [windows[path[start : start + options.group]].T for start in range(0, len(path), options.group)]
    factors = [[unit(rng.random((n, R))) for n in (p * p, pixels.shape[1], K)] for pixels in groups]
    order = np.lexsort(PM.T)
    for group in factors:
        D = np.empty((len(PM), R))
        D[order] = unit(rng.random(D.shape))
        group += [D, np.zeros_like(D)]
    counts = np.bincount(windows.ravel(), minlength=I * J)[:, None]
    back = adjoint(P1, P2, H).T
    Z, Y, M = back / np.outer(P1.sum(0), P2.sum(0)).reshape(-1, 1), np.zeros((I * J, K)), msi.reshape(I * J, -1)
    r, Q = np.linalg.eigh(PM.T @ PM)
    for _ in range(options.max_iter):
        X, HT = Z + Y / mu, np.zeros_like(Z)
        for pixels, group in zip(groups, factors, strict=True):
            A, B, C, D, F = group
            x, y = X[pixels], M[pixels]
            q, S = mu * x @ C + 2 * lam * y @ D, mu * C.T @ C + 2 * lam * D.T @ D
            A = over(np.einsum("ilr,lr->ir", q, B), S * (B.T @ B))
            B = over(np.einsum("ilr,ir->lr", q, A), S * (A.T @ A))
            T, G = (A[:, None] * B[None]).reshape(-1, R), (A.T @ A) * (B.T @ B)
            e, V = np.linalg.eigh(G)
            C = x.reshape(-1, K).T @ T + PM.T @ (D + F / mu)
            C = Q @ ((Q.T @ C @ V) / (r[:, None] + e)) @ V.T
            D = np.linalg.solve(
                2 * lam * G + mu * np.eye(R), (2 * lam * y.reshape(len(T), -1).T @ T + mu * PM @ C - F).T
            )
            group[:] = A, B, C, D.T, F + mu * (D.T - PM @ C)
            np.add.at(HT, pixels.ravel(), T @ C.T)
        HT /= counts
        Z = exact(P1, P2, (2 * back + mu * HT - Y).T, 2.0, mu).T
        Y = Y + mu * (Z - HT)
        mu *= 1.01
    return scale * (Z if options.output == "image" else HT).reshape(I, J, K)


def unit(X):
    """X with columns of length one."""
    return X / np.linalg.norm(X, axis=0)


def over(rhs, gram):
    """rhs gram⁺ by a truncated `eigh`."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > len(gram) * 2.2e-16 * values[-1]
    return (rhs @ vectors[:, kept] / values[kept]) @ vectors[:, kept].T


def greedy_path(msi, p, uniforms, reach=40):
    """All p×p patches from the first one on, each among the two nearest of the window that are left."""
    bands = msi.shape[2]
    patches = np.lib.stride_tricks.sliding_window_view(msi, (p, p), axis=(0, 1))
    R, C = patches.shape[:2]
    patches, left, path = patches.reshape(R, C, -1), np.ones((R, C), bool), [0]
    left[0, 0] = False
    heat, reach = 10**0.01 * p * p * bands, max(R, C) if 2 * reach + 1 >= R else reach
    for n in range(1, R * C):
        i, j = divmod(path[-1], C)
        top, side = max(i - reach, 0), max(j - reach, 0)
        window = np.s_[top : i + reach + 1, side : j + reach + 1]
        if not left[window].any():
            top, side, window = 0, 0, np.s_[:, :]
        rows, columns = np.nonzero(left[window])
        distances = np.square(patches[window][rows, columns] - patches[i, j]).sum(axis=1)
        nearest = np.argsort(distances, kind="stable")[:2] if len(rows) > 1 else np.zeros(1, int)
        gap = distances[nearest[0]] - distances[nearest[-1]] if len(rows) > 1 else -np.inf
        k = nearest[-1] if uniforms[n] > 1 / (1 + np.exp(gap / heat)) else nearest[0]
        path.append((top + rows[k]) * C + side + columns[k])
        left[divmod(path[-1], C)] = False
    return np.array(path)


WAYS = {
    "nssr": (NSSR(scale=1.0), nssr),
    "nctcp": (NCTCP(max_iter=4, tol=0.0), nctcp),
}


class Twins:
    """A method with its default options (NCTCP with four sweeps) beside its twin, on a scene of the size of Salinas."""

    ways = WAYS
    params = (list(ways),)
    param_names = ("method",)
    timeout = 300

    def setup(self, method):
        self.options, self.twin = self.ways[method]
        _, *case = observed((80, 84, 204))
        self.problem, self.threads = Problem(*case), numba.get_num_threads()
        numba.set_num_threads(1)
        self.limits = threadpool_limits(1)
        self.time_fastccpd(method)

    def teardown(self, method):
        self.limits.restore_original_limits()
        numba.set_num_threads(self.threads)

    def time_fastccpd(self, method):
        self.options.solve(self.problem, rng=np.random.default_rng(0))

    def time_numpy(self, method):
        self.twin(self.problem, self.options, np.random.default_rng(0))

    def track_times_as_fast_as_numpy(self, method):
        seconds = []
        for run in (self.time_numpy, self.time_fastccpd):
            began = time.process_time()
            run(method)
            seconds.append(time.process_time() - began)
        return seconds[0] / seconds[1]

    track_times_as_fast_as_numpy.unit = "times"
