"""Problems for the methods of similar patches: noisy ones, in which no two patches are equally far; any operators."""

import numpy as np
from scenery import observe, small_case

from fastccpd import Degradation, Problem


def noisy_problem(shape=(16, 20, 9), bands=4, noise=0.1, dtype=np.float64):
    _, hsi, msi, degradation = small_case(shape, bands, 3, noise=noise)
    return Problem(hsi.astype(dtype), msi.astype(dtype), degradation)


def general_problem(shape=(13, 9, 7), bands=4):
    """Operators without a ratio, a boundary or a blur: random, dense; the MSI's bands in the order of what they see."""
    rng = np.random.default_rng(5)
    P1, P2, PM = rng.random((5, shape[0])), rng.random((4, shape[1])), rng.random((bands, shape[2]))
    P1, P2, PM = (P / P.sum(axis=1, keepdims=True) for P in (P1, P2, PM))
    PM = PM[np.argsort(PM @ np.arange(shape[2]))]
    hsi, msi = observe(rng.random(shape), P1, P2, PM)
    return Problem(hsi, msi, Degradation(P1, P2, PM))


def misfit(problem, image):
    """½‖hsi − degraded‖² + ½‖msi − degraded‖²."""
    P1, P2, PM = (getattr(problem.degradation, name).toarray() for name in ("P1", "P2", "PM"))
    hsi, msi = observe(image, P1, P2, PM)
    return 0.5 * np.sum((hsi - problem.hsi) ** 2) + 0.5 * np.sum((msi - problem.msi) ** 2)
