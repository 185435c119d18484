"""HTML: elements, tables, numbers, pictures, and a page that needs nothing else.

The style is inline, pictures are PNG inside `data:` addresses, there is no script, and the content security policy
forbids a browser to fetch anything. Text enters a page through `element` alone, which escapes whatever is not marked as
HTML already, so a file name cannot become markup.
"""

import base64
import html
import re

import numpy as np

# A figure as wide as a page fills the column of text.
_PIXELS_AN_INCH = 110

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 52rem; padding: 1rem 1.25rem 3rem; background: #fff; color: #1a1a1a;
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem; border-bottom: 2px solid #0072b2; }
h3 { font-size: 1.05rem; margin: 1.25rem 0 0.25rem; }
nav ul { list-style: none; margin: 0.5rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; }
a { color: #005a8c; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5rem 0; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; }
thead th { border-bottom: 2px solid #888; vertical-align: bottom; }
td, th { overflow-wrap: break-word; }
.numbers { font-size: 0.9rem; }
.numbers td, .numbers thead th + th { text-align: right; padding: 0.25rem 0 0.25rem 0.9rem; white-space: nowrap; }
.numbers td { font-variant-numeric: tabular-nums; }
.unit { display: block; font-weight: normal; }
abbr { text-decoration: none; }
code { font: 0.85rem/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
td code { display: inline-block; min-width: 10rem; }
figure { margin: 1rem 0 1.5rem; }
img { display: block; max-width: 100%; height: auto; }
figcaption, .small { color: #444; font-size: 0.9rem; margin-top: 0.4rem; max-width: 46rem; }
@media print {
  @page { size: A4; margin: 15mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  .wide { overflow: visible; }
  table, code, figcaption, .small { font-size: 8.5pt; }
  th, td { padding-top: 0.1rem; padding-bottom: 0.1rem; }
  h2, h3 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
}
"""

#: A coarse and a fine chequerboard: without an icon of its own, a browser asks for one.
ICON = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABAAAAAQAgMAAABinRfyAAAADFBMVEUAcrLmnwD///8AnnNwQzQ/AAAAH0lEQVR42mNg"
    "WHX3LgPDqvJyBgRrFQOQtYoBhUWkOgAA6x/hxdRXdAAAAABJRU5ErkJggg=="
)

#: How every page begins; `policy` says which styles and scripts are allowed beside its own pictures.
BEGINNING = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; {policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" type="image/png" href="{icon}">
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
"""

_PAGE = """<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main>
{sections}
</main>
</body>
</html>
"""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()

    def __add__(self, other):
        return Markup(str.__add__(self, other)) if isinstance(other, Markup) else NotImplemented


def element(tag, *content, **attributes):
    """An element; content that is not `Markup` is escaped. An attribute may end in "_" to be no Python word."""
    given = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{given}>{''.join(map(escaped, content))}</{tag}>")


def escaped(text):
    """Text as HTML; characters that no page may hold are replaced."""
    return text if isinstance(text, Markup) else _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", html.escape(str(text)))


def pairs(rows):
    """A table of names and values."""
    lines = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows.items()]
    return element("table", element("tbody", *lines))


def table(heads, rows, numbers=False):
    """A table whose first column names its rows; it scrolls by itself where the window is narrow."""
    head = element("tr", *(element("th", head, scope="col") for head in heads))
    lines = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    look = {"class_": "numbers"} if numbers else {}
    table = element("table", element("thead", head), element("tbody", *lines), **look)
    return element("div", table, class_="wide", tabindex=0, role="region", aria_label=f"Table: {heads[0]}")


def number(value):
    """A number as a table shows it, with a true minus sign; anything else as it is."""
    if value is None or (is_number(value) and np.isnan(value)):
        return "–"
    if not is_number(value):
        return str(value)
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4g}".replace("-", "−")


def is_number(value):
    """Whether a value is a real number; a truth value is none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def picture(png, inches, alt, caption):
    """A PNG file's bytes as a figure of this size (width, height) with a caption."""
    width, height = (round(_PIXELS_AN_INCH * length) for length in inches)
    data = base64.b64encode(png).decode("ascii")
    source = f'src="data:image/png;base64,{data}" alt="{escaped(alt)}" width="{width}" height="{height}"'
    return element("figure", Markup(f"<img {source}>"), element("figcaption", caption))


def page(title, sections):
    """A whole document: a title, links to the sections, and the sections, Markup by name."""
    ids = {name: re.sub("[^a-z]+", "-", name.lower()) for name in sections}
    links = [element("li", element("a", name, href=f"#{ids[name]}")) for name in sections]
    parts = [element("section", element("h2", name, id=ids[name]), content) for name, content in sections.items()]
    beginning = BEGINNING.format(policy="style-src 'unsafe-inline'", title=escaped(title), icon=ICON, style=_STYLE)
    return beginning + _PAGE.format(links="".join(links), sections="\n".join(parts))
