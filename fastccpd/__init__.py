"""fastccpd: hyperspectral super-resolution by non-negative coupled CP decomposition, on ordinary multicore machines."""

from pathlib import Path as _Path

# In a source checkout the kernels live beside this folder; installed, they are the sub-package fastccpd.kernels.
_here = _Path(__file__).resolve().parent
_beside = [_here.parent / "kernels" / "__init__.py", _here.parent / "pyproject.toml"]
if not (_here / "kernels").is_dir() and all(path.is_file() for path in _beside):
    __path__.append(str(_here.parent))

from . import imaging, kernels, methods, plots  # noqa: E402
from .api import fuse, fuse_many, memory_needed  # noqa: E402
from .model.degradation import Degradation  # noqa: E402
from .model.problem import Factors, Problem  # noqa: E402
from .model.result import FusionResult, Status  # noqa: E402

__all__ = [
    "Degradation",
    "Factors",
    "FusionResult",
    "Problem",
    "Status",
    "fuse",
    "fuse_many",
    "imaging",
    "kernels",
    "memory_needed",
    "methods",
    "plots",
]
