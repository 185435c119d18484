"""How much the constants of the maps matter: each halved and doubled, on halves of the scenes.

    python docs/constants.py FILE      # a JSON-lines file: what it has is not computed again

For each constant the value is shown that one half of the scenes would choose, and what it gives the other half, in dB
of R-SNR against the value that is shipped (docs/auto.md has the table).
"""

import json
import sys
from pathlib import Path
from statistics import mean

import numpy as np

from fastccpd import Problem
from fastccpd.estimation import fit_maps, map_path, noise, noise_of, subspace, subspace_of, tv_maps
from fastccpd.imaging import metrics
from fastccpd.testing import simulated

# Small ones, which take little time.
HALVES = (("moffett", "samson"), ("hydice-urban", "salinas-a"))
LEVELS = (20.0, None)

# What each is called here: where it stands, and by what it is multiplied.
CONSTANTS = {
    "noise floor": (noise, "FLOOR", (0.5, 2.0)),
    "most maps": (subspace, "MOST", (0.5, 2.0)),
    "variance of what is not explained, at fine pixels": (subspace, "_FINER", (0.5, 2.0)),
    "power of the scaling": (subspace, "_POWER", (0.5, 1.4)),
    "knee of the price": (map_path, "KNEE", (0.5, 2.0)),
    "weakest weight": (tv_maps, "WEAKEST", (0.36, 1.67)),  # by one step of the path and a half
    "standard errors of agreement": (noise, "_LIKELY", (0.5, 2.0)),
}


def score(scene, level, constant=None, factor=1.0):
    """The R-SNR of the maps with one constant changed."""
    case = simulated(scene, level, 0)
    problem = Problem(case.hsi, case.msi, case.degradation)
    room, name = CONSTANTS[constant][:2] if constant else (subspace, "MOST")
    shipped = getattr(room, name)
    setattr(room, name, type(shipped)(factor * shipped))
    try:
        found = noise_of(problem)
        fit = fit_maps(problem, found, subspace_of(problem, found, most=subspace.MOST), errors=False)
    finally:
        setattr(room, name, shipped)
    return float(metrics.rsnr(np.maximum(fit.Z @ fit.S.T, 0.0), case.truth))


def measured(file):
    """{(scene, level, constant, factor): R-SNR}, written to a file as they come."""
    known = {}
    if file.exists():
        for line in file.read_text().splitlines():
            *key, value = json.loads(line)
            known[tuple(key)] = value
    changes = [(None, 1.0), *((name, factor) for name, (_, _, factors) in CONSTANTS.items() for factor in factors)]
    for constant, factor in changes:
        for scene in (scene for half in HALVES for scene in half):
            for level in LEVELS:
                key = (scene, level, constant, factor)
                if key not in known:
                    known[key] = score(*key)
                    with file.open("a") as lines:
                        lines.write(json.dumps([*key, known[key]]) + "\n")
    return known


def gain(known, half, constant, factor):
    """The mean of what a change gives on a half of the scenes, in dB."""
    cells = [(scene, level) for scene in half for level in LEVELS]
    return mean(known[*cell, constant, factor] - known[*cell, None, 1.0] for cell in cells) if factor != 1.0 else 0.0


def table(known):
    """A line of the table for each constant."""
    for constant, (_, _, factors) in CONSTANTS.items():
        tried = sorted((*factors, 1.0))
        cells = []
        for own, other in (HALVES, HALVES[::-1]):
            chosen = max(tried, key=lambda factor: gain(known, own, constant, factor))
            by_half = (gain(known, half, constant, chosen) for half in (own, other))
            cells += [f"×{chosen:g}", *(f"{value:+.2f}" for value in by_half)]
        alone = (
            f"×{factor:g}: {mean(gain(known, half, constant, factor) for half in HALVES):+.2f}" for factor in factors
        )
        yield f"| {constant} | {', '.join(alone)} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in table(measured(Path(sys.argv[1]))):
        print(line)
