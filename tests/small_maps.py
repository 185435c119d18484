"""The quadratic of maps in problems that are small enough for dense matrices."""

import numpy as np
import oracle
from scenery import band_means, blur, observe

from fastccpd import Degradation, Problem
from fastccpd.estimation import map_path
from fastccpd.estimation.map_data import Blur, MapData, WhitenedImage
from fastccpd.estimation.map_system import MapSystem

SHAPE, BANDS, P = (8, 12, 7), 3, 2


def data_of(problem, F, sigma_H, sigma_M):
    """The quadratic of a problem for given spectra and noise."""
    hsi = WhitenedImage(problem.hsi, sigma_H, problem.hsi_valid)
    msi = WhitenedImage(problem.msi, sigma_M, problem.msi_valid)
    return MapData(hsi, msi, Blur(problem.degradation), problem.degradation.PM, F)


def tiny(gaps=False, seed=0, maps=P, shape=SHAPE):
    """(data, dense model, data vector): a problem small enough for one dense matrix, bands of uneven noise."""
    rng = np.random.default_rng(seed)
    operators = blur(shape[0]), blur(shape[1]), band_means(shape[2], BANDS)
    hsi, msi = observe(rng.random(shape), *operators)
    valid = [rng.random(image.shape) > 0.3 if gaps else np.ones(image.shape, bool) for image in (hsi, msi)]
    sigma_H, sigma_M = rng.uniform(0.1, 0.4, shape[2]), rng.uniform(0.1, 0.4, BANDS)
    problem = Problem(hsi, msi, Degradation(*operators), True, *valid)
    data = data_of(problem, rng.standard_normal((shape[2], maps)), sigma_H, sigma_M)
    R = operators[2] @ (sigma_H[:, None] * data.F) / sigma_M[:, None]
    model = oracle.maps_model(*operators[:2], data.F, R, *valid)
    y = np.concatenate([(image / sigma)[has] for image, sigma, has in zip((hsi, msi), (sigma_H, sigma_M), valid)])
    return data, model, y


def begin(data, target=None):
    """A path that begins with nothing."""
    return map_path.MapPath(MapSystem(data), np.zeros_like(data.target), target)
