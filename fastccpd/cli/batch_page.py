"""The page that sums up a batch: how many pairs went how, a line and a thumbnail for each."""

from collections import Counter

from ..report.html import Markup, element, escaped, number, page, pairs, table


def page_of(lines):
    """The page as text.

    Parameters
    ----------
    lines : sequence of dict
        The lines of result, in the order of the pairs.
    """
    counts = Counter(line["status"] for line in lines)
    summary = pairs({"pairs": len(lines), **counts, "seconds": number(sum(line["seconds"] for line in lines))})
    metrics = [name for name in ("rsnr", "sam", "ergas") if any(name in (line.get("metrics") or {}) for line in lines)]
    rows = [
        (
            line["name"],
            _thumbnail(line),
            line["status"],
            *(number((line.get("metrics") or {}).get(name)) for name in metrics),
            number(line["seconds"]),
            _said(line),
        )
        for line in lines
    ]
    heads = ["pair", "picture", "status", *metrics, "seconds", "verdict"]
    return page("Batch", {"Summary": summary, "Pairs": table(heads, rows)})


def _said(line):
    """The verdict, and warnings below it."""
    warnings = [element("p", warning, class_="small") for warning in line.get("warnings", ())]
    return Markup(element("span", line["verdict"]) + Markup("".join(warnings)))


def _thumbnail(line):
    data = line.get("thumbnail")
    if not data:
        return element("span", "–")
    return Markup(f'<img src="data:image/png;base64,{escaped(data)}" alt="{escaped(line["name"])}">')
