"""`python -m fastccpd`, and the command `fastccpd`: the command line, which takes a second to import."""

import os
import signal
import sys


def main():
    """Import the command line and run it; a Ctrl-C on the way ends the process in one line.

    Returns
    -------
    int
        The exit code.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # whoever set it wants something else
        from .cli import main as run

        return run()
    # There is nothing to put in order yet, and an exception would come out of whatever is being imported.
    signal.signal(signal.SIGINT, _leave)
    from .cli import main as run

    signal.signal(signal.SIGINT, before)
    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and the interpreter only has to leave
    return code


def _leave(number, frame):
    if sys.stderr is not None:
        os.write(2, b"fastccpd: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
