"""The rivals' known figures as a user gets them: by `fuse`, with its defaults and the seed 0."""

import pytest
from rival_scenes import rivals_scene

from fastccpd import fuse
from fastccpd.imaging import metrics

SALINAS, INDIAN_PINES, CAVE = "salinas-a", "indian-pines", "cave-toy"

FIGURES = [
    ("nssr", SALINAS, None, {"eta1": 1e-4, "eta2": 1e-4}, 43.01, 0.3),
    ("nssr", SALINAS, 5.0, {}, 2.64, 0.3),
    ("nssr", INDIAN_PINES, 5.0, {}, 1.26, 0.3),
    ("nctcp", SALINAS, None, {}, 26.75, 0.5),
    ("nn-btd-mu", SALINAS, 5.0, {"normalise": "l2", "max_iter": 20}, 10.15, 0.5),
    ("nn-btd-mu", INDIAN_PINES, 20.0, {"normalise": "l2"}, 20.66, 0.1),
    ("nnstf", SALINAS, 20.0, {}, 24.58, 0.8),
    ("ltmr", SALINAS, None, {}, 37.05, 0.3),
    ("ltmr", SALINAS, 20.0, {"rank": 3, "eta": 3.0}, 27.31, 0.3),
    ("ltmr", SALINAS, 10.0, {"rank": 2, "eta": 31.0, "mu": 0.031, "clusters": 10, "max_iter": 40}, 22.72, 0.3),
    ("cnmf", SALINAS, None, {}, 40.56, 0.1),
    ("cnmf", INDIAN_PINES, 20.0, {}, 19.60, 0.1),
    ("cnmf", CAVE, None, {}, 31.03, 0.1),
    ("gsa", SALINAS, 40.0, {}, 34.30, 0.01),
    ("gsa", CAVE, None, {}, 32.20, 0.01),
]


@pytest.mark.scenes
@pytest.mark.parametrize(("method", "scene", "snr", "options", "figure", "tolerance"), FIGURES)
def test_fuse_has_the_known_figure_of(data_folder, method, scene, snr, options, figure, tolerance):
    cube, problem = rivals_scene(data_folder, scene, snr)
    result = fuse(problem.hsi, problem.msi, problem.degradation, method=method, rng=0, **options)
    assert metrics.rsnr(result.sri, cube) == pytest.approx(figure, abs=tolerance)
