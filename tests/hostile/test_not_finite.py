"""What is not finite, in the images or in a result, is a status: no exception, no warning, never converged."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fastccpd import Degradation, Status, fuse, methods
from fastccpd.methods import Method, Solution
from fastccpd.model.problem import Factors, Maps, Mixture
from fastccpd.model.result import Trace
from fastccpd.testing import small_case, small_instance


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1], ids=["hsi", "msi"])
@pytest.mark.parametrize("name", methods.names())
def test_images_that_are_not_finite_end_in_a_status_where_nobody_looked(name, which, value):
    *images, degradation = small_case()
    images[which][2, 3, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = fuse(*images, degradation, method=small_instance(name), check_finite=False)
        assert result.status is Status.NOT_FINITE
        assert not result.converged
        assert result.sri.shape == degradation.sri_shape
        assert not np.isfinite(result.sri).any()
        assert (result.n_iter, len(result.trace)) == (0, 1)


@pytest.mark.parametrize("name", methods.names())
def test_images_beyond_what_can_be_squared_end_in_a_status_where_nobody_looked(name):
    hsi, msi, degradation = small_case()
    result = fuse(hsi * 1e200, msi * 1e200, degradation, method=small_instance(name), check_finite=False)
    assert result.status is Status.NOT_FINITE


@pytest.mark.parametrize("name", methods.names())
@pytest.mark.parametrize("dark", ["hsi", "msi", "both"])
def test_a_dark_image_is_fused_without_a_warning(name, dark):
    hsi, msi, degradation = small_case(noise=0.05)
    hsi, msi = hsi * (dark == "msi"), msi * (dark == "hsi")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "rank: .* are not determined", UserWarning)  # which is true of SCOTT's core
        result = fuse(hsi, msi, degradation, method=small_instance(name))
    assert np.isfinite(result.sri).all()


def test_ranks_chosen_on_dark_images_are_not_called_worse_than_dark():
    hsi, msi, degradation = small_case()
    result = fuse(0.0 * hsi, 0.0 * msi, degradation, method="nn-ccpd-nls", rank="auto", compress="auto", rng=0)
    assert result.status is not Status.WORSE_THAN_DARK


@dataclass(frozen=True, kw_only=True)
class Broken(Method):
    """Gives what it is told to and calls it converged; the `good_from`-th start is the first without a flaw."""

    flaw: str = "cost"
    good_from: int = 10

    has_starts: ClassVar[bool] = True
    count: ClassVar[list] = []

    def solve(self, problem, *, rng, callback=None, time_limit=None):
        self.count.append(1)
        flaw = self.flaw if len(self.count) < self.good_from else ""
        I, J, K = problem.sri_shape
        cost = np.nan if flaw == "cost" else float(len(self.count))
        parts = {
            "image": {"image": np.ones((I, J, K))},
            "factors": {"factors": Factors(np.ones((I, 2)), np.ones((J, 2)), np.ones((K, 2)))},
            "maps": {"maps": Maps(np.ones((I, J, 2)), np.ones((K, 2)))},
            "mixture": {"image": Mixture(np.ones((I, J, 2)), np.ones((K, 2)))},
            "overflow": {"image": Mixture(np.ones((I, J, 2)), np.ones((K, 2)))},
        }
        part = parts.get(self.flaw, parts["image"])
        if flaw == "image":
            part["image"][1, 2, 3] = np.inf
        elif flaw == "factors":
            part["factors"].C[1, 1] = np.nan
        elif flaw == "maps":
            part["maps"].Z[3, 4, 0] = -np.inf
        elif flaw == "mixture":
            part["image"].S[2, 1] = np.nan
        elif flaw == "overflow":  # Z and S are finite
            part["image"].Z[3, 4, 0], part["image"].S[5, 0] = 1e200, 1e200
        trace = Trace()
        trace.append_cost(cost, 0, 0.0)
        return Solution(status=Status.COST_SETTLED, cost=cost, n_iter=0, trace=trace, **part)

    def memory_needed(self, hsi_shape, msi_shape, dtype):
        return 1


@pytest.fixture(autouse=True)
def from_the_first_start():
    Broken.count.clear()


@pytest.mark.parametrize("flaw", ["cost", "image", "factors", "maps", "mixture", "overflow"])
def test_a_result_with_a_value_that_is_not_finite_is_never_converged(flaw):
    result = fuse(*small_case(), method=Broken(flaw=flaw))
    assert result.status is Status.NOT_FINITE
    assert not result.converged


@pytest.mark.parametrize("flaw", ["cost", "image", "factors"])
@pytest.mark.parametrize("combine", ["best", "mean"])
def test_starts_that_are_not_finite_have_no_part_in_the_result(flaw, combine):
    result = fuse(*small_case(), method=Broken(flaw=flaw, good_from=3), starts=4, combine=combine)
    assert result.status is Status.COST_SETTLED
    assert result.cost == 3.0
    assert len(result.start_costs) == 4
    assert np.isfinite(result.sri).all()
    assert result.combined == (2 if combine == "mean" else 1)


def test_a_finite_result_keeps_its_status():
    assert fuse(*small_case(), method=Broken(flaw="image", good_from=1)).status is Status.COST_SETTLED


@pytest.mark.parametrize("name", ["gsa", "nn-ccpd-nls", "fuse-sylvester", "cnmf", "stereo"])
@pytest.mark.parametrize("operator", ["P1", "PM"])
@pytest.mark.parametrize("weight", [1e-30, 1e30])
def test_an_image_that_is_worse_than_none_is_never_converged(name, operator, weight):
    hsi, msi, degradation = small_case(noise=0.05)
    operators = {one: getattr(degradation, one) * (weight if one == operator else 1.0) for one in ("P1", "P2", "PM")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = fuse(hsi, msi, Degradation(**operators), method=small_instance(name))
    dark = 0.5 * (np.square(hsi).sum() + np.square(msi).sum())
    assert result.cost <= dark or not result.converged
    if (name, operator, weight) in {("gsa", "P1", 1e-30), ("nn-ccpd-nls", "PM", 1e-30)}:
        assert result.status is Status.WORSE_THAN_DARK


def test_only_the_part_of_the_data_that_has_weight_is_compared_with_dark():
    hsi, msi, degradation = small_case(noise=0.05)
    result = fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=3, weights=(0.0, 1.0))
    assert result.converged


@pytest.mark.parametrize("name", ["auto", "nn-ccpd-auto"])
def test_images_as_large_as_is_allowed_are_not_refused_by_a_name_that_nobody_gave(name):
    """The maps' coordinates are larger than any value of the images."""
    hsi, msi, degradation = small_case(noise=0.05)
    unit = 0.99e150 / max(hsi.max(), msi.max())
    assert np.isfinite(fuse(hsi * unit, msi * unit, degradation, method=name, rank=3, max_iter=5).sri).all()
