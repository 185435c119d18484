"""The one place that asks the machine: memory, cores, versions, the kernel cache and the threading layer."""

import os
import platform
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

NEEDED = ("numpy", "scipy", "numba")

#: The packages of each extra, as they are called when installed.
EXTRAS = {
    "cli": ("rich",),
    "plot": ("matplotlib",),
    "io": ("spectral", "rasterio", "h5py"),
    "metrics": ("scikit-image",),
    "demo": ("tensorly",),
}


def available_memory():
    """Bytes that this process may still allocate, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def core_count():
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def own_version():
    """The version of this package; "source" for a checkout that was never installed."""
    return _version("fastccpd") or "source"


def versions_in_use():
    """{package: version} of what a result depends on."""
    needed = {package: import_module(package).__version__ for package in NEEDED}
    return {"fastccpd": own_version(), "python": platform.python_version()} | needed


def versions():
    """{package: version} of this package, Python, what is needed and the extras; None for what is not installed."""
    packages = (*NEEDED, *(package for packages in EXTRAS.values() for package in packages))
    own = {"fastccpd": own_version(), "python": platform.python_version()}
    return own | {package: _version(package) for package in packages}


def kernel_cache():
    """The folder of the compiled kernels; None where nothing is kept."""
    from .kernels import _jit

    return None if _jit.CACHE_DIRECTORY is None else str(_jit.CACHE_DIRECTORY)


def threading_layer():
    """(threads, layer) of Numba; the layer is None where the JIT is off."""
    import numba

    from .kernels import _jit

    return numba.config.NUMBA_NUM_THREADS, _jit.threading_layer()


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None
