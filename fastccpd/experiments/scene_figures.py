"""Pictures of the experiment of all scenes, from its rows alone."""

import math

from .. import methods, plots
from ..imaging.metrics import METRICS
from .figures import UNTUNED, UPPER_BOUND, abscissae, place_name
from .leaders import best_rival, gain_over_tuned, ours, standings
from .systems import label_of

_COLUMNS = 3

# The default, the best rival as published, and the best one tuned.
_LOOKS = {
    methods.DEFAULT: UNTUNED,
    "best rival, published": {"color": "#0072B2", "marker": "o", "markersize": 4.0, "linestyle": "--"},
    "best rival, tuned*": {"color": "#000000", "marker": "s", "markersize": 4.0, "linestyle": ":"},
}

# Beyond this many dB a difference has the strongest colour.
_STRONGEST = 3.0


def overview(rows):
    """R-SNR against the SNR, a panel for each scene: the default, and the best rival as published and tuned."""
    cells, scenes, at = _laid_out(rows)
    columns = min(_COLUMNS, len(scenes))
    lines = math.ceil(len(scenes) / columns)
    figure, axes = plots.figure(lines, columns, height=2.1 * lines)
    for panel in axes.flat[len(scenes) :]:
        panel.remove()
    for scene, panel in zip(scenes, axes.flat):
        drawn = {name: [] for name in _LOOKS}
        for level, place in at.items():
            cell = cells.get((scene, level), {})
            rivals = [best_rival(cell, tuned) for tuned in (False, True)]
            scores = [ours(cell), *(None if rival is None else rival[1] for rival in rivals)]
            for points, score in zip(drawn.values(), scores):
                if score is not None:
                    points.append((place, score))
        for name, points in drawn.items():
            panel.plot(*(zip(*points) if points else ([], [])), label=name, **_LOOKS[name])
        panel.set_xticks(list(at.values()), ["none" if level is None else f"{level:g}" for level in at])
        panel.grid(alpha=0.3, linewidth=0.5)
        column = METRICS["rsnr"]
        plots.label(panel, title=scene, x="SNR (dB)", y=f"{column.label} ({column.unit})")
    plots.legend(figure, *axes.flat[0].get_legend_handles_labels())
    plots.heading(figure, f"Medians over the noise draws\n* {UPPER_BOUND}")
    return figure


def gains(rows):
    """A table of colours: by how many dB the default is better than the best rival tuned, and who that is."""
    cells, scenes, at = _laid_out(rows)
    levels = list(at)
    figure, axes = plots.figure(1, 1, height=0.42 * len(scenes) + 0.5)
    (panel,) = axes.flat
    found = {place: gain_over_tuned(cell) for place, cell in cells.items()}
    colours = [[(found.get((scene, level)) or (math.nan,))[0] for level in levels] for scene in scenes]
    panel.imshow(colours, cmap="RdBu", vmin=-_STRONGEST, vmax=_STRONGEST, aspect="auto")
    for (scene, level), gain in found.items():
        if gain is not None:
            dark = abs(gain[0]) > 0.7 * _STRONGEST
            text = f"{gain[0]:+.1f}\n{label_of(gain[1])}"
            where = levels.index(level), scenes.index(scene)
            panel.text(*where, text, ha="center", va="center", fontsize=6, color="white" if dark else "black")
    panel.set_xticks(range(len(levels)), [place_name(level, "dB") for level in levels])
    panel.set_yticks(range(len(scenes)), scenes)
    title = f"R-SNR of {methods.DEFAULT} minus that of the best rival tuned* (dB), and that rival\n* {UPPER_BOUND}"
    plots.heading(figure, title)
    return figure


def _laid_out(rows):
    """(cells, scenes, where each SNR is drawn), in their order."""
    cells = standings(rows)
    return cells, list(dict.fromkeys(scene for scene, _ in cells)), abscissae(level for _, level in cells)
