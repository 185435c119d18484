"""`fastccpd warmup`: compile the kernels now rather than in the first fusion."""

from . import compiling
from .options import add_output_options
from .output import print_json
from .progress import rows_progress


def add(commands):
    verb = commands.add_parser(
        "warmup",
        help="compile the kernels ahead",
        description="Compile every kernel for both precisions into the cache, so that no later run has to.",
    )
    add_output_options(verb)
    verb.set_defaults(run=run)


def run(options):
    with rows_progress("compiling kernels", options.quiet) as progress:
        done = compiling.run(progress)
    if done.cache is None:
        options.messages.warn("the kernel cache is turned off or cannot be written, so later runs will compile again")
    if options.json:
        print_json(vars(done) | options.messages.said())
    elif not options.quiet:
        kept = f", kept in {done.cache}" if done.cache else ""
        print(f"{done.routines} routines ready, {done.compiled} of them compiled now, in {done.seconds:.1f} s{kept}")
    return 0
