"""Images and operators in units far from one: the same image in those units, or a refusal, never nonsense."""

import warnings

import numpy as np
import pytest

from fastccpd import Degradation, fuse, methods
from fastccpd.testing import small_case, small_instance
from fastccpd.testing.running import briefly

FAR = [
    ("float32", 1e-28),
    ("float32", 1e-20),
    ("float32", 1e20),
    ("float32", 1e28),
    ("float64", 1e-145),
    ("float64", 1e145),
]


@pytest.mark.parametrize(("dtype", "unit"), FAR)
@pytest.mark.parametrize("name", methods.names())
def test_units_far_from_one_give_the_image_in_those_units(name, dtype, unit):
    *images, degradation = small_case(noise=0.05)
    method = briefly(small_instance(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = fuse(*(image.astype(dtype) for image in images), degradation, method=method)
        far = fuse(*((image * unit).astype(dtype) for image in images), degradation, method=method)
    assert far.sri.dtype == dtype
    apart = np.linalg.norm(far.sri / unit - near.sri) / np.linalg.norm(near.sri)
    assert apart < (1e-2 if dtype == "float32" else 1e-6)
    assert 0.0 < far.cost < np.inf
    assert far.status is near.status


@pytest.mark.parametrize("weight", [1e-29, 1e-15, 1e15, 1e29])
@pytest.mark.parametrize("operator", ["P1", "PM"])
@pytest.mark.parametrize("name", ["stereo", "nn-ccpd-nls", "scott"])
def test_operators_of_any_weight_end_without_a_warning_and_finite_or_not_converged(name, operator, weight):
    hsi, msi, degradation = small_case(noise=0.05)
    operators = {part: getattr(degradation, part) for part in ("P1", "P2", "PM")}
    operators[operator] = operators[operator] * weight
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "rank: .* entries of a core", UserWarning)
        result = fuse(hsi, msi, Degradation(**operators), method=briefly(small_instance(name), 10))
    assert np.isfinite(result.sri).all() or not result.converged
