"""fastccpd: hyperspectral super-resolution by non-negative coupled CP decomposition, on ordinary multicore machines."""

from pathlib import Path as _Path

# In a source checkout the kernels live beside this folder; installed, they are the sub-package fastccpd.kernels.
_here = _Path(__file__).resolve().parent
if not (_here / "kernels").is_dir() and (_here.parent / "kernels" / "__init__.py").is_file():
    if (_here.parent / "pyproject.toml").is_file():
        __path__.append(str(_here.parent))

from . import kernels, methods
from .api import fuse, memory_needed
from .model.degradation import Degradation
from .model.problem import Factors, Problem
from .model.result import FusionResult, Status

__all__ = [
    "Degradation",
    "Factors",
    "FusionResult",
    "Problem",
    "Status",
    "fuse",
    "kernels",
    "memory_needed",
    "methods",
]
