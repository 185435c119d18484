"""What many scenes take on a cluster: task times measured on one, and a simulation of the queue.

    python asv_bench/many_scenes.py --measure FOLDER        # where large_scene.py has left its images
    python asv_bench/many_scenes.py --scenes 1000 --workers 1 16 256 --store 1e9

A scene goes through four rounds of tasks, each of which waits for the one before (`fastccpd.tiles.first_pass`, then
tiles), with a few seconds of the client's own between them, and is then joined and written by its client. Workers take
tasks of all clients in the order of their coming. What is read and written goes through one store, one after the
other, at so many bytes a second. Both bounds, work / workers and bytes / store, are printed beside what the queue makes
of them.
"""

import argparse
import heapq
import json
import time
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Round:
    """Tasks of one kind, of one scene.

    Attributes
    ----------
    tasks : int
        How many of them there are in the scene.
    seconds : float
        CPU time of each.
    bytes : float
        That each reads and writes.
    """

    tasks: int
    seconds: float
    bytes: float


@dataclass(frozen=True)
class SceneTimes:
    """What one scene takes: rounds of tasks, and what its client does alone.

    Attributes
    ----------
    rounds : tuple of Round
    between : float
        Seconds of the client between two rounds.
    joining : float
        Seconds of the client that joins and writes.
    written : float
        Bytes that it reads and writes then.
    """

    rounds: tuple[Round, ...]
    between: float
    joining: float
    written: float

    @property
    def work(self) -> float:
        """Seconds of workers."""
        return sum(part.tasks * part.seconds for part in self.rounds)

    @property
    def bytes(self) -> float:
        """Through the store, of tasks and of the client."""
        return self.written + sum(part.tasks * part.bytes for part in self.rounds)


# EnMAP with Sentinel-2: 1000×1000×224 and 3000×3000×10 in float32, tiles of 512 (docs/scale.md).
MEASURED = SceneTimes(
    rounds=(
        Round(36, 0.58, 35e6),
        Round(144, 0.11, 8.9e6),
        Round(9, 0.30, 3.8e6),
        Round(36, 1.68, 48e6),
    ),
    between=0.5,
    joining=170.0,
    written=30e9,
)


def simulate(times: SceneTimes, scenes: int, workers: int, *, clients: int = 1, store: float = np.inf) -> float:
    """Seconds until all scenes are written.

    Parameters
    ----------
    times : SceneTimes
    scenes, workers : int
    clients : int
        How many scenes are worked on at once, each by a client with a core of its own.
    store : float
        Bytes a second of the store that all share.
    """
    free, events, order = workers, [], 0
    waiting: list[tuple[int, float, float]] = []  # (scene, seconds, bytes) of tasks for which no worker is free
    left: dict[int, int] = {}
    at: dict[int, int] = {}
    stored = now = 0.0
    begun = min(clients, scenes)
    for scene in range(begun):
        heapq.heappush(events, (times.between, order := order + 1, "round", scene))
    while events:
        now, _, what, scene = heapq.heappop(events)
        if what == "round":
            at[scene] = at.get(scene, -1) + 1
            if at[scene] == len(times.rounds):
                stored = max(stored, now) + times.written / store
                heapq.heappush(events, (max(stored, now + times.joining), order := order + 1, "written", scene))
                continue
            part = times.rounds[at[scene]]
            left[scene] = part.tasks
            waiting += [(scene, part.seconds, part.bytes)] * part.tasks
        elif what == "task":
            free, left[scene] = free + 1, left[scene] - 1
            if left[scene] == 0:
                heapq.heappush(events, (now + times.between, order := order + 1, "round", scene))
        elif begun < scenes:  # one is written: its client takes the next
            heapq.heappush(events, (now + times.between, order := order + 1, "round", begun))
            begun += 1
        started = min(free, len(waiting))
        for task_of, seconds, size in waiting[:started]:
            stored = max(stored, now) + size / store
            heapq.heappush(events, (stored + seconds, order := order + 1, "task", task_of))
        del waiting[:started]
        free -= started
    return now


