"""The page of the project's own results, results.html, made of the rows under docs/rows when the site is built."""

from pathlib import Path

from sphinx.application import Sphinx

from fastccpd import dashboard


def _write(app, error):
    if error is None and app.builder.format == "html":
        sources = dashboard.read([Path(app.srcdir) / "rows"])
        Path(app.outdir, "results.html").write_text(dashboard.page(sources, "fastccpd: results"), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
