"""fastccpd: hyperspectral super-resolution by non-negative coupled CP decomposition, on ordinary multicore machines."""

from importlib import import_module as _import_module
from pathlib import Path as _Path

# In a source checkout the kernels live beside this folder; installed, they are the sub-package fastccpd.kernels.
_here = _Path(__file__).resolve().parent
_beside = [_here.parent / "kernels" / "__init__.py", _here.parent / "pyproject.toml"]
if not (_here / "kernels").is_dir() and all(path.is_file() for path in _beside):
    __path__.append(str(_here.parent))

# What is behind a name is imported when it is first asked for: importing the package costs little more than nothing.
_HOMES = {
    "Degradation": "model.degradation",
    "Factors": "model.problem",
    "FusionResult": "model.result",
    "Maps": "model.problem",
    "Problem": "model.problem",
    "Status": "model.result",
    "fuse": "api",
    "fuse_many": "api",
    "memory_needed": "api",
}
_FLOORS = ("adapters", "imaging", "kernels", "methods", "plots", "testing")

__all__ = [*sorted(_HOMES), "imaging", "kernels", "methods", "plots"]


def __getattr__(name):
    if name in _HOMES:
        value = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _FLOORS:
        value = _import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOMES, *_FLOORS})
