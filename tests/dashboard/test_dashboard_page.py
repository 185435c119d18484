"""The page on the dashboard: its example runs."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pages
import pytest


@pytest.mark.parametrize("example", pages.examples_of("dashboard.md"))
def test_the_example_runs(example):
    pages.run_example(example, "dashboard.md")


def test_the_page_of_results_is_made_with_the_site(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    found = importlib.util.spec_from_file_location("results_page", docs / "extensions" / "results_page.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    listeners = {}
    module.setup(SimpleNamespace(connect=listeners.__setitem__))
    site = SimpleNamespace(builder=SimpleNamespace(format="html"), srcdir=docs, outdir=tmp_path)
    listeners["build-finished"](site, RuntimeError("of the build"))
    assert not list(tmp_path.iterdir())
    listeners["build-finished"](site, None)
    page = (tmp_path / "results.html").read_text(encoding="utf-8")
    assert "<title>fastccpd: results</title>" in page
    assert "could not be used" not in page
