"""GSA, CNMF and LTMR in plain NumPy, line by line as they are defined: what the methods are measured against.

Every variable is whole, every operator dense, and nothing is kept that could be made again. The interpolation is the
package's, and so are the start of CNMF's spectra and LTMR's clusters: they are given.
"""

import numpy as np
from scipy import linalg

from fastccpd.methods._patches import Patches
from fastccpd.methods._upsampling import upsampling


def dense(problem):
    """P1, P2, PM."""
    return tuple(getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))


def gsa(problem):
    """Everything at the MSI's pixels."""
    (P1, P2, _), msi, K = dense(problem), problem.msi, problem.hsi.shape[2]
    hsi, up = problem.hsi.reshape(-1, K), upsampling(problem.degradation)
    U = np.stack([up.maps(problem.hsi[:, :, k]) for k in range(K)], axis=2)
    L = np.stack([P1 @ msi[:, :, m] @ P2.T for m in range(msi.shape[2])], axis=2).reshape(len(hsi), -1)
    owner = np.corrcoef(hsi.T, L.T)[:K, K:].argmax(axis=1)
    Z = U.copy()
    for m in range(msi.shape[2]):
        b = np.flatnonzero(owner == m)
        if not b.size:
            continue
        regressors = np.column_stack([hsi[:, b] - hsi[:, b].mean(axis=0), np.ones(len(hsi))])
        alpha = linalg.lstsq(regressors, L[:, m] - msi[:, :, m].mean())[0][:-1]
        centred = U[:, :, b] - U[:, :, b].mean(axis=(0, 1))
        predicted = centred @ alpha
        predicted -= predicted.mean()
        gains = np.tensordot(predicted, centred, 2) / np.sum(predicted**2)
        Z[:, :, b] += gains * (msi[:, :, m] - msi[:, :, m].mean() - predicted)[:, :, None]
        Z[:, :, b] += U[:, :, b].mean(axis=(0, 1)) - Z[:, :, b].mean(axis=(0, 1))
    return Z


def cnmf(problem, W, updates=200, tol=1e-8):
    """One round, in the data's own unit, from spectra W."""
    (P1, P2, PM), (I, J, K) = dense(problem), problem.sri_shape
    H, M = (np.maximum(image.reshape(-1, image.shape[2]).T, 0.0) for image in (problem.hsi, problem.msi))
    up, n, few = upsampling(problem.degradation), min(updates, 75) if len(M) == 1 else updates, len(M) <= 3
    delta2 = (2.0 * np.sqrt(M.mean() / 0.7455) / len(M) ** 3) ** 2

    def of_abundances(X, W, A):
        return W, A * (W.T @ X + delta2) / ((W.T @ W + delta2) @ A)

    def of_spectra(X, W, A):
        return W * (X @ A.T) / (W @ (A @ A.T)), A

    def phase(X, W, A, steps, most, f=None, tested=True):
        for _ in range(most):
            before = W, A
            for step in steps:
                W, A = step(X, W, A)
            now = np.sum((X - W @ A) ** 2)
            if tested and f is not None and (f - now) / now < tol:
                return *before, f
            f = now
        return W, A, f

    A = np.full((W.shape[1], H.shape[1]), 1.0 / W.shape[1])
    W, A, f = phase(H, W, A, [of_abundances], 3 * n)
    W, A, _ = phase(H, W, A, [of_spectra, of_abundances], n - 1, f)
    B = np.maximum(up.maps(A.reshape(len(A), *problem.hsi.shape[:2])).reshape(len(A), -1), 0.0)
    W_M, B, f = phase(M, PM @ W, B, [of_abundances], n, tested=False)
    W_M, B, _ = phase(M, W_M, B, [of_abundances] if few else [of_spectra, of_abundances], n - 1, f)
    A = np.stack([(P1 @ b.reshape(I, J) @ P2.T).ravel() for b in B])
    W, A, f = phase(H, W, A, [of_spectra], n)
    W, A, _ = phase(H, W, A, [of_spectra] if few else [of_abundances, of_spectra], n - 1, f)
    return (W @ B).T.reshape(I, J, K)


def ltmr(problem, labels, options, start=None):
    """`options.max_iter` iterations in the data's own unit, with given labels of the patches; (D·C, D·V)."""
    (P1, P2, PM), (I, J, K), mu = dense(problem), problem.sri_shape, options.mu
    hsi, tau = problem.hsi.reshape(-1, K), 0.5 * options.eta / mu
    D = np.linalg.svd(hsi.T, full_matrices=False)[0][:, : options.rank]
    s, Q = np.linalg.eigh((PM @ D).T @ (PM @ D))
    (_, a, V1), (_, b, V2) = (np.linalg.svd(P, full_matrices=False) for P in (P1, P2))
    squares = np.multiply.outer(a**2, b**2)[:, :, None]
    fixed = problem.msi @ (PM @ D) + np.einsum("ai,abp,bj->ijp", P1, problem.hsi @ D, P2, optimize=True)
    V = upsampling(problem.degradation).image(problem.hsi @ D) if start is None else start
    G, places = np.zeros_like(V), Patches((I, J), options.patch, options.step, order="F")
    for _ in range(options.max_iter):
        B = (fixed + mu * V + 0.5 * G) @ Q
        inside = np.einsum("ai,ijp,bj->abp", V1, B, V2, optimize=True) * (squares / (squares + s + mu))
        C = ((B - np.einsum("ai,abp,bj->ijp", V1, inside, V2, optimize=True)) / (s + mu)) @ Q.T
        patches = places.gather(C - G / (2.0 * mu))
        for k in np.unique(labels):
            slices = np.fft.rfft(patches[labels == k], axis=1).swapaxes(0, 1)
            left, sigma, right = np.linalg.svd(slices, full_matrices=False)
            sigma = np.where(sigma**2 > 4.0 * tau, 0.5 * (sigma + np.sqrt(np.maximum(sigma**2 - 4.0 * tau, 0.0))), 0.0)
            shrunk = (left * sigma[:, None]) @ right
            patches[labels == k] = np.fft.irfft(shrunk.swapaxes(0, 1), patches.shape[1], axis=1)
        V = places.average(patches)
        G = G + 2.0 * mu * (V - C)
    return C @ D.T, V @ D.T
