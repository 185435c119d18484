"""The table of metrics of a report: names, units, which way is better, and the best of each column."""

import re

import numpy as np

from .html import Markup, element, escaped, is_number, number, table

# Name, unit, and whether more of it is better (+1) or less (-1).
_METRICS = {
    "rsnr": ("R-SNR", "dB", 1), "rmse": ("RMSE", "", -1), "cc": ("CC", "", 1), "sam": ("SAM", "degrees", -1),
    "ergas": ("ERGAS", "", -1), "uiqi": ("UIQI", "", 1), "psnr": ("PSNR", "dB", 1), "ssim": ("SSIM", "", 1),
    "seconds": ("time", "s", -1),
}  # fmt: skip

_DIRECTIONS = {1: ("↑", "more is better"), -1: ("↓", "less is better")}


def score_table(scores, quantity):
    """The table of metrics: the best of each column bold, below it what some metrics left out."""
    columns = list(dict.fromkeys(name for row in scores.values() for name in row if name != "left_out"))
    best = {name: _best([row.get(name) for row in scores.values()], _metric(name)[2]) for name in columns}
    rows = []
    for system, row in scores.items():
        cells = [number(row.get(name)) for name in columns]
        marked = [
            element("strong", cell) if _same(row.get(name), best[name]) else cell for cell, name in zip(cells, columns)
        ]
        rows.append([system, *marked])
    heads = [_metric_head(name, quantity) for name in columns]
    left_out = [f"{system}: {row['left_out']}" for system, row in scores.items() if row.get("left_out")]
    said = "↑ more is better, ↓ less is better; the best of each column is bold."
    said += "".join(f" Left out by {text}." for text in left_out)
    return table(["System", *heads], rows, numbers=True) + element("p", said, class_="small")


def _metric(name):
    """Name, unit and direction of a metric, by its key in `score` or by its printed name."""
    key = re.sub(r"\(.*?\)|[^a-z0-9]", "", str(name).lower())
    return _METRICS.get(key, (str(name), "", 0))


def _metric_head(name, quantity):
    shown, unit, direction = _metric(name)
    unit = quantity if shown == "RMSE" and quantity != "value" else unit
    arrow, meaning = _DIRECTIONS.get(direction, ("", ""))
    better = element("abbr", f"\N{NO-BREAK SPACE}{arrow}", title=meaning) if direction else Markup()
    return Markup(escaped(shown)) + better + (element("span", f"({unit})", class_="unit") if unit else Markup())


def _best(values, direction):
    known = [value for value in values if is_number(value) and not np.isnan(value)]
    if not direction or len(values) < 2 or not known:
        return None
    return max(known) if direction > 0 else min(known)


def _same(value, best):
    return best is not None and is_number(value) and value == best
