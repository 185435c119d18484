"""How much the constants of the maps matter, and what they give scenes that had no part in their choice.

    python docs/constants.py FILE      # a JSON-lines file: what it has is not computed again

Each constant is multiplied by two factors, on ten scenes at four SNRs, one draw. A half of the scenes, every other one
in alphabetical order, chooses the factor of the highest mean R-SNR for each constant; all that it chose together is
then tried on the other half. Printed are a line for each constant, in dB against the value that is shipped, and the
cross-validated table: each scene with the constants that the half without it chose (docs/auto.md has both).
"""

import json
import sys
from pathlib import Path
from statistics import mean

import numpy as np

from fastccpd import Problem
from fastccpd.estimation import fit_maps, map_path, noise, noise_of, signals, subspace, subspace_of, tv_maps
from fastccpd.imaging import metrics
from fastccpd.testing import simulated

SCENES = (
    "abu-airport-4",
    "abu-urban-1",
    "cave-toy",
    "enmap-potsdam",
    "hydice-urban",
    "indian-pines",
    "moffett",
    "salinas-a",
    "samson",
    "san-diego",
)
HALVES = (SCENES[::2], SCENES[1::2])
LEVELS = (5.0, 20.0, 40.0, None)

# What each is called here: where it stands, and by what it is multiplied.
CONSTANTS = {
    "noise floor": (noise, "FLOOR", (0.5, 2.0)),
    "most maps": (subspace, "MOST", (0.5, 2.0)),
    "variance of what is not explained, at fine pixels": (subspace, "_FINER", (0.5, 2.0)),
    "power of the scaling": (subspace, "_POWER", (0.7, 1.4)),
    "faintest signal": (subspace, "_FAINTEST", (0.5, 2.0)),
    "part of neighbours": (signals, "_NEIGHBOURS", (0.75, 1.25)),
    "knee of the price": (map_path, "KNEE", (0.5, 2.0)),
    "weakest weight": (tv_maps, "WEAKEST", (0.36, 1.67)),  # by one step of the path and a half
    "standard errors of agreement": (noise, "_LIKELY", (0.5, 2.0)),
}


def score(scene, level, changes):
    """(R-SNR, SAM) of the maps with some constants multiplied by factors."""
    case = simulated(scene, level, 0)
    problem = Problem(case.hsi, case.msi, case.degradation)
    shipped = {constant: getattr(*CONSTANTS[constant][:2]) for constant in changes}
    try:
        for constant, factor in changes.items():
            setattr(*CONSTANTS[constant][:2], type(shipped[constant])(factor * shipped[constant]))
        found = noise_of(problem)
        fit = fit_maps(problem, found, subspace_of(problem, found, most=subspace.MOST), errors=False)
    finally:
        for constant, value in shipped.items():
            setattr(*CONSTANTS[constant][:2], value)
    image = np.maximum(fit.Z @ fit.S.T, 0.0)
    return float(metrics.rsnr(image, case.truth)), float(metrics.sam(image, case.truth))


class Scores:
    """Scores of cells and changes, kept in a file as they come."""

    def __init__(self, file):
        self.file, self.known = file, {}
        for line in file.read_text().splitlines() if file.exists() else ():
            key, value = json.loads(line)
            self.known[json.dumps(key)] = value

    def __call__(self, scene, level, changes):
        key = [scene, level, dict(sorted(changes.items()))]
        name = json.dumps(key)
        if name not in self.known:
            self.known[name] = score(scene, level, changes)
            with self.file.open("a") as lines:
                lines.write(json.dumps([key, self.known[name]]) + "\n")
        return self.known[name]

    def gain(self, half, changes):
        """The mean of what changes give on some scenes, in dB."""
        cells = [(scene, level) for scene in half for level in LEVELS]
        return mean(self(*cell, changes)[0] - self(*cell, {})[0] for cell in cells)


def choice(scores, half, constant):
    """The change of a constant that a half of the scenes takes: {} where it is none."""
    tried = ({}, *({constant: factor} for factor in CONSTANTS[constant][2]))
    return max(tried, key=lambda changes: scores.gain(half, changes))


def lines_of_constants(scores):
    for constant, (_, _, factors) in CONSTANTS.items():
        cells = [", ".join(f"×{factor:g}: {scores.gain(SCENES, {constant: factor}):+.2f}" for factor in factors)]
        for own, other in (HALVES, HALVES[::-1]):
            changes = choice(scores, own, constant)
            cells += [f"×{changes.get(constant, 1.0):g}", *(f"{scores.gain(h, changes):+.2f}" for h in (own, other))]
        yield f"| {constant} | {' | '.join(cells)} |"


def lines_of_scenes(scores):
    for own, other in (HALVES, HALVES[::-1]):
        changes = {}
        for constant in CONSTANTS:
            changes |= choice(scores, other, constant)
        yield f"chosen on the other half: {changes}; there {scores.gain(other, changes):+.2f} dB"
        for scene in own:
            found = [(scores(scene, level, changes), scores(scene, level, {})) for level in LEVELS]
            cells = (f"{now[0]:.1f} / {now[1]:.1f} ({now[0] - shipped[0]:+.2f})" for now, shipped in found)
            yield f"| {scene} | {' | '.join(cells)} |"


if __name__ == "__main__":
    scores = Scores(Path(sys.argv[1]))
    for line in (*lines_of_constants(scores), *lines_of_scenes(scores)):
        print(line)
