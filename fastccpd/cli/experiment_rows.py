"""`fastccpd experiment rows FILE...`: what files of rows hold, what is wrong with them; joined into one to be kept."""

from pathlib import Path

from .. import rows as schema
from ..experiments import rows
from ..experiments.measuring import identity_of
from ..model.files import check_apart
from .output import print_table, printable


def add(kinds):
    text = "what files of rows hold, and what is wrong with them; with -o, joined into one file"
    kind = kinds.add_parser(
        "rows", help=text, description=text[0].upper() + text[1:] + ". docs/rows.md has the schema."
    )
    kind.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines: .jsonl, or .jsonl.gz")
    text = "write the good rows, each once, without pictures and to six digits; compressed if it ends in .gz"
    kind.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    kind.set_defaults(run=run)


def run(options):
    if options.output is not None:
        check_apart([("-o", options.output, [options.output])], options.files)
    found, wrong, lines = {}, [], []
    for file in options.files:
        good, faults = schema.read(file)
        found |= {identity_of(row): row for row in good}
        wrong += faults
        failed = sum("error" in row for row in good)
        methods, scenes = ({row[name] for row in good if name in row} for name in ("method", "scene"))
        lines.append((str(file), *map(str, (len(good), failed, len(faults), len(methods), len(scenes)))))
    print_table(["", "rows", "failed", "wrong", "methods", "scenes"], lines)
    for sentence in wrong:
        options.messages.warn(f"left out: {sentence}")
    if options.output is not None:
        rows.pack(options.output, found.values())
        print(f"Written to {printable(options.output)}: {len(found)} rows")
    return 2 if wrong else 0
