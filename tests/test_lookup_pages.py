"""Pages to look things up on know what the code knows."""

import re

from pages import DOCS, ROOT

from fastccpd.cli import batch, fuse

SOURCES = [*ROOT.glob("fastccpd/**/*.py"), *ROOT.glob("kernels/*.py"), *ROOT.glob("tests/**/*.py")]
ASKED = re.compile(r"""environ(?:\.get\(|\[)["']([A-Z_]+)["']""")


def page(name):
    return (DOCS / "lookup" / name).read_text(encoding="utf-8")


def test_every_environment_variable_that_is_asked_for_is_on_its_page():
    asked = {name for path in SOURCES for name in ASKED.findall(path.read_text(encoding="utf-8"))}
    assert {"FASTCCPD_KERNEL_CACHE", "FASTCCPD_DATA", "CI"} <= asked
    others = {"PATH", "PYTHONPATH", "HOME", "COLOUR"}
    assert sorted(name for name in asked - others if f"`{name}`" not in page("environment.md")) == []


def test_every_exit_code_is_on_its_page():
    codes = {0, 2, fuse.NOT_CONVERGED, fuse.DISAGREE, batch.SOME_FAILED, 130, 141}
    written = {int(code) for code in re.findall(r"^\| (\d+) \|", page("exit-codes.md"), flags=re.MULTILINE)}
    assert written == codes


def test_the_reference_lists_every_room_that_releases_call_public():
    release = (DOCS / "release.md").read_text(encoding="utf-8")
    sentence = " ".join(release.partition("## What is public")[2].partition("##")[0].split())
    rooms = re.findall(r"`(\w+)`", sentence.partition("of `fastccpd` or of ")[2].partition(";")[0])
    assert len(rooms) >= 9
    assert [room for room in rooms if f"fastccpd.{room.removeprefix('fastccpd.')}\n" not in page("api.md")] == []
