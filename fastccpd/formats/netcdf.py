"""NetCDF: version 4, which is HDF5, by h5netcdf; the classic form is read by scipy.

By the conventions of `cf`. Attributes and coordinates are read; the cube only where it is asked for.
"""

from .cf import Named, open_variables, variables_of
from .extras import needed
from .hdf5 import check_chunks, check_closed
from .inspection import beginning, reading
from .raster import REAL_DTYPES

DTYPES = REAL_DTYPES - {"float16"}

_KIND = "a NetCDF file"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_CLASSIC = (b"CDF\x01", b"CDF\x02")

# An attribute longer than this is none that is needed.
_LONGEST_ATTRIBUTE = 1 << 20


def open_netcdf(path, band_axis, variable):
    """The cube of a NetCDF file."""
    head, _ = beginning(path)
    if head.startswith(_CLASSIC):
        variables, attributes = _classic(path)
    elif head.startswith(_HDF5):
        variables, attributes = _version_4(path)
    else:
        raise ValueError(f"{path}: is not {_KIND}; by its first bytes it is neither version 3 nor 4")
    return open_variables(path, variables, band_axis, variable, attributes, "as its dimensions are called")


def write_netcdf(temporaries, raster):
    """Version 4, chunks of one band, deflated."""
    h5netcdf = needed("h5netcdf", "writing NetCDF")
    rows, columns, bands = raster.shape
    with _Disk(temporaries[0]) as disk, h5netcdf.File(disk, "w") as file:
        file.dimensions = {"band": bands, "y": rows, "x": columns}
        file.attrs["Conventions"] = "CF-1.8"
        for key, value in (raster.tags or {}).items():
            file.attrs[key] = value
        for name, found in variables_of(raster).items():
            about = dict(found.attributes)
            fill = about.pop("_FillValue", None)
            chunks = (1, min(rows, 256), min(columns, 256)) if len(found.shape) == 3 else None
            packed = {} if chunks is None else {"chunks": chunks, "compression": "gzip", "compression_opts": 4}
            made = file.create_variable(name, found.dims, found.dtype, fillvalue=fill, **packed)
            for key, value in about.items():
                made.attrs[key] = value
            if found.shape:
                for index in range(found.shape[0]) if len(found.shape) == 3 else [...]:
                    made[index] = found.values[index]
                    disk.check()
            else:
                made[...] = found.values


class _Disk:
    """A new file for HDF5 to write to: an error of the disk is kept until it is asked for, or the file is closed.

    HDF5 itself does not survive one: after a failed write, closing the file may end the process.
    """

    def __init__(self, path):
        self._file, self._error = open(path, "xb+", buffering=0), None  # noqa: SIM115 - closed by `__exit__`
        self.read, self.readinto, self.seek, self.tell = (
            getattr(self._file, name) for name in ("read", "readinto", "seek", "tell")
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()
        self.check()

    def check(self):
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error

    def write(self, data):
        left = memoryview(data).cast("B")
        self._kept(self._write, left)
        return len(left)

    def truncate(self, size):
        self._kept(self._file.truncate, size)
        return size

    def flush(self):
        """Nothing waits here."""

    def _write(self, left):
        while left:
            left = left[self._file.write(left) :]

    def _kept(self, call, *arguments):
        try:
            call(*arguments)
        except OSError as error:
            self._error = self._error or error


def _version_4(path):
    check_closed(path, _KIND)
    h5netcdf = needed("h5netcdf", f"{path}: {_KIND}")
    with reading(path, _KIND), h5netcdf.File(path, "r") as file:
        variables = {name: _named(path, name, found) for name, found in file.variables.items()}
        return variables, _attributes(file.attrs)


def _named(path, name, found):
    def read(slices):
        h5netcdf = needed("h5netcdf", f"{path}: {_KIND}")
        h5py = needed("h5py", f"{path}: {_KIND}")
        with reading(path, _KIND), h5py.File(path, "r") as file:
            check_chunks(file[name], slices, name)
        with reading(path, _KIND), h5netcdf.File(path, "r") as file:
            return file.variables[name][slices]

    return Named(tuple(found.dimensions), tuple(found.shape), found.dtype, _attributes(found.attrs), read)


def _classic(path):
    from scipy.io import netcdf_file

    def read_of(name):
        def read(slices):
            with reading(path, _KIND), netcdf_file(path, "r", mmap=False) as file:
                return file.variables[name][slices].copy()

        return read

    with reading(path, _KIND), netcdf_file(path, "r", mmap=False) as file:
        variables = {
            name: Named(
                found.dimensions, tuple(found.shape), found.data.dtype, _attributes(found._attributes), read_of(name)
            )
            for name, found in file.variables.items()
        }
        return variables, _attributes(file._attributes)


def _attributes(found):
    """Attributes of moderate length, texts as str."""
    known = {}
    for name in found:
        value = found[name]
        value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if getattr(value, "nbytes", len(value) if isinstance(value, str) else 0) <= _LONGEST_ATTRIBUTE:
            known[name] = value
    return known
