"""Scenes of any size: cut into tiles, fused with what they share, and joined; on this machine or on a dask cluster."""

from .memory import choose_plan, memory_limit
from .mosaic import FusedTiles
from .plan import DEFAULT_TILE, LADDER, Plan, Span, make_plan
from .preview import Preview, preview_of
from .run import TileProgress, fuse_tiles
from .sources import IndexedSource, MappedSource, Source, as_source

__all__ = [
    "DEFAULT_TILE",
    "LADDER",
    "FusedTiles",
    "IndexedSource",
    "MappedSource",
    "Plan",
    "Preview",
    "Source",
    "Span",
    "TileProgress",
    "as_source",
    "choose_plan",
    "fuse_tiles",
    "make_plan",
    "memory_limit",
    "preview_of",
]
