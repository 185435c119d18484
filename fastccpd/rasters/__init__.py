"""Georeferenced pairs made ready for fusion: grids, gaps, operators; and files in and out (`fastccpd.formats`)."""

from ..formats import FORMATS, Georeference, Header, Raster, check_target, header, lost_by, read, sha256, write
from .fusing import FusedFiles, fuse_files
from .grids import Grids, grids_of, shift_by_georeference

__all__ = [
    "FORMATS",
    "FusedFiles",
    "Georeference",
    "Grids",
    "Header",
    "Raster",
    "check_target",
    "fuse_files",
    "grids_of",
    "header",
    "lost_by",
    "read",
    "sha256",
    "shift_by_georeference",
    "write",
]
