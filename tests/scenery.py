"""Small problems for tests: periodic Gaussian blur, averaged bands, the golden problem."""

import tracemalloc

import numpy as np

from fastccpd import Degradation, Problem, fuse
from fastccpd.imaging import add_noise, degrade, metrics, preset, scenes


def blur(n, ratio=4, phase=3):
    """Dense (n // ratio, n): nine Gaussian taps, periodic."""
    sigma = ratio / np.sqrt(8 * np.log(2))
    taps = np.exp(-0.5 * (np.arange(-4, 5) / sigma) ** 2)
    P = np.zeros((n // ratio, n))
    for row in range(n // ratio):
        for tap, offset in zip(taps / taps.sum(), range(-4, 5)):
            P[row, (phase + row * ratio + offset) % n] += tap
    return P


def band_means(bands, groups):
    """Dense (groups, bands): means of runs of bands of nearly equal length."""
    P = np.zeros((groups, bands))
    for row, members in enumerate(np.array_split(np.arange(bands), groups)):
        P[row, members] = 1.0 / len(members)
    return P


def low_rank_scene(shape, rank, seed):
    rng = np.random.default_rng(seed)
    return np.einsum("ir,jr,kr->ijk", *(rng.random((n, rank)) for n in shape))


def observe(sri, P1, P2, PM):
    return np.einsum("ai,ijk,bj->abk", P1, sri, P2, optimize=True), sri @ PM.T


def small_case(shape=(24, 20, 30), bands=5, rank=3, seed=0, noise=0.0):
    """(scene, hsi, msi, degradation)."""
    P1, P2, PM = blur(shape[0]), blur(shape[1]), band_means(shape[2], bands)
    sri = low_rank_scene(shape, rank, seed)
    hsi, msi = observe(sri, P1, P2, PM)
    rng = np.random.default_rng(seed + 1000)
    hsi = hsi + noise * rng.standard_normal(hsi.shape)
    msi = msi + noise * rng.standard_normal(msi.shape)
    return sri, hsi, msi, Degradation(P1, P2, PM)


def rsnr(estimate, reference):
    return 10 * np.log10(np.sum(reference**2) / np.sum((estimate - reference) ** 2))


class Golden:
    """The problem without random numbers of which two independent scripts know the answers."""

    shape, rank = (12, 10, 8), 3

    def __init__(self):
        def g(n, a, b):
            i, r = np.arange(1, n + 1)[:, None], np.arange(1, self.rank + 1)[None]
            return 0.7 + 0.5 * np.sin(a * i * r + b)

        P1, P2 = (np.kron(np.eye(n // 2), [[0.5, 0.5]]) for n in (12, 10))
        PM = np.zeros((3, 8))
        PM[0, :3], PM[1, 3:5], PM[2, 5:] = 1 / 3, 1 / 2, 1 / 3
        truth = np.einsum("ir,jr,kr->ijk", g(12, 1, 0.3) ** 2, g(10, 0.9, 1.1) ** 2, g(8, 1.3, 0.5) ** 2)
        hsi, msi = observe(truth, P1, P2, PM)
        hsi += (0.05 * np.sin(0.37 * np.arange(1, hsi.size + 1))).reshape(hsi.shape, order="F")
        msi += (0.05 * np.cos(0.53 * np.arange(1, msi.size + 1))).reshape(msi.shape, order="F")
        self.problem = Problem(hsi, msi, Degradation(P1, P2, PM))
        self.x0 = np.vstack([g(12, 0.7, 0.9), g(10, 1.2, 0.2), g(8, 0.8, 1.7)])
        line = np.sin(np.arange(1, 91))
        parts = np.split(line, [36, 66])
        self.z = np.vstack([part.reshape(-1, 3, order="F") for part in parts])


def grid(*shape):
    """The index along each axis of an array of this shape, counted from zero."""
    return np.meshgrid(*map(np.arange, shape), indexing="ij")


def sine_problem():
    """Another one without random numbers: 6×5×7, odd sizes, dense operators, images that fit no scene."""

    def bell(rows, columns):
        a, i = grid(rows, columns)
        return 1.0 / (1.0 + (i - 2.0 * a) ** 2)

    a, b, k = grid(3, 2, 7)
    i, j, m = grid(6, 5, 3)
    hsi, msi = 2.0 + np.sin(a + 2 * b + 3 * k), 2.0 + np.cos(2 * i + 3 * j + m)
    return Problem(hsi, msi, Degradation(bell(3, 6), bell(2, 5), bell(3, 7)))


def noisy_salinas(folder, draws=5):
    """(scene, problem, generator) for each noise draw at 5 dB, "stereo" degradation, landsat bands."""
    cube = scenes.load("salinas-a", folder).cube
    degradation = preset("stereo", cube.shape)
    clean = degrade(cube, degradation)
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        yield cube, Problem(*(add_noise(image, 5.0, rng) for image in clean), degradation), rng


def median_on_noisy_salinas(folder, method):
    """The median R-SNR of a method's images over the draws of `noisy_salinas`."""
    figures = []
    for cube, problem, _ in noisy_salinas(folder):
        sri = fuse(problem.hsi, problem.msi, problem.degradation, method=method).sri
        figures.append(metrics.rsnr(sri, cube))
    return np.median(figures)


def clean_indian_pines(folder):
    """(scene, problem) of the published comparisons: "scott" degradation, no noise."""
    cube = scenes.load("indian-pines", folder, crop_to=4).cube
    degradation = preset("scott", cube.shape)
    return cube, Problem(*degrade(cube, degradation), degradation)


def peak_bytes(function, *arguments):
    """The most that a call has allocated at one time."""
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_memory_estimate_is_close(method, problem):
    """What a second run allocates lies between half the estimate and the estimate."""
    method.solve(problem, rng=np.random.default_rng(0))
    tracemalloc.start()
    try:
        method.solve(problem, rng=np.random.default_rng(0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= method.memory_needed(problem.hsi.shape, problem.msi.shape, problem.dtype) <= 2 * peak


def likely_case(dtype):
    """What `predict_maps` is called with: a few rows of a grid of odd size, and coarse pixels in two blocks."""
    from fastccpd.kernels.arrays import readonly

    from fastccpd.estimation.map_system import Layout

    rng, layout = np.random.default_rng(2), Layout(13, 19, 5)
    Z, out = (layout.stack(rng.standard_normal((13, 19, 5)), dtype) for _ in range(2))
    windows = np.array([(0, 3)] * 6 + [(1, 4)] * 7)
    blocks = np.array([(0, 11, 0, 4), (11, 19, 1, 5)])
    features, known = rng.standard_normal((4, 5, 5)).astype(np.float32), rng.random((4, 5)) > 0.2
    models = rng.standard_normal((4, 5, 6, 2)).astype(np.float32)
    given = rng.standard_normal((5, 3)), np.full(2, 0.1), rng.random(13 + 19), windows, blocks, rng.random(5)
    given = *given, features, known, models, np.array([3, 1])
    return 2, 12, layout.shape, readonly(Z), *map(readonly, given), out
