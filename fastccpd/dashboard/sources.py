"""What a dashboard is made of: files of rows, and asv's result files.

Whatever is wrong with one row or one result is a sentence, and that row is left out; the rest is shown.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .. import rows as schema
from ..experiments.measuring import identity_of
from ..model import types

#: Where a project keeps them: what is read if nothing is named.
USUAL = (Path(".asv/results"), Path("docs/rows"))

# Beside asv's results, in the same folders: what it knows of a machine and of its benchmarks.
_MACHINE, _BENCHMARKS = "machine.json", "benchmarks.json"


class Sources(NamedTuple):
    """What was read.

    Attributes
    ----------
    rows : list of dict
        Of docs/rows.md, each run once: of two rows of the same run the later counts.
    results : list of dict
        asv's result files, each with its "path".
    benchmarks : dict
        What asv knows of its benchmarks, by name: type, unit, names of parameters.
    faults : list of str
        A sentence for each row or file that was left out.
    files : list of Path
        Every file that was read.
    """

    rows: list[schema.Row]
    results: list[dict[str, Any]]
    benchmarks: dict[str, Any]
    faults: list[str]
    files: list[Path]


def read(paths: Iterable[types.Path]) -> Sources:
    """Read files of rows (.jsonl, .jsonl.gz), asv's result files (.json), and folders of either.

    Parameters
    ----------
    paths : iterable of paths

    Returns
    -------
    Sources
    """
    found = Sources([], [], {}, [], [])
    kept: dict[str, schema.Row] = {}
    for path in dict.fromkeys(file for given in paths for file in _files(Path(given))):
        found.files.append(path)
        if path.suffix == ".json":
            _read_asv(path, found)
            continue
        good, faults = schema.read(path)
        kept |= {identity_of(row): row for row in good}
        found.faults.extend(faults)
    found.rows.extend(kept.values())
    return found


def _files(path: Path) -> Iterator[Path]:
    """The files that a path stands for; of one result of asv also the list of its benchmarks."""
    if path.is_dir():
        inside = sorted(file for ending in ("*.jsonl", "*.jsonl.gz", "*.json") for file in path.rglob(ending))
        if not inside:
            raise ValueError(f"{path}: holds neither rows (.jsonl, .jsonl.gz) nor results of asv (.json)")
        yield from inside
        return
    if path.suffix == ".json" and (beside := path.parent.parent / _BENCHMARKS).is_file():
        yield beside
    yield path


def _read_asv(path, found):
    if path.name == _MACHINE:
        return
    try:
        content = json.loads(schema.content(path))
    except (ValueError, RecursionError):
        found.faults.append(f"{path}: not JSON; a result file of asv is needed, or rows in a file that ends in .jsonl")
        return
    if path.name == _BENCHMARKS and isinstance(content, dict):
        found.benchmarks.update({name: about for name, about in content.items() if isinstance(about, dict)})
    elif isinstance(content, dict) and {"commit_hash", "results", "date"} <= content.keys():
        found.results.append({**content, "path": str(path)})
    else:
        found.faults.append(f"{path}: has no commit_hash, date and results; a result file of asv is needed")
