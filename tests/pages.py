"""What the tests of the documents share: their text, their examples, and how an example is run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


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


def run_command(line, folder):
    """Run a line that begins with `fastccpd`, in a folder."""
    words = shlex.split(line)
    assert words[0] == "fastccpd", line
    command = [sys.executable, "-m", "fastccpd", *words[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
