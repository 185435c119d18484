"""Side by side, in one run: `python -m asv_bench.compare [SECTION ...] [--json FILE] [--picture FILE]`.

Ours and the rivals take turns, burst after burst, so that a busy moment of the machine meets them all, and the least of
all times counts. Markdown goes to stdout, table after table; all the numbers, with the machine and the versions, to the
JSON file; the roofline to the picture (png, pdf or svg).

Sections: kernels (MTTKRP and H z against their rivals), single (MTTKRP in one mode), roofline (each kernel against the
machine's limit), profile (where the time of a fusion goes), solvers (time to a cost), threads, scaling, memory, many
(`fuse_many`), cold (imports, first fusions, warm-up). `profile`, `solvers` and `threads` need the real scenes.
"""

import argparse
import json
from pathlib import Path

from .measuring import machine
from .sections import SECTIONS
from .sections.roofline import draw


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("section", nargs="*", choices=[*SECTIONS, []], metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="adds the section roofline")
    options = parser.parse_args(arguments)
    chosen = options.section or ["kernels"]
    if options.picture and "roofline" not in chosen:
        chosen = [*chosen, "roofline"]
    where = machine()
    print(_sentence(where), end="\n\n", flush=True)
    tables = {}
    for section in chosen:
        for table in SECTIONS[section]():
            print(table, end="\n\n", flush=True)
            tables[table.name] = {"rows": [dict(zip(table.head, row)) for row in table.rows], "numbers": table.numbers}
            # Written after every table: a run that is broken off has kept what it had.
            if options.json:
                options.json.write_text(json.dumps({"machine": where, "tables": tables}, indent=1), encoding="utf-8")
    if options.picture:
        from fastccpd import plots

        plots.save(draw(tables["roofline"]["numbers"]), options.picture)


def _sentence(where):
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items() if number)
    return f"{where['processor']}, {where['cores']} cores, {where['numba threads']} Numba threads; {versions}."


if __name__ == "__main__":
    main()
