"""Packages that are needed for some files only, imported when such a file is met."""

import importlib

# The extra of packages that are not in `io`.
_EXTRAS = {"h5netcdf": "netcdf", "zarr": "zarr", "xarray": "xarray", "rioxarray": "xarray", "pyrsr": "srf"}


def needed(module, purpose):
    """An optional module, or one sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        extra = _EXTRAS.get(package, "io")
        raise ModuleNotFoundError(f'{purpose} needs {package}; pip install "fastccpd[{extra}]"', name=package) from None


def rasterio_or_none():
    """rasterio where it is installed: it knows the spellings of coordinate systems."""
    try:
        return importlib.import_module("rasterio")
    except ImportError:
        return None
