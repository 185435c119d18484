"""Second differences: gathered in parts as in one piece, and the median by counts as that of the values."""

import numpy as np
import pytest

from fastccpd.estimation.few_bands import magnitudes_of, second_differences


@pytest.mark.parametrize("unit", [1.0, 1e-150, 1e150])
def test_the_median_by_counts_is_that_of_the_values(unit):
    values = unit * np.random.default_rng(0).standard_normal(20_001) * np.linspace(0.1, 3.0, 20_001)
    assert magnitudes_of(values).median() == pytest.approx(np.median(np.abs(values)), rel=2e-3)


@pytest.mark.parametrize("values", [[], [0.0, 0.0, 0.0, 5.0], [3.0], [1.0, 1.0, 1.0]], ids=str)
def test_the_median_of_few_values_is_right_to_the_width_of_a_class(values):
    expected = np.median(np.abs(values)) if values else 0.0
    assert magnitudes_of(np.array(values)).median() == pytest.approx(expected, rel=0.011)


@pytest.mark.parametrize("gaps", [False, True])
def test_parts_add_up_to_the_whole(gaps):
    rng = np.random.default_rng(1)
    image, valid = rng.standard_normal((40, 31, 5)) * [1.0, 2.0, 3.0, 1e3, 0.0], np.ones((40, 31, 5), bool)
    if gaps:
        valid = rng.random(image.shape) > 0.1
    whole = second_differences(image, valid)
    # Parts share a row, so that every second difference is in one of them.
    parts = second_differences(image[:18], valid[:18]) + second_differences(image[17:], valid[17:])
    assert parts.count == whole.count
    np.testing.assert_allclose(parts.second, whole.second, rtol=1e-12)
    assert parts.bound().tobytes() == whole.bound().tobytes()
    for a, b in zip(parts.magnitudes, whole.magnitudes):
        assert (a.first, a.zeros, a.counts.tolist()) == (b.first, b.zeros, b.counts.tolist())


def test_second_differences_are_those_of_the_definition():
    image = np.random.default_rng(2).standard_normal((6, 5, 3))
    v = [
        (image[i, j] - image[i + 1, j] - image[i, j + 1] + image[i + 1, j + 1]) / 2 for i in range(5) for j in range(4)
    ]
    found = second_differences(image)
    assert found.count == 20
    np.testing.assert_allclose(found.second, sum(np.outer(d, d) for d in v), rtol=1e-12)
