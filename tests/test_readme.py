"""What the README tells people to run is run."""

import re
import runpy
import struct
from pathlib import Path

import pytest
from pages import run_command

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TWO_COMMANDS = ['pip install ".[demo]" && fastccpd demo', 'pip install -e ".[test]" && pytest']


def fenced(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("example", fenced("python"), ids=lambda text: text.split("\n")[1][:40])
def test_python_examples_run(example):
    exec(compile(example, "README.md", "exec"), {})


def test_the_two_commands_are_those_that_are_tested():
    lines = [line for block in fenced("sh") for line in block.splitlines()]
    assert lines[:2] == TWO_COMMANDS
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'pip install -q -e ".[test]"' in ci
    assert re.search(r"^pytest", ci, flags=re.MULTILINE)


def test_the_main_job_runs(tmp_path):
    done = run_command(TWO_COMMANDS[0].split(" && ")[1], tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines() if line}
    ours, splines = rows["result (auto)"], rows["HSI, cubic splines"]
    assert float(ours[2]) > float(splines[3])
    report = (tmp_path / "fastccpd-demo" / "report.html").read_text(encoding="utf-8")
    assert "</html>" in report


def test_it_is_a_page():
    assert len(README.splitlines()) <= 110
    assert len(README.split()) <= 1100


def test_every_link_leads_to_a_file_and_a_heading_in_it():
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target]
    assert len(targets) > 20
    for target in targets:
        path, _, anchor = target.partition("#")
        assert (ROOT / path).is_file(), target
        if anchor:
            lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
            headings = {line.lstrip("# ").lower().replace(" ", "-") for line in lines if line.startswith("#")}
            assert anchor in headings, target


def test_the_picture_is_that_of_its_script():
    pytest.importorskip("matplotlib")
    pytest.importorskip("tensorly")
    drawn, quality = runpy.run_path(str(ROOT / "docs" / "result.py"))["picture"]()
    assert [axes.get_title() for axes in drawn.axes[:4]] == ["hyperspectral", "multispectral", "fused", "truth"]
    assert quality > 28.5
    kept = (ROOT / "docs" / "result.png").read_bytes()
    width, height = struct.unpack(">2I", kept[16:24])
    assert (width, height) == pytest.approx(tuple(110 * drawn.get_size_inches()), abs=1)
    assert len(kept) < 300_000


def test_bad_usage_is_one_line_and_exit_code_two(tmp_path):
    for line in ("fastccpd demo --rank 0", "fastccpd demo --snr nan", "fastccpd demo --rnk 3"):
        done = run_command(line, tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
        assert "Traceback" not in done.stderr
