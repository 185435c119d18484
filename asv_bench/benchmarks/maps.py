"""The maps of the default method: the whole stage, and one step of its conjugate gradients. Run by asv.

Everything runs on synthetic scenes. How it grows with threads is in asv's environments (NUMBA_NUM_THREADS).
"""

import itertools

import numpy as np

from fastccpd import Problem
from fastccpd.estimation import fit_maps, noise_of, subspace_of
from fastccpd.estimation.map_data import Blur, MapData, WhitenedImage
from fastccpd.estimation.map_system import MapSystem
from fastccpd.imaging import add_noise, degrade, preset, response_from_groups, scenes

FEW = 8

# Steps of one solution, whatever the tolerance.
_STEPS = 5


def problem_of(shape, snr=20.0, dtype=np.float64):
    """A `Problem` of a synthetic scene and an MSI of eight bands."""
    degradation, rng = _degradation(shape), np.random.default_rng(0)
    clean = degrade(scenes.synthetic(shape, rng=0).cube, degradation)
    return Problem(*(add_noise(image, snr, rng).astype(dtype) for image in clean), degradation)


def system_of(pixels, maps, bands=40):
    """(system, maps of zeros) on pixels × pixels, random images of `bands` bands and as many maps as are asked for."""
    rng, shape = np.random.default_rng(0), (pixels, pixels, bands)
    degradation = _degradation(shape)
    coarse = degradation.P1.shape[0], degradation.P2.shape[0], bands
    images = [WhitenedImage(rng.random(size), np.full(size[2], 0.1), None) for size in (coarse, (*shape[:2], FEW))]
    data = MapData(*images, Blur(degradation), degradation.PM, rng.standard_normal((bands, maps)))
    system = MapSystem(data)
    system.weigh_all(50.0)
    return system, data.layout.zeros()


def _degradation(shape):
    edges = np.linspace(0, shape[2], FEW + 1).astype(int)
    groups = [slice(*ends) for ends in itertools.pairwise(edges)]
    return preset("stereo", shape, response_from_groups(groups, shape[2]))


def steps_of(system, Z, steps=_STEPS):
    """A residual and so many steps from it."""
    _, ry = system.residual(Z, system.data.target)
    system.solve(Z, ry, steps, 0.0)


class Stage:
    """`fit_maps` as it is called by the default, noise and subspace known."""

    params = (["144x144x200", "512x512x100"],)
    param_names = ("scene",)
    timeout = 600

    def setup(self, scene):
        self.problem = problem_of(tuple(map(int, scene.split("x"))))
        self.noise = noise_of(self.problem)
        self.subspace = subspace_of(self.problem, self.noise)
        self.fit = fit_maps(self.problem, self.noise, self.subspace)

    def time_fit_maps(self, scene):
        fit_maps(self.problem, self.noise, self.subspace)

    def peakmem_fit_maps(self, scene):
        fit_maps(self.problem, self.noise, self.subspace)

    def track_maps(self, scene):
        return self.fit.number

    def track_products(self, scene):
        return int(np.sum(self.fit.trace.cg_iterations))


class Steps:
    """A residual and five steps of conjugate gradients, as pixels and maps grow."""

    params = ([256, 512, 1024], [6, 12, 24])
    param_names = ("pixels", "maps")
    timeout = 300

    def setup(self, pixels, maps):
        self.system, self.Z = system_of(pixels, maps)
        steps_of(self.system, self.Z)

    def time_steps(self, pixels, maps):
        steps_of(self.system, self.Z)
