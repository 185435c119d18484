"""Kernels beside their rivals, timed by `pytest -n 0 --benchmark-enable --benchmark-only tests/benchmarks`."""

import asv_folder
import numpy as np
import pytest

rivals = asv_folder.module("benchmarks.rivals")

SHAPES = [name for name in rivals.SHAPES if "1024" not in name]
ANSWERS = [way for way in rivals.THREE_MODES if way != "two bare GEMMs"]


def call_of(benchmark, way, shape):
    """The call that this way makes of the shape, and its data."""
    if way in ("tensorly", "pyttb"):
        pytest.importorskip(way, exc_type=ImportError)
    benchmark.group = f"three MTTKRPs, {shape}"
    case = rivals.tensor_and_factors(rivals.SHAPES[shape])
    return rivals.THREE_MODES[way](*case), case


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ANSWERS)
def test_three_mttkrps(benchmark, shape, way):
    call, case = call_of(benchmark, way, shape)
    for result, reference in zip(benchmark(call), rivals.khatri_rao_gemm(*case), strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_two_bare_gemms(benchmark, shape):
    call, (Y, factors) = call_of(benchmark, "two bare GEMMs", shape)
    first, second = benchmark(call)
    assert first.size == Y.shape[0] * Y.shape[1] * factors[0].shape[1]
    assert second.shape == factors[2].shape


@pytest.mark.parametrize("shape", list(rivals.HESSP_SHAPES))
@pytest.mark.parametrize("way", ["fastccpd", "numpy"])
def test_hessian_product(benchmark, shape, way):
    objective, z = rivals.objective_at_a_point(*rivals.HESSP_SHAPES[shape])
    call = objective.hessp if way == "fastccpd" else rivals.numpy_hessp(objective)
    benchmark.group = f"H z, {shape}"
    result = benchmark(call, z)
    np.testing.assert_allclose(result, rivals.numpy_hessp(objective)(z), rtol=1e-9, atol=1e-9 * np.abs(result).max())
