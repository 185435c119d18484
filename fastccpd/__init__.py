"""fastccpd: hyperspectral super-resolution by non-negative coupled CP decomposition, on ordinary multicore machines."""

import sys as _sys
from importlib import import_module as _import_module
from importlib.util import spec_from_file_location as _spec_from_file_location
from pathlib import Path as _Path


class _KernelsBeside:
    """Finds fastccpd.kernels, and nothing else, in the folder beside this one: in a checkout the kernels live there."""

    folder = _Path(__file__).resolve().parents[1] / "kernels"

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == f"{__name__}.kernels":
            return _spec_from_file_location(
                name, cls.folder / "__init__.py", submodule_search_locations=[str(cls.folder)]
            )
        return None


if not (_Path(__file__).parent / "kernels").is_dir() and (_KernelsBeside.folder.parent / "pyproject.toml").is_file():
    _sys.meta_path.append(_KernelsBeside)

# Type checkers take this for True. The constant of `typing` would cost the import of that module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import adapters as adapters
    from . import estimation, imaging, kernels, methods, plots, rasters, solver
    from . import report as report
    from . import rows as rows
    from . import testing as testing
    from .api import fuse, fuse_many, load, memory_needed
    from .model.degradation import Degradation
    from .model.problem import Factors, Maps, Problem
    from .model.result import FailedFusion, FusionResult, Status

# What is behind a name is imported when it is first asked for: importing the package costs little more than nothing.
_HOMES = {
    "Degradation": "model.degradation",
    "Factors": "model.problem",
    "FailedFusion": "model.result",
    "FusionResult": "model.result",
    "Maps": "model.problem",
    "Problem": "model.problem",
    "Status": "model.result",
    "fuse": "api",
    "fuse_many": "api",
    "load": "api",
    "memory_needed": "api",
}
_FLOORS = (
    *("adapters", "estimation", "imaging", "kernels", "methods", "plots"),
    *("rasters", "report", "rows", "solver", "testing"),
)

__all__ = [
    "Degradation",
    "Factors",
    "FailedFusion",
    "FusionResult",
    "Maps",
    "Problem",
    "Status",
    "estimation",
    "fuse",
    "fuse_many",
    "imaging",
    "kernels",
    "load",
    "memory_needed",
    "methods",
    "plots",
    "rasters",
    "solver",
]


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
