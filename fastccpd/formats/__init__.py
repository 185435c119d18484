"""Files to rasters and back: npy, npz, mat, ENVI and GeoTIFF.

A `Raster` is a cube (rows, columns, bands) with what a file may say of it: wavelengths, widths of the bands, the value
that stands for nothing, bad bands, and where on Earth it lies. `read` and `write` choose the format by the suffix.
`read_arrays` gives the arrays of an npy, npz or MAT file by name, for whatever is no cube. These are the package's only
readers of files of arrays.

Files are data: nothing pickled is loaded, no other file is followed, and what a file declares is checked against its
size and against a limit before the data are read. Axis order is never guessed in silence: ENVI and GeoTIFF declare
theirs; for the others it is (rows, columns, bands) unless `band_axis` says otherwise, and `source["layout"]` says
which. Whatever had to be assumed or left out is a sentence in `source["notes"]`.
"""

from .arrays import ARRAY_SUFFIXES, arrays_in, read_arrays
from .inspection import check_text, sha256
from .raster import Georeference, Header, Raster
from .table import FORMATS, check_target, files_read, files_written, header, lost_by, read, write

__all__ = [
    "ARRAY_SUFFIXES",
    "FORMATS",
    "Georeference",
    "Header",
    "Raster",
    "arrays_in",
    "check_target",
    "check_text",
    "files_read",
    "files_written",
    "header",
    "lost_by",
    "read",
    "read_arrays",
    "sha256",
    "write",
]
