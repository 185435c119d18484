"""The paper's three experiments as lists of tasks, and as functions that return the rows.

bands   one noisy image, every system: pictures of one band, its residual, and the SAM map
snr     the SNR varies, many noise draws: the median of each metric against the SNR
rank    the rank varies at one SNR: the median of each metric against the rank, for the tensor methods
"""

from ..model.checks import as_count, as_number
from . import runner
from .measuring import Task, band_count
from .systems import chosen, named

SNRS = tuple(range(11))
RANKS = tuple(range(10, 81, 10))

# A task of each is made before the first is begun; whoever asks for more has mistyped.
_MOST_ROWS = 100_000


def bands(scene="salinas-a", methods=None, runs=1, snr=(5,), ranks=None, band=34, tuned=False, file=None, **how):
    """The first experiment: pictures of one band of what each system recovers.

    Parameters
    ----------
    scene : str
        A name of `imaging.scenes.names()`, or "synthetic".
    methods : sequence of str, optional
        Names of `SYSTEMS`; None: all.
    runs : int
        Noise draws.
    snr : sequence of float
        Signal-to-noise ratios of both images, in dB.
    ranks : sequence of int, optional
        Ranks of the tensor methods (R, R, R for coupled Tucker). None: the paper's.
    band : int
        The band to picture, from 1.
    tuned : bool
        Whether to run every rival over its grid too. The best of a grid is found with the truth: an upper bound.
    file : path, optional
        A JSON-lines file to add the rows to, and to take those from that it has.
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
    return runner.run(tasks(scene, chosen(methods, ranks), runs, snr, tuned, band), file, **how)


def snr(scene="salinas-a", methods=None, runs=50, snr=SNRS, ranks=None, tuned=False, file=None, **how):
    """The second experiment: every system at every SNR, many noise draws. For parameters and rows see `bands`."""
    band_count(scene)  # a scene that cannot be had is one error here, not one in each process
    return runner.run(tasks(scene, chosen(methods, ranks), runs, snr, tuned), file, **how)


def rank(scene="indian-pines", methods=None, runs=10, snr=(5,), ranks=RANKS, tuned=False, file=None, **how):
    """The third experiment: the tensor methods at every rank; tuned, by all but the rank. See `bands`."""
    band_count(scene)
    return runner.run(tasks(scene, chosen(methods, ranks, tensor_only=True), runs, snr, tuned), file, **how)


def tasks(scene, systems, runs, snrs, tuned=False, band=None):
    """Noise draw by noise draw, so that a run that is cut short has whole draws."""
    levels = [as_number(level, "snr", least=-100.0) for level in snrs]
    most = max(1, _MOST_ROWS // max(1, len(levels) * len(systems)))
    planned = []
    for run in range(as_count(runs, "runs", most=most)):
        for level in levels:
            for name in systems:
                system = named(name)
                common = {"scene": scene, "snr": level, "run": run, "system": name, "method": system.method}
                planned.append(Task(**common, options=system.options, band=band))
                if tuned:
                    planned += [Task(**common, options=options, tuned=True, band=band) for options in system.settings()]
    return planned
