"""Packages that are needed for some formats only, imported when such a file is met."""

import importlib


def needed(module, purpose):
    """An optional module, or one sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(f'{purpose} needs {package}; pip install "fastccpd[io]"', name=package) from None


def rasterio_or_none():
    """rasterio where it is installed: it knows the spellings of coordinate systems."""
    try:
        return importlib.import_module("rasterio")
    except ImportError:
        return None
