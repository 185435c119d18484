"""The reader of methods' docstrings."""

from dataclasses import dataclass

import pytest

from fastccpd import methods
from fastccpd.methods import Method, documentation


@dataclass(frozen=True, kw_only=True)
class Base(Method):
    """A base.

    Parameters
    ----------
    rank : int
        How many.
    depth, width : float
        How far
        it goes.

    Notes
    -----
    Not : an option
        at all.
    """

    rank: int = 3
    depth: float = 0.5
    width: float = 0.25


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    """One line.

    More of it: and more.

    Parameters
    ----------
    rank : int or None
        As many as there are: all.

        Really.
    bare : str
    """

    rank: int | None = None
    bare: str = "x"
    unsaid: int = 1


def test_texts_come_from_the_class_and_else_from_its_bases():
    found = {name: (option.kind, option.text) for name, option in documentation.options(Derived).items()}
    assert found == {
        "rank": ("int or None", "As many as there are: all. Really."),
        "depth": ("float", "How far it goes."),
        "width": ("float", "How far it goes."),
        "bare": ("str", ""),
        "unsaid": ("", ""),
    }
    assert documentation.options(Derived)["width"].default == 0.25


def test_sections_are_those_of_the_class_alone():
    assert list(documentation.sections(Base.__doc__)) == ["", "Parameters", "Notes"]
    found = documentation.sections(Derived.__doc__)
    assert found[""] == "One line.\n\nMore of it: and more."
    assert found["Parameters"].startswith("rank : int or None\n")


def test_a_class_without_a_docstring_has_nothing_to_say():
    cls = dataclass(frozen=True, kw_only=True)(type("Silent", (Method,), {"__annotations__": {"rank": int}, "rank": 1}))
    assert documentation.options(cls)["rank"] == documentation.Option("rank", 1)


@pytest.mark.parametrize("name", methods.names())
def test_every_method_is_documented_alike(name):
    found = documentation.sections(methods.get(name).__doc__)
    assert list(found) in (["", "Parameters", "References"], ["", "Parameters", "Notes", "References"])
    assert found["References"].startswith(".. [1] ")
