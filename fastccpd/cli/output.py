"""What the commands print: results on stdout, as text or JSON; notes and warnings on stderr, a line each."""

import json
import math
import re
import sys
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np

from ..imaging import metrics

# Control characters of ASCII and Latin-1, line separators, marks of the writing direction, halves of characters.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# Of what goes to stderr, in characters: the list of all scenes fits, a list of numbers by the thousand does not.
_LONGEST_LINE = 1000


class Messages:
    """What a command has to say beside its result: kept for its JSON, and printed on stderr.

    It is held back until `release`, when it is clear that the command can be done: an error is one line, and the only
    one.
    """

    def __init__(self, quiet=False):
        self.quiet = quiet
        self.notes = []
        self.warnings = []
        self._held = []

    def note(self, text):
        """Say what was found or assumed; --quiet keeps it from the terminal."""
        self.notes.append(str(text))
        self.hint(text)

    def hint(self, text):
        """Say what is of use now and not afterwards: it is not kept."""
        if not self.quiet:
            self._say(text)

    def warn(self, text):
        """Say what may be wrong with the result."""
        self.warnings.append(str(text))
        self._say(f"warning: {text}")

    def release(self):
        """Say what was held back; from now on nothing is."""
        held, self._held = self._held, None
        for text in held or ():
            print_error(text)

    def _say(self, text):
        if self._held is None:
            print_error(text)
        else:
            self._held.append(text)

    def can_draw(self, what):
        """Whether matplotlib is there; where it is not, say that `what` is left out for want of it."""
        found = find_spec("matplotlib") is not None
        if not found:
            self.note(f'{what} matplotlib; pip install "fastccpd[plot]"')
        return found

    def said(self):
        """Notes and warnings, for JSON."""
        return {"notes": self.notes, "warnings": self.warnings}


@contextmanager
def naming_force():
    """Errors about files that exist already name the option that replaces them: --force."""
    try:
        yield
    except FileExistsError as error:
        raise FileExistsError(f"{str(error).rpartition(';')[0]}; --force overwrites it") from None


def printable(text):
    """A text with its control characters, which a terminal would obey, written out.

    Names of files may hold any of them: escape sequences, bells, changes of the writing direction.
    """
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], str(text))


def print_line(text=""):
    """One line on stdout."""
    print(printable(text))


def print_error(text):
    """One line on stderr, if there is any; of a very long one, which quotes what was given, the two ends."""
    if sys.stderr is not None:
        line = " ".join(str(text).split())
        if len(line) > _LONGEST_LINE:
            line = f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
        print(f"fastccpd: {printable(line)}", file=sys.stderr)


def print_json(value):
    """`value` as JSON on stdout: NaN and infinities are null, arrays are lists."""
    text = json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=False)
    # What JSON itself writes out is gone; its own ends of lines must stay.
    print(_CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text))


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def print_table(columns, rows):
    """Rows of cells under their columns: by rich on a terminal, else plain text; all but the first column to the right.

    Parameters
    ----------
    columns : sequence of str
        The first may be empty: the names of the rows.
    rows : sequence of sequences of str
    """
    columns, *rows = [[printable(cell) for cell in row] for row in (columns, *rows)]
    table = _rich_table(columns, rows) if sys.stdout.isatty() else None
    if table is not None:
        from rich.console import Console

        Console().print(table)
        return
    widths = [max(len(row[n]) for row in (columns, *rows)) for n in range(len(columns))]
    for row in (columns, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())


def _rich_table(columns, rows):
    """The table for a terminal; None without rich."""
    try:
        from rich import box
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for n, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if n else "left", no_wrap=not n)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_pairs(pairs, indent=0):
    """Names and values, a line each, the values below each other."""
    pairs = [(printable(name), printable(value)) for name, value in pairs]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        print(f"{' ' * indent}{name.ljust(width)}  {value}".rstrip())


def bytes_name(count):
    """A number of bytes as people say it."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def print_scores(scores):
    """A table of metrics and times, {row name: {column: value}}; a column that no row has is left out."""
    present = [column for name, column in metrics.columns().items() if any(name in row for row in scores.values())]
    rows = [(title, *(_cell(column, row.get(column.name)) for column in present)) for title, row in scores.items()]
    print_table(["", *(column.heading for column in present)], rows)


def _cell(column, value):
    return "" if value is None else format(value, column.form)
