"""The long description: the README with its links made absolute, for readers who have no clone beside it.

All else is in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def absolute(text):
    """Links to files of the repository as links to the public forge; pictures as the pictures themselves."""
    home = PROJECT["urls"]["Homepage"]
    picture, link = f"{home}/raw/main/", f"{home}/blob/main/"
    return re.sub(
        r"(!?)(\[[^\]]*\])\((?!\w+://|#)([^)]+)\)", lambda m: f"{m[1]}{m[2]}({picture if m[1] else link}{m[3]})", text
    )


setup(
    long_description=absolute((ROOT / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
