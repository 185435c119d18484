"""The site: `sphinx-build -W docs build/site`, offline; index.html opens without a server."""

import sys
from pathlib import Path

from fastccpd.machine import own_version

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "fastccpd"
copyright = "the fastccpd contributors, BSD-3-Clause"
release = version = own_version()

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxarg.ext",
    "drawn_math",
    "results_page",
    "root_files",
]
# The gallery's page of times loads scripts from other hosts, and says nothing that a reader needs.
exclude_patterns = ["gallery", "rows", "**sg_execution_times*"]
templates_path = ["templates"]
html_static_path = ["static"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# The reference has one page for each public name, made from its docstring.
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc's lists say it in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "gallery_built",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "min_reported_time": 1e9,
    "show_memory": False,
    "image_scrapers": ("figures.scrape",),
    "reset_modules": (),
}

html_theme = "pydata_sphinx_theme"
html_title = "fastccpd"
html_context = {"default_mode": "auto"}
html_logo = None
html_css_files = ["site.css"]
html_theme_options = {
    "github_url": "https://github.com/fastccpd/fastccpd",
    "navigation_with_keys": True,
    "show_prev_next": True,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_copy_source = False
# Summaries of search results would be fetched, which a browser refuses without a server.
html_show_search_summary = False
