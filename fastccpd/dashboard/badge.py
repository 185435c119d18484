"""A badge, one figure of the rows, as SVG."""

from statistics import median

from ..experiments.leaders import standings
from ..experiments.systems import label_of
from ..methods import DEFAULT
from ..report.html import escaped
from ..rows import Row

# Of an upright sans-serif letter at 11 pixels, in the middle of many; `textLength` makes it fit.
_LETTER, _MARGIN = 6.6, 6

_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{left}: {right}">
<title>{left}: {right}</title>
<rect width="{width}" height="20" rx="3" fill="#444"/>
<path d="M{split} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{rest}z" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{margin}" y="14" textLength="{left_length}">{left}</text>
<text x="{right_at}" y="14" textLength="{right_length}">{right}</text>
</g>
</svg>
"""


def badge(rows: list[Row], system: str | None = None) -> str:
    """An SVG that says in how many cells a system is the best of those that nobody tuned; or how much faster one is.

    Parameters
    ----------
    rows : list of dict
        Of docs/rows.md.
    system : str, optional
        None: the default method if there are rows of it, else the one that is the best most often.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If there is no row to speak of, or none of that system.
    """
    cells = _cells(_named_apart([row for row in rows if row["kind"] == "fusion"]))
    if cells or system is not None:
        name, words, share = _wins(cells, system)
        return _drawn(label_of(name), words, "#007a59" if share >= 0.5 else "#0072b2")
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == "speed" and "flops" not in row:
            ratios.setdefault(row["baseline"], []).append(row["speedup"])
    if not ratios:
        raise ValueError("rows: none has a score or a speed-up; rows of docs/rows.md are needed for a badge")
    baseline, found = max(ratios.items(), key=lambda item: len(item[1]))
    return _drawn("speed", f"{median(found):.1f}× {baseline}", "#007a59" if median(found) >= 1.0 else "#0072b2")


def _named_apart(rows):
    """The rows, and where two packages have a system of one name, that of the other package with the package's."""
    packages: dict[str, set[str]] = {}
    for row in rows:
        packages.setdefault(row["system"], set()).add(row["package"])
    shared = {system for system, found in packages.items() if len(found) > 1}

    def name(row):
        own = row["system"] not in shared or row["package"] == "fastccpd"
        return row["system"] if own else f"{row['system']} of {row['package']}"

    return [{**row, "system": name(row)} for row in rows]


def _cells(rows):
    """{cell: {system: R-SNR}} of what nobody tuned, in cells where there is somebody to compare with."""
    scores = {
        place: {
            system: entry["rsnr"] for (system, tuned), entry in cell.items() if not tuned and entry["rsnr"] is not None
        }
        for place, cell in standings(rows).items()
    }
    return {place: cell for place, cell in scores.items() if len(cell) > 1}


def _wins(cells, system):
    known = {name for cell in cells.values() for name in cell}
    won = dict.fromkeys(sorted(known), 0)
    for cell in cells.values():
        won[max(cell, key=lambda name: cell[name])] += 1
    if system is not None and system not in known:
        raise ValueError(
            f"system: got {system!r}; one that is compared in the rows is needed: {', '.join(won) or 'none'}"
        )
    name = system or (DEFAULT if DEFAULT in known else max(won, key=lambda name: won[name]))
    places = sum(name in cell for cell in cells.values())
    return name, f"best R-SNR in {won[name]} of {places}", won[name] / places


def _drawn(left, right, colour):
    lengths = [max(1, round(_LETTER * len(text))) for text in (left, right)]
    split, width = lengths[0] + 2 * _MARGIN, sum(lengths) + 4 * _MARGIN
    return _SVG.format(
        left=escaped(left),
        right=escaped(right),
        width=width,
        split=split,
        rest=width - split - 3,
        colour=colour,
        margin=_MARGIN,
        left_length=lengths[0],
        right_at=split + _MARGIN,
        right_length=lengths[1],
    )
