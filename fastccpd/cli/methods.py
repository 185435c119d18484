"""`fastccpd methods [NAME]`: what there is to fuse with, and its options."""

import inspect
import re
import shutil
import textwrap
from dataclasses import fields

from .. import methods
from ..solver.trust_region import Options
from .options import add_output_options
from .output import print_json, print_pairs


def add(commands):
    verb = commands.add_parser(
        "methods", help="the fusion methods and their options",
        description="List the methods, or describe one with its options.",
    )  # fmt: skip
    verb.add_argument("name", nargs="?", metavar="NAME", help="the method to describe")
    add_output_options(verb)
    verb.set_defaults(run=run)


def run(options):
    if options.name is None:
        lines = {name: inspect.getdoc(methods.get(name)).split("\n")[0] for name in methods.names()}
        if options.json:
            print_json(lines)
        else:
            print_pairs(list(lines.items()))
        return 0
    cls = methods.get(options.name)
    text, described = inspect.getdoc(cls), _options_of(cls)
    if options.json:
        print_json({"name": options.name, "description": text, "options": described})
        return 0
    summary = text.partition("\nParameters\n")[0].rstrip()
    print(f"{options.name}: {summary}\n\nOptions (--option NAME=VALUE) and their defaults:")
    width = min(shutil.get_terminal_size().columns, 120)
    for name, known in described.items():
        print(f"  {name}={known['default']!r}")
        for line in textwrap.wrap(known["text"], width - 6):
            print(f"      {line}")
    return 0


def _options_of(cls):
    """{option: default and text}, the text from the docstrings of the class, of its bases and of its solver."""
    documented = {}
    solver = [Options] if "pcg_rtol" in cls.option_names() else []
    for source in (*solver, *reversed(cls.__mro__)):
        documented |= _documented(inspect.cleandoc(source.__doc__ or ""))
    return {
        field.name: {"default": field.default, "text": documented.get(field.name, "")}
        for field in fields(cls)
    }  # fmt: skip


def _documented(text):
    """{name: what is said of it} of the entries "name : …" of a docstring, with what is indented below them."""
    found, names = {}, ()
    # In numpydoc's style the type stands behind the name; elsewhere the sentence begins there.
    between = ": " if "\n------" in text else " "
    for line in text.split("\n"):
        entry = re.match(r"(\w+(?:, \w+)*) : (.*)$", line)
        if entry:
            names = entry[1].split(", ")
            found |= {name: [entry[2]] for name in names}
        elif line.startswith(" ") and names:
            found |= {name: [*found[name], line.strip()] for name in names}
        elif line.strip():
            names = ()
    return {name: between.join([first, " ".join(rest)]).rstrip(": ") for name, (first, *rest) in found.items()}
