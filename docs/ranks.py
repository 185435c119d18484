"""What rank="auto" of "nn-ccpd-nls" gives, and costs, beside the best of seven ranks in hindsight.

    NUMBA_NUM_THREADS=1 python docs/ranks.py FILE      # rows of docs/rows.md: what it has is not computed again
    python docs/ranks.py FILE --table                  # nothing is computed

What docs/ranks.jsonl.gz has, the rows of docs/auto.md, is not computed again either.

Ten scenes at seven SNRs, five seeds: each is a noise draw and a random start. Ranks rise; those beyond one that is 1.5
dB below the best are not run, nor the largest where the one before lost 0.3 dB. The rank in hindsight is that of the
highest median of R-SNR, and the CPU time of "auto" is compared with its own, both on one thread of the same kind of
processor, by the seeds that have them. All scenes at 5, 20 and 40 dB come first. docs/auto.md has the tables.
"""

import sys
from itertools import product
from math import isnan, nan
from pathlib import Path
from statistics import median

from constants import SCENES  # of the same folder

from fastccpd.experiments import rows
from fastccpd.experiments.measuring import Task, measure

FIRST, LATER = (5.0, 20.0, 40.0), (None, 30.0, 10.0, 0.0)
LEVELS = (0.0, 5.0, 10.0, 20.0, 30.0, 40.0, None)
RANKS = (5, 10, 20, 30, 60, 100, 150)

KEPT = Path(__file__).with_name("ranks.jsonl.gz")

# A rank that lost so much in dB ends a cell; and so much where only the largest is left.
LOST, LOST_AT_LAST = 1.5, 0.3

# In dB; and in times of the rank in hindsight.
TOLERATED, AFFORDED = 0.3, 3.0


class Runs:
    """Runs by (scene, SNR, seed, rank), kept in a file as they come."""

    def __init__(self, found, append=None):
        self._known, self._append = {}, append
        for row in found:
            self._keep(row)

    def _keep(self, row):
        self._known[row["scene"], row["snr"], row["run"], row["options"]["rank"]] = row

    def known(self, *cell):
        return self._known.get(cell)

    def __call__(self, scene, snr, seed, rank):
        cell = scene, snr, seed, rank
        if cell not in self._known:
            row = measure(Task(scene, snr, seed, "nn-ccpd-nls", "nn-ccpd-nls", {"rank": rank}, filtered=False))
            self._append(row)
            self._keep(row)
        return self._known[cell]


def cells():
    """(scene, SNR, seed), those of the first table first."""
    for seeds, levels in ((range(3), FIRST), (range(3), LATER), (range(3, 5), FIRST + LATER)):
        yield from ((scene, level, seed) for level, seed, scene in product(levels, seeds, SCENES))


def run_cell(runs, cell):
    """ "auto", and the ranks that may be the best."""
    runs(*cell, "auto")
    best = lost = float("-inf")
    for rank in RANKS:
        if lost > LOST or (rank == RANKS[-1] and lost > LOST_AT_LAST):
            return
        found = runs(*cell, rank)["metrics"]["rsnr"]
        best, lost = max(best, found), max(best, found) - found


def compared(runs, scene, level):
    """(rank in hindsight, its R-SNR, that of "auto", times the time, seeds) of a cell, None where nothing is known.

    The times are not a number where no seed has both on the same kind of processor.
    """
    seeds = [seed for seed in range(5) if runs.known(scene, level, seed, "auto") and runs.known(scene, level, seed, 5)]
    if not seeds:
        return None

    def of(rank, value):
        found = [runs.known(scene, level, seed, rank) for seed in seeds]
        return median(value(row) for row in found) if all(found) else float("-inf")

    def rsnr(row):
        return row["metrics"]["rsnr"]

    best = max(RANKS, key=lambda rank: of(rank, rsnr))
    pairs = [[runs.known(scene, level, seed, rank) for rank in ("auto", best)] for seed in seeds]
    pairs = [pair for pair in pairs if pair[0]["machine"]["processor"] == pair[1]["machine"]["processor"]]
    own, hindsight = ([row["cpu_seconds"] for row in rows_of] for rows_of in zip(*pairs)) if pairs else ([nan], [nan])
    return best, of(best, rsnr), of("auto", rsnr), median(own) / median(hindsight), len(seeds)


def table(runs):
    """Lines: hindsight (its rank) → "auto" (times its time), bold where it falls short."""
    yield "| | " + " | ".join("no noise" if level is None else f"{level:g} dB" for level in LEVELS) + " |"
    yield "|---" * (1 + len(LEVELS)) + "|"
    found = {}
    for scene in SCENES:
        texts = []
        for level in LEVELS:
            outcome = found[scene, level] = compared(runs, scene, level)
            if outcome is None:
                texts.append("not run")
                continue
            rank, best, auto, times, _ = outcome
            short, slow = auto < best - TOLERATED, times > AFFORDED
            image = f"**{auto:.1f}**" if short else f"{auto:.1f}"
            timed = "" if isnan(times) else f" **{times:.1f}×**" if slow else f" {times:.1f}×"
            texts.append(f"{best:.1f} ({rank}) → {image}{timed}")
        yield f"| {scene} | {' | '.join(texts)} |"
    done = {cell: outcome for cell, outcome in found.items() if outcome}
    if done:
        gains = [o[2] - o[1] for o in done.values()]
        times = [o[3] for o in done.values() if not isnan(o[3])] or [nan]
        yield (
            f"\n{len(done)} cells of {min(o[4] for o in done.values())} to {max(o[4] for o in done.values())} seeds: "
            f"{sum(gain < -TOLERATED for gain in gains)} more than {TOLERATED} dB below, the worst {min(gains):+.2f}, "
            f"median {median(gains):+.2f}; times the time ({len(times)} cells): median "
            f"{median(times):.2f}, worst {max(times):.2f}, "
            f"{sum(factor > AFFORDED for factor in times)} above {AFFORDED:g}"
        )


if __name__ == "__main__":
    file = Path(sys.argv[1])
    if "--table" not in sys.argv[2:]:
        measure(Task("synthetic", 20.0, 0, "warm", "nn-ccpd-nls", {"rank": "auto"}, filtered=False))  # loads kernels
        with rows.appending(file) as append:
            runs = Runs(rows.read(KEPT) + rows.read(file), append)
            for cell in cells():
                run_cell(runs, cell)
    for line in table(Runs(rows.read(KEPT) + (rows.read(file) if file.exists() else []))):
        print(line)