def main():
    options = _options()
    if options.measure:
        print(json.dumps(asdict(measured(options.measure)), indent=2))
        return
    print("| workers | clients | work / workers (h) | bytes / store (h) | simulated (h) | of the workers' time |")
    print("|---|---|---|---|---|---|")
    for workers in options.workers:
        for clients in options.clients:
            seconds = simulate(MEASURED, options.scenes, workers, clients=clients, store=options.store)
            bounds = MEASURED.work * options.scenes / workers, MEASURED.bytes * options.scenes / options.store
            share = MEASURED.work * options.scenes / (seconds * workers)
            hours = " | ".join(f"{value / 3600:.2f}" for value in (*bounds, seconds))
            print(f"| {workers} | {clients} | {hours} | {share:.0%} |")


def measured(folder, tile=512):
    """The rounds of the scene that large_scene.py has left in a folder: one task of each, on one thread."""
    from large_scene import MSI_BANDS, RATIO, SIGMA

    from fastccpd import Degradation
    from fastccpd.estimation import noise_from, shared_from, spectra_of_scene, subspace_from
    from fastccpd.fusion import checked_request
    from fastccpd.imaging import gaussian
    from fastccpd.model.verdict import Grade, Judged, Verdict
    from fastccpd.tiles import as_source, first_pass, make_plan
    from fastccpd.tiles.pieces import piece_of
    from fastccpd.tiles.plan import FIRST_BLOCK
    from fastccpd.tiles.tasks import Fuse, Gather, Probe, Sum, perform

    cubes = [np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in ("hsi", "msi")]
    hsi, msi = (as_source(cube, name) for cube, name in zip(cubes, ("hsi", "msi")))
    side, bands = msi.shape[0], hsi.shape[2]
    edges = np.linspace(0, bands, MSI_BANDS + 1).astype(int)
    PM = np.array([[(a <= k < b) / (b - a) for k in range(bands)] for a, b in pairwise(edges)])
    degradation = Degradation(*gaussian((side, side), RATIO, sigma=SIGMA, phase=1.0, boundary="reflect"), PM)
    plan = make_plan(degradation.P1, degradation.P2, tile)

    def piece(ranges, size):
        found = [list(ranges(P, size)) for P in (degradation.P1, degradation.P2)]
        middle = [parts[len(parts) // 2] for parts in found]
        return first_pass._piece(hsi, msi, degradation, middle, None), len(found[0]) * len(found[1])

    def timed(task, part):
        perform(task)  # what is compiled or loaded is not a task's
        began = time.process_time()
        result = perform(task)
        seconds = time.process_time() - began
        read = sum(cut.nbytes for cut in _images(part))
        return result, seconds, read

    part, blocks = piece(first_pass._blocks, FIRST_BLOCK)
    statistics, *gather = timed(Gather(part), part)
    noise = noise_from(statistics)
    subspace = subspace_from(degradation.PM, noise)
    part, fitted = piece(first_pass._blocks, first_pass._FITTED)
    gramians, *rough = timed(Sum(part, noise, subspace), part)
    spectra = spectra_of_scene(statistics, gramians, noise, subspace)
    part, windows = piece(first_pass._windows, first_pass._WINDOWS)
    risks, *probe = timed(Probe(part, noise, subspace, spectra), part)
    began = time.process_time()
    shared = shared_from(statistics, gramians, risks, degradation.PM)
    between = time.process_time() - began
    middle = plan.rows[len(plan.rows) // 2], plan.cols[len(plan.cols) // 2]
    part = piece_of(hsi, msi, degradation, *middle)
    path = f"{folder}/one-tile.npz"
    judged = Judged(Verdict(Grade.UNKNOWN), 1.0)
    _, *fuse = timed(Fuse(part, checked_request("auto"), shared, judged, (0, 0, 0), path), part)
    counts = blocks, fitted, windows, len(plan)
    rounds = tuple(Round(count, *found) for count, found in zip(counts, (gather, rough, probe, fuse)))
    return SceneTimes(rounds, between, 0.0, 0.0)


def _images(piece):
    problem = piece.problem()
    return problem.hsi, problem.msi


def _options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--measure", metavar="FOLDER")
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--store", type=float, default=1e9, help="bytes a second")
    return parser.parse_args()


if __name__ == "__main__":
    main()
