"""The command line: `fastccpd` or `python -m fastccpd`."""

import argparse
import sys

from ..model.checks import as_count, as_number
from . import demo


def main(arguments=None):
    """Run one command; returns the exit code: 0 done, 2 bad usage or data (one line on stderr)."""
    parser = argparse.ArgumentParser(prog="fastccpd", description="Hyperspectral super-resolution.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show = commands.add_parser("demo", help="make a synthetic scene, degrade it, fuse it and score the result")
    show.add_argument("--snr", type=float, default=20.0, metavar="DB", help="noise of both images (default 20 dB)")
    show.add_argument("--seed", type=int, default=0, help="of the scene, the noise and the start (default 0)")
    show.add_argument("--rank", type=int, default=20, help="of the decomposition (default 20)")
    show.set_defaults(run=_demo)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except (ValueError, TypeError, MemoryError, OSError) as error:
        print(f"fastccpd: {error}", file=sys.stderr)
        return 2


def _demo(options):
    as_count(options.rank, "--rank")
    as_count(options.seed, "--seed", least=0)
    as_number(options.snr, "--snr", least=-100.0)
    print("Compiling kernels (first run only), then fusing ...", file=sys.stderr)
    shown = demo.run(snr_db=options.snr, seed=options.seed, rank=options.rank)
    hsi, msi, sri = ("×".join(map(str, cube.shape)) for cube in (shown.hsi, shown.msi, shown.scene))
    result = shown.result
    print(f"HSI {hsi} and MSI {msi} at {options.snr:g} dB, fused to {sri} in {result.seconds:.2f} s")
    print(f"{result.n_iter} iterations, cost {result.cost:.4g}, {result.status}\n")
    print(demo.table(shown.rows))
    return 0
