"""Who is best where: tables of all scenes and SNRs, from the rows alone.

A cell is a scene at an SNR. In it every system has its medians over the noise draws, at its published settings and
tuned; a rival is any system but our own. Against the default, which nobody tunes, stand the best rival as published and
the best rival tuned with the truth, which is an upper bound.
"""

import json
from statistics import median

from .. import methods
from ..imaging.metrics import METRICS, usual_names
from ..testing.simulating import usual_ratio
from .figures import UPPER_BOUND, abscissae, place_name, text_table
from .rows import counting, median_of, write_lines
from .systems import OWN, in_order, label_of

_TABLES = ("rsnr", "sam")
_FOOTNOTE = (
    f"\\* {UPPER_BOUND}; a rival that was not tuned counts as it is published. Tuned is by as many settings as the "
    "median cell below has tried: with more, a rival can only come out better.\n"
)


def by_scene(rows):
    """{scene: its rows}, in the order in which scenes come; one at an unusual ratio is a scene of its own."""
    found = {}
    for row in rows:
        ratio = row.get("ratio", usual_ratio(row["scene"]))
        name = row["scene"] if ratio == usual_ratio(row["scene"]) else f"{row['scene']}, ratio {ratio}"
        found.setdefault(name, []).append(row)
    return found


def standings(rows):
    """The medians of every system in every cell.

    Parameters
    ----------
    rows : list of dict

    Returns
    -------
    dict
        {(scene, snr): {(system, tuned): entry}}; an entry has the metrics, "seconds" (of the processor where they
        are known), "peak_memory", "runs", the "options" on the first draw, and how many "settings" were tried.
    """
    cells = {}
    for scene, of_scene in by_scene(rows).items():
        groups, tried = {}, {}
        for row in of_scene:
            setting = json.dumps(row["options"], sort_keys=True)
            tried.setdefault((row["snr"], row["system"], row["tuned"]), set()).add(setting)
        for (level, system, tuned), row in counting(of_scene, "snr"):
            groups.setdefault(level, {}).setdefault((system, tuned), []).append(row)
        for level in abscissae(groups):
            cells[scene, level] = {
                key: _entry(group) | {"settings": len(tried.get((level, *key), ()))}
                for key, group in groups[level].items()
            }
    return cells


def best_rival(cell, tuned, metric="rsnr"):
    """(system, score) of the best rival in a cell, as published or tuned; None if there is none.

    A rival that was not tuned counts among the tuned ones as it was published.

    Parameters
    ----------
    cell : dict
        One of `standings`.
    tuned : bool
    metric : str

    Returns
    -------
    (str, float) or None
    """
    rivals = {}
    for (system, searched), entry in cell.items():
        usable = system not in OWN and (tuned or not searched) and entry[metric] is not None
        if usable and (searched or system not in rivals):
            rivals[system] = entry[metric]
    direction = METRICS[metric].direction
    return max(rivals.items(), key=lambda rival: direction * rival[1], default=None)


def ours(cell, metric="rsnr"):
    """The score of the default in a cell; None if it has none."""
    return cell.get((methods.DEFAULT, False), {}).get(metric)


def report(rows):
    """All tables as one page of Markdown."""
    cells = standings(rows)
    parts = ["## Who wins where\n", *(_winners(cells, metric) for metric in _TABLES), _FOOTNOTE]
    parts += [where_beaten(cells, metric) for metric in _TABLES]
    parts += ["## Each system against the default\n", _summary(cells)]
    for scene, of_scene in by_scene(rows).items():
        parts += [f"## {scene}\n", text_table(of_scene, "snr", filters=(False,))]
    return "\n".join(parts)


def winners(rows):
    """The best in R-SNR of each cell, who beats the default, and in how many cells each system was run, as Markdown.

    Parameters
    ----------
    rows : list of dict

    Returns
    -------
    str
    """
    cells = standings(rows)
    sentences = [where_beaten(cells, metric) for metric in _TABLES]
    return "\n".join([_winners(cells, "rsnr"), _FOOTNOTE, *sentences, _summary(cells).rstrip()])


def where_beaten(cells, metric="rsnr"):
    """A sentence that names every cell in which a rival is better than the default, as published or tuned.

    Parameters
    ----------
    cells : dict
        As `standings` gives them.
    metric : str

    Returns
    -------
    str
    """
    found, column = [], METRICS[metric]
    for (scene, level), cell in cells.items():
        gain = gain_over_tuned(cell, metric)
        if gain is not None and gain[0] < 0.0:
            mark = "*" if best_rival(cell, False, metric) != best_rival(cell, True, metric) else ""
            place = place_name(level, "dB") if level is None else f"at {place_name(level, 'dB')}"
            found.append(f"{label_of(gain[1])}{mark} on {scene} ({place}) by {-gain[0]:.2f} {column.unit}")
    if not found:
        return f"In {column.label} no rival is better than {methods.DEFAULT} in any cell, as published or tuned*.\n"
    count = f"{len(found)} of {len(cells)} cells"
    return f"In {column.label} a rival is better than {methods.DEFAULT} in {count}: {'; '.join(found)}.\n"


