"""`fastccpd dashboard ROWS...`: all results on one page that needs no network, and a badge."""

from pathlib import Path

from .. import dashboard
from ..methods import DEFAULT
from ..model.files import check_apart, check_free, write_whole
from .options import add_output_options
from .output import bytes_name, naming_force, print_json, print_line


def add(commands):
    verb = commands.add_parser(
        "dashboard",
        help="all results on one page: leaderboard, quality against time, history of speed",
        description="Make one HTML page, which needs neither a network nor a server, of rows (docs/rows.md) and of "
        "asv's results. Rows that are wrong are named and left out.",
    )
    usual = " and ".join(str(path) for path in dashboard.USUAL)
    text = f"rows (.jsonl, .jsonl.gz), results of asv (.json), or folders of them (default: {usual}, where they are)"
    verb.add_argument("files", nargs="*", type=Path, metavar="ROWS", help=text)
    verb.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page (default fastccpd-dashboard.html)")
    verb.add_argument("--title", default="fastccpd: results", help="its title (default: %(default)s)")
    text = "also write an SVG that says in how many cells a system is the best; without -o nothing else"
    verb.add_argument("--badge", type=Path, metavar="FILE", help=text)
    verb.add_argument("--badge-of", metavar="SYSTEM", help=f"the system it is about (default: {DEFAULT}, or the best)")
    add_output_options(verb, force="replace files that exist")
    verb.set_defaults(run=run)


def run(options):
    if options.badge_of is not None and options.badge is None:
        raise ValueError("--badge-of: there is no badge; --badge FILE is needed")
    page = options.output or (None if options.badge else Path("fastccpd-dashboard.html"))
    wanted = {name: path for name, path in (("-o", page), ("--badge", options.badge)) if path is not None}
    with naming_force():
        check_free(wanted.values(), options.force)
    sources = dashboard.read(options.files or _usual())
    check_apart([(name, path, [path]) for name, path in wanted.items()], sources.files)
    if not sources.rows and not sources.results:
        raise ValueError(f"ROWS: {len(sources.files)} files hold no row that is right ({_first(sources.faults)})")
    made = {}
    if page is not None:
        made[page] = dashboard.page(sources, options.title)
    if options.badge is not None:
        made[options.badge] = dashboard.badge(sources.rows, options.badge_of)
    with naming_force():
        for path, text in made.items():
            write_whole(path, text, options.force)
    for sentence in sources.faults:
        options.messages.warn(f"left out: {sentence}")
    counts = {"rows": len(sources.rows), "results": len(sources.results), "left_out": len(sources.faults)}
    if options.json:
        print_json({"files": {str(path): len(text.encode()) for path, text in made.items()}, **counts})
    else:
        for path, text in made.items():
            print_line(
                f"Written to {path}: {counts['rows']} rows and {counts['results']} results of asv, "
                f"{bytes_name(len(text.encode()))}"
            )
    return 0


def _usual():
    found = [path for path in dashboard.USUAL if path.is_dir()]
    if not found:
        names = " nor ".join(str(path) for path in dashboard.USUAL)
        raise ValueError(f"ROWS: none is given, and there is neither {names} here; files of rows are needed")
    return found


def _first(faults):
    return faults[0] if faults else "they are empty"
