"""Routines side by side, and under the machine's roof, from rows of kind "speed"."""

from typing import Any

from ..report.html import Markup, element, number, table
from ..rows import Row

# A row with all of these has a place under the roof.
_ROOF = ("flops", "bytes", "peak_flops", "peak_bytes")


def is_under_roof(row: Row) -> bool:
    """Whether a row says what its routine had to do, and what the machine can do at most."""
    return all(row.get(name) for name in _ROOF) and row["seconds"] > 0.0


def ratio_tables(rows: list[Row]) -> Markup:
    """A table for each benchmark and machine: a line for each case, a column for each baseline.

    Parameters
    ----------
    rows : list of dict
        Of kind "speed"; those under the roof have a picture of their own.

    Returns
    -------
    Markup
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if not is_under_roof(row):
            groups.setdefault((row["benchmark"], machine_name(row)), []).append(row)
    parts = []
    for (benchmark, machine), group in groups.items():
        parts += [element("h3", benchmark), element("p", machine, class_="small"), _ratios(group)]
    return Markup("".join(parts))


def _ratios(group):
    baselines = list(dict.fromkeys(row["baseline"] for row in group))
    lines: dict[tuple, dict[str, Row]] = {}
    for row in group:
        key = row["method"], row["case"], row.get("company", "alone"), row.get("threads")
        lines.setdefault(key, {})[row["baseline"]] = row
    several = len({key[0] for key in lines}) > 1
    heads = ["case", "right after", "threads", "seconds", *baselines]
    body = []
    for (method, case, company, threads), found in lines.items():
        ratios = [_ratio(found[name]) if name in found else "–" for name in baselines]
        seconds = min(row["seconds"] for row in found.values())
        name = f"{method}: {case}" if several else case
        body.append([name, company, number(threads), number(seconds), *ratios])
    used = [n for n in range(len(heads)) if n not in (1, 2) or any(line[n] not in ("alone", "–") for line in body)]
    return table([heads[n] for n in used], [[line[n] for n in used] for line in body], numbers=True)


def _ratio(row):
    about = f"{row['baseline']} {number(row['baseline_seconds'])} s, {row['method']} {number(row['seconds'])} s"
    if "repeats" in row:
        about += f", best of {row['repeats']}"
    if row["baseline_seconds"] == 0.0 or row["seconds"] == 0.0:  # too short for its clock
        return element("span", "–", title=about)
    ratio = row["baseline_seconds"] / row["seconds"]
    look = "worse" if ratio < 1.0 else "better"
    return element("span", f"{ratio:.1f}×" if ratio >= 0.1 else f"{ratio:.2g}×", title=about, class_=look)


def roofs(rows: list[Row]) -> list[dict[str, Any]]:
    """For each machine its limits, and the points below: name, intensity, flops a second, share of the limit."""
    found: dict[str, dict[str, Any]] = {}
    for row in filter(is_under_roof, rows):
        roof = found.setdefault(machine_name(row), {"flops": 0.0, "bytes": 0.0, "points": []})
        roof["flops"], roof["bytes"] = (max(roof[name], row[f"peak_{name}"]) for name in ("flops", "bytes"))
        share = row["baseline_seconds"] / row["seconds"]
        values = (row["flops"] / row["bytes"], row["flops"] / row["seconds"], share)
        roof["points"].append([row["benchmark"], row["case"], *(float(f"{value:.4g}") for value in values)])
    return [{"machine": machine, **roof} for machine, roof in found.items()]


def machine_name(row: Row) -> str:
    """Where a row was made, in words."""
    about = row["machine"]
    names = [str(about[name]) for name in ("processor", "system") if about.get(name)]
    if isinstance(about.get("cores"), int):
        names.insert(1, f"{about['cores']} cores")
    return ", ".join(names) or "an unknown machine"
