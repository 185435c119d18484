"""Progress on a terminal: what runs, how far it is, how long it takes.

Both context managers yield a function to call as the work goes on. They draw with rich on stderr, and only where that
is a terminal; elsewhere nothing is written. On a terminal without rich there is one line at the end.
"""

import sys
import time
from contextlib import contextmanager


@contextmanager
def fusion_progress(label, max_iter=None, quiet=False):
    """Show a fusion.

    Parameters
    ----------
    label : str
        What runs.
    max_iter : int, optional
        The most iterations there can be.
    quiet : bool
        True shows nothing.

    Yields
    ------
    callable(state) -> bool
        To be given to `fastccpd.fuse` as `callback`; it never asks for a stop.
    """
    most = "" if max_iter is None else f" of at most {max_iter}"
    with _drawing(quiet, _columns_of_fusion) as (redraw, say):
        redraw(label, detail="getting ready (the first run compiles kernels, for half a minute)")

        def show(state):
            stage = getattr(state, "stage", "")
            limit = most if stage in ("", "decomposition") else ""
            redraw(label, detail=f"{stage} iteration {state.n_iter}{limit}, cost {state.cost:.6g}".lstrip())
            say(f"{label}: iteration {state.n_iter}, cost {state.cost:.6g}")
            return False

        yield show


@contextmanager
def rows_progress(label, quiet=False):
    """Show how many of a number of equal pieces of work are done, and how long the others will take.

    Yields
    ------
    callable(done, total)
    """
    with _drawing(quiet, _columns_of_rows) as (redraw, say):

        def show(done, total):
            redraw(label, completed=done, total=total)
            say(f"{label}: {done} of {total}")

        yield show


@contextmanager
def tiles_progress(label, quiet=False):
    """Show a fusion in tiles: those that are done, how fast, how long it will take; then the blocks that are written.

    Yields
    ------
    callable(TileProgress), callable(done, total)
    """
    with _drawing(quiet, _columns_of_tiles) as (redraw, say):

        def show(entry):
            if entry.stage != "tiles":
                redraw(label, detail=f"first pass: {entry.stage}")
                return
            speed = f"{entry.megapixels_per_second:.3g} Mpx/s" if entry.megapixels_per_second else ""
            left = "" if entry.seconds_left is None else f", {_clock(entry.seconds_left)} left"
            redraw(label, completed=entry.done, total=entry.total, detail=f"tiles {speed}{left}")
            say(f"{label}: {entry.done} of {entry.total} tiles, {speed}")

        def writing(done, total):
            redraw("writing", completed=done, total=total, detail="blocks")

        yield show, writing


def _clock(seconds):
    """A time as people read it."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _on_terminal(quiet):
    """Whether there is anybody to show progress to."""
    return not quiet and sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def _drawing(quiet, columns):
    """A function that draws a line of progress anew, and one that says what stands for it where nothing is drawn."""
    if not _on_terminal(quiet):
        yield _nothing, _nothing
        return
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        yield from _one_line_at_the_end()
        return
    first = progress.SpinnerColumn(), progress.TextColumn("{task.description}")
    with progress.Progress(*first, *columns(progress), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, detail="")
        yield lambda label, **fields: bar.update(task, description=label, **fields), _nothing


def _columns_of_fusion(progress):
    return progress.TimeElapsedColumn(), progress.TextColumn("{task.fields[detail]}")


def _columns_of_rows(progress):
    counted = progress.MofNCompleteColumn(separator=" of ")
    return progress.BarColumn(), counted, progress.TimeRemainingColumn(), progress.TimeElapsedColumn()


def _columns_of_tiles(progress):
    counted = progress.MofNCompleteColumn(separator=" of ")
    return progress.BarColumn(), counted, progress.TextColumn("{task.fields[detail]}"), progress.TimeElapsedColumn()


def _one_line_at_the_end():
    began, last = time.perf_counter(), {}
    yield _nothing, lambda line: last.update(line=line)
    if last:
        sys.stderr.write(f"{last['line']}, {time.perf_counter() - began:.1f} s\n")


def _nothing(*_, **__):
    return None
