"""`fastccpd demo`: the main job on a scene that is at hand, with a table and a report to look at."""

from functools import partial
from pathlib import Path

from ..imaging import scenes
from ..model.files import check_apart
from ..model.shapes import size_name
from . import demonstration
from .options import add_output_options, add_seed
from .output import print_json, print_line, print_scores
from .progress import fusion_progress

_FOLDER = "fastccpd-demo"


def add(commands):
    verb = commands.add_parser(
        "demo",
        help="see it work: a scene degraded, fused, scored and pictured",
        description="Degrade a scene into an HSI and an MSI with noise, fuse them, compare the result with the scene "
        "and with what other methods make of it, and write a report to look at.",
    )
    verb.add_argument(
        "--scene",
        default="auto",
        metavar="NAME",
        help=f"auto (Indian Pines if it can be had, else synthetic), synthetic, or one of {', '.join(scenes.names())}",
    )
    verb.add_argument("--snr", type=float, default=20.0, metavar="DB", help="noise of both images (default 20 dB)")
    add_seed(verb, "the noise and the start")
    verb.add_argument("--rank", type=int, default=30, metavar="R", help="of the decomposition (default 30)")
    verb.add_argument(
        "--rivals",
        type=_names,
        default=demonstration.RIVALS,
        metavar="A,B",
        help=f"methods to compare with (default {','.join(demonstration.RIVALS)})",
    )
    verb.add_argument(
        "-o", "--output", metavar="FOLDER", help=f"for report.html (default {_FOLDER}, where it is replaced)"
    )
    add_output_options(verb, force="overwrite a report.html in FOLDER")
    verb.set_defaults(run=run)


def run(options):
    say = options.messages
    path = Path(options.output or _FOLDER) / "report.html"
    # The folder that nobody chose is the demonstration's own.
    overwrite = options.force or options.output is None
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path}: exists already; --force overwrites it")
    scene = "indian-pines" if options.scene == "auto" else options.scene
    check_apart([("-o", path, [path])], scenes.files_read(scene) if scene in scenes.names() else [])
    shown = demonstration.run(
        options.scene,
        options.snr,
        options.seed,
        options.rank,
        options.rivals,
        show=partial(fusion_progress, quiet=options.quiet),
    )
    for note in shown.notes:
        say.note(note)
    drawn = say.can_draw("the report needs")
    written = demonstration.write_report(shown, path, overwrite) if drawn else None
    expected, true = shown.errors()
    if options.json:
        found = {"scene": shown.scene.provenance["name"], "scores": shown.rows, "report": written}
        found |= {"verdict": shown.result.verdict.figures(), "expected_error": expected, "true_error": true}
        print_json(found | say.said())
        return 0
    result, name = shown.result, shown.scene.provenance["name"]
    hsi, msi, sri = (size_name(cube.shape) for cube in (shown.hsi, shown.msi, shown.scene.cube))
    print_line(f"{name}: HSI {hsi} and MSI {msi} at {options.snr:g} dB, fused to {sri}")
    print(f"{result.n_iter} iterations in {result.seconds:.1f} s, {result.status}")
    print_line(f"verdict: {result.verdict}")
    if expected is not None:
        print(f"error of a pixel: {expected:.3g} expected, {true:.3g} true (root mean squares)")
    print()
    print_scores(shown.rows)
    if written:
        print()
        print_line(f"report: {written}")
    return 0


def _names(text):
    return tuple(name for name in text.split(",") if name)
