"""Pairs of images of any size, made without their scene: a scene of 1024 x 1024 x 200 takes 1.7 GB, its pair 0.2."""

import itertools

import numpy as np

from fastccpd import kernels
from fastccpd.imaging import add_noise, preset, response_from_groups

# (rows, columns, bands, multispectral bands, rank): HSI 256x256x200, MSI 1024x1024x8.
LARGE = (1024, 1024, 200, 8, 64)


def smooth_pair(size, snr=30.0, seed=0):
    """(hsi, msi, degradation) of a scene with smooth random factors; of the size of one, so that no scaling is due."""
    rows, columns, bands, few, rank = size
    degradation = preset("stereo", (rows, columns, bands), response_from_groups(_runs(bands, few), bands))
    rng = np.random.default_rng(seed)
    A, B, C = (_smooth(rng, n, rank) for n in (rows, columns, bands))
    C /= rank
    seen = [degradation.P1 @ A, degradation.P2 @ B, C], [A, B, degradation.PM @ C]
    return *(add_noise(kernels.reconstruct(factors), snr, rng) for factors in seen), degradation


def start_of(shape, rank, seed=0):
    """A random positive start whose image has about the size of one."""
    return np.random.default_rng(seed).uniform(0.3, 1.0, (sum(shape), rank)) * rank ** (-1 / 6)


def _smooth(rng, length, rank):
    """Sums of three slow waves, squared: nowhere negative, a few bumps a column."""
    at = np.linspace(0.0, 1.0, length)[:, None, None]
    waves = np.sin(2.0 * np.pi * (rng.uniform(0.3, 4.0, (rank, 3)) * at + rng.random((rank, 3))))
    return np.square(waves.sum(axis=2)) + 0.05


def _runs(bands, few):
    edges = np.linspace(0, bands, few + 1).astype(int)
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]
