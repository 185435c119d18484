"""How time grows with the scene, and falls with the workers: `python asv_bench/scaling.py WHAT`, which is one of

pixels    CPU seconds of one process by the side of the scene, and the exponent of their growth with the pixels
workers   wall-clock and CPU seconds of one and of two worker processes, in turns, the least of --rounds; no writing
dask      wall-clock of two processes of a dask cluster against two of our own; the cluster stands already
batch     wall-clock of many small pairs by `fastccpd batch --jobs 2` against `--jobs 1`

Wall-clock means something on an idle machine only, and once kernels are compiled: run it twice.
"""

import argparse
import csv
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from tile_sizes import pair

from fastccpd.cli import main as command
from fastccpd.tiles import fuse_tiles


def main():
    options = _options()
    print(json.dumps({"what": options.what, **globals()[f"measure_{options.what}"](options)}))


def measure_pixels(options):
    found = {}
    for side in options.sides:
        images = pair(side, options.bands, 30.0, "reflect")[1:]
        began = time.process_time()
        fuse_tiles(*images, workers=0, tile=options.tile, method=options.method).close()
        found[side] = time.process_time() - began
        print(side, round(found[side], 1), flush=True)
    pixels, seconds = np.log([(side**2, value) for side, value in found.items()]).T
    return {"cpu_seconds": found, "exponent": float(np.polyfit(pixels, seconds, 1)[0])}


def measure_workers(options):
    images = pair(options.sides[0], options.bands, 30.0, "reflect")[1:]
    wall, cpu = {1: np.inf, 2: np.inf}, {1: np.inf, 2: np.inf}
    for count in (1, 2) * options.rounds:
        began = _cpu_seconds()
        wall[count] = min(wall[count], _seconds(images, options, workers=count))
        cpu[count] = min(cpu[count], _cpu_seconds() - began)
    return {"seconds": wall, "ratio": wall[1] / wall[2], "cpu_seconds": cpu}


def _cpu_seconds():
    """Of this process, and of those that it started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def measure_dask(options):
    from distributed import Client, LocalCluster

    images = pair(options.sides[0], options.bands, 30.0, "reflect")[1:]
    ours = _seconds(images, options, workers=2)
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings, host="127.0.0.1") as cluster, Client(cluster) as client:
        theirs = _seconds(images, options, client=client)
    return {"crew": ours, "dask": theirs, "ratio": theirs / ours}


def measure_batch(options):
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        images = pair(options.small, options.bands, 30.0, "reflect")[1:3]
        for n in range(options.pairs):
            for name, image in zip(("hsi", "msi"), images):
                np.save(Path(folder) / f"{n}_{name}.npy", image)
        with open(Path(folder) / "pairs.csv", "w", newline="") as file:
            rows = [(f"{folder}/{n}_hsi.npy", f"{folder}/{n}_msi.npy", n) for n in range(options.pairs)]
            csv.writer(file).writerows([("hsi", "msi", "name"), *rows])
        for jobs in (1, 2):
            how = "--srf", "landsat", "--psf", "gaussian,phase=1.5,boundary=reflect", "--jobs", str(jobs), "--quiet"
            began = time.monotonic()
            command(["batch", f"{folder}/pairs.csv", "-o", f"{folder}/{jobs}/{{name}}.npy", *how])
            found[jobs] = time.monotonic() - began
    return {"pairs": options.pairs, "seconds": found, "ratio": found[1] / found[2]}


def _seconds(images, options, **hands):
    """Wall-clock of a fusion in tiles whose images are read, not sent: they lie in files."""
    with tempfile.TemporaryDirectory() as folder:
        mapped = []
        for name, image in zip(("hsi", "msi"), images):
            np.save(f"{folder}/{name}.npy", image)
            mapped.append(np.load(f"{folder}/{name}.npy", mmap_mode="r"))
        began = time.monotonic()
        fuse_tiles(*mapped, images[2], tile=options.tile, method=options.method, **hands).close()
        return time.monotonic() - began


def _options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["pixels", "workers", "dask", "batch"])
    parser.add_argument("--sides", type=int, nargs="+", default=[1024])
    parser.add_argument("--tile", type=int, default=256)
    parser.add_argument("--bands", type=int, default=60)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--small", type=int, default=64, help="side of a small pair")
    return parser.parse_args()


if __name__ == "__main__":
    main()
