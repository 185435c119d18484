"""NN-BTD and NNSTF beside plain NumPy twins of their definitions, on one thread. Run by asv; tests use the twins too.

The twins are written as the methods are described: whole images and their powers, every patch with all its bands, full
eigenvectors. Vertices and clusters are found as by the methods, and random numbers drawn in the same order.
"""

import numpy as np

from fastccpd.methods import NNBTDMU, NNSTF
from fastccpd.methods._kmeans import kmeans
from fastccpd.methods._patches import starts
from fastccpd.methods._tucker_group import successive_projections
from fastccpd.methods._vca import vertices

from .nonlocal_methods import Twins

EPS = np.finfo(float).eps


def nn_btd_mu(problem, options, rng):
    """The image of NN-BTD with its `options`, without a volume term, spectra of unit norm, one rank for all maps."""
    P1, P2, PM = (getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
    scale, beta, lam = np.quantile(problem.msi, 0.999), options.beta, options.lam
    H, M = np.maximum(problem.hsi / scale, 0.0), np.maximum(problem.msi / scale, 0.0)
    C = np.maximum(vertices(H.reshape(-1, H.shape[2]), options.rank, threshold="nascimento", runs=1, rng=rng), EPS)
    maps = np.linalg.lstsq(PM @ C, M.reshape(-1, M.shape[2]).T, rcond=None)[0].reshape(-1, *M.shape[:2])
    maps[maps < 0.0] = 1e-25
    A, B = (np.empty((options.rank, n, options.map_rank)) for n in M.shape[:2])
    for X, A_r, B_r in zip(maps, A, B):
        A_r[:], B_r[:] = nmf(X, rng.random(A_r.shape), rng.random(B_r.shape), beta)

    def maps_and_weights():
        S = A @ B.swapaxes(1, 2)
        S_H = P1 @ S @ P2.T
        models = np.einsum("rij,kr->ijk", S_H, C, optimize=True), np.einsum("rij,kr->ijk", S, PM @ C, optimize=True)
        minus = [Y * model ** (beta - 2.0) for Y, model in zip((H, M), models)]
        return S, S_H, zip(minus, [model ** (beta - 1.0) for model in models])

    def spatial(turn):
        _, _, pairs = maps_and_weights()
        for_H, for_M = pairs
        for W_H, W_M in zip(for_H, for_M):
            pull_H = np.einsum("abk,kr->rab", W_H, C, optimize=True)
            pull_M = np.einsum("ijk,kr->rij", W_M, PM @ C, optimize=True)
            if turn:
                yield P2.T @ (pull_H.swapaxes(1, 2) @ (P1 @ A)) + lam * pull_M.swapaxes(1, 2) @ A
            else:
                yield P1.T @ (pull_H @ (P2 @ B)) + lam * pull_M @ B

    for _ in range(options.max_iter):
        num, den = spatial(turn=False)
        A = np.maximum(A * num / den, EPS)
        num, den = spatial(turn=True)
        B = np.maximum(B * num / den, EPS)
        S, S_H, (for_H, for_M) = maps_and_weights()
        q, p = (
            np.einsum("abk,rab->kr", W_H, S_H, optimize=True)
            + lam * PM.T @ np.einsum("ijk,rij->kr", W_M, S, optimize=True)
            for W_H, W_M in zip(for_H, for_M)
        )
        C = np.maximum(C * q / p, EPS)
        C = C / np.linalg.norm(C, axis=0)
    return np.einsum("ril,rjl,kr->ijk", A, B, C * scale, optimize=True)


def nmf(X, A, B, beta, iterations=500, tolerance=1e-10):
    """A and B of a map X."""
    before = np.inf
    for _ in range(iterations):
        model = A @ B.T
        A = np.maximum(A * ((X * model ** (beta - 2.0)) @ B) / (model ** (beta - 1.0) @ B), EPS)
        model = A @ B.T
        B = np.maximum(B * ((X * model ** (beta - 2.0)).T @ A) / ((model ** (beta - 1.0)).T @ A), EPS)
        now = np.sum((X - A @ B.T) ** 2)
        if before < np.inf and before - now <= tolerance * before:
            break
        before = now
    return A, B


def nnstf(problem, options, rng):
    """The image Z of NNSTF with its `options`; their scale and clusters are given."""
    P = [getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM")]
    H, M = problem.hsi / options.scale, problem.msi / options.scale
    (I, J, K), size = problem.sri_shape, options.patch
    places = [(i, j) for i in starts(I, size, options.step) for j in starts(J, size, options.step)]

    def patches(image):
        return np.stack([image[i : i + size, j : j + size] for i, j in places])

    inverses = []
    for op in P[:2]:
        D = np.diff(np.eye(op.shape[1]), n=2, axis=0)
        inverses.append(np.linalg.solve(op.T @ op + 1e-3 * D.T @ D + 1e-9 * np.eye(op.shape[1]), op.T))
    X = Z = along_all((*inverses, np.eye(K)), H)
    seen = patches(M).reshape(len(places), -1)
    labels = kmeans(seen, options.clusters, rng)
    groups = []
    T = patches(X)
    for n in range(labels.max() + 1):
        members = np.flatnonzero(labels == n)
        alike = T[members].reshape(len(members), -1) if options.parts == "scene" else seen[members]
        groups.append((members, first_factors(T[members], alike, options.ranks, rng)))
    for _ in range(10):
        for members, model in groups:
            sweep(T[members], model, options.rho, 20)

    spectra = [np.linalg.eigh(op.T @ op) for op in P]
    (a, b, c), vectors = ([pair[n] for pair in spectra] for n in (0, 1))
    rhs = along_all((P[0].T, P[1].T, np.eye(K)), H) + M @ P[2]
    back = [V.T for V in vectors]
    for _ in range(options.max_iter):
        T = patches(X)
        total, counts = np.zeros_like(X), np.zeros((I, J, 1))
        for members, model in groups:
            sweep(T[members], model, options.rho, 5)
            for patch, (i, j) in zip(along_all(model[1:], model[0]), (places[n] for n in members)):
                total[i : i + size, j : j + size] += patch
                counts[i : i + size, j : j + size] += 1.0
        Z = total / counts
        denominator = np.multiply.outer(a, b)[:, :, None] + c + options.eta
        X = along_all(vectors, along_all(back, rhs + options.eta * Z) / denominator)
    return Z * options.scale


def along_all(matrices, X):
    """X times a matrix along each of its axes."""
    for axis, matrix in enumerate(matrices):
        X = np.moveaxis(np.tensordot(matrix, X, (1, axis)), 0, axis)
    return X


def unit(X):
    norms = np.linalg.norm(X, axis=0)
    norms[norms == 0.0] = 1.0
    return X / norms, norms


def first_factors(T, alike, ranks, rng):
    """[G, Q, U, V, W] that sweeps start from."""
    n, *size, K = T.shape
    parts = kmeans(alike, min(ranks[3], n), rng)
    U, V = (np.eye(p, r) + 0.1 * rng.random((p, r)) for p, r in zip(size, ranks))
    means = np.concatenate([T[parts == m].mean(axis=0).reshape(-1, K) for m in range(parts.max() + 1)])
    W = np.maximum(successive_projections(means, ranks[2]), 1e-6)
    factors = [unit(X)[0] for X in (np.eye(parts.max() + 1)[parts] + 1e-3, U, V, W)]
    return [np.zeros([X.shape[1] for X in factors]), *factors]


def sweep(T, model, rho, steps):
    """Core, Q, core, U, V, W, core, in place."""
    for mode in (None, 0, None, 1, 2, 3, None):
        G, *factors = model
        if mode is None:
            model[0] = core(T, G, factors, rho, steps)
            continue
        others = [np.eye(X.shape[1]) if n == mode else X for n, X in enumerate(factors)]
        axes = [n for n in range(4) if n != mode]
        part = along_all(others, G)
        rhs, gram = np.tensordot(T, part, (axes, axes)), np.tensordot(part, part, (axes, axes))
        X = factors[mode]
        for _ in range(steps):
            X = np.maximum(X - (X @ gram - rhs) / np.linalg.norm(gram, 2), 0.0)
        model[mode + 1], norms = unit(X)
        model[0] = G * np.expand_dims(norms, tuple(n for n in range(4) if n != mode))


def core(T, G, factors, rho, steps):
    grams = [X.T @ X for X in factors]
    pull = along_all([X.T for X in factors], T)
    L = np.prod([np.linalg.norm(gram, 2) for gram in grams])
    ahead, t = G, 1.0
    for _ in range(steps):
        before, G = G, np.maximum(ahead - (along_all(grams, ahead) - pull + rho) / L, 0.0)
        t, previous = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t)), t
        ahead = G + (previous - 1.0) / t * (G - before)
    return G


WAYS = {
    "nn-btd-mu": (NNBTDMU(normalise="l2", max_iter=300, tol=0.0), nn_btd_mu),
    "nnstf": (NNSTF(scale=1.0, clusters=4), nnstf),
}


class FactoredTwins(Twins):
    """NN-BTD in 300 iterations of its published form, and NNSTF as it is, on a scene of the size of Salinas."""

    ways = WAYS
    params = (list(ways),)
