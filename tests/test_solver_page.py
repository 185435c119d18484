"""The page for packages that build on our solver: it lists what is public, and its examples run."""

import re

import pages
import pytest

from fastccpd import solver

PAGE = "solver.md"


def test_the_page_lists_exactly_what_is_public():
    table = pages.text_of(PAGE).split("##")[0]
    assert sorted(re.findall(r"^\| `(\w+)", table, flags=re.MULTILINE)) == sorted(solver.__all__)


@pytest.mark.parametrize("example", pages.examples_of(PAGE), ids=["objective", "cpd", "coupled", "regulariser"])
def test_the_example_runs(example):
    pages.run_example(example, PAGE)


def test_the_error_that_the_page_quotes_is_the_one_that_is_raised():
    with pytest.raises(TypeError) as raised:
        solver.minimize({}, 0.0)
    assert f"`{raised.value}`" in pages.text_of(PAGE)


@pytest.mark.parametrize("name", [name for name in solver.__all__ if name != "PARAMETRISATIONS"])
def test_a_public_name_is_documented_and_so_are_its_methods(name):
    thing = getattr(solver, name)
    assert len(thing.__doc__.splitlines()[0]) > 20
    if isinstance(thing, type):
        own = {key: member for key, member in vars(thing).items() if not key.startswith("_") and callable(member)}
        by_protocol = vars(solver.Regulariser)
        assert [key for key, member in own.items() if not member.__doc__ and key not in by_protocol] == []
