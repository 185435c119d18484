"""`fastccpd batch MANIFEST -o 'out/{name}.tif'`: many pairs, one on each core; the others go on where one fails."""

import json
import os
from contextlib import contextmanager, nullcontext
from pathlib import Path

from .. import machine
from ..formats import files_written
from ..model.files import check_apart, check_free, lock, write_whole
from ..rasters import Preparation
from ..rasters.targets import files_read
from ..tiles import memory_limit
from ..tiles.crews import crew_of, done_in_any_order
from ..tiles.memory import PROCESS
from ..workers import worker_count
from .batch_page import page_of
from .batch_task import TOO_LARGE, FusePair, key_of
from .batch_tiles import FuseInTiles
from .fuse import DISAGREE
from .manifest import absolute, rows_of
from .options import add_fusion_options, add_operator_options, add_output, add_output_options, method_settings
from .output import print_error, print_line, print_table
from .progress import rows_progress, tiles_progress
from .tiles import add_size_options, interrupted_by_terminate

SOME_FAILED, NOT_CONVERGED = 6, 4

_GOOD = ("done", "not converged")

# Bytes of a process that fuses anything at all.
_LEAST = PROCESS + (64 << 20)

# What every line of result has.
_TEXTS = ("key", "name", "output", "status", "verdict")


def add(commands):
    verb = commands.add_parser(
        "batch",
        help="fuse many pairs, one on each core",
        description="Fuse the pairs of MANIFEST, a CSV file with a head line or JSON-lines: columns hsi and msi, and "
        "whatever of name, output, truth and the options of fuse differs from the defaults given here. One line of "
        "JSON for each pair goes to the results file, and to stdout with --json. Pairs that do not fit into memory are "
        "fused in tiles, one after the other. Exit code 6: some pairs failed, 5: the images of some disagree.",
    )
    verb.add_argument("manifest", metavar="MANIFEST", help="a .csv or .jsonl file, or a folder with --pattern")
    template = "the files to write, as in 'out/{name}.tif'; {name}, {number}, {method} and {hsi} are known"
    add_output(verb, "TEMPLATE", template)
    verb.add_argument(
        "--pattern",
        nargs=2,
        metavar=("HSI", "MSI"),
        help="of a folder: the files of a pair, as in '{name}_hsi.tif' '{name}_msi.tif'",
    )
    verb.add_argument("--results", metavar="FILE", help="a line of JSON for each pair (results.jsonl by the output)")
    verb.add_argument("--page", metavar="FILE.html", help="also write a page that sums it up, with thumbnails")
    verb.add_argument("--jobs", type=int, metavar="N", help="pairs at once, each on one thread (default: one a core)")
    add_size_options(verb, default_memory="what is available; half of it for tiles")
    verb.add_argument(
        "--resume",
        action="store_true",
        help="leave out pairs that the results file has as done, and go on with tiles that are there",
    )
    verb.add_argument("--scheduler", metavar="ADDRESS", help="of a dask cluster that sees the same files")
    add_operator_options(verb, default_ratio="what georeferencing or sizes say")
    add_fusion_options(verb)
    add_output_options(verb, force="overwrite all that is written")
    verb.set_defaults(run=run)


def run(options):
    defaults = method_settings(options) | {"method": options.method, "rng": options.seed}
    for name in ("psf", "srf", "bands", "ratio", "dtype", "time_limit", "tile"):
        if getattr(options, name) is not None:
            defaults[name] = getattr(options, name)
    rows = rows_of(options.manifest, options.pattern, options.output, defaults)
    if options.scheduler is not None:
        rows = [absolute(row) for row in rows]
    jobs = worker_count(options.jobs, "--jobs")
    memory_limit(options.memory)
    results = Path(options.results or _beside(options.output))
    _check_apart(rows, options, results)
    _check_results(results, options)  # which makes the folder of the outputs, where a page may lie too
    if options.page:
        check_free([options.page], options.force or options.resume)
    try:
        with _held(results), interrupted_by_terminate():
            before = _earlier(results, rows) if options.resume else {}
            lines = _fused(rows, before, results, jobs, options)
    except KeyboardInterrupt:
        print_error(f"interrupted; what is done is in {results}, and the same command with --resume goes on")
        return 130
    if options.page:
        write_whole(options.page, page_of(lines), overwrite=options.force or options.resume)
    if not options.json and not options.quiet:
        _print_summary(lines, results)
    failed = [line for line in lines if line["status"] not in _GOOD]
    if failed:
        print_error(f"{len(failed)} of {len(lines)} pairs failed; {results} says why")
        return SOME_FAILED
    unlike = [line for line in lines if line.get("disagrees")]
    if unlike:
        print_error(f"the images of {len(unlike)} of {len(lines)} pairs disagree; {results} says why")
        return DISAGREE
    return NOT_CONVERGED if any(line["status"] != "done" for line in lines) else 0


def _beside(template):
    """The results file: in the folder of the outputs, as far as that is one for all."""
    folder = template.partition("{")[0].rpartition("/")[0]
    return os.path.join(folder or ".", "results.jsonl")


def _check_apart(rows, options, results):
    """Refuse outputs of any pair, results and a page that are read by any pair, or that are one file."""
    read, written = [options.manifest], []
    for row in rows:
        read += _read_by(row)
        named = {"-o": row.output, "uncertainty": row.options.get("uncertainty")}
        written += [(name, path, _written_to(path)) for name, path in named.items() if isinstance(path, str)]
    pages = {"--results": results, "--page": options.page}
    check_apart([*written, *((name, path, [path]) for name, path in pages.items() if path is not None)], read)


