"""The physics backwards, from the two images alone: noise, subspace, maps, decomposition, shift; how well all fits."""

from .decomposition import Choice, Decomposition, Fitting, MapDecomposer, decompose_maps, decompose_scene
from .fit import estimated_snr, relative_residual, shown_cost, snr_db
from .noise import Noise, estimate_noise, noise_of
from .shift import Shift, shift_by_images
from .subspace import Subspace, subspace_of
from .tv_maps import MapFit, fit_maps

__all__ = [
    "Choice",
    "Decomposition",
    "Fitting",
    "MapDecomposer",
    "MapFit",
    "Noise",
    "Shift",
    "Subspace",
    "decompose_maps",
    "decompose_scene",
    "estimate_noise",
    "estimated_snr",
    "fit_maps",
    "noise_of",
    "relative_residual",
    "shift_by_images",
    "shown_cost",
    "snr_db",
    "subspace_of",
]