def write_standings(path, rows):
    """Write the medians of every system in every cell as CSV, with their difference to the default."""
    columns = ["scene", "snr", "system", "tuned", "settings", "runs", *usual_names(), "seconds", "peak_memory"]
    columns += [f"{metric}_minus_{methods.DEFAULT}" for metric in _TABLES] + ["options"]
    lines = []
    for (scene, level), cell in standings(rows).items():
        for system, tuned in _ordered(cell):
            entry = cell[system, tuned]
            about = {"scene": scene, "snr": place_name(level), "system": system, "tuned": tuned}
            gaps = {f"{metric}_minus_{methods.DEFAULT}": _gap(entry, cell, metric) for metric in _TABLES}
            lines.append({**about, **entry, **gaps, "options": json.dumps(entry["options"])})
    write_lines(path, columns, lines)


def _entry(group):
    first = min(group, key=lambda row: row["run"])
    entry = {name: median_of(row["metrics"].get(name) for row in group) for name in usual_names()}
    # Processor time where it is known, which does not depend on what else the machine did.
    entry["seconds"] = median_of(row.get("cpu_seconds", row.get("seconds")) for row in group)
    entry["peak_memory"] = median_of(row.get("peak_memory") for row in group)
    return entry | {"runs": len(group), "options": first["options"]}


def _ordered(cell):
    """The keys of a cell in the order of the systems, each tuned one after its own as published."""
    systems = in_order({system for system, _ in cell})
    return [(system, tuned) for system in systems for tuned in (False, True) if (system, tuned) in cell]


def _gap(entry, cell, metric):
    own = ours(cell, metric)
    return None if own is None or entry[metric] is None else entry[metric] - own


def _winners(cells, metric):
    """For each scene the default, the best rival as published and tuned, and by how much the default is better."""
    levels = list(abscissae(level for _, level in cells))
    title = f"{METRICS[metric].heading}, {METRICS[metric].better}"
    lines = [f"| {title} | | " + " | ".join(place_name(level, "dB") for level in levels) + " |"]
    lines.append("| --- | --- |" + " ---: |" * len(levels))
    for scene in dict.fromkeys(scene for scene, _ in cells):
        row = [cells.get((scene, level), {}) for level in levels]
        lines.append(_line(f"**{scene}**", methods.DEFAULT, [_number(ours(cell, metric)) for cell in row]))
        for tuned, name in ((False, "best rival, published"), (True, "best rival, tuned*")):
            rivals = [best_rival(cell, tuned, metric) for cell in row]
            shown = ["–" if rival is None else f"{label_of(rival[0])} {rival[1]:.1f}" for rival in rivals]
            lines.append(_line("", name, shown))
        gains = [_gain(cell, rival, metric) for cell, rival in zip(row, rivals)]
        lines.append(_line("", f"{methods.DEFAULT} better than it by", [_number(gain, sign="+") for gain in gains]))
    return "\n".join(lines) + "\n"


def _gain(cell, rival, metric):
    """By how much the default is better than a rival; None where one of them is missing."""
    own = ours(cell, metric)
    return None if own is None or rival is None else METRICS[metric].direction * (own - rival[1])


def gain_over_tuned(cell, metric="rsnr"):
    """(by how much the default is better than the best rival tuned, that rival); None where one is missing."""
    rival = best_rival(cell, True, metric)
    gain = _gain(cell, rival, metric)
    return None if gain is None else (gain, rival[0])


def _summary(cells):
    """For each system: the cells it was run in, how many it wins from the default, by how much, and its time."""
    own = methods.DEFAULT
    heads = ("cells", "tuned*", "settings tried", f"beats {own}", "tuned*", f"median R-SNR − {own}'s", "tuned*")
    heads = (*heads, "median CPU seconds")
    lines = ["| system | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    for system in in_order({system for cell in cells.values() for system, _ in cell}):
        counts, won, by = [], [], []
        for tuned in (False, True):
            entries = [(cell, cell[system, tuned]) for cell in cells.values() if (system, tuned) in cell]
            gaps = [gap for cell, entry in entries if (gap := _gap(entry, cell, "rsnr")) is not None]
            gaps = [] if system == own else gaps
            counts.append(str(len(entries)))
            won.append(str(sum(gap > 0 for gap in gaps)) if gaps else "–")
            by.append(_number(median(gaps) if gaps else None, sign="+"))
        tried = [cell[system, True]["settings"] for cell in cells.values() if (system, True) in cell]
        counts.append(f"{median(tried):.0f}" if tried else "–")
        seconds = [cell[system, False]["seconds"] for cell in cells.values() if (system, False) in cell]
        known = [value for value in seconds if value is not None]
        time = f"{median(known):.2g}" if known else "–"
        lines.append(_line(label_of(system), counts[0], [*counts[1:], *won, *by, time]))
    return "\n".join(lines) + "\n"


def _line(first, second, cells):
    return f"| {first} | {second} | " + " | ".join(cells) + " |"


def _number(value, sign=""):
    return "–" if value is None else f"{value:{sign}.1f}"
