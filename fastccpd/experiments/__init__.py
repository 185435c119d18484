"""The paper's three experiments and one of all scenes: runs as rows of a file, pictures (`figures`) from it alone."""

from .plans import RANKS, SCENE_SNRS, SNRS, bands, rank, scenes, snr
from .rows import medians, read, write_csv
from .systems import SYSTEMS, System

__all__ = [
    "RANKS",
    "SCENE_SNRS",
    "SNRS",
    "SYSTEMS",
    "System",
    "bands",
    "medians",
    "rank",
    "read",
    "scenes",
    "snr",
    "write_csv",
]
