"""Whatever is typed, read or printed: one line and exit code 2, no traceback, nothing that the terminal would obey."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pair_files import write_pair

import fastccpd
from fastccpd.cli import main
from fastccpd.cli.output import print_error, print_json, print_pairs, print_table, printable

DIGITS = "9" * 400

# Of `fastccpd experiment snr`, and what is said of them.
RANGES = {
    "--snr 0:inf": "got '0:inf'; a list 0,5,10 or a range first:last[:step] of finite numbers",
    "--snr nan": "got 'nan'; a list",
    "--snr 0:1e9:1e-3": "got '0:1e9:1e-3', which is more than 1000 numbers",
    "--snr 0:1e300:1e-300": "got '0:1e300:1e-300', which is more than 1000 numbers",
    "--snr 0,100000": "got '0,100000'; from -100 to 300 dB are needed",
    "--runs 1000000000": "got '1000000000'; a whole number of at least 1 and at most 100000 is needed",
    "--runs 0": "got '0'; a whole number of at least 1",
    f"--runs {DIGITS}": "a whole number of at least 1",
    "--ranks inf": "got 'inf'; a list",
    "--ranks 1:2000": "got '1:2000', which is more than 1000 numbers",
    "--ranks 1e300": "got '1e300'; whole numbers of at least 1 and at most 100000 are needed",
    "--ranks 0": "got '0'; whole numbers of at least 1",
}


def refused(capsys, *arguments):
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    return line.removeprefix("fastccpd: ")


def test_what_is_very_long_is_quoted_by_its_ends(capsys):
    line = refused(capsys, "fuse", "a.npy", "b.npy", "-o", "c.npy", "--rank", ",".join(["3"] * 5000))
    assert line.startswith("rank: got (3, 3, 3,")
    assert line.endswith("3); a whole number of at least 1 is needed")
    assert len(line) < 1100


def process(*arguments, shell="", before=None):
    """Exit code and stderr of a command in a process of its own, with its streams as `shell` says."""
    command = f'exec "{sys.executable}" -m fastccpd "$@" {shell}'
    environment = os.environ | {"PYTHONPATH": str(Path(fastccpd.__file__).parents[1])}
    done = subprocess.run(
        ["sh", "-c", command, "sh", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=before,
    )
    return done.returncode, done.stderr


class TestNumbers:
    """Numbers beyond all bounds."""

    def test_a_rank_beyond_all_bounds_is_refused(self, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        for method in ("nn-ccpd-auto", "nn-ccpd-nls", "scott"):
            rank = f"{DIGITS},{DIGITS},{DIGITS}" if method == "scott" else DIGITS
            arguments = hsi, msi, "-o", tmp_path / "f.npz", "--srf", "landsat", "--method", method, "--rank", rank
            assert len(refused(capsys, "fuse", *arguments)) < 2000

    @pytest.mark.parametrize("value", [DIGITS, "1e400", "[" * 100_000, "[" * 500 + "]" * 500, '{"a": 1}', "null"])
    def test_an_option_without_sense_is_refused(self, value, tmp_path, capsys):
        hsi, msi, _ = write_pair(tmp_path)
        arguments = "--srf", "landsat", "--method", "nn-ccpd-nls", "--option", f"ridge={value}"
        assert len(refused(capsys, "fuse", hsi, msi, "-o", tmp_path / "f.npz", *arguments)) < 2000
        assert not (tmp_path / "f.npz").exists()

    @pytest.mark.parametrize("option", ["--snr", "--snr-msi"])
    @pytest.mark.parametrize("value", ["100000", "-100000", "1e308", "-301", "nan", "-inf"])
    def test_an_snr_beyond_all_bounds_is_refused(self, option, value, tmp_path, capsys):
        sentence = refused(capsys, "simulate", "synthetic:24x20x36", "-o", tmp_path / "s", f"{option}={value}")
        assert sentence.startswith(f"{option}: got {float(value)}; a number of dB")
        assert not list(tmp_path.iterdir())

    def test_a_demonstration_refuses_it_too(self, tmp_path, capsys):
        assert refused(capsys, "demo", "--snr", "100000", "-o", tmp_path).startswith("snr_db: got 100000.0; a number")

    @pytest.mark.parametrize("arguments", RANGES)
    def test_a_range_without_an_end_is_refused_at_once(self, arguments, tmp_path, capsys):
        began = time.perf_counter()
        assert RANGES[arguments] in refused(capsys, "experiment", "snr", "-o", tmp_path / "e", *arguments.split())
        assert time.perf_counter() - began < 2.0
        assert not (tmp_path / "e").exists()


class TestRows:
    """A file of rows that somebody has written into."""

    @pytest.mark.parametrize("line", ['{"a": 1}', "[1, 2]", "3", '"text"', "null", "[" * 50_000])
    @pytest.mark.parametrize("more", [[], ["--redraw"]])
    def test_a_foreign_line_is_named(self, line, more, tmp_path, capsys):
        (tmp_path / "rows.jsonl").write_text(f"{line}\n")
        options = "--scene", "synthetic", "--methods", "scott", "--runs", "1", "--snr", "5", "-o", tmp_path, *more
        sentence = refused(capsys, "experiment", "snr", *options)
        assert sentence.startswith(f"{tmp_path / 'rows.jsonl'}: line 1 is")
        assert sentence.endswith("remove it, and its row is computed again")
        assert (tmp_path / "rows.jsonl").read_text() == f"{line}\n"


class TestStreams:
    """Where the output goes may be closed, or full."""

    def test_a_closed_stdout_is_one_line(self):
        code, stderr = process("methods", shell=">&-")
        assert (code, stderr) == (2, "fastccpd: stdout: cannot be written (it is closed)\n")

    def test_a_closed_stdout_is_no_error_where_nothing_is_printed(self, tmp_path):
        code, _ = process("simulate", "synthetic:24x20x36", "-o", f"{tmp_path}/", "--quiet", shell=">&-")
        assert code == 0
        assert (tmp_path / "hsi.npz").exists()

    def test_a_closed_stderr_leaves_stdout_as_it_is(self, tmp_path):
        code, _ = process("info", tmp_path / "no.npz", shell=f'>"{tmp_path}/out" 2>&-')
        assert code == 2
        assert (tmp_path / "out").read_text() == ""

    def test_a_full_stdout_is_one_line(self):
        code, stderr = process("methods", shell=">/dev/full")
        assert code == 2
        assert stderr.splitlines() == ["fastccpd: [Errno 28] No space left on device"]

    @pytest.mark.parametrize("suffix", ["npy", "npz", "mat", "hdr", "tif"])
    def test_a_full_disk_is_one_line(self, suffix, tmp_path):
        def little():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        form = {"hdr": "envi"}.get(suffix, suffix)
        command = "simulate", "synthetic:64x64x40", "-o", f"{tmp_path}/", "--format", form, "--quiet"
        code, stderr = process(*command, before=little)
        assert code == 2
        (line,) = stderr.splitlines()
        assert line.startswith("fastccpd: ")
        assert "cannot be written" in line
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


class TestEscapes:
    """Names of files are data: nothing in them reaches the terminal as a command."""

    NAME = "a\x1b[31m\x07\x9bb\u202ec.npy"

    def test_control_characters_are_written_out(self):
        assert printable(self.NAME) == r"a\x1b[31m\x07\x9bb\u202ec.npy"
        assert printable("5×5 µm, 日本") == "5×5 µm, 日本"

    def test_errors_and_results_are_printed_without_them(self, tmp_path, capsys):
        np.save(tmp_path / self.NAME, np.ones((4, 4, 3)))
        assert main(["info", str(tmp_path / self.NAME)]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert r"a\x1b[31m\x07\x9bb\u202ec.npy" in out
        assert r"no\x1b.npy: cannot be read" in refused(capsys, "info", tmp_path / "no\x1b.npy")

    def test_every_way_to_print_is_guarded(self, capsys):
        print_error(self.NAME)
        print_pairs([(self.NAME, self.NAME)])
        print_table(["", self.NAME], [(self.NAME, self.NAME)])
        print_json({self.NAME: self.NAME})
        printed = capsys.readouterr()
        for character in "\x1b\x07\x9b\u202e":
            assert character not in printed.out + printed.err
        assert json.loads(printed.out[printed.out.index("{") :]) == {self.NAME: self.NAME}


@pytest.mark.parametrize("option", ["--keep-bands", "--bbox", "--psf"])
def test_two_dashes_are_no_value_of_an_option(option, capsys):
    assert main(["fuse", "a.npz", "b.npz", "-o", "o.npz", f"{option}=--"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"argument {option}: expected one argument" in line
