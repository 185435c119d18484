"""Operators of weights far from one; units of the images are looked at by the conformance suite."""

import warnings

import numpy as np
import pytest

from fastccpd import Degradation, fuse
from fastccpd.testing import small_case, small_instance
from fastccpd.testing.running import briefly


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
