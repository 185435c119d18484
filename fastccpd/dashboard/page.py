"""The page: one file of HTML with its style, its script and its numbers inside, and nothing from elsewhere.

Rows are anybody's, so no text of theirs becomes markup: HTML that is made here goes through `report.html.element`,
numbers and texts for the script are JSON without a "<" in it, and the script makes text nodes only. The content
security policy names the script and the style by their hashes, so that no other would run, and forbids every request.
"""

import base64
import hashlib
import json
from importlib.resources import files

from ..report.html import BEGINNING, ICON, Markup, element, escaped

_SCRIPTS = ("table.js", "chart.js", "views.js", "page.js")

_PAGE = """<button id="theme" type="button" hidden>Dark</button>
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<noscript><p>Tables to sort and pictures are made by the page's own script, which is switched off.</p></noscript>
<main>
{sections}
</main>
<script type="application/json" id="numbers">{numbers}</script>
<script>{script}</script>
</body>
</html>
"""


def document(title: str, sections: dict[str, Markup], numbers: dict) -> str:
    """A whole document.

    Parameters
    ----------
    title : str
    sections : dict of str to Markup
        By heading. What the script fills has an id.
    numbers : dict
        What the script is given, as JSON.

    Returns
    -------
    str
    """
    style = _asset("page.css")
    script = '"use strict";\n(() => {\n' + "".join(map(_asset, _SCRIPTS)) + "})();\n"
    ids = {heading: heading.lower().replace(" ", "-") for heading in sections}
    links = [element("li", element("a", heading, href=f"#{ids[heading]}")) for heading in sections]
    parts = [
        element("section", element("h2", heading, id=ids[heading], tabindex=-1), content)
        for heading, content in sections.items()
    ]
    allowed = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    beginning = BEGINNING.format(policy=allowed, title=escaped(title), icon=ICON, style=style)
    numbers_text, sections_text = _as_json(numbers), "\n".join(parts)
    return beginning + _PAGE.format(script=script, links="".join(links), sections=sections_text, numbers=numbers_text)


def _asset(name):
    return files("fastccpd.dashboard").joinpath(name).read_text(encoding="utf-8")


def _hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _as_json(value):
    """JSON in ASCII that no HTML parser sees markup in: "<" can stand in texts only, and is written out there."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # a ratio or a mean of rows beyond all numbers, which is as good as none
        plain = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
