"""Pages that are files of the repository's root: read from there, their links led to the right place.

A link to a page of docs/ becomes one to that page of the site, a link to any other file one to the public forge.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
FORGE = "https://github.com/fastccpd/fastccpd/blob/main/"

# The page, the file, and the headings between which its part lies.
PAGES = {
    "contributing": ("CONTRIBUTING.md", None, None),
    "security": ("SECURITY.md", None, None),
    "lookup/changelog": ("CHANGELOG.md", None, None),
    "howto/extend": ("CONTRIBUTING.md", "## How to add each thing\n", "## What a change should look like\n"),
}


def _page_of(target, docname):
    """Where a link to a file of the repository leads from a page of the site."""
    if "://" in target or target.startswith("#"):
        return target
    path, _, anchor = target.partition("#")
    inside = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md", "CHANGELOG.md": "lookup/changelog.md"}
    page = path.removeprefix("docs/") if path.startswith("docs/") and path.endswith(".md") else inside.get(path)
    if page is None:
        return FORGE + path
    here = os.path.relpath(page, os.path.dirname(docname) or ".").replace(os.sep, "/")
    return f"{here}#{anchor}" if anchor else here


def _read(app, docname, source):
    if docname not in PAGES:
        return
    name, begin, end = PAGES[docname]
    text = (ROOT / name).read_text(encoding="utf-8")
    if begin is not None:
        text = source[0] + text.partition(begin)[2].partition(end)[0]
    source[0] = re.sub(r"\]\(([^)]+)\)", lambda link: f"]({_page_of(link[1], docname)})", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Read these pages from the root."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
