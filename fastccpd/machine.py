"""The one place that asks the machine: memory, cores, versions, the kernel cache and the threading layer."""

import ctypes
import os
import platform
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NEEDED = ("numpy", "scipy", "numba")

#: The packages of each extra, as they are called when installed.
EXTRAS = {
    "cli": ("rich",),
    "plot": ("matplotlib",),
    "io": ("spectral", "rasterio", "h5py"),
    "netcdf": ("h5netcdf",),
    "zarr": ("zarr",),
    "xarray": ("xarray", "rioxarray"),
    "metrics": ("scikit-image",),
    "scale": ("dask", "distributed", "zarr", "xarray"),
    "srf": ("pyrsr",),
    "demo": ("tensorly",),
}


def available_memory(root="/"):
    """Bytes that this process may still allocate, or None where the system does not say.

    The least of what the machine has left, what the control groups of this process (v2 or v1) leave it, and what its
    limit of the address space does. `root` is the folder in which proc and sys are.
    """
    root = Path(root)
    found = [_free_memory(root), *_left_by_groups(root), _left_of_address_space(root)]
    return min((size for size in found if size is not None), default=None)


def _free_memory(root):
    available = _field(root / "proc/meminfo", "MemAvailable:")
    if available is not None:
        return available * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _left_by_groups(root):
    """What each control group of this process leaves, and each that it is in."""
    groups = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            top, limit, used, cache = groups, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit = groups / "memory", "memory.limit_in_bytes"
            used, cache = "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        names = [name for name in path.split("/") if name not in ("", "..")]
        for depth in range(len(names) + 1):
            group = top.joinpath(*names[:depth])
            most, now = _number(group / limit), _number(group / used)
            if most is not None and now is not None:
                # Pages of files count as used, and are given up first.
                yield max(0, most - now + (_field(group / "memory.stat", cache) or 0))


def _left_of_address_space(root):
    try:
        import resource
    except ImportError:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(root / "proc/self/statm").split()
    if most == resource.RLIM_INFINITY or not pages:
        return None
    return max(0, most - int(pages[0]) * resource.getpagesize())


def _text(file):
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _number(file):
    """The one number in a file; None if there is none."""
    text = _text(file).strip()
    return int(text) if text.isdecimal() else None


def _field(file, name):
    """The number after `name` in a file of such lines; None if there is none."""
    lines = (line.split() for line in _text(file).splitlines())
    return next((int(words[1]) for words in lines if words[:1] == [name] and words[1:2][0].isdecimal()), None)


def core_count():
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def processor():
    """The name of the processor, as far as the system tells."""
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def description():
    """{"processor", "cores", "system"}: what a time depends on."""
    return {"processor": processor(), "cores": core_count(), "system": f"{platform.system()} {platform.machine()}"}


def memory_meter():
    """A function that gives the bytes by which this process has grown at most since this call.

    What it gives is None where the system does not count peaks anew: anywhere but on Linux. The C library keeps what
    is freed for the next who asks, and whoever is given that does not grow: it is handed back to the system first.
    """
    status = Path("/proc/self/status")
    hand_back_freed_memory()
    before = _field(status, "VmRSS:")
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    except OSError:
        before = None

    def grown():
        most = _field(status, "VmHWM:")
        return None if before is None or most is None else max(0, most - before) * 1024

    return grown


def hand_back_freed_memory():
    """Give the system what this process has freed and the C library keeps, where that can be asked for."""
    with suppress(AttributeError, OSError, TypeError):  # where it is not the GNU C library, which has this
        ctypes.CDLL(None).malloc_trim(0)


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
    from .kernels import jit

    return None if jit.CACHE_DIRECTORY is None else str(jit.CACHE_DIRECTORY)


def threading_layer():
    """(threads, layer) of Numba; the layer is None where the JIT is off."""
    import numba

    from .kernels import jit

    return numba.config.NUMBA_NUM_THREADS, jit.threading_layer()


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None
