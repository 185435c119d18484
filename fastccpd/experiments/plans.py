"""The experiments as lists of tasks, and as functions that return the rows: the paper's three, and one of all scenes.

bands   one noisy image, every system: pictures of one band, its residual, and the SAM map
snr     the SNR varies, many noise draws: the median of each metric against the SNR
rank    the rank varies at one SNR: the median of each metric against the rank, for the tensor methods
scenes  every scene, from heavy noise to none, every system at its published settings and tuned
"""

from ..model.checks import as_count, as_number
from ..testing.simulating import PAIRS, scene_names, simulated, usual_ratio
from . import runner
from .measuring import Task, band_count
from .systems import chosen, named
from .tuning import MOST, score_of, search

SNRS = tuple(range(11))
RANKS = tuple(range(10, 81, 10))
#: Of the experiment of all scenes, in dB; None: no noise is added.
SCENE_SNRS = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, None)

# A task of each is made before the first is begun; whoever asks for more has mistyped.
_MOST_ROWS = 100_000


def bands(
    scene="salinas-a",
    methods=None,
    runs=1,
    snr=(5,),
    ranks=None,
    band=34,
    tuned=False,
    tuning_runs=MOST,
    file=None,
    **how,
):
    """The first experiment: pictures of one band of what each system recovers.

    Parameters
    ----------
    scene : str
        A name of `testing.scene_names()`.
    methods : sequence of str, optional
        Names of `SYSTEMS`; None: all.
    runs : int
        Noise draws.
    snr : sequence of float or None
        Signal-to-noise ratios of both images, in dB; None: no noise is added.
    ranks : sequence of int, optional
        Ranks of the tensor methods (R, R, R for coupled Tucker). None: the published ones.
    band : int
        The band to picture, from 1.
    tuned : bool
        Whether to tune every rival too, with the truth: an upper bound. It is tuned on the first draw, without a
        filter, and scored on all draws as it was best there.
    tuning_runs : int
        The most runs that the search may take. One that ended early goes on from its rows.
    file : path, optional
        A JSON-lines file to add the rows to, and to take those from that it has.
    known : iterable of dict
        Further rows that are not computed again.
    workers : int, optional
        Processes; None: as many as there are cores.
    progress : callable(done, total), optional
        Called at the beginning and after each row.

    Returns
    -------
    list of dict
        Scores under "metrics", after the Lee filter under "lee", pictures under "maps".
    """
    as_count(band, "band", most=band_count(scene))
    return runner.run(_jobs([scene], chosen(methods, ranks), runs, snr, tuned, tuning_runs, band=band), file, **how)


def snr(
    scene="salinas-a", methods=None, runs=50, snr=SNRS, ranks=None, tuned=False, tuning_runs=MOST, file=None, **how
):
    """The second experiment: every system at every SNR, many noise draws. For parameters and rows see `bands`."""
    band_count(scene)  # a scene that cannot be had is one error here, not one in each process
    return runner.run(_jobs([scene], chosen(methods, ranks), runs, snr, tuned, tuning_runs), file, **how)


def rank(
    scene="indian-pines", methods=None, runs=10, snr=(5,), ranks=RANKS, tuned=False, tuning_runs=MOST, file=None, **how
):
    """The third experiment: the tensor methods at every rank; tuned, by all but the rank. See `bands`."""
    band_count(scene)
    systems = chosen(methods, ranks, tensor_only=True)
    return runner.run(_jobs([scene], systems, runs, snr, tuned, tuning_runs), file, **how)


def scenes(
    scenes=None,
    methods=None,
    snr=None,
    draws=3,
    ratio=None,
    tuned=True,
    time_limit=None,
    tuning_runs=MOST,
    file=None,
    **how,
):
    """All scenes at all SNRs, every system at its published settings and tuned.

    Parameters
    ----------
    scenes : sequence of str, optional
        Names of `testing.scene_names()`; None: all but the synthetic one.
    methods, tuned, file, known, workers, progress
        As in `bands`.
    snr : sequence of float or None, optional
        In dB; None: no noise is added. Left out: `SCENE_SNRS`; real pairs as they are.
    draws : int
        Noise draws. Without noise there is but one.
    ratio : int, optional
        Fine pixels per coarse one, along a side; None: 4, and 3 for a real pair.
    time_limit : float, optional
        Seconds, of one run.
    tuning_runs : int
        As in `bands`, of each cell.

    Returns
    -------
    list of dict
    """
    systems = chosen(methods)
    limit = None if time_limit is None else as_number(time_limit, "time_limit")
    names = [name for name in scene_names() if name != "synthetic"] if scenes is None else list(scenes)
    for name in names:
        simulated(name, None, 0, ratio)  # one that cannot be had is one error here, not one in each process
    # Nothing here shows tuned rows after the Lee filter.
    jobs = _jobs(names, systems, draws, snr, tuned, tuning_runs, ratio=ratio, time_limit=limit, filtered=False)
    return runner.run(jobs, file, **how)


def usual_snrs(scene):
    """The SNRs of the experiment of all scenes: a real pair has noise of its own, and gets no other."""
    return (None,) if scene in PAIRS else SCENE_SNRS


def tasks(scene, systems, runs, snrs, **common):
    """Every system at its published settings: draw by draw, so that a run that is cut short has whole draws."""
    levels = [level if level is None else as_number(level, "snr", least=-100.0) for level in snrs]
    most = max(1, _MOST_ROWS // max(1, len(levels) * len(systems)))
    planned = []
    for run in range(as_count(runs, "runs", most=most)):
        # Without noise all draws are the same.
        for level in (level for level in levels if level is not None or run == 0):
            for name in systems:
                system = named(name)
                about = {"scene": scene, "snr": level, "run": run, "system": name, "method": system.method}
                planned.append(Task(**about, options=system.options, **common))
    return planned


def _jobs(scenes, systems, runs, snrs, tuned=False, tuning_runs=MOST, ratio=None, filtered=True, **common):
    """The published settings of all first, then cell by cell the tuned ones, `filtered` or not."""
    most = as_count(tuning_runs, "tuning_runs", most=MOST)
    published = []
    for scene in scenes:
        size = usual_ratio(scene) if ratio is None else ratio
        levels = usual_snrs(scene) if snrs is None else snrs
        published += tasks(scene, systems, runs, levels, ratio=size, **common)
    jobs = [runner.listed(published)]
    if tuned:
        cells = {}
        for task in published:
            cells.setdefault((task.scene, task.snr, task.system), []).append(task)
        jobs += [
            runner.Job(_tuned(cell, filtered, most), most + len(cell) + filtered)
            for cell in cells.values()
            if named(cell[0].system).grid()
        ]
    return jobs


def _tuned(cell, filtered, most):
    """The tasks of tuning: a search on the first of a cell's images, and the best setting on all.

    The search looks at no score after the Lee filter, so its rows have none, and every experiment can share them.
    """
    first, *others = cell
    (row,) = yield [first]
    settings = search(named(first.system), score_of(row), most)
    scores = None
    while True:
        try:
            batch = settings.send(scores)
        except StopIteration as end:
            best = end.value
            break
        scores = [score_of(row) for row in (yield [first.tuned_to(options, False) for options in batch])]
    if best != first.options:
        yield [task.tuned_to(best, filtered) for task in (cell if filtered else others)]
