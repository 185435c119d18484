"""`fastccpd methods [NAME]`: what there is to fuse with, and its options."""

import inspect
import shutil
import textwrap
from pathlib import Path

from .. import experiments, methods
from ..methods import documentation
from . import methods_page
from .options import add_output_options
from .output import print_json, print_line, print_pairs


def add(commands):
    verb = commands.add_parser(
        "methods",
        help="the fusion methods and their options",
        description="List the methods, or describe one with its options.",
    )
    verb.add_argument("name", nargs="?", metavar="NAME", help="the method to describe")
    verb.add_argument("--page", type=Path, metavar="FILE", help="write the made parts of docs/methods.md anew")
    text = "for --page: rows of experiment scenes, for the table of who wins where"
    verb.add_argument("--rows", type=Path, nargs="+", default=[], metavar="FILE", help=text)
    add_output_options(verb)
    verb.set_defaults(run=run)


def run(options):
    if options.page is not None:
        rows = [row for file in options.rows for row in experiments.read(file)]
        print_line(f"Written to {options.page}: {', '.join(methods_page.rewrite(options.page, rows))}")
        return 0
    if options.name is None:
        lines = {name: inspect.getdoc(methods.get(name)).split("\n")[0] for name in methods.names()}
        if options.json:
            print_json(lines)
        else:
            print_pairs(list(lines.items()))
        return 0
    cls = methods.get(options.name)
    known = documentation.options(cls).values()
    if options.json:
        described = {option.name: {"default": option.default, "text": _in_words(option)} for option in known}
        print_json({"name": options.name, "description": inspect.getdoc(cls), "options": described})
    else:
        _print(options.name, documentation.sections(cls.__doc__), known)
    return 0


def _print(name, sections, options):
    """The description, the options with their texts, then what else the docstring says."""
    print(f"{name}: {sections['']}\n\nOptions (--option NAME=VALUE) and their defaults:")
    width = min(shutil.get_terminal_size().columns, 120)
    for option in options:
        print(f"  {option.name}={option.default!r}")
        for line in textwrap.wrap(_in_words(option), width - 6):
            print(f"      {line}")
    for title, text in sections.items():
        if title not in ("", "Parameters"):
            print(f"\n{title}:\n{textwrap.indent(text.replace('.. [', '['), '  ')}")


def _in_words(option):
    """Type and text of an option."""
    return f"{option.kind}: {option.text}"
