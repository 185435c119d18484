"""Rows of results: what one line of a JSON-lines file says of one run, of any method, by any package.

docs/rows.md describes the schema to others; `FIELDS` is the table that both the page and the validator follow. There
are two kinds of rows: "fusion", one method on one pair of images, and "speed", one routine beside another in one run.
Fields that the table does not know are kept and mean nothing here.

A row without the field "schema" is of before there was one. `upgraded` gives it what it lacks, as far as it is known.
"""

import gzip
import hashlib
import io
import json
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from . import machine
from .model import types
from .model.degradation import Degradation

__all__ = [
    "FIELDS",
    "KINDS",
    "SCHEMA",
    "Field",
    "Value",
    "examined",
    "fault",
    "hash_of_inputs",
    "read",
    "upgraded",
    "validate",
    "written_by",
]

#: The version of the schema that is written here, and the highest that is read.
SCHEMA = 1

KINDS = ("fusion", "speed")

# A row takes a kilobyte or two. A small compressed file may stand for more than there is memory.
_MOST_BYTES = 2**28

# Of a hash in hexadecimal: enough that no two of all images there are share one.
_DIGITS = 16

Row = dict[str, Any]


class Value(NamedTuple):
    """What a field may have.

    Attributes
    ----------
    holds : callable(value) -> bool
        Whether it may have this value.
    needed : str
        The same in words.
    """

    holds: Callable[[Any], bool]
    needed: str

    def or_null(self) -> "Value":
        """The same, or null."""
        return Value(lambda value: value is None or self.holds(value), f"{self.needed}, or null")


class Field(NamedTuple):
    """A field of a row.

    Attributes
    ----------
    name : str
    value : Value
    kind : str
        The kind of rows that have it, one of `KINDS`; empty for both.
    required : bool
        Whether a row must have it.
    outcome : bool
        Whether a run that failed, a row with an "error", does without it.
    """

    name: str
    value: Value
    kind: str = ""
    required: bool = True
    outcome: bool = False


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number, of which there is a float: whole numbers may have any digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_hash(value):
    return isinstance(value, str) and len(value) == _DIGITS and set(value) <= set("0123456789abcdef")


def _is_scores(value):
    return isinstance(value, dict) and all(score is None or is_number(score) for score in value.values())


def _is_texts(value):
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


_NUMBER = Value(is_number, "a finite number")
_DURATION = Value(lambda value: is_number(value) and value >= 0, "a number of at least 0")
_POSITIVE = Value(lambda value: is_number(value) and value > 0, "a number above 0")
_COUNT = Value(lambda value: _is_whole(value) and value >= 1, "a whole number of at least 1")
_SIZE = Value(lambda value: _is_whole(value) and value >= 0, "a whole number of at least 0")
_FLAG = Value(lambda value: isinstance(value, bool), "true or false")
_TEXT = Value(lambda value: isinstance(value, str) and value != "", "a text that is not empty")
_TEXTS = Value(_is_texts, "a list of texts")
_OBJECT = Value(lambda value: isinstance(value, dict), "an object")
_SCORES = Value(_is_scores, "an object of names and finite numbers or nulls")
_KIND = Value(lambda value: value in KINDS, '"fusion" or "speed"')
_HASH = Value(_is_hash, f"{_DIGITS} hexadecimal digits")


def _table(*fields):
    return {field.name: field for field in fields}


#: Every field that means something, by name.
FIELDS: dict[str, Field] = _table(
    Field("schema", _COUNT),
    Field("kind", _KIND),
    Field("method", _TEXT),
    Field("package", _TEXT),
    Field("version", _TEXT),
    Field("options", _OBJECT),
    Field("seconds", _DURATION, outcome=True),
    Field("machine", _OBJECT),
    Field("inputs", _HASH.or_null()),
    Field("scene", _TEXT, "fusion"),
    Field("snr", _NUMBER.or_null(), "fusion"),
    Field("run", _SIZE, "fusion"),
    Field("seed", _SIZE.or_null(), "fusion"),
    Field("ratio", _COUNT, "fusion"),
    Field("system", _TEXT, "fusion"),
    Field("tuned", _FLAG, "fusion"),
    Field("metrics", _SCORES, "fusion", outcome=True),
    Field("peak_memory", _SIZE.or_null(), "fusion", outcome=True),
    Field("error", _TEXT, "fusion", required=False),
    Field("lee", _SCORES, "fusion", required=False),
    Field("filtered", _FLAG, "fusion", required=False),
    Field("status", _TEXT, "fusion", required=False),
    Field("n_iter", _SIZE.or_null(), "fusion", required=False),
    Field("cost", _NUMBER.or_null(), "fusion", required=False),
    Field("time_limit", _DURATION.or_null(), "fusion", required=False),
    Field("band", _COUNT.or_null(), "fusion", required=False),
    Field("maps", _OBJECT, "fusion", required=False),
    Field("benchmark", _TEXT, "speed"),
    Field("case", _TEXT, "speed"),
    Field("baseline", _TEXT, "speed"),
    Field("baseline_seconds", _DURATION, "speed"),
    Field("speedup", _POSITIVE, "speed"),
    Field("repeats", _COUNT, "speed", required=False),
    Field("company", _TEXT, "speed", required=False),
    Field("flops", _DURATION, "speed", required=False),
    Field("bytes", _DURATION, "speed", required=False),
    Field("peak_flops", _POSITIVE, "speed", required=False),
    Field("peak_bytes", _POSITIVE, "speed", required=False),
    Field("cpu_seconds", _DURATION, required=False),
    Field("threads", _COUNT, required=False),
    Field("versions", _OBJECT, required=False),
    Field("commit", _TEXT, required=False),
    Field("date", _TEXT, required=False),
    Field("notes", _TEXTS, required=False),
)


