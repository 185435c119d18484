"""A free separable profile: the taps of a blur along rows and along columns, where no Gaussian is assumed.

With the taps of one direction fixed, what the HSI shows through the response is linear in those of the other:

    H R' ≈ Σ_q t_q X_q,   X_q = the MSI, blurred the other way, at the pixels phase + a·d + q,                      (1)

so the taps follow from non-negative least squares, rows and columns in turn. The MSI's noise is in the regressors:
N σ_M² ‖other taps‖² is taken off the Gramian's diagonal. Second differences of the taps have a small price, in units
of the residual's variance, for neighbouring X_q are nearly the same where a scene is smooth.
"""

import numpy as np

from ..imaging.psf import sampled_rows
from ..kernels.maps import along
from .blur_moments import BlurEvidence
from .blurred import Gaussian
from .map_data import compressed_rows

# Taps reach so many standard deviations of the Gaussian; rows and columns take turns so often.
_REACH, _TURNS = 3.0, 3

# The prior deviation of a tap's second difference, as a part of the largest tap.
_ROUGHNESS = 0.1


def free_profile(evidence: BlurEvidence, gaussian: Gaussian, response: np.ndarray | None) -> tuple:
    """((taps, first pixel) of rows, (taps, first pixel) of columns), each summing to one.

    Parameters
    ----------
    evidence : BlurEvidence
    gaussian : Gaussian
        Where to begin.
    response : (MSI bands, bands) array or None
        None: what regression on the HSI under `gaussian` gives.
    """
    target, weights = _target(evidence, gaussian, response)
    sides = []
    for sigma, phase in zip(gaussian.sigma, gaussian.phase, strict=True):
        first = int(np.ceil(phase - max(_REACH * sigma, 1.0)))
        places = np.arange(first, int(np.floor(phase + max(_REACH * sigma, 1.0))) + 1)
        taps = np.exp(-0.5 * ((places - phase) / sigma) ** 2)
        sides.append([taps / taps.sum(), first])
    for _ in range(_TURNS):
        for axis in (0, 1):
            sides[axis][0] = _taps(evidence, target, weights, sides, axis)
    (rows, down), (columns, right) = sides
    return (rows, down), (columns, right)


def _target(evidence, gaussian, response):
    """What the HSI shows through the response, scaled to the MSI band by band; and the bands' weights."""
    seen = evidence.seen(gaussian)[0][evidence.chosen][:, evidence.msi_bands]
    H = evidence.pixels - evidence.pixels.mean(axis=0)
    B = seen - seen.mean(axis=0)
    if response is None:
        U = np.linalg.svd(H, full_matrices=False)[0][:, : max(B.shape[1], 8)]
        shown = U @ (U.T @ B)
    else:
        shown = H @ response[np.ix_(evidence.msi_bands, evidence.hsi_bands)].T
        shown *= (shown * B).sum(axis=0) / np.maximum((shown**2).sum(axis=0), np.finfo(float).tiny)
    return shown + seen.mean(axis=0), 1.0 / np.maximum(((shown - B) ** 2).mean(axis=0), np.finfo(float).tiny)


def _taps(evidence, target, weights, sides, axis):
    """The taps of one direction by (1)."""
    from scipy.optimize import nnls

    msi, ratio, places = evidence.msi, evidence.ratio, evidence.places
    sizes = msi.shape[:2]

    def sampled(taps, first, side):
        count = int(places[side].max()) + 1
        return compressed_rows(sampled_rows(taps, first, ratio, count, sizes[side], "reflect")[places[side]])

    (other, other_first), (taps, first) = sides[1 - axis], sides[axis]
    across = along(sampled(other, other_first, 1 - axis), msi, axis=1 - axis)
    columns = [along(sampled(np.ones(1), first + q, axis), across, axis=axis) for q in range(len(taps))]
    X = np.array([column[evidence.chosen][:, evidence.msi_bands] for column in columns])
    gram = np.einsum("qnm,pnm,m->qp", X, X, weights, optimize=True)
    noise = float(weights @ evidence.sigma_msi[evidence.msi_bands] ** 2) * len(target) * float(other @ other)
    rhs = np.einsum("qnm,nm,m->q", X, target, weights, optimize=True)
    D = np.diff(np.eye(len(taps)), 2, axis=0)
    gram += D.T @ D * (weights.size / (_ROUGHNESS * taps.max()) ** 2)
    gram -= 0.9 * min(noise, np.linalg.eigvalsh(gram)[0]) * np.eye(len(taps))
    root = np.linalg.cholesky(gram + 1e-12 * np.trace(gram) * np.eye(len(taps))).T
    found = nnls(root, np.linalg.solve(root.T, rhs), maxiter=50 * len(taps))[0]
    return found / found.sum() if found.sum() > 0.0 else taps
