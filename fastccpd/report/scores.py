"""The table of metrics of a report: names, units, which way is better, and the best of each column."""

import re

import numpy as np

from ..imaging.columns import Column
from ..imaging.metrics import columns
from .html import Markup, element, escaped, is_number, number, table

_ARROWS = {1: "↑", -1: "↓", 0: ""}


def score_table(scores, quantity):
    """The table of metrics: the best of each column bold, below it what some metrics left out.

    Parameters
    ----------
    scores : dict of row name to dict of metric to value
        As of `fastccpd.report.fusion`; metrics by their key in `score`, or by their label.
    quantity : str
        What the values of the images are, "value" if nothing is said.

    Returns
    -------
    Markup
    """
    names = list(dict.fromkeys(name for row in scores.values() for name in row if name != "left_out"))
    best = {name: _best([row.get(name) for row in scores.values()], _column(name).direction) for name in names}
    rows = [[system, *(_cell(row.get(name), best[name]) for name in names)] for system, row in scores.items()]
    heads = [_head(_column(name), quantity) for name in names]
    left_out = [f"{system}: {row['left_out']}" for system, row in scores.items() if row.get("left_out")]
    said = "↑ larger is better, ↓ smaller is better; the best of each column is bold."
    said += "".join(f" Left out by {text}." for text in left_out)
    return table(["System", *heads], rows, numbers=True) + element("p", said, class_="small")


def _column(name):
    """The column of this name or label; one of its own for what is not known."""
    known = {_plain(key): column for column in columns().values() for key in (column.label, column.name)}
    return known.get(_plain(name)) or Column(str(name), str(name))


def _plain(name):
    """A name without its unit, case and punctuation."""
    return re.sub(r"\(.*?\)|[^a-z0-9]", "", str(name).lower())


def _head(column, quantity):
    of_images = "" if quantity == "value" else quantity
    unit = of_images if column.unit is None else column.unit
    arrow = element("abbr", f"\N{NO-BREAK SPACE}{_ARROWS[column.direction]}", title=column.better)
    return (
        Markup(escaped(column.label))
        + (arrow if column.direction else Markup())
        + (element("span", f"({unit})", class_="unit") if unit else Markup())
    )


def _cell(value, best):
    return element("strong", number(value)) if _same(value, best) else number(value)


def _best(values, direction):
    known = [value for value in values if is_number(value) and not np.isnan(value)]
    if not direction or len(values) < 2 or not known:
        return None
    return max(known) if direction > 0 else min(known)


def _same(value, best):
    return best is not None and is_number(value) and value == best
