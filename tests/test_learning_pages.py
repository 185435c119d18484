"""Pages to learn from and to do as they say: their commands and their Python run, in the order in which they stand."""

import re
import shlex

import pytest
from pages import DOCS

from fastccpd.cli import main
from fastccpd.imaging import metrics

PAGES = sorted(path for part in ("learn", "howto") for path in (DOCS / part).glob("*.md"))


def steps(path):
    """(language, text) of every example of a page, in order."""
    return re.findall(r"^```(sh|python)\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_there_are_examples():
    assert sum(len(steps(path)) for path in PAGES) >= 5
    ((_, commands),) = (step for step in steps(DOCS / "learn" / "your-files.md") if step[0] == "sh")
    assert len(commands.splitlines()) >= 6


@pytest.mark.parametrize("path", [path for path in PAGES if steps(path)], ids=lambda path: path.stem)
def test_the_examples_of_a_page_run(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(metrics, "METRICS", dict(metrics.METRICS))  # what a page adds goes with it
    names = {"__name__": path.stem}
    for language, text in steps(path):
        if language == "python":
            exec(compile(text, path.name, "exec"), names)
        for line in text.splitlines() if language == "sh" else ():
            # What stands behind "#" is said of images that disagree.
            command, _, said = line.partition("  # ")
            code = main(shlex.split(command)[1:])
            shown = capsys.readouterr()
            assert code == (5 if said else 0), f"{line}\n{shown.out}{shown.err}"
            verdict = shown.out.partition("\n")[0]
            assert ("the images disagree" in verdict) == bool(said), verdict
            assert said in verdict, verdict
    if path.stem == "your-files":
        assert {"fused.tif", "fused.html"} <= {file.name for file in tmp_path.iterdir()}
