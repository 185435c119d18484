"""What the docstring of a method says: the one reader of it, for the command line and for the conformance suite.

It knows numpydoc: sections under a line of dashes, and in "Parameters" entries "name : type", several names separated
by commas, with the text indented below.
"""

import inspect
import re
import textwrap
from dataclasses import dataclass, fields
from typing import Any

from .method import Method


@dataclass(frozen=True)
class Option:
    """An option of a method.

    What a person needs to know of it, and no more.

    Attributes
    ----------
    name : str
    default : object
    kind : str
        Its type as the docstring gives it; empty if that says nothing of the option.
    text : str
        What the docstring says of it, as one line.
    """

    name: str
    default: Any
    kind: str = ""
    text: str = ""


def sections(docstring: str | None) -> dict[str, str]:
    """The sections of a docstring by title; the description before the first has the title "".

    Parameters
    ----------
    docstring : str or None

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> from fastccpd import methods
    >>> from fastccpd.methods.documentation import sections
    >>> list(sections(methods.SCOTT.__doc__))
    ['', 'Parameters', 'Notes', 'References']
    """
    text = inspect.cleandoc(docstring or "")
    description, *rest = re.split(r"^(\w[\w ]*)\n-{3,}$", text, flags=re.MULTILINE)
    found = {"": description.strip()}
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        found[title] = body.strip("\n").rstrip()
    return found


def options(cls: type[Method]) -> dict[str, Option]:
    """All options of a method with their defaults and texts, those of its bases included.

    Parameters
    ----------
    cls : Method class

    Returns
    -------
    dict of str to Option
        Its own first, then those of its bases; the text nearest to the class counts.

    Examples
    --------
    >>> from fastccpd import methods
    >>> from fastccpd.methods.documentation import options
    >>> options(methods.SCOTT)["rank"].kind
    'int or (R1, R2, R3)'
    """
    known = {}
    for base in reversed(cls.__mro__):
        known |= entries(sections(base.__doc__).get("Parameters", ""))
    defaults = {field.name: field.default for field in fields(cls)}
    return {name: Option(name, defaults[name], *known.get(name, ())) for name in cls.option_names()}


def entries(section: str) -> dict[str, tuple[str, str]]:
    """The entries of a section of parameters.

    Parameters
    ----------
    section : str

    Returns
    -------
    dict of name to (type, text)
    """
    found = {}
    for entry in re.split(r"^(?=\S)", section, flags=re.MULTILINE):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        said = " ".join(textwrap.dedent(body).split())
        found |= {name.strip(): (kind.strip(), said) for name in names.split(",") if name.strip()}
    return found
