"""Curves: the spectra of pixels, the cost of a run."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..model.result import FusionResult, Trace
from .images import Image, Wavelengths, as_images, as_pixels, block_of, centres_by_name, common_bands, shape_of
from .page import figure, label, legend, log_axis, matplotlib_module, system_style, without_surplus

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def spectra(
    cubes: Mapping[str, Image],
    pixels: Iterable[tuple[int, int]],
    wavelengths: Wavelengths | None = None,
    *,
    faint: Collection[str] = (),
    quantity: str = "value",
) -> "Figure":
    """The spectra of picked pixels, one panel for each.

    Lines run in the order of wavelengths, whatever the order of the bands, and break at gaps of more than three typical
    spacings: removed bands are not drawn over. The first cube's line is wide and lies on top.

    Parameters
    ----------
    cubes : dict of name to image
        A coarser image shows the pixel that covers the place; one with other bands needs its own wavelengths.
    pixels : sequence of (row, column)
        On the grid of the first cube, from 0.
    wavelengths : (bands,) array, or dict of name to array, optional
        In nm; without any the axis is the band number, from 1.
    faint : names
        Of cubes drawn thin and grey in the background, which do not stretch the axis: noisy data.
    quantity : str
        What the values are.

    Returns
    -------
    matplotlib.figure.Figure
    """
    cubes = as_images(cubes, "cubes")
    centres, axis = centres_by_name(wavelengths, cubes), "wavelength (nm)"
    if any(known is None for known in centres.values()):
        centres, axis = dict.fromkeys(cubes), f"band (1 to {common_bands(cubes)})"
    first = shape_of(next(iter(cubes.values())))
    places = as_pixels(pixels, first)
    columns = min(2, len(places))
    rows = -(-len(places) // columns)
    drawn, axes = figure(rows, columns, height=2.1 * rows + 0.2)
    panels, handles = without_surplus(axes, len(places)), []
    for number, (one, pixel) in enumerate(zip(panels, places, strict=True), start=1):
        handles = [
            _spectrum_line(one, _spectrum(image, pixel, first), centres[name], n, name in faint)
            for n, (name, image) in enumerate(cubes.items())
        ]
        _fit_height(one, [line for line, name in zip(handles, cubes, strict=True) if name not in faint])
        lowest, leftmost = number + columns > len(places), number % columns == 1 % columns
        title = f"pixel {number}: row {pixel[0]}, column {pixel[1]}"
        label(one, title=title, x=axis if lowest else None, y=quantity if leftmost else None)
        one.grid(alpha=0.3, linewidth=0.5)
    legend(drawn, handles, cubes)
    return drawn


def convergence(runs: FusionResult | Trace | Mapping[str, FusionResult | Trace]) -> "Figure":
    """The cost on a log axis, against iterations and against seconds, from the starting point on.

    Parameters
    ----------
    runs : FusionResult or Trace, or dict of name to either
        Costs are shown relative to each run's final one, unless that is zero or a millionth of the first.

    Returns
    -------
    matplotlib.figure.Figure
    """
    named = dict(runs) if isinstance(runs, Mapping) else {"": runs}
    traces = {name: getattr(run, "trace", run) for name, run in named.items()}
    costs = {name: np.array(trace.cost, dtype=np.float64) for name, trace in traces.items()}
    relative = all(_reads_better_relative(cost) for cost in costs.values())
    drawn, axes = figure(1, 2, height=2.6, sharey=True)
    handles = []
    for n, (name, trace) in enumerate(traces.items()):
        cost = costs[name] / costs[name][-1] if relative else costs[name]
        look = {**system_style(n), "markersize": 3.5, "linewidth": 1.2, "markevery": 0.08}
        handles += axes[0, 0].plot(np.arange(len(cost)), cost, **look)
        axes[0, 1].plot(trace.seconds, cost, **look)
    label(axes[0, 0], x="iteration (0 is the start)", y="cost / final cost" if relative else "cost")
    label(axes[0, 1], x="time (s)")
    axes[0, 0].xaxis.set_major_locator(matplotlib_module("ticker").MaxNLocator(integer=True))
    log_axis(axes[0, 0], [value for line in handles for value in line.get_ydata()])
    for one in axes.flat:
        one.grid(alpha=0.3, linewidth=0.5)
    if len(named) > 1:
        legend(drawn, handles, named)
    return drawn


def _spectrum(image, pixel, first):
    row, column = ((2 * n + 1) * own // (2 * all_) for n, own, all_ in zip(pixel, shape_of(image), first))
    return block_of(image, [row], [column], None).ravel()


def _spectrum_line(axes, values, centres, index, faint):
    """One spectrum, sorted and broken at gaps; a sensor of few bands is shown by markers alone."""
    look = system_style(index)
    if centres is None:
        x, y = np.arange(1.0, len(values) + 1.0), values
    else:
        x, y = _sorted_and_broken(centres, values)
    if faint:
        look = {"color": "0.72", "linewidth": 0.8, "zorder": 1.5}
    elif len(values) < 16:
        look |= {"linestyle": "none", "markersize": 5.0}
    else:
        every = max(1, len(x) // 10)
        look |= {"linewidth": 1.0, "markersize": 3.5, "markevery": (2 * index % every, every)}
        look |= {"color": "black", "marker": "", "linewidth": 2.0, "zorder": 2.5} if index == 0 else {}
    (line,) = axes.plot(x, y, **look)
    return line


def _fit_height(axes, lines):
    """Let these lines alone decide the range of the vertical axis."""
    values = np.concatenate([line.get_ydata() for line in lines]) if lines else np.empty(0)
    values = values[np.isfinite(values)]
    if values.size:
        low, high = values.min(), values.max()
        margin = 0.06 * (high - low) or 0.5
        axes.set_ylim(low - margin, high + margin)


def _sorted_and_broken(centres, values):
    """Points in the order of wavelength, with NaN between those more than three typical spacings apart."""
    known = np.isfinite(centres)
    order = np.argsort(centres[known], kind="stable")
    x, y = centres[known][order], values[known][order]
    spacing = np.diff(x)
    gaps = np.flatnonzero(spacing > 3.0 * np.median(spacing)) + 1 if len(x) > 2 else np.empty(0, int)
    return np.insert(x, gaps, (x[gaps - 1] + x[gaps]) / 2.0), np.insert(y, gaps, np.nan)


def _reads_better_relative(cost):
    return bool(len(cost)) and np.isfinite(cost).all() and cost[-1] > 0.0 and cost.max() <= 1e6 * cost[-1]
