"""Pictures of an experiment, from its rows alone."""

import itertools

from .. import methods, plots
from ..imaging.metrics import METRICS
from .measuring import unpacked
from .rows import medians
from .systems import SYSTEMS, in_order, label_of

_PANELS = ("rsnr", "sam", "rmse", "cc")
_TABLES = ("rsnr", "sam")
_ABSCISSAE = {"snr": "SNR of both images (dB)", "rank": "rank R"}
UPPER_BOUND = "tuned with the truth known: an upper bound no user can reach"

#: The method that nobody has to tune has a colour and a marker that no other has, and the heaviest line.
UNTUNED = {"color": "#8B0000", "marker": "*", "markersize": 8.0, "linewidth": 2.6, "zorder": 3}


def curves(rows, by, filtered=False):
    """The medians of four metrics against the SNR or the rank: a figure of four panels, one line for each system.

    Parameters
    ----------
    rows : list of dict
    by : "snr" or "rank"
    filtered : bool
        Whether to show the scores after the Lee filter.

    Returns
    -------
    matplotlib.figure.Figure
    """
    table = medians(rows, by, filtered)
    at = abscissae(key[0] for key in table)
    figure, axes = plots.figure(2, 2, height=6.4)
    for panel, metric in zip(axes.flat, _PANELS):
        for name, tuned in _lines(table):
            points = sorted((at[key[0]], entry[metric]) for key, entry in table.items() if key[1:] == (name, tuned))
            points = [point for point in points if point[1] is not None]
            if points:
                panel.plot(*zip(*points), label=_label(name, tuned), **_style(name, tuned))
        if metric == "rmse":
            plots.log_axis(panel, [value for line in panel.get_lines() for value in line.get_ydata()])
        if None in at:
            panel.set_xticks(list(at.values()), [place_name(place) for place in at])
        column = METRICS[metric]
        plots.label(panel, x=_ABSCISSAE[by], y=f"{column.with_unit('units of the scene')}, {column.better}")
        panel.grid(alpha=0.3, linewidth=0.5)
    plots.legend(figure, *axes.flat[0].get_legend_handles_labels())
    plots.heading(figure, _title(rows, table, filtered))
    return figure


def bands(rows):
    """One column for each system, three rows: the band, its residual, the SAM map; of the first run in the rows.

    Where both solvers of "nn-ccpd-nls" have a row, the default one is shown: the two pictures look the same.

    Parameters
    ----------
    rows : list of dict
        Of the experiment "bands", whose rows carry pictures.

    Returns
    -------
    matplotlib.figure.Figure
    """
    first = rows[0]
    same = [row for row in rows if (row["snr"], row["run"]) == (first["snr"], first["run"]) and "maps" in row]
    shown = [row for row in same if not row["tuned"]]
    systems = {row["system"] for row in shown}
    if {"nn-ccpd-nls", "nn-ccpd-nls:paper"} <= systems:
        shown = [row for row in shown if row["system"] != "nn-ccpd-nls:paper"]
    if not shown:
        raise ValueError('rows: none carries pictures; rows of the experiment "bands" are needed')
    panels = []
    for row in shown:
        maps = {name: unpacked(packed) for name, packed in row["maps"].items()}
        note = f"{METRICS['rsnr'].label} {row['metrics']['rsnr']:.1f} {METRICS['rsnr'].unit}".replace(" -", " −")
        pictures = {name: maps[name] for name in ("band", "residual", "sam")}
        panels.append({"title": _label(row["system"]), "note": note, **pictures})
    truth = unpacked(shown[0]["maps"]["truth"])
    title = f"{first['scene']}, SNR {first['snr']:g} dB, no filter"
    return plots.comparison(panels, truth, band_label=f"band {first['band']}", title=title)


def text_table(rows, by, filters=(False, True)):
    """The medians of R-SNR and SAM as Markdown, without and with the Lee filter.

    Parameters
    ----------
    rows : list of dict
    by : "snr" or "rank"
    filters : sequence of bool
        Which of the two tables to make.

    Returns
    -------
    str
    """
    tables = {"Lee filter" if filtered else "no filter": medians(rows, by, filtered) for filtered in filters}
    places = list(abscissae(key[0] for table in tables.values() for key in table))
    unit = "dB" if by == "snr" else ""
    parts = []
    for metric, (filtering, table) in itertools.product(_TABLES, tables.items()):
        title = f"{METRICS[metric].heading}, {filtering}"
        lines = [f"| {title} | " + " | ".join(place_name(place, unit) for place in places) + " |"]
        lines.append("| --- |" + " ---: |" * len(places))
        for name, tuned in _lines(table):
            cells = [table.get((place, name, tuned), {}).get(metric) for place in places]
            values = " | ".join("–" if cell is None else f"{cell:.1f}" for cell in cells)
            lines.append(f"| {_label(name, tuned)} | {values} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def abscissae(places):
    """Where each SNR or rank is drawn, in their order; no noise comes last, as far away as 10 dB.

    Parameters
    ----------
    places : iterable of float or None

    Returns
    -------
    dict of place to float
    """
    places = set(places)
    at = {place: float(place) for place in sorted(places - {None})}
    return at | ({None: max(at.values(), default=0.0) + 10.0} if None in places else {})


def place_name(place, unit=""):
    """An SNR or a rank in words."""
    return "no noise" if place is None else f"{place:g} {unit}".strip()


def _lines(table):
    """(system, tuned) of every line there is, in the order of the systems, tuned ones after all others."""
    found = {key[1:] for key in table}
    return [(name, tuned) for tuned in (False, True) for name in in_order(name for name, of in found if of is tuned)]


def _label(name, tuned=False):
    return f"{label_of(name)}, tuned*" if tuned else label_of(name)


def _style(name, tuned):
    """The paper's method is drawn heavier, ours heaviest, a tuned rival dotted; a rank given moves the style."""
    plain, _, rank = name.partition("@") if name.partition("@")[0] in SYSTEMS else (name, "", "")
    if plain == methods.DEFAULT:
        return {**UNTUNED, "linestyle": plots.system_style(int(rank or 0))["linestyle"]}
    # One of another package comes after all of ours, wherever its name puts it.
    number = list(SYSTEMS).index(plain) if plain in SYSTEMS else len(SYSTEMS) + sum(map(ord, plain)) % 97
    style = {**plots.system_style(number + int(rank or 0)), "markersize": 4.5}
    if tuned:
        style = {**style, "linestyle": ":", "markerfacecolor": "none"}
    return {**style, "linewidth": 2.2} if plain.startswith("nn-ccpd-nls") else style


def _title(rows, table, filtered):
    counts = sorted({entry["runs"] for entry in table.values()})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    title = f"{rows[0]['scene']}: medians of {runs} noise draws, {'3×3 Lee filter' if filtered else 'no filter'}"
    return title + (f"\n* {UPPER_BOUND}" if any(key[2] for key in table) else "")
