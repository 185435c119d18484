"""The physics backwards, from the two images alone: noise, blur, shift, response, subspace, maps; how well all fits."""

from .blur import BlurEstimate, estimate_blur
from .decomposition import Choice, Decomposition, Fitting, MapDecomposer, decompose_maps, decompose_scene
from .degradation import DegradationEstimate, estimate_degradation
from .fit import estimated_snr, relative_residual, shown_cost, snr_db
from .image_risk import ImageRisk, image_risk
from .levels import Levels, estimate_levels
from .map_fit import MapFit
from .mend import Mend, mend_of
from .noise import Noise, estimate_noise, noise_from, noise_of
from .rank_path import RankPath, fit_rank_path, ranks_for
from .response import ResponseEstimate, estimate_response
from .shared import Gramians, PathRisks, Shared, gramians_of, path_risks_of, shared_from, spectra_of_scene
from .shift import Shift, shift_by_images
from .signal_basis import signal_basis
from .statistics import Statistics, statistics_of
from .subspace import Subspace, subspace_from, subspace_of
from .tv_maps import fit_maps
from .verdict import verdict_of

__all__ = [
    "BlurEstimate",
    "Choice",
    "Decomposition",
    "DegradationEstimate",
    "Fitting",
    "Gramians",
    "ImageRisk",
    "Levels",
    "MapDecomposer",
    "MapFit",
    "Mend",
    "Noise",
    "PathRisks",
    "RankPath",
    "ResponseEstimate",
    "Shared",
    "Shift",
    "Statistics",
    "Subspace",
    "decompose_maps",
    "decompose_scene",
    "estimate_blur",
    "estimate_degradation",
    "estimate_levels",
    "estimate_noise",
    "estimate_response",
    "estimated_snr",
    "fit_maps",
    "fit_rank_path",
    "gramians_of",
    "image_risk",
    "mend_of",
    "noise_from",
    "noise_of",
    "path_risks_of",
    "ranks_for",
    "relative_residual",
    "shared_from",
    "shift_by_images",
    "shown_cost",
    "signal_basis",
    "snr_db",
    "spectra_of_scene",
    "statistics_of",
    "subspace_from",
    "subspace_of",
    "verdict_of",
]
