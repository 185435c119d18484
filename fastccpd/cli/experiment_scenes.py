"""`fastccpd experiment scenes`: every scene, from heavy noise to none, every system, into a folder of tables."""

from pathlib import Path

from .. import experiments, plots
from ..experiments import figures, leaders, scene_figures
from ..experiments.rows import check_drawable
from ..imaging import scenes
from ..model.files import check_apart, write_whole
from ..testing.simulating import scene_file, scene_names
from . import lists
from .output import printable
from .progress import rows_progress

# What --quick makes of it, to see it come out.
_QUICK = {"scenes": ("synthetic",), "snr": (5.0, 20.0, None), "draws": 1}
_FILES = ("rows.jsonl", "rows.csv", "standings.csv", "standings.md", "scenes.png", "gains.png")

TUNING_RUNS = "the most runs that tuning takes in a cell (default and most: 40)"


def add(kinds):
    text = "every scene at every SNR: every system as published and tuned, and who wins where"
    kind = kinds.add_parser("scenes", help=text, description=text[0].upper() + text[1:] + ".")
    known = ", ".join(scene_names())
    kind.add_argument("--scenes", type=lists.names, metavar="A,B", help=f"of {known} (default: all but the last)")
    kind.add_argument("--methods", type=lists.names, metavar="A,B", help=f"of {', '.join(experiments.SYSTEMS)}")
    levels = ",".join(map(figures.place_name, experiments.SCENE_SNRS)).replace("no noise", "none")
    kind.add_argument(
        "--snr", type=lists.snrs, metavar="DB", help=f"in dB, none: no noise (default {levels}; of a real pair none)"
    )
    kind.add_argument("--draws", type=lists.draws, metavar="N", help="noise draws (default 3)")
    kind.add_argument("--ratio", type=int, metavar="D", help="fine pixels per coarse one (default 4, for a pair 3)")
    kind.add_argument("--published", action="store_true", help="published settings alone, nothing tuned")
    kind.add_argument("--tuning-runs", type=int, metavar="N", help=TUNING_RUNS)
    kind.add_argument("--time-limit", type=float, metavar="S", help="seconds of one run (default: none)")
    text = "files of rows (.jsonl or .jsonl.gz) that are not computed again; those of other packages are shown too"
    kind.add_argument("--from", dest="known", type=Path, nargs="+", default=[], metavar="FILE", help=text)
    kind.add_argument("--quick", action="store_true", help="a few runs only, to see it come out")
    kind.add_argument("--workers", type=int, metavar="N", help="processes of one thread (default: one a core)")
    kind.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="(default fastccpd-scenes)")
    kind.add_argument("--redraw", action="store_true", help="draw tables and pictures from the rows again, run nothing")
    kind.add_argument("--quiet", action="store_true", help="no progress")
    kind.set_defaults(run=run)


def run(options):
    folder = options.output or Path("fastccpd-scenes")
    settings = _settings(options)
    asked = map(scene_file, settings.get("scenes", scene_names()))
    read = [file for name in asked if name in scenes.names() for file in scenes.files_read(name)]
    files = {name: folder / name for name in _FILES}
    check_apart([(name, path, [path]) for name, path in files.items()], [*read, *options.known])
    known = [row for file in options.known for row in experiments.read(file)]
    if options.redraw:
        found = [*experiments.read(files["rows.jsonl"]), *known] if files["rows.jsonl"].exists() else known
    else:
        folder.mkdir(exist_ok=True)
        with rows_progress("experiment scenes", options.quiet) as progress:
            found = experiments.scenes(**settings, known=known, file=files["rows.jsonl"], progress=progress)
        found += [row for row in known if row["system"].partition("@")[0] not in experiments.SYSTEMS]
    check_drawable(files["rows.jsonl"], found)
    drawn = options.messages.can_draw("pictures need")
    print(_draw(found, files, drawn), end="")
    written = [name for name, path in files.items() if path.exists() and (drawn or path.suffix != ".png")]
    print(f"\nWritten to {printable(folder)}: {', '.join(written)}")
    # That a setting of a list is too much for a scene is no news.
    errors = [row for row in found if "error" in row and not row["tuned"]]
    if errors:
        options.messages.warn(f"{len(errors)} rows failed, the first ({errors[0]['system']}): {errors[0]['error']}")
    return 0


def _settings(options):
    """What the experiment's function is given."""
    named = ("scenes", "methods", "snr", "draws", "ratio", "time_limit", "tuning_runs", "workers")
    given = {key: getattr(options, key) for key in named if getattr(options, key) is not None}
    return {**(_QUICK if options.quick else {}), **given, "tuned": not options.published}


def _draw(found, files, drawn):
    """Write tables, and pictures where they can be drawn; the page of tables as text."""
    files["rows.csv"].parent.mkdir(exist_ok=True)
    experiments.write_csv(files["rows.csv"], found)
    leaders.write_standings(files["standings.csv"], found)
    page = leaders.report(found)
    write_whole(files["standings.md"], page)
    if drawn:
        plots.save(scene_figures.overview(found), files["scenes.png"])
        plots.save(scene_figures.gains(found), files["gains.png"])
    return page
