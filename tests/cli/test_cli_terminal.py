"""What a person at a terminal meets: progress, tables, Ctrl-C."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pair_files import SHAPE, write_pair

import fastccpd
from fastccpd import rasters
from fastccpd.cli import main
from fastccpd.cli.progress import fusion_progress, rows_progress

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(fastccpd.__file__).parents[1]), "TERM": "xterm", "COLUMNS": "150"}
ENDLESS = [
    "--method",
    "nn-ccpd-nls",
    "--srf",
    "landsat",
    "--rank",
    "4",
    "--max-iter",
    "1000000",
    "--tol",
    "0",
    "--option",
    "gtol=0",
    "--option",
    "xtol=0",
]


def command(*arguments, before=""):
    """A process that runs one command, after some Python."""
    script = f"import sys; {before}\nfrom fastccpd.cli import main; sys.exit(main({[*map(str, arguments)]!r}))"
    return [sys.executable, "-c", script]


def at_terminal(arguments, before="", streams=("stderr",)):
    """The exit code, and all that a command writes to a terminal that the streams lead to."""
    ours, theirs = pty.openpty()
    pipes = {name: theirs if name in streams else subprocess.PIPE for name in ("stdout", "stderr")}
    child = subprocess.Popen(command(*arguments, before=before), **pipes, env=ENVIRONMENT)
    os.close(theirs)
    written, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        ready, _, _ = select.select([ours], [], [], 1.0)
        try:
            chunk = os.read(ours, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        written += chunk
        if not chunk and child.poll() is not None:
            break
    child.communicate(timeout=60)
    os.close(ours)
    return child.returncode, written.decode("utf-8", "replace")


def until(child, text):
    """Wait for a line with this text on stderr."""
    for line in child.stderr:
        if text in line:
            return line
    pytest.fail(f"{text!r} was never said")


class TestProgress:
    """Shown to people, and to nobody else."""

    def arguments(self, folder, *more):
        hsi, msi, _ = write_pair(folder)
        quick = ["--srf", "landsat", "--method", "nn-ccpd-nls", "--rank", "3", "--max-iter", "4"]
        return ["fuse", hsi, msi, "-o", folder / "f.npz", *quick, *more]

    def test_a_terminal_shows_the_iterations(self, tmp_path):
        code, shown = at_terminal(self.arguments(tmp_path))
        assert code == 4
        assert "nn-ccpd-nls" in shown
        assert "iteration 4 of at most 4, cost" in shown

    def test_quiet_shows_none(self, tmp_path):
        code, shown = at_terminal(self.arguments(tmp_path, "--quiet"))
        assert code == 4
        assert "iteration 4" not in shown
        assert "\x1b" not in shown

    def test_without_rich_there_is_one_line_at_the_end(self, tmp_path):
        code, shown = at_terminal(self.arguments(tmp_path), before="sys.modules['rich'] = None")
        assert code == 4
        (line,) = [line for line in shown.splitlines() if "iteration 4" in line]
        assert line.startswith("nn-ccpd-nls: iteration 4, cost")
        assert "\x1b" not in shown

    def test_nothing_is_shown_where_there_is_no_terminal(self, tmp_path, capsys):
        with fusion_progress("fusing") as callback, rows_progress("rows") as progress:
            state = fastccpd.methods.Progress(n_iter=1, cost=2.0, seconds=0.1, trace=None)
            assert callback(state) is False
            progress(1, 2)
        assert capsys.readouterr() == ("", "")

    def test_rows_are_counted_with_the_time_that_is_left(self):
        script = (
            "from fastccpd.cli.progress import rows_progress\n"
            "with rows_progress('experiment') as show:\n"
            "    for done in range(3): show(done, 2)\n"
            "raise SystemExit(7)"
        )
        code, shown = at_terminal([], before=f"exec({script!r})")
        assert code == 7
        assert "experiment" in shown
        assert "2 of 2" in shown

    def test_tables_are_drawn_on_a_terminal(self):
        table = "from fastccpd.cli.output import print_scores; print_scores({'a': {'rsnr': 3.0}}); sys.exit(7)"
        code, shown = at_terminal([], streams=("stdout",), before=table)
        assert code == 7
        assert "R-SNR (dB)" in shown
        assert "──" in shown


def sleepy(first):
    """Python for `before` that makes a method which does one thing and then sleeps."""
    return f"""exec('''
import sys, time
from dataclasses import dataclass
from fastccpd import methods
@methods.register("sleepy")
@dataclass(frozen=True, kw_only=True)
class Sleepy(methods.Method):
    def solve(self, problem, *, rng=None, callback=None, time_limit=None):
        {first}
        time.sleep(120)
    def memory_needed(self, hsi_shape, msi_shape, dtype):
        return 0
''')"""


class TestInterruption:
    """The first Ctrl-C keeps what there is, the second one does not."""

    def start(self, folder, *more, before=""):
        hsi, msi, _ = write_pair(folder)
        arguments = ["fuse", hsi, msi, "-o", folder / "f.npz", *more]
        return subprocess.Popen(
            command(*arguments, before=before),
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_the_first_ends_the_iteration_and_writes_the_result(self, tmp_path):
        with self.start(tmp_path, *ENDLESS, "--json") as child:
            until(child, "Ctrl-C ends it and keeps what there is")
            child.send_signal(signal.SIGINT)
            until(child, "stopping after this iteration")
            printed, errors = child.communicate(timeout=60)
        assert child.returncode == 4, errors
        assert f"not converged (interrupted); the result is written to {tmp_path}/f.npz" in errors
        assert '"interrupted": true' in printed
        assert '"status": "callback"' in printed
        assert rasters.read(tmp_path / "f.npz").shape == SHAPE

    def test_the_second_aborts_and_leaves_no_file(self, tmp_path):
        # A method that does not look up between the two.
        first = "callback(methods.Progress(n_iter=0, cost=1.0, seconds=0.0, trace=None))"
        with self.start(tmp_path, "--srf", "landsat", "--method", "sleepy", before=sleepy(first)) as child:
            until(child, "Ctrl-C ends it")
            child.send_signal(signal.SIGINT)
            until(child, "stopping after this iteration")
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=60)
        assert child.returncode == 130
        assert errors == "fastccpd: interrupted\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["hsi.npz", "msi.npz"]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_aborts_where_there_is_nothing_to_keep(self, number, tmp_path):
        first = "print('asleep', file=sys.stderr, flush=True)"
        with self.start(tmp_path, "--srf", "landsat", "--method", "sleepy", before=sleepy(first)) as child:
            until(child, "asleep")
            child.send_signal(number)
            _, errors = child.communicate(timeout=60)
        assert child.returncode == 130
        assert errors == "fastccpd: interrupted\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["hsi.npz", "msi.npz"]

    @pytest.mark.parametrize("module", ["argparse", "numpy", "numba", "fastccpd.cli.fuse"])
    def test_one_during_imports_is_one_line(self, module):
        script = f"""
import os, runpy, signal, sys
class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting)
sys.modules.pop({module!r}, None)
sys.argv = ["fastccpd", "methods"]
runpy.run_module("fastccpd", run_name="__main__")
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=ENVIRONMENT, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "fastccpd: interrupted\n")

    def test_a_time_limit_keeps_what_there_is_too(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        arguments = ["fuse", hsi, msi, "-o", str(tmp_path / "f.npz"), *ENDLESS, "--time-limit", "0.02", "--quiet"]
        assert main(arguments) == 4
        assert "stopped: the time limit is reached" in capsys.readouterr().err
        assert rasters.read(tmp_path / "f.npz").shape == SHAPE
