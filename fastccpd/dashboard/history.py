"""The history of speed, commit by commit, from asv's result files: what `asv publish` shows, without its network.

A series is one benchmark with one set of parameters, in one environment on one machine. A time that was taken once
(`asv run --quick`) is kept and marked: it may be anything, the loading of code included, so it decides nothing. Where a
benchmark's own code has changed, asv gives it another version, and a new series begins.
"""

import datetime
import itertools
import math
from pathlib import Path
from typing import Any, NamedTuple

from ..rows import is_number
from .steps import steps

_HASH = 8


class Point(NamedTuple):
    """One value: the number of its commit, its quartiles (None where they are not known), whether it was taken once."""

    commit: int
    value: float
    low: float | None
    high: float | None
    single: bool


def history(results: list[dict[str, Any]], benchmarks: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    """Commits, series and steps, as the page takes them.

    Parameters
    ----------
    results, benchmarks
        As in `Sources`.
    faults : list of str
        Sentences on what is left out are added to it.

    Returns
    -------
    dict
        "commits": [hash, ISO date]; "series": name, parameters, place, unit, and points; "steps": series, commit,
        before, after.
    """
    whole = [result for result in results if _is_whole(result, faults)]
    dates = {result["commit_hash"][:_HASH]: result["date"] for result in whole}
    commits = sorted(dates, key=lambda commit: (dates[commit], commit))
    number = {commit: n for n, commit in enumerate(commits)}
    series: dict[tuple, dict[int, Point]] = {}
    for result in whole:
        place, commit = _place(result), number[result["commit_hash"][:_HASH]]
        for name, entry in result["results"].items():
            try:
                found = list(_values(entry, result.get("result_columns")))
            except (TypeError, ValueError, AttributeError, KeyError):
                faults.append(f"{result['path']}: {name}: is not laid out as asv's results are; left out")
                continue
            for parameters, version, value, low, high, repeats in found:
                single = repeats == 1 and _unit(name, benchmarks) == "seconds"
                point = Point(commit, value, low, high, single)
                _put(series.setdefault((name, parameters, place, version), {}), point)
    ordered = [(key, sorted(points.values())) for key, points in sorted(series.items())]
    return {
        "commits": [[commit, _day(dates[commit])] for commit in commits],
        "series": [
            {"name": name, "parameters": parameters, "place": place, "unit": _unit(name, benchmarks), "points": points}
            for (name, parameters, place, _), points in ordered
        ],
        "steps": list(_steps(ordered, benchmarks)),
    }


def _is_whole(result, faults):
    good = isinstance(result["commit_hash"], str) and isinstance(result["results"], dict)
    good = good and is_number(result["date"])
    if not good:
        faults.append(f"{result['path']}: its commit_hash, date or results are of another kind than asv's; left out")
    return good


def _place(result):
    """Where a result comes from: the machine and what its environment sets."""
    about = result.get("params") if isinstance(result.get("params"), dict) else {}
    machine = about.get("machine") or Path(result["path"]).parent.name
    settings = result.get("env_vars") if isinstance(result.get("env_vars"), dict) else {}
    return ", ".join([str(machine), *(f"{name}={value}" for name, value in sorted(settings.items()))])


def _values(entry, columns):
    """(parameters, version, value, quartiles, repeats) of every number that an entry holds."""
    about = dict(zip(columns, entry)) if isinstance(columns, list) and isinstance(entry, list) else {"result": entry}
    values = about["result"] if isinstance(about["result"], list) else [about["result"]]
    parameters = about.get("params") or []
    if math.prod(map(len, parameters)) != len(values):  # before any are made: there may be more than fit into memory
        raise ValueError("parameters and values must agree")
    sets = itertools.product(*parameters)
    beside = [about.get(name) or [None] * len(values) for name in ("stats_q_25", "stats_q_75", "stats_repeat")]
    for chosen, value, low, high, repeats in zip(sets, values, *beside, strict=True):
        if is_number(value):
            low, high = (bound if is_number(bound) else None for bound in (low, high))
            yield (
                ", ".join(str(text).strip("'\"") for text in chosen),
                str(about.get("version")),
                value,
                low,
                high,
                repeats,
            )


def _put(points, point):
    """Of two values of one commit the one with repeats counts, else the later."""
    known = points.get(point.commit)
    if known is None or known.single or not point.single:
        points[point.commit] = point


def _unit(name, benchmarks):
    """The unit of a benchmark: what asv's list says, else what its name does."""
    told = benchmarks.get(name, {}).get("unit")
    kind = name.rpartition(".")[2].partition("_")[0]
    return told if isinstance(told, str) else {"time": "seconds", "peakmem": "bytes", "mem": "bytes"}.get(kind, "unit")


def _steps(ordered, benchmarks):
    """Steps of times and sizes, the largest first; what a `track_` benchmark counts has no better and worse."""
    found = []
    for number, ((name, *_), points) in enumerate(ordered):
        used = [point for point in points if not point.single and point.value > 0.0]
        if _unit(name, benchmarks) not in ("seconds", "bytes"):
            continue
        spreads = [(point.low, point.high) for point in used if point.low is not None and point.high is not None]
        for step in steps([point.value for point in used], spreads):
            found.append([number, used[step.place].commit, step.before, step.after])
    return sorted(found, key=lambda step: -abs(math.log(step[3]) - math.log(step[2])))


def _day(milliseconds):
    try:
        return datetime.datetime.fromtimestamp(milliseconds / 1e3, datetime.UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return "unknown"
