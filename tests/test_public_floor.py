"""What is public says what it takes and what it gives: in its docstring, and by type hints."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import fastccpd
from fastccpd import api, estimation, imaging, kernels, methods, model, plots, rasters, solver, tiles
from fastccpd.imaging import columns, comparison, metrics, scenes
from fastccpd.methods import documentation


def functions_of(module):
    """The public functions of a module that are defined in its room."""
    room = ".".join(module.__name__.split(".")[:2])
    for name, member in vars(module).items():
        if inspect.isfunction(member) and not name.startswith("_") and member.__module__.startswith(room):
            yield pytest.param(member, id=f"{module.__name__}.{name}")


# Modules whose hints are still to come.
WITHOUT_HINTS = {
    "fastccpd.imaging.formulas",
    "fastccpd.methods.cbtd_apg",
    "fastccpd.methods.stereo",
}


def modules_of(room):
    """The public modules of a room. Of kernels and plots what the room itself offers: their insides have no hints."""
    names = [] if room in (kernels, plots) else [module.name for module in pkgutil.iter_modules(room.__path__)]
    yield from (importlib.import_module(f"{room.__name__}.{name}") for name in names if not name.startswith("_"))
    if not names:
        yield room


def callables_of(module):
    """The public functions of a module, and the public methods and properties of its public classes."""
    for name, member in vars(module).items():
        home = getattr(member, "__module__", "")
        if name.startswith("_") or home in WITHOUT_HINTS or not home.startswith(module.__name__):
            continue
        if inspect.isfunction(member):
            yield pytest.param(member, id=f"{module.__name__}.{name}")
        for inner, attribute in vars(member).items() if inspect.isclass(member) else ():
            attribute = getattr(attribute, "fget", None) or getattr(attribute, "__func__", attribute)
            own = inspect.isfunction(attribute) and attribute.__module__ == member.__module__
            if own and (not inner.startswith("_") or inner in ("__init__", "__call__")):
                yield pytest.param(attribute, id=f"{module.__name__}.{name}.{inner}")


ROOMS = (estimation, imaging, kernels, methods, model, plots, rasters, solver)
MODULES = [api, *(module for room in ROOMS for module in modules_of(room))]
CALLABLES = [param for module in MODULES for param in callables_of(module)]
FUNCTIONS = [param for module in (imaging, metrics, scenes, plots) for param in functions_of(module)]


def test_there_are_functions_to_look_at():
    assert len(FUNCTIONS) > 40
    assert len(CALLABLES) > 200
    assert WITHOUT_HINTS < {module.__name__ for module in MODULES}


@pytest.mark.parametrize("function", CALLABLES)
def test_every_parameter_and_the_result_have_a_type(function):
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        needless = name in ("self", "cls") or parameter.kind is parameter.VAR_KEYWORD
        assert needless or parameter.annotation is not inspect.Parameter.empty, name
    assert function.__name__ == "__init__" or signature.return_annotation is not inspect.Signature.empty


def test_type_checkers_are_told_of_the_names_that_are_imported_when_asked_for():
    tree = ast.parse(Path(fastccpd.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    told = {alias.name: node.module for node in block.body for alias in node.names}
    assert told == fastccpd._HOMES | dict.fromkeys(fastccpd._FLOORS)
    assert set(fastccpd.__all__) <= set(told)


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


def offered():
    """What the rooms offer by name: functions and classes."""
    for room in (fastccpd, estimation, kernels, methods, rasters, solver, tiles):
        for name in room.__all__:
            member = getattr(room, name)
            if inspect.isfunction(member) or inspect.isclass(member):
                yield pytest.param(member, id=f"{room.__name__}.{name}")


@pytest.mark.parametrize("member", list(offered()))
def test_what_a_room_offers_says_what_it_takes_and_what_it_is_made_of(member):
    parts = [documentation.sections(cls.__doc__ or "") for cls in getattr(member, "__mro__", [member])]
    texts = [part.get(section, "") for part in parts for section in ("Parameters", "Attributes")]
    described = {name.lstrip("*") for text in texts for name in documentation.entries(text)}
    assert parts[0], "no docstring"
    if inspect.isfunction(member):
        signature = inspect.signature(member)
        assert described == set(signature.parameters)
        assert {"Returns", "Yields"} & set(parts[0]) or signature.return_annotation is None or not described
    elif dataclasses.is_dataclass(member):
        assert {entry.name for entry in dataclasses.fields(member)} <= described


def test_classes_list_their_attributes():
    for cls in (columns.Column, columns.Metric, comparison.Sums, scenes.Scene, scenes.Pair):
        described = documentation.entries(documentation.sections(cls.__doc__)["Attributes"])
        assert list(described) == list(cls.__annotations__), cls
