"""Side by side, in one run: `python -m asv_bench.compare [SECTION ...] [--runs N] [--json FILE] [--rows FILE]`.

Ours and the rivals take turns, burst after burst, so that a busy moment of the machine meets them all, and the least of
all times counts. Markdown goes to stdout, table after table; all the numbers, with the machine and the versions, to the
JSON file; the ratios, as rows of docs/rows.md for `fastccpd dashboard`, to the file of rows; the roofline to the
picture (`--picture FILE`: png, pdf or svg). Of several runs the tables have medians and spreads.

Sections: kernels (MTTKRP and H z against their rivals), single (MTTKRP in one mode), roofline (each kernel against the
machine's limit), profile (where the time of a fusion goes), maps (the same of the default, the stacks of maps that it
holds, its passes against the limit, and how it grows with pixels, maps and threads), solvers (time to a cost), backends
(other packages' decompositions on our kernels), nonnegative (a plain non-negative CPD beside other packages), threads,
scaling, memory, many (`fuse_many`), cold (imports, first fusions, warm-up). `profile`, `solvers` and `threads` need the
real scenes.
"""

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from .measuring import Table, machine, of_several_runs
from .sections import SECTIONS
from .sections.roofline import draw


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("section", nargs="*", choices=[*SECTIONS, []], metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="how often each section is run (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="JSON lines; an existing file is replaced")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="adds the section roofline")
    options = parser.parse_args(arguments)
    if options.runs < 1 or (options.runs > 1 and options.picture):
        parser.error(f"--runs: got {options.runs}; a picture is drawn of one run, and tables of one or more")
    chosen = options.section or ["kernels"]
    if options.picture and "roofline" not in chosen:
        chosen = [*chosen, "roofline"]
    where, today = machine(), datetime.now(UTC).date().isoformat()
    print(_sentence(where), end="\n\n", flush=True)
    tables, speeds = {}, []
    for section in chosen:
        for table in _tables(section, options.runs):
            print(table, end="\n\n", flush=True)
            tables[table.name] = {"rows": [dict(zip(table.head, row)) for row in table.rows], "numbers": table.numbers}
            # Written after every table: a run that is broken off has kept what it had.
            speeds += table.speeds
            if options.rows:
                text = "".join(json.dumps({**row, "date": today}) + "\n" for row in speeds)
                options.rows.write_text(text, encoding="utf-8")
            if options.json:
                options.json.write_text(json.dumps({"machine": where, "tables": tables}, indent=1), encoding="utf-8")
    if options.picture:
        from fastccpd import plots

        plots.save(draw(tables["roofline"]["numbers"]), options.picture)


def _tables(section, runs):
    """The tables of a section; of several runs, each in a process of its own, as one."""
    if runs == 1:
        return SECTIONS[section]()
    return map(of_several_runs, zip(*(_run_apart(section) for _ in range(runs))))


def _run_apart(section):
    """The tables of a section, measured in a new process."""
    with TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("all.json", "rows.jsonl")]
        words = [sys.executable, "-m", __spec__.name, section, "--json", files[0], "--rows", files[1]]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        tables = json.loads(files[0].read_text(encoding="utf-8"))["tables"]
        speeds = [json.loads(line) for line in files[1].read_text(encoding="utf-8").splitlines()]
    # All rows go with the first table: which one they belong to is not written.
    return [
        Table(name, [*table["rows"][0]], [[*row.values()] for row in table["rows"]], table["numbers"], tuple(more))
        for (name, table), more in zip_longest(tables.items(), [speeds], fillvalue=())
    ]


def _sentence(where):
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items() if number)
    return f"{where['processor']}, {where['cores']} cores, {where['numba threads']} Numba threads; {versions}."


if __name__ == "__main__":
    main()
