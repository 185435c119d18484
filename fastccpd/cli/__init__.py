"""The command line: `fastccpd` or `python -m fastccpd`.

A verb is a module with `add(commands)`, which makes its parser, and `run(options)`, which returns the exit code; what
it has to say on the way goes through `options.messages`. Exit codes: 0 done; 2 bad usage or data, with one line on
stderr; 4 not converged, 5 the images disagree, both with the result written; 6 some pairs of a batch failed; 130
interrupted.
"""

import argparse
import io
import os
import sys
import warnings

from ..machine import own_version
from . import batch, dashboard, demo, experiment, fuse, info, methods, score, simulate, warmup
from .output import Messages, print_error

_VERBS = (demo, fuse, batch, simulate, score, experiment, dashboard, info, methods, warmup)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message):
        print_error(f"{message} (see {self.prog} --help)")
        raise SystemExit(2)

    def _get_values(self, action, arg_strings):
        """What is given for an option; of `--option=--` argparse makes an empty list."""
        values = super()._get_values(action, arg_strings)
        if action.nargs is None and values == []:
            raise argparse.ArgumentError(action, "expected one argument")
        return values


def main(arguments=None):
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        None: those of the process.
    """
    if sys.stdout is None:
        sys.stdout = _closed_stdout()
    try:
        return _run(arguments)
    except BrokenPipeError:
        # Whoever read stdout has enough.
        _drop_stdout()
        return 141
    except KeyboardInterrupt:
        print_error("interrupted")
        return 130
    except MemoryError as error:
        print_error(str(error) or "out of memory")
    except (ValueError, TypeError, OSError, ImportError, OverflowError) as error:
        print_error(error)
    except RecursionError:
        print_error("what was given is nested too deeply")
    _drop_what_cannot_be_written()
    return 2


class _Closed(io.TextIOBase):
    """In place of a stdout that was closed before the process began."""

    def write(self, text):
        raise OSError("stdout: cannot be written (it is closed)")


def _closed_stdout():
    # The number of the closed file would be given to the next that is opened, and whoever prints would write into it.
    while os.open(os.devnull, os.O_RDWR) < 1:
        pass
    return _Closed()


def _drop_what_cannot_be_written():
    """What is left in the buffer of a stdout that is full would be an error again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_stdout()


def _drop_stdout():
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments):
    if hasattr(sys.stdout, "reconfigure"):
        # Whatever the terminal cannot show, a multiplication sign perhaps, must not be an error.
        sys.stdout.reconfigure(errors="replace")
    whole = parser()
    try:
        options = whole.parse_args(arguments)
    except SystemExit as finished:
        return finished.code
    if options.command is None:
        whole.print_help()
        return 2
    options.messages = Messages(getattr(options, "quiet", False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shown in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", shown)
        warnings.showwarning = lambda message, *_, **__: options.messages.warn(message)
        code = options.run(options)
        options.messages.release()
    sys.stdout.flush()
    return code


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs; the reference of the command line is made from it."""
    whole = _Parser(
        prog="fastccpd",
        description="Hyperspectral super-resolution: one image of many bands and one of many pixels, fused into one.",
    )
    whole.add_argument("--version", action="version", version=f"fastccpd {own_version()}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND")
    for verb in _VERBS:
        verb.add(commands)
    return whole
