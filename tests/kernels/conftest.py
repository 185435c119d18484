"""Recorded launches: what every kernel is really called with, for tests that replay them."""

import numpy as np
import pytest
from fastccpd.kernels import jit
from scipy import sparse

from fastccpd import kernels


def fresh(arg):
    """A copy that is read-only where the original is."""
    if not isinstance(arg, np.ndarray):
        return arg
    copy = arg.copy()
    copy.flags.writeable = arg.flags.writeable
    return copy


def drive(dtype, shape=(90, 61, 8), hsi=(22, 15, 70), rank=13):
    """Run every kernel through the package's own front doors."""
    from fastccpd.kernels import abundances, divergence, likely_maps, maps, patches, slices, vectors
    from fastccpd.kernels.arrays import readonly
    from scenery import likely_case, small_case

    from fastccpd import Problem
    from fastccpd.estimation.map_data import compressed_rows
    from fastccpd.solver.coupled_cpd import CoupledCPD

    rng = np.random.default_rng(0)
    Y = rng.random(shape).astype(dtype)
    factors = [rng.random((n, rank)).astype(dtype) for n in shape]
    kernels.mttkrp_all(Y, factors)
    kernels.hadamard_gram(factors)
    kernels.jtj_apply(factors, factors)
    kernels.reconstruct(factors)
    kernels.residual_norm2(Y, factors)
    kernels.operator_apply(rng.random((5, shape[0])), factors[0])
    blocks = rng.random((21, rank, rank))
    kernels.block_solve(kernels.block_cholesky(blocks @ blocks.transpose(0, 2, 1)), rng.random((21, rank)))
    a, b, p, r = rng.random((4, 3 * vectors.PIECE + 21))
    vectors.dot(a, b)
    vectors.advance(0.5, a, b, p, r)
    vectors.turn(a, b, 2.0, r)
    Z = rng.standard_normal((*shape[:2], 5))
    solve_maps(dtype)
    for axis, n in enumerate(shape[:2]):
        maps.along(compressed_rows(sparse.random_array((n // 4, n), density=0.1, rng=rng)), Z, axis)
    likely_maps.predict_maps(*likely_case(dtype))
    slices.shrink(rng.standard_normal((14, 3, 32)), np.array([0, 1, 3, 6, 14]), 1.5, np.empty((14, 3, 32)))
    X, W, A = rng.random((3, 200)), rng.random((8, 3)), rng.random((8, 200))
    abundances.multiply_all(X, W, A, range(1, 4), W.T @ A, np.empty_like(A), np.zeros(4))
    Y, C, S = rng.random((38, 144)), rng.random((38, 4)), rng.random((4, 144))
    divergence.by_pixel(Y, None, C, S, np.empty((2, 4, 144)))
    divergence.by_band(Y, np.ones_like(Y), C, S, np.empty((2, 38, 4)))
    divergence.in_turn(Y, C, S, 1e-16, 0.0, np.full(4, np.inf))
    planes = readonly(rng.random((3, 12, 11)))
    patches.nearest_patches(planes, 2, 4, np.empty((7, 9, 5)), np.empty((7, 9, 5), np.int64))
    visited, path = np.zeros((8, 9), bool), np.zeros(72, np.int64)
    visited[0, 0] = True
    sizes = 2, readonly(np.array([3, 3])), 4, 0.1
    patches.greedy_path(readonly(rng.random((10, 22))), *sizes, readonly(rng.random(71)), 1, visited, path)
    X, A, index = rng.random((30, 6)), rng.random((9, 6)), rng.integers(0, 30, (17, 9), np.int32)
    patches.gathered_products(*map(readonly, (X, index, A)), np.empty((17, 6)))
    patches.scattered_products(*map(readonly, (rng.random((17, 6)), A, index)), np.zeros((30, 6)))

    _, hsi, msi, degradation = small_case(shape=(24, 20, 30), rank=3, noise=0.01)
    objective = CoupledCPD.of_problem(Problem(hsi.astype(dtype), msi.astype(dtype), degradation), rank)
    _, g = objective.cost_and_gradient(rng.random(objective.shape))
    objective.hessp(objective.precondition(g))
    walk = objective.walk()
    before = walk.begin(g)
    walk.turn(before / walk.curvature(), before)
    walk.whole(g, 1e9, 4, 1e-3)
    jit.nearly_nothing(np.zeros(3))


def solve_maps(dtype):
    """Every pass of the solution of maps, with gaps, on a grid of odd size."""
    from scenery import small_case

    from fastccpd import Problem
    from fastccpd.estimation.map_data import Blur, MapData, WhitenedImage
    from fastccpd.estimation.map_system import MapSystem

    rng = np.random.default_rng(1)
    _, hsi, msi, degradation = small_case(shape=(28, 20, 30), rank=3, noise=0.01)
    has = [rng.random(image.shape) > 0.1 for image in (hsi, msi)]
    problem = Problem(hsi.astype(dtype), msi.astype(dtype), degradation, True, *has)
    images = (
        WhitenedImage(image, np.full(image.shape[2], 0.01), valid)
        for image, valid in ((problem.hsi, problem.hsi_valid), (problem.msi, problem.msi_valid))
    )
    data = MapData(*images, Blur(degradation), degradation.PM, rng.standard_normal((30, 5)))
    system, Z = MapSystem(data), data.layout.stack(rng.standard_normal((28, 20, 5)), dtype)
    system.weigh(Z, 0.7, 0.1, 2.0)
    system.solve(Z, system.residual(Z, data.target)[1], 2, 0.1)
    direction = data.layout.zeros()
    system.solve(direction, system.residual(direction, data.target)[1], 2, 0.1)


@pytest.fixture(name="fresh", scope="session")
def fresh_fixture():
    return fresh


@pytest.fixture(scope="session")
def launches():
    """A list of (kernel, args before the call), at least one for each kernel and dtype."""
    recorded = []
    original = jit.Kernel.__call__

    def record(self, *args, **sharing):
        recorded.append((self, [fresh(arg) for arg in args]))
        return original(self, *args, **sharing)

    jit.Kernel.__call__ = record
    try:
        drive(np.float64)
        drive(np.float32)
    finally:
        jit.Kernel.__call__ = original
    return recorded
