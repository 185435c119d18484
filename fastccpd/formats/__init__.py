"""Files to rasters and back: npy, npz, mat, ENVI, GeoTIFF, NetCDF and Zarr; and products of sensors, which are read.

A `Raster` is a cube (rows, columns, bands) with what a file may say of it: wavelengths, widths of the bands, the value
that stands for nothing, bad bands, and where on Earth it lies. `read` and `write` choose the format by the suffix.
`read_arrays` gives the arrays of an npy, npz or MAT file by name, for whatever is no cube. These are the package's only
readers of files of arrays.

Files are data: nothing pickled is loaded, no other file is followed (but from a virtual raster to its images), and what
a file declares is checked against its size and against a limit before the data are read. Axis order is never guessed in
silence: ENVI, GeoTIFF and products declare theirs, NetCDF and Zarr name them; for the others it is (rows, columns,
bands) unless `band_axis` says otherwise, and `source["layout"]` says which. Whatever had to be assumed or left out is a
sentence in `source["notes"]`.
"""

from .arrays import ARRAY_SUFFIXES, arrays_in, read_arrays
from .hashes import hashes_of
from .inspection import check_text, sha256
from .raster import Georeference, Header, Raster
from .streams import STREAMED, Stream, check_streamed, placeholder, stream
from .table import FORMATS, check_target, files_read, files_written, header, lost_by, read, windows, write
from .windows import Windows

__all__ = [
    "ARRAY_SUFFIXES",
    "FORMATS",
    "STREAMED",
    "Georeference",
    "Header",
    "Raster",
    "Stream",
    "Windows",
    "arrays_in",
    "check_streamed",
    "check_target",
    "check_text",
    "files_read",
    "files_written",
    "hashes_of",
    "header",
    "lost_by",
    "placeholder",
    "read",
    "read_arrays",
    "sha256",
    "stream",
    "windows",
    "write",
]
