"""What is installed: the package itself, what it needs, and the packages of its extras."""

import platform
from importlib.metadata import PackageNotFoundError, version

NEEDED = ("numpy", "scipy", "numba")

#: The packages of each extra, as they are called when installed.
EXTRAS = {
    "cli": ("rich",), "plot": ("matplotlib",), "io": ("spectral", "rasterio", "h5py"), "metrics": ("scikit-image",),
    "demo": ("tensorly",),
}  # fmt: skip


def own_version():
    """The version of this package; "source" for a checkout that was never installed."""
    return _version("fastccpd") or "source"


def versions():
    """{package: version}; None for what is not installed."""
    packages = (*NEEDED, *(package for packages in EXTRAS.values() for package in packages))
    own = {"fastccpd": own_version(), "python": platform.python_version()}
    return own | {package: _version(package) for package in packages}


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None
