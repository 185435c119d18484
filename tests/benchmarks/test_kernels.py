"""Kernels beside their rivals, timed by `pytest --benchmark-enable --benchmark-only tests/benchmarks`."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

_FILE = Path(__file__).parents[2] / "asv_bench" / "benchmarks" / "rivals.py"
_SPEC = importlib.util.spec_from_file_location("rivals", _FILE)
rivals = importlib.util.module_from_spec(_SPEC)
sys.modules["rivals"] = rivals
_SPEC.loader.exec_module(rivals)

SHAPES = [name for name in rivals.SHAPES if "1024" not in name]
WAYS = {
    "fastccpd": rivals.ours,
    "khatri-rao + gemm": rivals.khatri_rao_gemm,
    "tensorly": rivals.tensorly_three_modes,
    "pyttb": rivals.pyttb_three_modes,
}


def needs(way):
    if way in ("tensorly", "pyttb"):
        pytest.importorskip(way, exc_type=ImportError)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_three_mttkrps(benchmark, shape, way):
    needs(way)
    Y, factors = rivals.tensor_and_factors(rivals.SHAPES[shape])
    benchmark.group = f"three MTTKRPs, {shape}"
    results = benchmark(WAYS[way], Y, factors)
    for result, reference in zip(results, rivals.khatri_rao_gemm(Y, factors), strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_two_bare_gemms(benchmark, shape):
    Y, factors = rivals.tensor_and_factors(rivals.SHAPES[shape])
    benchmark.group = f"three MTTKRPs, {shape}"
    first, second = benchmark(rivals.TwoGemms(Y, factors), Y, factors)
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
