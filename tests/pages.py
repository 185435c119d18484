"""What the tests of the documents share: their text, their examples, and how an example is run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def examples_of(name):
    """The Python examples of a page, in order."""
    return re.findall(r"```python\n(.*?)```", text_of(name), flags=re.DOTALL)


def run_example(example, page):
    """Run an example; one that needs a package that is not there is skipped."""
    for package in ("tensorly", "pyttb"):
        if f"import {package}" in example:
            pytest.importorskip(package, exc_type=ImportError)
    exec(compile(example, f"docs/{page}", "exec"), {"__name__": page})
