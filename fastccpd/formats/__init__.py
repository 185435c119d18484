"""Files to rasters and back: npy, npz, mat, ENVI and GeoTIFF.

A `Raster` is a cube (rows, columns, bands) with what a file may say of it: wavelengths, widths of the bands, the value
that stands for nothing, bad bands, and where on Earth it lies. `read` and `write` choose the format by the suffix.

Files are data: nothing pickled is loaded, no other file is followed, and what a file declares is checked against its
size and against a limit before the data are read. Axis order is never guessed in silence: ENVI and GeoTIFF declare
theirs; for the others it is (rows, columns, bands) unless `band_axis` says otherwise, and `source["layout"]` tells.
Whatever had to be assumed or left out is a sentence in `source["notes"]`.
"""

from .inspection import sha256
from .raster import Georeference, Header, Raster
from .table import FORMATS, check_target, files_read, files_written, header, lost_by, read, write

__all__ = [
    "FORMATS",
    "Georeference",
    "Header",
    "Raster",
    "check_target",
    "files_read",
    "files_written",
    "header",
    "lost_by",
    "read",
    "sha256",
    "write",
]
