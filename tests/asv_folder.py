"""Modules of asv_bench for tests, which may run on an installed wheel: only that folder is taken from the checkout."""

import importlib
import sys
import types
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "asv_bench"


def module(name):
    """`asv_bench.<name>`."""
    if "asv_bench" not in sys.modules:
        sys.modules["asv_bench"] = types.ModuleType("asv_bench")
        sys.modules["asv_bench"].__path__ = [str(_FOLDER)]
    return importlib.import_module(f"asv_bench.{name}")
