"""What the fuzzer has found is answered now, and the fuzzer notices what is not."""

import os
import sys
import time
from pathlib import Path

import pytest
from fuzz import fuzz

from fastccpd import formats

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="every reader runs in a fork")


def format_of(find):
    return find.name.rpartition("-")[0]


@pytest.mark.parametrize("find", sorted(path for path in fuzz.FINDS.iterdir() if path.is_dir()), ids=lambda f: f.name)
def test_what_was_found_is_answered(find):
    assert fuzz.answer(fuzz.TARGETS[format_of(find)].read, find) in ("read", "refused"), (find / "WHAT").read_text()


@pytest.mark.parametrize("form", fuzz.TARGETS)
def test_some_damage_of_every_format_is_answered(form, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    fuzz.TARGETS[form].make(whole)
    assert fuzz.answer(fuzz.TARGETS[form].read, whole) == "read"
    stream = fuzz.trials(form, 3, whole)
    answers = {next(stream)[1] for _ in range(25)}
    for _ in range(100):  # metadata in XML seldom survive
        answers |= {next(stream)[1]} if len(answers) < 2 else set()
    stream.close()
    assert answers == {"read", "refused"}


def crashes(folder):
    os.abort()


def hangs(folder):
    time.sleep(60)


def spins(folder):
    while True:
        pass


def hoards(folder):
    return bytearray(1 << 30)


def prints(folder):
    os.write(2, b"TIFFReadDirectory: Bad")


def mumbles(folder):
    raise ValueError("what is this?")


def talks(folder):
    raise ValueError(f"{folder}: is\nno\nfile")


def divides(folder):
    return 1 / 0


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        (crashes, "the process ended with status 6"),
        (hangs, "no answer in 3 s"),
        (spins, "the process ended with status 9"),
        (hoards, "a refusal that does not name the file"),
        (prints, "printed b'TIFFReadDirectory"),
        (mumbles, "a refusal that does not name the file: what is this?"),
        (talks, "a refusal of several lines"),
        (divides, "ZeroDivisionError: division by zero"),
    ],
)
def test_the_fuzzer_notices(reader, words, tmp_path):
    patience = 3.0 if reader is hangs else fuzz.PATIENCE
    assert fuzz.answer(reader, tmp_path, seconds=1, patience=patience).startswith(words)


def test_a_find_is_kept_with_its_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fuzz, "FINDS", tmp_path)
    target = fuzz.Target(lambda folder: formats.write(folder / "a.npy", fuzz.RASTER), crashes)
    monkeypatch.setitem(fuzz.TARGETS, "npy", target)
    assert fuzz.main(["--trials", "2", "--format", "npy"]) == 1
    (find,) = tmp_path.iterdir()
    assert {file.name for file in Path(find).iterdir()} == {"a.npy", "WHAT"}
    assert "2 FOUND" in capsys.readouterr().out
