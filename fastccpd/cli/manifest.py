"""What a batch is to do: the pairs of a manifest, or of a folder by a pattern.

A manifest is CSV with a head line, or JSON-lines, one object for each pair: `hsi` and `msi`, and whatever of `name`,
`output`, `truth` and the options of `fuse_files` and of the method differs from the defaults. A line {"defaults": {…}}
of JSON-lines holds what is the same for all pairs after it. Relative paths are from the manifest's folder.
"""

import csv
import io
import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..formats import check_text
from ..formats.inspection import as_path

# Columns that are files, from the manifest's folder where they are relative.
_PATHS = ("hsi", "msi", "truth", "hsi_mask", "msi_mask")

# Options that are a file or a name of something else.
_PERHAPS_PATHS = ("psf", "srf", "grid")

_MOST_BYTES = 1 << 26

_TEMPLATE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Row:
    """One pair.

    Attributes
    ----------
    number : int
        From 1.
    name : str
        What it is called: by the manifest, else by the HSI's file.
    hsi, msi, output : str
    truth : str or None
    options : dict
        Of `fuse_files`.
    """

    number: int
    name: str
    hsi: str
    msi: str
    output: str
    truth: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


def absolute(row):
    """A row whose paths mean the same in every folder, for workers that were started elsewhere."""

    def placed(name, value):
        if not isinstance(value, str) or name not in (*_PATHS, "output", "uncertainty", *_PERHAPS_PATHS):
            return value
        file, mark, inner = value.partition("::")
        if name in _PERHAPS_PATHS and not (Path(file).suffix and os.path.exists(file)):
            return value
        return str(Path(file).absolute()) + mark + inner

    paths = {name: placed(name, getattr(row, name)) for name in ("hsi", "msi", "output", "truth")}
    return replace(row, **paths, options={name: placed(name, value) for name, value in row.options.items()})


def rows_of(source, pattern, template, defaults):
    """The rows of a manifest, or of a folder and a pattern, their outputs named by the template.

    Parameters
    ----------
    source : path
    pattern : (hsi, msi) or None
        Names of files with {name} in them, for a folder.
    template : str
        With {name}, {number}, {method} or {hsi} in it.
    defaults : dict
        Options of every row that does not have its own.
    """
    source = Path(source)
    if source.is_dir():
        if pattern is None:
            raise ValueError(f"{source}: is a folder; --pattern HSI MSI says which files in it are pairs")
        entries, base = _matches(source, pattern), source
    else:
        if pattern is not None:
            raise ValueError(f"--pattern: is for a folder, but {source} is a manifest; leave it out")
        entries, base = _entries(source), source.parent
    rows = [_row(number, entry, base, template, defaults) for number, entry in enumerate(entries, start=1)]
    if not rows:
        raise ValueError(f"{source}: holds no pairs; some are needed")
    outputs = {}
    for row in rows:
        other = outputs.setdefault(str(Path(row.output).absolute()).casefold(), row)
        if other is not row:
            both = f"pairs {other.number} and {row.number} would both be {row.output}"
            raise ValueError(f"-o: {both}; {{number}} or {{name}} tells them apart")
    return rows


def _entries(path):
    """The objects of a manifest."""
    check_text(path, "a manifest", _MOST_BYTES)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is no text in UTF-8; a manifest as CSV or JSON-lines is needed") from None
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return _of_json_lines(path, text)
    return _of_csv(path, text)


def _of_json_lines(path, text):
    found, defaults = [], {}
    for number, line in enumerate(text.split("\n"), start=1):  # other ends of lines may stand in a text
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError(f"{path}: line {number} is no JSON; one object for each pair is needed") from None
        if not isinstance(entry, dict):
            raise ValueError(f"{path}: line {number} is {type(entry).__name__}; an object is needed")
        if set(entry) == {"defaults"} and isinstance(entry["defaults"], dict):
            defaults = entry["defaults"]
            continue
        found.append(defaults | entry)
    return found


def _of_csv(path, text):
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        head = [name.strip() for name in reader.fieldnames or ()]
        rows = list(reader)
    except csv.Error as error:
        raise ValueError(f"{path}: line {reader.line_num}: {error}; CSV with a head line is needed") from None
    if "" in head or len(set(head)) < len(head):
        raise ValueError(f"{path}: its head line has a column without a name, or two of one name")
    for number, row in enumerate(rows, start=2):
        if None in row:
            raise ValueError(f"{path}: line {number} has more cells than the head line")
    return [
        {key.strip(): _value(key.strip(), cell) for key, cell in row.items() if (cell or "").strip()} for row in rows
    ]


def _value(key, cell):
    """A cell as JSON where it is that, else as text; names are text."""
    if key in (*_PATHS, "name", "output"):
        return cell.strip()
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _matches(folder, pattern):
    """Pairs of files whose names have the same part in the place of {name}."""
    found = []
    for one in pattern:
        if one.count("{name}") != 1:
            raise ValueError(f"--pattern: got {one!r}; {{name}}, once, for what the two files share, is needed")
        before, after = map(re.escape, one.split("{name}"))
        expression = re.compile(f"{before}(.+){after}")
        names = (expression.fullmatch(path.name) for path in sorted(folder.iterdir()))
        found.append({match[1]: match[0] for match in names if match})
    hsi, msi = found
    return [{"name": name, "hsi": hsi[name], "msi": msi[name]} for name in hsi if name in msi]


def _row(number, entry, base, template, defaults):
    entry = defaults | {key: value for key, value in entry.items() if value is not None}
    for name in ("hsi", "msi"):
        if not isinstance(entry.get(name), str):
            raise ValueError(f"pair {number}: has no {name}; the path of an image is needed")
    for name in ("name", "output", *_PATHS):
        if not isinstance(entry.get(name, ""), str):
            raise ValueError(f"pair {number}: got {entry[name]!r} as {name}; a text is needed")
    for name in _PATHS:
        if name in entry:
            file, mark, inner = entry[name].partition("::")
            entry[name] = str(base / file) + mark + inner
    options = {key: value for key, value in entry.items() if key not in ("name", "hsi", "msi", "output", "truth")}
    stem = Path(entry["hsi"].partition("::")[0]).stem
    name = entry.get("name", stem)
    if "output" in entry:
        output = str(base / entry["output"])
    else:
        output = _named(template, {"name": name, "number": number, "method": options.get("method", ""), "hsi": stem})
    as_path(output)
    return Row(number, name, entry["hsi"], entry["msi"], output, entry.get("truth"), options)


def _named(template, known):
    def part(match):
        if match[1] not in known:
            names = ", ".join(f"{{{key}}}" for key in known)
            raise ValueError(f"-o: got {{{match[1]}}} in {template!r}; {names} are known")
        # A name is part of a file's name, and leads to no other folder.
        return str(known[match[1]]).replace("/", "_").replace("\\", "_")

    parts = [(_TEMPLATE.sub(part, piece), piece) for piece in template.split("/")]
    for made, piece in parts:
        if made != piece and made in ("", ".", ".."):
            raise ValueError(f"-o: {piece} becomes {made!r}, which is no name of a file; another name is needed")
    return "/".join(made for made, _ in parts)