def _read_by(row):
    """The files that a pair is read from, as far as they can be known; one that cannot be read fails by itself."""
    given = {name: row.options[name] for name in ("hsi_mask", "msi_mask", "grid") if name in row.options}
    try:
        found = files_read(row.hsi, row.msi, row.options.get("psf"), row.options.get("srf"), Preparation(**given))
    except (ValueError, TypeError, OSError, ImportError):
        found = [path.partition("::")[0] for path in (row.hsi, row.msi)]
    return found if row.truth is None else [*found, row.truth.partition("::")[0]]


def _written_to(path):
    try:
        return files_written(path)
    except ValueError:  # a format that is not written, which the pair fails by
        return [path]


def _check_results(results, options):
    if not results.exists():
        results.parent.mkdir(parents=True, exist_ok=True)
    elif not (options.resume or options.force):
        raise FileExistsError(f"{results}: exists already; --resume goes on with it, --force begins anew")
    check_free([results], True)


@contextmanager
def _held(results):
    """Keep other batches from the results file."""
    with open(results, "a", encoding="utf-8") as file:
        if not lock(file):
            raise BlockingIOError(f"{results}: another batch writes it; wait for it, or give another --results")
        try:
            yield
        finally:
            if results.is_file() and not results.stat().st_size:  # nothing came of it
                results.unlink()


def _earlier(results, rows):
    """{key: line} of the pairs that are done already; the results file then holds no other lines."""
    keys, found = {key_of(row) for row in rows}, {}
    with open(results, encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, start=1):
            line = _line_of(text)
            if line is None and (text.endswith("\n") or not text.startswith("{")):  # else it was torn by a kill
                raise ValueError(f"{results}: line {number} is none of a batch's; another --results is needed")
            if line is not None and line["status"] in _GOOD and line["key"] in keys and Path(line["output"]).exists():
                found[line["key"]] = line
    write_whole(results, "".join(json.dumps(line) + "\n" for line in found.values()))
    return found


def _line_of(text):
    """A line of result, None if it is none."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    texts = isinstance(line, dict) and all(isinstance(line.get(name), str) for name in _TEXTS)
    return line if texts and isinstance(line.get("seconds"), int | float) else None


def _fused(rows, before, results, jobs, options):
    """The lines of all pairs, in their order; each is kept as soon as it is there."""
    keys = {row.number: key_of(row) for row in rows}
    lines = {row.number: before[keys[row.number]] for row in rows if keys[row.number] in before}
    todo = [row for row in rows if row.number not in lines]
    options.messages.release()
    with open(results, "a" if options.resume else "w", encoding="utf-8") as file:
        lock(file)  # of a resumed batch it is another file than before

        def keep(line):
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
            lines[line["number"]] = line
            if options.json:
                print_line(json.dumps({name: value for name, value in line.items() if name != "thumbnail"}))

        large = {row.number: "" for row in todo if "tile" in row.options}
        whole = [row for row in todo if row.number not in large]
        with rows_progress("batch", options.quiet) if whole else nullcontext(lambda *_: None) as show:
            for line in _fused_whole(whole, jobs, options, large):
                keep(line)
                show(len(lines), len(rows))
        for row in todo:
            if row.number in large:
                keep(_fused_in_tiles(row, large[row.number], jobs, options))
    return [lines[row.number] for row in rows]


def _fused_whole(rows, jobs, options, large):
    """Yield the lines of the pairs that fit into memory; the others, and why, go into `large`.

    So many pairs at once share the memory. Those for which a share is too small come again, half as many at once.
    """
    limit = machine.available_memory() if options.memory is None else memory_limit(options.memory)
    if limit is not None and options.scheduler is None:
        jobs = min(jobs, max(1, (limit - PROCESS) // _LEAST))
    while rows:
        jobs, again = min(jobs, len(rows)), {}
        with crew_of(jobs, options.scheduler) as crew:
            share = None if limit is None else (limit - PROCESS) // jobs
            share = share if options.scheduler is None else crew.memory
            how = {"overwrite": options.force or options.resume, "pictures": bool(options.page), "memory": share}
            tasks = {row.number: FusePair(row, **how) for row in rows}
            coming = ((number, lambda task=task: task) for number, task in tasks.items())

            def lost(number, error, tasks=tasks):
                return tasks[number].failed(error)

            for number, line in done_in_any_order(crew, coming, 2 * crew.count, lost):
                if line["status"] == TOO_LARGE:
                    again[number] = line["verdict"]
                else:
                    yield line
        if options.scheduler is not None or jobs == 1:
            large |= again
            return
        rows, jobs = [row for row in rows if row.number in again], jobs // 2


def _fused_in_tiles(row, why, jobs, options):
    """The line of a pair that is fused in tiles, by all workers."""
    with tiles_progress(row.name, options.quiet) as (show, writing):
        task = FuseInTiles(
            row,
            options.force or options.resume,
            bool(options.page),
            resume=options.resume,
            memory=options.memory,
            workers=jobs,
            scheduler=options.scheduler,
            progress=show,
            writing=writing,
        )
        line = task()
    if why and line["status"] == "failed":
        line["verdict"] = f"{why}; in tiles: {line['verdict']}"
    return line


def _print_summary(lines, results):
    def quality(line):
        metrics = line.get("metrics") or {}
        return f"{metrics['rsnr']:.2f}" if "rsnr" in metrics else ""

    # The first clause of a verdict; the results file has all of it.
    rows = [
        (line["name"], line["status"], quality(line), f"{line['seconds']:.1f}", line["verdict"].partition("; ")[0])
        for line in lines
    ]
    print_table(["pair", "status", "R-SNR (dB)", "seconds", "verdict"], rows)
    print_line(f"results: {results}")
