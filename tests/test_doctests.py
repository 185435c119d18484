"""Every example in a docstring is run."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [*ROOT.glob("fastccpd/**/*.py"), *ROOT.glob("kernels/*.py")]
NAMES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES}
NAMES = {name if name.startswith("fastccpd") else f"fastccpd.{name}" for name in NAMES}
MODULES = sorted(name for name in NAMES if "__main__" not in name)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    examples = sum(len(t.examples) for name in MODULES for t in finder.find(importlib.import_module(name)))
    assert examples > 20
