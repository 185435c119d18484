"""One page for all results: a leaderboard, quality against time, the history of speed, ratios, the roofline.

`page` makes it of files of rows (docs/rows.md) and of asv's results; it needs neither a network nor a server. `badge`
is the same in a word, as SVG. docs/dashboard.md describes both.
"""

from collections.abc import Iterable
from typing import Any

from ..model import types
from ..report.html import Markup, element, pairs
from .badge import badge
from .board import board
from .history import history
from .page import document
from .sources import USUAL, Sources, read
from .speeds import machine_name, ratio_tables, roofs

__all__ = ["USUAL", "Sources", "badge", "page", "read"]


def page(sources: Sources | Iterable[types.Path], title: str = "Results") -> str:
    """A page of all that was read.

    Parameters
    ----------
    sources : Sources or iterable of paths
        What `read` gives, or what it takes. Sentences on what cannot be shown are added to its faults.
    title : str

    Returns
    -------
    str
        A whole HTML document.

    Examples
    --------
    >>> from fastccpd import dashboard
    >>> html = dashboard.page(["rows.jsonl.gz", ".asv/results"])  # doctest: +SKIP
    """
    sources = sources if isinstance(sources, Sources) else read(sources)
    faults = sources.faults
    fusions, speeds = ([row for row in sources.rows if row["kind"] == kind] for kind in ("fusion", "speed"))
    numbers: dict[str, Any] = {"board": None, "history": None, "roofs": roofs(speeds)}
    sections: dict[str, Markup] = {}
    if fusions:
        numbers["board"] = board(fusions)
        sections["Leaderboard"] = _place("board", _words_of(fusions))
        sections["Quality against time"] = _place("tradeoff", _FRONT)
        sections["Curves"] = _place("curves", _CURVES)
    if sources.results:
        found: list[str] = []
        numbers["history"] = history(sources.results, sources.benchmarks, found)
        faults += [sentence for sentence in found if sentence not in faults]  # a page may be made twice
        sections["History of speed"] = _place("history", _HISTORY)
    if ratios := ratio_tables(speeds):
        sections["Side by side"] = element("p", _RATIOS) + ratios
    if numbers["roofs"]:
        sections["Roofline"] = _place("roofs", _ROOF)
    sections["Machines and versions"] = _machines(sources)
    if faults:
        listed = element("ul", *(element("li", sentence) for sentence in faults), class_="faults")
        sections["Left out"] = element("p", "What could not be used, and why:") + listed
    return document(title, sections, numbers)


_FRONT = (
    "Each point is a system in one cell, medians of its draws. Those on the dashed line are the front: no other is "
    "both faster and better. Hollow: tuned with the truth known, an upper bound that no user can reach; the front is "
    "drawn without them."
)
_CURVES = "One scene against the noise. A system's name takes its line away or brings it back."
_HISTORY = (
    "asv's results by commit. A hollow point was measured once (--quick): it may be anything and decides nothing. "
    "Steps are found among values with repeats; the one unconfirmed value between others is no step."
)
_RATIOS = "How many times as long the other takes, both measured in turns in one run; above 1× the routine is faster."
_ROOF = "Flops a second against flops per byte. The line is what arithmetic and memory allow, measured in the same run."


def _place(name, words):
    """Where the script puts a part of the page."""
    return element("p", words, class_="small") + element("div", data_view=name)


def _words_of(rows):
    failed = sum("error" in row for row in rows)
    words = f"{len(rows)} runs, medians over noise draws. "
    if failed:
        words += f"{failed} of them gave no result; where all draws failed, the reason is in the table. "
    return words + (
        'A system marked "tuned" was given the best options for each image, found with the truth known: an upper '
        "bound. The address of this page follows what is chosen, so it can be passed on."
    )


def _machines(sources):
    counts: dict[str, dict[str, Any]] = {}
    for row in sources.rows:
        about = counts.setdefault(machine_name(row), {"rows": 0, "versions": {}})
        about["rows"] += 1
        versions = {row["package"]: row["version"], **(row.get("versions") or {})}
        for package, version in versions.items():
            about["versions"].setdefault(str(package), {})[str(version)] = None
    for result in sources.results:
        about = result.get("params") if isinstance(result.get("params"), dict) else {}
        name = ", ".join(str(about[key]) for key in ("cpu", "num_cpu", "os", "arch") if about.get(key)) or "unknown"
        entry = counts.setdefault(f"asv on {name}", {"rows": 0, "versions": {}})
        entry["rows"] += 1
        entry["versions"].setdefault("python", {})[str(result.get("python"))] = None
    described = {
        name: f"{about['rows']} rows; "
        + ", ".join(f"{package} {' and '.join(found)}" for package, found in sorted(about["versions"].items()))
        for name, about in counts.items()
    }
    return element("div", pairs(described), class_="wide", tabindex=0, role="region", aria_label="Machines")
