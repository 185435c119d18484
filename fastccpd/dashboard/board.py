"""The leaderboard: the medians of every system in every cell, a scene at an SNR, as the page takes them.

Medians are those of `experiments.leaders`; rows of another package, or of another version of one, are never mixed with
those of the first. Where a cell has a system by several versions of a package, all but the newest are older entries,
which the page shows when they are asked for.
"""

import json
import re
from typing import Any

from ..experiments.figures import abscissae, place_name
from ..experiments.leaders import by_scene, standings
from ..experiments.systems import in_order, is_known, label_of
from ..imaging.metrics import METRICS, SECONDS
from ..methods import DEFAULT
from ..rows import Row

#: The scores that have a column.
SCORES = ("rsnr", "sam", "ergas")

_DIGITS = 5


def board(rows: list[Row]) -> dict[str, Any]:
    """Scenes, levels, systems and entries.

    Parameters
    ----------
    rows : list of dict
        Of kind "fusion".

    Returns
    -------
    dict
        "scenes" and "levels" by name, "systems", "metrics", "options"; "entries" are lists: the numbers of scene, level
        and system, whether it was tuned, the scores, seconds, bytes, draws, the number of its options, and why it
        failed if it did; "older" are the numbers of entries that a newer version has replaced.
    """
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        parts.setdefault((row["package"], row["version"]), []).append(row)
    scenes, levels = list(by_scene(rows)), list(abscissae(row["snr"] for row in rows))
    systems: list[dict[str, Any]] = []
    options: dict[str, int] = {}
    entries = []
    names_of: dict[str, set[str]] = {}
    for row in rows:
        names_of.setdefault(row["package"], set()).add(row["system"])
    newest: dict[tuple, int] = {}
    older: list[int] = []
    for source, part in sorted(parts.items(), key=_place):
        found = {place: dict(cell) for place, cell in standings(part).items()}
        for key, error in _failures(part).items():
            found.setdefault(key[:2], {}).setdefault(key[2:], {"error": error})
        names = in_order({system for cell in found.values() for system, _ in cell})
        several = len({version for package, version in parts if package == source[0]}) > 1
        first = len(systems)
        systems += [_system(name, *source, several, names_of[source[0]]) for name in names]
        for (scene, level), cell in found.items():
            for (system, tuned), entry in cell.items():
                where = scenes.index(scene), levels.index(level), first + names.index(system), int(tuned)
                key = source[0], scene, level, system, tuned
                if key in newest:
                    older.append(newest[key])
                newest[key] = len(entries)
                entries.append([*where, *_values(entry, options)])
    return {
        "scenes": scenes,
        "levels": [place_name(level, "dB") for level in levels],
        "systems": systems,
        "metrics": [
            {"name": name, "label": METRICS[name].heading, "direction": METRICS[name].direction} for name in SCORES
        ]
        + [{"name": SECONDS.name, "label": SECONDS.heading, "direction": SECONDS.direction}],
        "options": list(options),
        "entries": entries,
        "older": older,
    }


def _place(part):
    """Where a package's version comes: our own first, and of each package the oldest."""
    (package, version), _ = part
    # Numbers of at most nine digits: whoever writes longer ones has no order to lose.
    return package != "fastccpd", package, [int(number) for number in re.findall(r"\d{1,9}", version)], version


def _system(name, package, version, several, names):
    label = label_of(name)
    return {
        "name": name,
        "label": f"{label} ({version})" if several else label,
        "plain": label,
        "package": package,
        "version": version,
        "default": package == "fastccpd" and name == DEFAULT,
        # One rank of a system that is there as published, too.
        "other_rank": "@" in name and is_known(name) and name.partition("@")[0] in names,
    }


def _values(entry, options):
    if "error" in entry:
        return [*[None] * (len(SCORES) + 2), 0, None, entry["error"]]
    scores = [_rounded(entry[name]) for name in (*SCORES, "seconds")]
    # A process that had been larger before does not grow: nothing was measured.
    memory = entry["peak_memory"] or None
    text = ", ".join(f"{name}={json.dumps(value)}" for name, value in entry["options"].items())
    number = options.setdefault(text, len(options))
    return [*scores, None if memory is None else int(memory), entry["runs"], number]


def _failures(rows):
    """{(scene, level, system, tuned): why} of runs that gave nothing."""
    found = {}
    for scene, of_scene in by_scene(rows).items():
        for row in of_scene:
            if "error" in row:
                found[scene, row["snr"], row["system"], row["tuned"]] = row["error"]
    return found


def _rounded(value):
    return None if value is None else float(f"{value:.{_DIGITS}g}")
