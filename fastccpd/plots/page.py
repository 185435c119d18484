"""The page: figures, the sizes of their letters, the looks of their lines, titles, legends; and files of them.

matplotlib is asked for here alone, by name and when something is drawn.
"""

import importlib
import io
import textwrap
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.checks import as_count
from ..model.files import write_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")

# Points; nothing is smaller than the last, which is still read easily on paper.
HEADING_SIZE, TITLE_SIZE, LABEL_SIZE, TICK_SIZE = 10.0, 9.0, 8.5, 7.5

# Inches: the width between the margins of an A4 page, upright and on its side.
PAGE_WIDTH, PAGE_LENGTH = 7.1, 10.2

# What missing pixels look like.
GREY = "0.62"

# Okabe and Ito's colours without the yellow, which white paper swallows.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_LINES = ("-", "--", "-.", ":")


def system_style(index: int) -> dict[str, str]:
    """How the line of a system is drawn: colour, marker and line style, all three different from its neighbours'.

    Parameters
    ----------
    index : int
        The number of the system, from 0.

    Returns
    -------
    dict
        Keyword arguments of `Axes.plot`.

    Examples
    --------
    >>> from fastccpd import plots
    >>> plots.system_style(1)
    {'color': '#D55E00', 'marker': 's', 'linestyle': '--'}
    """
    index = as_count(index, "index", least=0)
    looks = {"color": _COLOURS, "marker": _MARKERS, "linestyle": _LINES}
    return {name: kinds[index % len(kinds)] for name, kinds in looks.items()}


def figure(
    rows: int = 1, columns: int = 1, *, width: float = PAGE_WIDTH, height: float | None = None, **subplots: Any
) -> "tuple[Figure, np.ndarray]":
    """An empty figure in constrained layout.

    Parameters
    ----------
    rows, columns : int
        How many axes.
    width, height : float
        Inches; a height of None makes each axes three quarters as high as wide.
    **subplots
        Passed on to `Figure.subplots`: sharex, sharey, …

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : (rows, columns) array of matplotlib.axes.Axes
    """
    rows, columns = as_count(rows, "rows"), as_count(columns, "columns")
    height = 0.75 * width * rows / columns if height is None else height
    drawn = matplotlib_module("figure").Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False, **subplots)
    for one in axes.flat:
        one.tick_params(labelsize=TICK_SIZE)
        one.xaxis.get_offset_text().set_size(TICK_SIZE)
        one.yaxis.get_offset_text().set_size(TICK_SIZE)
    return drawn, axes


def label(
    axes: "Axes", *, title: str | None = None, x: str | None = None, y: str | None = None, inches: float | None = None
) -> None:
    """Write a title and axis labels in the sizes of all figures, as plain text.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    title, x, y : str, optional
        None leaves what is there.
    inches : float, optional
        The width into which the title is wrapped; None: it is not.
    """
    if title is not None:
        axes.set_title(title if inches is None else wrap(title, inches), fontsize=TITLE_SIZE, parse_math=False)
    if x is not None:
        axes.set_xlabel(x, fontsize=LABEL_SIZE, parse_math=False)
    if y is not None:
        axes.set_ylabel(y, fontsize=LABEL_SIZE, parse_math=False)


def wrap(text: str, inches: float, size: float = TITLE_SIZE) -> str:
    """A text in lines that fit.

    Parameters
    ----------
    text : str
    inches : float
        The width there is.
    size : float
        Of the letters, in points.

    Returns
    -------
    str
    """
    fitting = max(5, int(inches * 72.0 / (0.55 * size)))

    def lines(part):
        # A hyphen inside a name is a place to break only where the name would not fit on a line of its own.
        hyphens = any(len(word) > fitting for word in part.split())
        return textwrap.wrap(part, fitting, break_on_hyphens=hyphens) or [""]

    return "\n".join(line for part in text.split("\n") for line in lines(part))


def heading(drawn: "Figure", text: str) -> None:
    """Write a title above all axes of a figure, in lines that fit; the figure grows by them.

    Parameters
    ----------
    drawn : matplotlib.figure.Figure
    text : str
    """
    text = wrap(text, drawn.get_figwidth() - 0.2, HEADING_SIZE)
    drawn.set_figheight(drawn.get_figheight() + lines_high([text]) + 0.1)
    drawn.suptitle(text, fontsize=HEADING_SIZE, parse_math=False)


def legend(drawn: "Figure", handles: "Sequence[Artist]", names: Iterable[str]) -> None:
    """Name lines below all axes of a figure, in as many columns as fit; the figure grows by it.

    Parameters
    ----------
    drawn : matplotlib.figure.Figure
    handles : sequence of matplotlib.artist.Artist
        The lines.
    names : iterable of str
        One for each.
    """
    # A name that begins with "_" would be left out, and "$" begins a formula.
    shown = [f" {name}" if name.startswith("_") else name for name in map(str, names)]
    columns = max(1, min(len(shown), int(drawn.get_figwidth() / (0.065 * max(map(len, shown)) + 0.65))))
    drawn.set_figheight(drawn.get_figheight() + 0.19 * (-(-len(shown) // columns)) + 0.1)
    placed = drawn.legend(handles, shown, loc="outside lower center", ncols=columns, fontsize=LABEL_SIZE, frameon=False)
    for text in placed.get_texts():
        text.set_parse_math(False)


def log_axis(axes: "Axes", values: Iterable[float]) -> None:
    """Make the vertical axis a log axis of readable numbers, also where it spans less than a decade.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    values : iterable of float
        What is drawn on it.
    """
    ticker = matplotlib_module("ticker")
    axes.set_yscale("log")
    positive = [value for value in values if np.isfinite(value) and value > 0.0]
    span = max(positive) / min(positive) if positive else 1.0
    if span < 1e3:
        digits = (1.0, 2.0, 5.0) if span > 8.0 else (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=digits) if span > 1.3 else ticker.MaxNLocator(4))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def without_surplus(axes, count):
    """The first so many axes, in a list; the others are taken out of the figure."""
    for one in axes.flat[count:]:
        one.remove()
    return list(axes.flat[:count])


def lines_high(titles):
    """Inches for the one of these titles that has most lines."""
    return 0.16 * max(title.count("\n") + 1 for title in titles)


def as_png(figure: "Figure", dpi: float = 150) -> bytes:
    """The figure as the bytes of a PNG file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    dpi : float
        Dots per inch.

    Returns
    -------
    bytes
    """
    return _bytes(figure, "png", dpi)


def save(figure: "Figure", path: str | PathLike, dpi: float = 200) -> None:
    """Write a figure as png, pdf or svg, by the path's suffix; an existing file is replaced, never left half written.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path
        Its suffix is one of `FORMATS`.
    dpi : float
        Dots per inch of a png.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"path: got {path.name!r}; a name that ends in {', '.join(FORMATS)} is needed")
    write_whole(path, _bytes(figure, path.suffix.lower()[1:], dpi))


def _bytes(figure, form, dpi):
    held = io.BytesIO()
    # Without the date and the program's name, the same figure gives the same file.
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    figure.savefig(held, format=form, dpi=dpi, metadata=metadata[form])
    return held.getvalue()


def matplotlib_module(module):
    """A module of matplotlib, or a sentence on how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError:
        raise ModuleNotFoundError('plots need matplotlib; pip install "fastccpd[plot]"') from None
