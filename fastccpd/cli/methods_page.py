"""The parts of docs/methods.md that the registry and rows of results know: `fastccpd methods --page FILE --rows FILE`.

A part stands between a line "<!-- made: NAME -->" and a line "<!-- end: NAME -->"; the rest of a page is left as it is.
"""

import inspect
import re

from .. import methods
from ..experiments import leaders
from ..methods import documentation
from ..model.files import write_whole


def rewrite(path, rows=()):
    """Write the parts of a page anew that are made here, and leave the rest.

    Parameters
    ----------
    path : Path
    rows : list of dict
        Of the experiment of all scenes; without any, the part that is made of them is left too.

    Returns
    -------
    list of str
        The names of the parts.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = ""
    found = [name for name in _parts(rows) if f"<!-- made: {name} -->" in text]
    if not found:
        raise ValueError(f"--page: {path} has no part that is made here; a line <!-- made: NAME --> is needed")
    write_whole(path, rewritten(text, rows))
    return found


def rewritten(text, rows=()):
    """A page with its made parts as they are now."""
    for name, made in _parts(rows).items():
        begin, end = f"<!-- made: {name} -->", f"<!-- end: {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", flags=re.DOTALL)
        text = pattern.sub(lambda _, begin=begin, end=end, made=made: f"{begin}\n{made()}\n{end}", text)
    return text


def _parts(rows):
    """What makes each part."""
    made = {"glance": glance, "options": options}
    return made | {"winners": lambda: leaders.winners(rows)} if rows else made


def glance():
    """A table of all methods, and of what each can and needs."""
    lines = ["| method | in a sentence | image ≥ 0 | random start | masks | blur |", "|---|---|:-:|:-:|:-:|---|"]
    for name in methods.names():
        made = methods.get(name)()
        can = (made.nonnegative, made.has_starts, made.takes_gaps)
        blur = "one periodic" if made.needs_periodic_blur else "any separable"
        marks = " | ".join("yes" if mark else "–" for mark in can)
        lines.append(f"| [`{name}`](#{name}) | {_first_sentence(name)} | {marks} | {blur} |")
    return "\n".join(lines)


def options():
    """Options, defaults and papers of all methods."""
    parts = []
    for name in methods.names():
        cls = methods.get(name)
        lines = [f"**`{name}`**\n", "| option | default | what it is |", "|---|---|---|"]
        for option in documentation.options(cls).values():
            lines.append(f"| `{option.name}` | `{option.default!r}` | {_cell(f'{option.kind}. {option.text}')} |")
        lines += ["", *(f"- {paper}" for paper in _papers(cls))]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _first_sentence(name):
    return _cell(inspect.getdoc(methods.get(name)).split("\n")[0])


def _papers(cls):
    text = documentation.sections(cls.__doc__).get("References", "")
    return [" ".join(entry.split()) for entry in re.split(r"\.\. \[\d+\]", text) if entry.strip()]


def _cell(text):
    return text.replace("|", "\\|")
