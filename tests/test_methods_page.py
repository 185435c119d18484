"""The page of the methods: it knows what is registered, and its example is a method."""

import re

import pages
import pytest

from fastccpd import experiments, methods
from fastccpd.cli import main, methods_page
from fastccpd.experiments import figures
from fastccpd.methods.method import _REGISTRY

PAGE = "methods.md"
BULLETS = ["Model.", "Prior.", "Assumes.", "Cost.", "Use it"]


def sections():
    """{method: text} of what is said of each by hand."""
    part = pages.text_of(PAGE).split("\n## Each method\n")[1].split("\n## ")[0]
    names, texts = (re.split(r"^### `([\w-]+)`$", part, flags=re.MULTILINE)[start::2] for start in (1, 2))
    return dict(zip(names, texts, strict=True))


def test_who_wins_where_is_what_the_kept_rows_say():
    kept = experiments.read(pages.DOCS / "rows" / "scenes.jsonl.gz")
    page = pages.text_of(PAGE)
    assert methods_page.rewritten(page, kept) == page, (
        "fastccpd methods --page docs/methods.md --rows docs/rows/scenes.jsonl.gz writes it anew"
    )
    assert "best rival, tuned*" in page


def kept_rows(name):
    return experiments.read(pages.DOCS / "rows" / f"{name}.jsonl.gz")


@pytest.mark.parametrize("name", ["snr", "rank"])
def test_the_tables_of_all_systems_are_what_the_kept_rows_say(name):
    assert figures.text_table(kept_rows(name), name) in pages.text_of("experiments.md")


@pytest.mark.scenes
@pytest.mark.usefixtures("data_folder")
def test_the_tables_of_tuned_systems_are_what_the_kept_rows_say():
    """By the command of the page, which finds all that it asks for."""
    (command,) = re.findall(r"^    fastccpd experiment snr --tuned .+$", pages.text_of("experiments.md"), re.MULTILINE)
    assert "--tuning-runs 24 --runs 3 --snr 0,5,10" in command

    def nothing_is_missing(done, total):
        assert done == total

    known = [row for name in ("scenes", "snr", "snr-tuned") for row in kept_rows(name)]
    found = experiments.snr(
        runs=3, snr=(0, 5, 10), tuned=True, tuning_runs=24, known=known, progress=nothing_is_missing
    )
    assert figures.text_table(found, "snr") in pages.text_of("experiments.md")


def test_what_the_registry_knows_is_on_the_page():
    page = pages.text_of(PAGE)
    assert methods_page.rewritten(page) == page, "fastccpd methods --page docs/methods.md writes it anew"
    for name in methods.names():
        assert page.count(f"\n**`{name}`**\n") == 1
        assert f"| [`{name}`](#{name}) |" in page


@pytest.mark.parametrize("content", [b"a page of something else\n", b"PK\x03\x04\xa0\xff"])
def test_what_is_no_such_page_is_not_written(content, tmp_path, capsys):
    file = tmp_path / "other"
    file.write_bytes(content)
    before = file.stat().st_ino
    assert main(["methods", "--page", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"fastccpd: --page: {file} has no part that is made here; a line <!-- made: NAME --> is needed\n"
    )
    assert (file.read_bytes(), file.stat().st_ino) == (content, before)


@pytest.mark.parametrize("name", methods.names())
def test_every_method_is_described_by_model_prior_assumptions_cost_and_use(name):
    assert re.findall(r"^- \*\*(.+?)\*\*", sections()[name], flags=re.MULTILINE) == BULLETS


def test_every_link_inside_the_page_leads_to_a_method():
    links = re.findall(r"\]\(#([\w-]+)\)", pages.text_of(PAGE))
    assert len(links) > 10
    assert set(links) <= set(sections())


def test_every_method_is_a_system_of_the_experiments():
    assert {system.method for system in experiments.SYSTEMS.values()} == set(methods.names())


def test_the_example_is_a_method(monkeypatch):
    monkeypatch.setitem(_REGISTRY, "nearest", methods.Method)  # the example's own goes with it
    (example,) = pages.examples_of(PAGE)
    pages.run_example(example, PAGE)


def test_made_parts_are_written_anew_and_the_rest_is_left(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- made: glance -->\nold\n<!-- end: glance -->\nafter \\1\n", encoding="utf-8")
    assert main(["methods", "--page", str(page)]) == 0
    assert capsys.readouterr().out == f"Written to {page}: glance\n"
    text = page.read_text(encoding="utf-8")
    assert text == f"before\n<!-- made: glance -->\n{methods_page.glance()}\n<!-- end: glance -->\nafter \\1\n"
