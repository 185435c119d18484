"""`fastccpd experiment bands|snr|rank`: the paper's three experiments, into a folder of rows, tables and pictures.

`experiment scenes` and `experiment rows` are in modules of their own.
"""

from pathlib import Path

from .. import experiments, plots
from ..experiments import figures
from ..experiments.rows import check_drawable
from ..imaging import scenes
from ..model.files import check_apart, write_whole
from . import experiment_rows, experiment_scenes, lists
from .output import printable
from .progress import rows_progress

_HELP = {
    "bands": "pictures of one band, its residual and the SAM map for every system",
    "snr": "medians of four metrics against the SNR for every system",
    "rank": "medians of four metrics against the rank for the tensor methods",
}
_DEFAULTS = {
    "bands": {"scene": "salinas-a", "runs": 1, "snr": (5.0,)},
    "snr": {"scene": "salinas-a", "runs": 50, "snr": experiments.SNRS},
    "rank": {"scene": "indian-pines", "runs": 10, "snr": (5.0,), "ranks": experiments.RANKS},
}
# What --quick makes of them, to see one come out in a minute.
_QUICK = {
    "bands": {"runs": 1},
    "snr": {"runs": 2, "snr": (0.0, 5.0, 10.0)},
    "rank": {"runs": 1, "ranks": (10, 30)},
}


def add(commands):
    verb = commands.add_parser(
        "experiment",
        help="the paper's experiments, and one of all scenes: rows, tables and pictures",
        description="Run an experiment. A run that was stopped goes on where it stopped.",
    )
    kinds = verb.add_subparsers(dest="experiment", required=True, metavar="bands|snr|rank|scenes|rows")
    experiment_scenes.add(kinds)
    experiment_rows.add(kinds)
    for name, text in _HELP.items():
        kind = kinds.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        defaults = _DEFAULTS[name]
        kind.add_argument("--scene", default=defaults["scene"], help=f"its name (default {defaults['scene']})")
        kind.add_argument("--methods", type=lists.names, metavar="A,B", help=f"of {', '.join(experiments.SYSTEMS)}")
        kind.add_argument("--runs", type=lists.draws, metavar="N", help=f"noise draws (default {defaults['runs']})")
        kind.add_argument("--snr", type=lists.snrs, metavar="DB", help="a list 0,5,10 or a range 0:10 (in dB)")
        kind.add_argument(
            "--ranks", type=lists.ranks, metavar="R", help="of the tensor methods: a list 10,30 or a range 10:80:10"
        )
        kind.add_argument("--tuned", action="store_true", help=f"rivals also {figures.UPPER_BOUND}")
        kind.add_argument("--tuning-runs", type=int, metavar="N", help=experiment_scenes.TUNING_RUNS)
        if name == "bands":
            kind.add_argument("--band", type=int, default=34, help="the band to picture, from 1 (default 34)")
        text = "files of rows (.jsonl or .jsonl.gz) that are not computed again; with --redraw, what is drawn"
        kind.add_argument("--from", dest="known", type=Path, nargs="+", default=[], metavar="FILE", help=text)
        kind.add_argument("--quick", action="store_true", help="a few runs only, to see it come out")
        kind.add_argument("--workers", type=int, metavar="N", help="processes of one thread (default: one a core)")
        kind.add_argument("-o", "--output", type=Path, metavar="FOLDER", help=f"(default fastccpd-{name})")
        kind.add_argument("--redraw", action="store_true", help="draw the pictures from the rows again, run nothing")
        kind.add_argument("--quiet", action="store_true", help="no progress")
        kind.set_defaults(run=run)


def run(options):
    name = options.experiment
    folder = options.output or Path(f"fastccpd-{name}")
    file = folder / "rows.jsonl"
    read = scenes.files_read(options.scene) if options.scene in scenes.names() else []
    check_apart([(name, path, [path]) for name, path in _files(name, folder).items()], [*read, *options.known])
    known = [row for given in options.known for row in experiments.read(given) if row["scene"] == options.scene]
    if options.redraw and options.known:
        file, rows = options.known[0], known
    elif options.redraw:
        rows = experiments.read(file)
    else:
        folder.mkdir(exist_ok=True)
        with rows_progress(f"experiment {name}", options.quiet) as progress:
            rows = getattr(experiments, name)(**_settings(options), known=known, file=file, progress=progress)
    check_drawable(file, rows)
    folder.mkdir(exist_ok=True)
    print(_draw(name, rows, folder, options.messages), end="")
    errors = [row for row in rows if "error" in row]
    if errors:
        options.messages.warn(f"{len(errors)} rows failed, the first ({errors[0]['system']}): {errors[0]['error']}")
    return 0


def _settings(options):
    """What the experiment's function is given: what was asked for, else what --quick or the paper has."""
    name = options.experiment
    defaults = {**_DEFAULTS[name], **(_QUICK[name] if options.quick else {})}
    named = ("scene", "runs", "snr", "methods", "ranks", "workers", "tuned", "tuning_runs", "band")
    given = {key: getattr(options, key) for key in named if getattr(options, key, None) is not None}
    return {**defaults, **given}


def _files(name, folder):
    """The files of an experiment: its rows, and what is drawn from them."""
    pictures = ["bands.png"] if name == "bands" else [f"{name}.png", f"{name}-lee.png"]
    return {file: folder / file for file in ("rows.jsonl", "rows.csv", "medians.md", *pictures)}


def _draw(name, rows, folder, messages):
    """Write tables of the rows, and pictures where they can be drawn; the table of medians as text."""
    files = _files(name, folder)
    experiments.write_csv(files["rows.csv"], rows)
    by = "rank" if name == "rank" else "snr"
    table = figures.text_table(rows, by)
    write_whole(files["medians.md"], table)
    if not messages.can_draw("pictures need"):
        files = {file: path for file, path in files.items() if path.suffix != ".png"}
    elif name == "bands":
        plots.save(figures.bands(rows), files["bands.png"])
    else:
        plots.save(figures.curves(rows, by), files[f"{name}.png"])
        plots.save(figures.curves(rows, by, filtered=True), files[f"{name}-lee.png"])
    written = [file for file, path in files.items() if path.exists()]
    return f"{table}\nWritten to {printable(folder)}: {', '.join(written)}\n"
