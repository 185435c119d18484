"""The parts of docs/methods.md that the registry knows: `fastccpd methods --page FILE` writes them anew.

A part stands between a line "<!-- made: NAME -->" and a line "<!-- end: NAME -->"; the rest of a page is left as it is.
"""

import inspect
import re

from .. import methods
from ..methods import documentation
from ..model.files import write_whole


def rewrite(path):
    """Write the parts of a page anew that are made here, and leave the rest.

    Parameters
    ----------
    path : Path

    Returns
    -------
    list of str
        The names of the parts.
    """
    text = path.read_text(encoding="utf-8")
    write_whole(path, rewritten(text))
    return [name for name in PARTS if f"<!-- made: {name} -->" in text]


def rewritten(text):
    """A page with its made parts as they are now."""
    for name, made in PARTS.items():
        begin, end = f"<!-- made: {name} -->", f"<!-- end: {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", flags=re.DOTALL)
        text = pattern.sub(lambda _, begin=begin, end=end, made=made: f"{begin}\n{made()}\n{end}", text)
    return text


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


PARTS = {"glance": glance, "options": options}


def _first_sentence(name):
    return _cell(inspect.getdoc(methods.get(name)).split("\n")[0])


def _papers(cls):
    text = documentation.sections(cls.__doc__).get("References", "")
    return [" ".join(entry.split()) for entry in re.split(r"\.\. \[\d+\]", text) if entry.strip()]


def _cell(text):
    return text.replace("|", "\\|")
