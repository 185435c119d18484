"""What the parts of one scene share: noise, spectra and their number, the weight λ.

Each is found from sums over the whole scene, not over a part: the moments that noise and subspace are found from
(`statistics.py`); the Gramians of coarse maps that the spectra are freed of their noise with (`spectra_from`); and
Stein's risk, whose misfit and degrees of freedom are sums over pixels too. The moments are gathered from every pixel,
and so are the Gramians: from a fifth of a scene of 1024² they cost 0.1 dB. The risk takes a path of fits, so it is
gathered from windows of the scene, fitted each for itself.

A window's path of λ ends one step after its own least risk, and begins where its maps are not too smooth, which is not
the same λ for all of them. For what lies beyond, the last step of the risk, and the first, are taken to go on: such a
window does not want a weaker λ, or a stronger one, and says by how much.
"""

from dataclasses import dataclass

import numpy as np

from ..model.problem import Problem
from ..model.types import Array, Operator
from .map_data import Blur
from .map_path import weight_of_least_risk
from .moments import complete, pixels_of
from .noise import Noise, noise_from
from .statistics import Statistics
from .subspace import Subspace, known_noise, scaled, spectra_from, subspace_from
from .sums import Sums
from .tv_maps import fit_maps, rough_maps


@dataclass(frozen=True, eq=False)
class Shared:
    """What every part of a scene is fused with.

    Attributes
    ----------
    noise : Noise
        Of the whole scene.
    subspace : Subspace
        Of the whole scene.
    spectra : (bands, P) array
        F of all maps, in units of the noise.
    weight : float
        λ.
    errors : bool
        Whether expected errors are asked for.
    """

    noise: Noise
    subspace: Subspace
    spectra: np.ndarray
    weight: float
    errors: bool = False


@dataclass(frozen=True, eq=False)
class Gramians(Sums):
    """What a part of a scene says of its spectra.

    Attributes
    ----------
    gram : (P, P) array
        B'B of the coarse maps B.
    cross : (bands, P) array
        X'B, X the HSI's pixels divided by their noise.
    """

    gram: np.ndarray
    cross: np.ndarray


@dataclass(frozen=True, eq=False)
class PathRisks:
    """What a window of a scene says of the weight; those of two windows add up.

    Attributes
    ----------
    weights : (n,) array
        λ of a path, from the strongest on.
    risks : (n,) array
        The estimated risk at each but for a constant, summed over windows.
    """

    weights: np.ndarray
    risks: np.ndarray

    def __add__(self, other: "PathRisks") -> "PathRisks":
        weights = np.unique(np.concatenate([self.weights, other.weights]))[::-1]
        return PathRisks(weights, self._continued(weights) + other._continued(weights))

    @property
    def best(self) -> float:
        """The λ of least risk, between those of the path."""
        return weight_of_least_risk(self.weights, self.risks)

    def _continued(self, weights):
        """The risks at a longer path's weights, by straight lines in log λ; a path of one λ says no more."""
        here, there = -np.log(self.weights), -np.log(weights)
        found = np.interp(there, here, self.risks)
        if len(here) > 1:
            steps = np.diff(self.risks) / np.diff(here)
            found += max(-steps[0], 0.0) * np.maximum(here[0] - there, 0.0)
            found += max(steps[-1], 0.0) * np.maximum(there - here[-1], 0.0)
        return found


def gramians_of(problem: Problem, noise: Noise, subspace: Subspace) -> Gramians:
    """What one part of a scene says of the spectra, by rough maps with the noise and the subspace of the whole.

    Parameters
    ----------
    problem : Problem
        The part.
    noise : Noise
        Of the whole scene.
    subspace : Subspace
        Of the whole scene.

    Returns
    -------
    Gramians
        Those of all parts, added, are for `spectra_of_scene`.
    """
    chosen, fill = complete(problem.hsi, problem.hsi_valid, fewest=0.0)
    coarse = Blur(problem.degradation).coarse(rough_maps(problem, noise, subspace))
    coarse, pixels = pixels_of(coarse, chosen), pixels_of(problem.hsi, chosen, fill) / subspace.hsi
    return Gramians(coarse.T @ coarse, pixels.T @ coarse)


def spectra_of_scene(statistics: Statistics, gramians: Gramians, noise: Noise, subspace: Subspace) -> Array:
    """F of all maps of a scene, in units of the noise.

    Parameters
    ----------
    statistics : Statistics
        Summed over the scene.
    gramians : Gramians
        Summed over the scene too.
    noise : Noise
        Of `noise_from(statistics)`.
    subspace : Subspace
        Of `subspace_from(PM, noise)`.

    Returns
    -------
    (bands, P) array
    """
    known = np.diag(statistics.moments.second) > 0.0
    spectra = spectra_from(gramians.gram, gramians.cross, known)
    return scaled(spectra, noise.differences.divided(subspace.hsi))


def path_risks_of(problem: Problem, noise: Noise, subspace: Subspace, spectra: Array) -> PathRisks:
    """What one window says of the weight, fitted with what is known of the whole scene.

    Parameters
    ----------
    problem : Problem
        The window.
    noise : Noise
        Of the whole scene.
    subspace : Subspace
        Of the whole scene.
    spectra : (bands, P) array
        Of `spectra_of_scene`.

    Returns
    -------
    PathRisks
        Those of all windows, added, are for `shared_from`.
    """
    fit = fit_maps(problem, noise, subspace, spectra=spectra, errors=False)
    weights, chi2, dof, _ = np.array(fit.path, dtype=np.float64).T
    return PathRisks(weights, chi2 + 2.0 * known_noise(problem, noise, subspace) * dof)


def shared_from(
    statistics: Statistics, gramians: Gramians, risks: PathRisks, PM: Operator, *, errors: bool = False
) -> Shared:
    """What the parts of a scene share, by sums over it.

    Parameters
    ----------
    statistics, gramians, risks : Statistics, Gramians, PathRisks
        Each summed over the scene.
    PM : matrix
        The spectral response.
    errors : bool
        Whether the parts shall have expected errors.

    Returns
    -------
    Shared
    """
    noise = noise_from(statistics)
    subspace = subspace_from(PM, noise)
    return Shared(noise, subspace, spectra_of_scene(statistics, gramians, noise, subspace), risks.best, errors)
