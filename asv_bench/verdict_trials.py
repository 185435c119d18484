"""How often the verdict names the right cause: faults put into pairs of real scenes, and pairs without a fault.

    python -m asv_bench.verdict_trials --trials 10 --snr 20 30
    python -m asv_bench.verdict_trials --faults none --trials 20 --first 100
    python -m asv_bench.verdict_trials --scenes samson moffett cave-toy --ratios 3 6 --trials 3 --first 500
    python -m asv_bench.verdict_trials --real

The scenes are read from the folder that FASTCCPD_DATA names. A fault is put into the images or into the operators that
the verdict is told; draws differ by noise, width of the blur and, for a cloud, its place.
"""

import argparse
from collections import Counter
from itertools import product

import numpy as np

from fastccpd import Degradation, Problem
from fastccpd.estimation import verdict_of
from fastccpd.imaging import add_noise, degrade, gaussian, scenes

SCENES = ("salinas-a", "indian-pines", "san-diego", "hydice-urban", "enmap-potsdam")
RATIO = 4
FAULTS = {
    "none": None,
    "scale": "scale",
    "offset": "scale",
    "shift": "shift",
    "wide": "blur",
    "narrow": "blur",
    "cloud": "mask",
}


def faulty(cube, PM, fault, snr, rng, ratio=RATIO):
    """A `Problem` with a fault."""
    shape = [ratio * (size // ratio) for size in cube.shape[:2]]
    cube = cube[: shape[0], : shape[1]]
    coarse = [size // ratio for size in shape]
    middle, width = (ratio - 1) / 2, ratio * rng.uniform(0.35, 0.5)

    def operators(sigma, phase):
        blur = gaussian(shape, ratio, sigma=sigma, phase=phase, boundary="reflect", coarse=coarse)
        return Degradation(*blur, PM)

    true = operators(width, middle)
    told = {
        "shift": operators(width, (middle + ratio / 2, middle)),
        "wide": operators(2.0 * width, middle),
        "narrow": operators(0.5 * width, middle),
    }.get(fault, true)
    hsi, msi = (add_noise(image, snr, rng) for image in degrade(cube, true))
    if fault == "scale":
        hsi = 1e4 * hsi
    if fault == "offset":
        # In counts of reflectance × 10000.
        msi = msi + 1000.0 * float(np.percentile(msi, 99)) / 6000.0
    if fault == "cloud":
        side = [round(np.sqrt(0.2) * size) for size in shape]
        top, left = (int(rng.integers(0, size - part)) for size, part in zip(shape, side, strict=True))
        msi[top : top + side[0], left : left + side[1]] = 1.2 * msi.max()
    return Problem(hsi, msi, told)


def run(names, faults, snrs, ratios, trials):
    """Print, for each fault, SNR and ratio, how many trials were called right, and what else was said."""
    loaded = {name: scenes.load(name) for name in names}
    for fault, snr, ratio in product(faults, snrs, ratios):
        said = {name: Counter() for name in names}
        for (name, scene), trial in product(loaded.items(), trials):
            rng = np.random.default_rng([trial, int(snr), sorted(FAULTS).index(fault)])
            verdict = verdict_of(faulty(scene.cube, scene.response, fault, snr, rng, ratio))
            said[name][verdict.cause if verdict.disagrees else None] += 1
        right = sum(counts[FAULTS[fault]] for counts in said.values())
        others = {name: dict(counts) for name, counts in said.items() if counts[FAULTS[fault]] < len(trials)}
        print(
            f"{fault:8} {snr:4.0f} dB  ratio {ratio}  {right} of {len(trials) * len(names)}  {others or ''}", flush=True
        )


def real():
    """Print the verdicts on the two real pairs."""
    for name in ("paris", "san-francisco"):
        pair = scenes.load_pair(name)
        print(f"{name}: {verdict_of(as_problem(pair))}", flush=True)


def as_problem(pair, ratio=RATIO):
    """A pair of one resolution as a fusion: the HSI blurred and decimated, the MSI as it is."""
    shape = [ratio * (size // ratio) for size in pair.msi.shape[:2]]
    reference, msi = (image[: shape[0], : shape[1]] for image in (pair.reference, pair.msi))
    blur = gaussian(shape, ratio, phase=(ratio - 1) / 2, boundary="reflect", coarse=[size // ratio for size in shape])
    degradation = Degradation(*blur, pair.response)
    return Problem(degrade(reference, degradation)[0], msi, degradation)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenes", nargs="+", default=SCENES)
    parser.add_argument("--faults", nargs="+", choices=tuple(FAULTS), default=tuple(FAULTS))
    parser.add_argument("--snr", nargs="+", type=float, default=(20.0, 30.0))
    parser.add_argument("--ratios", nargs="+", type=int, default=(RATIO,))
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial, which seeds it")
    parser.add_argument("--real", action="store_true", help="the two real pairs, and nothing else")
    options = parser.parse_args()
    if options.real:
        real()
    else:
        trials = range(options.first, options.first + options.trials)
        run(options.scenes, options.faults, options.snr, options.ratios, trials)


if __name__ == "__main__":
    main()
