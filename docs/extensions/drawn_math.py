"""Mathematics as pictures, drawn by matplotlib when the site is built: no script, no font, no other host."""

import hashlib
import io
from html import escape
from pathlib import Path

from docutils import nodes
from matplotlib.mathtext import math_to_image
from sphinx.application import Sphinx

# Points, of which browsers show four as three pixels of the text around.
_SIZE = 13.0


def _picture(translator, formula, size, css):
    """An <img> of a formula; its text is the formula itself, for those who do not see it."""
    name = f"math-{hashlib.sha256(f'{size} {formula}'.encode()).hexdigest()[:16]}.svg"
    drawn = io.StringIO()
    depth = math_to_image(f"${formula}$", drawn, format="svg", dpi=72, prop=_font(size))
    folder = Path(translator.builder.outdir) / translator.builder.imagedir
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(drawn.getvalue(), encoding="utf-8")
    place = f"{translator.builder.imgpath}/{name}"
    return f'<img class="{css}" src="{place}" alt="{escape(formula)}" style="vertical-align: -{depth:.2f}pt">'


def _font(size):
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size, math_fontfamily="cm")


def _inline(translator, node):
    translator.body.append(_picture(translator, node.astext(), _SIZE, "math"))
    raise nodes.SkipNode


def _display(translator, node):
    lines = " ".join(node.astext().split()).split(r"\\")
    pictures = (f"<p>{_picture(translator, line.strip(), 1.15 * _SIZE, 'math')}</p>" for line in lines)
    translator.body.append(f'<div class="formula">{"".join(pictures)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register this way of writing mathematics, and choose it."""
    app.add_html_math_renderer("drawn", inline_renderers=(_inline, None), block_renderers=(_display, None))
    app.config.html_math_renderer = "drawn"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
