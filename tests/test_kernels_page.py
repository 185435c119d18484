"""The page for packages that call our kernels: it lists what is public, and its examples run."""

import inspect
import re

import numpy as np
import pages
import pytest

from fastccpd import kernels

PAGE = pages.text_of("kernels.md")
ROWS = dict(re.findall(r"^\| `(\w+)(\(.*?\))` \|", PAGE, flags=re.MULTILINE))


def test_the_page_lists_exactly_what_is_public():
    assert sorted(ROWS) == sorted(kernels.__all__)


@pytest.mark.parametrize("name", kernels.__all__)
def test_the_page_gives_the_signature_of(name):
    parameters = inspect.signature(getattr(kernels, name)).parameters.values()
    without_hints = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    assert ROWS[name] == str(inspect.Signature(without_hints))


@pytest.mark.parametrize(
    "example", pages.examples_of("kernels.md"), ids=["directly", "operators", "compiled", "tensorly", "pyttb"]
)
@pytest.mark.filterwarnings("default")  # other packages' own
def test_the_example_runs(example):
    pages.run_example(example, "kernels.md")


def test_the_error_that_the_page_quotes_is_the_one_that_is_raised():
    factors = [np.ones((n, 2)) for n in (5, 4, 3)]
    with pytest.raises(ValueError) as raised:
        kernels.mttkrp(np.ones((5, 4, 3)), factors, 3)
    assert f"`{raised.value}`" in PAGE


@pytest.mark.parametrize("name", ["mttkrp", "mttkrp_all", "residual_norm2"])
def test_tensors_of_other_dtypes_and_orders_are_refused_as_the_page_says(name):
    factors = [np.ones((n, 2)) for n in (5, 4, 3)]
    call = getattr(kernels, name)
    extra = (0,) if name == "mttkrp" else ()
    with pytest.raises(TypeError, match="^tensor: got int64; "):
        call(np.ones((5, 4, 3), np.int64), factors, *extra)
    with pytest.raises(ValueError, match="^tensor: .* not in C order; "):
        call(np.asfortranarray(np.ones((5, 4, 3))), factors, *extra)


def test_read_only_inputs_in_any_order_are_welcome_and_left_alone():
    rng = np.random.default_rng(0)
    tensor, factors = rng.random((5, 4, 3)), [np.asfortranarray(rng.random((n, 2))) for n in (5, 4, 3)]
    before = [array.copy() for array in (tensor, *factors)]
    for array in (tensor, *factors):
        array.flags.writeable = False
    kernels.mttkrp_all(tensor, factors)
    kernels.hadamard_gram(factors)
    kernels.jtj_apply(factors, factors)
    kernels.reconstruct(factors)
    kernels.residual_norm2(tensor, factors)
    kernels.operator_apply(np.ones((2, 5)), factors[0])
    for array, copy in zip((tensor, *factors), before, strict=True):
        np.testing.assert_array_equal(array, copy)
