"""Georeferenced pairs made ready for fusion: grids, gaps, operators; and files in and out (`fastccpd.formats`)."""

from ..formats import FORMATS, Georeference, Header, Raster, check_target, header, lost_by, read, sha256, write
from .fusing import FusedFiles, fuse_files
from .grids import Grids, grids_of, shift_by_georeference
from .images import Image
from .placement import Place, Placement, placement
from .preparation import OpenPair, Preparation, open_pair
from .tiling import TiledFiles, fuse_files_in_tiles

__all__ = [
    "FORMATS",
    "FusedFiles",
    "Georeference",
    "Grids",
    "Header",
    "Image",
    "OpenPair",
    "Place",
    "Placement",
    "Preparation",
    "Raster",
    "TiledFiles",
    "check_target",
    "fuse_files",
    "fuse_files_in_tiles",
    "grids_of",
    "header",
    "lost_by",
    "open_pair",
    "placement",
    "read",
    "sha256",
    "shift_by_georeference",
    "write",
]