def fault(row: Any) -> str | None:
    """What is wrong with a row, as a sentence that begins with the field; None if nothing is.

    Parameters
    ----------
    row : object
        As JSON gives it. One without "schema" is taken for one of before there was a schema.

    Returns
    -------
    str or None

    Examples
    --------
    >>> from fastccpd.rows import fault
    >>> fault({"schema": 1, "kind": "fast"})
    'kind: got "fast"; "fusion" or "speed" is needed'
    """
    if not isinstance(row, dict):
        return f"row: got {_shown(row)}; an object is needed"
    row = upgraded(row)
    for name in ("schema", "kind"):
        if (wrong := _fault_of(row, FIELDS[name])) is not None:
            return wrong
    if row["schema"] > SCHEMA:
        return f"schema: got {row['schema']}; at most {SCHEMA} is known here, so a newer version is needed"
    fields = (field for field in FIELDS.values() if field.kind in ("", row["kind"]))
    return next((wrong for field in fields if (wrong := _fault_of(row, field)) is not None), None)


def validate(path: types.Path) -> list[str]:
    """The faults of a file, as `read` gives them; none if every line is a row."""
    return read(path)[1]


def read(path: types.Path) -> tuple[list[Row], list[str]]:
    """The rows of a file, and what is wrong with the lines that are none.

    Parameters
    ----------
    path : path
        A file of JSON lines, compressed if its name ends in .gz.

    Returns
    -------
    rows : list of dict
        In the order of the file; those of before the schema with what they lack.
    faults : list of str
        A sentence for each bad line, with its number and the field.
    """
    found = list(examined(path))
    rows = [upgraded(row) for _, row, wrong in found if wrong is None]
    return rows, [f"{path}: line {number}: {wrong}" for number, _, wrong in found if wrong is not None]


def examined(path: types.Path) -> Iterator[tuple[int, Any, str | None]]:
    """(number, row, what is wrong with it) of every line that is not empty; a torn last line is left out."""
    for number, line in enumerate(io.BytesIO(content(path)), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):
                yield number, None, "not JSON; one object a line is needed"
            continue
        yield number, row, fault(row)


def upgraded(row: Row) -> Row:
    """A row of before there was a schema with the fields it lacks; any other as it is."""
    if "schema" in row:
        return row
    versions = row.get("versions")
    version = versions.get("fastccpd") if isinstance(versions, dict) else None
    lacking = {
        "schema": SCHEMA,
        "kind": "fusion",
        "package": "fastccpd",
        "version": version or "unknown",
        "machine": {},
        "inputs": None,
        "seed": row.get("run"),
        "ratio": 4,
        "peak_memory": None,
    }
    return {**lacking, **row}


def written_by(package: str, version: str) -> Row:
    """What all rows of one package have in common: schema, package, version and machine."""
    return {"schema": SCHEMA, "package": package, "version": version, "machine": machine.description()}


def hash_of_inputs(hsi: ArrayLike, msi: ArrayLike, degradation: Degradation) -> str:
    """The same text for the same images and operators, on whatever machine.

    Values are rounded to float32 before, so that the last bits of a sum, which differ between machines, hardly ever
    show.

    Parameters
    ----------
    hsi, msi : arrays
    degradation : Degradation

    Returns
    -------
    str
        The first 16 hexadecimal digits of a SHA-256.
    """
    digest = hashlib.sha256()
    operators = (degradation.P1, degradation.P2, degradation.PM)
    for part in (hsi, msi, *(operator.toarray() for operator in operators)):
        values = np.ascontiguousarray(part, dtype="<f4")
        digest.update(str(values.shape).encode("ascii"))
        digest.update(values.tobytes())
    return digest.hexdigest()[:_DIGITS]


def _fault_of(row, field):
    if field.name not in row:
        missing = field.required and not (field.outcome and "error" in row)
        return f"{field.name}: is missing; {field.value.needed} is needed" if missing else None
    got, value = row[field.name], field.value
    return None if value.holds(got) else f"{field.name}: got {_shown(got)}; {value.needed} is needed"


def _shown(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def content(path: types.Path) -> bytes:
    """What a file of rows or results holds, uncompressed; refused if it is no regular file, or too large."""
    path = Path(path)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # reading a pipe might never end
        raise OSError(
            f"{path}: is {'a folder' if stat.S_ISDIR(status.st_mode) else 'no regular file'}; rows are needed"
        )
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            content = cast(bytes, file.read(_MOST_BYTES + 1))
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise
        raise ValueError(f"{path}: is not a whole gzip file ({error}); compressed JSON lines are needed") from None
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path}: holds more than {_MOST_BYTES} bytes of rows; at most as many are read")
    return content
