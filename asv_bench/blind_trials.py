"""How well blur, shift and response are found from two images alone, and what is lost by not knowing them.

    python -m asv_bench.blind_trials trials.jsonl --trials 3
    python -m asv_bench.blind_trials fused.jsonl --fuse --snr 20 30 40 --crop 120
    python -m asv_bench.blind_trials held-out.jsonl --scenes samson moffett abu-urban-1 --ratios 5 --first 500
    python -m asv_bench.blind_trials trials.jsonl --table

The scenes are read from the folder that FASTCCPD_DATA names. Of each, scene, ratio and SNR give a pair, whose widths
(0.3 to 0.7 of the ratio) and shifts (to 1.5 MSI pixels) are drawn for each axis. A line of the file is one trial; those
that are there are not made again, so that a run may be ended at any time and goes on where it was. The table of all
lines comes last: medians of the errors, how many true values lie within two standard errors, what was lost, and the
time.
"""

import argparse
import json
import time
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np

import fastccpd
from asv_bench.verdict_trials import SCENES
from fastccpd import Degradation, Problem
from fastccpd.estimation import estimate_degradation, verdict_of
from fastccpd.imaging import add_noise, degrade, gaussian, metrics, scenes


def blurred_pair(cube, PM, ratio, snr, rng):
    """(hsi, msi, degradation, sigma, shift): a pair with a drawn blur."""
    shape = [ratio * (size // ratio) for size in cube.shape[:2]]
    cube = cube[: shape[0], : shape[1]]
    sigma, shift = ratio * rng.uniform(0.3, 0.7, 2), rng.uniform(-1.5, 1.5, 2)
    phase, coarse = (ratio - 1) / 2 + shift, [size // ratio for size in shape]
    blur = gaussian(shape, ratio, sigma=sigma, phase=phase, boundary="reflect", coarse=coarse)
    true = Degradation(*blur, PM)
    hsi, msi = (add_noise(image, snr, rng) for image in degrade(cube, true))
    return cube, hsi, msi, true, sigma, shift


def trial(scene, ratio, snr, seed, fuse=False):
    """The figures of one pair, with the response known and with nothing known."""
    rng = np.random.default_rng([seed, ratio, int(snr)])
    cube, hsi, msi, true, sigma, shift = blurred_pair(scene.cube, scene.response, ratio, snr, rng)
    found, row = {}, {"ratio": ratio, "snr": snr, "seed": seed, "shape": list(cube.shape)}
    for name, PM in (("response known", true.PM), ("nothing known", None)):
        began = time.perf_counter()
        found[name] = estimate_degradation(hsi, msi, ratio, PM=PM)
        seconds, blur = time.perf_counter() - began, found[name].blur
        errors = np.concatenate([np.divide(blur.sigma, sigma) - 1.0, np.subtract(blur.shift, shift)])
        spread = np.concatenate([np.divide(blur.sigma_errors, sigma), blur.shift_errors])
        verdict = verdict_of(Problem(hsi, msi, found[name].degradation))
        said = verdict.cause if verdict.disagrees else None
        row[name] = {"errors": list(errors), "spread": list(spread), "seconds": seconds, "disagrees": said}
    if fuse:
        began = time.perf_counter()
        row["true dB"] = metrics.rsnr(fastccpd.fuse(hsi, msi, true).sri, cube)
        row["fusion s"] = time.perf_counter() - began
        for name, estimate in found.items():
            row[name]["dB"] = metrics.rsnr(fastccpd.fuse(hsi, msi, estimate.degradation).sri, cube)
    return row


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path, names, ratios, snrs, trials, fuse, crop):
    """Add the trials that `path` does not hold yet."""
    done = {(row["scene"], row["ratio"], row["snr"], row["seed"]) for row in lines_of(path)}
    for name in names:
        scene = None
        for seed, snr, ratio in product(trials, snrs, ratios):
            if (name, ratio, snr, seed) in done:
                continue
            scene = scene or scenes.load(name)
            cut = scene if crop is None else _cut(scene, crop)
            row = {"scene": name, **trial(cut, ratio, snr, seed, fuse)}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def _cut(scene, side):
    rows, columns = ((size - min(side, size)) // 2 for size in scene.cube.shape[:2])
    return scenes.Scene(**{**vars(scene), "cube": scene.cube[rows : rows + side, columns : columns + side].copy()})


def table(rows):
    """Print what the trials say, for each SNR and for each scene."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["snr"], "all"].append(row)
        groups[row["snr"], row["scene"]].append(row)
    print("SNR   scene          n  | known: width %  shift  in 2 se | nothing: width %  shift  in 2 se | dB lost")
    for (snr, name), group in sorted(groups.items()):
        parts = []
        for known in ("response known", "nothing known"):
            errors, spread = (np.array([row[known][key] for row in group]) for key in ("errors", "spread"))
            width, shift = np.median(np.abs(errors[:, :2])), np.median(np.abs(errors[:, 2:]))
            parts.append(f"{100 * width:8.1f} {shift:8.3f} {np.mean(np.abs(errors) <= 2 * spread):8.0%}")
        lost = [[row["true dB"] - row[known]["dB"] for row in group if "true dB" in row] for known in _KNOWN]
        lost = " ".join(f"{np.median(each):.2f} (≤ {max(each):.2f})" for each in lost if each)
        print(f"{snr:4.0f}  {name:13} {len(group):3} |{parts[0]}      |{parts[1]}        | {lost}")
    alarms = [(row["scene"], row["ratio"], row["snr"]) for row in rows for k in _KNOWN if row[k]["disagrees"]]
    print(f"alarms: {alarms}")


_KNOWN = ("response known", "nothing known")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--scenes", nargs="+", default=SCENES)
    parser.add_argument("--snr", nargs="+", type=float, default=(10.0, 20.0, 30.0))
    parser.add_argument("--ratios", nargs="+", type=int, default=(3, 4, 6))
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial, which seeds it")
    parser.add_argument("--crop", type=int, help="the most rows and columns of a scene, from its middle")
    parser.add_argument("--fuse", action="store_true", help="fuse with the true and the estimated operators, too")
    parser.add_argument("--table", action="store_true", help="print what is there, and make no trials")
    options = parser.parse_args()
    if not options.table:
        trials = range(options.first, options.first + options.trials)
        run(options.path, options.scenes, options.ratios, options.snr, trials, options.fuse, options.crop)
    table(lines_of(options.path))


if __name__ == "__main__":
    main()
