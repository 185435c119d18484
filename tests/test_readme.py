"""What the README tells people to run is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def fenced(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("example", fenced("python"), ids=lambda text: text.split("\n")[1][:40])
def test_python_examples_run(example):
    exec(compile(example, "README.md", "exec"), {})


def test_the_two_commands_are_those_that_are_tested():
    commands = [line for block in fenced("sh") for line in block.splitlines()]
    assert commands == ["pip install . && python -m fastccpd demo", 'pip install -e ".[test]" && pytest']
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'pip install -q -e ".[test]"' in ci
    assert re.search(r"^pytest", ci, flags=re.MULTILINE)


def test_the_main_job_runs():
    command = [sys.executable, "-m", "fastccpd", "demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    fused = next(line for line in done.stdout.splitlines() if line.startswith("fused"))
    larger = next(line for line in done.stdout.splitlines() if line.startswith("HSI,"))
    assert float(fused.split()[2]) > float(larger.split()[3])


def test_bad_usage_is_one_line_and_exit_code_two():
    for arguments in (["demo", "--rank", "0"], ["demo", "--snr", "nan"]):
        command = [sys.executable, "-m", "fastccpd", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
        assert "Traceback" not in done.stderr
