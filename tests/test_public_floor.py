"""What is public says what it takes and what it gives: in its docstring, and by type hints."""

import inspect

import pytest

from fastccpd import imaging, plots
from fastccpd.imaging import columns, comparison, metrics, scenes
from fastccpd.methods import documentation


def functions_of(module):
    """The public functions of a module that are defined in its room."""
    room = ".".join(module.__name__.split(".")[:2])
    for name, member in vars(module).items():
        if inspect.isfunction(member) and not name.startswith("_") and member.__module__.startswith(room):
            yield pytest.param(member, id=f"{module.__name__}.{name}")


FUNCTIONS = [param for module in (imaging, metrics, scenes, plots) for param in functions_of(module)]


def test_there_are_functions_to_look_at():
    assert len(FUNCTIONS) > 40


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_parameter_and_the_result_have_a_type(function):
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty, name
    assert signature.return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_parameter_and_the_result_are_documented(function):
    sections = documentation.sections(function.__doc__)
    described = documentation.entries(sections.get("Parameters", ""))
    signature = inspect.signature(function)
    kinds = inspect.Parameter.VAR_KEYWORD
    needed = [f"**{p.name}" if p.kind is kinds else p.name for p in signature.parameters.values()]
    assert list(described) == needed
    # Short ones may say all in their first line.
    assert "Returns" in sections or signature.return_annotation is None or not needed


def test_classes_list_their_attributes():
    for cls in (columns.Column, columns.Metric, comparison.Sums, scenes.Scene, scenes.Pair):
        described = documentation.entries(documentation.sections(cls.__doc__)["Attributes"])
        assert list(described) == list(cls.__annotations__), cls
