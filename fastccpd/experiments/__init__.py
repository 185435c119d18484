"""The paper's three experiments: runs as independent rows of a file, pictures (`figures`) from the file alone."""

from .plans import RANKS, SNRS, bands, rank, snr
from .rows import medians, read, write_csv
from .systems import SYSTEMS, System

__all__ = ["RANKS", "SNRS", "SYSTEMS", "System", "bands", "medians", "rank", "read", "snr", "write_csv"]
