"""Rows of an experiment: a file of JSON lines, their medians, and CSV.

A row is written in one go when it is done, so a run that is killed leaves whole rows, and at most one torn line at the
end, which the next run removes.
"""

import csv
import gzip
import io
import json
import os
from contextlib import contextmanager
from statistics import median

from ..imaging.metrics import usual_names
from ..model.files import one_line, write_whole
from ..rows import examined


def read(path):
    """The rows of a file, in its order; a torn last line is left out.

    Parameters
    ----------
    path : path
        A file of JSON lines, compressed if its name ends in .gz; docs/rows.md says what a line holds.

    Returns
    -------
    list of dict
    """
    found = []
    for number, row, wrong in examined(path):
        if wrong is None and row.get("kind") == "speed":
            wrong = 'kind: got "speed"; "fusion" is needed'
        if wrong is not None:
            what = "not JSON" if wrong.startswith("not JSON") else f"no row ({wrong})"
            raise ValueError(f"{path}: line {number} is {what}; remove it, and its row is computed again")
        found.append(row)
    return found


def check_drawable(path, rows):
    """Refuse rows of a file in which there is nothing to draw.

    Parameters
    ----------
    path : path
        For the message.
    rows : list of dict
    """
    if not rows:
        raise ValueError(f"{path}: holds no rows; run the experiment without --redraw first")
    if all("error" in row for row in rows):
        first = rows[0]
        raise ValueError(f"{path}: all rows failed, the first ({first['system']}): {one_line(first['error'])}")


@contextmanager
def appending(path):
    """A function that adds a row to the file at once; no second process may append meanwhile."""
    with open(path, "a+b") as file:
        _lock(file, path)
        _cut_torn_line(file)

        def append(row):
            file.write(json.dumps(row).encode("ascii") + b"\n")
            file.flush()

        yield append
        os.fsync(file.fileno())


def rewrite(path, rows):
    """Replace the file by these rows, whole or not at all."""
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))


def pack(path, rows):
    """Write rows to be kept: scores and times to six digits, without pictures, compressed if the name ends in .gz."""
    kept = ({name: _to_six_digits(name, value) for name, value in row.items() if name != "maps"} for row in rows)
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in kept).encode("ascii")
    # Without the time of writing the same rows give the same file.
    write_whole(path, gzip.compress(text, mtime=0) if str(path).endswith(".gz") else text)


def medians(rows, by, filtered=False):
    """The median of every metric over the runs.

    Of the many settings of a tuned system, each image counts with the one of best R-SNR, the paper's setting included.

    Parameters
    ----------
    rows : list of dict
        Rows with an "error" are left out.
    by : str
        What varies, "snr" or "rank".
    filtered : bool
        Whether to take the scores after the Lee filter.

    Returns
    -------
    dict
        {(value of `by`, system, tuned): {metric: median, "runs": count}}
    """
    scores, groups = "lee" if filtered else "metrics", {}
    for key, row in counting(rows, by, scores):
        groups.setdefault(key, []).append(row)
    return {
        key: {**{name: median_of(row[scores].get(name) for row in group) for name in usual_names()}, "runs": len(group)}
        for key, group in groups.items()
    }


def write_csv(path, rows):
    """Write the rows as CSV, one line for each, without pictures: what a spreadsheet or a data frame reads.

    Parameters
    ----------
    path : path
        An existing file is replaced, whole or not at all.
    rows : list of dict
    """
    columns = ["scene", "system", "method", "options", "tuned", "snr", "run", *usual_names()]
    columns += [f"lee_{name}" for name in usual_names()]
    columns += ["seconds", "cpu_seconds", "peak_memory", "n_iter", "status", "error"]
    lines = []
    for row in rows:
        lee = {f"lee_{name}": value for name, value in row.get("lee", {}).items()}
        lines.append({**row, **row.get("metrics", {}), **lee, "options": json.dumps(row["options"])})
    write_lines(path, columns, lines)


def write_lines(path, columns, lines):
    """Write a CSV file, whole or not at all; what a line has beside the columns is left out."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    write_whole(path, text.getvalue())


def rank_of(row):
    """The rank a row was made with; of a multilinear rank, the first."""
    rank = row["options"]["rank"]
    return rank[0] if isinstance(rank, list | tuple) else rank


def counting(rows, by, scores="metrics"):
    """(key, row) of every row that counts by itself, and of the best setting of every tuned system and image.

    An image on which a system was not tuned has no part in its tuned entry.

    Parameters
    ----------
    rows : list of dict
        Those that failed are left out.
    by : "snr" or "rank"
    scores : "metrics" or "lee"
        Which of them decide.

    Yields
    ------
    (value of `by`, system, tuned), row
    """
    best = {}
    searched = {(row["system"], row["snr"], row["run"]) for row in rows if row["tuned"]}
    for row in rows:
        if scores not in row:  # it failed, or its package knows no filter
            continue
        place = rank_of(row) if by == "rank" else row[by]
        if not row["tuned"]:
            yield (place, _plain(row, by), False), row
        if (row["system"], row["snr"], row["run"]) in searched:
            image = (place, _plain(row, by), row["snr"], row["run"])
            if image not in best or _rsnr(row[scores]) > _rsnr(best[image][scores]):
                best[image] = row
    for (place, system, _, _), row in best.items():
        yield (place, system, True), row


def as_kept(number):
    """A number as rows that are kept have it: to six digits."""
    return float(f"{number:.6g}")


def _to_six_digits(name, value):
    if name in ("metrics", "lee"):
        return {metric: _to_six_digits("cost", score) for metric, score in value.items()}
    return as_kept(value) if name in ("seconds", "cpu_seconds", "cost") and isinstance(value, float) else value


def _plain(row, by):
    """The system's name; without its rank where that is what varies."""
    return row["system"].partition("@")[0] if by == "rank" else row["system"]


def _rsnr(scores):
    return float("-inf") if scores.get("rsnr") is None else scores["rsnr"]


def median_of(values):
    """The median of the values that are there; None if none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _lock(file, path):
    try:
        import fcntl
    except ImportError:  # a system without it trusts its user
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise OSError(f"{path}: another experiment is writing to it; wait for it, or choose another folder") from None


def _cut_torn_line(file):
    """Remove what follows the last whole line."""
    file.seek(0)
    whole = file.read().rfind(b"\n") + 1
    file.truncate(whole)
    file.seek(whole)
