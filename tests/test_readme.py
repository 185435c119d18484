"""What the README tells people to run is run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TWO_COMMANDS = ['pip install ".[demo]" && fastccpd demo', 'pip install -e ".[test]" && pytest']


def fenced(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    """Every line of the README that begins with `fastccpd`, line after line as they stand there."""
    return [line for block in fenced("sh") for line in block.splitlines() if line not in TWO_COMMANDS]


def run(line, folder):
    words = shlex.split(line)
    assert words[0] == "fastccpd", line
    command = [sys.executable, "-m", "fastccpd", *words[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


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
    done = run(TWO_COMMANDS[0].split(" && ")[1], tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines() if line}
    ours, splines = rows["result (auto)"], rows["HSI, cubic splines"]
    assert float(ours[2]) > float(splines[3])
    report = (tmp_path / "fastccpd-demo" / "report.html").read_text(encoding="utf-8")
    assert "</html>" in report


def test_the_other_commands_run_in_their_order(tmp_path):
    assert len(commands()) >= 6
    for line in commands():
        done = run(line, tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert {"fused.tif", "fused.html"} <= {path.name for path in tmp_path.iterdir()}


def test_bad_usage_is_one_line_and_exit_code_two(tmp_path):
    for line in ("fastccpd demo --rank 0", "fastccpd demo --snr nan", "fastccpd demo --rnk 3"):
        done = run(line, tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
        assert "Traceback" not in done.stderr
