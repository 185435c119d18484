"""The same sums by other means, each as good as its way allows; used by asv and by pytest-benchmark."""

import numpy as np

from . import genten

# Shapes (I, J, K, R) of the published targets: multispectral and hyperspectral, large and the paper's own.
SHAPES = {
    "512x512x8 R=48": (512, 512, 8, 48),
    "1024x1024x8 R=64": (1024, 1024, 8, 64),
    "128x128x200 R=48": (128, 128, 200, 48),
    "80x84x6 R=30": (80, 84, 6, 30),
    "20x21x204 R=30": (20, 21, 204, 30),
}


def tensor_and_factors(shape, dtype=np.float64):
    I, J, K, R = shape
    rng = np.random.default_rng(0)
    return rng.random((I, J, K)).astype(dtype), [rng.random((n, R)).astype(dtype) for n in (I, J, K)]


def tensorly_one_mode(Y, factors, mode):
    from tensorly.tenalg import unfolding_dot_khatri_rao

    return unfolding_dot_khatri_rao(Y, (None, factors), mode)


def khatri_rao_gemm(Y, factors):
    """Y x C once for two modes, an explicit Khatri-Rao matrix for the third: the honest BLAS version."""
    (I, J, K), (A, B, C) = Y.shape, factors
    flat = Y.reshape(I * J, K)
    T = (flat @ C).reshape(I, J, -1)
    W = (A[:, None] * B[None]).reshape(I * J, -1)
    return np.einsum("ijr,jr->ir", T, B), np.einsum("ijr,ir->jr", T, A), flat.T @ W


def _fastccpd(Y, factors):
    from fastccpd import kernels

    return lambda: kernels.mttkrp_all(Y, factors)


def _tensorly(Y, factors):
    return lambda: [tensorly_one_mode(Y, factors, mode) for mode in range(3)]


def _pyttb(Y, factors):
    import pyttb

    tensor = pyttb.tensor(Y)  # a copy in Fortran order, as pyttb keeps its data
    return lambda: [tensor.mttkrp(factors, mode) for mode in range(3)]


def _two_gemms(Y, factors):
    """Two bare matrix products of the same flops: a bound for any version built on BLAS, not an answer."""
    I, J, K = Y.shape
    flat, C = Y.reshape(I * J, K), factors[2]
    other = np.random.default_rng(1).random((I * J, C.shape[1])).astype(Y.dtype)
    return lambda: (flat @ C, flat.T @ other)


# Ways to all three MTTKRPs: each is given the tensor and the factors, and returns a call; what can be, is made ahead.
THREE_MODES = {
    "fastccpd": _fastccpd,
    "tensorly": _tensorly,
    "pyttb": _pyttb,
    "Khatri-Rao + GEMM": lambda Y, factors: lambda: khatri_rao_gemm(Y, factors),
    "two bare GEMMs": _two_gemms,
}


def ways_here():
    """All of them, and pygenten in a process of its own where it is installed."""
    return {**THREE_MODES, **({"pygenten": genten.Child} if genten.is_there() else {})}


def numpy_hessp(objective):
    """z -> H z by plain NumPy at the objective's linearisation point, with all that does not depend on z made ahead."""
    hsi, msi = objective.terms
    P1, P2, PM = (P.toarray() for P in (*hsi.operators[:2], msi.operators[2]))
    x, slope, diagonal = objective._here.x, objective._slope, objective._diagonal
    m0, m1, m2 = objective.modes
    u = np.square(x)
    images = []
    for U in ([P1 @ u[m0], P2 @ u[m1], u[m2]], [u[m0], u[m1], PM @ u[m2]]):
        S = [f.T @ f for f in U]
        images.append((U, S, [S[1] * S[2], S[0] * S[2], S[0] * S[1]]))

    def lifted(image, T):
        U, S, Q = image
        X = [t.T @ f for t, f in zip(T, U)]
        return (
            T[0] @ Q[0] + U[0] @ (X[1] * S[2] + X[2] * S[1]),
            T[1] @ Q[1] + U[1] @ (X[0] * S[2] + X[2] * S[0]),
            T[2] @ Q[2] + U[2] @ (X[0] * S[1] + X[1] * S[0]),
        )

    def hessp(z):
        t = slope * z
        T = t[m0], t[m1], t[m2]
        H0, H1, H2 = lifted(images[0], (P1 @ T[0], P2 @ T[1], T[2]))
        M0, M1, M2 = lifted(images[1], (T[0], T[1], PM @ T[2]))
        return slope * np.vstack([P1.T @ H0 + M0, P2.T @ H1 + M1, H2 + PM.T @ M2]) + diagonal * z

    return hessp


# (SRI shape, HSI pixels, rank): Salinas and Indian Pines as the paper uses them.
HESSP_SHAPES = {
    "80x84x204 / 20x21 R=30": ((80, 84, 204), 30),
    "144x144x200 / 36x36 R=60": ((144, 144, 200), 60),
}


def objective_at_a_point(shape, rank):
    """(objective, z) linearised at a random point of a synthetic problem."""
    from fastccpd import Problem
    from fastccpd.imaging import degrade, preset
    from fastccpd.solver.coupled_cpd import CoupledCPD

    rng = np.random.default_rng(0)
    degradation = preset("stereo", shape)
    hsi, msi = degrade(rng.random(shape), degradation)
    objective = CoupledCPD.of_problem(Problem(hsi, msi, degradation), rank)
    objective.cost_and_gradient(rng.uniform(0.3, 1.0, objective.shape))
    return objective, rng.standard_normal(objective.shape)
