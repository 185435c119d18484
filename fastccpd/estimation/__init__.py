"""The physics backwards, from the two images alone: their noise, the shift between them, the maps of the scene."""

from .fit import estimated_snr, relative_residual, snr_db
from .noise import estimate_noise
from .shift import Shift, shift_by_images

__all__ = ["Shift", "estimate_noise", "estimated_snr", "relative_residual", "shift_by_images", "snr_db"]
